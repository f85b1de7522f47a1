//! What a cluster tells its operator.

use alloc::boxed::Box;

use thiserror::Error;

use super::{HoldersReport, Offence};
use crate::evidence::Contradiction;
use crate::ids::{GatewayId, MeterId};
use crate::membership::ListError;
use crate::params::ParamsError;
use crate::scheme::committee::NoCommittee;
use crate::time::{Slot, Timestamp};
use crate::wire::StatusCode;

/// What an operator may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A new list was published.
    ListPublished { epoch: u64, members: u16, from_slot: Slot, to_slot: Slot },
    /// The members of an attempt were asked to reveal, for the first time; the slot's measurement had `ended`.
    Requested { slot: Slot, attempt: u8, ended: Timestamp },
    /// No list can be formed of the members there are.
    CannotForm { members: u16, reason: CannotForm },
    /// A retained list was taken over: another gateway served the cluster, or the store was restored from a back-up.
    TakenOver { epoch: u64 },
    /// Members were dropped because they stayed silent.
    Dropped { members: u16 },
    /// A member is left out of sums for its offences, until its trial.
    Quarantined { meter: MeterId, offence: Offence },
    /// A member takes part again.
    Released { meter: MeterId },
    /// A member failed one trial after the other: lists are formed without it, if that leaves enough members.
    LeftOutOfLists { meter: MeterId, until: Timestamp },
    /// A sum failed and nobody known is in it: groups of members are left out to find who spoils sums.
    SearchStarted { slot: Slot },
    /// Several members spoil sums: the next list leaves so many out to find them, and lets more be missing if it is wide.
    SearchesByLists { left_out: u16, wide: bool },
    /// Bets on secret coins have shown that a member spoils sums.
    Convicted { meter: MeterId },
    /// A holder's answers are wrong if a member is in the sum, and right otherwise: one of the two lies.
    AtOdds { member: MeterId, holder: MeterId },
    /// Sum after sum fails: who spoils them cannot be found in a cluster of this size, or only by chance.
    CannotBeFound,
    /// Dropped members were heard again, and may be in the next list.
    Readmitted { members: u16 },
    /// Somebody replaced the newest list on the broker, or erased it; it is published again.
    ListOverwritten { epoch: u64, erased: bool },
    /// Members have shown that a gateway signed two messages that contradict each other.
    Proven { gateway: GatewayId, contradiction: Contradiction },
    /// How the holders of a closed slot answered.
    Holders(Box<HoldersReport>),
    /// A list is formed in the pairwise scheme, because no committee can be formed.
    NoCommittee(NoCommittee),
    /// A meter says why it is silent, or what it has seen. The epoch is that of the list it speaks of, if it is one of ours.
    MeterStatus { meter: MeterId, code: StatusCode, epoch: Option<u64>, slot: Slot },
}

/// Why no list can be formed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CannotForm {
    #[error("at least {least} members are needed")]
    TooFew { least: u16 },
    #[error(transparent)]
    Params(#[from] ParamsError),
    #[error(transparent)]
    List(#[from] ListError),
    #[error(transparent)]
    Committee(#[from] NoCommittee),
}
