//! A closed slot: what the protocol released of it, and what follows from that.

use std::collections::BTreeMap;
use std::sync::Mutex;

use dream_edge::cut_off::CutOff;
use dream_filter::Filtered;
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::noise::Confidence;

use super::noise::{NORMAL95, NORMAL99};

/// A closed slot as it is stored, and as everything that shows it takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedSlot {
    pub outcome: SlotOutcome,
    /// Absent in a slot without an aggregate, in one that closed after a later one, and in those of versions before the
    /// filter.
    pub filtered: Option<FilteredLoad>,
    /// What the sums of the hour after the slot add to that; absent until then.
    pub smoothed: Option<FilteredLoad>,
    /// What the filter expected of a slot that gave no sum. Only sums of clusters and energies are filled in with it.
    pub predicted: Option<FilteredLoad>,
    /// What its meters are expected to have cut off. It is in all loads of all members; absent in slots of versions before that.
    pub cut_off: Option<CutOff>,
}

/// A load in watts, with half the width of the bands that hold it with 95 and 99 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub watts: i64,
    pub band95: u64,
    pub band99: u64,
}

/// Which number tells a slot's load best, and why. Both are of all members, silent ones included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Best {
    /// The filtered load: its band is narrower than that of the sum.
    Filtered,
    /// The filtered load, although its band is as wide: the filter is learning, or the load has just changed. The sum alone is no
    /// better, because its band, which is for the noise, misses the load most often where sums are far from what was expected.
    FilteredInDoubt,
    /// The sum: there is no filtered load.
    Estimated,
}

impl Best {
    /// Returns which is better of a sum that was scaled to all members and the filtered load.
    pub fn of(estimate: Load, filtered: Option<FilteredLoad>) -> Self {
        match filtered {
            None => Self::Estimated,
            Some(filtered) if filtered.band95 < estimate.band95 => Self::Filtered,
            Some(_) => Self::FilteredInDoubt,
        }
    }

    /// Returns its name, as the API has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Filtered | Self::FilteredInDoubt => "filtered",
            Self::Estimated => "estimated",
        }
    }

    /// Returns the reason, as the API has it.
    pub const fn because(self) -> &'static str {
        match self {
            Self::Filtered => "narrower_band",
            Self::FilteredInDoubt => "learning_or_changed",
            Self::Estimated => "no_filtered_load",
        }
    }
}

/// What the filter made of a slot when it closed, or an hour later, in whole watts. It is stored with the slot and never computed again, so
/// that everybody sees the same number, also after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilteredLoad {
    /// The load of all members, silent ones included.
    pub watts: i64,
    /// Half the width of the band that holds it with 95 % confidence, if the filter's model is right.
    pub band95: u64,
}

impl FilteredLoad {
    /// Rounds to whole watts, the band upwards. Returns `None` if either is not finite.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast to an integer saturates")]
    pub fn new(Filtered { watts, band95 }: Filtered) -> Option<Self> {
        let finite = watts.is_finite() && band95.is_finite();
        finite.then(|| Self { watts: watts.round() as i64, band95: band95.ceil() as u64 })
    }

    /// Returns the same with what meters cut off.
    #[must_use]
    pub fn with(self, cut_off: Option<CutOff>) -> Self {
        let Some(cut_off) = cut_off else { return self };
        Self { watts: raised(self.watts, cut_off), band95: widened(self.band95, self.watts, cut_off, NORMAL95) }
    }
}

/// Returns a load with what meters cut off.
#[expect(clippy::cast_possible_truncation, reason = "a cast to an integer saturates")]
fn raised(watts: i64, cut_off: CutOff) -> i64 {
    (watts as f64 * (1.0 + cut_off.shares()[0])).round() as i64
}

/// Returns half the width of a band of the load, so many deviations wide, with that of what is cut off.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast to an integer saturates")]
fn widened(band: u64, watts: i64, cut_off: CutOff, deviations: f64) -> u64 {
    let [share, lasting, daily, passing] = cut_off.shares();
    let own = deviations * watts as f64 * lasting.hypot(daily).hypot(passing);
    (band as f64 * (1.0 + share)).hypot(own).ceil() as u64
}

impl From<SlotOutcome> for ClosedSlot {
    fn from(outcome: SlotOutcome) -> Self {
        Self { outcome, filtered: None, smoothed: None, predicted: None, cut_off: None }
    }
}

impl ClosedSlot {
    /// Returns whether meters reported the slot under a membership list; the epochs of lists start at 1. A gateway closes no other
    /// slots. Those that a laboratory wrote to its store are shown and filtered, and count nowhere.
    pub fn is_of_a_list(&self) -> bool {
        self.outcome.epoch > 0
    }

    /// Returns whether the slot gave a sum.
    pub fn is_decoded(&self) -> bool {
        self.outcome.result.is_ok()
    }

    /// Returns the label of the result in metrics, API and CSV: `decoded`, or why not.
    pub fn label(&self) -> &'static str {
        self.outcome.result.map_or_else(|failure| failure.as_str(), |_| "decoded")
    }

    /// Returns the noisy sum over the responders; `None` if the slot gave none.
    pub fn sum(&self) -> Option<Load> {
        let watts = self.outcome.result.ok()?.watts();
        let Noise { band95, band99, .. } = Noise::of(&self.outcome);
        Some(Load { watts, band95, band99 })
    }

    /// Returns the sum and its bands scaled by members over responders, each rounded to the nearest watt, with what meters are
    /// expected to have cut off: an estimate for all members. The bands hold the noise and what is not known of that, not what
    /// silent meters really used.
    pub fn estimate(&self) -> Option<Load> {
        let Load { watts, band95, band99 } = self.sum()?;
        let scaled = |watts| scale(watts, self.outcome.members, self.outcome.responders);
        let scaled_band = |band| Some(scaled(i64::try_from(band).ok()?)?.unsigned_abs());
        let (watts, band95, band99) = (scaled(watts)?, scaled_band(band95)?, scaled_band(band99)?);
        let Some(cut_off) = self.cut_off else { return Some(Load { watts, band95, band99 }) };
        Some(Load {
            watts: raised(watts, cut_off),
            band95: widened(band95, watts, cut_off, NORMAL95),
            band99: widened(band99, watts, cut_off, NORMAL99),
        })
    }

    /// Returns the share of the loads of all members that is estimated, because meters cut high readings off.
    pub fn cut_off_share(&self) -> Option<f64> {
        let [share, ..] = self.cut_off?.shares();
        Some(share / (1.0 + share))
    }

    /// Returns by what a sum is scaled to stand for all members; 1 if nobody responded.
    pub fn to_members(&self) -> f64 {
        match self.outcome.responders {
            0 => 1.0,
            responders => f64::from(self.outcome.members) / f64::from(responders),
        }
    }

    /// Returns the mean absolute error of the sum in watts; `None` if the slot gave none.
    pub fn mean_error(&self) -> Option<f64> {
        self.is_decoded().then(|| Noise::of(&self.outcome).mean_error)
    }
}

/// Rounds `watts * members / responders` to the nearest watt, exactly.
fn scale(watts: i64, members: u16, responders: u16) -> Option<i64> {
    let (members, responders) = (i128::from(members), i128::from(responders));
    let twice = 2 * i128::from(watts) * members + responders;
    i64::try_from(twice.checked_div_euclid(2 * responders)?).ok()
}

/// How far the noise may have moved a sum, in watts.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Noise {
    band95: u64,
    band99: u64,
    mean_error: f64,
}

/// Everything that [`Noise`] depends on: the scale as a fraction, the honest members and the responders.
type NoiseKey = (u64, u64, u16, u16);

/// How many results are remembered: a few megabytes.
const MAX_REMEMBERED: usize = 100_000;

impl Noise {
    /// Computes the noise of a sum, or remembers it: few are different, and each takes a while to compute.
    fn of(outcome: &SlotOutcome) -> Self {
        static REMEMBERED: Mutex<BTreeMap<NoiseKey, Noise>> = Mutex::new(BTreeMap::new());
        let SlotOutcome { noise_scale, honest, responders, .. } = *outcome;
        let key = (noise_scale.numerator(), noise_scale.denominator(), honest, responders);
        let remembered = || REMEMBERED.lock().expect("nobody panics while holding it");
        let found = remembered().get(&key).copied();
        found.unwrap_or_else(|| {
            let noise = Self::compute(outcome);
            let mut all = remembered();
            if all.len() >= MAX_REMEMBERED {
                all.clear();
            }
            all.insert(key, noise);
            noise
        })
    }

    fn compute(outcome: &SlotOutcome) -> Self {
        if outcome.responders == 0 {
            return Self { band95: 0, band99: 0, mean_error: 0.0 };
        }
        let spread = outcome.spread();
        let [band95, band99] = [Confidence::P95, Confidence::P99].map(|confidence| spread.half_width(confidence));
        Self { band95, band99, mean_error: spread.mean_error() }
    }
}

#[cfg(test)]
mod tests {
    use dream_testkit::outcomes::Slotted;

    use super::*;

    #[test]
    fn an_estimate_is_the_sum_scaled_to_all_members_rounded_to_the_nearest_watt() {
        assert_eq!(scale(900, 100, 90), Some(1000));
        assert_eq!(scale(-900, 100, 90), Some(-1000));
        assert_eq!(scale(1, 3, 2), Some(2));
        assert_eq!(scale(0, 3, 2), Some(0));
        assert_eq!(scale(1, 3, 0), None);
        assert_eq!(scale(i64::MAX, 2, 1), None);
    }

    #[test]
    fn what_meters_cut_off_is_in_the_loads_of_all_and_in_their_bands_and_the_sum_is_as_released() {
        let plain = ClosedSlot::from(Slotted::new(7).decoded(90_000, 90));
        let cut_off = Some(CutOff { share: 20_000, lasting: 30_000, daily: 40_000, passing: 0 });
        let slot = ClosedSlot { cut_off, ..plain };
        assert_eq!(slot.sum(), plain.sum());
        let (before, after) = (plain.estimate().unwrap(), slot.estimate().unwrap());
        assert_eq!((before.watts, after.watts), (100_000, 102_000));
        // A twentieth of the load is the deviation of what is cut off.
        let expected = (1.02 * before.band95 as f64).hypot(1.96 * 5000.0);
        assert!((after.band95 as f64 - expected).abs() < 2.0, "{after:?}, not {expected}");
        let filtered = FilteredLoad { watts: 100_000, band95: 1000 };
        assert_eq!(filtered.with(cut_off), FilteredLoad { watts: 102_000, band95: 9853 });
        assert_eq!(filtered.with(None), filtered);
        assert!((slot.cut_off_share().unwrap() - 0.02 / 1.02).abs() < 1e-12);
    }

    #[test]
    fn remembered_noise_is_the_computed_one() {
        for outcome in [
            Slotted::new(7).decoded(1234, 95),
            Slotted::new(8).decoded(99, 95),
            Slotted { noise_scale: 1, ..Slotted::new(8) }.decoded(99, 95),
            Slotted { honest: 70, ..Slotted::new(8) }.decoded(99, 95),
            Slotted::new(9).failed("interrupted", 0),
        ] {
            assert_eq!(Noise::of(&outcome), Noise::compute(&outcome));
            assert_eq!(Noise::of(&outcome), Noise::compute(&outcome));
        }
    }

    #[test]
    fn a_filtered_load_is_rounded_and_its_band_never_down() {
        let of = |watts, band95| FilteredLoad::new(Filtered { watts, band95 });
        assert_eq!(of(-1234.6, 99.1), Some(FilteredLoad { watts: -1235, band95: 100 }));
        assert_eq!(of(0.4, 0.0), Some(FilteredLoad { watts: 0, band95: 0 }));
        assert_eq!([of(f64::NAN, 1.0), of(1.0, f64::INFINITY)], [None, None]);
    }
}
