//! A home's reading, which exists in clear only inside the meter.

use core::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// A slot's mean power in whole watts, clipped to the list's range.
///
/// Neither `Display` nor a revealing `Debug`: a reading never reaches a log. It leaves the meter only masked.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Reading(i64);

impl Reading {
    pub(crate) const fn new(watts: i64) -> Self {
        Self(watts)
    }

    /// The clear value, for the meter's own arithmetic and its own record.
    pub(crate) const fn watts(&self) -> i64 {
        self.0
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").finish_non_exhaustive()
    }
}
