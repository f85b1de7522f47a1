//! Whether bands hold the truth: how often those of slots, hours, days and months hold what simulated homes really draw, with what
//! their meters cut off; how far filtered loads are off beside sums; and what errors come to where a day costs epsilon 4.
//!
//! Clusters are the gateway's own: its filter, its estimates, its hours and days. The table of what is cut off is the one that it
//! ships, which other seeds were measured for. With the first seed it is November, with the second June.

mod follow;

use dream_edge::HomeKind;
use dream_protocol::noise::day_micro_rho;
use dream_protocol::params::{Params, Share, Terms};
use dream_protocol::policy::Profile;

use self::follow::{Followed, Held, Watch};
use super::day::epsilon_of_day;
use super::pool::{Pool, homes_of};
use super::section::{Cell, Section, Table, row};

/// Keeps the chance of this part apart from that of other parts.
const STREAM: u64 = 6 << 24;

const SIZES: [u16; 5] = [25, 100, 300, 600, 1000];
/// What is simulated of each kind and seed.
const HOMES: usize = 3000;
const MONTH: usize = 30;
/// The first day of November, and of June.
const FIRST_DAYS: [u32; 2] = [1, 213];
/// A month is one number of a cluster: so many clusters tell how often its band holds it within a hundredth or two. Filters are followed in
/// fewer.
const CLUSTERS: usize = 400;
const FILTERED: usize = 16;

/// Many homes, in whose sums noise is small.
const MANY: u16 = 10_000;
const WEEKS: usize = 21;

/// What [`Followed::held`] is of.
const HELD_OF: [&str; 8] =
    ["slots", "slots_evening", "filtered", "filtered_evening", "hours", "hours_evening", "days", "months"];

const COLUMNS: &str = "kind homes epsilon_of_a_day seed month slots slots_evening filtered filtered_evening hours hours_evening days \
                       months worst_day_filtered_over_sum worst_hour_after_change error_sum error_filtered band_of_a_day \
                       cut_off_estimated";

/// How often bands of 95 % may hold the truth.
const HELD: std::ops::RangeInclusive<f64> = 0.93..=0.985;
/// The errors of filtered loads over those of sums, at most: of days, and of hours after a change.
const WORST: [f64; 2] = [1.02, 3.0];
/// The filtered errors of so many houses whose day costs epsilon 4, at most.
const ERRORS: [(u16, f64); 3] = [(300, 0.08), (1000, 0.043), (10_000, 0.012)];

/// Measures all kinds and sizes with two seeds, and houses where a day costs epsilon 4; says which bars were missed.
pub(crate) fn section(seed: u64) -> Section {
    let rows = rows(seed, &HomeKind::ALL);
    let missed: Vec<String> = rows.iter().flat_map(Row::missed).collect();
    let held = rows.iter().flat_map(|row| row.followed.held()).filter(|held| held.of >= 100.0).map(Held::share);
    let (least, most) = held.fold((1.0_f64, 0.0_f64), |(least, most), share| (least.min(share), most.max(share)));
    let missed =
        if missed.is_empty() { "no bar is missed".to_owned() } else { format!("missed: {}", missed.join("; ")) };
    let finding =
        format!("bands of 95 % held what homes really drew in {least:.3} to {most:.3} of all cases; {missed}");
    Section::new([Table::new("bands", COLUMNS, rows.iter().map(Row::cells))], []).finding(finding)
}

fn rows(seed: u64, kinds: &[HomeKind]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, first) in FIRST_DAYS.into_iter().enumerate() {
        let seed = seed.wrapping_add(number as u64);
        for &kind in kinds {
            let street = Street::new(kind, seed, HOMES, first, MONTH);
            for size in SIZES {
                let watch = Watch { clusters: CLUSTERS, filtered: FILTERED, changes: true };
                rows.push(street.follow(size, kind.usual_terms(Terms::DEFAULT), watch));
            }
            if kind == HomeKind::House {
                let watch = Watch { clusters: FILTERED, filtered: FILTERED, changes: false };
                rows.extend([300, 1000].map(|size| street.follow(size, day_of_four(), watch)));
                let many = Street::new(kind, seed, MANY.into(), first, WEEKS);
                rows.push(many.follow(MANY, day_of_four(), Watch { clusters: 4, filtered: 4, changes: false }));
            }
        }
    }
    rows
}

/// Houses whose day costs epsilon 4.
fn day_of_four() -> Terms {
    let rms = HomeKind::House.rms_watts();
    Terms::DEFAULT.with_day_rho(day_micro_rho(4_000_000), rms, 1_000_000).expect("much more than a millionth")
}

/// Simulated homes of a kind, over some days.
#[derive(Debug)]
struct Street {
    kind: HomeKind,
    seed: u64,
    first: u32,
    pool: Pool,
}

/// What was found of one size and terms.
#[derive(Debug)]
struct Row {
    kind: HomeKind,
    seed: u64,
    first: u32,
    params: Params,
    followed: Followed,
}

impl Street {
    fn new(kind: HomeKind, seed: u64, homes: usize, first: u32, days: usize) -> Self {
        Self { kind, seed, first, pool: Pool::simulate(&homes_of(kind, seed, homes), first, days) }
    }

    fn follow(&self, size: u16, terms: Terms, watch: Watch) -> Row {
        let tenth = Share::new(1, 10).expect("less than all");
        let least = if size < 50 { Profile::Community } else { Profile::Strict }.floors().malicious;
        let params = terms.for_members(size, tenth, tenth, least).expect("terms that lists have");
        let followed = follow::follow(&self.pool, self.kind, &params, self.first, watch, self.seed);
        Row { kind: self.kind, seed: self.seed, first: self.first, params, followed }
    }
}

impl Row {
    /// Which bars it misses.
    fn missed(&self) -> Vec<String> {
        let (kind, homes, followed) = (self.kind, self.params.members(), &self.followed);
        let at_four = self.params.terms().day_micro_rho == day_of_four().day_micro_rho;
        let held = followed.held().into_iter().zip(HELD_OF).filter(|(held, _)| held.of >= 100.0 && !at_four);
        let held = held.filter(|(held, _)| !HELD.contains(&held.share()));
        let held = held.map(|(held, of)| format!("{of} {:.3}", held.share()));
        let worst =
            [Some(followed.worst_day), followed.worst_hour].into_iter().zip(WORST).zip(["day", "hour after a change"]);
        let worst =
            worst.filter_map(|((found, most), of)| found.filter(|found| *found > most).map(|found| (found, of)));
        let worst = worst.map(|(found, of)| format!("worst {of} {found:.2}"));
        let most = ERRORS.iter().find(|(size, _)| at_four && *size == homes).map(|(_, most)| *most);
        let error = most.filter(|most| followed.error_filtered > *most);
        let error = error.map(|_| format!("filtered error {:.4}", followed.error_filtered));
        let missed = held.chain(worst).chain(error);
        missed.map(|what| format!("{kind} {homes} seed {}: {what}", self.seed)).collect()
    }

    fn cells(&self) -> Vec<Cell> {
        let Followed { worst_day, worst_hour, error_sum, error_filtered, band_of_a_day, cut_off, .. } = self.followed;
        let month = if self.first == FIRST_DAYS[0] { "November" } else { "June" };
        let day = epsilon_of_day(self.params.terms());
        let head = row![self.kind.as_str(), self.params.members(), day, self.seed, month];
        let held = self.followed.held().map(|held| (held.of > 0.0).then(|| held.share()));
        let worst = [Some(worst_day), worst_hour];
        row![; head; held; worst; [error_sum, error_filtered, band_of_a_day, cut_off]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of the study, of one seed and fewer clusters; `make long` runs all of it. What is rarer than a few hundred times has more
    /// room: three standard errors.
    #[test]
    fn bands_hold_the_truth_and_filtered_loads_are_no_worse_than_sums() {
        let street = Street::new(HomeKind::House, 1, 1200, 1, 12);
        for size in [25, 300, 1000] {
            let watch = Watch { clusters: 60, filtered: 6, changes: true };
            let found = street.follow(size, HomeKind::House.usual_terms(Terms::DEFAULT), watch);
            let followed = &found.followed;
            for (held, name) in followed.held().into_iter().zip(HELD_OF).take(7) {
                let room = 3.0 * (0.95 * 0.05 / (held.of / 12.0).max(60.0)).sqrt();
                let share = held.share();
                assert!(share >= 0.93 - room && share <= 0.985 + room.min(0.01), "{size}, {name}: {share} of {held:?}");
            }
            // What a plan promises is what the gateway's bands come to, which are held against the truth here.
            let policy = if size < 50 { "--meter-policy community" } else { "" };
            let mean = followed.mean_watts / f64::from(size);
            let planned = planned(&format!("--homes {size} --mean-load {mean:.0} {policy}"), "error_of_a_days_energy");
            let day = 100.0 * followed.band_of_a_day;
            assert!((day / planned - 1.0).abs() < 0.06, "{size}: {day} %, and the plan says {planned} %");
            assert!(followed.worst_day <= 1.02, "{size}: {followed:?}");
            assert!(followed.worst_hour.is_none_or(|worst| worst <= 3.0), "{size}: {followed:?}");
        }
    }

    /// Returns half the width of a band that a plan promises, in per cent.
    fn planned(arguments: &str, of: &str) -> f64 {
        let arguments: Vec<&str> = arguments.split_whitespace().chain(["--json"]).collect();
        let plan = dream_gateway::cmd::plan(&arguments).unwrap();
        let (_, part) = plan.split_once(of).unwrap();
        let (_, number) = part.split_once("\"band95_percent\": ").unwrap();
        number.split([',', '\n']).next().unwrap().parse().unwrap()
    }

    /// With `DREAM_BANDS_FULL`, as `make long` sets it: every bar, for all sizes of the kinds that it names, with two seeds.
    #[test]
    #[expect(clippy::print_stdout, reason = "the numbers of `make long`")]
    fn every_bar_holds_in_the_whole_study() {
        let Ok(named) = std::env::var("DREAM_BANDS_FULL") else { return };
        let kinds: Vec<HomeKind> = named.split_whitespace().map(|kind| kind.parse().unwrap()).collect();
        let rows = rows(1, &kinds);
        let table = Table::new("bands", COLUMNS, rows.iter().map(Row::cells));
        println!("{}", String::from_utf8(table.csv().unwrap()).unwrap());
        let missed: Vec<String> = rows.iter().flat_map(Row::missed).collect();
        assert!(missed.is_empty(), "{missed:#?}");
    }

    #[test]
    fn without_the_table_the_band_of_a_day_misses_what_is_cut_off() {
        let street = Street::new(HomeKind::House, 1, 1200, 1, 6);
        let params = {
            let tenth = Share::new(1, 10).unwrap();
            HomeKind::House.usual_terms(Terms::DEFAULT).for_members(1000, tenth, tenth, 10).unwrap()
        };
        let watch = Watch { clusters: 40, filtered: 0, changes: false };
        let of = |table| follow::follow_with(&street.pool, table, &params, 1, watch, 1).held()[6].share();
        let table = dream_edge::cut_off::CutOffTable::shipped().of(HomeKind::House, (0, 8000), params.day_rms_watts());
        let (with, without) = (of(table), of(None));
        assert!(with > 0.9 && without < 0.7, "{with} {without}");
    }

    #[test]
    fn every_column_is_documented() {
        let page = include_str!("../../../docs/study.md");
        let line = page.lines().find(|line| line.starts_with("| `bands.csv` |")).unwrap();
        assert!(COLUMNS.split_whitespace().all(|column| line.contains(&format!("`{column}`"))), "{line}");
    }
}
