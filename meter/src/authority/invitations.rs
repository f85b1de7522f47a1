//! Who is invited to enrol, as what. Of an invitation's secret only the hash is kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Authority, AuthorityError, Grant};
use crate::clock::utc;
use crate::files::{self, FileError};

/// The folder of invitations, each in a file named by the hash of its secret.
const INVITATIONS: &str = "invitations";

/// Why somebody cannot enrol with an invitation.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum InvitationRefused {
    #[error("enrolling needs an invitation: send the meter's name and the invitation's secret by HTTP Basic")]
    NoSecret,
    #[error(
        "no invitation has this secret: it was withdrawn or replaced by a later one, or it is from another authority; ask for a new one"
    )]
    Unknown,
    #[error("this invitation ended at {}; ask the authority for a new one", utc(*at))]
    Expired { at: u64 },
    #[error(
        "this invitation was used for another key. If that was you and the key is lost, ask the authority for a new one; if \
         it was not, tell the authority at once"
    )]
    Used,
    #[error("this invitation is for `{invited}`, not for `{found}`; use the meter's name as the user name")]
    OtherMeter { invited: MeterId, found: String },
}

/// Whom an invitation is for, and what the certificate is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invited {
    pub meter: MeterId,
    pub cluster: ClusterId,
    pub size: u64,
    pub days: u64,
    /// Whether it may have a second valid certificate.
    pub replace: bool,
    pub formerly: Option<MeterId>,
    /// In Unix seconds.
    pub expires: u64,
}

impl Invited {
    pub(super) fn grant(&self) -> Grant {
        Grant { cluster: self.cluster.clone(), size: self.size, days: self.days }
    }
}

/// The same as a file has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    meter: String,
    cluster: String,
    size: u64,
    days: u64,
    replace: bool,
    formerly: Option<String>,
    expires: u64,
}

impl Authority {
    /// Invites meters, each with the hash of a secret. What could not be certified now is refused, and earlier invitations of
    /// these meters that nobody has used end.
    pub fn invite(&self, all: &[(Invited, String)], now: Timestamp) -> Result<(), AuthorityError> {
        if !self.has_key() {
            let message = "invitations are made on the machine that has authority.key; copy the folder `invitations` here from there";
            return Err(AuthorityError::Community(message.to_owned()));
        }
        for (invited, _) in all {
            self.check_grant(&invited.meter, &invited.grant(), invited.replace, now)?;
            self.draw(&invited.meter, invited.formerly.as_ref()).map(drop)?;
        }
        let folder = self.directory.join(INVITATIONS);
        fs::create_dir_all(&folder).map_err(|error| FileError::Write { path: folder, error })?;
        let meters: BTreeSet<&MeterId> = all.iter().map(|(invited, _)| &invited.meter).collect();
        for (hash, earlier) in self.invitations()? {
            if meters.contains(&earlier.meter) && !self.request_file(&hash).exists() {
                let path = self.invitation_file(&hash);
                fs::remove_file(&path).map_err(|error| FileError::Write { path, error })?;
            }
        }
        for (invited, hash) in all {
            let stored = Stored {
                meter: invited.meter.to_string(),
                cluster: invited.cluster.to_string(),
                size: invited.size,
                days: invited.days,
                replace: invited.replace,
                formerly: invited.formerly.as_ref().map(ToString::to_string),
                expires: invited.expires,
            };
            let text = serde_json::to_vec_pretty(&stored).expect("names and numbers");
            files::replace(&self.invitation_file(hash), &text)?;
        }
        Ok(())
    }

    /// Checks many at once, each beside those before it; names every one that cannot be certified.
    pub fn check_all(&self, all: &[Invited], now: Timestamp) -> Result<(), Vec<String>> {
        let mut problems = Vec::new();
        for invited in all {
            if let Err(error) = self.check_grant(&invited.meter, &invited.grant(), invited.replace, now) {
                problems.push(format!("{}: {error}", invited.meter));
            }
        }
        let clusters: BTreeSet<&ClusterId> = all.iter().map(|invited| &invited.cluster).collect();
        for cluster in clusters {
            let mut members = self.members(cluster, now);
            let of_cluster = || all.iter().filter(|invited| invited.cluster == *cluster);
            members.extend(of_cluster().map(|invited| invited.meter.clone()));
            let smallest = of_cluster().map(|invited| invited.size).min().unwrap_or_default();
            if members.len() as u64 > smallest {
                let (cluster, found) = (cluster.clone(), members.len());
                problems.push(AuthorityError::Full { cluster, size: smallest, found }.to_string());
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Returns all invitations, with the hashes of their secrets.
    pub fn invitations(&self) -> Result<Vec<(String, Invited)>, AuthorityError> {
        let folder = self.directory.join(INVITATIONS);
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let broken = |error| FileError::Read { path: folder.clone(), error };
        let mut all = Vec::new();
        for entry in fs::read_dir(&folder).map_err(broken)? {
            let name = entry.map_err(broken)?.file_name();
            if let Some(hash) = name.to_str().and_then(|name| name.strip_suffix(".json"))
                && is_hash(hash)
                && let Some(invited) = self.invitation(hash)?
            {
                all.push((hash.to_owned(), invited));
            }
        }
        all.sort_by(|(_, one), (_, other)| (&one.meter, one.expires).cmp(&(&other.meter, other.expires)));
        Ok(all)
    }

    /// Returns the invitations that can still be used.
    pub fn open_invitations(&self, now: Timestamp) -> Result<Vec<Invited>, AuthorityError> {
        let all = self.invitations()?.into_iter();
        let open = all.filter(|(hash, invited)| invited.expires >= now.as_secs() && !self.request_file(hash).exists());
        Ok(open.map(|(_, invited)| invited).collect())
    }

    /// Returns the invitation whose secret has this hash.
    pub(super) fn invitation(&self, hash: &str) -> Result<Option<Invited>, AuthorityError> {
        let path = self.invitation_file(hash);
        if !is_hash(hash) || !path.exists() {
            return Ok(None);
        }
        let wrong = |why: String| AuthorityError::Community(format!("{} is damaged: {why}", path.display()));
        let stored: Stored = serde_json::from_slice(&files::read(&path)?).map_err(|error| wrong(error.to_string()))?;
        let name = |text: &str| MeterId::new(text).map_err(|error| wrong(error.to_string()));
        Ok(Some(Invited {
            meter: name(&stored.meter)?,
            cluster: ClusterId::new(&stored.cluster).map_err(|error| wrong(error.to_string()))?,
            size: stored.size,
            days: stored.days,
            replace: stored.replace,
            formerly: stored.formerly.as_deref().map(name).transpose()?,
            expires: stored.expires,
        }))
    }

    fn invitation_file(&self, hash: &str) -> PathBuf {
        self.directory.join(INVITATIONS).join(format!("{hash}.json"))
    }
}

/// Whether this is the hash of a secret, and so names no other file.
pub(super) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
