//! The energy of the slots of an hour, a day or a month, and how certain it is.
//!
//! The noise of different slots is independent, so that variances add. What the filter says of slots without a sum errs
//! alike in neighbouring slots: within an hour or a day its deviations add, and between days or clusters their squares. So do
//! those of what meters cut off, but for the part that stays: it errs alike on all days of a cluster.

mod row;

use std::ops::Range;

use dream_protocol::time::Timestamp;

use super::noise::{NORMAL95, deviations95};
use super::{ClosedSlot, Extent, FilteredLoad, Step};

/// The slots of a period, added up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rollup {
    pub start: Timestamp,
    pub end: Timestamp,
    /// When its first slot began and its last one ended, within the period.
    pub first: Timestamp,
    pub last: Timestamp,
    /// Time of slots that gave a sum.
    pub measured_millis: u64,
    /// Time of slots that gave none, and whose load is the filter's.
    pub filled_millis: u64,
    /// Of all members, silent ones included: sums scaled by members over responders, and what was filled in.
    watt_seconds: f64,
    /// Of the noise in the sums, scaled alike.
    variance: f64,
    /// The fourth cumulant of that noise, over that of Laplace noise of variance 1: what makes few slots miss by more than
    /// a normal distribution would.
    tails: f64,
    /// The deviation of what was filled in.
    filled_deviation: f64,
    /// What meters are expected to have cut off, which is in the energy, and its deviations: of what stays, and of what changes
    /// from day to day.
    cut_off_watt_seconds: f64,
    cut_off_lasting: f64,
    cut_off_daily: f64,
    filtered_millis: u64,
    filtered_watt_seconds: f64,
    filtered_band95: f64,
    /// How many slots began in it, and how many of them gave a sum.
    pub slots: u64,
    pub decoded: u64,
    /// Over all these slots.
    pub members: u64,
    pub responders: u64,
    /// What they cost a home that took part in all of them.
    pub micro_epsilon: u64,
}

impl Rollup {
    /// Returns a period without slots.
    pub const fn new(period: Range<Timestamp>) -> Self {
        Self {
            start: period.start,
            end: period.end,
            first: period.end,
            last: period.start,
            measured_millis: 0,
            filled_millis: 0,
            watt_seconds: 0.0,
            variance: 0.0,
            tails: 0.0,
            filled_deviation: 0.0,
            cut_off_watt_seconds: 0.0,
            cut_off_lasting: 0.0,
            cut_off_daily: 0.0,
            filtered_millis: 0,
            filtered_watt_seconds: 0.0,
            filtered_band95: 0.0,
            slots: 0,
            decoded: 0,
            members: 0,
            responders: 0,
            micro_epsilon: 0,
        }
    }

    /// Adds as much of a slot as lies in the period, in proportion to its time; of one that gave no sum, what the filter
    /// expected. What is counted and not measured belongs to the period in which the slot began.
    pub fn add(&mut self, closed: &ClosedSlot) {
        let outcome = &closed.outcome;
        let (from, to) = (outcome.start.max(self.start), outcome.end.min(self.end));
        let millis = to.millis_since(from);
        let seconds = millis as f64 / 1000.0;
        self.first = self.first.min(from);
        self.last = self.last.max(to);
        let [share, lasting, daily, passing] = closed.cut_off.unwrap_or_default().shares();
        // Of a load of all members, with what is cut off.
        let mut cut_off = |watts: i64| {
            let told = seconds * watts as f64 / (1.0 + share);
            self.cut_off_watt_seconds += share * told;
            self.cut_off_lasting += lasting * told.abs();
            self.cut_off_daily += daily * told.abs();
            (passing * told).powi(2)
        };
        match (closed.estimate(), closed.predicted) {
            (Some(estimate), _) => {
                self.variance += cut_off(estimate.watts);
                self.measured_millis += millis;
                self.watt_seconds += seconds * estimate.watts as f64;
                let scale = seconds * (1.0 + share) * f64::from(outcome.members) / f64::from(outcome.responders.max(1));
                let variance = outcome.spread().variance() * scale * scale;
                self.variance += variance;
                self.tails += variance * variance * f64::from(outcome.honest) / f64::from(outcome.responders.max(1));
            }
            (None, Some(FilteredLoad { watts, band95 })) => {
                cut_off(watts);
                self.filled_millis += millis;
                self.watt_seconds += seconds * watts as f64;
                self.filled_deviation += seconds * band95 as f64 / NORMAL95;
            }
            (None, None) => {}
        }
        if let Some(FilteredLoad { watts, band95 }) = closed.filtered {
            self.filtered_millis += millis;
            self.filtered_watt_seconds += seconds * watts as f64;
            self.filtered_band95 += seconds * band95 as f64;
        }
        if (self.start..self.end).contains(&outcome.start) {
            self.slots += 1;
            self.decoded += u64::from(closed.is_decoded());
            self.members += u64::from(outcome.members);
            self.responders += u64::from(outcome.responders);
            self.micro_epsilon += u64::from(outcome.attempts_answered()) * outcome.micro_epsilon;
        }
    }

    /// Adds the same time of another cluster; this one's period stays as it is.
    pub fn combine(&mut self, other: &Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.measured_millis += other.measured_millis;
        self.filled_millis += other.filled_millis;
        self.watt_seconds += other.watt_seconds;
        self.variance += other.variance;
        self.tails += other.tails;
        self.filled_deviation = self.filled_deviation.hypot(other.filled_deviation);
        self.cut_off_watt_seconds += other.cut_off_watt_seconds;
        self.cut_off_lasting = self.cut_off_lasting.hypot(other.cut_off_lasting);
        self.cut_off_daily = self.cut_off_daily.hypot(other.cut_off_daily);
        self.filtered_millis += other.filtered_millis;
        self.filtered_watt_seconds += other.filtered_watt_seconds;
        self.filtered_band95 += other.filtered_band95;
        self.slots += other.slots;
        self.decoded += other.decoded;
        self.members += other.members;
        self.responders += other.responders;
        self.micro_epsilon += other.micro_epsilon;
    }

    /// Adds another day of the same cluster, whose members cut off more or less than others as they do on this one.
    pub fn add_day(&mut self, other: &Self) {
        let lasting = self.cut_off_lasting + other.cut_off_lasting;
        self.combine(other);
        self.cut_off_lasting = lasting;
    }

    /// Adds the hour that follows: what is filled in or cut off there errs as it does here.
    pub fn append(&mut self, next: &Self) {
        let filled = self.filled_deviation + next.filled_deviation;
        let daily = self.cut_off_daily + next.cut_off_daily;
        self.add_day(next);
        (self.filled_deviation, self.cut_off_daily) = (filled, daily);
    }

    /// Returns neighbouring hours or days as one.
    pub fn joined(step: Step, rows: &[Self]) -> Option<Self> {
        let (first, others) = rows.split_first()?;
        let mut all = *first;
        for row in others {
            match step {
                Step::Hour => all.append(row),
                Step::Day => all.add_day(row),
            }
        }
        Some(all)
    }

    /// Returns the energy of all members in the time that was measured or filled in.
    pub fn energy_watt_hours(&self) -> f64 {
        self.watt_seconds / 3600.0
    }

    /// Returns the share of that energy that is estimated, because meters cut high readings off.
    pub fn cut_off_share(&self) -> f64 {
        if self.watt_seconds == 0.0 { 0.0 } else { self.cut_off_watt_seconds / self.watt_seconds }
    }

    /// Returns half the width of the band that holds that energy with 95 % confidence: the noise, what is not known of what meters
    /// cut off, and the filter's error where it filled in. Not what silent meters used that others did not.
    pub fn band95_watt_hours(&self) -> f64 {
        self.band95_watt_seconds() / 3600.0
    }

    fn band95_watt_seconds(&self) -> f64 {
        let alike = [self.filled_deviation, self.cut_off_lasting, self.cut_off_daily];
        let variance = self.variance + alike.map(|deviation| deviation * deviation).iter().sum::<f64>();
        if variance == 0.0 {
            return 0.0;
        }
        deviations95(self.tails / (variance * variance)) * variance.sqrt()
    }

    /// Returns the share of the time behind the energy that was filled in.
    pub fn filled_share(&self) -> f64 {
        let known = self.measured_millis + self.filled_millis;
        if known == 0 { 0.0 } else { self.filled_millis as f64 / known as f64 }
    }

    /// Returns how much time of the period in which the cluster had slots is neither measured nor filled in.
    pub fn missing_millis(&self, extent: Extent) -> u64 {
        self.elapsed_millis(extent).saturating_sub(self.measured_millis + self.filled_millis)
    }

    /// Returns the share of that time that is in the energy.
    pub fn covered_share(&self, extent: Extent) -> f64 {
        match self.elapsed_millis(extent) {
            0 => 0.0,
            elapsed => 1.0 - self.missing_millis(extent) as f64 / elapsed as f64,
        }
    }

    fn elapsed_millis(&self, extent: Extent) -> u64 {
        self.end.min(extent.until).millis_since(self.start.max(extent.begun))
    }

    /// Returns the mean load of all members over that time, and half the width of its band, in watts.
    pub fn mean_load(&self) -> Option<(f64, f64)> {
        let seconds = (self.measured_millis + self.filled_millis) as f64 / 1000.0;
        (seconds > 0.0).then(|| (self.watt_seconds / seconds, self.band95_watt_seconds() / seconds))
    }

    /// Returns the mean of the filtered loads and, because neighbouring ones err alike, that of their bands, in watts.
    pub fn mean_filtered(&self) -> Option<(f64, f64)> {
        let seconds = self.filtered_millis as f64 / 1000.0;
        (seconds > 0.0).then(|| (self.filtered_watt_seconds / seconds, self.filtered_band95 / seconds))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use dream_edge::cut_off::CutOff;
    use dream_testkit::outcomes::Slotted;

    use super::*;

    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    const LAMBDA: f64 = 9000.0;

    fn period(start: u64, end: u64) -> Rollup {
        Rollup::new(Timestamp::from_secs(start)..Timestamp::from_secs(end))
    }

    /// Numbers that look random, the same in every run.
    struct Chance(u64);

    impl Chance {
        /// Between 0 and 1.
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + 1e-17
        }

        fn laplace(&mut self) -> f64 {
            LAMBDA * (self.uniform().ln() - self.uniform().ln())
        }

        fn normal(&mut self) -> f64 {
            (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
        }
    }

    /// 80 of 100 members answer, with all of the noise: each sum stands for a quarter more.
    const TRUE_SUM: f64 = 40_000.0;
    const TRUE_LOAD: f64 = 50_000.0;

    #[expect(clippy::cast_possible_truncation, reason = "loads are small")]
    fn noisy(slot: u64, chance: &mut Chance) -> ClosedSlot {
        Slotted::new(slot).decoded((TRUE_SUM + chance.laplace()).round() as i64, 80).into()
    }

    fn silent(slot: u64) -> ClosedSlot {
        Slotted::new(slot).failed("too_many_missing", 60).into()
    }

    /// Returns the share of runs in which the band holds the energy of a load that never changes.
    fn coverage(runs: u64, seconds: u64, mut run: impl FnMut(&mut Chance) -> Rollup) -> f64 {
        let mut chance = Chance(7);
        let truth = TRUE_LOAD * seconds as f64 / 3600.0;
        let held = (0..runs).filter(|_| {
            let rollup = run(&mut chance);
            (rollup.energy_watt_hours() - truth).abs() <= rollup.band95_watt_hours()
        });
        held.count() as f64 / runs as f64
    }

    #[test]
    fn the_band_of_hours_and_days_holds_the_true_energy_nineteen_times_in_twenty() {
        for (seconds, runs) in [(600, 6000), (HOUR, 4000), (DAY, 2000)] {
            let covered = coverage(runs, seconds, |chance| {
                let mut rollup = period(0, seconds);
                (0..seconds / 600).for_each(|slot| rollup.add(&noisy(slot, chance)));
                rollup
            });
            assert!((0.94..0.96).contains(&covered), "{seconds} s: {covered}");
        }
    }

    /// A day of which five hours are filled in, all of them off by the same.
    fn day_with_a_gap(chance: &mut Chance) -> Rollup {
        let deviation = 6000.0;
        let off = deviation * chance.normal();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "loads are small")]
        let predicted =
            FilteredLoad { watts: (TRUE_LOAD + off).round() as i64, band95: (NORMAL95 * deviation).round() as u64 };
        let mut day = period(0, DAY);
        for slot in 0..144 {
            match slot {
                60..90 => day.add(&ClosedSlot { predicted: Some(predicted), ..silent(slot) }),
                _ => day.add(&noisy(slot, chance)),
            }
        }
        day
    }

    #[test]
    fn what_is_filled_in_errs_alike_within_a_day_and_the_band_knows() {
        let covered = coverage(2000, DAY, day_with_a_gap);
        assert!((0.94..0.96).contains(&covered), "{covered}");
        let day = day_with_a_gap(&mut Chance(1));
        assert!((day.filled_share() - 30.0 / 144.0).abs() < 1e-12, "{day:?}");
    }

    #[test]
    fn what_is_filled_in_on_one_day_says_nothing_of_the_next() {
        let covered = coverage(400, 30 * DAY, |chance| {
            let mut month = period(0, 30 * DAY);
            (0..30).for_each(|_| month.add_day(&day_with_a_gap(chance)));
            month
        });
        assert!((0.92..0.975).contains(&covered), "{covered}");
    }

    /// Half of what is reported is cut off: what stays differs by 3 % of it, what changes daily by 4 %.
    #[test]
    fn what_stays_of_what_is_cut_off_errs_alike_on_all_days_and_the_rest_does_not() {
        let cut_off = Some(CutOff { share: 500_000, lasting: 30_000, daily: 40_000, passing: 0 });
        let day = |chance: &mut Chance, share: f64| {
            let mut day = period(0, DAY);
            for slot in 0..144 {
                let told = TRUE_SUM / (1.0 + share) + chance.laplace();
                #[expect(clippy::cast_possible_truncation, reason = "loads are small")]
                let told = Slotted::new(slot).decoded(told.round() as i64, 80);
                day.add(&ClosedSlot { cut_off, ..told.into() });
            }
            day
        };
        for (days, runs) in [(1, 1000), (30, 150)] {
            let covered = coverage(runs, days * DAY, |chance| {
                let (lasting, mut all) = (0.03 * chance.normal(), period(0, days * DAY));
                for _ in 0..days {
                    let share = 0.5 + lasting + 0.04 * chance.normal();
                    all.add_day(&day(chance, share));
                }
                assert!((all.cut_off_share() - 1.0 / 3.0).abs() < 1e-9, "{all:?}");
                all
            });
            assert!((0.91..0.985).contains(&covered), "{days} days: {covered}");
        }
        let one = day(&mut Chance(1), 0.5);
        let (mut month, mut group) = (one, one);
        (1..30).for_each(|_| month.add_day(&one));
        (1..30).for_each(|_| group.combine(&one));
        assert!(month.band95_watt_hours() > 2.0 * group.band95_watt_hours(), "clusters are other homes");
    }

    #[test]
    fn a_day_of_a_hundred_homes_is_known_to_four_in_a_hundred() {
        let mut day = period(0, DAY);
        let slot = |slot| Slotted { noise_scale: 5000, ..Slotted::new(slot) }.decoded(35_000, 100);
        (0..144).for_each(|at| day.add(&slot(at).into()));
        assert!((day.energy_watt_hours() - 24.0 * 35_000.0).abs() < 1e-6, "{day:?}");
        // Of 144 slots: 12 times as much noise as one of ten minutes has, which is that of 100 shares made for 80.
        let exact = 1.96 * 12.0 * 5000.0 * (2.0f64 * 100.0 / 80.0).sqrt() / 6.0;
        assert!((day.band95_watt_hours() / exact - 1.0).abs() < 0.002, "{} {exact}", day.band95_watt_hours());
        assert!((0.0365..0.0372).contains(&(day.band95_watt_hours() / day.energy_watt_hours())), "{exact}");
    }

    #[test]
    fn a_slot_across_an_edge_is_split_by_time_and_counted_where_it_began() {
        let mut chance = Chance(3);
        let slot: ClosedSlot = noisy(5, &mut chance); // from 3000 s to 3600 s
        let (mut whole, mut before, mut after) = (period(0, HOUR), period(0, 3150), period(3150, HOUR));
        [&mut whole, &mut before, &mut after].into_iter().for_each(|part| part.add(&slot));
        assert_eq!((before.measured_millis, after.measured_millis), (150_000, 450_000));
        assert_eq!((before.slots, after.slots, before.decoded, after.responders), (1, 0, 1, 0));
        assert_eq!((before.first.as_secs(), before.last.as_secs()), (3000, 3150));
        assert!((before.energy_watt_hours() * 4.0 / whole.energy_watt_hours() - 1.0).abs() < 1e-12);
        assert!((after.band95_watt_hours() / 0.75 / whole.band95_watt_hours() - 1.0).abs() < 1e-12);
        let sum = before.energy_watt_hours() + after.energy_watt_hours();
        assert!((sum / whole.energy_watt_hours() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn time_that_nothing_is_known_of_is_missing_and_not_zero() {
        let mut hour = period(0, HOUR);
        hour.add(&noisy(0, &mut Chance(1)));
        hour.add(&silent(1));
        let predicted = Some(FilteredLoad { watts: 50_000, band95: 1000 });
        hour.add(&ClosedSlot { predicted, ..silent(2) });
        let missing = |begun, until| {
            let [begun, until] = [begun, until].map(Timestamp::from_secs);
            hour.missing_millis(Extent { begun, until }) / 1000
        };
        assert_eq!((hour.measured_millis, hour.filled_millis, hour.slots, hour.decoded), (600_000, 600_000, 3, 1));
        assert_eq!(missing(0, 3000), 1800, "one that was not filled, and two that never closed");
        assert_eq!([missing(600, 3000), missing(0, DAY)], [1200, 2400]);
        let (load, band) = hour.mean_load().unwrap();
        assert!((load * 1200.0 / 3600.0 - hour.energy_watt_hours()).abs() < 1e-9 && band > 0.0);
        assert_eq!(period(0, HOUR).mean_load(), None);
    }

    #[test]
    fn clusters_beside_one_another_add_energies_variances_and_squares() {
        let mut chance = Chance(5);
        let (one, other) = (day_with_a_gap(&mut chance), day_with_a_gap(&mut chance));
        let mut both = one;
        both.combine(&other);
        assert_eq!(both.energy_watt_hours(), one.energy_watt_hours() + other.energy_watt_hours());
        let expected = one.band95_watt_hours().hypot(other.band95_watt_hours());
        assert!((both.band95_watt_hours() / expected - 1.0).abs() < 0.002, "{both:?}");
        assert_eq!((both.filled_share(), both.slots), (one.filled_share(), 288));
    }
}
