//! Requests that wait for a key on a machine without a network, and what that machine makes of them.
//!
//! The machine that signs takes names, clusters and sizes from its own invitations and certificates, never from the queue: whoever
//! breaks into the machine with the network can invent no meter.

use std::fs;
use std::path::{Path, PathBuf};

use dream_protocol::certificate::Certificate;
use dream_protocol::ids::MeterId;
use dream_protocol::time::Timestamp;

use super::enrolment::Outcome;
use super::invitations::is_hash;
use super::{Authority, AuthorityError, Issued, Request};
use crate::files::{self, FileError};
use crate::identity::renewable_from;
use crate::invitation::Fingerprint;

/// The folder of requests: those that used an invitation, and those that wait.
const QUEUE: &str = "queue";

/// What begins the name of a renewal.
const RENEWAL: &str = "renew-";

/// What became of one request of a queue.
#[derive(Debug)]
pub struct Signed {
    pub meter: MeterId,
    /// Why it was refused, if it was.
    pub refused: Option<AuthorityError>,
}

/// Signs what waits in a queue by the rules of this authority, and writes each answer beside its request.
pub fn sign_queue(authority: &mut Authority, queue: &Path, now: Timestamp) -> Result<Vec<Signed>, AuthorityError> {
    let broken = |error| FileError::Read { path: queue.to_owned(), error };
    let mut names = Vec::new();
    for entry in fs::read_dir(queue).map_err(broken)? {
        let name = entry.map_err(broken)?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(".csr")).map(str::to_owned));
    }
    names.sort();
    let mut all = Vec::new();
    for name in names {
        let request = Request::read(&queue.join(format!("{name}.csr")))?;
        let (answer, refused) = (queue.join(format!("{name}.pem")), queue.join(format!("{name}.refused")));
        if answer.exists() {
            continue;
        }
        let meter = request.meter().clone();
        match authority.answer_queued(&name, &request, now) {
            Ok(der) => {
                files::replace(&answer, files::encode("CERTIFICATE", &der).as_bytes())?;
                if refused.exists() {
                    fs::remove_file(&refused).map_err(|error| FileError::Write { path: refused, error })?;
                }
                all.push(Signed { meter, refused: None });
            }
            // What is wrong on this machine is no answer to the owner.
            Err(error @ (AuthorityError::File(_) | AuthorityError::Register(_))) => return Err(error),
            Err(error) => {
                files::replace(&refused, error.to_string().as_bytes())?;
                all.push(Signed { meter, refused: Some(error) });
            }
        }
    }
    Ok(all)
}

impl Authority {
    fn answer_queued(&mut self, name: &str, request: &Request, now: Timestamp) -> Result<Vec<u8>, AuthorityError> {
        let meter = request.meter().clone();
        if name.strip_prefix(RENEWAL).is_some_and(|named| named == meter.as_str()) {
            let newest = self.issued_for(&meter, request).filter(|issued| issued.is_valid(now));
            let newest = newest.ok_or_else(|| AuthorityError::NothingToRenew(meter.clone()))?;
            // One that was renewed is not due again: this is the answer to a request that was repeated.
            let due = now.as_secs() >= renewable_from(&newest.certificate);
            let ends = if due { newest.certificate.not_after() } else { 0 };
            return self.renewal_for(&meter, request, ends, now);
        }
        match self.enrol(name, meter.as_str(), request, now)? {
            Outcome::Certificate(der) => Ok(der),
            Outcome::Waiting => unreachable!("the key that signs is here"),
        }
    }

    pub(super) fn queue_folder(&self) -> PathBuf {
        self.directory.join(QUEUE)
    }

    /// Returns the file of the request that used the invitation with this hash.
    pub(super) fn request_file(&self, hash: &str) -> PathBuf {
        debug_assert!(is_hash(hash));
        self.queue_folder().join(format!("{hash}.csr"))
    }

    /// Returns how many requests wait for an answer.
    pub fn waiting(&self) -> usize {
        let Ok(entries) = fs::read_dir(self.queue_folder()) else { return 0 };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name.ends_with(".csr")).filter(|name| self.waits(name)).count()
    }

    fn waits(&self, name: &str) -> bool {
        let request = self.queue_folder().join(name);
        let answered = |extension| request.with_extension(extension).exists();
        let issued = Request::read(&request).is_ok_and(|found| self.issued_for(found.meter(), &found).is_some());
        !answered("pem") && !answered("refused") && (name.starts_with(RENEWAL) || !issued)
    }

    /// Takes in the answer of the machine that signs, if it is there.
    pub(super) fn fetch_signed(
        &mut self,
        name: &str,
        meter: &MeterId,
        request: &Request,
    ) -> Result<Outcome, AuthorityError> {
        let beside = self.queue_folder().join(format!("{name}.csr"));
        let (answer, refused) = (beside.with_extension("pem"), beside.with_extension("refused"));
        if answer.exists() {
            let der = files::certificates(&answer)?.swap_remove(0).to_vec();
            self.take_in(&der, meter, request, &answer)?;
            return Ok(Outcome::Certificate(der));
        }
        if refused.exists() {
            let why = files::read(&refused)?;
            return Err(AuthorityError::RefusedElsewhere(String::from_utf8_lossy(&why).into_owned()));
        }
        Ok(Outcome::Waiting)
    }

    /// Queues a renewal, or takes in its answer.
    pub(super) fn queue_renewal(
        &mut self,
        meter: &MeterId,
        request: &Request,
        shown: &Certificate,
        now: Timestamp,
    ) -> Result<Outcome, AuthorityError> {
        let from = renewable_from(shown);
        if now.as_secs() < from {
            return Err(AuthorityError::TooEarly { meter: meter.clone(), from });
        }
        let (folder, name) = (self.queue_folder(), format!("{RENEWAL}{meter}"));
        let waiting = folder.join(format!("{name}.csr"));
        let answer = waiting.with_extension("pem");
        // The answer to last year's request is no answer to this one.
        let stale = answer.exists() && {
            let der = files::certificates(&answer)?.swap_remove(0);
            Certificate::unverified(&der).is_ok_and(|found| found.not_after() <= shown.not_after())
        };
        if stale || !waiting.exists() {
            for path in [&answer, &waiting.with_extension("refused")] {
                if path.exists() {
                    fs::remove_file(path).map_err(|error| FileError::Write { path: path.clone(), error })?;
                }
            }
            fs::create_dir_all(&folder).map_err(|error| FileError::Write { path: folder, error })?;
            files::replace(&waiting, request.pem().as_bytes())?;
        }
        self.fetch_signed(&name, meter, request)
    }

    /// Puts a certificate that another machine has signed among those that are issued.
    fn take_in(&mut self, der: &[u8], meter: &MeterId, request: &Request, from: &Path) -> Result<(), AuthorityError> {
        let refused = |error| AuthorityError::Certificate { path: from.to_owned(), error };
        let certificate = self.authorities.verify_meter(der).map_err(refused)?;
        if certificate.meter().map_err(refused)? != meter || certificate.key().0 != request.key().0 {
            let message = format!("{} is not the answer to the request beside it", from.display());
            return Err(AuthorityError::Community(message));
        }
        let fingerprint = Fingerprint::of(der);
        if self.issued.iter().any(|issued| issued.fingerprint == fingerprint) {
            return Ok(());
        }
        let path = self.directory.join("issued").join(format!("{meter}-{:016x}.pem", certificate.not_after()));
        files::replace(&path, files::encode("CERTIFICATE", der).as_bytes())?;
        self.issued.push(Issued { path, meter: meter.clone(), certificate, fingerprint });
        Ok(())
    }
}
