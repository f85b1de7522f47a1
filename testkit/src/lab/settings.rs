//! A gateway's configuration for tests, as TOML.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use super::access::Access;
use super::identities::{GATEWAY, RANGE};
use super::postgres::Postgres;

/// A gateway's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    pub access: Access,
    pub replicas: u32,
    pub ordinal: u32,
    pub home_assistant: bool,
    pub log: &'static str,
    /// Lines about the broker, beyond how to reach it.
    pub broker: &'static str,
    /// Lines about HTTP, beyond where it listens.
    pub http: String,
    pub retention_days: u64,
    /// A database instead of a file.
    pub database: Option<Arc<Postgres>>,
    /// Lines for every cluster.
    pub defaults: String,
    /// Lines of each cluster.
    pub clusters: BTreeMap<String, String>,
    /// What each group is the sum of.
    pub groups: BTreeMap<String, Vec<String>>,
}

/// Short slots: two attempts of three seconds fill one. A fifth of the members may be silent, and there are few.
const DEFAULTS: &str = "\
meter_policy = \"trial\"
slot_seconds = 6
reading_seconds = 2
reveal_seconds = 1
attempts = 2
max_missing = 0.2
settle_seconds = 1
list_slots = 1000
drop_after_slots = 0
min_interval_seconds = 0
";

impl Settings {
    /// Settings without a cluster, for a gateway on this broker.
    pub fn new(access: &Access) -> Self {
        Self {
            access: access.clone(),
            replicas: 1,
            ordinal: 0,
            home_assistant: false,
            log: "debug",
            broker: "",
            http: String::new(),
            retention_days: 1,
            database: None,
            defaults: DEFAULTS.to_owned(),
            clusters: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }

    /// Adds a cluster that forms when all of its members are there.
    #[must_use]
    pub fn cluster(self, name: &str, members: usize) -> Self {
        self.cluster_with(name, members, "")
    }

    /// Adds a cluster that has more lines of its own.
    #[must_use]
    pub fn cluster_with(mut self, name: &str, members: usize, lines: &str) -> Self {
        self.clusters.insert(name.to_owned(), format!("min_members = {members}\n{lines}"));
        self
    }

    /// Adds a group of clusters and groups.
    #[must_use]
    pub fn group(mut self, name: &str, of: &[&str]) -> Self {
        self.groups.insert(name.to_owned(), of.iter().map(|&part| part.to_owned()).collect());
        self
    }

    /// Makes it one of several replicas.
    #[must_use]
    pub fn replica(mut self, ordinal: u32, replicas: u32) -> Self {
        (self.ordinal, self.replicas) = (ordinal, replicas);
        self
    }

    /// Keeps the store in a database, sealed under the key that [`Identities::write_gateway`](super::identities::Identities::write_gateway) writes.
    #[must_use]
    pub fn on(mut self, database: &Arc<Postgres>) -> Self {
        self.database = Some(database.clone());
        self
    }

    /// Announces the clusters to Home Assistant.
    #[must_use]
    pub fn home_assistant(mut self) -> Self {
        self.home_assistant = true;
        self
    }

    /// Returns the configuration file, with HTTP on this port.
    pub fn toml(&self, http: u16) -> String {
        let mut text = format!(
            "id = \"{GATEWAY}\"\nreplicas = {}\nordinal = {}\nclock_skew_seconds = 1\nshutdown_grace_seconds = 10\n\
             [identity]\ncertificate = \"gateway.pem\"\nkey = \"gateway.key\"\n\
             meter_authorities = [\"meter-authority.pem\"]\ngateway_authorities = [\"gateway-authority.pem\"]\n\
             [broker]\nurl = \"{}\"\nkeep_alive_seconds = 5\n",
            self.replicas,
            self.ordinal,
            self.access.url()
        );
        if self.access.tls.is_some() {
            text +=
                "ca = \"gateway-authority.pem\"\nclient_certificate = \"gateway.pem\"\nclient_key = \"gateway.key\"\n";
        }
        if let Some((username, _)) = &self.access.login {
            writeln!(text, "username = \"{username}\"\npassword_file = \"password\"").unwrap();
        }
        let store = self.database.as_ref().map_or_else(
            || "path = \"gateway.redb\"".to_owned(),
            |database| format!("url = \"{}\"\nkeys = [\"store.key\"]\nlease_seconds = 1", database.url()),
        );
        write!(
            text,
            "{}\n[store]\n{store}\nretention_days = {}\n[http]\nlisten = \"127.0.0.1:{http}\"\n{}\
             [log]\nlevel = \"{}\"\n[home_assistant]\nenabled = {}\n[defaults]\nrange_watts = [{}, {}]\nday_epsilon = 1000000\n{}",
            self.broker,
            self.retention_days,
            self.http,
            self.log,
            self.home_assistant,
            RANGE.0,
            RANGE.1,
            self.defaults
        )
        .unwrap();
        for (name, lines) in &self.clusters {
            write!(text, "[clusters.{name}]\n{lines}\n").unwrap();
        }
        for (name, of) in &self.groups {
            write!(text, "[groups.{name}]\nof = {of:?}\n").unwrap();
        }
        text
    }
}
