//! A real Mosquitto on a spare port, which can be killed at any moment and comes back with what it knew.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::access::Access;
use super::identities::Identities;
use super::process::{Process, program};
use super::{free_port, wait_for_port};

/// The package that has Mosquitto.
const PACKAGE: &str = "mosquitto";

/// Whom a broker lets in.
#[derive(Debug)]
pub enum Door<'a> {
    Open,
    Password {
        username: &'a str,
        password: &'a str,
    },
    /// Clients with a certificate of this authority.
    Tls(&'a Identities),
}

/// A running Mosquitto.
#[derive(Debug)]
pub struct Mosquitto {
    process: Process,
    access: Access,
    /// Goes after the process that uses it: fields are dropped in this order.
    _directory: TempDir,
}

impl Mosquitto {
    /// Starts one for everyone.
    pub fn start() -> Self {
        Self::with(&Door::Open, "")
    }

    /// Starts one with more lines of configuration.
    pub fn with(door: &Door<'_>, lines: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let mut access = Access::open(free_port());
        let mut config = format!("{BASE}listener {} 127.0.0.1\n", access.port);
        writeln!(config, "persistence_location {}/", directory.path().display()).unwrap();
        config += &admit(door, directory.path(), &mut access);
        config += lines;
        let mut broker = Self { process: configured(directory.path(), &config), access, _directory: directory };
        broker.restart();
        broker
    }

    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the process's id.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Sends SIGHUP: rights are read again, and clients stay connected.
    pub fn hang_up(&self) {
        self.process.signal("HUP");
    }

    /// Sends SIGKILL: what was not written is gone.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Runs it again, on the same port and with what was persisted.
    pub fn restart(&mut self) {
        self.process.start();
        wait_for_port(self.access.port);
    }
}

/// Returns a Mosquitto that is not started yet, with this configuration in this directory.
pub fn configured(directory: &Path, config: &str) -> Process {
    let file = directory.join("mosquitto.conf");
    std::fs::write(&file, config).unwrap();
    let arguments = vec!["-c".to_owned(), file.display().to_string()];
    Process::new("mosquitto", program("mosquitto", PACKAGE), arguments, directory)
}

/// Everything is kept and written at once, so that SIGKILL loses nothing that was acknowledged. `user root` has no effect
/// for anyone else, and lets root keep the temporary directory.
const BASE: &str = "\
user root
per_listener_settings false
persistence true
autosave_on_changes true
autosave_interval 1
max_inflight_messages 0
max_queued_messages 0
log_dest stderr
log_type error
log_type warning
log_type notice
";

fn admit(door: &Door<'_>, directory: &Path, access: &mut Access) -> String {
    match door {
        Door::Open => "allow_anonymous true\n".to_owned(),
        Door::Password { username, password } => {
            access.login = Some(((*username).to_owned(), (*password).to_owned()));
            require_password(directory, username, password)
        }
        Door::Tls(identities) => {
            identities.write_broker(directory);
            identities.write_gateway(directory, "client");
            access.tls = Some((directory.to_owned(), "gateway".to_owned()));
            let at = |name| directory.join(name).display().to_string();
            format!(
                "allow_anonymous false\ncafile {}\ncertfile {}\nkeyfile {}\nrequire_certificate true\n\
                 use_identity_as_username true\n",
                at("broker-clients.pem"),
                at("broker.pem"),
                at("broker.key")
            )
        }
    }
}

/// Writes a file with one user, and returns the lines of configuration that ask for it.
pub fn require_password(directory: &Path, username: &str, password: &str) -> String {
    let file = directory.join("passwords");
    let arguments = ["-b", "-c", file.to_str().unwrap(), username, password];
    assert!(Command::new(program("mosquitto_passwd", PACKAGE)).args(arguments).status().unwrap().success());
    format!("allow_anonymous false\npassword_file {}\n", file.display())
}
