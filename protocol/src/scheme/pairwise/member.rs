//! A member's part in the pairwise scheme.

use zeroize::Zeroizing;

use super::mask::{MaskBatch, Masks};
use crate::member_set::MemberSet;
use crate::time::Slot;

/// How many slots' masks are computed at once, with one key schedule per partner: a week of ten-minute slots.
const MASKS_AHEAD: u64 = 1008;

/// What a meter masks with under one list.
#[derive(Debug)]
pub(crate) struct Member {
    /// The meter's place in the list.
    pub(crate) index: u16,
    masks: Masks,
    ahead: Option<MaskBatch>,
}

impl Member {
    pub(crate) const fn new(index: u16, masks: Masks) -> Self {
        Self { index, masks, ahead: None }
    }

    /// Returns the sum of masks for an attempt. That of a first attempt comes from a batch computed ahead, at most up to the
    /// last slot of the list.
    pub(crate) fn masks(&mut self, slot: Slot, attempt: u8, last: Slot) -> Zeroizing<u64> {
        if attempt > 0 {
            return Zeroizing::new(self.masks.sum(slot, attempt));
        }
        let ahead = self.ahead.as_ref().and_then(|batch| batch.get(slot));
        Zeroizing::new(ahead.unwrap_or_else(|| {
            let left = last.0.saturating_sub(slot.0) + 1;
            let count = usize::try_from(left.min(MASKS_AHEAD)).expect("small");
            let batch = self.ahead.insert(self.masks.batch(slot, count));
            batch.get(slot).expect("its first slot")
        }))
    }

    /// Returns the sum of the masks shared with the missing members: what a reveal gives up beside the secret.
    pub(crate) fn given_up(&self, missing: &MemberSet, slot: Slot, attempt: u8) -> u64 {
        self.masks.sum_over(missing, slot, attempt)
    }
}
