//! Bytes that are kept once, wherever they are needed.

use alloc::sync::Arc;
use core::ops::Deref;

/// Shared bytes, or a part of some: an enrolment inside the list that it is an entry of.
#[derive(Clone)]
pub(crate) struct Part {
    whole: Arc<[u8]>,
    start: u32,
    end: u32,
}

impl Part {
    /// All of some bytes; `None` from 4 GiB on.
    pub(crate) fn all(whole: Arc<[u8]>) -> Option<Self> {
        let end = u32::try_from(whole.len()).ok()?;
        Some(Self { whole, start: 0, end })
    }

    /// The part that a slice of these bytes is; `None` if it is one of others.
    pub(crate) fn of(whole: &Arc<[u8]>, slice: &[u8]) -> Option<Self> {
        let start = slice.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
        let end = start.checked_add(slice.len()).filter(|&end| end <= whole.len())?;
        Some(Self { whole: whole.clone(), start: u32::try_from(start).ok()?, end: u32::try_from(end).ok()? })
    }

    /// Whether it keeps other bytes than its own, and not these.
    pub(crate) fn keeps_another(&self, whole: &Arc<[u8]>) -> bool {
        self.len() < self.whole.len() && !Arc::ptr_eq(&self.whole, whole)
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let at = |place| usize::try_from(place).expect("a place in a slice");
        &self.whole[at(self.start)..at(self.end)]
    }
}

impl core::fmt::Debug for Part {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_in_its_whole_and_in_nothing_else() {
        let whole: Arc<[u8]> = [1, 2, 3, 4].into();
        let part = Part::of(&whole, &whole[1..3]).unwrap();
        assert_eq!((&*part, Arc::strong_count(&whole)), (&[2, 3][..], 2));
        let other: Arc<[u8]> = [1, 2, 3, 4].into();
        assert!(Part::of(&whole, &other[1..3]).is_none());
        assert!(part.keeps_another(&other) && !part.keeps_another(&whole));
        assert!(!Part::all(whole).unwrap().keeps_another(&other));
    }
}
