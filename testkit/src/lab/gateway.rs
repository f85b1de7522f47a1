//! The gateway as a process: configured, started, killed, asked.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use super::http::{self, Answer};
use super::process::Process;
use super::prometheus::Samples;
use super::until;

/// The file of the configuration, below the gateway's directory.
const CONFIG: &str = "gateway.toml";

/// A gateway with its directory: configuration, store and what it printed.
#[derive(Debug)]
pub struct Gateway {
    program: PathBuf,
    process: Process,
    directory: PathBuf,
    http: SocketAddr,
}

impl Gateway {
    /// A gateway that runs `program` once it is started. `gateway.toml` in its directory, which can be written until then,
    /// must name this port of the loopback for HTTP.
    pub fn new(program: &Path, directory: &Path, http: u16) -> Self {
        // A file that may not grow fails a write instead of ending the process: see `limit_files`.
        let mut arguments = ["-c", "trap '' XFSZ; exec \"$@\"", "sh"].map(str::to_owned).to_vec();
        let config = directory.join(CONFIG).display().to_string();
        arguments.extend([program.display().to_string(), "run".to_owned(), "--config".to_owned(), config]);
        Self {
            program: program.to_owned(),
            process: Process::new("gateway", "/bin/sh".into(), arguments, directory),
            directory: directory.to_owned(),
            http: SocketAddr::from((Ipv4Addr::LOCALHOST, http)),
        }
    }

    /// Sets variables of its environment, from the next start on.
    pub fn set_environment(&mut self, environment: Vec<(&'static str, String)>) {
        self.process.set_environment(environment);
    }

    /// Returns a file in its directory.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.join(name)
    }

    /// Writes its configuration; a running gateway reads it after [`Gateway::hang_up`].
    pub fn configure(&self, toml: &str) {
        std::fs::write(self.file(CONFIG), toml).unwrap();
    }

    /// Runs it, with the store it has; one that runs already is killed first.
    pub fn start(&mut self) {
        self.process.start();
    }

    /// Sends SIGKILL: nothing more is written or said.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Sends SIGTERM, and returns how it ended.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.stop()
    }

    /// Sends a signal, such as `STOP`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Sends SIGHUP: the configuration is read again.
    pub fn hang_up(&self) {
        self.process.signal("HUP");
    }

    /// Returns the process's id.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Returns everything it has printed.
    pub fn printed(&self) -> String {
        self.process.printed()
    }

    /// Lets no file of the process grow beyond so many bytes, as a full disk does. `None` lifts that.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let limit = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
        self.limit(&format!("--fsize={limit}:unlimited"));
    }

    /// Lets the process have so many files and connections open, and no more.
    pub fn limit_handles(&self, count: usize) {
        self.limit(&format!("--nofile={count}:"));
    }

    /// Returns how many files and connections it has open.
    pub fn handles(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id().unwrap())).unwrap().count()
    }

    fn limit(&self, limit: &str) {
        let process = self.id().unwrap().to_string();
        let set = Command::new("prlimit").args(["--pid", &process, limit]).status();
        assert!(set.unwrap().success());
    }

    /// Returns how much memory it uses, in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id().unwrap())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Waits until it is ready.
    pub async fn wait_until_ready(&mut self) {
        self.wait_until_ok("/readyz").await;
    }

    /// Waits until a path is answered with 200.
    pub async fn wait_until_ok(&mut self, path: &str) {
        until(&format!("the gateway answers {path} with 200"), || {
            assert!(self.is_running(), "the gateway has stopped");
            self.try_get(path).is_some_and(|answer| answer.status == 200)
        })
        .await;
    }

    pub fn get(&self, path: &str) -> Answer {
        http::get(self.http, path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns its answer, if it gives one.
    pub fn try_get(&self, path: &str) -> Option<Answer> {
        http::get(self.http, path).ok()
    }

    /// Returns all its metrics.
    pub fn metrics(&self) -> Samples {
        let answer = self.get("/metrics");
        assert_eq!(answer.status, 200, "{answer:?}");
        Samples::parse(answer.text())
    }

    /// Returns the sample of a cluster.
    pub fn metric(&self, name: &str, cluster: &str) -> Option<f64> {
        self.metrics().get(name, &[("cluster", cluster)])
    }

    /// Returns how many messages of a kind were counted with this result.
    pub fn messages(&self, kind: &str, result: &str) -> f64 {
        self.metrics().sum("dream_messages_total", &[("kind", kind), ("result", result)])
    }

    /// Returns the closed slots in its store, as one JSON object each; it must not run.
    pub fn export(&self, cluster: &str) -> Vec<serde_json::Value> {
        let mut command = Command::new(&self.program);
        command.args(["export", "--format", "jsonl", "--cluster", cluster, "--store"]).arg(self.file("gateway.redb"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
