//! Pairwise masks: what two members add with opposite signs, so that it vanishes from the sum (`protocol.md 3, 4`).
//!
//! All arithmetic is modulo 2^64 and wraps on purpose.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use aes::Aes128Enc;
use aes::cipher::{Block, BlockCipherEncrypt, KeyInit};
use zeroize::Zeroizing;

use crate::derive;
use crate::keys::PairKey;
use crate::member_set::MemberSet;
use crate::time::Slot;

/// One member's pairwise keys under one list.
pub struct Masks {
    /// By member index; `None` is the member itself.
    keys: Vec<Option<PairKey>>,
    /// A pair is selected in a slot when its draw is below this; `None` selects all.
    threshold: Option<u64>,
}

impl Masks {
    /// `keys[j]` is the key shared with member `j` of the sorted list, `None` at the member's own place.
    pub fn new(keys: Vec<Option<PairKey>>, threshold: Option<u64>) -> Self {
        debug_assert_eq!(keys.iter().filter(|key| key.is_none()).count(), 1, "exactly one member is itself");
        Self { keys, threshold }
    }

    /// The sum of signed masks over all partners, for one slot and attempt.
    pub fn sum(&self, slot: Slot, attempt: u8) -> u64 {
        self.signed().fold(0u64, |sum, (sign, _, key)| sign.add(sum, self.mask(key, slot, attempt)))
    }

    /// The sum of signed masks over the partners among `missing`: what a reveal gives up.
    pub fn sum_over(&self, missing: &MemberSet, slot: Slot, attempt: u8) -> u64 {
        self.signed()
            .filter(|(_, member, _)| missing.contains(*member))
            .fold(0u64, |sum, (sign, _, key)| sign.add(sum, self.mask(key, slot, attempt)))
    }

    /// The sums of the first attempts of `count` slots, with one key schedule per partner and one AES block for two slots.
    pub fn batch(&self, first: Slot, count: usize) -> MaskBatch {
        let base = Slot(first.0 & !1);
        let lead = usize::from(first != base);
        let mut sums = Zeroizing::new(vec![0u64; (count + lead).next_multiple_of(2)]);
        let own = self.keys.iter().position(Option::is_none).unwrap_or(self.keys.len());
        let (before, after) = self.keys.split_at(own);
        let mut tile = Tile::new(base, sums.len(), self.threshold);
        for (sign, keys) in [(Sign::Plus, before), (Sign::Minus, after)] {
            let keys: Vec<&PairKey> = keys.iter().flatten().collect();
            for group in keys.chunks(GROUP) {
                tile.accumulate(group, sign, &mut sums);
            }
        }
        MaskBatch { base, lead, sums }
    }

    /// The partners with their signs: plus for those that sort before this member, minus for those after.
    fn signed(&self) -> impl Iterator<Item = (Sign, u16, &PairKey)> {
        let mut sign = Sign::Plus;
        (0u16..).zip(&self.keys).filter_map(move |(member, key)| match key {
            Some(key) => Some((sign, member, key)),
            None => {
                sign = Sign::Minus;
                None
            }
        })
    }

    /// k_ij, or 0 for a pair that is not selected.
    fn mask(&self, key: &PairKey, slot: Slot, attempt: u8) -> u64 {
        if let Some(threshold) = self.threshold {
            let [draw, _] = derive::halves(&derive::encrypt(key, derive::select_block(attempt, slot)));
            if draw >= threshold {
                return 0;
            }
        }
        let [even, odd] = derive::halves(&derive::encrypt(key, derive::mask_block(attempt, slot.0 >> 1)));
        if slot.0 & 1 == 0 { even } else { odd }
    }
}

impl fmt::Debug for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masks").field("members", &self.keys.len()).finish_non_exhaustive()
    }
}

/// Mask sums of consecutive slots' first attempts, computed ahead.
pub struct MaskBatch {
    base: Slot,
    /// 1 if the batch starts with an odd slot, whose even twin was computed along.
    lead: usize,
    sums: Zeroizing<Vec<u64>>,
}

impl MaskBatch {
    pub fn get(&self, slot: Slot) -> Option<u64> {
        let at = usize::try_from(slot.0.checked_sub(self.base.0)?).ok()?;
        if at < self.lead { None } else { self.sums.get(at).copied() }
    }
}

impl fmt::Debug for MaskBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaskBatch").field("base", &self.base).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy)]
enum Sign {
    Plus,
    Minus,
}

impl Sign {
    fn add(self, sum: u64, mask: u64) -> u64 {
        match self {
            Self::Plus => sum.wrapping_add(mask),
            Self::Minus => sum.wrapping_sub(mask),
        }
    }
}

/// How many partners' masks are added up before they touch the sums.
const GROUP: usize = 8;
/// How many blocks of each are computed at once: a tile of the two fits the fastest cache.
const CHUNK: usize = 64;

/// Works on a group of partners and a chunk of blocks at a time: AES runs at full speed on many blocks, and the sums are
/// read and written once per group instead of once per partner.
struct Tile {
    threshold: Option<u64>,
    /// What is encrypted: the same for all partners. Each chunk with its first slot.
    inputs: Vec<(Slot, [Block<Aes128Enc>; CHUNK])>,
    masks: Zeroizing<Vec<[[u8; 16]; CHUNK]>>,
}

impl Tile {
    fn new(base: Slot, slots: usize, threshold: Option<u64>) -> Self {
        let chunk = |slot| {
            let block = |i| derive::mask_block(0, (slot >> 1) + i as u64).into();
            (Slot(slot), core::array::from_fn(block))
        };
        Self {
            threshold,
            inputs: (base.0..).step_by(2 * CHUNK).take(slots.div_ceil(2 * CHUNK)).map(chunk).collect(),
            masks: Zeroizing::new(vec![[[0; 16]; CHUNK]; GROUP]),
        }
    }

    fn accumulate(&mut self, group: &[&PairKey], sign: Sign, sums: &mut [u64]) {
        let ciphers: Vec<Aes128Enc> = group.iter().map(|key| Aes128Enc::new(key.expose().into())).collect();
        for ((slot, inputs), sums) in self.inputs.iter().zip(sums.chunks_mut(2 * CHUNK)) {
            for (cipher, masks) in ciphers.iter().zip(self.masks.iter_mut()) {
                let outputs = Block::<Aes128Enc>::cast_slice_from_core_mut(masks);
                cipher.encrypt_blocks_b2b(inputs, outputs).expect("as many outputs as inputs");
                if let Some(threshold) = self.threshold {
                    drop_unselected(cipher, threshold, *slot, masks);
                }
            }
            match <&[_; GROUP]>::try_from(&self.masks[..group.len()]) {
                Ok(whole) => add(whole, sign, sums),
                Err(_) => self.masks[..group.len()].iter().for_each(|one| add(core::array::from_ref(one), sign, sums)),
            }
        }
    }
}

/// Adds the masks of a group of partners to the sums. The group's size is known, so that the inner loop is unrolled.
fn add<const N: usize>(masks: &[[[u8; 16]; CHUNK]; N], sign: Sign, sums: &mut [u64]) {
    for (i, pair) in sums.as_chunks_mut::<2>().0.iter_mut().enumerate().take(CHUNK) {
        let mut total = [0u64; 2];
        for blocks in masks {
            let [first, second] = derive::halves(&blocks[i]);
            total = [total[0].wrapping_add(first), total[1].wrapping_add(second)];
        }
        *pair = [sign.add(pair[0], total[0]), sign.add(pair[1], total[1])];
    }
}

/// Erases the masks of the slots in which the pair is not selected.
fn drop_unselected(cipher: &Aes128Enc, threshold: u64, first: Slot, masks: &mut [[u8; 16]; CHUNK]) {
    let mut draws: [Block<Aes128Enc>; 2 * CHUNK] =
        core::array::from_fn(|i| derive::select_block(0, first.plus(i as u64)).into());
    cipher.encrypt_blocks(&mut draws);
    let halves = masks.iter_mut().flat_map(|block| block.as_chunks_mut::<8>().0);
    for (half, draw) in halves.zip(&draws) {
        if derive::halves(&draw.0)[0] >= threshold {
            *half = [0; 8];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(member: u16, members: u16, threshold: Option<u64>) -> Masks {
        let key = |other: u16| {
            let mut bytes = [0; 16];
            bytes[0] = u8::try_from(member.min(other)).unwrap();
            bytes[1] = u8::try_from(member.max(other)).unwrap();
            (other != member).then(|| PairKey::from_bytes(bytes))
        };
        Masks::new((0..members).map(key).collect(), threshold)
    }

    #[test]
    fn a_batch_equals_its_slots_one_by_one() {
        for threshold in [None, Some(u64::MAX / 3)] {
            let masks = masks(3, 7, threshold);
            for first in [Slot(2_974_000), Slot(2_974_001)] {
                for count in [1, 2, 129, 300] {
                    let batch = masks.batch(first, count);
                    for slot in first.0..first.0 + count as u64 {
                        assert_eq!(batch.get(Slot(slot)), Some(masks.sum(Slot(slot), 0)), "{first} {count} {slot}");
                    }
                    assert_eq!(batch.get(Slot(first.0 - 1)), None);
                }
            }
        }
    }

    #[test]
    fn masks_of_all_members_cancel_in_every_slot_and_attempt() {
        for threshold in [None, Some(u64::MAX / 2)] {
            let all: Vec<_> = (0..9).map(|member| masks(member, 9, threshold)).collect();
            for slot in [Slot(10), Slot(11)] {
                for attempt in [0, 1] {
                    let total = all.iter().fold(0u64, |sum, one| sum.wrapping_add(one.sum(slot, attempt)));
                    assert_eq!(total, 0);
                }
            }
        }
    }

    #[test]
    fn what_is_revealed_for_missing_members_is_what_their_masks_would_have_cancelled() {
        let all: Vec<_> = (0..9).map(|member| masks(member, 9, None)).collect();
        let missing = MemberSet::from_members(9, [2, 5]);
        let left = (0..9).filter(|&member| !missing.contains(member)).map(|member| &all[usize::from(member)]);
        let sum = left.fold(0u64, |sum, one| {
            sum.wrapping_add(one.sum(Slot(4), 1)).wrapping_sub(one.sum_over(&missing, Slot(4), 1))
        });
        assert_eq!(sum, 0);
    }

    #[test]
    fn slots_attempts_and_selections_differ() {
        let masks = masks(0, 2, None);
        let sums = [masks.sum(Slot(4), 0), masks.sum(Slot(5), 0), masks.sum(Slot(6), 0), masks.sum(Slot(4), 1)];
        assert!((0..4).all(|a| (0..a).all(|b| sums[a] != sums[b])));
    }
}
