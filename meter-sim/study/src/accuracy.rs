//! How far a released sum is from the load of a cluster, on average: noise, and what clipping takes away.

use std::fmt;
use std::str::FromStr;

use dream_edge::HomeKind;
use dream_protocol::noise::{Sampler, Scale, Spread};
use rand_chacha::ChaCha8Rng;

use super::dataset::{Dataset, FeedIn, Loads};
use super::settings::{Epsilon, Settings, parts_of_one};

/// The share of members that need not add noise, in percent: alpha in the paper, of silent and malicious ones together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alpha(u32);

impl Alpha {
    pub(super) const NONE: Self = Self(0);
    /// Of the product: a tenth may be silent, a tenth malicious.
    pub(super) const PRODUCT: Self = Self(20);
    /// The paper's four, and the product's.
    pub(super) const ALL: [Self; 5] = [Self::NONE, Self(10), Self::PRODUCT, Self(30), Self(50)];
    pub(super) const PAPERS: [Self; 4] = [Self::NONE, Self(10), Self(30), Self(50)];

    /// All of them and this one, in order.
    pub(super) fn all_and(asked: Self) -> Vec<Self> {
        let mut all = Self::ALL.to_vec();
        all.extend((!all.contains(&asked)).then_some(asked));
        all.sort_by_key(|alpha| alpha.0);
        all
    }

    pub(super) fn share(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    pub(super) fn percent(self) -> u32 {
        self.0
    }

    /// Of how many of a hundred members the shares make up the full noise.
    pub(super) fn honest_of_hundred(self) -> u32 {
        100 - self.0
    }

    /// The sum of everybody's shares is the difference of two gamma variables of this shape.
    pub(super) fn shape(self) -> f64 {
        100.0 / f64::from(self.honest_of_hundred())
    }
}

impl FromStr for Alpha {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let percent = parts_of_one(text, 100).filter(|percent| *percent <= 90);
        percent.map(Self).ok_or("use a share from 0 to 0.9, with at most two decimals")
    }
}

/// The range that readings are clipped to, which is what one home can change and hence the scale of the noise at
/// epsilon 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// So many watts below 0.
    below: u32,
    above: u32,
}

impl Range {
    /// As if nothing were clipped.
    pub(super) const EVERYTHING: Self = Self { below: u32::MAX, above: u32::MAX };

    /// From 0 to so many watts; where homes feed in, as far below 0 too.
    pub(super) fn up_to(watts: u32, feed_in: Option<FeedIn>) -> Self {
        Self { below: if feed_in.is_some() { watts } else { 0 }, above: watts }
    }

    /// The product's for a kind of home.
    pub(super) fn of(kind: HomeKind) -> Self {
        let (low, high) = kind.range();
        let watts = |end: i64| u32::try_from(end.unsigned_abs()).expect("some kilowatts");
        Self { below: watts(low), above: watts(high) }
    }

    /// What one home can change, in watts.
    pub(super) fn watts(self) -> u64 {
        u64::from(self.below) + u64::from(self.above)
    }

    /// Its ends, in watts.
    pub(super) fn ends(self) -> (i64, i64) {
        (-i64::from(self.below), self.above.into())
    }

    pub(super) fn width(self) -> f64 {
        self.watts() as f64
    }

    /// Its upper end, in watts.
    pub(super) fn above(self) -> u32 {
        self.above
    }

    pub(super) fn clip(self, reading: f64) -> f64 {
        reading.clamp(-f64::from(self.below), self.above.into())
    }

    /// What clipping takes away from a reading.
    pub(super) fn excess(self, reading: f64) -> f64 {
        reading - self.clip(reading)
    }
}

impl FromStr for Range {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const MOST: i64 = 1_000_000;
        let (low, high) = text.split_once("..").unwrap_or_default();
        let ends = low.parse::<i64>().ok().zip(high.parse::<i64>().ok());
        let fits = |(low, high): &(i64, i64)| (-MOST..=0).contains(low) && (0..=MOST).contains(high) && low < high;
        let watts = |end: i64| u32::try_from(end.unsigned_abs()).ok();
        let range = ends.filter(fits).and_then(|(low, high)| Some(Self { below: watts(low)?, above: watts(high)? }));
        range.ok_or("use watts from one at or below 0 to one above it, such as 0..5000 or -8000..8000")
    }
}

/// With its unit.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} W", -i64::from(self.below), self.above)
    }
}

/// Returns a note about readings below 0, for which the range has to reach below 0 as well; none if there are none.
pub(super) fn feed_in_note(data: &Dataset, settings: &Settings) -> Option<String> {
    let FeedIn { readings, lowest } = data.feed_in()?;
    if readings == 0 {
        return None;
    }
    let correct = if data.is_model() { "" } else { " If no home feeds in, correct the file." };
    let (are, range) = (if readings == 1 { "reading is" } else { "readings are" }, settings.range(data));
    let noise = match range.ends() {
        (0, _) => "all that is fed in is cut off",
        _ => "its noise is that of all it spans",
    };
    Some(format!("{readings} {are} below 0, the lowest is {lowest} W: the range is {range}, and {noise}.{correct}"))
}

/// A cluster in one slot, in watts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ClusterSlot {
    pub(super) load: f64,
    /// What errors are shares of.
    size: f64,
    /// Of the home that uses (or feeds in) the most.
    highest: f64,
    /// What clipping takes away from the sum.
    pub(super) excess: f64,
    /// How many members have a reading; the others are silent, and not in the sum.
    pub(super) responders: usize,
}

impl ClusterSlot {
    /// The cluster of these homes in all slots.
    pub(super) fn of(loads: &Loads, members: &[usize], range: Range) -> Vec<Self> {
        let (mut slots, mut feeds_in) = (vec![Self::default(); loads.slots()], false);
        for &home in members {
            for (slot, &watts) in slots.iter_mut().zip(&loads.watts[home]) {
                feeds_in |= watts < 0.0;
                slot.load += watts;
                slot.highest = slot.highest.max(watts.abs());
                slot.excess += range.excess(watts);
                slot.responders += 1;
            }
            loads.silent_slots(home).iter().for_each(|slot| slots[*slot].responders -= 1);
        }
        let mean = slots.iter().map(|slot| slot.load.abs()).sum::<f64>() / slots.len() as f64;
        slots.iter_mut().for_each(|slot| slot.size = if feeds_in { mean } else { slot.load.abs() });
        slots
    }

    /// The error in watts with the paper's noise, which follows the highest reading of the slot.
    pub(super) fn papers_watts(&self, noise: &Noise) -> f64 {
        noise.mean_distance(self.highest, 0.0)
    }

    /// The error in watts of the product, whose noise follows the range, and whose readings are clipped to it.
    pub(super) fn watts(&self, noise: &Noise, range: Range) -> f64 {
        noise.mean_distance(range.width(), self.excess)
    }

    /// The same as a share of the load.
    pub(super) fn error(&self, noise: &Noise, range: Range) -> f64 {
        self.watts(noise, range) / self.base()
    }

    /// What errors are divided by: as in the paper the load of the slot and a watt. Where a member feeds in, sums go through 0,
    /// and a share of that means nothing: there it is the mean of what is drawn or fed in over all slots.
    pub(super) fn base(&self) -> f64 {
        self.size + 1.0
    }
}

/// The noise of a sum to which all members added their shares, for any number of watts to hide.
#[derive(Debug)]
pub(super) struct Noise {
    epsilon: f64,
    /// E|Z - b| for b = 0, `STEP`, 2 `STEP`, ..., all in scales.
    mean_distances: Vec<f64>,
}

/// A scale in the units of the lattice that noise lies on: so many that it is as good as continuous.
const SCALE: u64 = 1_000_000;
/// Between the values of a [`Noise`], in the same units.
const STEP: u64 = SCALE / 50;
/// So far away, noise is never on the other side.
const REACH: u64 = 40 * SCALE;

impl Noise {
    /// Sums up what the product itself says of its noise: by one more unit, E|Z - b| grows by P(|Z| <= b).
    pub(super) fn new(alpha: Alpha, epsilon: Epsilon) -> Self {
        let spread = Spread::new(Scale::new(SCALE, 1), alpha.honest_of_hundred(), 100);
        let covered: Vec<f64> = (0..=REACH / STEP).map(|step| spread.coverage(step * STEP)).collect();
        let mut distance = spread.mean_error() / SCALE as f64;
        let step = STEP as f64 / SCALE as f64;
        let mut mean_distances = vec![distance];
        for ends in covered.windows(2) {
            distance += f64::midpoint(ends[0], ends[1]) * step;
            mean_distances.push(distance);
        }
        Self { epsilon: epsilon.as_f64(), mean_distances }
    }

    /// The mean distance of the noise that hides so many watts from a value: its mean absolute error, if the value is 0.
    pub(super) fn mean_distance(&self, hidden: f64, value: f64) -> f64 {
        let scale = hidden / self.epsilon;
        let steps = value.abs() / scale * (SCALE / STEP) as f64;
        let Some(at) = whole(steps).filter(|at| at + 1 < self.mean_distances.len()) else { return value.abs() };
        let (here, next) = (self.mean_distances[at], self.mean_distances[at + 1]);
        scale * (here + (next - here) * steps.fract())
    }
}

/// The noise of a sum as meters draw it.
///
/// Of so many responders' shares for so many honest meters, a whole part has the same distribution as all of them, if the
/// shares are made for the same part of the honest ones: five shares for four are as good as a hundred for eighty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    sampler: Sampler,
    draws: u32,
    variance: f64,
}

impl Shares {
    pub(super) fn new(scale: Scale, honest: u32, responders: u32) -> Self {
        let lowest = Scale::new(honest.into(), responders.into());
        let part = |number: u64| u32::try_from(number).expect("a part of what is smaller");
        let (honest_part, draws) = (part(lowest.numerator()), part(lowest.denominator()));
        let variance = Spread::new(scale, honest, responders).variance();
        Self { sampler: Sampler::new(honest_part, scale), draws, variance }
    }

    pub(super) fn draw(&self, chance: &mut ChaCha8Rng) -> f64 {
        (0..self.draws).map(|_| self.sampler.sample(chance)).sum::<i64>() as f64
    }

    pub(super) fn variance(&self) -> f64 {
        self.variance
    }
}

/// Rounds down a number that is not below 0; nothing for one that no table is as long as.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to a billion")]
fn whole(number: f64) -> Option<usize> {
    (0.0..1e9).contains(&number).then_some(number as usize)
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng as _;

    use super::*;
    use dream_homes::slots::SlotLength;

    fn loads(watts: &[&[f64]]) -> Loads {
        Loads::new(SlotLength::new(43_200).unwrap(), watts.iter().map(|home| home.to_vec()).collect())
    }

    fn assert_close(found: f64, expected: f64, relative: f64) {
        assert!((found / expected - 1.0).abs() <= relative, "{found}, not {expected}");
    }

    #[test]
    fn laplace_noise_is_as_far_from_a_value_as_the_closed_form_says() {
        let noise = Noise::new(Alpha::NONE, Epsilon::default());
        for bias in [0.0, 0.003, 0.31, 1.0, 2.77, 9.99, 39.99, 40.01, 1e12f64] {
            assert_close(noise.mean_distance(9000.0, -9000.0 * bias), 9000.0 * (bias + (-bias).exp()), 1e-4);
        }
        assert_eq!((noise.mean_distance(0.0, 0.0), noise.mean_distance(0.0, 5.0)), (0.0, 5.0));
    }

    #[test]
    fn other_noise_is_as_far_from_a_value_as_real_shares_are() {
        let (scale, bias, trials) = (500, 700, 40_000);
        let mut chance = ChaCha8Rng::seed_from_u64(1);
        for alpha in [Alpha::PRODUCT, Alpha(50)] {
            let sampler = Sampler::new(alpha.honest_of_hundred() / 10, Scale::new(scale, 1));
            let sum = |_| (0..10).map(|_| sampler.sample(&mut chance)).sum::<i64>();
            let found = (0..trials).map(sum).map(|sum| (sum - bias).unsigned_abs()).sum::<u64>() as f64;
            let expected = Noise::new(alpha, Epsilon::default()).mean_distance(scale as f64, bias as f64);
            let shares = Shares::new(Scale::new(scale, 1), alpha.honest_of_hundred(), 100);
            let few = (0..trials).map(|_| (shares.draw(&mut chance) - bias as f64).abs()).sum::<f64>();
            assert_close(few / f64::from(trials), expected, 0.012);
            assert_close(found / f64::from(trials), expected, 0.012); // three standard errors of the less even one
        }
    }

    #[test]
    fn the_papers_noise_follows_the_highest_reading_and_ours_the_range() {
        let loads = loads(&[&[100.0, 9500.0], &[300.0, 499.0]]);
        let range = Range::up_to(9000, None);
        let slots = ClusterSlot::of(&loads, &[0, 1], range);
        let noise = Noise::new(Alpha::NONE, Epsilon::default());
        assert_close(slots[0].papers_watts(&noise), 300.0, 1e-6);
        assert_close(slots[0].error(&noise, range), 9000.0 / 401.0, 1e-6);
        assert_eq!((slots[0].excess, slots[1].excess), (0.0, 500.0));
        let clipped = 500.0 + 9000.0 * (-500.0f64 / 9000.0).exp();
        assert_close(slots[1].error(&noise, range), clipped / 10_000.0, 1e-4);
        let half = Noise::new(Alpha(50), Epsilon::default());
        assert_close(slots[0].papers_watts(&half), 1.5 * 300.0, 1e-6);
        let weak = Noise::new(Alpha::NONE, "0.25".parse().unwrap());
        assert_close(slots[0].error(&weak, range), 4.0 * 9000.0 / 401.0, 1e-6);
    }

    #[test]
    fn homes_that_feed_in_double_the_range() {
        let loads = loads(&[&[-700.0, 200.0]]);
        let range = Range::up_to(500, Some(FeedIn { readings: 1, lowest: -700 }));
        assert_eq!((range.width(), range.to_string().as_str()), (1000.0, "-500 to 500 W"));
        assert_eq!("-500..500".parse(), Ok(range));
        let slots = ClusterSlot::of(&loads, &[0], range);
        assert_eq!((slots[0].load, slots[0].highest, slots[0].excess), (-700.0, 700.0, -200.0));
        assert_eq!([slots[0].base(), slots[1].base()], [451.0; 2], "of what is fed in and drawn");
    }

    #[test]
    fn a_single_reading_below_0_is_named() {
        let note = |text| feed_in_note(&Dataset::of_text(text, 43_200), &Settings::default());
        assert_eq!(note("5,7\n0,9\n"), None);
        let text = note("5,7\n-1,9\n").unwrap();
        assert!(text.starts_with("1 reading is below 0, the lowest is -1 W: the range is -8000 to 8000 W,"), "{text}");
        let text = note("5,-7\n-1,9\n").unwrap();
        assert!(text.starts_with("2 readings are below 0, the lowest is -7 W"), "{text}");
    }

    #[test]
    fn ranges_and_alphas_are_read_or_refused() {
        assert_eq!("0..8000".parse(), Ok(Range::of(HomeKind::House)));
        assert_eq!("-8000..8000".parse(), Ok(Range::of(HomeKind::Pv)));
        for wrong in ["5000", "0-5000", "100..5000", "5..-5", "0..0", "-9..-1", "0..2000000", "a..b", ".."] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
        assert_eq!(["0", "0.2", "0.35"].map(str::parse), [Ok(Alpha::NONE), Ok(Alpha::PRODUCT), Ok(Alpha(35))]);
        assert!(["-0.1", "1", "0.205", "x"].iter().all(|wrong| wrong.parse::<Alpha>().is_err()));
        assert_eq!(Alpha::all_and(Alpha(35)).iter().map(|alpha| alpha.0).collect::<Vec<_>>(), [0, 10, 20, 30, 35, 50]);
        assert_eq!(Alpha::all_and(Alpha(30)), Alpha::ALL);
    }

    #[test]
    fn who_is_silent_is_not_in_the_sum() {
        let mut loads = loads(&[&[100.0, 0.0], &[300.0, 200.0]]);
        loads.silent = vec![vec![1], vec![]];
        let slots = ClusterSlot::of(&loads, &[0, 1], Range::of(HomeKind::House));
        assert_eq!(slots.iter().map(|slot| (slot.load, slot.responders)).collect::<Vec<_>>(), [(400.0, 2), (200.0, 1)]);
    }
}
