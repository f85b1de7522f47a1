//! The gateway as its own process, which can be killed and started again with the same store.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use super::brokers::{Broker, free_port};
use super::client::PATIENCE;
use super::trial::{CLUSTER, GATEWAY, Trial};

pub struct Gateway {
    child: Option<Child>,
    directory: TempDir,
}

impl Gateway {
    /// A gateway of the trial's cluster on this broker; it runs after [`Gateway::start`].
    pub fn new(trial: &Trial, broker: &Broker, terms: &str) -> Self {
        let directory = TempDir::new().unwrap();
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
            free_port(),
            at(&format!("{CLUSTER}.allow")),
            trial.setups.len(),
        );
        std::fs::write(directory.path().join("gateway.toml"), toml).unwrap();
        Self { child: None, directory }
    }

    pub fn start(&mut self) {
        self.kill();
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = Command::new(binary());
        command.args(["run", "--config"]).arg(self.directory.path().join("gateway.toml"));
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
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        assert!(status.success(), "the gateway ended with {status}");
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("gateway.log")
    }
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
