//! Clusters of simulated homes as a gateway follows them, held against what the homes draw.

use dream_edge::HomeKind;
use dream_edge::cut_off::{CutOff, CutOffDay, CutOffTable};
use dream_gateway::clock::Zone;
use dream_gateway::engine::cluster_filter::ClusterFilter;
use dream_gateway::history::{ClosedSlot, Rollup};
use dream_homes::street::{all_cores, in_parallel};
use dream_protocol::ids::ClusterId;
use dream_protocol::params::Params;
use dream_protocol::simulation::unmasked_sum;
use dream_protocol::time::{Slot, Timestamp};
use rand_chacha::ChaCha8Rng;

use super::STREAM;
use crate::accuracy::Shares;
use crate::cluster::{Sums, chance};
use crate::pool::{PER_DAY, Pool};

/// The days since 1970 on Monday, the 1st of November 2021: the calendar of simulated homes.
const FIRST_DAY: u64 = 18_932;
const SLOT_SECONDS: f64 = 600.0;
const SLOTS_OF_AN_HOUR: usize = PER_DAY / 24;
/// From when on it is evening.
const EVENING: usize = 17 * SLOTS_OF_AN_HOUR;
/// The week whose errors are told: the filter learns before.
const THIRD_WEEK: std::ops::Range<usize> = 14..21;
/// Loads change for good by these factors, so many slots apart, on one day.
const CHANGES: [f64; 4] = [0.55, 0.7, 1.4, 2.0];
const CHANGES_EVERY: usize = 36;

/// How many clusters there are, how many of them are filtered, and whether filtered ones are also followed after a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    pub(super) clusters: usize,
    pub(super) filtered: usize,
    pub(super) changes: bool,
}

/// How often a band held the truth.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    hits: f64,
    pub(super) of: f64,
}

impl Held {
    fn note(&mut self, off: f64, band: f64) {
        self.hits += f64::from(u8::from(off.abs() <= band));
        self.of += 1.0;
    }

    pub(super) fn share(self) -> f64 {
        self.hits / self.of
    }
}

/// Errors of filtered loads and of sums, in watts, added up.
#[derive(Debug, Clone, Copy, Default)]
struct Errors {
    filtered: f64,
    sum: f64,
}

impl Errors {
    fn note(&mut self, closed: &ClosedSlot, truth: f64) {
        let (Some(filtered), Some(estimate)) = (closed.filtered, closed.estimate()) else { return };
        self.filtered += (filtered.watts as f64 - truth).abs();
        self.sum += (estimate.watts as f64 - truth).abs();
    }

    fn ratio(self) -> f64 {
        self.filtered / self.sum
    }
}

/// What clusters came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Followed {
    slots: Held,
    slots_evening: Held,
    filtered: Held,
    filtered_evening: Held,
    hours: Held,
    hours_evening: Held,
    days: Held,
    months: Held,
    /// Of filtered clusters, by day.
    errors: Vec<Errors>,
    /// Of the hours after a change, by factor and hour.
    changed: [[Errors; 24]; CHANGES.len()],
    week: Errors,
    load: f64,
    bands_of_days: f64,
    energy_of_days: f64,
    cut_off_share: f64,
    /// The greatest of the errors of filtered loads over those of sums: of days from the second on, and of hours after a change.
    pub(super) worst_day: f64,
    pub(super) worst_hour: Option<f64>,
    /// Over the mean load, in the third week.
    pub(super) error_sum: f64,
    pub(super) error_filtered: f64,
    /// Over the mean energy of a day.
    pub(super) band_of_a_day: f64,
    /// The share of the energy that stands for what is cut off.
    pub(super) cut_off: f64,
    /// What a cluster draws, or feeds in.
    pub(super) mean_watts: f64,
}

impl Followed {
    /// Slots, filtered slots and hours, each with those of the evening, days, and the whole time.
    pub(super) fn held(&self) -> [Held; 8] {
        [
            self.slots,
            self.slots_evening,
            self.filtered,
            self.filtered_evening,
            self.hours,
            self.hours_evening,
            self.days,
            self.months,
        ]
    }

    fn add(&mut self, other: &Self) {
        let mine = [
            &mut self.slots,
            &mut self.slots_evening,
            &mut self.filtered,
            &mut self.filtered_evening,
            &mut self.hours,
            &mut self.hours_evening,
            &mut self.days,
            &mut self.months,
        ];
        for (held, other) in mine.into_iter().zip(other.held()) {
            held.hits += other.hits;
            held.of += other.of;
        }
        let add = |errors: &mut Errors, other: &Errors| {
            errors.filtered += other.filtered;
            errors.sum += other.sum;
        };
        self.errors.resize(self.errors.len().max(other.errors.len()), Errors::default());
        self.errors.iter_mut().zip(&other.errors).for_each(|(errors, other)| add(errors, other));
        let hours = self.changed.as_flattened_mut().iter_mut();
        hours.zip(other.changed.as_flattened()).for_each(|(errors, other)| add(errors, other));
        add(&mut self.week, &other.week);
        self.load += other.load;
        self.bands_of_days += other.bands_of_days;
        self.energy_of_days += other.energy_of_days;
        self.cut_off_share += other.cut_off_share;
    }

    fn concluded(mut self, clusters: usize) -> Self {
        let worst = |errors: &[Errors]| {
            errors.iter().filter(|errors| errors.sum > 0.0).map(|errors| errors.ratio()).reduce(f64::max)
        };
        self.worst_day = worst(self.errors.get(1..).unwrap_or_default()).unwrap_or(f64::NAN);
        self.worst_hour = worst(self.changed.as_flattened());
        (self.error_sum, self.error_filtered) = (self.week.sum / self.load, self.week.filtered / self.load);
        self.band_of_a_day = self.bands_of_days / self.energy_of_days;
        self.cut_off = self.cut_off_share / clusters as f64;
        self.mean_watts = self.energy_of_days / self.days.of / 24.0;
        self
    }
}

/// Follows clusters by lot, with what the shipped table says of their kind.
pub(super) fn follow(pool: &Pool, kind: HomeKind, params: &Params, first: u32, watch: Watch, seed: u64) -> Followed {
    let terms = params.terms();
    let table = CutOffTable::shipped().of(kind, (terms.lo, terms.hi), params.day_rms_watts());
    follow_with(pool, table, params, first, watch, seed)
}

/// The same with another expectation of what is cut off, or none.
pub(super) fn follow_with(
    pool: &Pool,
    table: Option<CutOffDay>,
    params: &Params,
    first: u32,
    watch: Watch,
    seed: u64,
) -> Followed {
    let first = Slot((FIRST_DAY + u64::from(first) - 1) * PER_DAY as u64);
    let told = pool.reported(params, first);
    let numbers: Vec<usize> = (0..watch.clusters).collect();
    let cluster =
        Cluster { pool, told: &told, table, params, first, shares: Sums::of(params).shares(params.members()) };
    let found = in_parallel(all_cores(), &numbers, |number| {
        let stream = STREAM + (u64::from(params.members()) << 10) + *number as u64;
        cluster.follow(&mut chance(seed, stream), *number < watch.filtered, watch.changes)
    });
    let mut all = Followed::default();
    found.iter().for_each(|one| all.add(one));
    all.concluded(watch.clusters)
}

/// Clusters of one size and terms.
#[derive(Debug)]
struct Cluster<'a> {
    pool: &'a Pool,
    told: &'a Pool,
    table: Option<CutOffDay>,
    params: &'a Params,
    first: Slot,
    shares: Shares,
}

impl Cluster<'_> {
    fn follow(&self, chance: &mut ChaCha8Rng, filtered: bool, changes: bool) -> Followed {
        let members = self.pool.draw(self.params.members().into(), chance);
        let (truth, told) = (self.pool.sums(&members), self.told.sums(&members));
        let mut filter = filtered.then(|| {
            let mut filter = ClusterFilter::new(&Zone::default(), &[]);
            filter.expect_cut_off(self.table);
            filter
        });
        let mut found = Followed { errors: vec![Errors::default(); self.pool.days], ..Followed::default() };
        let whole = self.period(0..truth.len());
        let (mut month, mut month_truth) = (Rollup::new(whole), 0.0);
        for day in 0..self.pool.days {
            let slots = day * PER_DAY..(day + 1) * PER_DAY;
            let (mut of_day, mut of_hour) = (Rollup::new(self.period(slots.clone())), None);
            for at in slots.clone() {
                let evening = at % PER_DAY >= EVENING;
                if let Some(filter) = filter.as_ref().filter(|_| changes && day == 14 && at % CHANGES_EVERY == 0) {
                    self.change(filter, at, &told, &truth, &mut found, chance);
                }
                let closed = self.close(at, told[at] as f64, filter.as_mut(), chance);
                let load = truth[at] as f64;
                let Some(estimate) = closed.estimate() else { continue };
                note(
                    &mut found.slots,
                    &mut found.slots_evening,
                    evening,
                    estimate.watts as f64 - load,
                    estimate.band95 as f64,
                );
                if let Some(filtered) = closed.filtered.filter(|_| day >= 1) {
                    let (off, band) = (filtered.watts as f64 - load, filtered.band95 as f64);
                    note(&mut found.filtered, &mut found.filtered_evening, evening, off, band);
                }
                found.errors[day].note(&closed, load);
                if filtered && THIRD_WEEK.contains(&day) {
                    found.week.note(&closed, load);
                    found.load += load.abs();
                }
                of_day.add(&closed);
                let hour_start = at - at % SLOTS_OF_AN_HOUR;
                let hour =
                    of_hour.get_or_insert_with(|| Rollup::new(self.period(hour_start..hour_start + SLOTS_OF_AN_HOUR)));
                hour.add(&closed);
                if at % SLOTS_OF_AN_HOUR == SLOTS_OF_AN_HOUR - 1 {
                    let off = hour.energy_watt_hours() - energy(&truth[hour_start..=at]);
                    note(&mut found.hours, &mut found.hours_evening, evening, off, hour.band95_watt_hours());
                    of_hour = None;
                }
            }
            let energy = energy(&truth[slots]);
            found.days.note(of_day.energy_watt_hours() - energy, of_day.band95_watt_hours());
            found.bands_of_days += of_day.band95_watt_hours();
            found.energy_of_days += energy.abs();
            month.add_day(&of_day);
            month_truth += energy;
        }
        found.months.note(month.energy_watt_hours() - month_truth, month.band95_watt_hours());
        found.cut_off_share = month.cut_off_share();
        found
    }

    fn period(&self, slots: std::ops::Range<usize>) -> std::ops::Range<Timestamp> {
        let at = |slot: usize| self.params.slot_start(Slot(self.first.0 + slot as u64));
        at(slots.start)..at(slots.end)
    }

    /// Closes a slot with noise, and with a filter if there is one.
    fn close(&self, at: usize, told: f64, filter: Option<&mut ClusterFilter>, chance: &mut ChaCha8Rng) -> ClosedSlot {
        #[expect(clippy::cast_possible_truncation, reason = "a cluster's watts")]
        let sum = (told + self.shares.draw(chance)).round() as i64;
        let outcome = unmasked_sum(self.params, Slot(self.first.0 + at as u64), sum, self.params.members());
        match filter {
            Some(filter) => filter.close(&ClusterId::new("study").expect("a name"), outcome, &mut Vec::new()),
            None => ClosedSlot { cut_off: self.cut_off(outcome.start, outcome.end), ..outcome.into() },
        }
    }

    fn cut_off(&self, start: Timestamp, end: Timestamp) -> Option<CutOff> {
        let middle = Timestamp::from_millis(start.as_millis().midpoint(end.as_millis()));
        Some(self.table?.at(Zone::default().moment(middle), self.params.members()))
    }

    /// Lets loads change by a factor for a day, and notes the errors hour by hour.
    fn change(
        &self,
        filter: &ClusterFilter,
        from: usize,
        told: &[i64],
        truth: &[i64],
        found: &mut Followed,
        chance: &mut ChaCha8Rng,
    ) {
        for (factor, hours) in CHANGES.into_iter().zip(&mut found.changed) {
            let mut filter = filter.clone();
            for at in from..(from + PER_DAY).min(truth.len()) {
                let closed = self.close(at, factor * told[at] as f64, Some(&mut filter), chance);
                hours[(at - from) / SLOTS_OF_AN_HOUR].note(&closed, factor * truth[at] as f64);
            }
        }
    }
}

fn note(all: &mut Held, evenings: &mut Held, evening: bool, off: f64, band: f64) {
    all.note(off, band);
    if evening {
        evenings.note(off, band);
    }
}

/// The watt-hours of slots.
fn energy(watts: &[i64]) -> f64 {
    watts.iter().sum::<i64>() as f64 * SLOT_SECONDS / 3600.0
}
