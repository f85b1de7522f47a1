//! A certificate that renews itself: in the last third of its life the meter asks its authority, with the certificate it has.

use std::path::PathBuf;
use std::time::Duration;

use dream_edge::backoff::Backoff;
use dream_edge::issuer;
use rand::RngExt as _;
use thiserror::Error;
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::clock::{utc, wall};
use crate::config::{Config, Renewal};
use crate::est::{Answer, Client, EstError};
use crate::files::{self, FileError};
use crate::identity::{Identity, IdentityError, IdentityFiles};

/// How often to look at the time, because somebody may set the clock.
const LOOK: Duration = Duration::from_secs(3600);

/// How long to wait after a failure, and at most. A third of a year is a long time to try.
const AGAIN: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(6 * 3600));

/// Within which part of the last third meters begin, so that they do not all come at once: the first tenth.
const SPREAD: u64 = 10;

/// Why a certificate was not renewed.
#[derive(Debug, Error)]
pub enum RenewalError {
    #[error(transparent)]
    Est(#[from] EstError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error(
        "the authority sent a certificate for `{found}`, not one that ends later for this meter and cluster; tell whoever runs it"
    )]
    Other { found: String },
}

/// What comes of a try.
#[derive(Debug, PartialEq, Eq)]
pub enum Tried {
    /// It is not time yet.
    Early,
    /// Ask again after so many seconds.
    Later(u64),
    /// A new certificate is installed.
    Renewed,
}

impl Config {
    /// Returns where a certificate goes that the meter has renewed by itself: the folder of this file may be read-only.
    pub fn renewed_certificate(&self) -> PathBuf {
        self.state.join("meter.pem")
    }

    /// Reads and checks who the meter is, by the certificate that ends last: the configured one, or a renewed one for the same key.
    pub fn load_identity(&self) -> Result<Identity, IdentityError> {
        let configured = Identity::load(&self.identity, self.cluster.as_ref());
        let path = self.renewed_certificate();
        if self.renewal.is_none() || !path.exists() {
            return configured;
        }
        let files = IdentityFiles { certificate: path, ..self.identity.clone() };
        match (configured, Identity::load(&files, self.cluster.as_ref())) {
            (Ok(configured), Ok(renewed)) if renewed.checked.not_after() > configured.checked.not_after() => {
                Ok(renewed)
            }
            (Err(_), Ok(renewed)) => Ok(renewed),
            (configured, _) => configured,
        }
    }
}

/// Renews the certificate whenever it is due, until the process ends, and says so.
pub async fn keep(config: Config, renewed: mpsc::Sender<()>) {
    let Some(renewal) = &config.renewal else { return std::future::pending().await };
    let mut failures = Backoff::new(AGAIN.0, AGAIN.1);
    let spread = rand::rng().random_range(0..1000);
    loop {
        let wait = match attempt(&config, renewal, spread).await {
            Ok(Tried::Early) => LOOK,
            Ok(Tried::Later(seconds)) => Duration::from_secs(seconds),
            Ok(Tried::Renewed) => {
                failures.reset();
                if renewed.send(()).await.is_err() {
                    return std::future::pending().await;
                }
                LOOK
            }
            Err(RenewalError::Est(EstError::TooMany { seconds })) => Duration::from_secs(seconds),
            Err(error) => {
                warn!(%error, "the certificate was not renewed; trying again");
                failures.next_wait()
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Renews the certificate if it is due. `spread` says when, in thousandths of the first tenth of its last third.
pub async fn attempt(config: &Config, renewal: &Renewal, spread: u64) -> Result<Tried, RenewalError> {
    let identity = config.load_identity()?;
    let (from, to) = (identity.renewable_from(), identity.checked.not_after());
    if wall().as_secs() < from + (to - from) / SPREAD * spread / 1000 {
        return Ok(Tried::Early);
    }
    let client = Client::new(renewal.url.clone(), renewal.server, Some(&identity))?;
    match client.renew(&issuer::request(&identity.id, &identity.seed())).await? {
        Answer::Later { seconds } => Ok(Tried::Later(seconds)),
        Answer::Certificate(der) => {
            install(config, &identity, &der)?;
            Ok(Tried::Renewed)
        }
    }
}

/// Puts a certificate in the place of the one that is there, if it is for the same meter, key and cluster and ends later.
fn install(config: &Config, identity: &Identity, der: &[u8]) -> Result<(), RenewalError> {
    let path = &config.renewed_certificate();
    let refused = |error| IdentityError::Certificate { path: path.clone(), error };
    let found = identity.authorities.verify_meter(der).map_err(refused)?;
    let id = found.meter().map_err(refused)?;
    let same_cluster = found.cluster().is_none_or(|cluster| cluster.id == identity.cluster);
    if *id != identity.id
        || found.key() != identity.checked.key()
        || !same_cluster
        || found.not_after() <= identity.checked.not_after()
    {
        return Err(RenewalError::Other { found: id.to_string() });
    }
    files::replace(path, files::encode("CERTIFICATE", der).as_bytes())?;
    info!(until = utc(found.not_after()), "the authority has renewed the certificate");
    Ok(())
}
