//! What is wrong with a configuration, as a person reads it.

use std::fmt;
use std::path::{Path, PathBuf};

/// Everything that is wrong with a configuration, in the order of its lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigError {
    pub file: PathBuf,
    pub problems: Vec<Problem>,
    /// What is wrong with other files that this one names.
    pub others: Vec<Self>,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub place: Place,
    /// Empty if the message names it, or if no key is meant.
    pub key: String,
    pub message: String,
}

/// Where a mistake is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Line(usize),
    /// The file as a whole.
    File,
    /// An environment variable.
    Variable(String),
}

impl ConfigError {
    pub(super) fn of_file(file: &Path, message: String) -> Self {
        let problem = Problem { place: Place::File, key: String::new(), message };
        Self { file: file.to_owned(), problems: vec![problem], others: Vec::new() }
    }

    pub(super) fn sort(&mut self) {
        self.problems.sort_by(|one, other| one.place.cmp(&other.place));
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid configuration")?;
        self.list(f)
    }
}

impl ConfigError {
    fn list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        for Problem { place, key, message } in &self.problems {
            let message = message.trim_end().replace('\n', "\n  ");
            let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
            match place {
                Place::Line(line) => write!(f, "\n{file}:{line}: {key}{message}")?,
                Place::File => write!(f, "\n{file}: {key}{message}")?,
                Place::Variable(name) => write!(f, "\n{name}: {message}")?,
            }
        }
        self.others.iter().try_for_each(|other| other.list(f))
    }
}

impl std::error::Error for ConfigError {}
