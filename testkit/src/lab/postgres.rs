//! A real PostgreSQL on a spare port, which can be killed at any moment and comes back with what was committed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::process::{Process, program};
use super::{PATIENCE, free_port};

/// A running PostgreSQL with one database, and a superuser who needs no password.
#[derive(Debug)]
pub struct Postgres {
    process: Mutex<Process>,
    port: u16,
    /// Goes after the process that uses it: fields are dropped in this order.
    _directory: TempDir,
}

impl Postgres {
    /// Makes a database and starts its server.
    ///
    /// # Panics
    /// If there is no PostgreSQL; says which package to install.
    pub fn start() -> Self {
        let directory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        let (data, port) = (directory.path().join("data"), free_port());
        std::fs::create_dir(&data).unwrap();
        // The server refuses to run as root, so that the directory is another user's then.
        let as_user = unprivileged();
        if !as_user.is_empty() {
            run(Command::new("chown").arg("postgres").args([directory.path(), &data]));
        }
        let mut make = Command::new("env");
        run(make
            .args(&as_user)
            .arg(tool("initdb"))
            .args(["--no-sync", "-A", "trust", "-U", "dream", "-E", "UTF8", "--locale", "C"])
            .arg("-D")
            .arg(&data));
        let settings = ["fsync=off", "listen_addresses=127.0.0.1", "unix_socket_directories="];
        let mut arguments: Vec<String> = as_user.iter().map(|&word| word.to_owned()).collect();
        arguments.extend([tool("postgres"), data].map(|path| path.display().to_string()));
        let at = arguments.len() - 1;
        arguments.insert(at, "-D".to_owned());
        arguments.extend(["-p".to_owned(), port.to_string()]);
        arguments.extend(settings.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]));
        let process = Process::new("postgres", program("env", "coreutils"), arguments, directory.path());
        let database = Self { process: Mutex::new(process), port, _directory: directory };
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

    /// Runs SQL as a user, and returns the rows as `psql` writes them, or what is wrong.
    pub fn sql(&self, user: &str, sql: &str) -> Result<String, String> {
        let url = self.url().replace("dream@", &format!("{user}@"));
        let done = Command::new(tool("psql"))
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
