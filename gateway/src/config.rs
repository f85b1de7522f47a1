//! The configuration: one TOML file, `DREAM_*` environment variables over it, every mistake named with its key.
//!
//! [`Config`] is checked: nothing that has one needs to ask again whether a value makes sense. Every key is declared in `read`;
//! `docs/configuration.md` says what they mean, and a test compares it with [`keys`].

pub mod access;
pub mod certificates;
pub(crate) mod decimal;
mod group;
mod ownership;
mod read;
mod remote_write;
pub mod secrets;
pub mod snapshot;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dream_edge::HomeKind;
use dream_edge::config::{Report, Variables};
use dream_edge::cut_off::{CutOffDay, CutOffTable};
use dream_edge::mqtt::BrokerUrl;
use dream_protocol::cluster::RosterRules;
use dream_protocol::ids::{ClusterId, GatewayId, IdError};
use dream_protocol::membership::MembershipList;
use dream_protocol::params::{Params, Share, Terms};
use dream_protocol::policy::Profile;
use dream_protocol::scheme::committee;
use dream_protocol::scheme::{COMMITTEE_FROM, Kind, Scheme, SchemeChoice};

use crate::clock::Zone;

pub use access::{Http, HttpTls};
pub use dream_edge::config::ConfigError;
pub use group::{Group, GroupId, Part};
pub(crate) use read::with_privacy;
pub use remote_write::{Address, ReceiverLogin, RemoteWrite};

/// A checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub id: GatewayId,
    pub replicas: u32,
    pub ordinal: u32,
    pub clock_skew_seconds: u64,
    pub shutdown_grace_seconds: u64,
    /// When days begin, and what clocks show where the homes are.
    pub time_zone: Zone,
    pub identity: Identity,
    pub broker: Broker,
    pub store: Store,
    pub http: Http,
    pub log: Log,
    /// The discovery prefix of Home Assistant, if clusters are announced to it.
    pub home_assistant: Option<String>,
    /// Where released sums are written to.
    pub remote_write: Option<RemoteWrite>,
    /// All clusters, also those of other replicas.
    pub clusters: BTreeMap<ClusterId, ClusterSettings>,
    /// Sums of them.
    pub groups: BTreeMap<GroupId, Group>,
}

/// Who the gateway is, and whose certificates count: files in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub meter_authorities: Vec<PathBuf>,
    pub gateway_authorities: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// In the order in which they are tried: all with TLS, or none.
    pub urls: Vec<BrokerUrl>,
    /// `mqtts://`; without it nothing on the way is encrypted by TLS.
    pub tls: Option<BrokerTls>,
    pub login: Option<Login>,
    pub keep_alive_seconds: u16,
    /// The largest packet that is normal: a membership list.
    pub max_packet_bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerTls {
    pub ca: PathBuf,
    /// The client's certificate and key.
    pub client: Option<(PathBuf, PathBuf)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub username: String,
    pub password_file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    pub place: Place,
    /// For how long slots and hours are kept. Days are kept forever.
    pub retention_days: u64,
    pub hours_retention_days: u64,
}

/// Where the store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    File { path: PathBuf, cache_mebibytes: usize },
    Postgres(Postgres),
}

/// A database, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postgres {
    /// `postgres://user@host/database`, without a password.
    pub url: String,
    /// Verifies the server; without it nothing on the way is encrypted.
    pub ca: Option<PathBuf>,
    pub password_file: Option<PathBuf>,
    /// What names a meter or holds a key is sealed under the first, and opened with any.
    pub keys: Vec<PathBuf>,
    /// How long a gateway that falls silent keeps others from taking over.
    pub lease_seconds: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    pub level: String,
    pub format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// What is agreed with a cluster's meters, and who may be one of them.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterSettings {
    /// `max_missing` and `max_malicious` are 0 here: they follow from the shares and the number of members.
    pub terms: Terms,
    /// Which schemes its lists are formed in.
    pub scheme: SchemeChoice,
    /// How many attempts a slot has in the committee scheme.
    pub committee_attempts: u64,
    pub missing_share: Share,
    pub malicious_share: Share,
    /// What its meters accept. T is never below what they ask for.
    pub profile: Profile,
    /// When lists are formed, and of whom.
    pub roster: RosterRules,
    pub kind: HomeKind,
    /// What its meters are expected to cut off.
    pub cut_off: Arc<CutOffTable>,
}

impl ClusterSettings {
    /// Returns what meters are expected to cut off under a list's parameters, if the table has such homes.
    pub fn cut_off(&self, params: &Params) -> Option<CutOffDay> {
        let Terms { lo, hi, .. } = *params.terms();
        self.cut_off.of(self.kind, (lo, hi), params.day_rms_watts())
    }

    /// Returns the parameters of a list of so many members.
    pub fn params(&self, members: u16) -> Result<Params, dream_protocol::params::ParamsError> {
        self.terms.for_members(members, self.missing_share, self.malicious_share, self.profile.floors().malicious)
    }

    /// Returns the parameters of a list of so many members in which so many of them, with these draws, are willing to be
    /// holders; an error in words if no committee can be formed of them.
    pub fn committee_params(&self, members: u16, draws: &[Option<u64>]) -> Result<Params, String> {
        let pairwise = self.params(members).map_err(|error| error.to_string())?;
        with_committee(&pairwise, self.committee_attempts, self.profile, draws)
    }

    /// Returns the parameters of a list of so many members, all of them willing to be holders, in the scheme that it would have.
    pub fn formed(&self, members: u16) -> Result<Params, String> {
        let pairwise = || self.params(members).map_err(|error| error.to_string());
        let committee = || self.committee_params(members, &even_draws(members));
        match self.scheme {
            SchemeChoice::Only(Kind::Committee) => committee(),
            SchemeChoice::Auto if members >= COMMITTEE_FROM => committee().or_else(|_| pairwise()),
            SchemeChoice::Auto | SchemeChoice::Only(Kind::Pairwise) => pairwise(),
        }
    }

    /// Returns why a list has no committee although this configuration would rather have one.
    pub fn why_no_committee(&self, list: &MembershipList) -> Option<String> {
        let params = list.params();
        let (members, terms) = (params.members(), params.terms());
        if self.scheme != SchemeChoice::Auto || members < COMMITTEE_FROM || terms.scheme.committee().is_some() {
            return None;
        }
        let day = committee::day_of(params.slot_start(list.from_slot()).as_secs());
        let willing = list.members().iter().filter(|member| member.is_willing(members));
        let draws: Vec<Option<u64>> = willing.map(|member| member.sigma(day)).collect();
        self.committee_params(members, &draws).err()
    }
}

/// Returns the same parameters with the committee that a gateway would choose of members with this policy and these draws, and
/// so many attempts; an error in words if it cannot choose one.
pub fn with_committee(
    params: &Params,
    attempts: u64,
    profile: Profile,
    draws: &[Option<u64>],
) -> Result<Params, String> {
    let members = params.members();
    // Where meters want to see every certificate, all of them are holders.
    let may_draw = !profile.rules().certified_size;
    let chosen = committee::choose(members, params.max_malicious(), draws, may_draw);
    let chosen = chosen.map_err(|error| error.to_string())?;
    let scheme = Scheme::Committee(chosen.committee);
    Params::new(members.into(), Terms { scheme, attempts, ..*params.terms() }).map_err(|error| error.to_string())
}

/// Returns the draws of so many willing members if they are spread evenly, as they are on average.
pub fn even_draws(willing: u16) -> Vec<Option<u64>> {
    let count = u128::from(willing.max(1));
    let draw = |at: u16| u64::try_from((u128::from(2 * u32::from(at) + 1) << 64) / (2 * count)).ok();
    (0..willing).map(draw).collect()
}

/// Where values that are not in the file come from.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `DREAM_*` variables.
    pub environment: BTreeMap<String, String>,
    /// From the command line.
    pub ordinal: Option<u32>,
    /// A StatefulSet's pods are called `name-0`, `name-1` and so on.
    pub host_name: Option<String>,
}

impl Overrides {
    /// Returns the process's own environment and host name.
    pub fn of_process(ordinal: Option<u32>) -> Self {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        let environment = std::env::vars_os().filter_map(text).filter(|(name, _)| name.starts_with("DREAM_")).collect();
        let host_name = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
        Self { environment, ordinal, host_name: host_name.map(|name| name.trim().to_owned()) }
    }
}

impl Config {
    /// Returns the name of this replica, such as `gw-1-0`: its client id at the broker.
    pub fn replica_name(&self) -> Result<GatewayId, IdError> {
        GatewayId::new(&format!("{}-{}", self.id, self.ordinal))
    }

    /// Returns the clusters that this replica owns.
    pub fn owned(&self) -> impl Iterator<Item = (&ClusterId, &ClusterSettings)> {
        self.clusters.iter().filter(|(id, _)| ownership::owner(id, self.replicas) == self.ordinal)
    }

    /// Reads and checks a file.
    pub fn load(path: &Path, overrides: &Overrides) -> Result<Self, ConfigError> {
        let Draft { config, report, .. } = Draft::read(path, overrides);
        report.finish(config)
    }
}

/// A configuration as far as it is understood, and everything that is wrong with it.
#[derive(Debug)]
pub struct Draft {
    /// `None` if too much is wrong.
    pub config: Option<Config>,
    pub files: Files,
    pub report: Report,
}

/// The files that a gateway needs before it connects, as far as they are named.
#[derive(Debug, Default)]
pub struct Files {
    pub id: Option<GatewayId>,
    pub identity: Option<Identity>,
    pub tls: Option<BrokerTls>,
    pub login: Option<Login>,
    pub store: Option<Place>,
    pub http: Option<HttpTls>,
}

impl Draft {
    /// Reads a file, and looks at all of it.
    pub fn read(path: &Path, overrides: &Overrides) -> Self {
        // Other variables that start with `DREAM_` are not ours: Kubernetes makes some for a service of that name.
        let variables = Variables { prefix: "DREAM_", values: overrides.environment.clone() };
        let (found, report) = dream_edge::config::read(path, &variables, |root| read::config(root, overrides));
        let (config, files) = found.unwrap_or_default();
        Self { config, files, report }
    }
}

/// Returns every key of the file, those of `[clusters.NAME]` and `[groups.NAME]` for a cluster and a group of that name, and the
/// environment variables that replace one.
pub fn keys() -> (Vec<String>, Vec<String>) {
    let (text, none) = ("[clusters.NAME]\n[groups.NAME]\n[http.proxy]", Variables::default());
    let all = |root: &dream_edge::config::Section<'_>| read::config(root, &Overrides::default());
    let (_, report) = dream_edge::config::read_text(Path::new(""), text, &Variables { prefix: "DREAM_", ..none }, all);
    (report.keys, report.variables)
}
