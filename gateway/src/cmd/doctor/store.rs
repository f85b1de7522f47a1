//! The store: whether it can be written, has room, and is sound.

use std::path::Path;

use dream_edge::database::{self, OpenError};
use rustix::fs::statvfs;

use super::{Finding, State};
use crate::cmd::check_config::store_mistakes;
use crate::config::Place;
use crate::store;

/// With less free than this a gateway stops at any moment.
const LEAST_MEBIBYTES: u64 = 16;

/// What is known of a store.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) findings: Vec<Finding>,
    /// Whether a process has it open.
    pub(super) in_use: bool,
}

/// `gateway_answers` is whether it is to be in use.
pub(super) fn look(place: &Place, gateway_answers: bool) -> Store {
    let mistakes = store_mistakes(place).into_iter();
    let to_do = "see \"The disk is full\" in runbooks.md";
    let mut findings: Vec<Finding> =
        mistakes.map(|(key, message)| Finding::wrong("store", format!("`{key}`: {message}"), to_do)).collect();
    match place {
        Place::File { path, .. } => {
            findings.extend(room(path));
            let in_use = sound(path, gateway_answers, &mut findings);
            Store { findings, in_use }
        }
        Place::Postgres(postgres) => {
            if findings.is_empty() {
                let warnings = store::probe(postgres).unwrap_or_default();
                let warnings = warnings.into_iter();
                findings.extend(warnings.map(|warning| Finding::new("store", State::Warning, warning, "see scale.md")));
                findings.push(Finding::ok(
                    "store",
                    format!("{} answers, and has the gateway's tables or room for them", postgres.url),
                ));
            }
            // The database says who holds the lease; a doctor that logs in disturbs nobody who is away.
            Store { findings, in_use: gateway_answers }
        }
    }
}

/// Says how much room there is. Pages are rewritten, so the file may for a while take as much again.
fn room(path: &Path) -> Option<Finding> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let disk = statvfs(directory).ok()?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
    let size = std::fs::metadata(path).map_or(0, |file| file.len()) >> 20;
    let says = format!("{free} MiB are free for {}, which has {size} MiB", path.display());
    let to_do = "make room or grow the volume; see \"The disk is full\" in runbooks.md";
    Some(if free < LEAST_MEBIBYTES {
        Finding::wrong("disk", says, to_do)
    } else if free < size + 4 * LEAST_MEBIBYTES {
        Finding::new("disk", State::Warning, says, to_do)
    } else {
        Finding::ok("disk", says)
    })
}

/// Looks whether the file is open elsewhere, and at its pages if it is not. Returns whether it is.
fn sound(path: &Path, gateway_answers: bool, findings: &mut Vec<Finding>) -> bool {
    if !path.exists() {
        findings.push(Finding::ok(
            "store",
            format!("{} is not there yet; the gateway makes it when it starts", path.display()),
        ));
        return false;
    }
    let shown = path.display();
    let (finding, in_use) = match database::check(path) {
        Err(OpenError::Locked) if gateway_answers => {
            (Finding::ok("store", format!("{shown} is in use by the gateway")), true)
        }
        Err(OpenError::Locked) => {
            let says = format!("{shown} is in use, but no gateway answers");
            (
                Finding::wrong(
                    "store",
                    says,
                    format!("`fuser {shown}` names the process: a gateway that hangs, or one that listens elsewhere"),
                ),
                true,
            )
        }
        Err(OpenError::Damaged(detail)) => {
            let says = format!("{shown} is damaged: {detail}");
            (Finding::wrong("store", says, "see \"Back up and restore\" in operations.md"), false)
        }
        Err(OpenError::Io(error)) => {
            let says = format!("{shown} cannot be read: {error}");
            (Finding::wrong("store", says, "run this as the gateway's user, and look at the disk"), false)
        }
        Ok(()) => (Finding::ok("store", format!("{shown} is sound: every page was checked")), false),
    };
    findings.push(finding);
    in_use
}
