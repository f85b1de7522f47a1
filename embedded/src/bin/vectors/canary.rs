//! Whether this compiler can be trusted with this profile (`protocol/tests/canary.rs` says why).

use core::hint::black_box;

use crate::Tally;

pub(crate) fn canary(tally: &mut Tally) {
    let flip = |mut bytes: [u8; 32]| {
        bytes[0] ^= 1;
        bytes
    };
    let seven = [7; 32];
    let (first, second) = (flip(seven), flip(seven));
    tally.check("a closure sees what its first call changed", &black_box(first), &black_box(second));
}
