//! A real Mosquitto on a spare port, which can be killed at any moment and comes back with what it knew.

use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use tempfile::TempDir;

use super::broker::{Access, wait_for_port};
use super::free_port;
use super::identities::Identities;

/// Who may come in.
pub enum Door<'a> {
    Open,
    Password {
        username: &'a str,
        password: &'a str,
    },
    /// Whoever has a certificate of this authority.
    Tls(&'a Identities),
}

pub struct Mosquitto {
    directory: TempDir,
    access: Access,
    child: Option<Child>,
}

impl Mosquitto {
    pub fn start() -> Self {
        Self::with(&Door::Open, "")
    }

    /// With more lines of configuration.
    pub fn with(door: &Door<'_>, lines: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let mut access = Access::open(free_port());
        let mut config = format!("{BASE}listener {} 127.0.0.1\n", access.port);
        writeln!(config, "persistence_location {}/", directory.path().display()).unwrap();
        config += &admit(door, directory.path(), &mut access);
        config += lines;
        std::fs::write(directory.path().join("mosquitto.conf"), config).unwrap();
        let mut broker = Self { directory, access, child: None };
        broker.restart();
        broker
    }

    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The process's id.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// SIGKILL: what was not written is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// On the same port, with what was persisted.
    pub fn restart(&mut self) {
        self.kill();
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = Command::new(binary("mosquitto"));
        command.arg("-c").arg(self.directory.path().join("mosquitto.conf"));
        self.child = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        wait_for_port(self.access.port);
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("mosquitto.log")
    }
}

impl Drop for Mosquitto {
    #[expect(clippy::print_stderr, reason = "a failed test shows what the broker said")]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!("mosquitto said at last:");
            last.iter().rev().for_each(|line| eprintln!("  {line}"));
        }
    }
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
            let file = directory.join("passwords");
            let arguments = ["-b", "-c", file.to_str().unwrap(), username, password];
            assert!(Command::new(binary("mosquitto_passwd")).args(arguments).status().unwrap().success());
            access.login = Some(((*username).to_owned(), (*password).to_owned()));
            format!("allow_anonymous false\npassword_file {}\n", file.display())
        }
        Door::Tls(identities) => {
            identities.write_broker(directory);
            identities.write_gateway(directory, "client");
            access.tls = Some((directory.to_owned(), "gateway".to_owned()));
            let at = |name| directory.join(name).display().to_string();
            format!(
                "allow_anonymous false\ncafile {}\ncertfile {}\nkeyfile {}\nrequire_certificate true\n\
                 use_identity_as_username true\n",
                at("authority.pem"),
                at("broker.pem"),
                at("broker.key")
            )
        }
    }
}

/// Where a program is: `sbin` is not on everyone's path.
pub fn binary(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = directories.map(|directory| directory.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("these tests need `{name}`: install Mosquitto and Prometheus"))
}
