//! The lies that only a committee can be told, each with its aim and the rule that must stop it.

use clap::ValueEnum;
use dream_protocol::membership::ListError;
use dream_protocol::meter::Refusal;

/// What a dishonest gateway tries on a committee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum CommitteeAttack {
    /// A header that names an authority of the gateway's own
    ForeignAuthorities,
    /// A list whose body is not the one that its header names
    OtherBody,
    /// One holder twice, so that it counts twice
    PaddedHolders,
    /// A holder that the certificates did not draw
    UndrawnHolder,
    /// A holder that does not want to be one
    UnwillingHolder,
    /// One request to half of the holders, another to the other half
    SplitRequest,
    /// A second, different request to holders that have answered
    AskedTwice,
    /// A request for a slot that is over
    LateRequest,
    /// Holders whose records are put back to before their answer
    RolledBackHolders,
}

impl CommitteeAttack {
    /// Returns an explanation for readers who do not know the protocol.
    pub(in crate::lie) const fn explanation(self) -> &'static str {
        match self {
            Self::ForeignAuthorities => {
                "With a committee, only the holders open a sum. The gateway names its own authority beside the real \
                 one: anyone it certifies could be a holder. Every authority in a list must be one that the meter is \
                 configured to trust."
            }
            Self::OtherBody => {
                "The gateway shows the holders a list whose header is the one that all others saw, and puts other homes \
                 behind it. The header names what follows it by hash."
            }
            Self::PaddedHolders => {
                "The gateway lists one holder, who works for it, twice. Its answer would count twice, and fewer honest ones \
                 would be needed to open something."
            }
            Self::UndrawnHolder => {
                "The gateway picks a holder. But holders are drawn by what the authority signed, which the gateway cannot \
                 choose, and every member draws again for itself."
            }
            Self::UnwillingHolder => {
                "The gateway makes a holder of a home that said it would not be one: it could be sure of its silence."
            }
            Self::SplitRequest => {
                "The gateway asks half of the holders for the sum of all homes, and the other half for the sum \
                 without one. No holder can tell on its own. But neither half is enough to open its sum, and a holder \
                 that is also shown the other request refuses, and keeps both as evidence."
            }
            Self::AskedTwice => {
                "After the holders have answered, the gateway asks them again for the sum without one home. Two answers to \
                 two questions can be subtracted from each other."
            }
            Self::LateRequest => {
                "The gateway keeps its request back until the slot is over, when nobody looks any more. Holders answer until \
                 the end of the following slot, and not later."
            }
            Self::RolledBackHolders => {
                "Holders lose power and come back with the records that they had before they answered. Then the gateway asks for \
                 something else. What a holder has answered is also marked in its account, which a meter keeps where it \
                 cannot be put back: it stays silent."
            }
        }
    }

    /// Returns whether this refusal is by the rule that must stop the attack.
    pub(in crate::lie) const fn is_stopped_by(self, refusal: &Refusal) -> bool {
        match self {
            Self::ForeignAuthorities => matches!(refusal, Refusal::List(ListError::UnknownAuthority)),
            Self::OtherBody => matches!(refusal, Refusal::List(ListError::OtherEntries)),
            Self::PaddedHolders => matches!(refusal, Refusal::List(ListError::Order { .. })),
            Self::UndrawnHolder | Self::UnwillingHolder => {
                matches!(refusal, Refusal::List(ListError::NotAHolder { .. }))
            }
            Self::SplitRequest | Self::AskedTwice => matches!(refusal, Refusal::SecondRequest),
            Self::LateRequest => matches!(refusal, Refusal::SlotOver),
            Self::RolledBackHolders => matches!(refusal, Refusal::AlreadyAnswered),
        }
    }
}
