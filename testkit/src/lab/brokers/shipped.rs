//! The files of `broker-config/`, as they ship but for what a test must change: ports, paths, and names of parties.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Clients;

/// A file's text, with some of it replaced.
#[derive(Debug)]
pub struct Shipped {
    name: &'static str,
    text: String,
}

impl Shipped {
    /// Reads a file below `broker-config/`.
    pub fn read(name: &'static str) -> Self {
        let path = Self::path(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { name, text }
    }

    /// Returns where a file below `broker-config/` is.
    pub fn path(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../broker-config").join(name)
    }

    /// Replaces what stands there once, so that a change of the file is noticed here.
    #[must_use]
    pub fn with(mut self, old: &str, new: &str) -> Self {
        assert_eq!(self.text.matches(old).count(), 1, "broker-config/{} has `{old}` once", self.name);
        self.text = self.text.replace(old, new);
        self
    }

    /// Replaces a directory, wherever it is named.
    #[must_use]
    pub fn with_directory(mut self, old: &str, new: &Path) -> Self {
        assert!(self.text.contains(old), "broker-config/{} names {old}", self.name);
        self.text = self.text.replace(old, new.to_str().unwrap());
        self
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes the text, with what was replaced, to a file.
    pub fn write(&self, path: &Path) {
        std::fs::write(path, &self.text).unwrap();
    }
}

impl Clients {
    /// Runs the shipped script that writes a broker's users.
    pub(super) fn write_users(&self, broker: &str, to: &Path) {
        let mut command = Command::new(Shipped::path("users"));
        command.args([broker, "--gateway", &self.gateway, "--observer", &self.observer]).arg(&self.allow_file);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{broker}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(to, output.stdout).unwrap();
    }
}
