//! A real PostgreSQL on a spare port, which can be killed at any moment and comes back with what was committed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::identities::Identities;
use super::process::{Process, program};
use super::{PATIENCE, free_port};

/// The password of its superuser, if it asks for one.
pub const PASSWORD: &str = "correct horse";

/// A running PostgreSQL with one database, and a superuser who needs no password.
#[derive(Debug)]
pub struct Postgres {
    process: Mutex<Process>,
    port: u16,
    /// Goes after the process that uses it: fields are dropped in this order.
    directory: TempDir,
}

impl Postgres {
    /// Makes a database and starts its server.
    ///
    /// # Panics
    /// If there is no PostgreSQL; says which package to install.
    pub fn start() -> Self {
        Self::with(None)
    }

    /// The same with a server that wants TLS and, from everybody, [`PASSWORD`]. `gateway-authority.pem` in the folder that is returned
    /// verifies it.
    pub fn guarded(identities: &Identities) -> (Self, PathBuf) {
        let database = Self::with(Some(identities));
        let folder = database.directory.path().join("data");
        (database, folder)
    }

    fn with(identities: Option<&Identities>) -> Self {
        let directory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        let (data, port) = (directory.path().join("data"), free_port());
        std::fs::create_dir(&data).unwrap();
        let password = directory.path().join("password");
        std::fs::write(&password, PASSWORD).unwrap();
        // The server refuses to run as root, so that its files are another user's then.
        let as_user = unprivileged();
        let hand_over = |paths: &[&Path]| {
            if !as_user.is_empty() {
                run(Command::new("chown").arg("postgres").args(paths));
            }
        };
        hand_over(&[directory.path(), &data, &password]);
        let login = if identities.is_some() { "scram-sha-256" } else { "trust" };
        let mut make = Command::new("env");
        make.args(&as_user).arg(tool("initdb")).args(["--no-sync", "-A", login, "-U", "dream", "-E", "UTF8"]);
        run(make.args(["--locale", "C", "--pwfile"]).arg(&password).arg("-D").arg(&data));
        let mut settings = vec!["fsync=off", "listen_addresses=127.0.0.1", "unix_socket_directories="];
        if let Some(identities) = identities {
            identities.write_broker(&data);
            let (certificate, key) = (data.join("broker.pem"), data.join("broker.key"));
            std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            hand_over(&[&certificate, &key]);
            settings.extend(["ssl=on", "ssl_cert_file=broker.pem", "ssl_key_file=broker.key"]);
        }
        let mut arguments: Vec<String> = as_user.iter().map(|&word| word.to_owned()).collect();
        arguments.extend([tool("postgres").display().to_string(), "-D".to_owned(), data.display().to_string()]);
        arguments.extend(["-p".to_owned(), port.to_string()]);
        arguments.extend(settings.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]));
        let process = Process::new("postgres", program("env", "coreutils"), arguments, directory.path());
        let database = Self { process: Mutex::new(process), port, directory };
        database.restart();
        database
    }

    /// Returns the address of the database.
    pub fn url(&self) -> String {
        format!("postgres://dream@127.0.0.1:{}/postgres", self.port)
    }

    /// Sends SIGKILL to the server: what it did not commit is gone.
    pub fn kill(&self) {
        self.process.lock().unwrap().kill();
    }

    /// Runs it again, on the same port.
    pub fn restart(&self) {
        let (begun, mut process) = (Instant::now(), self.process.lock().unwrap());
        process.start();
        let port = self.port.to_string();
        let mut asked = Command::new(tool("pg_isready"));
        asked.args(["-q", "-U", "dream", "-d", "postgres", "-h", "127.0.0.1", "-p", &port]);
        while !asked.status().unwrap().success() {
            // What is left of the one before may still hold its memory.
            if !process.is_running() {
                process.start();
            }
            assert!(begun.elapsed() < PATIENCE, "PostgreSQL does not start: {}", process.printed());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Lets `pg_dump` write its database, and `psql` read that into an empty one, as an operator moves or restores it.
    pub fn dump_into(&self, other: &Self) {
        let script = "\"$0\" --dbname \"$1\" | \"$2\" -Xq -v ON_ERROR_STOP=1 --dbname \"$3\"";
        let mut moving = Command::new("bash");
        moving.args(["-o", "pipefail", "-c", script]).arg(tool("pg_dump")).arg(self.url()).arg(tool("psql"));
        run(moving.arg(other.url()));
    }

    /// Runs SQL as a user, and returns the rows as `psql` writes them, or what is wrong.
    pub fn sql(&self, user: &str, sql: &str) -> Result<String, String> {
        let url = self.url().replace("dream@", &format!("{user}@"));
        let done = Command::new(tool("psql"))
            .env("PGPASSWORD", PASSWORD)
            // OpenSSL has no digest for the channel binding of an Ed25519 certificate.
            .env("PGCHANNELBINDING", "disable")
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &url, "-c", sql])
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    }
}

/// Returns what to put before a command that must not run as root.
fn unprivileged() -> Vec<&'static str> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if is_root { vec!["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] } else { Vec::new() }
}

/// Returns where one of PostgreSQL's programs is: Debian keeps each version in a directory of its own.
fn tool(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.is_file()).max();
    found.unwrap_or_else(|| program(name, "postgresql"))
}

fn run(command: &mut Command) {
    let done = command.current_dir(Path::new("/")).output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}
