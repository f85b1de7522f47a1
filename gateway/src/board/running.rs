//! What the running gateway has of its configuration, and how reloads went: for operators alone, since it names meters.

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use dream_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clock::rfc3339;
use crate::config::snapshot::{Change, Snapshot};

/// The path of what is here, which operators alone may ask for.
pub const PATH: &str = "/api/v1/configuration";

/// The configuration in force: the driver and the files of HTTP write it, and operators compare it with a file.
#[derive(Debug, Default)]
pub struct Running(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    gateway: Snapshot,
    http: Snapshot,
    reloads: u64,
    last: Option<Reload>,
}

/// How a reload went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reload {
    pub at: String,
    /// Why the gateway kept its configuration, if it did.
    pub refused: Option<String>,
    pub changes: Vec<Change>,
}

/// The same as the API tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningJson {
    /// What SIGHUP goes to.
    pub process: Process,
    pub configuration: Snapshot,
    /// How many reloads there were since the start.
    pub reloads: u64,
    pub last_reload: Option<Reload>,
}

/// A process, told from others with the same number: earlier ones, and those of other machines and containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub id: u32,
    /// In the kernel's ticks since the machine started.
    pub started: Option<u64>,
}

impl Process {
    /// Returns the process of this number, as it is seen from here.
    pub fn seen(id: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok();
        // The name of the program comes before, in brackets, and may hold anything.
        let started =
            stat.as_deref().and_then(|stat| stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok());
        Self { id, started }
    }
}

impl Running {
    /// Returns what the driver has.
    pub fn gateway(&self) -> Snapshot {
        self.read().gateway.clone()
    }

    pub fn set_gateway(&self, now: Snapshot) {
        self.write().gateway = now;
    }

    /// Replaces what HTTP has; returns what is different.
    pub fn set_http(&self, now: Snapshot) -> Vec<Change> {
        let mut state = self.write();
        let changes = state.http.changes(&now);
        state.http = now;
        changes
    }

    /// Notes how a reload went.
    pub fn reloaded(&self, refused: Option<String>, changes: Vec<Change>, now: Timestamp) {
        let mut state = self.write();
        state.reloads += 1;
        state.last = Some(Reload { at: rfc3339(now), refused, changes });
    }

    pub fn json(&self) -> RunningJson {
        let state = self.read();
        RunningJson {
            process: Process::seen(std::process::id()),
            configuration: state.gateway.clone().and(state.http.clone()),
            reloads: state.reloads,
            last_reload: state.last.clone(),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().expect("nobody panics while writing")
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().expect("nobody panics while writing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_others_by_when_it_started() {
        let own = Process::seen(std::process::id());
        assert!(own.started.is_some(), "{own:?}");
        assert_eq!(own, Process::seen(std::process::id()));
        assert_ne!(own.started, Process::seen(1).started);
        assert_eq!(Process::seen(u32::MAX).started, None);
    }
}
