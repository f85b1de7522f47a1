//! A program that a test starts and ends by its id.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a process may take to end: some brokers take long.
const PATIENCE: Duration = Duration::from_secs(300);

/// How much of what it printed a failed test shows.
const SHOWN_LINES: usize = 100;

/// A process that can be started again. It is killed when it is dropped; a test that fails then shows what it printed.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// A program to be run with these arguments, which prints into a file in this directory.
    pub fn new(name: &'static str, program: PathBuf, arguments: Vec<String>, directory: &Path) -> Self {
        let log = directory.join(format!("{name}.log"));
        Self { name, program, arguments, environment: Vec::new(), log, child: None }
    }

    /// Adds variables to its environment.
    #[must_use]
    pub fn with_environment(mut self, environment: Vec<(&'static str, String)>) -> Self {
        self.set_environment(environment);
        self
    }

    /// Sets the variables that are added to its environment, from the next start on.
    pub fn set_environment(&mut self, environment: Vec<(&'static str, String)>) {
        self.environment = environment;
    }

    /// Starts it; one that runs already is killed first.
    pub fn start(&mut self) {
        self.kill();
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        // The environment of the tests must not configure the gateways in them.
        command.env_remove("DREAM_ORDINAL").env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.program.display())));
    }

    /// Returns its id, if it was started and not ended since.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether it runs; one may also have ended by itself.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// Returns everything it has printed.
    pub fn printed(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        let id = self.id().expect("the process runs").to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(sent.success(), "SIG{name} could not be sent to {}", self.name);
    }

    /// Sends SIGTERM, and returns how it ended.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        let mut child = self.child.take().expect("the process runs");
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "{} does not stop", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends SIGKILL, and waits for the end: nothing more is written or said.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "a failed test shows what the process printed")]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let printed = self.printed();
            let lines: Vec<&str> = printed.lines().collect();
            eprintln!("the last lines of {}:", self.name);
            lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}

/// Returns where a program is: `sbin` is not on everyone's path.
///
/// # Panics
/// If it is nowhere; says which package to install.
pub fn program(name: &str, package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = directories.map(|directory| directory.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("this test needs `{name}`: apt-get install {package}"))
}
