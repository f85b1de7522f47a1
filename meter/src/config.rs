//! The configuration: one TOML file of the owner's, every mistake named with its line and key, secrets by their path.
//!
//! The policy is in here and nowhere else: nothing that arrives over a network can widen it. `docs/meter.md` has every key.

pub mod edit;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use dream_edge::config::{Section, Variables, read, read_text};
use dream_edge::mqtt::{BrokerUrl, Names};
use dream_protocol::certificate::Authorities;
use dream_protocol::ids::{ClusterId, GatewayId};
use dream_protocol::policy::{Policy, Profile};
use dream_sources::Source;

use crate::broker::{COMMUNITY, HOME};
use crate::clock::SystemTimeSource;
use crate::est::EnrolUrl;
use crate::identity::IdentityFiles;
use crate::invitation::Fingerprint;

pub use dream_edge::config::ConfigError;

/// What an owner has to write, word for word, to trust one authority in both roles.
pub const ONE_AUTHORITY: &str = "I accept that whoever certifies the gateway can invent meters and read my home";

/// What that means, in words for the owner.
pub const ONE_AUTHORITY_MEANS: &str = "one authority certifies the meters and the gateway: it can invent meters, list them beside your home, and read your home";

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The cluster, if the certificate does not name it.
    pub cluster: Option<ClusterId>,
    pub identity: IdentityFiles,
    pub community: Broker,
    pub policy: OwnerPolicy,
    pub source: Source,
    /// The home's own broker, for Home Assistant.
    pub home: Option<Home>,
    /// Where records are kept.
    pub state: PathBuf,
    /// The file outside that directory which counts commits.
    pub witness: PathBuf,
    pub http: SocketAddr,
    /// By which names the page answers beside those of the loopback.
    pub http_names: Vec<String>,
    pub time: SystemTimeSource,
    pub log_level: String,
    /// Where the certificate is renewed; `None`: by hand.
    pub renewal: Option<Renewal>,
}

/// Where certificates are renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    pub url: EnrolUrl,
    /// The certificate that answers there.
    pub server: Fingerprint,
}

/// What the owner allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerPolicy {
    pub profile: Profile,
    pub gateways: Vec<GatewayId>,
    /// A tighter budget than the protocol's, in millionths of epsilon.
    pub daily_micro_epsilon: Option<u64>,
    /// Of how large a cluster the meter is willing to be a holder.
    pub holds: u16,
}

impl OwnerPolicy {
    /// Returns the policy for the protocol's machine.
    pub fn with(&self, authorities: Authorities) -> Policy {
        let policy = Policy::new(authorities, self.gateways.iter().cloned()).with_profile(self.profile);
        let daily_micro_epsilon = self.daily_micro_epsilon.unwrap_or(policy.daily_micro_epsilon);
        Policy { daily_micro_epsilon, holds: self.holds, ..policy }
    }
}

/// Says in one plain sentence what a profile means for the home.
pub const fn meaning(profile: Profile) -> &'static str {
    match profile {
        Profile::Strict => {
            "strict: your reading is hidden among those of at least 50 homes, even if ten of them work for the gateway, and \
             each reading is blurred with epsilon 1 or less, a whole day with epsilon 11.7 or less"
        }
        Profile::Community => {
            "community: your reading is hidden among those of at least 23 homes that your community's authority has counted, \
             even if three of them work for the gateway, each reading is blurred with epsilon 2 or less, and a whole day with epsilon 48 or less"
        }
        Profile::Trial => "trial: almost nothing is refused; for tests with made-up readings, never for a home",
    }
}

/// How to reach a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// What its settings are called.
    pub names: Names,
    /// In the order in which they are tried: all with TLS, or none.
    pub urls: Vec<BrokerUrl>,
    /// The certificates that its own is checked with; `None` without TLS.
    pub ca: Option<PathBuf>,
    /// The user name, and the file whose first line is the password.
    pub login: Option<(String, Option<PathBuf>)>,
}

impl fmt::Display for Broker {
    /// The addresses, and nothing of a login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<String> = self.urls.iter().map(ToString::to_string).collect();
        f.write_str(&urls.join(", "))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    pub broker: Broker,
    /// Home Assistant's discovery prefix.
    pub prefix: String,
}

impl Config {
    /// Reads and checks a file. Paths in it are relative to its folder, but for those in `[source]`.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let (config, report) = read(path, &Variables::default(), config);
        report.finish(config.flatten())
    }
}

/// Returns every key but those of `[source]`.
pub fn keys() -> Vec<String> {
    let (_, report) = read_text(Path::new(""), "[home]\n[renewal]", &Variables::default(), config);
    report.keys
}

fn config(root: &Section<'_>) -> Option<Config> {
    let cluster = root.key("cluster").parsed(ClusterId::new);
    let identity = identity(&root.section("identity"));
    let community = broker(COMMUNITY, &root.section("community"));
    let policy = policy(&root.section("policy"));
    let home = root.optional("home").map(|section| {
        let prefix = section.key("discovery_prefix").text().unwrap_or_else(|| "homeassistant".to_owned());
        Some(Home { broker: broker(HOME, &section)?, prefix })
    });
    let (state, witness) = state(&root.section("state"));
    let (http, http_names) = http(&root.section("http"));
    let time = time(&root.section("clock"));
    let log_level = log_level(&root.section("log"));
    let renewal = root.optional("renewal").map(|section| {
        let url = section.key("url").required("\"https://authority.example\"").parsed(str::parse);
        let server = section.key("server").required("the fingerprint that the invitation had");
        let server = server.parsed(|text| text.parse::<Fingerprint>());
        Some(Renewal { url: url?, server: server? })
    });
    let source = match root.optional("source") {
        Some(section) => Source::read(&section),
        None => {
            let message = "`dream-meter probe` detects what your meter speaks, and --write adds it here";
            root.missing("source", message);
            None
        }
    };
    Some(Config {
        cluster,
        identity: identity?,
        community: community?,
        policy: policy?,
        source: source?,
        home: home.flatten(),
        state,
        witness,
        http,
        http_names,
        time,
        log_level,
        renewal: renewal.flatten(),
    })
}

fn identity(section: &Section<'_>) -> Option<IdentityFiles> {
    section.retired(
        "authorities",
        &["meter_authorities", "gateway_authorities"],
        "replaced by two keys: `meter_authorities` for those who certify meters, and `gateway_authorities` for those who certify \
         the gateway",
    );
    let certificate = section.key("certificate").required("\"meter.pem\"").path();
    let key = section.key("key").required("\"meter.key\"").path();
    let meters = section.key("meter_authorities").required("[\"meter-authorities.pem\"]").paths();
    let gateways = section.key("gateway_authorities").required("[\"gateway-authorities.pem\"]").paths();
    for (name, found) in [("meter_authorities", &meters), ("gateway_authorities", &gateways)] {
        if found.as_ref().is_some_and(Vec::is_empty) {
            section.wrong(name, "this list is empty; name at least one file with the certificate of an authority");
        }
    }
    let accepts = |words: &str| {
        if words == ONE_AUTHORITY {
            Ok(())
        } else {
            Err(format!("leave it out, or write, word for word, {ONE_AUTHORITY:?}"))
        }
    };
    let one_authority = section.key("one_authority").parsed(accepts).is_some();
    let (meter_authorities, gateway_authorities) = (meters?, gateways?);
    Some(IdentityFiles { certificate: certificate?, key: key?, meter_authorities, gateway_authorities, one_authority })
}

fn policy(section: &Section<'_>) -> Option<OwnerPolicy> {
    let profiles = Profile::ALL.map(|profile| (profile.as_str(), profile));
    let profile = section.key("profile").one_of(&profiles).unwrap_or(Profile::Strict);
    let names = section.key("gateways").required("[\"gw-1\"]").texts();
    if names.as_ref().is_some_and(Vec::is_empty) {
        section.wrong("gateways", "this list is empty; name at least one gateway whose lists the meter may accept");
    }
    // The protocol's own budget can only be made tighter.
    let daily = section.key("daily_epsilon").number(1..=160u64);
    let holds = section.key("holds").number(0..=10_000).unwrap_or(10_000);
    let gateways = names?.into_iter().filter_map(|name| {
        GatewayId::new(&name).map_err(|error| section.wrong("gateways", format!("{name:?}: {error}"))).ok()
    });
    let daily_micro_epsilon = daily.map(|epsilon| epsilon * 1_000_000);
    Some(OwnerPolicy { profile, gateways: gateways.collect(), daily_micro_epsilon, holds })
}

fn broker(names: Names, section: &Section<'_>) -> Option<Broker> {
    let urls = BrokerUrl::read(section, section.key("url"));
    let ca = section.key("ca").path();
    let username = section.key("username").text();
    let password_file = section.key("password_file").path();
    if username.is_none() && password_file.is_some() {
        section.wrong("password_file", "has no effect without `username`");
    }
    let login = username.map(|username| (username, password_file));
    let urls = urls?;
    match (urls[0].tls, section.has("ca")) {
        (true, false) => {
            section.missing("ca", "mqtts:// needs the CA certificates that verify the broker");
        }
        (false, true) => section.wrong("ca", "has no effect with mqtt://; use mqtts://, or leave it out"),
        (true, true) | (false, false) => {}
    }
    Some(Broker { names, urls, ca, login })
}

/// Reads where records are kept, and the file outside which counts commits.
fn state(section: &Section<'_>) -> (PathBuf, PathBuf) {
    let state = section.key("directory").path().unwrap_or_else(|| "/var/lib/dream-meter".into());
    let witness = section.key("witness").path().unwrap_or_else(|| "/var/cache/dream-meter/witness".into());
    let folder = section.resolve("");
    if witness.starts_with(&state) {
        section.wrong(
            "witness",
            "it is inside `directory`: it must be outside, so that a copy of that directory does not include it",
        );
    } else if is_below(&witness, &folder) && is_below(&state, &folder) {
        section.wrong(
            "witness",
            "it is beside `directory`, below the folder of this file: a backup of that folder includes both. Name a \
             file elsewhere, such as one in ~/.cache",
        );
    }
    (state, witness)
}

fn http(section: &Section<'_>) -> (SocketAddr, Vec<String>) {
    let listen = section.key("listen").parsed(|text| {
        let address = text.parse::<SocketAddr>().ok().filter(|address| address.ip().is_loopback());
        address.ok_or("use a loopback address, such as 127.0.0.1:9465: the page is for this machine")
    });
    let names = section.key("names").texts().unwrap_or_default();
    (listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 9465))), names)
}

fn time(section: &Section<'_>) -> SystemTimeSource {
    let is_trusted = section.key("trusted").flag().unwrap_or(false);
    let flag = section.key("flag").text().unwrap_or_else(|| "/run/systemd/timesync/synchronized".to_owned());
    if is_trusted { SystemTimeSource::Trusted } else { SystemTimeSource::Asked { flag: flag.into() } }
}

fn log_level(section: &Section<'_>) -> String {
    let levels = ["error", "warn", "info", "debug", "trace"].map(|level| (level, level));
    section.key("level").one_of(&levels).unwrap_or("info").to_owned()
}

fn is_below(path: &Path, folder: &Path) -> bool {
    // The folder of `meter.toml` alone is empty.
    let absolute = |path: &Path| std::path::absolute(Path::new(".").join(path)).unwrap_or_else(|_| path.to_owned());
    let below = absolute(path).strip_prefix(absolute(folder)).map(Path::to_owned);
    below.is_ok_and(|rest| !rest.components().any(|part| part == std::path::Component::ParentDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"
[identity]
certificate = "meter.pem"
key = "meter.key"
meter_authorities = ["meter-authority.pem"]
gateway_authorities = ["gateway-authority.pem"]
[community]
url = "mqtts://broker.example"
ca = "broker-ca.pem"
[policy]
profile = "community"
gateways = ["gw-1"]
[source]
kind = "lines"
interval_seconds = 1
"#;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        let (found, report) = read_text(Path::new("/etc/dream-meter/meter.toml"), text, &Variables::default(), config);
        report.finish(found.flatten())
    }

    /// The mistakes, as they are printed after the file's name.
    fn problems(text: &str) -> Vec<String> {
        let told = parse(text).unwrap_err().to_string();
        told.lines().skip(1).map(|line| line.trim_start_matches("/etc/dream-meter/meter.toml:").to_owned()).collect()
    }

    #[test]
    fn paths_are_relative_to_the_file_and_what_is_left_out_has_defaults() {
        let config = parse(SOUND).unwrap();
        assert_eq!(config.identity.key, Path::new("/etc/dream-meter/meter.key"));
        assert_eq!(config.community.to_string(), "mqtts://broker.example:8883");
        assert_eq!(config.policy.holds, 10_000);
        assert_eq!(config.state, Path::new("/var/lib/dream-meter"));
        assert_eq!(config.http.to_string(), "127.0.0.1:9465");
        assert!(config.home.is_none() && config.cluster.is_none());
    }

    #[test]
    fn an_unknown_key_is_refused_wherever_it_stands() {
        for (section, key) in
            [("policy", "epsilon"), ("community", "retain"), ("identity", "password"), ("source", "noise")]
        {
            let text = SOUND.replace(&format!("[{section}]\n"), &format!("[{section}]\n{key} = 1\n"));
            let found = problems(&text);
            assert!(found[0].contains(&format!(" unknown key `{section}.{key}`")) && found.len() == 1, "{found:?}");
        }
        assert!(problems(&format!("noise = false\n{SOUND}"))[0].starts_with("1: unknown key `noise`"));
    }

    #[test]
    fn every_mistake_is_named_with_its_key() {
        let text = SOUND
            .replace("\"community\"", "\"lax\"")
            .replace("[\"gw-1\"]", "[\"GW 1\"]\nholds = 20000\ndaily_epsilon = 200")
            .replace("ca = \"broker-ca.pem\"", "")
            + "[http]\nlisten = \"0.0.0.0:80\"\n[state]\ndirectory = \"state\"\nwitness = \"state/witness\"\n\
               [home]\nurl = \"mqtt://me:hunter2@home\"\n";
        let found = problems(&text);
        let keys: Vec<_> =
            found.iter().map(|problem| problem.splitn(3, ": ").take(2).collect::<Vec<_>>().join(" ")).collect();
        let expected = [
            "7 community.ca",
            "11 policy.profile",
            "12 policy.gateways",
            "13 policy.holds",
            "14 policy.daily_epsilon",
            "19 http.listen",
            "22 state.witness",
            "24 home.url",
        ];
        assert_eq!(keys, expected.map(|place| format!(" {place}").trim().to_owned()));
        assert!(!found.concat().contains("hunter2"));
    }

    #[test]
    fn one_authority_for_both_takes_the_owners_own_words() {
        let with = |words: &str| SOUND.replace("[community]", &format!("one_authority = \"{words}\"\n[community]"));
        let found = problems(&with("yes"));
        assert!(found[0].contains(" identity.one_authority: ") && found[0].contains(ONE_AUTHORITY), "{found:?}");
        let config = parse(&with(ONE_AUTHORITY)).unwrap();
        assert!(config.identity.one_authority);
    }

    #[test]
    fn the_key_of_an_earlier_version_says_what_replaces_it() {
        let earlier = SOUND
            .replace("meter_authorities = [\"meter-authority.pem\"]", "authorities = [\"authority.pem\"]")
            .replace("gateway_authorities = [\"gateway-authority.pem\"]\n", "");
        let found = problems(&earlier);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(" identity.authorities: ") && found[0].contains("`gateway_authorities`"));
    }

    #[test]
    fn a_witness_that_a_back_up_brings_along_is_refused() {
        let with = |state: &str| format!("{SOUND}[state]\n{state}\n");
        for state in
            ["directory = \"state\"\nwitness = \"witness\"", "directory = \"/etc/dream-meter/x/y\"\nwitness = \"w\""]
        {
            assert!(problems(&with(state))[0].contains("state.witness: it is beside"), "{state}");
        }
        for state in [
            "directory = \"state\"\nwitness = \"/var/cache/w\"",
            "witness = \"w\"",
            "directory = \"s\"\nwitness = \"../w\"",
        ] {
            assert!(parse(&with(state)).is_ok(), "{state}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_not_repeated() {
        let found = problems("[community]\nurl = mqtt://me:hunter2@broker\n");
        assert!(found[0].starts_with("2: not TOML: ") && !found[0].contains("hunter2"), "{found:?}");
    }

    #[test]
    fn an_owner_can_only_tighten_the_budget() {
        let tight = SOUND.replace("gateways =", "daily_epsilon = 72\ngateways =");
        let config = parse(&tight).unwrap();
        let policy = config.policy.with(Authorities::none());
        assert_eq!(policy.daily_micro_epsilon, 72_000_000);
        assert!(policy.certified_size);
    }
}
