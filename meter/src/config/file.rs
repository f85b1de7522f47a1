//! The configuration file as it is written: every key there is, nothing checked.

use std::path::PathBuf;

use dream_sources::SourceConfig;
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) cluster: Option<String>,
    pub(super) identity: Identity,
    pub(super) community: Broker,
    pub(super) policy: Policy,
    pub(super) source: SourceConfig,
    pub(super) home: Option<Home>,
    #[serde(default)]
    pub(super) state: State,
    #[serde(default)]
    pub(super) http: Http,
    #[serde(default)]
    pub(super) clock: Clock,
    #[serde(default)]
    pub(super) log: Log,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    #[serde(default)]
    pub(super) meter_authorities: Vec<PathBuf>,
    #[serde(default)]
    pub(super) gateway_authorities: Vec<PathBuf>,
    pub(super) one_authority: Option<String>,
    /// What an earlier version had for both.
    pub(super) authorities: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Broker {
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) urls: Vec<String>,
    pub(super) ca: Option<PathBuf>,
    pub(super) username: Option<String>,
    pub(super) password_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Policy {
    #[serde(default = "strict")]
    pub(super) profile: String,
    pub(super) gateways: Vec<String>,
    pub(super) daily_epsilon: Option<u64>,
    #[serde(default = "holds")]
    pub(super) holds: u16,
}

/// A broker's keys, and one more: serde cannot refuse unknown keys of a flattened part, so they are written out.
#[derive(Debug, Deserialize)]
#[serde(from = "HomeKeys")]
pub(super) struct Home {
    pub(super) broker: Broker,
    pub(super) discovery_prefix: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HomeKeys {
    url: Option<String>,
    #[serde(default)]
    urls: Vec<String>,
    ca: Option<PathBuf>,
    username: Option<String>,
    password_file: Option<PathBuf>,
    #[serde(default = "discovery_prefix")]
    discovery_prefix: String,
}

impl From<HomeKeys> for Home {
    fn from(keys: HomeKeys) -> Self {
        let HomeKeys { url, urls, ca, username, password_file, discovery_prefix } = keys;
        Self { broker: Broker { url, urls, ca, username, password_file }, discovery_prefix }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct State {
    pub(super) directory: PathBuf,
    pub(super) witness: PathBuf,
}

impl Default for State {
    fn default() -> Self {
        Self { directory: "/var/lib/dream-meter".into(), witness: "/var/cache/dream-meter/witness".into() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Http {
    pub(super) listen: String,
    pub(super) names: Vec<String>,
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: "127.0.0.1:9465".to_owned(), names: Vec::new() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Clock {
    pub(super) trusted: bool,
    pub(super) flag: PathBuf,
}

impl Default for Clock {
    fn default() -> Self {
        Self { trusted: false, flag: "/run/systemd/timesync/synchronized".into() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Log {
    pub(super) level: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned() }
    }
}

fn strict() -> String {
    "strict".to_owned()
}

const fn holds() -> u16 {
    10_000
}

fn discovery_prefix() -> String {
    "homeassistant".to_owned()
}
