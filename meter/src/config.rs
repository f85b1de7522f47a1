//! The configuration: one TOML file of the owner's, every mistake named with its key, secrets by their path.
//!
//! The policy is in here and nowhere else: nothing that arrives over a network can widen it. `docs/meter.md` has every key.

pub mod edit;
mod file;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use dream_edge::mqtt::{BrokerUrl, Names};
use dream_protocol::certificate::Authorities;
use dream_protocol::ids::{ClusterId, GatewayId};
use dream_protocol::policy::{Policy, Profile};
use dream_sources::{Source, SourceConfig};

use crate::broker::{COMMUNITY, HOME};
use crate::clock::SystemTimeSource;
use crate::identity::IdentityFiles;

/// How much of a day's epsilon the protocol allows at most, in millionths.
const MOST_DAILY_MICRO_EPSILON: u64 = 160_000_000;

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
    pub source: SourceConfig,
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
             each reading is blurred with epsilon 1 or less"
        }
        Profile::Community => {
            "community: your reading is hidden among those of at least 23 homes that your community's authority has counted, \
             even if three of them work for the gateway, and each reading is blurred with epsilon 2 or less"
        }
        Profile::Trial => {
            "trial: next to nothing is refused, for trying things out with readings that are nobody's; not for a home"
        }
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

/// Everything that is wrong with a configuration, each with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub file: PathBuf,
    pub problems: Vec<Problem>,
}

/// One mistake; the key is empty if the file as a whole is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub key: String,
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be used", self.file.display())?;
        for Problem { key, message } in &self.problems {
            let message = message.trim_end().replace('\n', "\n  ");
            if key.is_empty() { write!(f, "\n  {message}")? } else { write!(f, "\n  {key}: {message}")? }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads and checks a file. Paths in it are relative to its folder.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let wrong = |problems| ConfigError { file: path.to_owned(), problems };
        let whole = |message| vec![Problem { key: String::new(), message }];
        let text =
            std::fs::read_to_string(path).map_err(|error| wrong(whole(format!("it cannot be read: {error}"))))?;
        Self::parse(&text, path.parent().unwrap_or_else(|| Path::new(""))).map_err(wrong)
    }

    fn parse(text: &str, folder: &Path) -> Result<Self, Vec<Problem>> {
        let file: file::File = toml::from_str(text).map_err(|error| vec![mistake(&error, text)])?;
        let mut checker = Checker { folder, problems: Vec::new() };
        match checker.config(file) {
            Some(config) if checker.problems.is_empty() => Ok(config),
            Some(_) | None => Err(checker.problems),
        }
    }
}

/// Returns what cannot be read, or what is missing and where it comes from.
fn mistake(error: &toml::de::Error, text: &str) -> Problem {
    if error.message() == "missing field `source`" {
        let message = "it is missing: `dream-meter probe` finds out how your meter speaks, and --write adds it here";
        return Problem { key: "source".to_owned(), message: message.to_owned() };
    }
    Problem { key: String::new(), message: without_the_line(error, text) }
}

/// Returns what is wrong and where, without the line itself: somebody may have written a password into it.
fn without_the_line(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let (line, column) =
        (before.matches('\n').count() + 1, before.chars().rev().take_while(|c| *c != '\n').count() + 1);
    format!("line {line}, column {column}: {}", error.message())
}

struct Checker<'a> {
    folder: &'a Path,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn config(&mut self, file: file::File) -> Option<Config> {
        let cluster = file.cluster.map(|name| self.id("cluster", &name, ClusterId::new));
        let identity = IdentityFiles {
            certificate: self.path(file.identity.certificate),
            key: self.path(file.identity.key),
            meter_authorities: file.identity.meter_authorities.into_iter().map(|path| self.path(path)).collect(),
            gateway_authorities: file.identity.gateway_authorities.into_iter().map(|path| self.path(path)).collect(),
            one_authority: file.identity.one_authority.is_some(),
        };
        if file.identity.authorities.is_some() {
            self.problem(
                "identity.authorities",
                "`identity.meter_authorities`, for those who certify meters, and `identity.gateway_authorities`, for those who \
                 certify the gateway, replace it",
            );
        } else {
            self.authorities(&identity);
        }
        if file.identity.one_authority.is_some_and(|words| words != ONE_AUTHORITY) {
            self.problem(
                "identity.one_authority",
                format!("leave it out, or write, word for word, \"{ONE_AUTHORITY}\""),
            );
        }
        let community = self.broker("community", COMMUNITY, file.community);
        let policy = self.policy(&file.policy);
        let home = file.home.map(|home| {
            let prefix = home.discovery_prefix;
            self.broker("home", HOME, home.broker).map(|broker| Home { broker, prefix })
        });
        let http = self.http(&file.http.listen);
        let state = self.path(file.state.directory);
        let witness = self.path(file.state.witness);
        if witness.starts_with(&state) {
            self.problem(
                "state.witness",
                "it is inside `state.directory`: it must be outside, so that a copy of that directory does not bring it along",
            );
        } else if is_below(&witness, self.folder) && is_below(&state, self.folder) {
            self.problem(
                "state.witness",
                "it is beside `state.directory`, below the folder of this file: a back-up of that folder brings both along. Name a \
                 file elsewhere, such as one in ~/.cache",
            );
        }
        let time = if file.clock.trusted {
            SystemTimeSource::Trusted
        } else {
            SystemTimeSource::Asked { flag: file.clock.flag }
        };
        if file.log.level.parse::<tracing_subscriber::filter::LevelFilter>().is_err() {
            self.problem("log.level", format!("`{}`: use error, warn, info, debug or trace", file.log.level));
        }
        if let Err(error) = Source::new(file.source.clone()) {
            self.problem(format!("source.{}", error.key), error.problem);
        }
        Some(Config {
            cluster: transposed(cluster)?,
            identity,
            community: community?,
            policy: policy?,
            source: file.source,
            home: transposed(home)?,
            state,
            witness,
            http: http?,
            http_names: file.http.names,
            time,
            log_level: file.log.level,
        })
    }

    fn authorities(&mut self, identity: &IdentityFiles) {
        if identity.meter_authorities.is_empty() {
            self.problem(
                "identity.meter_authorities",
                "name at least one file with the certificate of an authority of meters",
            );
        }
        if identity.gateway_authorities.is_empty() {
            let message = "name at least one file with the certificate of an authority of gateways";
            self.problem("identity.gateway_authorities", message);
        }
    }

    fn policy(&mut self, policy: &file::Policy) -> Option<OwnerPolicy> {
        let profile = policy.profile.parse::<Profile>();
        if let Err(allowed) = &profile {
            self.problem("policy.profile", format!("`{}`: {allowed}", policy.profile));
        }
        let gateways: Vec<_> =
            policy.gateways.iter().filter_map(|name| self.id("policy.gateways", name, GatewayId::new)).collect();
        if policy.gateways.is_empty() {
            self.problem("policy.gateways", "name at least one gateway whose lists the meter may accept");
        }
        let daily_micro_epsilon = policy.daily_epsilon.map(|epsilon| epsilon.saturating_mul(1_000_000));
        if daily_micro_epsilon.is_some_and(|budget| !(1..=MOST_DAILY_MICRO_EPSILON).contains(&budget)) {
            self.problem("policy.daily_epsilon", "use 1 to 160: the protocol's own budget can only be made tighter");
        }
        if policy.holds > 10_000 {
            self.problem("policy.holds", "use 0 to 10000: no cluster has more members");
        }
        Some(OwnerPolicy { profile: profile.ok()?, gateways, daily_micro_epsilon, holds: policy.holds })
    }

    fn broker(&mut self, section: &'static str, names: Names, broker: file::Broker) -> Option<Broker> {
        let urls = self.urls(section, broker.url, broker.urls)?;
        match (urls[0].tls, &broker.ca) {
            (true, None) => self.problem(
                format!("{section}.ca"),
                "it is missing: mqtts:// needs the certificates that the broker's own is checked with",
            ),
            (false, Some(_)) => {
                self.problem(format!("{section}.ca"), "it has no effect with mqtt://; use mqtts://, or leave it out");
            }
            (true, Some(_)) | (false, None) => {}
        }
        if broker.username.is_none() && broker.password_file.is_some() {
            self.problem(format!("{section}.password_file"), "it has no effect without `username`");
        }
        let password = broker.password_file.map(|path| self.path(path));
        let login = broker.username.map(|name| (name, password));
        Some(Broker { names, urls, ca: broker.ca.map(|path| self.path(path)), login })
    }

    /// Returns at least one URL; all are with TLS, or none is.
    fn urls(&mut self, section: &'static str, url: Option<String>, urls: Vec<String>) -> Option<Vec<BrokerUrl>> {
        let (key, texts) = match (url, urls) {
            (Some(url), urls) if urls.is_empty() => (format!("{section}.url"), vec![url]),
            (None, urls) if !urls.is_empty() => (format!("{section}.urls"), urls),
            (None, _) => {
                self.problem(format!("{section}.url"), "it is missing: where does the broker listen?");
                return None;
            }
            (Some(_), _) => {
                self.problem(format!("{section}.urls"), "it is there beside `url`; use one of them");
                return None;
            }
        };
        let mut found = Vec::new();
        for text in &texts {
            let Some(url) = BrokerUrl::parse(text) else {
                // What stands before an `@` may be a password.
                let shown = if text.contains('@') { "the value".to_owned() } else { format!("`{text}`") };
                let allowed =
                    "mqtt://HOST[:1883] or mqtts://HOST[:8883], and `username` and `password_file` for a login";
                self.problem(key, format!("{shown} is not a broker's address; use {allowed}"));
                return None;
            };
            found.push(url);
        }
        if found.iter().any(|url| url.tls != found[0].tls) {
            self.problem(key, "it mixes mqtt:// and mqtts://; use one of them for all");
        }
        Some(found)
    }

    fn http(&mut self, listen: &str) -> Option<SocketAddr> {
        let address = listen.parse::<SocketAddr>().ok().filter(|address| address.ip().is_loopback());
        if address.is_none() {
            let message = "use an address of the loopback, such as 127.0.0.1:9465: the page is for this machine";
            self.problem("http.listen", format!("`{listen}`: {message}"));
        }
        address
    }

    fn id<T, E: fmt::Display>(&mut self, key: &str, text: &str, parse: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        parse(text).inspect_err(|error| self.problem(key, format!("`{text}`: {error}"))).ok()
    }

    fn path(&self, path: PathBuf) -> PathBuf {
        self.folder.join(path)
    }

    fn problem(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { key: key.into(), message: message.into() });
    }
}

fn is_below(path: &Path, folder: &Path) -> bool {
    // The folder of `meter.toml` alone is empty.
    let absolute = |path: &Path| std::path::absolute(Path::new(".").join(path)).unwrap_or_else(|_| path.to_owned());
    let below = absolute(path).strip_prefix(absolute(folder)).map(Path::to_owned);
    below.is_ok_and(|rest| !rest.components().any(|part| part == std::path::Component::ParentDir))
}

/// Returns `None` if there was something that is not sound.
fn transposed<T>(found: Option<Option<T>>) -> Option<Option<T>> {
    found.map_or(Some(None), |checked| checked.map(Some))
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

    fn problems(text: &str) -> Vec<String> {
        let found = Config::parse(text, Path::new("/etc/dream-meter")).unwrap_err();
        found.into_iter().map(|problem| format!("{}: {}", problem.key, problem.message)).collect()
    }

    #[test]
    fn paths_are_relative_to_the_file_and_what_is_left_out_has_defaults() {
        let config = Config::parse(SOUND, Path::new("/etc/dream-meter")).unwrap();
        assert_eq!(config.identity.key, Path::new("/etc/dream-meter/meter.key"));
        assert_eq!(config.community.to_string(), "mqtts://broker.example:8883");
        assert_eq!(config.policy.holds, 10_000);
        assert_eq!(config.state, Path::new("/var/lib/dream-meter"));
        assert_eq!(config.http.to_string(), "127.0.0.1:9465");
        assert!(config.home.is_none() && config.cluster.is_none());
    }

    #[test]
    fn an_unknown_key_is_refused_wherever_it_stands() {
        for (line, key) in [("[policy]\n", "epsilon"), ("[community]\n", "retain"), ("[identity]\n", "password")] {
            let text = SOUND.replace(line, &format!("{line}{key} = 1\n"));
            let found = problems(&text);
            assert!(found[0].contains(&format!("unknown field `{key}`")), "{found:?}");
        }
        assert!(problems(&format!("noise = false\n{SOUND}"))[0].contains("unknown field `noise`"));
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
        let keys: Vec<&str> = found.iter().map(|problem| problem.split(": ").next().unwrap()).collect();
        assert_eq!(
            keys,
            [
                "community.ca",
                "policy.profile",
                "policy.gateways",
                "policy.daily_epsilon",
                "policy.holds",
                "home.url",
                "http.listen",
                "state.witness"
            ]
        );
        assert!(!found.concat().contains("hunter2"));
    }

    #[test]
    fn one_authority_for_both_takes_the_owners_own_words() {
        let with = |words: &str| SOUND.replace("[community]", &format!("one_authority = \"{words}\"\n[community]"));
        let found = problems(&with("yes"));
        assert!(found[0].starts_with("identity.one_authority: ") && found[0].contains(ONE_AUTHORITY), "{found:?}");
        let config = Config::parse(&with(ONE_AUTHORITY), Path::new("/etc/dream-meter")).unwrap();
        assert!(config.identity.one_authority);
    }

    #[test]
    fn the_key_of_an_earlier_version_says_what_replaces_it() {
        let earlier = SOUND
            .replace("meter_authorities = [\"meter-authority.pem\"]", "authorities = [\"authority.pem\"]")
            .replace("gateway_authorities = [\"gateway-authority.pem\"]\n", "");
        let found = problems(&earlier);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("identity.authorities: ") && found[0].contains("identity.gateway_authorities"));
    }

    #[test]
    fn a_witness_that_a_back_up_brings_along_is_refused() {
        let with = |state: &str| format!("{SOUND}[state]\n{state}\n");
        for state in
            ["directory = \"state\"\nwitness = \"witness\"", "directory = \"/etc/dream-meter/x/y\"\nwitness = \"w\""]
        {
            assert!(problems(&with(state))[0].starts_with("state.witness: it is beside"), "{state}");
        }
        for state in [
            "directory = \"state\"\nwitness = \"/var/cache/w\"",
            "witness = \"w\"",
            "directory = \"s\"\nwitness = \"../w\"",
        ] {
            assert!(Config::parse(&with(state), Path::new("/etc/dream-meter")).is_ok(), "{state}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_not_repeated() {
        let found = problems("[community]\nurl = mqtt://me:hunter2@broker\n");
        assert!(found[0].contains("line 2") && !found[0].contains("hunter2"), "{found:?}");
    }

    #[test]
    fn an_owner_can_only_tighten_the_budget() {
        let tight = SOUND.replace("gateways =", "daily_epsilon = 72\ngateways =");
        let config = Config::parse(&tight, Path::new("")).unwrap();
        let policy = config.policy.with(Authorities::none());
        assert_eq!(policy.daily_micro_epsilon, 72_000_000);
        assert!(policy.certified_size);
    }
}
