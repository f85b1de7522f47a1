//! What a member says in a slot, on the topic of readings or on that of reveals.

use crate::time::Slot;
use crate::topic::MeterChannel;
use crate::wire::{self, Answer, DealtReading, DecodeError, MaskedReading, Message as _, Reveal};

/// What a member says in a slot.
#[derive(Debug)]
pub(super) enum MemberMessage<'a> {
    Reading(MaskedReading),
    Dealt(DealtReading<'a>),
    Reveal(Reveal),
    Answer(Answer),
}

impl<'a> MemberMessage<'a> {
    /// Reads what came on the topic of readings, or on that of reveals.
    pub(super) fn decode(channel: MeterChannel, payload: &'a [u8]) -> Result<Self, DecodeError> {
        match (wire::kind(payload)?, channel == MeterChannel::Reading) {
            (DealtReading::KIND, true) => DealtReading::decode(payload).map(Self::Dealt),
            (_, true) => MaskedReading::decode(payload).map(Self::Reading),
            (Answer::KIND, false) => Answer::decode(payload).map(Self::Answer),
            (_, false) => Reveal::decode(payload).map(Self::Reveal),
        }
    }

    /// The list, slot and attempt that it is for.
    const fn about(&self) -> ([u8; 8], Slot, u8) {
        match *self {
            Self::Reading(MaskedReading { list, slot, attempt, .. })
            | Self::Dealt(DealtReading { list, slot, attempt, .. })
            | Self::Reveal(Reveal { list, slot, attempt, .. })
            | Self::Answer(Answer { list, slot, attempt, .. }) => (list, slot, attempt),
        }
    }

    pub(super) const fn list(&self) -> [u8; 8] {
        self.about().0
    }

    pub(super) const fn slot(&self) -> Slot {
        self.about().1
    }

    pub(super) const fn attempt(&self) -> u8 {
        self.about().2
    }
}
