//! What comes of a request that arrives over the network: the certificate, later, or why not.
//!
//! A request that is repeated gets the certificate that was issued for it: every signature is a draw for the committee, so there is
//! never a second one for the same request.

use std::fs;

use dream_protocol::certificate::CertificateError;
use dream_protocol::ids::MeterId;
use dream_protocol::time::Timestamp;

use super::invitations::InvitationRefused;
use super::{Authority, AuthorityError, DAY_SECONDS, Issued, Request};
use crate::files::{self, FileError};

/// What comes of a request.
#[derive(Debug)]
pub enum Outcome {
    /// In DER.
    Certificate(Vec<u8>),
    /// It waits for the machine that signs.
    Waiting,
}

impl Authority {
    /// Answers a request that came with an invitation's secret, of which this is the hash.
    pub fn enrol(
        &mut self,
        hash: &str,
        user: &str,
        request: &Request,
        now: Timestamp,
    ) -> Result<Outcome, AuthorityError> {
        let invited = self.invitation(hash)?.ok_or(InvitationRefused::Unknown)?;
        if user != invited.meter.as_str() {
            return Err(InvitationRefused::OtherMeter { invited: invited.meter, found: user.to_owned() }.into());
        }
        if *request.meter() != invited.meter {
            return Err(AuthorityError::OtherName { asked: invited.meter, found: request.meter().clone() });
        }
        let bound = self.request_file(hash);
        if bound.exists() {
            if Request::read(&bound)?.key().0 != request.key().0 {
                return Err(InvitationRefused::Used.into());
            }
        } else if invited.expires < now.as_secs() {
            return Err(InvitationRefused::Expired { at: invited.expires }.into());
        } else {
            if self.has_key() {
                // What the rules refuse does not use up an invitation.
                self.check_grant(&invited.meter, &invited.grant(), invited.replace, now)?;
            }
            self.keep_request(hash, request)?;
        }
        if let Some(issued) = self.issued_for(&invited.meter, request) {
            if !issued.is_valid(now) {
                return Err(InvitationRefused::Used.into());
            }
            return Ok(Outcome::Certificate(issued.der()?));
        }
        if !self.has_key() {
            return self.fetch_signed(hash, &invited.meter, request);
        }
        let (grant, formerly) = (invited.grant(), invited.formerly.as_ref());
        let issued = self.sign(&invited.meter, formerly, request, &grant, invited.replace, now)?;
        Ok(Outcome::Certificate(issued.der()?))
    }

    /// Answers a request that came with the meter's certificate, which is in DER: one for the same key, in the last third of its
    /// life.
    pub fn reenrol(
        &mut self,
        certificate: &[u8],
        request: &Request,
        now: Timestamp,
    ) -> Result<Outcome, AuthorityError> {
        let refused = |error: CertificateError| AuthorityError::Community(format!("the client's certificate: {error}"));
        let shown = self.authorities.verify_meter(certificate).map_err(refused)?;
        let meter = shown.meter().map_err(refused)?.clone();
        if *request.meter() != meter {
            return Err(AuthorityError::OtherName { asked: meter, found: request.meter().clone() });
        }
        if request.key().0 != shown.key().0 {
            return Err(AuthorityError::OtherKey(meter));
        }
        self.refuse_named(&meter)?;
        if !self.has_key() {
            let later = |issued: &&Issued| issued.is_valid(now) && issued.certificate.not_after() > shown.not_after();
            return match self.issued_for(&meter, request).filter(later) {
                Some(issued) => Ok(Outcome::Certificate(issued.der()?)),
                None => self.queue_renewal(&meter, request, &shown, now),
            };
        }
        let issued = self.renewal_for(&meter, request, shown.not_after(), now)?;
        Ok(Outcome::Certificate(issued))
    }

    /// Returns the successor of a certificate that ends at some time: the one that is there, or a new one. In DER.
    pub(super) fn renewal_for(
        &mut self,
        meter: &MeterId,
        request: &Request,
        ends: u64,
        now: Timestamp,
    ) -> Result<Vec<u8>, AuthorityError> {
        let newest = self.issued_for(meter, request).filter(|issued| issued.is_valid(now));
        let newest = newest.ok_or_else(|| AuthorityError::NothingToRenew(meter.clone()))?;
        if newest.certificate.not_after() > ends {
            return Ok(newest.der()?);
        }
        let days = (newest.certificate.not_after() - newest.certificate.not_before()) / DAY_SECONDS;
        let size = newest.certificate.cluster().and_then(|cluster| self.size_of(cluster.id.as_str()));
        Ok(self.renew(meter, size, days.clamp(1, 3650), now)?.der()?)
    }

    /// Returns the newest certificate for the key of a request, valid or not.
    pub(super) fn issued_for(&self, meter: &MeterId, request: &Request) -> Option<&Issued> {
        let same = |issued: &&Issued| issued.meter == *meter && issued.certificate.key().0 == request.key().0;
        self.issued.iter().filter(same).max_by_key(|issued| issued.certificate.not_after())
    }

    /// Returns how many meters a cluster has, as the newest certificate for it says.
    fn size_of(&self, cluster: &str) -> Option<u64> {
        let of_cluster = |issued: &&Issued| issued.certificate.cluster().is_some_and(|of| of.id.as_str() == cluster);
        let newest = self.issued.iter().filter(of_cluster).max_by_key(|issued| issued.certificate.not_before());
        newest?.certificate.cluster()?.size.map(u64::from)
    }

    /// Keeps the first request of an invitation: nobody else can use it from now on.
    fn keep_request(&self, hash: &str, request: &Request) -> Result<(), AuthorityError> {
        let path = self.request_file(hash);
        let folder = self.queue_folder();
        fs::create_dir_all(&folder).map_err(|error| FileError::Write { path: folder, error })?;
        Ok(files::replace(&path, request.pem().as_bytes())?)
    }
}
