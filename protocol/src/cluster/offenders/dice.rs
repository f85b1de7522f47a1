//! Draws from the gateway's random source.

use rand_core::CryptoRng;

/// A number from 0 up to, but not including, 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits are what a fraction has")]
pub(super) fn fraction(rng: &mut dyn CryptoRng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A number below `end`, which is not 0.
pub(super) fn below(end: usize, rng: &mut dyn CryptoRng) -> usize {
    let wide = u128::from(rng.next_u64()) * end as u128;
    usize::try_from(wide >> 64).unwrap_or(0)
}

/// Moves `count` random items to the front.
pub(super) fn shuffle<T>(items: &mut [T], count: usize, rng: &mut dyn CryptoRng) {
    for place in 0..count.min(items.len()) {
        items.swap(place, place + below(items.len() - place, rng));
    }
}
