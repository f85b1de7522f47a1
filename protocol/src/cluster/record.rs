//! What the gateway persists for a cluster: entries of a key-value store, from which [`super::Cluster`] is rebuilt.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use super::{Offenders, Retries};
use crate::aggregate::{Aggregate, Failure, SlotOutcome};
use crate::ids::MeterId;
use crate::keys::AgreementSecret;
use crate::noise::Scale;
use crate::params::{MAX_EPOCH, MAX_EPSILON_PART, MAX_SLOT};
use crate::protection::Protection;
use crate::scheme::committee::field::Element;
use crate::time::{Slot, Timestamp};
use crate::wire::{DecodeError, Reader, Writer, corrections, list_name};

/// The name of an entry; a later entry of the same name replaces the earlier one. Sorted, a slot's entries are in the
/// order in which they came about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Enrolment(MeterId),
    /// By epoch.
    List(u64),
    Slot(Slot, u8, SlotEntry),
    Outcome(Slot),
    Offenders,
    Retries,
    /// By number.
    Evidence(u8),
}

/// An entry of an open slot's attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotEntry {
    Retry,
    /// By member.
    Reading(u16),
    Request,
    /// By member.
    Reveal(u16),
}

/// What to erase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forget {
    Enrolment(MeterId),
    List(u64),
    /// Every [`Key::Slot`] of a slot; its outcome stays.
    Slot(Slot),
    /// An outcome, and what was made of it: the slot never was.
    Outcome(SlotOutcome),
}

/// One entry.
#[derive(Debug, Clone)]
pub enum Record {
    Enrolment {
        meter: MeterId,
        bytes: Arc<[u8]>,
    },
    List(ListRecord),
    Retry {
        slot: Slot,
        attempt: u8,
        bytes: Arc<[u8]>,
    },
    Reading {
        slot: Slot,
        attempt: u8,
        member: u16,
        ciphertext: u64,
    },
    /// A reading of the committee scheme.
    Dealt {
        slot: Slot,
        attempt: u8,
        member: u16,
        ciphertext: Element,
        /// As they travel.
        corrections: Box<[u8]>,
    },
    Request {
        slot: Slot,
        attempt: u8,
        bytes: Arc<[u8]>,
    },
    /// A holder's answer, by its place in the list.
    Answer {
        slot: Slot,
        attempt: u8,
        member: u16,
        sum: Element,
    },
    Reveal {
        slot: Slot,
        attempt: u8,
        member: u16,
        revealed: u64,
    },
    Outcome(SlotOutcome),
    /// What is known of members that spoil slots.
    Offenders(Box<Offenders>),
    /// What was spent on attempts beyond the first.
    Retries(Box<Retries>),
    /// Two messages of a gateway that contradict each other, as an [`crate::wire::EvidenceStatement`].
    Evidence {
        number: u8,
        bytes: Arc<[u8]>,
    },
}

/// A published list with the gateway's X25519 key for it.
#[derive(Clone)]
pub struct ListRecord {
    pub(crate) epoch: u64,
    pub(crate) published_at: Timestamp,
    pub(crate) bytes: Arc<[u8]>,
    /// `None` for a list taken over from another owner of the cluster: its slots cannot be opened here.
    pub(crate) secret: Option<Arc<AgreementSecret>>,
    /// The T that the cluster's lists have allowed for, as of this list.
    pub(crate) protection: Option<Protection>,
}

impl ListRecord {
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns whether it has the gateway's key.
    pub const fn has_key(&self) -> bool {
        self.secret.is_some()
    }

    /// The same without the gateway's key: its slots cannot be opened, and the next list continues it. What a back-up has, since a gateway
    /// that forgot what it asked under this key must ask nothing more under it.
    #[must_use]
    pub fn without_key(self) -> Self {
        Self { secret: None, ..self }
    }
}

impl fmt::Debug for ListRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListRecord").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// The start of the year 10000, which no calendar in use can show.
const LAST_MILLIS: u64 = 253_402_300_800_000;

/// No plausible sum reaches this: `N*D + 200*lambda` is below 2^40.
const LARGEST_SUM: u64 = 1 << 40;

impl Record {
    pub fn key(&self) -> Key {
        match self {
            Self::Enrolment { meter, .. } => Key::Enrolment(meter.clone()),
            Self::List(list) => Key::List(list.epoch),
            Self::Retry { slot, attempt, .. } => Key::Slot(*slot, *attempt, SlotEntry::Retry),
            Self::Reading { slot, attempt, member, .. } | Self::Dealt { slot, attempt, member, .. } => {
                Key::Slot(*slot, *attempt, SlotEntry::Reading(*member))
            }
            Self::Request { slot, attempt, .. } => Key::Slot(*slot, *attempt, SlotEntry::Request),
            Self::Reveal { slot, attempt, member, .. } | Self::Answer { slot, attempt, member, .. } => {
                Key::Slot(*slot, *attempt, SlotEntry::Reveal(*member))
            }
            Self::Outcome(outcome) => Key::Outcome(outcome.slot),
            Self::Offenders(_) => Key::Offenders,
            Self::Retries(_) => Key::Retries,
            Self::Evidence { number, .. } => Key::Evidence(*number),
        }
    }

    /// The entry as bytes; a list's hold a secret, so the buffer erases itself.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let signed = |kind, slot: &Slot, attempt: u8, bytes: &[u8]| {
            Writer::array(4).uint(kind).uint(slot.0).uint(attempt.into()).bytes(bytes).finish()
        };
        let value = |kind, slot: &Slot, attempt: u8, member: u16, value: u64| {
            Writer::array(5).uint(kind).uint(slot.0).uint(attempt.into()).uint(member.into()).uint(value).finish()
        };
        Zeroizing::new(match self {
            Self::Enrolment { meter, bytes } => Writer::array(3).uint(1).text(meter.as_str()).bytes(bytes).finish(),
            Self::List(list) => {
                let (malicious, since) = list.protection.map_or((0, 0), Protection::parts);
                Writer::sized(7, list.bytes.len() + 128)
                    .uint(2)
                    .uint(list.epoch)
                    .uint(list.published_at.as_millis())
                    .bytes(&list.bytes)
                    .bytes(list.secret.as_ref().map_or(&[], |secret| secret.expose()))
                    .uint(malicious)
                    .uint(since)
                    .finish()
            }
            Self::Retry { slot, attempt, bytes } => signed(3, slot, *attempt, bytes),
            Self::Reading { slot, attempt, member, ciphertext } => value(4, slot, *attempt, *member, *ciphertext),
            Self::Request { slot, attempt, bytes } => signed(5, slot, *attempt, bytes),
            Self::Reveal { slot, attempt, member, revealed } => value(6, slot, *attempt, *member, *revealed),
            Self::Dealt { slot, attempt, member, ciphertext, corrections } => Writer::sized(6, corrections.len() + 40)
                .uint(10)
                .uint(slot.0)
                .uint((*attempt).into())
                .uint((*member).into())
                .bytes(&ciphertext.to_be_bytes())
                .bytes(corrections)
                .finish(),
            Self::Answer { slot, attempt, member, sum } => value(11, slot, *attempt, *member, sum.to_canonical()),
            Self::Outcome(outcome) => encode_outcome(outcome),
            Self::Offenders(offenders) => offenders.encode(Writer::array(6).uint(8)).finish(),
            Self::Retries(retries) => retries.encode(Writer::array(2).uint(12)).finish(),
            Self::Evidence { number, bytes } => Writer::array(3).uint(9).uint((*number).into()).bytes(bytes).finish(),
        })
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let fields = reader.array_of_any()?;
        let record = match (reader.uint()?, fields) {
            (1, 3) => Self::Enrolment {
                meter: MeterId::new(reader.text()?).map_err(|reason| DecodeError::Id { field: "meter", reason })?,
                bytes: reader.bytes()?.into(),
            },
            (2, 7) => Self::List(decode_list(&mut reader)?),
            (3, 4) => {
                let (slot, attempt, bytes) = signed(&mut reader)?;
                Self::Retry { slot, attempt, bytes }
            }
            (4, 5) => {
                let (slot, attempt, member, ciphertext) = value(&mut reader)?;
                Self::Reading { slot, attempt, member, ciphertext }
            }
            (5, 4) => {
                let (slot, attempt, bytes) = signed(&mut reader)?;
                Self::Request { slot, attempt, bytes }
            }
            (6, 5) => {
                let (slot, attempt, member, revealed) = value(&mut reader)?;
                Self::Reveal { slot, attempt, member, revealed }
            }
            (7, 14) => Self::Outcome(decode_outcome(&mut reader)?),
            (8, 6) => Self::Offenders(Box::new(Offenders::decode(&mut reader)?)),
            (9, 3) => Self::Evidence { number: reader.small("number")?, bytes: reader.bytes()?.into() },
            (10, 6) => Self::Dealt {
                slot: slot(&mut reader)?,
                attempt: reader.attempt()?,
                member: count(&mut reader, "member")?,
                ciphertext: element(u64::from_be_bytes(reader.fixed("ciphertext")?))?,
                corrections: corrections(&mut reader)?.into(),
            },
            (11, 5) => {
                let (slot, attempt, member, sum) = value(&mut reader)?;
                Self::Answer { slot, attempt, member, sum: element(sum)? }
            }
            (12, 2) => Self::Retries(Box::new(Retries::decode(&mut reader)?)),
            (found, _) => return Err(DecodeError::WrongKind { expected: 1, found }),
        };
        reader.end()?;
        // One form for each record, as for each message: what would be written otherwise was not written here.
        if *record.encode() == *bytes { Ok(record) } else { Err(DecodeError::NonCanonical { at: 0 }) }
    }
}

fn decode_list(reader: &mut Reader<'_>) -> Result<ListRecord, DecodeError> {
    let list = ListRecord {
        epoch: reader.below(MAX_EPOCH + 1, "epoch")?,
        published_at: Timestamp::from_millis(reader.uint()?),
        bytes: reader.bytes()?.into(),
        secret: match reader.bytes()? {
            [] => None,
            secret => Some(Arc::new(AgreementSecret::from_bytes(
                secret.try_into().map_err(|_| DecodeError::OutOfRange { field: "secret" })?,
            ))),
        },
        protection: Protection::from_parts(reader.uint()?, reader.below(MAX_EPOCH, "since")?),
    };
    // One that was taken over may leave an epoch out.
    let ahead = list.epoch.checked_sub(list_name(&list.bytes)?.0);
    match ahead {
        Some(0) => Ok(list),
        Some(1) if list.secret.is_none() => Ok(list),
        Some(_) | None => Err(DecodeError::OutOfRange { field: "epoch" }),
    }
}

fn signed(reader: &mut Reader<'_>) -> Result<(Slot, u8, Arc<[u8]>), DecodeError> {
    Ok((slot(reader)?, reader.attempt()?, reader.bytes()?.into()))
}

fn value(reader: &mut Reader<'_>) -> Result<(Slot, u8, u16, u64), DecodeError> {
    let (slot, attempt) = (slot(reader)?, reader.attempt()?);
    Ok((slot, attempt, count(reader, "member")?, reader.uint()?))
}

fn element(value: u64) -> Result<Element, DecodeError> {
    Element::from_canonical(value).ok_or(DecodeError::OutOfRange { field: "element" })
}

fn encode_outcome(outcome: &SlotOutcome) -> Vec<u8> {
    let SlotOutcome { slot, start, end, epoch, members, honest, responders, attempts, .. } = outcome;
    let head = Writer::array(14)
        .uint(7)
        .uint(slot.0)
        .uint(start.as_millis())
        .uint(end.as_millis())
        .uint(*epoch)
        .uint((*members).into())
        .uint((*honest).into())
        .uint((*responders).into())
        .uint((*attempts).into())
        .uint(outcome.micro_epsilon)
        .uint(outcome.noise_scale.numerator())
        .uint(outcome.noise_scale.denominator());
    match outcome.result {
        Ok(aggregate) => head.text("decoded").int(aggregate.watts()),
        Err(failure) => head.text(failure.as_str()).int(0),
    }
    .finish()
}

fn decode_outcome(reader: &mut Reader<'_>) -> Result<SlotOutcome, DecodeError> {
    let outcome = SlotOutcome {
        slot: slot(reader)?,
        start: Timestamp::from_millis(reader.uint()?),
        end: Timestamp::from_millis(reader.below(LAST_MILLIS, "end")?),
        epoch: reader.below(MAX_EPOCH, "epoch")?,
        members: count(reader, "members")?,
        honest: count(reader, "honest")?,
        responders: count(reader, "responders")?,
        attempts: reader.small("attempts")?,
        micro_epsilon: reader.below(1_000_000 * MAX_EPSILON_PART + 1, "epsilon")?,
        noise_scale: Scale::checked(reader.uint()?, reader.uint()?)
            .ok_or(DecodeError::OutOfRange { field: "noise scale" })?,
        result: match (reader.text()?, reader.int()?) {
            ("decoded", watts) if watts.unsigned_abs() < LARGEST_SUM => Ok(Aggregate::new(watts)),
            (word, _) => {
                let known = Failure::ALL.into_iter().find(|failure| failure.as_str() == word);
                Err(known.ok_or(DecodeError::OutOfRange { field: "result" })?)
            }
        },
    };
    if outcome.start >= outcome.end {
        return Err(DecodeError::OutOfRange { field: "start" });
    }
    let members = outcome.members;
    if outcome.honest == 0 || outcome.honest > members || outcome.responders > members {
        return Err(DecodeError::OutOfRange { field: "members" });
    }
    Ok(outcome)
}

fn slot(reader: &mut Reader<'_>) -> Result<Slot, DecodeError> {
    Ok(Slot(reader.below(MAX_SLOT, "slot")?))
}

fn count(reader: &mut Reader<'_>, field: &'static str) -> Result<u16, DecodeError> {
    u16::try_from(reader.uint()?).map_err(|_| DecodeError::OutOfRange { field })
}
