//! Why a meter refused something: one variant per rule, so that a test, a log line and a status can name it.

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

use crate::member_set::MemberSetError;
use crate::membership::ListError;
use crate::policy::PolicyError;
use crate::topic::TopicError;
use crate::wire::{DecodeError, StatusCode};

/// The rule by which something was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Refusal {
    #[error("the wall clock ran ahead of the monotonic one; confirm the time")]
    ClockDoubtful,
    #[error("the message does not decode: {0}")]
    #[strum(serialize = "malformed")]
    Decode(#[from] DecodeError),
    #[error("nothing for this meter travels on that topic: {0}")]
    Topic(#[from] TopicError),

    // Lists.
    #[error(transparent)]
    List(#[from] ListError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("the list does not name this meter")]
    NotListed,
    #[error("the list names this meter with an enrolment that is not its newest")]
    OldEnrolment,
    #[error("the list names this meter with a key that its records do not hold; it enrols anew")]
    RecordLost,
    #[error("epoch {found} is not above the last accepted one, {last}")]
    StaleEpoch { last: u64, found: u64 },
    #[error("the gateway signed two lists for epoch {0}; both are kept")]
    TwoListsOfAnEpoch(u64),
    #[error("the list of epoch {0} says that the accepted one never was; both are kept")]
    BrokenChain(u64),
    #[error(
        "the list allows for {found} colluders, and this meter accepts no fewer than {least} after what it had: T falls by a \
         tenth in 30 days, or to a tenth of the size in the meter's certificate"
    )]
    ProtectionFalls { least: u16, found: u16 },
    #[error("the list begins more than two days ahead of this meter's clock")]
    TooFarAhead,
    #[error("the list's last slot is over")]
    ListOver,
    #[error("too many lists are held already; the gateway publishes them faster than slots pass")]
    TooManyLists,

    // Readings.
    #[error("no list is in force for the slot")]
    NoList,
    #[error("the slot has not ended yet")]
    SlotNotOver,
    #[error("the slot is closed: the one after it is over")]
    SlotOver,
    #[error("some or all of the slot's time was reported already")]
    AlreadyReported,
    #[error("the day's privacy budget is spent")]
    LedgerExhausted,

    // Requests and retries.
    #[error("nothing was recorded for the slot")]
    UnknownSlot,
    #[error("the slot was reported under another list")]
    OtherList,
    #[error("the signature does not verify under the list's gateway key")]
    BadSignature,
    #[error("the reading of that attempt was not sent, or a later attempt replaced it")]
    OtherAttempt,
    #[error("{found} members are said to be missing; the list allows {most}")]
    TooManyMissing { most: u16, found: u16 },
    #[error("the request says that this meter's own reading is missing")]
    NamesThisMeter,
    #[error(transparent)]
    Bitmap(#[from] MemberSetError),
    #[error("this meter is no holder, or has not checked the whole list: it answers no requests under it")]
    NotAHolder,
    #[error("that attempt, or a later one, was answered, and the answer is not kept any more")]
    AlreadyAnswered,
    #[error("a different request for the same attempt was answered already; both are kept")]
    SecondRequest,
    #[error("a different retry opened the same attempt; both are kept")]
    SecondRetry,
    #[error("attempt {found} is not above the recorded one")]
    AttemptNotAbove { found: u8 },
    #[error("attempt {found} is more than the {most} that the list allows")]
    TooManyAttempts { most: u8, found: u8 },
    #[error("the retry's deadline has passed")]
    RetryOver,
}

impl Refusal {
    /// The status that is sent to the gateway, if any.
    pub const fn status(&self) -> Option<StatusCode> {
        Some(match self {
            Self::ClockDoubtful => StatusCode::ClockDoubtful,
            // A gateway that publishes it would not understand a status either.
            Self::List(ListError::Decode(DecodeError::EarlierFormat)) => return None,
            Self::List(_)
            | Self::Policy(_)
            | Self::OldEnrolment
            | Self::StaleEpoch { .. }
            | Self::ProtectionFalls { .. }
            | Self::TooFarAhead
            | Self::TooManyLists => StatusCode::ListRefused,
            Self::NotListed => StatusCode::NotListed,
            Self::RecordLost => StatusCode::RecordLost,
            Self::TwoListsOfAnEpoch(_) | Self::BrokenChain(_) | Self::SecondRequest | Self::SecondRetry => {
                StatusCode::Equivocation
            }
            Self::NoList => StatusCode::NoList,
            Self::LedgerExhausted => StatusCode::LedgerExhausted,
            Self::TooManyMissing { .. }
            | Self::Bitmap(_)
            | Self::OtherList
            | Self::AttemptNotAbove { .. }
            | Self::TooManyAttempts { .. } => StatusCode::RequestRefused,
            // Old news, somebody else's, or nothing a genuine gateway would cause.
            Self::Decode(_)
            | Self::Topic(_)
            | Self::ListOver
            | Self::SlotNotOver
            | Self::SlotOver
            | Self::AlreadyReported
            | Self::UnknownSlot
            | Self::BadSignature
            | Self::OtherAttempt
            | Self::NamesThisMeter
            | Self::NotAHolder
            | Self::AlreadyAnswered
            | Self::RetryOver => return None,
        })
    }
}
