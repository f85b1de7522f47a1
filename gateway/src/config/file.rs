//! The configuration file as it is written: every key there is, nothing checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use super::{LogFormat, Problem};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub id: String,
    #[serde(default = "default::replicas")]
    pub replicas: u32,
    pub ordinal: Option<u32>,
    #[serde(default = "default::clock_skew_seconds")]
    pub clock_skew_seconds: u64,
    #[serde(default = "default::shutdown_grace_seconds")]
    pub shutdown_grace_seconds: u64,
    #[serde(default = "default::time_zone")]
    pub time_zone: String,
    pub identity: Identity,
    pub broker: Broker,
    #[serde(default)]
    pub store: Store,
    #[serde(default)]
    pub http: Http,
    #[serde(default)]
    pub log: Log,
    #[serde(default)]
    pub home_assistant: HomeAssistant,
    #[serde(default)]
    pub defaults: Cluster,
    #[serde(default)]
    pub clusters: BTreeMap<String, Cluster>,
    #[serde(default)]
    pub groups: BTreeMap<String, Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub meter_authorities: Vec<PathBuf>,
    pub gateway_authorities: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broker {
    pub url: Option<String>,
    #[serde(default)]
    pub urls: Vec<String>,
    pub ca: Option<PathBuf>,
    pub client_certificate: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
    pub username: Option<String>,
    pub password_file: Option<PathBuf>,
    #[serde(default = "default::keep_alive_seconds")]
    pub keep_alive_seconds: u16,
    #[serde(default = "default::max_packet_bytes")]
    pub max_packet_bytes: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    pub path: PathBuf,
    pub retention_days: u64,
    pub hours_retention_days: u64,
    pub cache_mebibytes: usize,
}

impl Default for Store {
    fn default() -> Self {
        let (retention_days, hours_retention_days) = (56, 1830);
        Self { path: PathBuf::from("gateway.redb"), retention_days, hours_retention_days, cache_mebibytes: 8 }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    pub listen: String,
    pub operator_listen: Option<String>,
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: "127.0.0.1:9464".to_owned(), operator_listen: None }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    pub level: String,
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Text }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HomeAssistant {
    pub enabled: bool,
    pub discovery_prefix: String,
}

impl Default for HomeAssistant {
    fn default() -> Self {
        Self { enabled: false, discovery_prefix: "homeassistant".to_owned() }
    }
}

/// A cluster, or the defaults of all.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub slot_seconds: Option<u64>,
    pub reading_seconds: Option<u64>,
    pub reveal_seconds: Option<u64>,
    pub attempts: Option<u64>,
    pub epsilon: Option<Decimal>,
    pub kind: Option<String>,
    pub range_watts: Option<[i64; 2]>,
    pub day_epsilon: Option<Decimal>,
    pub max_missing: Option<Decimal>,
    pub max_malicious: Option<Decimal>,
    pub scheme: Option<String>,
    pub partners: Option<u64>,
    pub meter_policy: Option<String>,
    pub min_members: Option<u16>,
    pub settle_seconds: Option<u64>,
    pub list_slots: Option<u64>,
    pub drop_after_slots: Option<u32>,
    pub min_interval_seconds: Option<u64>,
    pub allow_file: Option<PathBuf>,
    pub deny_file: Option<PathBuf>,
}

/// A sum of clusters.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Group {
    pub of: Vec<String>,
}

/// Writes the functions that treat all keys of a cluster alike.
macro_rules! every_key {
    ($($field:ident),* $(,)?) => {
        impl Cluster {
            /// Returns this cluster with the defaults where it says nothing.
            pub(super) fn over(&self, defaults: &Self) -> Self {
                Self { $($field: self.$field.clone().or_else(|| defaults.$field.clone())),* }
            }

            /// Returns the keys that are written here.
            pub(super) fn written(&self) -> BTreeSet<&'static str> {
                [$((stringify!($field), self.$field.is_some())),*].into_iter().filter_map(|(key, is)| is.then_some(key)).collect()
            }
        }
    };
}

every_key!(
    slot_seconds,
    reading_seconds,
    reveal_seconds,
    attempts,
    epsilon,
    kind,
    range_watts,
    day_epsilon,
    max_missing,
    max_malicious,
    scheme,
    partners,
    meter_policy,
    min_members,
    settle_seconds,
    list_slots,
    drop_after_slots,
    min_interval_seconds,
    allow_file,
    deny_file,
);

/// A decimal as it was written. A TOML float of up to 15 digits prints as it was written, so nothing is rounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal(pub String);

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a decimal, such as 0.5 or \"0.5\"")]
        enum Written {
            Integer(i64),
            Float(f64),
            Text(String),
        }
        Ok(Self(match Written::deserialize(deserializer)? {
            Written::Integer(number) => number.to_string(),
            Written::Float(number) => number.to_string(),
            Written::Text(text) => text,
        }))
    }
}

mod default {
    pub(super) fn replicas() -> u32 {
        1
    }

    pub(super) fn clock_skew_seconds() -> u64 {
        5
    }

    pub(super) fn shutdown_grace_seconds() -> u64 {
        10
    }

    pub(super) fn time_zone() -> String {
        "UTC".to_owned()
    }

    pub(super) fn keep_alive_seconds() -> u16 {
        30
    }

    pub(super) fn max_packet_bytes() -> usize {
        16 << 20
    }
}

/// Takes what a table cannot have out of it, if it is there.
fn sift<T: DeserializeOwned>(file: &mut Table, name: &str, problems: &mut Vec<Problem>) {
    if let Some(Value::Table(table)) = file.get_mut(name) {
        keep_valid::<T>(table, &format!("{name}."), problems);
    }
}

/// Does the same for each table of a table.
fn sift_each<T: DeserializeOwned>(file: &mut Table, name: &str, problems: &mut Vec<Problem>) {
    if let Some(Value::Table(tables)) = file.get_mut(name) {
        for (own, table) in tables.iter_mut() {
            if let Value::Table(table) = table {
                keep_valid::<T>(table, &format!("{name}.{own}."), problems);
            }
        }
    }
}

/// Tries every entry by itself; takes out and notes those that are refused.
fn keep_valid<T: DeserializeOwned>(table: &mut Table, prefix: &str, problems: &mut Vec<Problem>) {
    table.retain(|key, value| {
        let alone = Table::from_iter([(key.to_owned(), value.clone())]);
        // What is missing beside it is noted elsewhere.
        let error = alone.try_into::<T>().err().filter(|error| !error.message().starts_with("missing field"));
        let Some(error) = error else { return true };
        let unknown = error.message().strip_prefix("unknown field ").and_then(|rest| rest.split_once(", expected "));
        let message = unknown
            .map_or_else(|| error.message().to_owned(), |(_, known)| format!("there is no such key here; use {known}"));
        problems.push(Problem { key: format!("{prefix}{key}"), message });
        false
    });
}

/// Notes a key that is missing, unless its value was refused, and puts something in its place.
fn require(file: &mut Table, table: &str, key: &str, problems: &mut Vec<Problem>) {
    let (name, table) = if table.is_empty() {
        (key.to_owned(), file)
    } else {
        let entry = file.entry(table.to_owned()).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(found) = entry else { return };
        (format!("{table}.{key}"), found)
    };
    if table.contains_key(key) {
        return;
    }
    if !problems.iter().any(|problem| problem.key == name) {
        problems.push(Problem { key: name, message: "is missing".to_owned() });
    }
    let nothing = if key.ends_with("_authorities") { Value::Array(Vec::new()) } else { Value::String(String::new()) };
    table.insert(key.to_owned(), nothing);
}

/// The environment variables that replace a key of the file, as `DREAM_` and the key in capitals with `_` for `.`.
pub const OVERRIDABLE: [&str; 18] = [
    "id",
    "replicas",
    "ordinal",
    "time_zone",
    "identity.certificate",
    "identity.key",
    "broker.url",
    "broker.ca",
    "broker.client_certificate",
    "broker.client_key",
    "broker.username",
    "broker.password_file",
    "store.path",
    "store.retention_days",
    "store.hours_retention_days",
    "http.listen",
    "log.level",
    "log.format",
];

/// Returns the variable for a key.
pub fn variable(key: &str) -> String {
    format!("DREAM_{}", key.replace('.', "_").to_uppercase())
}

/// What replaces `identity.authorities`.
const TWO_KEYS: &str = "is two keys now; name who certifies meters in `identity.meter_authorities` and who certifies this \
    gateway in `identity.gateway_authorities`";

/// The keys that must be there.
const REQUIRED: [(&str, &str); 5] = [
    ("", "id"),
    ("identity", "certificate"),
    ("identity", "key"),
    ("identity", "meter_authorities"),
    ("identity", "gateway_authorities"),
];

impl File {
    /// Reads the file's tables. A key that does not exist, has a value of the wrong type or is missing is noted, so that
    /// everything else can be checked all the same. The error is a file that is no TOML.
    pub(super) fn read(text: &str, problems: &mut Vec<Problem>) -> Result<Self, toml::de::Error> {
        let mut file: Table = toml::from_str(text)?;
        if let Some(Value::Table(identity)) = file.get_mut("identity")
            && identity.remove("authorities").is_some()
        {
            problems.push(Problem { key: "identity.authorities".to_owned(), message: TWO_KEYS.to_owned() });
        }
        sift::<Identity>(&mut file, "identity", problems);
        sift::<Broker>(&mut file, "broker", problems);
        sift::<Store>(&mut file, "store", problems);
        sift::<Http>(&mut file, "http", problems);
        sift::<Log>(&mut file, "log", problems);
        sift::<HomeAssistant>(&mut file, "home_assistant", problems);
        sift::<Cluster>(&mut file, "defaults", problems);
        sift_each::<Cluster>(&mut file, "clusters", problems);
        sift_each::<Group>(&mut file, "groups", problems);
        keep_valid::<Self>(&mut file, "", problems);
        file.entry("broker").or_insert_with(|| Value::Table(Table::new()));
        for (table, key) in REQUIRED {
            require(&mut file, table, key, problems);
        }
        file.try_into()
    }

    /// Replaces what the environment says otherwise. Other variables that start with `DREAM_` are not ours: Kubernetes
    /// makes some for a service of that name.
    pub(super) fn apply(&mut self, environment: &BTreeMap<String, String>, problems: &mut Vec<Problem>) {
        for key in OVERRIDABLE {
            let name = variable(key);
            let Some(value) = environment.get(&name) else { continue };
            if let Err(allowed) = self.set(key, value) {
                let message = format!("`{value}`, from the environment, is not allowed; use {allowed}");
                problems.push(Problem { key: name, message });
            }
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        let text = || value.to_owned();
        let path = || Some(PathBuf::from(value));
        let number = "a whole number";
        match key {
            "id" => self.id = text(),
            "replicas" => self.replicas = value.parse().map_err(|_| number)?,
            "ordinal" => self.ordinal = Some(value.parse().map_err(|_| number)?),
            "time_zone" => self.time_zone = text(),
            "identity.certificate" => self.identity.certificate = value.into(),
            "identity.key" => self.identity.key = value.into(),
            "broker.url" => (self.broker.url, self.broker.urls) = (Some(text()), Vec::new()),
            "broker.ca" => self.broker.ca = path(),
            "broker.client_certificate" => self.broker.client_certificate = path(),
            "broker.client_key" => self.broker.client_key = path(),
            "broker.username" => self.broker.username = Some(text()),
            "broker.password_file" => self.broker.password_file = path(),
            "store.path" => self.store.path = value.into(),
            "store.retention_days" => self.store.retention_days = value.parse().map_err(|_| number)?,
            "store.hours_retention_days" => self.store.hours_retention_days = value.parse().map_err(|_| number)?,
            "http.listen" => self.http.listen = text(),
            "log.level" => self.log.level = text(),
            "log.format" => {
                self.log.format = match value {
                    "text" => LogFormat::Text,
                    "json" => LogFormat::Json,
                    _ => return Err("text or json"),
                }
            }
            _ => unreachable!("every overridable key is set above"),
        }
        Ok(())
    }
}
