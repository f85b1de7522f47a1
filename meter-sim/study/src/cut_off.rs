//! What range and account cut off of simulated homes, by kind and terms: the table that gateways take their expectations from.
//!
//! It is measured with a seed of its own, on days spread over a year. Of every set of terms it has the share of what is reported
//! for each hour of the day, how that follows the season and the weekend, and how far homes differ: in what stays day after day, in
//! what changes daily, and from slot to slot.

use std::f64::consts::TAU;

use dream_edge::HomeKind;
use dream_edge::cut_off::HEAD;
use dream_homes::home::{Calendar, Day, DayKind};
use dream_homes::street::{all_cores, in_parallel};

use super::pool::{PER_DAY, Pool, homes_of};
use super::section::{Cell, Section, Table, row};

/// Of the table; the study's own seeds are others.
const SEED: u64 = 101;
const HOMES: usize = 10_000;
/// A day of every month, of all days of the week.
const DAYS: u32 = 12;
const HOURS: usize = 24;
const SLOTS_OF_AN_HOUR: usize = PER_DAY / HOURS;

/// The ranges and the root mean squares of a day that a kind has rows for; 0 is no account.
const fn terms(kind: HomeKind) -> ([i64; 3], [u32; 6]) {
    match kind {
        HomeKind::Flat => ([3500, 5000, 8000], [800, 1000, 1200, 1500, 2000, 0]),
        HomeKind::House => ([5000, 8000, 12_000], [1200, 1450, 1750, 2200, 3000, 0]),
        HomeKind::ElectricHeat => ([10_000, 15_000, 20_000], [5000, 6000, 7200, 9000, 12_000, 0]),
        HomeKind::Pv => ([5000, 8000, 12_000], [1800, 2200, 2650, 3300, 4500, 0]),
    }
}

/// Measures the table.
pub(crate) fn section() -> Section {
    let mut rows = Vec::new();
    for kind in HomeKind::ALL {
        let days: Vec<Day> = (0..DAYS).map(|number| Calendar::Year.day(5 + 30 * number)).collect();
        let pool = Pool::simulate_days(&homes_of(kind, SEED, HOMES), &days);
        let (ranges, squares) = terms(kind);
        let all: Vec<(i64, u32)> = ranges.iter().flat_map(|hi| squares.map(|rms| (*hi, rms))).collect();
        rows.extend(in_parallel(all_cores(), &all, |&(hi, rms)| {
            let lo = if kind == HomeKind::Pv { -hi } else { 0 };
            let found = Found::measure(&pool, &days, (lo, hi), rms);
            found.row(kind, (lo, hi), rms)
        }));
    }
    let hours = ["w", "s"].into_iter().flat_map(|of| (0..HOURS).map(move |hour| format!("{of}{hour}")));
    let columns: Vec<String> = HEAD.into_iter().map(str::to_owned).chain(hours).collect();
    Section::new([Table::new("cut_off", columns.join(" ").leak(), rows)], [])
        .finding(format!("what meters cut off of {HOMES} homes of each kind, on {DAYS} days, with seed {SEED}"))
}

/// What homes cut off under some terms.
#[derive(Debug)]
struct Found {
    homes: usize,
    share: f64,
    weekend: f64,
    lasting: f64,
    daily: f64,
    passing: f64,
    /// Shares on the first of January, and on the first of July.
    winter: [f64; HOURS],
    summer: [f64; HOURS],
}

/// What was reported and what was lost, in watts of slots.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    reported: f64,
    /// Signs left out.
    size: f64,
    lost: f64,
}

impl Told {
    fn add(&mut self, watts: f64, reported: f64) {
        self.reported += reported;
        self.size += reported.abs();
        self.lost += watts - reported;
    }

    fn join(&mut self, other: Self) {
        self.reported += other.reported;
        self.size += other.size;
        self.lost += other.lost;
    }

    /// The share that is lost. Where homes draw about as much as they feed in, a share of the difference says nothing.
    fn share(self) -> f64 {
        if self.reported.abs() < 0.5 * self.size || self.size == 0.0 { 0.0 } else { self.lost / self.reported }
    }
}

impl Found {
    fn measure(pool: &Pool, days: &[Day], range: (i64, i64), rms: u32) -> Self {
        let mut told = vec![[Told::default(); HOURS]; days.len()];
        let each = |home: usize, mut with: Box<dyn FnMut(usize, usize, f64, f64) + '_>| {
            for (day, watts) in pool.home(home).chunks_exact(PER_DAY).enumerate() {
                for (slot, (watts, reported)) in watts.iter().zip(report(watts, range, rms)).enumerate() {
                    with(day, slot, f64::from(*watts), reported);
                }
            }
        };
        for home in 0..pool.homes {
            each(home, Box::new(|day, slot, watts, reported| told[day][slot / SLOTS_OF_AN_HOUR].add(watts, reported)));
        }
        let sum = |some: &mut dyn Iterator<Item = Told>| {
            some.fold(Told::default(), |mut sum, one| {
                sum.join(one);
                sum
            })
        };
        let all = sum(&mut told.as_flattened().iter().copied());
        let Seasons { winter, summer, weekend } = Seasons::fit(days, &told);
        let share_at = |day: usize, slot: usize| {
            let (hour, season) = (slot / SLOTS_OF_AN_HOUR, (1.0 + season(days[day])) / 2.0);
            of_week(days[day], weekend) * (season * winter[hour] + (1.0 - season) * summer[hour])
        };
        let share = {
            let sizes = told.iter().enumerate().flat_map(|(day, hours)| {
                hours.iter().enumerate().map(move |(hour, told)| (day, hour * SLOTS_OF_AN_HOUR, told.size))
            });
            sizes.map(|(day, slot, size)| size * share_at(day, slot).abs()).sum::<f64>() / all.size
        };
        // How far each home's days and slots are from that.
        let (mut of_homes, mut within, mut of_slots) = (Vec::with_capacity(pool.homes), 0.0, 0.0);
        for home in 0..pool.homes {
            let mut of_day = vec![0.0; days.len()];
            each(
                home,
                Box::new(|day, slot, watts, reported| {
                    let off = watts - reported - share_at(day, slot) * reported;
                    of_day[day] += off;
                    of_slots += off * off;
                }),
            );
            let mean = of_day.iter().sum::<f64>() / days.len() as f64;
            within += of_day.iter().map(|off| (off - mean).powi(2)).sum::<f64>();
            of_homes.push(mean);
        }
        let (homes, count) = (pool.homes as f64, days.len() as f64);
        let within = within / (homes * (count - 1.0));
        let mean = of_homes.iter().sum::<f64>() / homes;
        let between = of_homes.iter().map(|off| (off - mean).powi(2)).sum::<f64>() / (homes - 1.0) - within / count;
        // Deviations of a home's day, and of a slot beside its day's, over what is usually lost in it.
        let (day, slot) = (share * all.size / (homes * count), share * all.size / (homes * count * PER_DAY as f64));
        let slots =
            of_slots / (homes * count * PER_DAY as f64) - (within + between.max(0.0)) / (PER_DAY as f64).powi(2);
        let over = |variance: f64, usual: f64| if share > 1e-7 { variance.max(0.0).sqrt() / usual } else { 0.0 };
        Self {
            homes: pool.homes,
            share,
            weekend,
            lasting: over(between, day),
            daily: over(within, day),
            passing: over(slots, slot),
            winter,
            summer,
        }
    }

    fn row(&self, kind: HomeKind, (lo, hi): (i64, i64), rms: u32) -> Vec<Cell> {
        let text = |number: f64, places: usize| format!("{number:.places$}");
        let head = row![kind.as_str(), lo.to_string(), hi.to_string(), rms, self.homes];
        let numbers = [text(self.share, 5), text(self.weekend, 3)];
        let deviations = [self.lasting, self.daily, self.passing].map(|one| text(one, 2));
        let hours = [self.winter, self.summer].concat().into_iter().map(|share| text(share, 5));
        row![; head; numbers; deviations; hours]
    }
}

/// How shares follow the season, hour by hour, and the week.
#[derive(Debug, PartialEq)]
struct Seasons {
    winter: [f64; HOURS],
    summer: [f64; HOURS],
    weekend: f64,
}

impl Seasons {
    /// Fits what hours lost of what they reported: a mean and a cosine over the year, times what the day of the week makes of it.
    fn fit(days: &[Day], told: &[[Told; HOURS]]) -> Self {
        let mut found = Self { winter: [0.0; HOURS], summer: [0.0; HOURS], weekend: 1.0 };
        // Each in turn explains what the other leaves; they are nearly independent.
        for _ in 0..10 {
            for hour in 0..HOURS {
                // The normal equations of both shares, each day by how much it reported.
                let (mut of, mut lost, mut all) = ([[0.0; 2]; 2], [0.0; 2], Told::default());
                for (day, told) in days.iter().zip(told) {
                    let (told, week) = (told[hour], of_week(*day, found.weekend));
                    let weights = [(1.0 + season(*day)) / 2.0, (1.0 - season(*day)) / 2.0];
                    for row in 0..2 {
                        (0..2).for_each(|column| {
                            of[row][column] += weights[row] * weights[column] * week * week * told.reported
                        });
                        lost[row] += weights[row] * week * told.lost;
                    }
                    all.join(told);
                }
                let determinant = of[0][0] * of[1][1] - of[0][1] * of[1][0];
                if all.share() == 0.0 || determinant == 0.0 {
                    continue;
                }
                let share =
                    |one: usize, other: usize| (lost[one] * of[other][other] - lost[other] * of[0][1]) / determinant;
                // What is lost has the sign of what is reported.
                (found.winter[hour], found.summer[hour]) = (share(0, 1).max(0.0), share(1, 0).max(0.0));
            }
            let over_expected = |ends: bool| {
                let mut sum = (0.0, 0.0);
                for (day, told) in days.iter().zip(told).filter(|(day, _)| is_weekend(**day) == ends) {
                    let winter = (1.0 + season(*day)) / 2.0;
                    for (hour, told) in told.iter().enumerate() {
                        sum.0 += told.lost.abs();
                        sum.1 +=
                            told.reported.abs() * (winter * found.winter[hour] + (1.0 - winter) * found.summer[hour]);
                    }
                }
                sum.0 / sum.1
            };
            let ratio = over_expected(true) / over_expected(false);
            found.weekend = if ratio.is_finite() { ratio.clamp(0.1, 10.0) } else { 1.0 };
        }
        found
    }
}

fn is_weekend(day: Day) -> bool {
    day.kind() == DayKind::Weekend
}

/// The cosine of a day of the year, 1 on the first of January.
fn season(day: Day) -> f64 {
    // The first day is the 1st of November, the 305th of its year.
    (TAU * (f64::from(day.number()) + 303.0) / 365.0).cos()
}

/// How many times as large a share is on a day as over its week.
fn of_week(day: Day, weekend: f64) -> f64 {
    7.0 / (5.0 + 2.0 * weekend) * if is_weekend(day) { weekend } else { 1.0 }
}

/// What a meter reports of a day, as [`dream_protocol::simulation::DayAccount`] has it but for fractions of a watt: this has to be done a
/// billion times.
fn report(day: &[i32], (lo, hi): (i64, i64), rms: u32) -> impl Iterator<Item = f64> {
    let mut left = if rms == 0 { f64::INFINITY } else { f64::from(rms).powi(2) * PER_DAY as f64 };
    day.iter().enumerate().map(move |(slot, watts)| {
        let rest = (PER_DAY - slot) as f64;
        let most = left.min(4.0 * left / rest).sqrt().floor();
        let reported = f64::from(*watts).clamp(lo as f64, hi as f64).clamp(-most, most);
        left -= reported * reported;
        reported
    })
}

#[cfg(test)]
mod tests {
    use dream_protocol::params::{Params, Terms};
    use dream_protocol::simulation::DayAccount;
    use dream_protocol::time::Slot;

    use super::*;

    #[test]
    fn what_is_reported_here_is_what_meters_report() {
        for kind in [HomeKind::House, HomeKind::Pv] {
            let pool = Pool::simulate(&homes_of(kind, 1, 20), 1, 2);
            let params = Params::new(100, kind.usual_terms(Terms { max_malicious: 10, ..Terms::DEFAULT })).unwrap();
            let mut cut = 0.0;
            for home in 0..pool.homes {
                for (number, day) in (100..).zip(pool.home(home).chunks_exact(PER_DAY)) {
                    let mut account = DayAccount::default();
                    let rms = u32::try_from(kind.rms_watts()).unwrap();
                    for ((slot, watts), reported) in (144 * number..).zip(day).zip(report(day, kind.range(), rms)) {
                        let exact = account.report(&params, Slot(slot), (*watts).into()) as f64;
                        assert!((reported - exact).abs() <= 2.0, "{kind}, {slot}: {reported}, not {exact}");
                        cut += f64::from(*watts) - exact;
                    }
                }
            }
            assert!(kind == HomeKind::Pv || cut > 0.0, "something is cut off");
        }
    }

    #[test]
    fn seasons_and_weekends_are_found_again() {
        let days: Vec<Day> = (0..DAYS).map(|number| Calendar::Year.day(5 + 30 * number)).collect();
        let told = |day: &Day| {
            let winter = (1.0 + season(*day)) / 2.0;
            let share = of_week(*day, 1.3) * (0.03 * winter + 0.01 * (1.0 - winter));
            [Told { reported: 500.0, size: 500.0, lost: 500.0 * share }; HOURS]
        };
        let found = Seasons::fit(&days, &days.iter().map(told).collect::<Vec<_>>());
        assert!((found.winter[7] - 0.03).abs() < 1e-4 && (found.summer[7] - 0.01).abs() < 1e-4, "{found:?}");
        assert!((found.weekend - 1.3).abs() < 1e-3, "{found:?}");
        let nothing = Seasons { winter: [0.0; HOURS], summer: [0.0; HOURS], weekend: 1.0 };
        assert_eq!(Seasons::fit(&days, &vec![[Told::default(); HOURS]; days.len()]), nothing);
    }

    /// One home of two draws 9 kW in the evening, of which the range of houses takes one and their account leaves little.
    #[test]
    fn the_share_of_an_hour_is_what_is_lost_over_what_is_reported() {
        let days: Vec<Day> = (0..14).map(|number| Calendar::Year.day(1 + 26 * number)).collect();
        let mut watts = vec![500; PER_DAY];
        watts[120..126].fill(9000);
        let pool = Pool::of_watts(2, [watts.repeat(14), vec![500; PER_DAY].repeat(14)].concat());
        let found = Found::measure(&pool, &days, (0, 8000), 0);
        for hours in [found.winter, found.summer] {
            assert!((hours[20] - 1000.0 / 8500.0).abs() < 1e-6 && hours[21] == 0.0, "{found:?}");
        }
        let reported = 6.0 * 8500.0 + 138.0 * 1000.0;
        assert!((found.share - 6000.0 / reported).abs() < 1e-6, "{found:?}");
        // One loses 353 W of slots more than its reports let expect, the other as much less, of 3,000 each: always the same one.
        assert!((found.lasting - 353.0 * 2f64.sqrt() / 3000.0).abs() < 1e-3 && found.daily < 1e-6, "{found:?}");
    }
}
