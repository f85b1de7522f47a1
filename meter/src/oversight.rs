//! Watches the authority: its register has this meter's certificate and those of every list, counts as many meters as lists have,
//! and never changes its past. What contradicts is kept for others to judge.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dream_protocol::time::Timestamp;
use dream_protocol::wire::{FullList, Sign1};
use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::authority::register::{Checked, Entry, Kept, Register, RegisterError, meters_of, names};
use crate::clock::wall;
use crate::config::{Config, Renewal};
use crate::est::{self, Client, EstError};
use crate::files::{self, FileError};
use crate::identity::IdentityError;
use crate::invitation::Fingerprint;
use crate::standing::Standing;

/// How often the register is looked at: about once a day, with every list, and sooner if something does not agree.
const DAY: Duration = Duration::from_secs(86_400);
const SOON: Duration = Duration::from_secs(600);

/// The file with the register as it was seen last.
const KEPT: &str = "register.json";

/// What the register says of this meter and its list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It names this meter and everybody in the list.
    Agrees { meters: usize },
    /// It does not name this meter's certificate.
    WithoutUs,
    /// The list has so many certificates that the register does not name.
    Unnamed { certificates: usize },
    /// The list has more members than the register has meters of the cluster.
    TooMany { listed: u64, registered: usize },
    /// It has changed its past; the proof is in this file.
    ChangedItsPast { evidence: PathBuf },
}

/// Why nothing was found out.
#[derive(Debug, Error)]
pub enum OversightError {
    #[error(transparent)]
    Est(#[from] EstError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// Two registers that one authority has signed, and that cannot both be true.
#[derive(Debug, Serialize, Deserialize)]
pub struct Evidence {
    pub kept: Register,
    pub found: Register,
}

impl Evidence {
    /// Judges it with nothing but the certificates of authorities. Returns what it shows, or `None` if it shows nothing.
    pub fn judge(&self, authorities: &[impl AsRef<[u8]>]) -> Result<Option<String>, RegisterError> {
        self.kept.verify(authorities)?;
        self.found.verify(authorities)?;
        Ok(match Kept(self.kept.clone()).compare(&self.found) {
            Checked::Grown(_) | Checked::Older => None,
            Checked::Contradiction { kept, found } => {
                let same = kept.lines.iter().zip(&found.lines).take_while(|(one, other)| one == other).count();
                Some(format!(
                    "the authority signed two registers that differ from entry {same} on: one with {} entries at {}, one with {} at {}",
                    kept.head.entries, kept.head.at, found.head.entries, found.head.at
                ))
            }
        })
    }
}

/// Looks at the register about once a day until the process ends, and shows what it finds.
pub async fn watch(config: Config, standing: watch::Sender<Standing>) {
    let Some(renewal) = config.renewal.clone() else { return std::future::pending().await };
    loop {
        let wait = match look(&config, &renewal, &standing, wall()).await {
            Ok(finding) => {
                say(&finding);
                let soon = matches!(finding, Finding::Unnamed { .. } | Finding::TooMany { .. } | Finding::WithoutUs);
                standing.send_modify(|standing| standing.register = Some(finding));
                if soon { SOON } else { DAY.mul_f64(rand::rng().random_range(0.8..1.2)) }
            }
            Err(error) => {
                warn!(%error, "cannot look at the authority's register; trying again");
                SOON
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = another_list(&standing) => {}
        }
    }
}

/// Waits for a list other than the one that the meter has now.
async fn another_list(standing: &watch::Sender<Standing>) {
    let mut seen = standing.subscribe();
    let epoch = |standing: &Standing| standing.list.map(|list| list.epoch);
    let before = epoch(&seen.borrow());
    // The channel lasts as long as the sender, which is here.
    seen.wait_for(|now| epoch(now).is_some() && epoch(now) != before).await.ok();
}

fn say(finding: &Finding) {
    match finding {
        Finding::Agrees { meters } => info!(meters, "the authority's register agrees"),
        Finding::ChangedItsPast { evidence } => {
            error!(evidence = %evidence.display(), "the authority's register has changed its past; tell your community");
        }
        Finding::WithoutUs | Finding::Unnamed { .. } | Finding::TooMany { .. } => {
            warn!(?finding, "the authority's register does not agree");
        }
    }
}

/// Looks at the register once.
pub async fn look(
    config: &Config,
    renewal: &Renewal,
    standing: &watch::Sender<Standing>,
    now: Timestamp,
) -> Result<Finding, OversightError> {
    let identity = config.load_identity()?;
    let mut authorities = Vec::new();
    for path in &config.identity.meter_authorities {
        authorities.extend(files::certificates(path)?);
    }
    let client = Client::new(renewal.url.clone(), renewal.server, Some(&identity))?;
    let path = config.state.join(KEPT);
    let register = match kept(&path)? {
        None => fetched(&client, 0).await?,
        Some(kept) => match kept.grown(&fetched(&client, kept.0.lines.len()).await?) {
            Some(grown) => grown,
            None => {
                let found = fetched(&client, 0).await?;
                found.verify(&authorities)?;
                match kept.compare(&found) {
                    Checked::Grown(grown) => grown,
                    Checked::Older => kept.0,
                    Checked::Contradiction { kept, found } => {
                        return Ok(Finding::ChangedItsPast { evidence: keep_evidence(config, kept, found)? });
                    }
                }
            }
        },
    };
    let entries = register.verify(&authorities)?;
    files::replace(&path, &serde_json::to_vec(&register).expect("lines of text"))?;
    let seen = standing.borrow().clone();
    // Certificates of another authority are in another register.
    let listed = if authorities.len() == 1 { seen.listed.as_ref() } else { &[] };
    let members = seen.list.as_ref().map_or(0, |list| list.members);
    let ours = (identity.cluster.as_str(), Fingerprint::of(&identity.certificate));
    Ok(judge(&entries, ours, listed, members, now))
}

/// Judges a register by our cluster and certificate, and by what a list names and counts.
fn judge(
    entries: &[Entry],
    (cluster, certificate): (&str, Fingerprint),
    listed: &[Fingerprint],
    members: u64,
    now: Timestamp,
) -> Finding {
    let registered = meters_of(entries, cluster, now);
    let unnamed = listed.iter().filter(|certificate| !names(entries, certificate)).count();
    if !names(entries, &certificate) {
        Finding::WithoutUs
    } else if unnamed > 0 {
        Finding::Unnamed { certificates: unnamed }
    } else if members > registered as u64 {
        Finding::TooMany { listed: members, registered }
    } else {
        Finding::Agrees { meters: registered }
    }
}

async fn fetched(client: &Client, from: usize) -> Result<Register, OversightError> {
    Ok(Register::parse(&client.get(&format!("{}?from={from}", est::REGISTER)).await?)?)
}

fn kept(path: &Path) -> Result<Option<Kept>, OversightError> {
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(Kept(Register::parse(&files::read(path)?)?)))
}

fn keep_evidence(config: &Config, kept: Register, found: Register) -> Result<PathBuf, FileError> {
    let path = config.state.join(format!("register-evidence-{}.json", found.head.at));
    files::replace(&path, &serde_json::to_vec(&Evidence { kept, found }).expect("lines of text"))?;
    Ok(path)
}

/// Returns the certificates in a whole list that the meter has accepted: none if it is a short one.
pub(crate) fn listed(list: &[u8]) -> Vec<Fingerprint> {
    let Ok(list) = FullList::decode(list) else { return Vec::new() };
    let certificate = |enrolment: &&[u8]| Sign1::decode_certified(enrolment).ok().map(|(_, der)| Fingerprint::of(der));
    list.enrolments.iter().filter_map(certificate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invitation::hexadecimal;

    const NOW: Timestamp = Timestamp::from_secs(1000);

    fn certificate(number: u8) -> Fingerprint {
        Fingerprint([number; 32])
    }

    fn entry(number: u8, meter: u64, cluster: &str, to: u64) -> Entry {
        let (cluster, certificate) = (cluster.to_owned(), hexadecimal(&certificate(number).0));
        Entry { number: number.into(), at: 0, cluster, size: 3, meter, certificate, from: 0, to }
    }

    #[test]
    fn a_register_is_judged_by_what_it_names_and_how_many() {
        let entries = [
            entry(0, 0, "north", 2000),
            entry(1, 1, "north", 2000),
            // One that was renewed, one that has ended, one of another cluster.
            entry(2, 1, "north", 3000),
            entry(3, 2, "north", 900),
            entry(4, 3, "south", 2000),
        ];
        let judged = |ours: u8, listed: &[u8], members: u64| {
            let listed: Vec<Fingerprint> = listed.iter().map(|number| certificate(*number)).collect();
            judge(&entries, ("north", certificate(ours)), &listed, members, NOW)
        };
        assert_eq!(judged(0, &[0, 2], 2), Finding::Agrees { meters: 2 });
        assert_eq!(judged(0, &[], 0), Finding::Agrees { meters: 2 });
        assert_eq!(judged(9, &[0, 2], 2), Finding::WithoutUs);
        assert_eq!(judged(0, &[0, 2, 8, 9], 2), Finding::Unnamed { certificates: 2 });
        assert_eq!(judged(0, &[0, 2], 3), Finding::TooMany { listed: 3, registered: 2 });
    }
}
