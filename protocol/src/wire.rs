//! The seven messages (`protocol.md 7`): payloads as deterministic CBOR arrays, in COSE envelopes.
//!
//! A type here is what a payload says; whether to believe it is decided with the envelope's key by [`crate::meter`],
//! [`crate::cluster`], [`crate::enrolment`] and [`crate::membership`].

mod cbor;
mod cose;

pub use cbor::DecodeError;
pub(crate) use cbor::{Reader, Writer};
pub use cose::{Mac0, Sign1};

use crate::ids::ClusterId;
use crate::keys::{AgreementPublic, IdentityKey, ListHash, MacKey};
use crate::params::Terms;
use crate::time::Slot;

/// The kind that a payload says it is, 1 to 7 for the messages below.
pub fn kind(payload: &[u8]) -> Result<u64, DecodeError> {
    let mut reader = Reader::new(payload);
    reader.array_of_any()?;
    reader.uint()
}

/// 1: a meter's masked, noisy reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskedReading {
    pub list: [u8; 8],
    pub slot: Slot,
    pub attempt: u8,
    pub ciphertext: u64,
}

impl MaskedReading {
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        reader.array(5)?;
        reader.kind(1)?;
        let message = Self {
            list: reader.fixed("list hash")?,
            slot: Slot(reader.uint()?),
            attempt: reader.small("attempt")?,
            ciphertext: u64::from_be_bytes(reader.fixed("ciphertext")?),
        };
        reader.end()?;
        Ok(message)
    }

    pub fn payload(&self) -> Vec<u8> {
        Writer::array(5)
            .uint(1)
            .bytes(&self.list)
            .uint(self.slot.0)
            .uint(self.attempt.into())
            .bytes(&self.ciphertext.to_be_bytes())
            .finish()
    }

    pub fn seal(&self, key: &MacKey, topic: &str) -> Vec<u8> {
        cose::mac0(&self.payload(), key, topic)
    }
}

/// 2: the gateway names the members whose readings did not arrive, and asks the others to reveal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryRequest {
    pub list: ListHash,
    pub slot: Slot,
    pub attempt: u8,
    /// A bitmap of the list's members; see [`crate::member_set::MemberSet`].
    pub missing: Vec<u8>,
    /// Unix seconds.
    pub deadline: u64,
}

impl RecoveryRequest {
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        reader.array(6)?;
        reader.kind(2)?;
        let message = Self {
            list: ListHash(reader.fixed("list hash")?),
            slot: Slot(reader.uint()?),
            attempt: reader.small("attempt")?,
            missing: reader.bytes()?.to_vec(),
            deadline: reader.uint()?,
        };
        reader.end()?;
        Ok(message)
    }

    pub fn payload(&self) -> Vec<u8> {
        Writer::array(6)
            .uint(2)
            .bytes(&self.list.0)
            .uint(self.slot.0)
            .uint(self.attempt.into())
            .bytes(&self.missing)
            .uint(self.deadline)
            .finish()
    }

    pub fn sign(&self, key: &IdentityKey, topic: &str) -> Vec<u8> {
        cose::sign1(&self.payload(), key, topic, None)
    }
}

/// 3: a meter gives up its own secret and the masks it shared with the missing members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reveal {
    pub list: [u8; 8],
    pub slot: Slot,
    pub attempt: u8,
    pub revealed: u64,
    /// Names the request that is answered: the start of its payload's SHA-256.
    pub request: [u8; 8],
}

impl Reveal {
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        reader.array(6)?;
        reader.kind(3)?;
        let message = Self {
            list: reader.fixed("list hash")?,
            slot: Slot(reader.uint()?),
            attempt: reader.small("attempt")?,
            revealed: u64::from_be_bytes(reader.fixed("revealed")?),
            request: reader.fixed("request hash")?,
        };
        reader.end()?;
        Ok(message)
    }

    pub fn payload(&self) -> Vec<u8> {
        Writer::array(6)
            .uint(3)
            .bytes(&self.list)
            .uint(self.slot.0)
            .uint(self.attempt.into())
            .bytes(&self.revealed.to_be_bytes())
            .bytes(&self.request)
            .finish()
    }

    pub fn seal(&self, key: &MacKey, topic: &str) -> Vec<u8> {
        cose::mac0(&self.payload(), key, topic)
    }
}

/// 4: a meter's own statement that it belongs to a cluster, with the key it will mask with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolmentStatement {
    pub cluster: ClusterId,
    /// SHA-256 of the certificate's DER.
    pub certificate: [u8; 32],
    pub agreement: AgreementPublic,
    /// Unix seconds.
    pub not_before: u64,
    pub not_after: u64,
    /// Grows with every enrolment of a meter: the Unix time of its making.
    pub seq: u64,
}

impl EnrolmentStatement {
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        reader.array(7)?;
        reader.kind(4)?;
        let message = Self {
            cluster: cluster(&mut reader)?,
            certificate: reader.fixed("certificate hash")?,
            agreement: AgreementPublic(reader.fixed("X25519 key")?),
            not_before: reader.uint()?,
            not_after: reader.uint()?,
            seq: reader.uint()?,
        };
        reader.end()?;
        Ok(message)
    }

    pub fn payload(&self) -> Vec<u8> {
        Writer::array(7)
            .uint(4)
            .text(self.cluster.as_str())
            .bytes(&self.certificate)
            .bytes(&self.agreement.0)
            .uint(self.not_before)
            .uint(self.not_after)
            .uint(self.seq)
            .finish()
    }

    pub fn sign(&self, key: &IdentityKey, topic: &str, certificate: &[u8]) -> Vec<u8> {
        cose::sign1(&self.payload(), key, topic, Some(certificate))
    }
}

/// 5: the members of a cluster and the terms they agree to, for a range of slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListStatement<'a> {
    pub cluster: ClusterId,
    pub epoch: u64,
    pub previous: ListHash,
    pub gateway: AgreementPublic,
    /// First and last slot, inclusive.
    pub from_slot: Slot,
    pub to_slot: Slot,
    pub terms: Terms,
    /// The members' enrolments, whole envelopes, sorted by meter id.
    pub enrolments: Vec<&'a [u8]>,
}

impl<'a> ListStatement<'a> {
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        reader.array(19)?;
        reader.kind(5)?;
        let message = Self {
            cluster: cluster(&mut reader)?,
            epoch: reader.uint()?,
            previous: ListHash(reader.fixed("previous list hash")?),
            gateway: AgreementPublic(reader.fixed("gateway X25519 key")?),
            from_slot: Slot(reader.uint()?),
            to_slot: Slot(reader.uint()?),
            terms: terms(&mut reader)?,
            enrolments: (0..reader.array_of_any()?).map(|_| reader.bytes()).collect::<Result<_, _>>()?,
        };
        reader.end()?;
        Ok(message)
    }

    pub fn payload(&self) -> Vec<u8> {
        let terms = &self.terms;
        let head = Writer::array(19)
            .uint(5)
            .text(self.cluster.as_str())
            .uint(self.epoch)
            .bytes(&self.previous.0)
            .bytes(&self.gateway.0)
            .uint(self.from_slot.0)
            .uint(self.to_slot.0)
            .uint(terms.slot_seconds)
            .uint(terms.reading_seconds)
            .uint(terms.reveal_seconds)
            .uint(terms.max_missing)
            .uint(terms.max_malicious)
            .uint(terms.partners)
            .int(terms.lo)
            .int(terms.hi)
            .uint(terms.epsilon_numerator)
            .uint(terms.epsilon_denominator)
            .uint(terms.attempts)
            .nested_array(self.enrolments.len() as u64);
        self.enrolments.iter().fold(head, |list, enrolment| list.bytes(enrolment)).finish()
    }

    pub fn sign(&self, key: &IdentityKey, topic: &str, certificate: &[u8]) -> Vec<u8> {
        cose::sign1(&self.payload(), key, topic, Some(certificate))
    }
}

/// 6: a meter says why it is silent. Never depends on a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub cluster: ClusterId,
    /// The list concerned, if any.
    pub list: Option<[u8; 8]>,
    /// The slot concerned, or 0.
    pub slot: Slot,
    pub code: StatusCode,
}

/// Why a meter is silent, or what it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatusCode {
    NoList = 1,
    ListRefused = 2,
    NotListed = 3,
    LedgerExhausted = 4,
    ClockDoubtful = 5,
    RecordLost = 6,
    RequestRefused = 7,
    Equivocation = 8,
}

impl StatusCode {
    pub const ALL: [Self; 8] = [
        Self::NoList,
        Self::ListRefused,
        Self::NotListed,
        Self::LedgerExhausted,
        Self::ClockDoubtful,
        Self::RecordLost,
        Self::RequestRefused,
        Self::Equivocation,
    ];
}

impl Status {
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        reader.array(5)?;
        reader.kind(6)?;
        let cluster = cluster(&mut reader)?;
        let list = match reader.bytes()? {
            [] => None,
            bytes => Some(bytes.try_into().map_err(|_| DecodeError::WrongLength {
                field: "list hash",
                expected: 8,
                found: bytes.len(),
            })?),
        };
        let slot = Slot(reader.uint()?);
        let code = reader.uint()?;
        let code = StatusCode::ALL.into_iter().find(|&known| known as u64 == code);
        let code = code.ok_or(DecodeError::OutOfRange { field: "code" })?;
        reader.end()?;
        Ok(Self { cluster, list, slot, code })
    }

    pub fn payload(&self) -> Vec<u8> {
        Writer::array(5)
            .uint(6)
            .text(self.cluster.as_str())
            .bytes(self.list.as_ref().map_or(&[], |list| list))
            .uint(self.slot.0)
            .uint(self.code as u64)
            .finish()
    }

    pub fn sign(&self, key: &IdentityKey, topic: &str) -> Vec<u8> {
        cose::sign1(&self.payload(), key, topic, None)
    }
}

/// 7: a reveal is missing and the attempt with it; the gateway opens the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub list: ListHash,
    pub slot: Slot,
    /// The attempt that opens.
    pub attempt: u8,
    /// The end of its reading window, in Unix seconds.
    pub deadline: u64,
}

impl Retry {
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        reader.array(5)?;
        reader.kind(7)?;
        let message = Self {
            list: ListHash(reader.fixed("list hash")?),
            slot: Slot(reader.uint()?),
            attempt: reader.small("attempt")?,
            deadline: reader.uint()?,
        };
        reader.end()?;
        Ok(message)
    }

    pub fn payload(&self) -> Vec<u8> {
        Writer::array(5)
            .uint(7)
            .bytes(&self.list.0)
            .uint(self.slot.0)
            .uint(self.attempt.into())
            .uint(self.deadline)
            .finish()
    }

    pub fn sign(&self, key: &IdentityKey, topic: &str) -> Vec<u8> {
        cose::sign1(&self.payload(), key, topic, None)
    }
}

/// What may travel on a cluster's recovery topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryMessage {
    Request(RecoveryRequest),
    Retry(Retry),
}

impl RecoveryMessage {
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        match RecoveryRequest::decode(payload) {
            Ok(request) => Ok(Self::Request(request)),
            // The two differ in their number of fields, and then in their kind.
            Err(DecodeError::WrongCount { .. } | DecodeError::WrongKind { .. }) => {
                Retry::decode(payload).map(Self::Retry)
            }
            Err(error) => Err(error),
        }
    }

    pub const fn slot(&self) -> Slot {
        match self {
            Self::Request(request) => request.slot,
            Self::Retry(retry) => retry.slot,
        }
    }

    pub const fn list(&self) -> ListHash {
        match self {
            Self::Request(request) => request.list,
            Self::Retry(retry) => retry.list,
        }
    }
}

fn cluster(reader: &mut Reader<'_>) -> Result<ClusterId, DecodeError> {
    ClusterId::new(reader.text()?).map_err(|reason| DecodeError::Id { field: "cluster", reason })
}

fn terms(reader: &mut Reader<'_>) -> Result<Terms, DecodeError> {
    Ok(Terms {
        slot_seconds: reader.uint()?,
        reading_seconds: reader.uint()?,
        reveal_seconds: reader.uint()?,
        max_missing: reader.uint()?,
        max_malicious: reader.uint()?,
        partners: reader.uint()?,
        lo: reader.int()?,
        hi: reader.int()?,
        epsilon_numerator: reader.uint()?,
        epsilon_denominator: reader.uint()?,
        attempts: reader.uint()?,
    })
}
