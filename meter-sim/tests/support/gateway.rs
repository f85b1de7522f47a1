//! The gateway as its own process, which can be killed and started again with the same store.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::brokers::{Broker, free_port};
use super::client::PATIENCE;
use super::trial::{CLUSTER, GATEWAY, Trial};

pub struct Gateway {
    child: Option<Child>,
    directory: PathBuf,
    http: u16,
    _own: Option<TempDir>,
}

impl Gateway {
    /// The gateway of a directory of `meter-sim provision` on a broker at this URL, running.
    pub fn of(directory: &Path, url: &str) -> Self {
        let http = free_port();
        let path = directory.join("gateway.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace("mqtts://localhost:8883", url).replace("127.0.0.1:9464", &format!("127.0.0.1:{http}"));
        std::fs::write(&path, text).unwrap();
        let mut gateway = Self { child: None, directory: directory.to_owned(), http, _own: None };
        gateway.start();
        gateway.wait_until_ready();
        gateway
    }

    /// Until it has subscribed. Meters that enrol before that are heard a minute later.
    pub fn wait_until_ready(&self) {
        let begun = Instant::now();
        while !self.is_ready().unwrap_or_default() {
            assert!(begun.elapsed() < PATIENCE, "the gateway does not get ready");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_ready(&self) -> std::io::Result<bool> {
        let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, self.http))?;
        connection.write_all(b"GET /readyz HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.0 200"))
    }

    /// A gateway of the trial's cluster on this broker; it runs after [`Gateway::start`].
    pub fn new(trial: &Trial, broker: &Broker, terms: &str) -> Self {
        let (directory, http) = (TempDir::new().unwrap(), free_port());
        let at = |name: &str| trial.file(name).display().to_string();
        let tls = if broker.kind.knows_certificates() {
            format!(
                "ca = \"{}\"\nclient_certificate = \"{}\"\nclient_key = \"{}\"\n",
                at("authority.pem"),
                trial.gateway.certificate.display(),
                trial.gateway.key.display()
            )
        } else {
            String::new()
        };
        let toml = format!(
            "id = \"{GATEWAY}\"\nclock_skew_seconds = 1\n\
             [identity]\ncertificate = \"{}\"\nkey = \"{}\"\nauthorities = [\"{}\"]\n\
             [broker]\nurl = \"{}\"\nkeep_alive_seconds = 5\n{tls}\
             [store]\npath = \"gateway.redb\"\n[http]\nlisten = \"127.0.0.1:{}\"\n\
             [home_assistant]\nenabled = true\n\
             [clusters.{CLUSTER}]\nallow_file = \"{}\"\nmin_members = {}\nsettle_seconds = 1\n{terms}",
            trial.gateway.certificate.display(),
            trial.gateway.key.display(),
            at("authority.pem"),
            broker.url(),
            http,
            at(&format!("{CLUSTER}.allow")),
            trial.setups.len(),
        );
        std::fs::write(directory.path().join("gateway.toml"), toml).unwrap();
        Self { child: None, directory: directory.path().to_owned(), http, _own: Some(directory) }
    }

    pub fn start(&mut self) {
        self.kill();
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        // A file that may not grow fails a write instead of ending the process: see `limit_files`.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(binary()).args(["run", "--config"]);
        command.arg(self.directory.join("gateway.toml"));
        command.env_remove("DREAM_ORDINAL").env_remove("RUST_LOG").stdin(Stdio::null());
        self.child = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    /// SIGKILL: nothing more is written or said.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// SIGTERM, and waits for the end.
    pub fn stop(&mut self) {
        let mut child = self.child.take().unwrap();
        let sent = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "the gateway cannot be told to stop");
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < PATIENCE, "the gateway does not stop");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "the gateway ended with {status}");
    }

    pub fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Lets no file of it grow beyond so many bytes: what a full disk looks like.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let limit = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
        let process = self.id().to_string();
        let set = Command::new("prlimit").args(["--pid", &process, &format!("--fsize={limit}:unlimited")]).status();
        assert!(set.unwrap().success());
    }

    /// Every slot in the store, by number; the gateway must not run.
    pub fn export(&self, cluster: &str) -> BTreeMap<u64, StoredSlot> {
        let mut command = Command::new(binary());
        command.args(["export", "--cluster", cluster, "--config"]).arg(self.directory.join("gateway.toml"));
        let output = command.env_remove("DREAM_ORDINAL").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().unwrap();
        let column = |name: &str| header.iter().position(|&found| found == name).unwrap();
        let [slot, outcome, load, responders] = ["slot", "outcome", "load_watts", "responders"].map(column);
        let stored = |row: Vec<&str>| {
            let (outcome, load) = (row[outcome].to_owned(), row[load].parse().ok());
            (row[slot].parse().unwrap(), StoredSlot { outcome, load, responders: row[responders].parse().unwrap() })
        };
        lines.map(stored).collect()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    fn log(&self) -> PathBuf {
        self.directory.join("gateway.log")
    }
}

/// A closed slot, as far as tests compare it.
#[derive(Debug)]
pub struct StoredSlot {
    pub outcome: String,
    pub load: Option<u64>,
    pub responders: u32,
}

impl Drop for Gateway {
    #[expect(clippy::print_stderr, reason = "a failed test shows what the gateway said")]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let said = std::fs::read_to_string(self.log()).unwrap_or_default();
            let lines: Vec<&str> = said.lines().collect();
            eprintln!("the gateway said at last:");
            lines[lines.len().saturating_sub(60)..].iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}

/// Beside the directory of the tests: another package's binary is not built with them.
fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join("dream-gateway");
    assert!(path.is_file(), "{} is missing: build it with `cargo build -p dream-gateway`", path.display());
    path
}
