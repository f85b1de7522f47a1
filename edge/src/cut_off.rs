//! What meters cut off: the share of a cluster's load that the range of readings and the account of a day keep from being
//! reported, by hour of the day, and how far homes differ in it.
//!
//! The table is public. It was measured on simulated homes, so that no reading is in it, and an operator who knows better
//! replaces it.

use std::f64::consts::TAU;
use std::sync::{Arc, LazyLock};

use crate::HomeKind;

const HOURS: usize = 24;
/// The columns before those of the hours.
pub const HEAD: [&str; 10] = ["kind", "lo", "hi", "rms", "homes", "share", "weekend", "lasting", "daily", "passing"];

/// What the meters of a cluster are expected to cut off in a slot, and its standard deviations, in millionths of what they report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CutOff {
    pub share: i32,
    /// What stays day after day, because of who the members are.
    pub lasting: u32,
    /// What changes from day to day.
    pub daily: u32,
    /// What changes from slot to slot.
    pub passing: u32,
}

impl CutOff {
    /// Returns the share and its deviations as they are.
    pub fn shares(self) -> [f64; 4] {
        [f64::from(self.share), self.lasting.into(), self.daily.into(), self.passing.into()].map(|micro| micro / 1e6)
    }

    /// Returns it as it is stored.
    pub fn to_bytes(self) -> [u8; 16] {
        let words = [
            self.share.to_be_bytes(),
            self.lasting.to_be_bytes(),
            self.daily.to_be_bytes(),
            self.passing.to_be_bytes(),
        ];
        std::array::from_fn(|at| words[at / 4][at % 4])
    }

    /// Returns what is stored so; `None` if nothing is.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[share, lasting, daily, passing], []) = bytes.as_chunks::<4>() else { return None };
        let [lasting, daily, passing] = [lasting, daily, passing].map(u32::from_be_bytes);
        Some(Self { share: i32::from_be_bytes(share), lasting, daily, passing })
    }
}

/// When something is cut off, by the clocks and the calendar where the homes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub second_of_day: u32,
    /// From 1 on.
    pub day_of_year: u16,
    pub weekend: bool,
}

/// What homes of one kind cut off under some terms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CutOffDay {
    /// How many homes it was measured on.
    homes: f64,
    /// The mean size of the hours' shares, by what is reported in them.
    share: f64,
    /// How many times as large it is at weekends.
    weekend: f64,
    /// Deviations as multiples of the share, for one home.
    lasting: f64,
    daily: f64,
    passing: f64,
    /// On the first of January, and on the first of July.
    winter: [f64; HOURS],
    summer: [f64; HOURS],
}

impl CutOffDay {
    /// Returns what so many members cut off at a time. Homes differ independently, those of the table too.
    pub fn at(&self, moment: Moment, members: u16) -> CutOff {
        let share = self.share_at(moment);
        let shrinks = f64::from(members.max(1)).sqrt().recip();
        let deviation = |of: f64| micro(share.abs() * of).unsigned_abs();
        CutOff {
            share: micro(share),
            lasting: deviation(self.lasting(members)),
            daily: deviation(self.daily * shrinks),
            passing: deviation(self.passing * shrinks),
        }
    }

    /// Returns the share of the hour and the season. The mean of a week is what the table says.
    fn share_at(&self, moment: Moment) -> f64 {
        let hour = (moment.second_of_day / 3600) as usize % HOURS;
        let winter = (1.0 + (TAU * f64::from(moment.day_of_year.saturating_sub(1)) / 365.25).cos()) / 2.0;
        let of_week = 7.0 / (5.0 + 2.0 * self.weekend) * if moment.weekend { self.weekend } else { 1.0 };
        of_week * (winter * self.winter[hour] + (1.0 - winter) * self.summer[hour])
    }

    /// Returns the deviation of what stays, as a multiple of the share.
    fn lasting(&self, members: u16) -> f64 {
        let differ = f64::from(members.max(1)).recip() + self.homes.recip();
        self.lasting * differ.sqrt()
    }

    /// Returns which share of what is reported over a year is cut off, and the standard deviations of that of so many members: of what
    /// stays, and of what changes from day to day.
    pub fn of_a_year(&self, members: u16) -> (f64, f64, f64) {
        let daily = self.daily / f64::from(members.max(1)).sqrt();
        (self.share, self.share * self.lasting(members), self.share * daily)
    }

    fn between(&self, other: &Self, at: f64) -> Self {
        let mix = |one: f64, other: f64| one + at * (other - one);
        Self {
            homes: mix(self.homes, other.homes),
            share: mix(self.share, other.share),
            weekend: mix(self.weekend, other.weekend),
            lasting: mix(self.lasting, other.lasting),
            daily: mix(self.daily, other.daily),
            passing: mix(self.passing, other.passing),
            winter: std::array::from_fn(|hour| mix(self.winter[hour], other.winter[hour])),
            summer: std::array::from_fn(|hour| mix(self.summer[hour], other.summer[hour])),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a cast to an integer saturates")]
fn micro(share: f64) -> i32 {
    (1e6 * share).round() as i32
}

/// What homes cut off, by kind and terms.
#[derive(Debug, Clone, PartialEq)]
pub struct CutOffTable(Vec<Row>);

#[derive(Debug, Clone, PartialEq)]
struct Row {
    kind: HomeKind,
    range: (i64, i64),
    /// The greatest reading, or its size where homes feed in.
    most: f64,
    /// The root mean square that a day's account holds; infinite without one.
    rms: f64,
    day: CutOffDay,
}

impl CutOffTable {
    /// Returns the table that ships with the programs.
    pub fn shipped() -> Arc<Self> {
        static SHIPPED: LazyLock<Arc<CutOffTable>> =
            LazyLock::new(|| Arc::new(CutOffTable::parse(include_str!("cut_off.csv")).expect("a test reads it")));
        SHIPPED.clone()
    }

    /// Reads a table: a line of names, then a row for each kind, range and root mean square (0 for no account of a day).
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (_, names) = lines.next().ok_or("it is empty")?;
        if !names.starts_with(&format!("{},w0,", HEAD.join(","))) {
            return Err(format!("line 1: it names other columns than {},w0,...,w23,s0,...,s23", HEAD.join(",")));
        }
        let rows: Result<Vec<Row>, String> =
            lines.map(|(at, line)| Row::parse(line).map_err(|wrong| format!("line {}: {wrong}", at + 1))).collect();
        rows.map(Self)
    }

    /// Returns the ranges and root mean squares of a day that the table has of a kind.
    pub fn terms(&self, kind: HomeKind) -> impl Iterator<Item = ((i64, i64), u64)> {
        let of_kind = self.0.iter().filter(move |row| row.kind == kind && row.rms.is_finite());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "watts of a home, above 0")]
        of_kind.map(|row| (row.range, row.rms.round() as u64))
    }

    /// Returns what homes of a kind cut off under a range and the root mean square of a day, if the table has the kind: of the
    /// nearest range, between the nearest of a day.
    pub fn of(&self, kind: HomeKind, (lo, hi): (i64, i64), rms: Option<u64>) -> Option<CutOffDay> {
        let most = hi.max(lo.saturating_neg()) as f64;
        let rms = rms.map_or(f64::INFINITY, |rms| rms as f64);
        let of_kind = || self.0.iter().filter(move |row| row.kind == kind);
        let distance = |row: &&Row| (row.most / most).ln().abs();
        let nearest = of_kind().min_by(|one, other| distance(one).total_cmp(&distance(other)))?.most;
        let rows = || of_kind().filter(|row| row.most == nearest);
        let below = rows().filter(|row| row.rms <= rms).max_by(|one, other| one.rms.total_cmp(&other.rms));
        let above = rows().filter(|row| row.rms >= rms).min_by(|one, other| one.rms.total_cmp(&other.rms));
        let (below, above) = (below.or(above)?, above.or(below)?);
        let span = (above.rms / below.rms).ln();
        let at = if span > 0.0 && span.is_finite() { (rms / below.rms).ln() / span } else { 0.0 };
        Some(below.day.between(&above.day, at))
    }
}

impl Row {
    fn parse(line: &str) -> Result<Self, String> {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if cells.len() != HEAD.len() + 2 * HOURS {
            return Err(format!("it has {} columns, not {}", cells.len(), HEAD.len() + 2 * HOURS));
        }
        let kind = cells[0].parse().map_err(|wrong| format!("{:?} is no kind of home: {wrong}", cells[0]))?;
        let numbers: Result<Vec<f64>, String> = cells[1..].iter().map(|cell| number(cell)).collect();
        let numbers = numbers?;
        let [lo, hi, rms, homes, share, weekend, lasting, daily, passing] = numbers[..HEAD.len() - 1] else {
            unreachable!("so many columns")
        };
        let hours = |first: usize| std::array::from_fn(|hour| numbers[HEAD.len() - 1 + first + hour]);
        let (winter, summer) = (hours(0), hours(HOURS));
        let not_negative = [rms, share, weekend, lasting, daily, passing];
        if lo > hi || homes < 1.0 || not_negative.iter().any(|number| *number < 0.0) {
            return Err("lo is above hi, or a number that cannot be negative is, or there are no homes".to_owned());
        }
        let day = CutOffDay { homes, share, weekend, lasting, daily, passing, winter, summer };
        #[expect(clippy::cast_possible_truncation, reason = "a cast to an integer saturates")]
        let range = (lo.round() as i64, hi.round() as i64);
        Ok(Self { kind, range, most: hi.max(-lo), rms: if rms > 0.0 { rms } else { f64::INFINITY }, day })
    }
}

fn number(cell: &str) -> Result<f64, String> {
    cell.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| format!("{cell:?} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JANUARY: Moment = Moment { second_of_day: 3600, day_of_year: 1, weekend: false };

    fn table(rows: &[&str]) -> Result<CutOffTable, String> {
        let hours: Vec<String> =
            ["w", "s"].iter().flat_map(|of| (0..HOURS).map(move |hour| format!("{of}{hour}"))).collect();
        let hourly = [",0.014".repeat(HOURS), ",0.006".repeat(HOURS)].concat();
        let rows: Vec<String> = rows.iter().map(|row| format!("{row}{hourly}")).collect();
        CutOffTable::parse(&format!("{},{}\n{}\n", HEAD.join(","), hours.join(","), rows.join("\n")))
    }

    #[test]
    fn every_kind_has_its_usual_terms_in_the_shipped_table() {
        for kind in HomeKind::ALL {
            let day = CutOffTable::shipped().of(kind, kind.range(), Some(kind.rms_watts())).unwrap();
            let mean = day.winter.iter().chain(&day.summer).sum::<f64>() / (2 * HOURS) as f64;
            assert!((-0.01..0.05).contains(&mean) && (0.0..0.05).contains(&day.share), "{kind}: {mean} {day:?}");
        }
    }

    #[test]
    fn deviations_shrink_with_the_members_and_no_further_than_the_table_is_known() {
        let table = table(&["house,0,8000,1000,400,0.01,1,3,4,20"]).unwrap();
        let of = |members| table.of(HomeKind::House, (0, 8000), Some(1000)).unwrap().at(JANUARY, members);
        assert_eq!(of(100), CutOff { share: 14_000, lasting: 4696, daily: 5600, passing: 28_000 });
        assert_eq!((of(10_000).lasting, of(10_000).daily), (2142, 560));
    }

    #[test]
    fn winters_and_weekends_have_shares_of_their_own_whose_mean_is_that_of_the_year() {
        let table = table(&["house,0,8000,1000,400,0.01,1.5,3,4,20"]).unwrap();
        let day = table.of(HomeKind::House, (0, 8000), Some(1000)).unwrap();
        let share = |day_of_year, weekend| day.at(Moment { day_of_year, weekend, ..JANUARY }, 100).share;
        // A weekday has 7/8 of the mean of a week, and a day of its end 10.5/8.
        assert_eq!([share(1, false), share(1, true)], [12_250, 18_375]);
        assert_eq!([share(183, false), share(184, false)], [5250, 5250]);
        let mean =
            (1..=365).map(|day| f64::from(5 * share(day, false) + 2 * share(day, true)) / 7.0).sum::<f64>() / 365.0;
        assert!((mean - 10_000.0).abs() < 10.0, "{mean}");
    }

    #[test]
    fn what_is_stored_comes_back() {
        let cut_off = CutOff { share: -9000, lasting: 400, daily: 70_000, passing: u32::MAX };
        assert_eq!(CutOff::from_bytes(&cut_off.to_bytes()), Some(cut_off));
        assert_eq!(CutOff::from_bytes(&[0; 15]), None);
    }

    #[test]
    fn what_is_between_two_rows_is_between_their_numbers() {
        let row = |rms: u32, lasting: u32| format!("house,0,8000,{rms},400,0.01,1,{lasting},0,0");
        let table = table(&[&row(1000, 2), &row(4000, 4), &row(0, 8)]).unwrap();
        let lasting = |range, rms| table.of(HomeKind::House, range, rms).unwrap().lasting;
        assert_eq!(
            [Some(500), Some(1000), Some(2000), Some(9000), None].map(|rms| lasting((0, 8000), rms)),
            [2.0, 2.0, 3.0, 4.0, 8.0]
        );
        assert_eq!(lasting((0, 5000), Some(1000)), 2.0, "the nearest range");
        assert_eq!(table.of(HomeKind::Pv, (-8000, 8000), None), None);
    }

    #[test]
    fn a_table_that_is_none_is_refused_with_its_line() {
        assert!(CutOffTable::parse("").unwrap_err().contains("empty"));
        assert!(CutOffTable::parse("a,b\n").unwrap_err().contains("line 1: "));
        for (row, why) in [
            ("castle,0,8000,1000,400,0.01,1,2,0,0", "line 3: \"castle\" is no kind of home: use flat"),
            ("house,0,8000,1000,400,0.01,1,2,0", "line 3: it has 57 columns, not 58"),
            ("house,0,8000,x,400,0.01,1,2,0,0", "line 3: \"x\" is not a number"),
            ("house,0,8000,1000,0,0.01,1,2,0,0", "line 3: lo is above hi"),
            ("house,0,8000,1000,400,0.01,-1,2,0,0", "line 3: lo is above hi, or a number that cannot be negative is"),
        ] {
            let told = table(&["house,0,8000,1000,400,0.01,1,3,4,20", row]).unwrap_err();
            assert!(told.starts_with(why), "{told}");
        }
    }
}
