//! The daemon as a process: configured, started, killed, asked.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use tempfile::TempDir;

use super::aggregates::{Aggregate, Slots};
use super::broker::Access;
use super::http::{self, Response};
use super::identities::{GATEWAY, Identities, RANGE};
use super::metrics::Samples;
use super::{free_port, until, until_some};

/// What a gateway is told. Change it and call [`Gateway::write_settings`] to tell it something else.
#[derive(Debug, Clone)]
pub struct Settings {
    pub access: Access,
    pub replicas: u32,
    pub ordinal: u32,
    pub home_assistant: bool,
    pub log: &'static str,
    /// Lines about the broker, beyond how to reach it.
    pub broker: &'static str,
    pub retention_days: u64,
    /// Lines for every cluster.
    pub defaults: String,
    /// Lines of each cluster.
    pub clusters: BTreeMap<String, String>,
}

/// Short slots: two attempts of three seconds fill one. A fifth of the members may be silent.
const DEFAULTS: &str = "\
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
    pub fn new(access: &Access) -> Self {
        Self {
            access: access.clone(),
            replicas: 1,
            ordinal: 0,
            home_assistant: false,
            log: "debug",
            broker: "",
            retention_days: 1,
            defaults: DEFAULTS.to_owned(),
            clusters: BTreeMap::new(),
        }
    }

    /// With a cluster that forms when all of its members are there.
    #[must_use]
    pub fn cluster(self, name: &str, members: usize) -> Self {
        self.cluster_with(name, members, "")
    }

    /// With a cluster that has more lines of its own.
    #[must_use]
    pub fn cluster_with(mut self, name: &str, members: usize, lines: &str) -> Self {
        self.clusters.insert(name.to_owned(), format!("min_members = {members}\n{lines}"));
        self
    }

    #[must_use]
    pub fn replica(mut self, ordinal: u32, replicas: u32) -> Self {
        (self.ordinal, self.replicas) = (ordinal, replicas);
        self
    }

    #[must_use]
    pub fn home_assistant(mut self) -> Self {
        self.home_assistant = true;
        self
    }

    /// The configuration file, with the API on this port.
    pub fn toml(&self, http: u16) -> String {
        let mut text = format!(
            "id = \"{GATEWAY}\"\nreplicas = {}\nordinal = {}\nclock_skew_seconds = 1\nshutdown_grace_seconds = 10\n\
             [identity]\ncertificate = \"gateway.pem\"\nkey = \"gateway.key\"\nauthorities = [\"authority.pem\"]\n\
             [broker]\nurl = \"{}\"\nkeep_alive_seconds = 5\n",
            self.replicas,
            self.ordinal,
            self.access.url()
        );
        if self.access.tls.is_some() {
            text += "ca = \"authority.pem\"\nclient_certificate = \"gateway.pem\"\nclient_key = \"gateway.key\"\n";
        }
        if let Some((username, _)) = &self.access.login {
            writeln!(text, "username = \"{username}\"\npassword_file = \"password\"").unwrap();
        }
        write!(
            text,
            "{}\n[store]\npath = \"gateway.redb\"\nretention_days = {}\n[http]\nlisten = \"127.0.0.1:{http}\"\n\
             [log]\nlevel = \"{}\"\n[home_assistant]\nenabled = {}\n[defaults]\nrange_watts = [{}, {}]\n{}",
            self.broker, self.retention_days, self.log, self.home_assistant, RANGE.0, RANGE.1, self.defaults
        )
        .unwrap();
        for (name, lines) in &self.clusters {
            write!(text, "[clusters.{name}]\n{lines}\n").unwrap();
        }
        text
    }
}

const BINARY: &str = env!("CARGO_BIN_EXE_dream-gateway");

pub struct Gateway {
    pub settings: Settings,
    directory: TempDir,
    http: u16,
    child: Option<Child>,
}

impl Gateway {
    /// A gateway with an empty store, running but maybe not ready.
    pub fn start(identities: &Identities, settings: Settings) -> Self {
        let mut gateway = Self::stopped(identities, settings);
        gateway.restart();
        gateway
    }

    /// A gateway that runs after [`Gateway::restart`].
    pub fn stopped(identities: &Identities, settings: Settings) -> Self {
        let gateway = Self { settings, directory: TempDir::new().unwrap(), http: free_port(), child: None };
        identities.write_gateway(gateway.directory.path(), GATEWAY);
        gateway.write_settings();
        gateway
    }

    /// Replaces its certificate and key by new ones.
    pub fn renew(&self, identities: &Identities) {
        identities.renew_gateway(self.directory.path(), GATEWAY);
    }

    /// Runs again with the same store.
    pub fn restart(&mut self) {
        self.kill();
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        // A file that may not grow fails a write instead of ending the process: see `Gateway::limit_files`.
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", BINARY, "run", "--config"])
            .arg(self.file("gateway.toml"));
        command.env_remove("DREAM_ORDINAL").env_remove("RUST_LOG");
        self.child = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    /// Writes the settings; a running gateway reads them after [`Gateway::hang_up`].
    pub fn write_settings(&self) {
        std::fs::write(self.file("gateway.toml"), self.settings.toml(self.http)).unwrap();
        if let Some((_, password)) = &self.settings.access.login {
            std::fs::write(self.file("password"), password).unwrap();
        }
    }

    /// SIGKILL: nothing more is written or said.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// SIGTERM, and waits for the end.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal("TERM");
        let child = self.child.as_mut().unwrap();
        let status = until_some("the gateway stops", || child.try_wait().unwrap()).await;
        self.child = None;
        status
    }

    /// SIGHUP: the settings are read again.
    pub fn hang_up(&self) {
        self.signal("HUP");
    }

    /// SIGSTOP: the process is there, and does nothing.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// No file of the process can be written beyond so many bytes: its disk is full. `None` lifts that.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let limit = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
        let process = self.id().unwrap().to_string();
        let set = Command::new("prlimit").args(["--pid", &process, &format!("--fsize={limit}:unlimited")]).status();
        assert!(set.unwrap().success());
    }

    /// How much memory it uses, in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id().unwrap())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    /// The slots in the store of a gateway that does not run.
    pub fn exported(&self, cluster: &str) -> Slots {
        let mut command = Command::new(BINARY);
        command.args(["export", "--format", "jsonl", "--cluster", cluster, "--store"]).arg(self.file("gateway.redb"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let slots = text.lines().map(|line| serde_json::from_str::<Aggregate>(line).unwrap());
        slots.map(|aggregate| (aggregate.slot, aggregate)).collect()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// Waits until `/readyz` says so.
    pub async fn wait_until_ready(&mut self) {
        self.wait_until_ok("/readyz").await;
    }

    /// Waits until a path is answered with 200.
    pub async fn wait_until_ok(&mut self, path: &str) {
        until(&format!("the gateway says yes on {path}"), || {
            assert!(self.is_running(), "the gateway has stopped");
            self.try_get(path).is_some_and(|response| response.status == 200)
        })
        .await;
    }

    pub fn get(&self, path: &str) -> Response {
        http::get(self.http, path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn try_get(&self, path: &str) -> Option<Response> {
        http::get(self.http, path).ok()
    }

    pub fn metrics(&self) -> Samples {
        let response = self.get("/metrics");
        assert_eq!(response.status, 200, "{response:?}");
        Samples::parse(&response.body)
    }

    /// Like [`Gateway::metrics`] with one sample of a cluster.
    pub fn metric(&self, name: &str, cluster: &str) -> Option<f64> {
        self.metrics().get(name, &[("cluster", cluster)])
    }

    /// How many messages of a kind were counted with this result.
    pub fn messages(&self, kind: &str, result: &str) -> f64 {
        self.metrics().sum("dream_messages_total", &[("kind", kind), ("result", result)])
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(sent.success(), "SIG{name} could not be sent");
    }

    /// The process's id.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    fn log(&self) -> PathBuf {
        self.file("gateway.log")
    }
}

impl Drop for Gateway {
    #[expect(clippy::print_stderr, reason = "a failed test shows what the gateway said")]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let said = self.said();
            let lines: Vec<&str> = said.lines().collect();
            eprintln!("gateway {} said at last:", self.settings.ordinal);
            lines[lines.len().saturating_sub(200)..].iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}
