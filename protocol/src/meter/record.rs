//! What a meter persists: entries of a small key-value store, replaced and erased whole.
//!
//! A device writes an entry durably (fsync, or its flash's equal) before it acts on any later output, and overwrites
//! the entries that it must erase: they hold readings and keys.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use zeroize::Zeroizing;

use crate::day::Days;
use crate::derive::sha256;
use crate::enrolment::MAX_ENROLMENT_SECONDS;
use crate::ids::ClusterId;
use crate::keys::{AgreementSecret, ListHash, SelfKey};
use crate::ledger::Ledger;
use crate::params::{MAX_EPOCH, MAX_SLOT};
use crate::protection::Protection;
use crate::reading::Reading;
use crate::time::{Slot, Timestamp};
use crate::wire::{DecodeError, Reader, Writer, list_name};

/// The name of an entry; a later entry of the same name replaces the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Account,
    /// By sequence number.
    Enrolment(u64),
    /// By epoch.
    List(u64),
    Slot(Slot),
    /// What was answered as a holder, by slot.
    Answer(Slot),
    /// By running number.
    Evidence(u64),
}

impl Key {
    /// Returns the entry's name as two numbers, which never change: for stores.
    pub const fn place(&self) -> (u8, u64) {
        match self {
            Self::Account => (0, 0),
            Self::Enrolment(seq) => (1, *seq),
            Self::List(epoch) => (2, *epoch),
            Self::Slot(slot) => (3, slot.0),
            Self::Evidence(number) => (4, *number),
            Self::Answer(slot) => (5, slot.0),
        }
    }
}

/// One entry.
#[derive(Debug)]
pub enum Record {
    Account(Account),
    Enrolment(OwnEnrolment),
    List(AcceptedList),
    Slot(SlotRecord),
    Answer(AnswerRecord),
    Evidence(Evidence),
}

/// What must never go back: the spent budget, the time already reported, the newest enrolment and list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub(crate) cluster: ClusterId,
    pub(crate) ledger: Ledger,
    /// What the days that are not closed have cost; derives from readings.
    pub(crate) days: Days,
    /// End, in Unix seconds, of the last slot reported in any cluster or list, or of the last day that was closed.
    pub(crate) high_water: u64,
    /// Sequence number of the newest enrolment.
    pub(crate) seq: u64,
    /// The highest accepted epoch and its list's hash.
    pub(crate) newest_list: Option<(u64, ListHash)>,
    /// What protected this meter in the cluster; `None` before the first list.
    pub(crate) protection: Option<Protection>,
    /// How many pieces of evidence were kept.
    pub(crate) evidence: u64,
    /// The end of the last slot for which this meter answered as a holder, in Unix seconds, and the attempt.
    pub(crate) answered: (u64, u8),
}

/// An enrolment with its secrets, which all copies share.
#[derive(Clone)]
pub struct OwnEnrolment {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) seq: u64,
    pub(crate) not_before: u64,
    pub(crate) not_after: u64,
    pub(crate) agreement: Arc<AgreementSecret>,
    pub(crate) self_key: Arc<SelfKey>,
}

/// A list that passed every check.
#[derive(Debug)]
pub struct AcceptedList {
    pub(crate) epoch: u64,
    pub(crate) accepted_at: Timestamp,
    pub(crate) bytes: Arc<[u8]>,
}

impl AcceptedList {
    /// The list as it was received.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// An open slot: the reading, and how far the slot has come.
#[derive(Debug, Clone)]
pub struct SlotRecord {
    pub(crate) slot: Slot,
    pub(crate) list: ListHash,
    pub(crate) reading: Reading,
    /// The retry that opened the newest attempt, if it is not the first.
    pub(crate) retry: Option<Arc<[u8]>>,
    pub(crate) stage: Stage,
}

/// How far a slot has come.
#[derive(Clone)]
pub(crate) enum Stage {
    /// Measured too late for the first attempt; may join a retry.
    Held,
    /// Recorded for publication, or published; the reading is hidden by what the holders were dealt, and nothing of it is
    /// asked of this meter as a member any more.
    Dealt { attempt: u8, message: Arc<[u8]>, publish_at: Timestamp },
    /// Recorded for publication, or published; a request for it may come.
    Sent { attempt: u8, secret: Zeroizing<u64>, message: Arc<[u8]>, publish_at: Timestamp },
    /// Answered, once and for all for this attempt; the secret is gone.
    Answered { attempt: u8, message: Arc<[u8]>, request: Arc<[u8]>, reveal: Arc<[u8]> },
}

impl SlotRecord {
    /// Whether this very request, byte for byte, was answered.
    pub(super) fn answered(&self, bytes: &[u8]) -> bool {
        matches!(&self.stage, Stage::Answered { request, .. } if **request == *bytes)
    }
}

impl fmt::Debug for OwnEnrolment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnEnrolment").field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("Held"),
            Self::Dealt { attempt, .. } => write!(f, "Dealt({attempt})"),
            Self::Sent { attempt, .. } => write!(f, "Sent({attempt})"),
            Self::Answered { attempt, .. } => write!(f, "Answered({attempt})"),
        }
    }
}

/// What a meter answered as a holder, once and for all for this attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerRecord {
    pub(crate) slot: Slot,
    pub(crate) list: ListHash,
    pub(crate) attempt: u8,
    pub(crate) request: Arc<[u8]>,
    pub(crate) answer: Arc<[u8]>,
}

/// Two signed messages of a gateway that contradict each other: proof that anyone can verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    pub(crate) number: u64,
    /// An [`crate::wire::EvidenceStatement`], encoded.
    pub(crate) bytes: Arc<[u8]>,
}

/// The kind of an account, and the one that it had while the accounts of days were of energy.
const ACCOUNT: u64 = 7;
const EARLIER_ACCOUNT: u64 = 1;

/// Counters and times of records stay below this, so that what is added to them fits.
const MAX_COUNT: u64 = 1 << 62;

/// Room for heads, keys and numbers beside the byte strings of an entry.
const SPARE: usize = 160;

impl Evidence {
    /// The evidence in the form in which it travels, and which [`crate::evidence::judge`] judges once it is decoded.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn hash(&self) -> [u8; 32] {
        sha256(&self.bytes)
    }
}

impl Record {
    pub const fn key(&self) -> Key {
        match self {
            Self::Account(_) => Key::Account,
            Self::Enrolment(own) => Key::Enrolment(own.seq),
            Self::List(list) => Key::List(list.epoch),
            Self::Slot(record) => Key::Slot(record.slot),
            Self::Answer(record) => Key::Answer(record.slot),
            Self::Evidence(evidence) => Key::Evidence(evidence.number),
        }
    }

    /// The entry as bytes. They hold secrets: the buffer erases itself, and so should the store's.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match self {
            Self::Account(account) => encode_account(account),
            Self::Enrolment(own) => Writer::sized(7, own.bytes.len() + SPARE)
                .uint(2)
                .bytes(&own.bytes)
                .uint(own.seq)
                .uint(own.not_before)
                .uint(own.not_after)
                .bytes(own.agreement.expose())
                .bytes(own.self_key.expose())
                .finish(),
            Self::List(list) => {
                Writer::array(4).uint(3).uint(list.epoch).uint(list.accepted_at.as_millis()).bytes(&list.bytes).finish()
            }
            Self::Slot(record) => encode_slot(record),
            Self::Answer(record) => encode_answer(record),
            Self::Evidence(evidence) => Writer::array(3).uint(5).uint(evidence.number).bytes(&evidence.bytes).finish(),
        })
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let fields = reader.array_of_any()?;
        let record = match (reader.uint()?, fields) {
            (ACCOUNT, _) => Self::Account(decode_account(&mut reader, Days::read)?),
            // Read and never written: what was spent stays spent.
            (EARLIER_ACCOUNT, _) => {
                let account = decode_account(&mut reader, Days::read_energy)?;
                reader.end()?;
                return Ok(Self::Account(account));
            }
            (2, 7) => Self::Enrolment(decode_enrolment(&mut reader)?),
            (3, 4) => Self::List(decode_list(&mut reader)?),
            (4, _) => Self::Slot(decode_slot(&mut reader)?),
            (5, 3) => {
                Self::Evidence(Evidence { number: reader.below(MAX_COUNT, "number")?, bytes: reader.bytes()?.into() })
            }
            (6, 6) => Self::Answer(decode_answer(&mut reader)?),
            (found, _) => return Err(DecodeError::WrongKind { expected: ACCOUNT, found }),
        };
        reader.end()?;
        // One form for each record, as for each message: what would be written otherwise was not written here.
        if *record.encode() == *bytes { Ok(record) } else { Err(DecodeError::NonCanonical { at: 0 }) }
    }
}

fn decode_enrolment(reader: &mut Reader<'_>) -> Result<OwnEnrolment, DecodeError> {
    let own = OwnEnrolment {
        bytes: reader.bytes()?.into(),
        seq: reader.below(MAX_COUNT, "seq")?,
        not_before: reader.below(MAX_COUNT, "not_before")?,
        not_after: reader.below(MAX_COUNT, "not_after")?,
        agreement: Arc::new(AgreementSecret::from_bytes(reader.fixed("agreement key")?)),
        self_key: Arc::new(SelfKey::from_bytes(reader.fixed("self key")?)),
    };
    if own.not_after.saturating_sub(own.not_before) > MAX_ENROLMENT_SECONDS {
        return Err(DecodeError::OutOfRange { field: "not_after" });
    }
    Ok(own)
}

fn decode_list(reader: &mut Reader<'_>) -> Result<AcceptedList, DecodeError> {
    let list = AcceptedList {
        epoch: reader.below(MAX_EPOCH, "epoch")?,
        accepted_at: Timestamp::from_millis(reader.uint()?),
        bytes: reader.bytes()?.into(),
    };
    if list_name(&list.bytes)?.0 != list.epoch {
        return Err(DecodeError::OutOfRange { field: "epoch" });
    }
    Ok(list)
}

fn encode_account(account: &Account) -> Vec<u8> {
    let (epoch, hash): (u64, &[u8]) = match &account.newest_list {
        None => (0, &[]),
        Some((epoch, hash)) => (*epoch, &hash.0),
    };
    let (malicious, since) = account.protection.map_or((0, 0), Protection::parts);
    let head = Writer::array(13)
        .uint(ACCOUNT)
        .text(account.cluster.as_str())
        .uint(account.high_water)
        .uint(account.seq)
        .uint(epoch)
        .bytes(hash)
        .uint(malicious)
        .uint(since)
        .uint(account.evidence)
        .uint(account.answered.0)
        .uint(account.answered.1.into())
        .nested_array(2 * account.ledger.charges().len() as u64);
    let head = account.ledger.charges().fold(head, |writer, (start, spent)| writer.uint(start).uint(spent));
    account.days.write(head).finish()
}

fn decode_account(
    reader: &mut Reader<'_>,
    days: impl FnOnce(&mut Reader<'_>) -> Result<Days, DecodeError>,
) -> Result<Account, DecodeError> {
    let cluster = ClusterId::new(reader.text()?).map_err(|reason| DecodeError::Id { field: "cluster", reason })?;
    let (high_water, seq) = (reader.uint()?, reader.below(MAX_COUNT, "seq")?);
    let epoch = reader.below(MAX_EPOCH, "epoch")?;
    let newest_list = match reader.bytes()? {
        [] => None,
        hash => Some((epoch, ListHash(hash.try_into().map_err(|_| DecodeError::OutOfRange { field: "list hash" })?))),
    };
    let protection = Protection::from_parts(reader.uint()?, reader.below(MAX_COUNT, "since")?);
    let evidence = reader.below(MAX_COUNT, "evidence")?;
    let answered = (reader.below(MAX_COUNT, "answered")?, reader.small("answered")?);
    let charges = (0..reader.array_of_any()? / 2).map(|_| Ok((reader.uint()?, reader.uint()?)));
    let ledger = Ledger::from_charges(charges.collect::<Result<Vec<_>, DecodeError>>()?);
    let days = days(reader)?;
    Ok(Account { cluster, ledger, days, high_water, seq, newest_list, protection, evidence, answered })
}

fn encode_slot(record: &SlotRecord) -> Vec<u8> {
    let head = |fields, len| {
        let retry = record.retry.as_deref().unwrap_or_default();
        let head = Writer::sized(fields, len + retry.len() + SPARE).uint(4).uint(record.slot.0);
        head.bytes(&record.list.0).int(record.reading.watts()).bytes(retry)
    };
    match &record.stage {
        Stage::Held => head(6, 0).uint(0),
        Stage::Dealt { attempt, message, publish_at } => {
            let head = head(9, message.len()).uint(3).uint((*attempt).into());
            head.bytes(message).uint(publish_at.as_millis())
        }
        Stage::Sent { attempt, secret, message, publish_at } => {
            let head = head(10, message.len()).uint(1).uint((*attempt).into());
            head.uint(**secret).bytes(message).uint(publish_at.as_millis())
        }
        Stage::Answered { attempt, message, request, reveal } => {
            let head = head(10, message.len() + request.len() + reveal.len()).uint(2).uint((*attempt).into());
            head.bytes(message).bytes(request).bytes(reveal)
        }
    }
    .finish()
}

fn encode_answer(record: &AnswerRecord) -> Vec<u8> {
    let head = Writer::sized(6, record.request.len() + record.answer.len() + SPARE).uint(6).uint(record.slot.0);
    head.bytes(&record.list.0).uint(record.attempt.into()).bytes(&record.request).bytes(&record.answer).finish()
}

fn decode_answer(reader: &mut Reader<'_>) -> Result<AnswerRecord, DecodeError> {
    Ok(AnswerRecord {
        slot: Slot(reader.below(MAX_SLOT, "slot")?),
        list: ListHash(reader.fixed("list hash")?),
        attempt: reader.attempt()?,
        request: reader.bytes()?.into(),
        answer: reader.bytes()?.into(),
    })
}

fn decode_slot(reader: &mut Reader<'_>) -> Result<SlotRecord, DecodeError> {
    Ok(SlotRecord {
        slot: Slot(reader.below(MAX_SLOT, "slot")?),
        list: ListHash(reader.fixed("list hash")?),
        reading: Reading::new(reader.int()?),
        retry: Some(reader.bytes()?).filter(|retry| !retry.is_empty()).map(Into::into),
        stage: match reader.uint()? {
            0 => Stage::Held,
            1 => Stage::Sent {
                attempt: reader.attempt()?,
                secret: Zeroizing::new(reader.uint()?),
                message: reader.bytes()?.into(),
                publish_at: Timestamp::from_millis(reader.uint()?),
            },
            2 => Stage::Answered {
                attempt: reader.attempt()?,
                message: reader.bytes()?.into(),
                request: reader.bytes()?.into(),
                reveal: reader.bytes()?.into(),
            },
            3 => Stage::Dealt {
                attempt: reader.attempt()?,
                message: reader.bytes()?.into(),
                publish_at: Timestamp::from_millis(reader.uint()?),
            },
            _ => return Err(DecodeError::OutOfRange { field: "stage" }),
        },
    })
}
