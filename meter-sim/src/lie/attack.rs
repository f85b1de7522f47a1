//! The attacks, each with its aim and the rule that must stop it.

use clap::ValueEnum;
use dream_protocol::enrolment::EnrolmentError;
use dream_protocol::membership::ListError;
use dream_protocol::meter::Refusal;
use dream_protocol::policy::PolicyError;

use super::committee::CommitteeAttack;

/// What a dishonest gateway tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Attack {
    /// Homes that do not exist pad the list
    InventedMembers,
    /// The keys of real homes are swapped for the gateway's own
    SwappedKeys,
    /// A list too short to hide in
    SmallCrowd,
    /// A list that asks for almost no noise
    WeakEpsilon,
    /// Two lists with one number
    TwoLists,
    /// A list that does not continue the accepted one
    BrokenChain,
    /// A list with an old number
    StaleList,
    /// A request that somebody else has signed
    ForgedSignature,
    /// A request that calls all homes but one missing
    OversizedRequest,
    /// A second, different request for a slot that was answered
    SecondRequest,
    /// A demand to report once more than agreed
    EndlessRetries,
    /// A request that calls a home missing whose reading has come
    NamedMissing,
}

/// A lie of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// To members that mask their readings pairwise.
    ToMembers(Attack),
    ToCommittee(CommitteeAttack),
}

impl Lie {
    pub(super) fn name(self) -> String {
        match self {
            Self::ToMembers(attack) => name(&attack),
            Self::ToCommittee(attack) => name(&attack),
        }
    }

    /// Returns the lie in one line.
    pub(super) fn summary(self) -> String {
        match self {
            Self::ToMembers(attack) => summary(&attack),
            Self::ToCommittee(attack) => summary(&attack),
        }
    }

    pub(super) const fn explanation(self) -> &'static str {
        match self {
            Self::ToMembers(attack) => attack.explanation(),
            Self::ToCommittee(attack) => attack.explanation(),
        }
    }

    pub(super) const fn is_stopped_by(self, refusal: &Refusal) -> bool {
        match self {
            Self::ToMembers(attack) => attack.is_stopped_by(refusal),
            Self::ToCommittee(attack) => attack.is_stopped_by(refusal),
        }
    }
}

/// What must have happened before an attack can be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precondition {
    NoList,
    List,
    /// A slot that all meters have reported and nobody has asked about.
    ReportedSlot,
    /// A slot whose one request all meters have answered.
    AnsweredSlot,
}

impl Attack {
    pub(super) const fn precondition(self) -> Precondition {
        match self {
            Self::InventedMembers | Self::SwappedKeys | Self::SmallCrowd | Self::WeakEpsilon => Precondition::NoList,
            Self::TwoLists | Self::BrokenChain | Self::StaleList => Precondition::List,
            Self::ForgedSignature | Self::OversizedRequest | Self::NamedMissing => Precondition::ReportedSlot,
            Self::SecondRequest | Self::EndlessRetries => Precondition::AnsweredSlot,
        }
    }

    /// Returns an explanation for readers who do not know the protocol.
    pub(super) const fn explanation(self) -> &'static str {
        match self {
            Self::InventedMembers => {
                "The gateway pads the list with homes that it made up. It knows their readings, so it could subtract them, \
                 and every real home, sure to be one of many, would add less noise. It has no certificates for them from \
                 the authority, so it issues some itself, in the authority's name. (An authority that certifies whatever the \
                 gateway asks for would defeat this, which is why it must be somebody else.)"
            }
            Self::SwappedKeys => {
                "The gateway replaces the keys of half the homes with its own. A reading masked with those keys is \
                 hidden from everyone but the gateway."
            }
            Self::SmallCrowd => {
                "The gateway lists only a dozen homes. The sum of a few says more about each than the sum of many."
            }
            Self::WeakEpsilon => {
                "The gateway asks for a thousandth of the noise (epsilon 1000). The sum would be nearly exact, and a kettle \
                 in one home would show in it."
            }
            Self::TwoLists => {
                "The gateway shows a second list with the same number, without one of the homes. Two sums, with and without \
                 it, would differ by just that home."
            }
            Self::BrokenChain => {
                "The gateway shows a next list that does not follow from the accepted one: different homes could be shown \
                 different pasts."
            }
            Self::StaleList => {
                "The gateway brings an old list back, to be used again with terms that have been replaced."
            }
            Self::ForgedSignature => {
                "Someone other than the gateway, such as the broker, asks the meters to open a slot."
            }
            Self::OversizedRequest => {
                "To open a sum the gateway names the meters that are missing, and the others take away the masks that they \
                 share with those. Here it calls all but one missing: that one would take away everything that hides it."
            }
            Self::SecondRequest => {
                "After a slot was answered, the gateway asks again and names somebody else missing. Two answers to two \
                 questions can be subtracted from each other."
            }
            Self::EndlessRetries => {
                "The gateway pretends that something was lost and wants the reading again, with fresh noise. The mean of \
                 many noisy answers is hardly noisy."
            }
            Self::NamedMissing => {
                "The gateway calls a home missing whose reading it has. The others rightly take away the masks that they \
                 share with it; were it to answer as well, nothing would hide it."
            }
        }
    }

    /// Returns whether this refusal is by the rule that must stop the attack.
    pub(super) const fn is_stopped_by(self, refusal: &Refusal) -> bool {
        match self {
            Self::InventedMembers => {
                matches!(refusal, Refusal::List(ListError::Enrolment { reason: EnrolmentError::Certificate(_), .. }))
            }
            Self::SwappedKeys => {
                matches!(refusal, Refusal::List(ListError::Enrolment { reason: EnrolmentError::BadSignature, .. }))
            }
            Self::SmallCrowd => {
                matches!(refusal, Refusal::Policy(PolicyError::TooFewMembers { .. } | PolicyError::TooFewHonest { .. }))
            }
            Self::WeakEpsilon => matches!(refusal, Refusal::Policy(PolicyError::Epsilon { .. })),
            Self::TwoLists => matches!(refusal, Refusal::TwoListsOfAnEpoch(_)),
            Self::BrokenChain => matches!(refusal, Refusal::BrokenChain(_)),
            Self::StaleList => matches!(refusal, Refusal::StaleEpoch { .. }),
            Self::ForgedSignature => matches!(refusal, Refusal::BadSignature),
            Self::OversizedRequest => matches!(refusal, Refusal::TooManyMissing { .. }),
            Self::SecondRequest => matches!(refusal, Refusal::SecondRequest),
            Self::EndlessRetries => matches!(refusal, Refusal::TooManyAttempts { .. }),
            Self::NamedMissing => matches!(refusal, Refusal::NamesThisMeter),
        }
    }
}

/// Returns the name of a value on the command line.
pub(super) fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Returns what the help says of a value.
pub(super) fn summary(value: &impl ValueEnum) -> String {
    let help = value.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
    help.unwrap_or_default()
}
