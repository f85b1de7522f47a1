//! Why the gateway did not use a message: counted by reason, never an error.

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

use crate::enrolment::EnrolmentError;
use crate::evidence::EvidenceError;
use crate::membership::ListError;
use crate::topic::TopicError;
use crate::wire::DecodeError;

/// Why a message was not used.
#[derive(Debug, Clone, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Rejection {
    #[error("nothing for this cluster travels on that topic: {0}")]
    Topic(#[from] TopicError),
    #[error("the message does not decode: {0}")]
    #[strum(serialize = "malformed")]
    Decode(#[from] DecodeError),
    #[error("the same message was accepted before")]
    Duplicate,
    #[error("the meter is not a member of the slot's list")]
    NotAMember,
    #[error("the message was made under another list")]
    OtherList,
    #[error("the authentication tag does not verify")]
    BadMac,
    #[error("the signature does not verify")]
    BadSignature,
    #[error("the slot is closed")]
    SlotClosed,
    #[error("the slot has not ended, or no list is in force for it")]
    SlotNotOpen,
    #[error("the message is for another attempt than the open one")]
    OtherAttempt,
    #[error("the reading came after the list of missing members was frozen")]
    TooLate,
    #[error("a different message of this meter was accepted for the same attempt")]
    Contradiction,
    #[error("a reveal came before it was asked for")]
    NotAsked,
    #[error("the reveal answers another request")]
    OtherRequest,
    #[error("a reveal came from a member that was reported missing")]
    NotAResponder,
    #[error("the message is of another scheme than the slot's list")]
    OtherScheme,
    #[error("an answer came from a member that is no holder")]
    NotAHolder,
    #[error("the reading has corrections of {found} bytes; those of the list's committee have {expected}")]
    Corrections { expected: usize, found: usize },
    #[error(transparent)]
    Enrolment(#[from] EnrolmentError),
    #[error("the enrolment is older than the known one")]
    OldEnrolment,
    #[error("the enrolment is dated more than an hour ahead")]
    DatedAhead,
    #[error("the meter is in another cluster of this gateway, which must leave it out first")]
    InOtherCluster,
    #[error("the meter sent too many enrolments and statuses within a minute")]
    TooOften,
    #[error("another meter enrolled with the same certificate key")]
    KeyInUse,
    #[error("the meter is on the deny-list, or not on the allow-list")]
    Denied,
    #[error("the meter is unknown")]
    #[strum(serialize = "unknown_meter")]
    Unknown,
    #[error("the evidence that came with a status shows nothing: {0}")]
    Evidence(#[from] EvidenceError),
    #[error("the retained list was signed by another gateway")]
    OtherGateway,
    #[error("the retained list begins more than two days ahead; meters refuse it too")]
    TooFarAhead,
    #[error("the retained list is refused: {0}")]
    List(#[from] ListError),
}

impl Rejection {
    /// Every word used in metrics.
    pub const WORDS: [&'static str; Self::VARIANTS.len()] =
        *Self::VARIANTS.first_chunk().expect("as many as there are");

    /// The word used in metrics.
    pub fn as_str(&self) -> &'static str {
        self.into()
    }
}
