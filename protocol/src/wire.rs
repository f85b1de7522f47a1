//! The messages (`protocol.md 7`): payloads as deterministic CBOR arrays, in COSE envelopes.
//!
//! A type here is what a payload says; whether to believe it is decided with the envelope's key by [`crate::meter`],
//! [`crate::cluster`], [`crate::enrolment`] and [`crate::membership`].

mod cbor;
mod committee;
mod cose;
mod list;

pub use cbor::DecodeError;
pub(crate) use cbor::{Reader, Writer};
pub(crate) use committee::corrections;
pub use committee::{Answer, DealtReading};
pub use cose::{Mac0, Seal, Sign1};
pub(crate) use list::DIGEST;
pub(crate) use list::list_name;
pub use list::{FullList, ListHashes, ListHeader, ListStatement, ShortList};

use alloc::vec::Vec;

use crate::ids::ClusterId;
use crate::keys::{AgreementPublic, IdentityKey, ListHash, MacKey};
use crate::params::MAX_MEMBERS;
use crate::time::Slot;
use crate::topic::GatewayChannel;

/// The kind that a payload says it is: 1 to 4 or 6 to 11 for the messages below. 5 was a list in an earlier format.
pub fn kind(payload: &[u8]) -> Result<u64, DecodeError> {
    let mut reader = Reader::new(payload);
    reader.array_of_any()?;
    reader.uint()
}

/// One of the messages: its kind, its fields, and the key of the envelope that it travels in.
pub trait Message<'a>: Sized {
    /// The first field of the payload.
    const KIND: u64;
    /// How many fields the payload has, with the kind.
    #[doc(hidden)]
    const FIELDS: u64;
    /// How many it had in an earlier format, if that was another number.
    #[doc(hidden)]
    const EARLIER_FIELDS: Option<u64> = None;
    /// What the envelope is made with: a MAC key, an identity key, or an identity key with its certificate in DER.
    type Key<'k>: Seal;

    /// Reads the fields after the kind.
    #[doc(hidden)]
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;

    /// Writes the fields after the kind.
    #[doc(hidden)]
    fn write(&self, writer: Writer) -> Writer;

    /// Reads a payload, all of it.
    fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        match reader.array(Self::FIELDS) {
            Err(DecodeError::WrongCount { found, .. }) if Self::EARLIER_FIELDS == Some(found) => {
                reader.kind(Self::KIND)?;
                return Err(DecodeError::EarlierFormat);
            }
            counted => counted?,
        }
        reader.kind(Self::KIND)?;
        let message = Self::read(&mut reader)?;
        reader.end()?;
        Ok(message)
    }

    fn payload(&self) -> Vec<u8> {
        self.write(Writer::array(Self::FIELDS).uint(Self::KIND)).finish()
    }

    /// Returns the message in its envelope, for one topic.
    fn seal(&self, key: Self::Key<'_>, topic: &str) -> Vec<u8> {
        key.envelope(&self.payload(), topic)
    }
}

/// 1: a meter's masked, noisy reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaskedReading {
    pub list: [u8; 8],
    pub slot: Slot,
    pub attempt: u8,
    pub ciphertext: u64,
}

impl Message<'_> for MaskedReading {
    const KIND: u64 = 1;
    const FIELDS: u64 = 5;
    type Key<'k> = &'k MacKey;

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (list, slot, attempt) = read_about(reader)?;
        Ok(Self { list, slot, attempt, ciphertext: u64::from_be_bytes(reader.fixed("ciphertext")?) })
    }

    fn write(&self, writer: Writer) -> Writer {
        write_about(writer, &self.list, self.slot, self.attempt).bytes(&self.ciphertext.to_be_bytes())
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

impl Message<'_> for RecoveryRequest {
    const KIND: u64 = 2;
    const FIELDS: u64 = 6;
    type Key<'k> = &'k IdentityKey;

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (list, slot, attempt) = read_about(reader)?;
        let (missing, deadline) = (reader.bytes()?.to_vec(), reader.uint()?);
        Ok(Self { list: ListHash(list), slot, attempt, missing, deadline })
    }

    fn write(&self, writer: Writer) -> Writer {
        write_about(writer, &self.list.0, self.slot, self.attempt).bytes(&self.missing).uint(self.deadline)
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

impl Message<'_> for Reveal {
    const KIND: u64 = 3;
    const FIELDS: u64 = 6;
    type Key<'k> = &'k MacKey;

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (list, slot, attempt) = read_about(reader)?;
        let revealed = u64::from_be_bytes(reader.fixed("revealed")?);
        Ok(Self { list, slot, attempt, revealed, request: reader.fixed("request hash")? })
    }

    fn write(&self, writer: Writer) -> Writer {
        let head = write_about(writer, &self.list, self.slot, self.attempt);
        head.bytes(&self.revealed.to_be_bytes()).bytes(&self.request)
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
    /// The largest cluster in which the meter is willing to be a holder; 0 for none.
    pub holds: u64,
}

impl Message<'_> for EnrolmentStatement {
    const KIND: u64 = 4;
    const FIELDS: u64 = 8;
    const EARLIER_FIELDS: Option<u64> = Some(7);
    type Key<'k> = (&'k IdentityKey, &'k [u8]);

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            cluster: cluster(reader)?,
            certificate: reader.fixed("certificate hash")?,
            agreement: AgreementPublic(reader.fixed("X25519 key")?),
            not_before: reader.uint()?,
            not_after: reader.uint()?,
            seq: reader.uint()?,
            holds: reader.below(MAX_MEMBERS as u64 + 1, "holds")?,
        })
    }

    fn write(&self, writer: Writer) -> Writer {
        writer
            .text(self.cluster.as_str())
            .bytes(&self.certificate)
            .bytes(&self.agreement.0)
            .uint(self.not_before)
            .uint(self.not_after)
            .uint(self.seq)
            .uint(self.holds)
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
    /// The newest epoch that the meter has accepted, or 0.
    pub newest_epoch: u64,
    /// The least T that the meter accepts in this cluster, after what protected it, or 0.
    pub least_malicious: u16,
    /// An [`EvidenceStatement`] for [`StatusCode::Equivocation`], and nothing otherwise.
    pub evidence: Vec<u8>,
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
    /// Nobody asked for anything in a slot that the meter reported.
    NotAsked = 9,
}

impl StatusCode {
    pub const ALL: [Self; 9] = [
        Self::NoList,
        Self::ListRefused,
        Self::NotListed,
        Self::LedgerExhausted,
        Self::ClockDoubtful,
        Self::RecordLost,
        Self::RequestRefused,
        Self::Equivocation,
        Self::NotAsked,
    ];
}

impl Message<'_> for Status {
    const KIND: u64 = 6;
    const FIELDS: u64 = 8;
    const EARLIER_FIELDS: Option<u64> = Some(7);
    type Key<'k> = &'k IdentityKey;

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let cluster = cluster(reader)?;
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
        let newest_epoch = reader.uint()?;
        let least_malicious = u16::try_from(reader.below(MAX_MEMBERS as u64 + 1, "T")?).expect("at most 10,000");
        let evidence = reader.bytes()?.to_vec();
        if evidence.is_empty() == (code == StatusCode::Equivocation) {
            return Err(DecodeError::OutOfRange { field: "evidence" });
        }
        Ok(Self { cluster, list, slot, code, newest_epoch, least_malicious, evidence })
    }

    fn write(&self, writer: Writer) -> Writer {
        writer
            .text(self.cluster.as_str())
            .bytes(self.list.as_ref().map_or(&[], |list| list))
            .uint(self.slot.0)
            .uint(self.code as u64)
            .uint(self.newest_epoch)
            .uint(self.least_malicious.into())
            .bytes(&self.evidence)
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

impl Message<'_> for Retry {
    const KIND: u64 = 7;
    const FIELDS: u64 = 5;
    type Key<'k> = &'k IdentityKey;

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (list, slot, attempt) = read_about(reader)?;
        // Nothing opens the first attempt.
        if attempt == 0 {
            return Err(DecodeError::OutOfRange { field: "attempt" });
        }
        Ok(Self { list: ListHash(list), slot, attempt, deadline: reader.uint()? })
    }

    fn write(&self, writer: Writer) -> Writer {
        write_about(writer, &self.list.0, self.slot, self.attempt).uint(self.deadline)
    }
}

/// What asks something of members: requests travel on a cluster's recovery topic, retries on its retry topic.
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

    /// Returns where such a message travels: elsewhere it does not count.
    pub const fn channel(&self) -> GatewayChannel {
        match self {
            Self::Request(_) => GatewayChannel::Recovery,
            Self::Retry(_) => GatewayChannel::Retry,
        }
    }

    /// The list, slot and attempt that it is about.
    const fn about(&self) -> (ListHash, Slot, u8) {
        match *self {
            Self::Request(RecoveryRequest { list, slot, attempt, .. })
            | Self::Retry(Retry { list, slot, attempt, .. }) => (list, slot, attempt),
        }
    }

    pub const fn list(&self) -> ListHash {
        self.about().0
    }

    pub const fn slot(&self) -> Slot {
        self.about().1
    }

    pub const fn attempt(&self) -> u8 {
        self.about().2
    }
}

/// 11: two messages of a gateway that contradict each other; travels inside a status, and in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceStatement {
    pub cluster: ClusterId,
    /// The gateway's certificate in DER, under which requests and retries verify; empty for headers, which carry theirs.
    pub certificate: Vec<u8>,
    /// Two envelopes: of requests, of retries, or of the headers of lists.
    pub first: Vec<u8>,
    pub second: Vec<u8>,
}

impl EvidenceStatement {
    const KIND: u64 = 11;
    const FIELDS: u64 = 5;

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        reader.array(Self::FIELDS)?;
        reader.kind(Self::KIND)?;
        let evidence = Self {
            cluster: cluster(&mut reader)?,
            certificate: reader.bytes()?.to_vec(),
            first: reader.bytes()?.to_vec(),
            second: reader.bytes()?.to_vec(),
        };
        reader.end()?;
        Ok(evidence)
    }

    pub fn encode(&self) -> Vec<u8> {
        Writer::array(Self::FIELDS)
            .uint(Self::KIND)
            .text(self.cluster.as_str())
            .bytes(&self.certificate)
            .bytes(&self.first)
            .bytes(&self.second)
            .finish()
    }
}

/// Reads what a message is about: a list, a slot and an attempt.
fn read_about<const N: usize>(reader: &mut Reader<'_>) -> Result<([u8; N], Slot, u8), DecodeError> {
    Ok((reader.fixed("list hash")?, Slot(reader.uint()?), reader.attempt()?))
}

fn write_about(writer: Writer, list: &[u8], slot: Slot, attempt: u8) -> Writer {
    writer.bytes(list).uint(slot.0).uint(attempt.into())
}

fn cluster(reader: &mut Reader<'_>) -> Result<ClusterId, DecodeError> {
    ClusterId::new(reader.text()?).map_err(|reason| DecodeError::Id { field: "cluster", reason })
}
