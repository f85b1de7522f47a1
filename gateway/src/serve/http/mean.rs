//! The noise of means: slots add theirs independently, so that the band of a mean shrinks with their number.

use crate::store::{ClosedSlot, deviations95};

/// Returns half the width of the band that holds, with 95 % confidence, the mean of the sums without noise: the root of the
/// sum of the variances over the number of sums, times as many standard deviations as hold 95 %. `scale` is what each sum
/// is multiplied with before the mean is taken.
pub(super) fn band95(slots: &[&ClosedSlot], scale: impl Fn(&ClosedSlot) -> f64) -> f64 {
    if let [one] = slots {
        return one.sum().map_or(0.0, |sum| sum.band95 as f64) * scale(one);
    }
    let (mut variance, mut tails) = (0.0, 0.0);
    for slot in slots {
        let own = slot.outcome.spread().variance() * scale(slot).powi(2);
        variance += own;
        // Fourth cumulants add up as variances do. That of a sum of noise is in proportion to its variance squared over
        // its shape, the number of shares over those that make up the whole noise.
        tails += own * own * f64::from(slot.outcome.honest) / f64::from(slot.outcome.responders.max(1));
    }
    if variance == 0.0 {
        return 0.0;
    }
    deviations95(tails / (variance * variance)) * variance.sqrt() / slots.len() as f64
}

#[cfg(test)]
mod tests {
    use dream_protocol::noise::{Confidence, Scale, Spread};
    use dream_testkit::outcomes::Slotted;

    use super::*;

    fn sums(slots: u64, responders: u16) -> Vec<ClosedSlot> {
        (0..slots).map(|slot| ClosedSlot::from(Slotted::new(slot).decoded(1000, responders))).collect()
    }

    fn own(slot: &ClosedSlot) -> f64 {
        slot.sum().expect("it was decoded").band95 as f64
    }

    fn band(slots: &[ClosedSlot]) -> f64 {
        band95(&slots.iter().collect::<Vec<_>>(), |_| 1.0)
    }

    #[test]
    fn the_band_of_one_slot_is_its_own() {
        let one = sums(1, 95);
        let own = own(&one[0]);
        assert_eq!((band(&one), band95(&[&one[0]], |_| 2.0)), (own, 2.0 * own));
    }

    #[test]
    fn the_band_of_a_mean_is_that_of_as_many_times_the_shares() {
        for responders in [80, 90, 100] {
            for slots in [2, 3, 6, 19, 144] {
                // The noise of k slots is that of k times the shares.
                let shares = u32::from(responders) * u32::try_from(slots).expect("few");
                let whole = Spread::new(Scale::new(9000, 1), 80, shares).half_width(Confidence::P95);
                let exact = whole as f64 / slots as f64;
                let found = band(&sums(slots, responders));
                assert!((found / exact - 1.0).abs() < 0.002, "{slots} of {responders}: {found}, not {exact}");
            }
        }
    }

    #[test]
    fn slots_of_different_noise_count_by_their_variance() {
        let [quiet, loud] = [900, 9000]
            .map(|noise_scale| ClosedSlot::from(Slotted { noise_scale, ..Slotted::new(0) }.decoded(1000, 80)));
        // The loud one is nearly all of it.
        let found = band95(&[&quiet, &loud], |_| 1.0);
        let loud = own(&loud) / 2.0;
        assert!((loud..1.01 * loud).contains(&found), "{found}, {loud}");
    }
}
