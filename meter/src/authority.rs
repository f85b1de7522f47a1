//! A small authority on files: it certifies which meters are in a cluster, and how many.
//!
//! What it has issued is its register: every certificate is kept beside its key, and the rules look at nothing else. In a
//! community the authority's count is what keeps a gateway from filling a cluster with meters of its own, so it refuses to be
//! kept where a gateway's key is. `docs/authority.md` says how to keep it.

mod community;
mod enrolment;
mod invitations;
mod place;
mod queue;
pub mod register;
mod request;
mod service;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use dream_edge::issuer::{self, Ed25519, Issuer, SerialNumber, Validity};
use dream_protocol::certificate::{Anchors, Authorities, Certificate, CertificateError, Draw};
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::keys::DrawKey;
use dream_protocol::params::MAX_MEMBERS;
use dream_protocol::time::Timestamp;
use rustls::pki_types::CertificateDer;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::clock::utc;
use crate::files::{self, FileError};
use crate::identity::renewable_from;
use crate::invitation::Fingerprint;
pub use community::{Community, Facts};
pub use enrolment::Outcome;
pub use invitations::{InvitationRefused, Invited};
pub use place::Lock;
use place::{pem_files, refuse_beside_gateway};
pub use queue::{Signed, sign_queue};
use register::RegisterError;
pub use request::{Request, RequestError, write_request};
pub use service::{Desk, serve};

const DAY_SECONDS: u64 = 86_400;

/// Certificates hold from an hour ago: clocks differ.
const BACKDATED_SECONDS: u64 = 3_600;

/// So many certificates of a meter may be valid at once: the one in use, and its successor.
const MOST_VALID: usize = 2;

/// The file with names that no meter may have, each on its line.
const RESERVED: &str = "reserved";

/// The file with names whose certificates are not renewed, each on its line. It may be missing.
const DENIED: &str = "denied";

/// The file with the key that signs, which may be on another machine.
const KEY: &str = "authority.key";

/// The file with the key that makes the values by which meters are drawn as holders.
const DRAW_KEY: &str = "draw.key";

/// Why the authority does not do what it is asked.
#[derive(Debug, Error)]
pub enum AuthorityError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("no authority in {}; create one with `dream-meter authority init`", directory.display())]
    None { directory: PathBuf },
    #[error("{}: {error}", path.display())]
    Certificate { path: PathBuf, error: CertificateError },
    #[error(
        "{} belongs to a gateway; do not keep an authority beside a gateway's key: anyone with both can certify \
         meters that do not exist, list them beside a few real homes, and see those homes. Keep the authority on another machine, \
         with another person",
        found.display()
    )]
    BesideGateway { found: PathBuf },
    #[error("a cluster has 1 to {MAX_MEMBERS} meters, not {0}")]
    Size(u64),
    #[error("{0} days: use 1 to 3650")]
    Days(u64),
    #[error(
        "the request names `{found}`, not `{asked}`; a broker grants rights by the name in the certificate, so check \
         whose request it is"
    )]
    OtherName { asked: MeterId, found: MeterId },
    #[error(
        "`{name}` is reserved in {}: a broker would grant this meter the rights of that gateway or observer; choose another name",
        path.display()
    )]
    Reserved { name: String, path: PathBuf },
    #[error(
        "{} is missing: restore it from the backup of this directory, or meters would get new draw values. If this \
         authority never had one, create it with `openssl rand -hex 32` and `chmod 600` it",
        path.display()
    )]
    NoDrawKey { path: PathBuf },
    #[error(
        "{} is missing: create it with the names of gateways and observers on the broker, one per line; no meter may \
         have these names",
        path.display()
    )]
    NoReserved { path: PathBuf },
    #[error(
        "`{meter}` has a certificate that is valid until {}; renew it with `authority renew {meter}` in the last third \
         of its life, or use --replace if its key is lost",
        utc(*until)
    )]
    Certified { meter: MeterId, until: u64 },
    #[error(
        "`{meter}` already has two valid certificates, the most a meter may have; the earlier one ends at {}",
        utc(*until)
    )]
    TwoValid { meter: MeterId, until: u64 },
    #[error(
        "{found} meters of `{cluster}` are certified, and its size is {size}; count again, and raise --size if it has grown"
    )]
    Full { cluster: ClusterId, size: u64, found: usize },
    #[error("`{0}` has no valid certificate to renew; sign a new request from it")]
    NothingToRenew(MeterId),
    #[error("the certificate of `{meter}` can be renewed in the last third of its life, from {} on", utc(*from))]
    TooEarly { meter: MeterId, from: u64 },
    #[error("the certificate of `{0}` names no cluster with a size; it was not issued here")]
    Foreign(MeterId),
    #[error("`{0}` is denied: this authority certifies and renews it no more")]
    Denied(MeterId),
    #[error(
        "the request of `{0}` is for another key than its certificate, and a renewal keeps the key; a meter that has lost its key needs \
         a new invitation (`authority invite {0} --replace`)"
    )]
    OtherKey(MeterId),
    #[error(transparent)]
    Invitation(#[from] InvitationRefused),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error("the machine that signs has refused: {0}")]
    RefusedElsewhere(String),
    #[error("{0}")]
    Community(String),
}

/// What a certificate is to say beside who the meter is.
#[derive(Debug, Clone)]
pub struct Grant {
    pub cluster: ClusterId,
    /// How many meters the cluster has.
    pub size: u64,
    pub days: u64,
}

impl Grant {
    fn check(&self) -> Result<(), AuthorityError> {
        if !(1..=MAX_MEMBERS as u64).contains(&self.size) {
            return Err(AuthorityError::Size(self.size));
        }
        if !(1..=3650).contains(&self.days) {
            return Err(AuthorityError::Days(self.days));
        }
        Ok(())
    }
}

/// A certificate that was issued, where it is kept, and what it says.
#[derive(Debug, Clone)]
pub struct Issued {
    pub path: PathBuf,
    pub meter: MeterId,
    pub certificate: Certificate,
    pub fingerprint: Fingerprint,
}

impl Issued {
    pub fn is_valid(&self, now: Timestamp) -> bool {
        (self.certificate.not_before()..=self.certificate.not_after()).contains(&now.as_secs())
    }

    /// Returns the certificate, in DER.
    pub fn der(&self) -> Result<Vec<u8>, FileError> {
        Ok(files::certificates(&self.path)?.swap_remove(0).to_vec())
    }
}

/// An authority and everything that it has issued.
#[derive(Debug)]
pub struct Authority {
    directory: PathBuf,
    /// Its own certificate.
    der: CertificateDer<'static>,
    /// Itself, as those who verify its certificates see it.
    authorities: Authorities,
    issued: Vec<Issued>,
}

impl Authority {
    /// Makes an authority with a new key in a directory. No meter gets one of the names that are reserved. If it follows
    /// another, meters keep the values by which they are drawn: the key for these is taken over.
    pub fn init(
        directory: &Path,
        name: &str,
        reserved: &[GatewayId],
        draws_of: Option<&Path>,
        days: u64,
        now: Timestamp,
    ) -> Result<Self, AuthorityError> {
        if !(1..=3650).contains(&days) {
            return Err(AuthorityError::Days(days));
        }
        refuse_beside_gateway(directory)?;
        let draws = match draws_of {
            Some(before) => files::secret(&before.join(DRAW_KEY))?,
            None => Zeroizing::new(rand::random()),
        };
        let issued = directory.join("issued");
        fs::create_dir_all(&issued).map_err(|error| FileError::Write { path: issued, error })?;
        let seed = files::create_key(&directory.join(KEY))?;
        files::create_secret(&directory.join(DRAW_KEY), &draws)?;
        let names: String = reserved.iter().map(|name| format!("{name}\n")).collect();
        files::create(&directory.join(RESERVED), names.as_bytes(), 0o644)?;
        let issuer = Issuer::new(name, &seed, validity(now, days));
        let text = files::encode("CERTIFICATE", issuer.certificate());
        files::create(&directory.join("authority.pem"), text.as_bytes(), 0o644)?;
        Self::open(directory)
    }

    /// Opens an authority with all that it has issued.
    pub fn open(directory: &Path) -> Result<Self, AuthorityError> {
        refuse_beside_gateway(directory)?;
        let path = directory.join("authority.pem");
        if !path.exists() {
            return Err(AuthorityError::None { directory: directory.to_owned() });
        }
        let der = files::certificates(&path)?.swap_remove(0);
        let meters = Anchors::new([der.as_ref()]).map_err(|error| AuthorityError::Certificate { path, error })?;
        let authorities = Authorities::shared(meters, Anchors::none());
        let mut authority = Self { directory: directory.to_owned(), der, authorities, issued: Vec::new() };
        authority.refresh()?;
        Ok(authority)
    }

    /// Opens one that no other program changes until the lock is dropped.
    pub fn open_to_change(directory: &Path) -> Result<(Lock, Self), AuthorityError> {
        if !directory.join("authority.pem").exists() {
            return Err(AuthorityError::None { directory: directory.to_owned() });
        }
        let lock = Lock::take(directory)?;
        Ok((lock, Self::open(directory)?))
    }

    /// Reads what another program has issued meanwhile.
    pub fn refresh(&mut self) -> Result<(), AuthorityError> {
        let known: BTreeSet<PathBuf> = self.issued.iter().map(|issued| issued.path.clone()).collect();
        let mut seen: BTreeSet<Fingerprint> = self.issued.iter().map(|issued| issued.fingerprint).collect();
        for path in pem_files(&self.directory.join("issued"))? {
            if known.contains(&path) {
                continue;
            }
            let found = files::certificates(&path)?.swap_remove(0);
            let refused = |error| AuthorityError::Certificate { path: path.clone(), error };
            let certificate = self.authorities.verify_meter(&found).map_err(refused)?;
            let (meter, fingerprint) = (certificate.meter().map_err(refused)?.clone(), Fingerprint::of(&found));
            // A copy of one under another name is the same one.
            if seen.insert(fingerprint) {
                self.issued.push(Issued { path, meter, certificate, fingerprint });
            }
        }
        self.issued.sort_by_key(|issued| (issued.meter.clone(), issued.certificate.not_after()));
        Ok(())
    }

    /// Returns whether the key that signs is on this machine.
    pub fn has_key(&self) -> bool {
        self.directory.join(KEY).exists()
    }

    /// Returns its own certificate, in DER.
    pub const fn certificate(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// Returns everything that was issued, sorted by meter and end.
    pub fn issued(&self) -> &[Issued] {
        &self.issued
    }

    /// Certifies a meter by its request, which must be of that name. A second valid certificate for another key needs `replace`. A
    /// meter that had another name is drawn by its old value.
    pub fn sign(
        &mut self,
        meter: &MeterId,
        formerly: Option<&MeterId>,
        request: &Request,
        grant: &Grant,
        replace: bool,
        now: Timestamp,
    ) -> Result<&Issued, AuthorityError> {
        if meter != request.meter() {
            return Err(AuthorityError::OtherName { asked: meter.clone(), found: request.meter().clone() });
        }
        self.check_grant(meter, grant, replace, now)?;
        let draw = self.draw(meter, formerly)?;
        self.issue(meter, request.key(), grant, draw, now)
    }

    /// Checks the rules for a certificate of a new key.
    fn check_grant(&self, meter: &MeterId, grant: &Grant, replace: bool, now: Timestamp) -> Result<(), AuthorityError> {
        let valid: Vec<u64> = self.valid(meter, now).map(|issued| issued.certificate.not_after()).collect();
        match valid.as_slice() {
            [] => {}
            [until] if !replace => return Err(AuthorityError::Certified { meter: meter.clone(), until: *until }),
            [_] => {}
            [until, ..] => return Err(AuthorityError::TwoValid { meter: meter.clone(), until: *until }),
        }
        let mut members = self.members(&grant.cluster, now);
        members.insert(meter.clone());
        let size = usize::try_from(grant.size).unwrap_or(usize::MAX);
        if members.len() > size && (1..=MAX_MEMBERS).contains(&size) {
            let (cluster, size, found) = (grant.cluster.clone(), grant.size, members.len());
            return Err(AuthorityError::Full { cluster, size, found });
        }
        grant.check()?;
        self.refuse_named(meter)
    }

    /// Certifies a meter's key again, in the last third of its certificate's life. `size` is what the cluster has now, if
    /// that has changed.
    pub fn renew(
        &mut self,
        meter: &MeterId,
        size: Option<u64>,
        days: u64,
        now: Timestamp,
    ) -> Result<&Issued, AuthorityError> {
        let valid: Vec<&Issued> = self.valid(meter, now).collect();
        if valid.len() >= MOST_VALID {
            let until = valid[0].certificate.not_after();
            return Err(AuthorityError::TwoValid { meter: meter.clone(), until });
        }
        let newest = valid.last().ok_or_else(|| AuthorityError::NothingToRenew(meter.clone()))?;
        let from = renewable_from(&newest.certificate);
        if now.as_secs() < from {
            return Err(AuthorityError::TooEarly { meter: meter.clone(), from });
        }
        let certified = newest.certificate.cluster().and_then(|cluster| Some((cluster.id.clone(), cluster.size?)));
        let (cluster, certified) = certified.ok_or_else(|| AuthorityError::Foreign(meter.clone()))?;
        let key = Ed25519(newest.certificate.key().0);
        let grant = Grant { cluster, size: size.unwrap_or_else(|| certified.into()), days };
        let draw = self.draw(meter, None)?;
        self.issue(meter, key, &grant, draw, now)
    }

    fn issue(
        &mut self,
        meter: &MeterId,
        key: Ed25519,
        grant: &Grant,
        draw: Draw,
        now: Timestamp,
    ) -> Result<&Issued, AuthorityError> {
        grant.check()?;
        self.refuse_named(meter)?;
        let Grant { cluster, size, days } = grant;
        let mut params = issuer::meter(meter, Some((cluster, *size)), draw, validity(now, *days));
        // Positive, and other than that of an earlier certificate of the same key.
        let serial = rand::random::<u64>() >> 1 | 1 << 62;
        params.serial_number = Some(SerialNumber::from(serial));
        let der = self.issuer()?.sign(&params, &key);
        let path = self.directory.join("issued").join(format!("{meter}-{serial:016x}.pem"));
        let refused = |error| AuthorityError::Certificate { path: path.clone(), error };
        let certificate = self.authorities.verify_meter(&der).map_err(refused)?;
        // Whole or not at all, also after a power cut: a part of a certificate would keep the register from being read.
        files::replace(&path, files::encode("CERTIFICATE", &der).as_bytes())?;
        self.issued.push(Issued { path, meter: meter.clone(), certificate, fingerprint: Fingerprint::of(&der) });
        self.publish(now)?;
        Ok(self.issued.last().expect("it was just added"))
    }

    /// Returns the value by which a meter is drawn: the same in all of its certificates, under whatever name (`protocol.md 4a`).
    fn draw(&self, meter: &MeterId, formerly: Option<&MeterId>) -> Result<Draw, AuthorityError> {
        let certified = |meter: &MeterId| {
            self.issued.iter().filter(|issued| issued.meter == *meter).find_map(|issued| issued.certificate.draw())
        };
        if let Some(draw) = certified(meter).or_else(|| formerly.and_then(certified)) {
            return Ok(draw);
        }
        let path = self.directory.join(DRAW_KEY);
        if !path.exists() {
            return Err(AuthorityError::NoDrawKey { path });
        }
        Ok(DrawKey::from_bytes(*files::secret(&path)?).value(formerly.unwrap_or(meter)))
    }

    /// Refuses a meter with a name that is reserved or denied.
    fn refuse_named(&self, meter: &MeterId) -> Result<(), AuthorityError> {
        let (reserved, denied) = (self.directory.join(RESERVED), self.directory.join(DENIED));
        if !reserved.exists() {
            return Err(AuthorityError::NoReserved { path: reserved });
        }
        let names = |path: &Path| -> Result<bool, FileError> {
            let found = files::read(path)?;
            let mut names = found.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
            Ok(names.any(|name| name == meter.as_str().as_bytes()))
        };
        if names(&reserved)? {
            return Err(AuthorityError::Reserved { name: meter.to_string(), path: reserved });
        }
        if denied.exists() && names(&denied)? {
            return Err(AuthorityError::Denied(meter.clone()));
        }
        Ok(())
    }

    fn issuer(&self) -> Result<Issuer, AuthorityError> {
        let seed = files::private_seed(&self.directory.join(KEY))?;
        let name = request::common_name(&self.der).unwrap_or_default();
        Ok(Issuer::resume(&self.der, &name, &seed))
    }

    /// Returns the meters of a cluster that have a valid certificate for it.
    fn members(&self, cluster: &ClusterId, now: Timestamp) -> BTreeSet<MeterId> {
        let of_cluster = |issued: &&Issued| {
            issued.is_valid(now) && issued.certificate.cluster().is_some_and(|found| found.id == *cluster)
        };
        self.issued.iter().filter(of_cluster).map(|issued| issued.meter.clone()).collect()
    }

    /// Returns the valid certificates of a meter, the one that ends first before the others.
    fn valid(&self, meter: &MeterId, now: Timestamp) -> impl Iterator<Item = &Issued> {
        self.issued.iter().filter(move |issued| issued.meter == *meter && issued.is_valid(now))
    }
}

fn validity(now: Timestamp, days: u64) -> Validity {
    let from = now.as_secs().saturating_sub(BACKDATED_SECONDS);
    Validity { from, to: from + BACKDATED_SECONDS + days * DAY_SECONDS }
}

#[cfg(test)]
mod tests;
