//! What a gateway has of its configuration, in words, and how that differs from another: what a reload changes, by name.
//!
//! Nothing here is a secret: the configuration names secrets by their files, and of users and tokens only names and roles are kept. It
//! names meters, so it is for operators alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use dream_edge::cut_off::CutOffTable;
use dream_protocol::cluster::RosterRules;
use dream_protocol::params::Terms;
use dream_protocol::scheme::Scheme;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tracing::{info, warn};

use super::access::{Logins, Open, Proxy, Rights, hex};
use super::certificates::{self, NamedCertificate};
use super::decimal::Fraction;
use super::remote_write::{ReceiverLogin, RemoteWrite};
use super::secrets::SecretError;
use super::{
    Broker, BrokerTls, ClusterSettings, Config, Group, Http, HttpTls, Identity, Log, LogFormat, Login, Place, Postgres,
    Store,
};

/// What the gateway's own keys are listed under.
const GATEWAY: &str = "gateway";

/// Keys that a running gateway keeps until it is restarted: these, and those in a section that ends with a dot.
const NEED_A_RESTART: [&str; 17] = [
    "id",
    "replicas",
    "ordinal",
    "shutdown_grace_seconds",
    "time_zone",
    "broker.",
    "store.path",
    "store.cache_mebibytes",
    "store.url",
    "store.ca",
    "store.password_file",
    "store.keys",
    "store.lease_seconds",
    "http.listen",
    "http.tls",
    "log.format",
    "remote_write.",
];

/// The keys of the gateway, of each cluster, group, user and token, and the ends of certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot(BTreeMap<String, Keys>);

type Keys = BTreeMap<String, Value>;

/// What a key is set to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Text(String),
    /// The meters of a file.
    Meters(BTreeSet<String>),
}

/// A difference between two configurations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    Added { what: String },
    Removed { what: String },
    Changed { what: String, keys: Vec<KeyChange> },
}

/// A key that has another value; `None` where it is not set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyChange {
    pub key: String,
    pub old: Option<Value>,
    pub new: Option<Value>,
    /// Whether a running gateway keeps the old one until it is restarted.
    pub needs_restart: bool,
}

impl Snapshot {
    /// Takes down a configuration and the ends of the certificates that it names, but for what [`Snapshot::of_http`] has.
    pub fn of(config: &Config) -> Self {
        let mut all = Self::default();
        all.0.insert(GATEWAY.to_owned(), gateway(config));
        for (id, settings) in &config.clusters {
            all.0.insert(format!("cluster {id}"), cluster(settings));
        }
        for (id, Group { of, clusters: _, slot_seconds: _ }) in &config.groups {
            let mut keys = Keys::default();
            keys.list("of", of);
            all.0.insert(format!("group {id}"), keys);
        }
        all.add_certificates(certificates::named(config));
        all
    }

    /// Takes down who may log in over HTTP, and the end of its certificate.
    pub fn of_http(http: &Http, logins: &Logins) -> Self {
        let mut all = Self::default();
        let users = logins.users.iter().map(|(name, user)| ("user", name, &user.rights));
        let tokens = logins.tokens.iter().map(|(name, token)| ("token", name, &token.rights));
        for (kind, name, Rights { role, clusters }) in users.chain(tokens) {
            let mut keys = Keys::default();
            keys.text("role", role);
            if let Some(clusters) = clusters {
                keys.list("clusters", clusters);
            }
            all.0.insert(format!("{kind} {name}"), keys);
        }
        all.add_certificates(http.tls.iter().flat_map(certificates::of_http));
        all
    }

    fn add_certificates(&mut self, found: impl IntoIterator<Item = Result<NamedCertificate, SecretError>>) {
        for certificate in found.into_iter().flatten() {
            let name = match certificate.is_authority {
                true => format!("certificate {} ({})", certificate.key, certificate.subject),
                false => format!("certificate {}", certificate.key),
            };
            let keys = self.0.entry(name).or_default();
            // An authority that is being replaced has two of one name.
            keys.add("end", &certificate.end());
            keys.add("sha256", &certificate.fingerprint);
        }
    }

    /// Adds what another has.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns the value of a key of the gateway.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(GATEWAY)?.get(key)
    }

    /// Returns how a later configuration differs.
    pub fn changes(&self, later: &Self) -> Vec<Change> {
        let names: BTreeSet<&String> = self.0.keys().chain(later.0.keys()).collect();
        let change = |what: &String| match (self.0.get(what), later.0.get(what)) {
            (Some(old), Some(new)) => {
                let keys = key_changes(what, old, new);
                (!keys.is_empty()).then(|| Change::Changed { what: what.clone(), keys })
            }
            (None, Some(new)) => Some(Change::Added { what: with_end(what, new) }),
            (Some(old), None) => Some(Change::Removed { what: with_end(what, old) }),
            (None, None) => None,
        };
        names.into_iter().filter_map(change).collect()
    }

    /// Returns what a gateway has that was told of a later configuration: the keys that need a restart are as before.
    #[must_use]
    pub fn reloaded(&self, mut later: Self) -> Self {
        for change in self.changes(&later) {
            let Change::Changed { what, keys } = change else { continue };
            let Some(kept) = later.0.get_mut(&what) else { continue };
            for KeyChange { key, old, .. } in keys.into_iter().filter(|change| change.needs_restart) {
                match old {
                    Some(old) => drop(kept.insert(key, old)),
                    None => drop(kept.remove(&key)),
                }
            }
        }
        later
    }
}

fn key_changes(what: &str, old: &Keys, new: &Keys) -> Vec<KeyChange> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed = names.into_iter().filter(|key| old.get(*key) != new.get(*key));
    let change = |key: &String| {
        let (old, new) = (old.get(key).cloned(), new.get(key).cloned());
        let is_switched = old.is_some() != new.is_some();
        let needs_restart = what == GATEWAY
            && NEED_A_RESTART.iter().any(|needs| match *needs {
                // Other files count at once; to begin or end TLS takes a restart.
                "http.tls" => is_switched && key.starts_with("http.tls_"),
                needs => key == needs || (needs.ends_with('.') && key.starts_with(needs)),
            });
        KeyChange { key: key.clone(), old, new, needs_restart }
    };
    changed.map(change).collect()
}

/// Returns the name of something, with its end if it is a certificate.
fn with_end(what: &str, keys: &Keys) -> String {
    match keys.get("end") {
        Some(Value::Text(end)) => format!("{what}, which ends {end}"),
        _ => what.to_owned(),
    }
}

impl Change {
    /// Returns what is different, and the change in words, without what needs a restart; `None` if that is all.
    fn now(&self, names: bool) -> Option<(&str, &'static str, String)> {
        match self {
            Self::Added { what } => Some((what, "added", String::new())),
            Self::Removed { what } => Some((what, "removed", String::new())),
            Self::Changed { what, keys } => words(keys, false, names).map(|keys| (what.as_str(), "changed", keys)),
        }
    }

    /// Returns the keys that are to be changed by a restart, in words.
    fn later(&self, names: bool) -> Option<String> {
        let Self::Changed { keys, .. } = self else { return None };
        words(keys, true, names)
    }

    /// Returns whether all of it needs a restart.
    pub fn needs_restart(&self) -> bool {
        self.now(false).is_none()
    }
}

/// Says in the log what a reload changed. Meters are counted there, not named.
pub fn log(changes: &[Change]) {
    for (what, how, keys) in changes.iter().filter_map(|change| change.now(false)) {
        match how {
            "changed" => info!(what, keys, "configuration: changed"),
            how => info!(what, "configuration: {how}"),
        }
    }
    for keys in changes.iter().filter_map(|change| change.later(false)) {
        warn!(keys, "configuration: changing these keys needs a restart; keeping their current values");
    }
}

/// Writes a line for each change.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        if let Some((what, how, keys)) = self.now(true) {
            let sign = if keys.is_empty() { "" } else { ": " };
            write!(f, "{how:<8} {what}{sign}{keys}")?;
            between = "\n";
        }
        match self.later(true) {
            Some(keys) => write!(f, "{between}restart  {keys}"),
            None => Ok(()),
        }
    }
}

fn words(keys: &[KeyChange], needs_restart: bool, names: bool) -> Option<String> {
    let some: Vec<String> =
        keys.iter().filter(|key| key.needs_restart == needs_restart).map(|key| key.words(names)).collect();
    (!some.is_empty()).then(|| some.join(", "))
}

/// How many meters of a file are named.
const NAMED: usize = 10;

impl KeyChange {
    fn words(&self, names: bool) -> String {
        let Self { key, old, new, .. } = self;
        let none = BTreeSet::new();
        let meters = |value: &'_ Option<Value>| match value {
            Some(Value::Meters(meters)) => Some(meters.clone()),
            None => Some(none.clone()),
            Some(Value::Text(_)) => None,
        };
        let is_of_meters = [old, new].iter().any(|value| matches!(value, Some(Value::Meters(_))));
        let Some((before, after)) = meters(old).zip(meters(new)).filter(|_| is_of_meters) else {
            return format!("{key} {} -> {}", shown(old), shown(new));
        };
        let mut text = format!("{key} {} -> {}", shown(old), shown(new));
        for (sign, some) in [("added", after.difference(&before)), ("removed", before.difference(&after))] {
            let all: Vec<&String> = some.collect();
            if all.is_empty() {
                continue;
            }
            write!(text, ", {} {sign}", all.len()).expect("a String takes everything");
            if names {
                let first: Vec<&str> = all.iter().take(NAMED).map(|meter| meter.as_str()).collect();
                let more = if all.len() > NAMED { " ..." } else { "" };
                write!(text, " ({}{more})", first.join(" ")).expect("a String takes everything");
            }
        }
        text
    }
}

fn shown(value: &Option<Value>) -> String {
    match value {
        None => "not set".to_owned(),
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Meters(meters)) => format!("{} meters", meters.len()),
    }
}

trait Set {
    fn text(&mut self, key: &str, value: impl fmt::Display);
    fn list<T: fmt::Display>(&mut self, key: &str, values: impl IntoIterator<Item = T>);
    fn add(&mut self, key: &str, value: &str);
}

impl Set for Keys {
    fn text(&mut self, key: &str, value: impl fmt::Display) {
        self.insert(key.to_owned(), Value::Text(value.to_string()));
    }

    fn list<T: fmt::Display>(&mut self, key: &str, values: impl IntoIterator<Item = T>) {
        let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
        self.text(key, format!("[{}]", values.join(", ")));
    }

    fn add(&mut self, key: &str, value: &str) {
        match self.get_mut(key) {
            Some(Value::Text(text)) => *text = format!("{text}, {value}"),
            _ => self.text(key, value),
        }
    }
}

// Every field is named, so that a new one does not compile until it is here.

fn gateway(config: &Config) -> Keys {
    let Config {
        id,
        replicas,
        ordinal,
        clock_skew_seconds,
        shutdown_grace_seconds,
        time_zone,
        identity: Identity { certificate, key, meter_authorities, gateway_authorities },
        broker,
        store: Store { place, retention_days, hours_retention_days },
        http,
        log: Log { level, format },
        home_assistant,
        remote_write,
        clusters: _,
        groups: _,
    } = config;
    let mut keys = Keys::default();
    keys.text("id", id);
    keys.text("replicas", replicas);
    keys.text("ordinal", ordinal);
    keys.text("clock_skew_seconds", clock_skew_seconds);
    keys.text("shutdown_grace_seconds", shutdown_grace_seconds);
    keys.text("time_zone", time_zone.name());
    keys.text("identity.certificate", certificate.display());
    keys.text("identity.key", key.display());
    keys.list("identity.meter_authorities", meter_authorities.iter().map(|path| path.display()));
    keys.list("identity.gateway_authorities", gateway_authorities.iter().map(|path| path.display()));
    self::broker(broker, &mut keys);
    self::place(place, &mut keys);
    keys.text("store.retention_days", retention_days);
    keys.text("store.hours_retention_days", hours_retention_days);
    self::http(http, &mut keys);
    keys.text("log.level", level);
    keys.text("log.format", if *format == LogFormat::Json { "json" } else { "text" });
    if let Some(prefix) = home_assistant {
        keys.text("home_assistant.discovery_prefix", prefix);
    }
    if let Some(receiver) = remote_write {
        self::remote_write(receiver, &mut keys);
    }
    keys
}

fn remote_write(receiver: &RemoteWrite, keys: &mut Keys) {
    let RemoteWrite { address, ca, login, labels } = receiver;
    keys.text("remote_write.url", address);
    if let Some(ca) = ca {
        keys.text("remote_write.ca", ca.display());
    }
    match login {
        Some(ReceiverLogin::Token(file)) => keys.text("remote_write.bearer_token_file", file.display()),
        Some(ReceiverLogin::Password { username, file }) => {
            keys.text("remote_write.username", username);
            keys.text("remote_write.password_file", file.display());
        }
        None => {}
    }
    keys.list("remote_write.labels", labels.iter().map(|(name, value)| format!("{name}={value}")));
}

fn broker(broker: &Broker, keys: &mut Keys) {
    let Broker { urls, tls, login, keep_alive_seconds, max_packet_bytes } = broker;
    keys.list("broker.urls", urls);
    if let Some(BrokerTls { ca, client }) = tls {
        keys.text("broker.ca", ca.display());
        if let Some((certificate, key)) = client {
            keys.text("broker.client_certificate", certificate.display());
            keys.text("broker.client_key", key.display());
        }
    }
    if let Some(Login { username, password_file }) = login {
        keys.text("broker.username", username);
        if let Some(file) = password_file {
            keys.text("broker.password_file", file.display());
        }
    }
    keys.text("broker.keep_alive_seconds", keep_alive_seconds);
    keys.text("broker.max_packet_bytes", max_packet_bytes);
}

fn place(place: &Place, keys: &mut Keys) {
    match place {
        Place::File { path, cache_mebibytes } => {
            keys.text("store.path", path.display());
            keys.text("store.cache_mebibytes", cache_mebibytes);
        }
        Place::Postgres(Postgres { url, ca, password_file, keys: sealing, lease_seconds }) => {
            keys.text("store.url", url);
            if let Some(ca) = ca {
                keys.text("store.ca", ca.display());
            }
            if let Some(file) = password_file {
                keys.text("store.password_file", file.display());
            }
            keys.list("store.keys", sealing.iter().map(|path| path.display()));
            keys.text("store.lease_seconds", lease_seconds);
        }
    }
}

fn http(http: &Http, keys: &mut Keys) {
    let Http { listen, tls, access_file, proxy, open: Open { health, metrics, pages } } = http;
    keys.text("http.listen", listen);
    if let Some(HttpTls { certificate, key }) = tls {
        keys.text("http.tls_certificate", certificate.display());
        keys.text("http.tls_key", key.display());
    }
    if let Some(file) = access_file {
        keys.text("http.access_file", file.display());
    }
    let open = [("health", health), ("metrics", metrics), ("pages", pages)];
    keys.list("http.open", open.iter().filter(|(_, is_open)| **is_open).map(|(name, _)| name));
    if let Some(Proxy { addresses, user_header, groups_header, operator_groups, viewer_groups }) = proxy {
        keys.list("http.proxy.addresses", addresses);
        keys.text("http.proxy.user_header", user_header);
        keys.text("http.proxy.groups_header", groups_header);
        keys.list("http.proxy.operator_groups", operator_groups);
        keys.list("http.proxy.viewer_groups", viewer_groups);
    }
}

fn cluster(settings: &ClusterSettings) -> Keys {
    let ClusterSettings {
        terms,
        scheme,
        committee_attempts,
        missing_share,
        malicious_share,
        profile,
        roster,
        kind,
        cut_off,
    } = settings;
    let Terms {
        slot_seconds,
        reading_seconds,
        reveal_seconds,
        // They follow from the shares and the number of members.
        max_missing: _,
        max_malicious: _,
        scheme: pairwise,
        lo,
        hi,
        epsilon_numerator,
        epsilon_denominator,
        day_micro_rho,
        attempts,
    } = terms;
    let RosterRules { min_members, settle_seconds, list_slots, drop_after_slots, min_interval_seconds, allow, deny } =
        roster;
    let mut keys = Keys::default();
    keys.text("slot_seconds", slot_seconds);
    keys.text("reading_seconds", reading_seconds);
    keys.text("reveal_seconds", reveal_seconds);
    keys.text("range_watts", format!("[{lo}, {hi}]"));
    keys.text("epsilon", Fraction::from((*epsilon_numerator, *epsilon_denominator)));
    keys.text("day_epsilon", format!("rho {}", Fraction::millionths(*day_micro_rho)));
    keys.text("attempts", format!("{attempts} pairwise, {committee_attempts} with a committee"));
    keys.text("scheme", scheme);
    if let Scheme::Pairwise { partners } = pairwise {
        keys.text("partners", partners);
    }
    keys.text("max_missing", missing_share);
    keys.text("max_malicious", malicious_share);
    keys.text("meter_policy", profile);
    keys.text("kind", kind);
    if *cut_off != CutOffTable::shipped() {
        let digest = Sha256::digest(format!("{cut_off:?}"));
        keys.text("cut_off_file", format!("a table of your own, {}", hex(&digest[..4])));
    }
    keys.text("min_members", min_members);
    keys.text("settle_seconds", settle_seconds);
    keys.text("list_slots", list_slots);
    keys.text("drop_after_slots", drop_after_slots);
    keys.text("min_interval_seconds", min_interval_seconds);
    for (key, meters) in [("allow_file", allow.as_ref()), ("deny_file", Some(deny))] {
        if let Some(meters) = meters {
            keys.insert(key.to_owned(), Value::Meters(meters.iter().map(ToString::to_string).collect()));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Overrides;
    use super::*;

    const TEXT: &str = "id = \"gw-1\"\n[identity]\ncertificate = \"a.pem\"\nkey = \"a.key\"\nmeter_authorities = [\"m.pem\"]\n\
                        gateway_authorities = [\"g.pem\"]\n[broker]\nurl = \"mqtt://one\"\n[clusters.north]\n";

    fn taken(text: &str) -> Snapshot {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.toml");
        std::fs::write(&path, text).unwrap();
        let config = Config::load(&path, &Overrides::default()).unwrap();
        // Paths are below a folder that is another every time.
        let folder = folder.path().display().to_string();
        let text = serde_json::to_string(&Snapshot::of(&config)).unwrap().replace(&folder, "");
        serde_json::from_str(&text).unwrap()
    }

    fn lines(old: &str, new: &str) -> String {
        let changes = taken(old).changes(&taken(new));
        changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_change_is_named_by_its_key_and_what_needs_a_restart_is_kept() {
        assert_eq!(lines(TEXT, TEXT), "");
        assert_eq!(lines(TEXT, &format!("{TEXT}kind = \"electric-heat\"\n")).lines().count(), 1);
        let faster = format!("{TEXT}slot_seconds = 300\n");
        let told = lines(TEXT, &faster);
        assert!(told.starts_with("changed  cluster north: ") && told.contains("slot_seconds 600 -> 300"), "{told}");
        let other = TEXT.replace("mqtt://one", "mqtt://two");
        assert_eq!(lines(TEXT, &other), "restart  broker.urls [mqtt://one:1883] -> [mqtt://two:1883]");
        let both = format!("log.level = \"debug\"\n{other}");
        let told = lines(TEXT, &both);
        assert_eq!(
            told,
            "changed  gateway: log.level info -> debug\nrestart  broker.urls [mqtt://one:1883] -> [mqtt://two:1883]"
        );
        let (before, later) = (taken(TEXT), taken(&both));
        let now = before.reloaded(later.clone());
        assert_eq!(now.get("broker.urls"), before.get("broker.urls"));
        assert_eq!(now.get("log.level"), later.get("log.level"));
        assert!(now.changes(&later).iter().all(Change::needs_restart));
    }

    #[test]
    fn to_begin_tls_on_http_needs_a_restart_and_to_change_its_files_does_not() {
        let with = |name: &str| format!("{TEXT}[http]\ntls_certificate = \"{name}\"\ntls_key = \"h.key\"\n");
        let told = lines(TEXT, &with("h.pem"));
        assert_eq!(told, "restart  http.tls_certificate not set -> /h.pem, http.tls_key not set -> /h.key");
        assert_eq!(lines(&with("h.pem"), &with("i.pem")), "changed  gateway: http.tls_certificate /h.pem -> /i.pem");
    }

    #[test]
    fn certificates_are_told_with_their_ends_and_two_of_one_name_together() {
        let of = |fingerprint: &str, ends: u64| NamedCertificate {
            key: "broker.ca",
            subject: "CN=Brokers".to_owned(),
            is_authority: true,
            ends,
            fingerprint: fingerprint.to_owned(),
        };
        let with = |all: &[NamedCertificate]| {
            let mut found = Snapshot::default();
            found.add_certificates(all.iter().cloned().map(Ok));
            found
        };
        let (old, new) = (of("0a", 86_400), of("0b", 172_800));
        let told = |old: &[NamedCertificate], new: &[NamedCertificate]| with(old).changes(&with(new))[0].to_string();
        assert_eq!(
            told(std::slice::from_ref(&old), &[old.clone(), new.clone()]),
            "changed  certificate broker.ca (CN=Brokers): end 1970-01-02T00:00:00Z -> 1970-01-02T00:00:00Z, \
             1970-01-03T00:00:00Z, sha256 0a -> 0a, 0b"
        );
        assert_eq!(told(&[], &[new]), "added    certificate broker.ca (CN=Brokers), which ends 1970-01-03T00:00:00Z");
    }

    #[test]
    fn users_and_tokens_are_named_without_what_lets_them_in() {
        let rights = Rights::of_all(super::super::access::Role::Operator);
        let token = super::super::access::Token { hash: [7; 32], rights: rights.clone() };
        let user = super::super::access::User { password: "$argon2id$secret".to_owned(), rights };
        let logins = Logins { users: [("anna".into(), user)].into(), tokens: [("cron".into(), token)].into() };
        let http = Http {
            listen: ([127, 0, 0, 1], 0).into(),
            tls: None,
            access_file: Some(Path::new("a").into()),
            proxy: None,
            open: Open::ALL,
        };
        let taken = serde_json::to_string(&Snapshot::of_http(&http, &logins)).unwrap();
        assert_eq!(taken, r#"{"token cron":{"role":"operator"},"user anna":{"role":"operator"}}"#);
    }
}
