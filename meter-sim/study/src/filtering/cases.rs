//! The filter where it is hardest, and what it says beside its estimate of now: an hour late, of slots without a sum, on the
//! first day with and without the profiles of other clusters, on the mornings of weekends, and after a change that stays.

use dream_filter::{Filter, Filtered, LocalTime, Profile, Release, Slot};
use dream_homes::slots::SECONDS_PER_DAY;
use dream_homes::street::{all_cores, in_parallel};

use super::{Cluster, WEEK};
use crate::cluster::{Observed, Reported};
use crate::dataset::FIRST_DAY;
use crate::section::{Cell, Table, row};

/// What a load is multiplied with when it changes for good, two weeks after the filter began.
const CHANGES: [f64; 2] = [0.55, 2.0];
const CHANGE_DAY: usize = 2 * WEEK;
/// For how long after that the band is looked at, in hours.
const CHANGE_HOURS: f64 = 3.0;

/// Rows of the table for the clusters of one seed, where this says which days are on a weekend.
pub(super) fn rows(seed: u64, clusters: &[Cluster], weekend: impl Fn(usize) -> bool) -> Vec<Vec<Cell>> {
    let slots: Vec<Vec<Seen<'_>>> = clusters.iter().map(|cluster| seen(cluster, &weekend)).collect();
    let followed = in_parallel(all_cores(), &slots, |slots| follow(slots));
    let profiles: Vec<Option<Profile>> = followed.iter().map(|(_, filter)| filter.profile()).collect();
    let first_days: Vec<Vec<Counted>> = (0..slots.len())
        .map(|own| {
            let others = profiles.iter().enumerate().filter(|(other, _)| *other != own);
            let others: Vec<Profile> = others.filter_map(|(_, profile)| profile.clone()).collect();
            if others.is_empty() { Vec::new() } else { first_day(&slots[own], &others) }
        })
        .collect();
    let all: Vec<Counted> = followed.into_iter().flat_map(|(counted, _)| counted).chain(first_days.concat()).collect();
    Case::ALL.iter().filter_map(|case| row(seed, *case, &all)).collect()
}

pub(super) fn table(rows: Vec<Vec<Cell>>) -> Table {
    Table::new("filtering_cases", "seed case slots error band95_coverage_of_clipped band95_half_width", rows)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Case {
    Learned,
    Late,
    WithoutSum,
    FirstDay,
    FirstDayOfAnother,
    WeekendMorning,
    Changed(f64),
}

impl Case {
    const ALL: [Self; 8] = [
        Self::Learned,
        Self::Late,
        Self::WithoutSum,
        Self::FirstDay,
        Self::FirstDayOfAnother,
        Self::WeekendMorning,
        Self::Changed(CHANGES[0]),
        Self::Changed(CHANGES[1]),
    ];

    fn name(self) -> String {
        match self {
            Self::Learned => "from day 8 on".to_owned(),
            Self::Late => "from day 8 on; an hour late".to_owned(),
            Self::WithoutSum => "from day 8 on; without the slot's sum".to_owned(),
            Self::FirstDay => "day 1".to_owned(),
            Self::FirstDayOfAnother => "day 1; with the profiles of the others".to_owned(),
            Self::WeekendMorning => "weekends from day 8 on; 6 to 12 h".to_owned(),
            Self::Changed(by) => format!("3 hours after a change to {by} of the load"),
        }
    }
}

/// What the filter is given of a slot, and what is right.
#[derive(Debug, Clone, Copy)]
struct Seen<'a> {
    release: Release,
    slot: &'a Observed,
    day: usize,
}

impl Seen<'_> {
    fn hour(&self) -> f64 {
        f64::from(self.release.local.second_of_day) / 3600.0
    }

    fn is_weekend_morning(&self) -> bool {
        self.release.local.weekend && (6.0..12.0).contains(&self.hour())
    }

    /// The same slot, had its load been multiplied: the noise stays.
    fn changed(&self, by: f64) -> (Release, Reported) {
        let Reported { truth, base, lost_to_range, .. } = self.slot.reported;
        let release = Release { watts: self.release.watts + (by - 1.0) * self.slot.reported.told(), ..self.release };
        let [truth, base, lost_to_range] = [truth, base, lost_to_range].map(|watts| by * watts);
        (release, Reported { truth, base, lost_to_range, ..self.slot.reported })
    }
}

/// A slot that counts for a case: the error and the band as shares of the load, and whether the band held it.
#[derive(Debug, Clone, Copy)]
struct Counted {
    case: Case,
    error: f64,
    band: f64,
    held: bool,
}

impl Counted {
    fn new(case: Case, slot: &Reported, Filtered { watts, band95 }: Filtered) -> Self {
        let error = (watts - slot.truth).abs() / slot.base;
        Self { case, error, band: band95 / slot.base, held: (watts - slot.told()).abs() <= band95 }
    }
}

/// The slots of a cluster in the order of time, as if all members had answered in each of them.
fn seen<'a>(cluster: &'a Cluster, weekend: &impl Fn(usize) -> bool) -> Vec<Seen<'a>> {
    let members = cluster.members;
    let first = cluster.days.iter().flat_map(|day| day.windows(2)).map(|pair| pair[1].at - pair[0].at);
    let slot_millis = millis(24.0 * first.fold(1.0, f64::min));
    let of_day = |(day, slots): (usize, &'a Vec<Observed>)| {
        let midnight = (FIRST_DAY + day as u64) * u64::from(SECONDS_PER_DAY) * 1000;
        let weekend = weekend(day);
        let seen = move |slot: &'a Observed| {
            let start_millis = midnight + millis(24.0 * slot.at);
            let end_millis = start_millis + slot_millis;
            let local = LocalTime { weekend, ..LocalTime::utc(start_millis.midpoint(end_millis)) };
            let (watts, variance, responders) = (slot.released, cluster.variance, members);
            let release = Release { start_millis, end_millis, local, watts, variance, responders, members };
            Seen { release, slot, day }
        };
        slots.iter().map(seen)
    };
    cluster.days.iter().enumerate().flat_map(of_day).collect()
}

/// Hours of a day in milliseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a day's")]
fn millis(hours: f64) -> u64 {
    (3.6e6 * hours).round() as u64
}

/// Has a filter follow a cluster, and counts every case but that of a first day with others' profiles.
fn follow(slots: &[Seen<'_>]) -> (Vec<Counted>, Filter) {
    let (mut filter, mut counted) = (Filter::default(), Vec::new());
    let mut of_late = slots.iter();
    for (at, seen) in slots.iter().enumerate() {
        let Release { start_millis, end_millis, local, members, .. } = seen.release;
        let learned = seen.day >= WEEK;
        if learned {
            let foreseen = filter.predict(&Slot { start_millis, end_millis, local, members });
            counted.extend(foreseen.map(|load| Counted::new(Case::WithoutSum, &seen.slot.reported, load)));
        }
        // At midnight, in the morning, at noon and in the evening.
        if seen.day == CHANGE_DAY && (start_millis / 1000).is_multiple_of(u64::from(SECONDS_PER_DAY) / 4) {
            counted.extend(CHANGES.into_iter().flat_map(|by| changed(&filter, &slots[at..], by)));
        }
        let load = filter.observe(&seen.release).expect("somebody responds in every slot, one after the other");
        let cases = [
            (Case::FirstDay, seen.day == 0),
            (Case::Learned, learned),
            (Case::WeekendMorning, learned && seen.is_weekend_morning()),
        ];
        counted.extend(
            cases.iter().filter(|(_, counts)| *counts).map(|(case, _)| Counted::new(*case, &seen.slot.reported, load)),
        );
        for late in filter.smoothed() {
            let of = of_late.find(|of| of.release.end_millis == late.end_millis).expect("each slot once, in order");
            counted.extend((of.day >= WEEK).then(|| Counted::new(Case::Late, &of.slot.reported, late.load)));
        }
    }
    (counted, filter)
}

/// The first hours after the load changed for good.
fn changed(filter: &Filter, slots: &[Seen<'_>], by: f64) -> Vec<Counted> {
    let mut filter = filter.clone();
    let begin = slots[0].release.start_millis;
    let soon = slots.iter().take_while(|seen| (seen.release.start_millis - begin) as f64 / 3.6e6 < CHANGE_HOURS);
    let count = |seen: &Seen<'_>| {
        let (release, slot) = seen.changed(by);
        Some(Counted::new(Case::Changed(by), &slot, filter.observe(&release)?))
    };
    soon.filter_map(count).collect()
}

/// A first day with what others learned.
fn first_day(slots: &[Seen<'_>], others: &[Profile]) -> Vec<Counted> {
    let mut filter = Filter::starting_from(others);
    let first = slots.iter().take_while(|seen| seen.day == 0);
    first
        .filter_map(|seen| {
            Some(Counted::new(Case::FirstDayOfAnother, &seen.slot.reported, filter.observe(&seen.release)?))
        })
        .collect()
}

/// The means of a case; nothing if no slot counts for it.
fn row(seed: u64, case: Case, all: &[Counted]) -> Option<Vec<Cell>> {
    let of: Vec<&Counted> = all.iter().filter(|counted| counted.case == case).collect();
    let mean = |value: fn(&Counted) -> f64| of.iter().map(|counted| value(counted)).sum::<f64>() / of.len() as f64;
    let numbers = [mean(|one| one.error), mean(|one| f64::from(u8::from(one.held))), mean(|one| one.band)];
    (!of.is_empty()).then(|| row![seed, case.name(), of.len(); numbers])
}

#[cfg(test)]
mod tests {
    use super::super::tests::{followed, model};
    use super::*;

    #[test]
    fn late_loads_and_profiles_of_others_gain_and_every_band_is_honest() {
        let (data, clusters) = (model(), followed());
        let rows = rows(1, &clusters, |day| data.weekend(u32::try_from(day).unwrap()));
        assert_eq!(rows.len(), Case::ALL.len());
        let number = |case: Case, column: usize| {
            let row = rows.iter().find(|row| row[1] == Cell::Text(case.name())).unwrap();
            row[column].csv().parse::<f64>().unwrap()
        };
        let [error, covered] = [3, 4].map(|column| move |case| number(case, column));
        assert!(error(Case::Late) < 0.98 * error(Case::Learned), "{rows:?}");
        assert!(error(Case::FirstDayOfAnother) < 0.95 * error(Case::FirstDay), "{rows:?}");
        assert!(error(Case::Learned) < error(Case::WithoutSum), "{rows:?}");
        for case in [Case::Learned, Case::Late, Case::WithoutSum, Case::FirstDay, Case::FirstDayOfAnother] {
            assert!((0.92..0.99).contains(&covered(case)), "{case:?}: {rows:?}");
        }
        assert!(covered(Case::WeekendMorning) > 0.9, "{rows:?}");
        assert!(CHANGES.iter().all(|by| covered(Case::Changed(*by)) > 0.8), "{rows:?}");
        // Two clusters, two weeks without the last hour of the second.
        assert_eq!(number(Case::Learned, 2), number(Case::Late, 2) + 2.0 * 6.0);
    }
}
