//! A process of a broker, which is started and ended by its id.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::PATIENCE;

pub(super) struct Process {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    child: Option<Child>,
    log: Option<PathBuf>,
}

impl Process {
    /// A program of a Debian package, to be run with these arguments.
    pub(super) fn new(name: &'static str, program: PathBuf, arguments: Vec<String>) -> Self {
        Self { name, program, arguments, environment: Vec::new(), child: None, log: None }
    }

    pub(super) fn with_environment(mut self, environment: Vec<(&'static str, String)>) -> Self {
        self.environment = environment;
        self
    }

    pub(super) fn start(&mut self, directory: &Path) {
        self.kill();
        let path = directory.join(format!("{}.log", self.name));
        let log = File::options().create(true).append(true).open(&path).unwrap();
        self.log = Some(path);
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.program.display())));
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// SIGTERM, and waits for the end.
    pub(super) fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let sent = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "{} cannot be told to stop", self.name);
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "{} does not stop", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGKILL, and waits for the end.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "a failed test shows what the broker said")]
    fn drop(&mut self) {
        self.kill();
        if let Some(log) = self.log.as_ref().filter(|_| std::thread::panicking()) {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = said.lines().collect();
            eprintln!("{} said at last:", self.name);
            lines[lines.len().saturating_sub(40)..].iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}

/// Where a program is: `sbin` is not on everyone's path.
pub(super) fn binary(name: &str, package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = directories.map(|directory| directory.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("this test needs `{name}`: apt-get install {package}"))
}
