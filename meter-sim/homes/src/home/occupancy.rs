//! How many residents are active, that is at home and awake, in each ten minutes of a day.
//!
//! A Markov chain: at the end of every slot each inactive resident may become active and each active one inactive, with
//! probabilities that depend on the time of day and on how many are active. Residents often move together.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::LazyLock;

use thiserror::Error;

use super::calendar::DayKind;
use super::draw::Draw;
use super::hours::{Hours, sigmoid};
use super::table;

pub(super) const SLOTS: usize = 144;
pub(super) const MOST_RESIDENTS: u8 = 5;

/// The number of active residents over a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupancy([u8; SLOTS]);

impl Occupancy {
    /// For each ten minutes.
    pub fn slots(&self) -> &[u8; SLOTS] {
        &self.0
    }

    /// In one minute of the day.
    pub fn active(&self, minute: usize) -> u8 {
        self.0[minute / 10]
    }

    pub(super) fn new(slots: [u8; SLOTS]) -> Self {
        Self(slots)
    }
}

/// Those who live in a home, and how many of them are active.
#[derive(Debug)]
pub(super) struct People {
    residents: u8,
    active: u8,
}

impl People {
    /// At the midnight with which a day of this kind begins.
    pub(super) fn at_midnight(residents: u8, kind: DayKind, draw: &mut Draw) -> Self {
        let start = &habits(residents, kind).start;
        Self { residents, active: u8::try_from(draw.weighted(start)).expect("six weights") }
    }

    /// Lives through some slots of a day and says how many are active in each.
    pub(super) fn live(&mut self, kind: DayKind, slots: Range<usize>, draw: &mut Draw) -> Vec<u8> {
        let (hours, habits) = (kind.choose(&HOURS), habits(self.residents, kind));
        let lived = slots.map(|slot| {
            let now = self.active;
            let end = (slot + 1) as f64 / 6.0;
            self.active += habits.risers(self.residents - now, habits.up(hours.up.at(end), now), draw);
            self.active -= habits.leavers(now, habits.down(hours.down.at(end), now), draw);
            now
        });
        lived.collect()
    }
}

/// How many people live in a home: a number, or one drawn from a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Residents {
    least: u8,
    most: u8,
}

impl Residents {
    /// Each number equally probable, both ends included.
    pub fn between(least: u8, most: u8) -> Result<Self, ResidentsError> {
        if 1 <= least && least <= most && most <= MOST_RESIDENTS {
            Ok(Self { least, most })
        } else {
            Err(ResidentsError)
        }
    }

    pub fn exactly(residents: u8) -> Result<Self, ResidentsError> {
        Self::between(residents, residents)
    }

    pub(super) fn draw(self, draw: &mut Draw) -> u8 {
        let more = draw.below(u32::from(self.most - self.least) + 1);
        self.least + u8::try_from(more).expect("at most five")
    }
}

impl FromStr for Residents {
    type Err = ResidentsError;

    fn from_str(text: &str) -> Result<Self, ResidentsError> {
        let number = |text: &str| text.parse().map_err(|_| ResidentsError);
        match text.split_once("..") {
            Some((least, most)) => Self::between(number(least)?, number(most)?),
            None => Self::exactly(number(text)?),
        }
    }
}

impl fmt::Display for Residents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most { write!(f, "{}", self.least) } else { write!(f, "{}..{}", self.least, self.most) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("use a number from 1 to 5, or a range such as 1..5, both ends included")]
pub struct ResidentsError;

/// How the time of day moves people, in logits per step of ten minutes.
#[derive(Debug)]
struct DayHours {
    up: Hours,
    down: Hours,
}

/// How households of one size differ from that.
#[derive(Debug)]
struct Habits {
    up_offset: f64,
    down_offset: f64,
    up_if_anyone: f64,
    up_per_extra: f64,
    down_if_company: f64,
    down_per_extra: f64,
    joint_up: f64,
    joint_down: f64,
    start: [f64; 6],
}

fn habits(residents: u8, kind: DayKind) -> &'static Habits {
    &kind.choose(&HABITS)[usize::from(residents) - 1]
}

impl Habits {
    /// The probability that an inactive resident becomes active.
    fn up(&self, hour: f64, active: u8) -> f64 {
        let company = if active >= 1 { self.up_if_anyone } else { 0.0 };
        sigmoid(hour + self.up_offset + company + self.up_per_extra * f64::from(active.saturating_sub(1)))
    }

    /// The probability that an active resident becomes inactive.
    fn down(&self, hour: f64, active: u8) -> f64 {
        let company = if active >= 2 { self.down_if_company } else { 0.0 };
        sigmoid(hour + self.down_offset + company + self.down_per_extra * f64::from(active.saturating_sub(2)))
    }

    fn risers(&self, inactive: u8, probability: f64, draw: &mut Draw) -> u8 {
        movers(inactive, self.joint_up, probability, draw)
    }

    fn leavers(&self, active: u8, probability: f64, draw: &mut Draw) -> u8 {
        movers(active, self.joint_down, probability, draw)
    }
}

/// How many of a group move: all or none of them, or each by themselves.
fn movers(group: u8, together: f64, probability: f64, draw: &mut Draw) -> u8 {
    if draw.chance(together) {
        return if draw.chance(probability) { group } else { 0 };
    }
    (0..group).map(|_| u8::from(draw.chance(probability))).sum()
}

static HOURS: LazyLock<[DayHours; 2]> = LazyLock::new(|| {
    [include_str!("data/occupancy_hours_weekday.csv"), include_str!("data/occupancy_hours_weekend.csv")].map(|text| {
        let rows: Vec<[f64; 2]> = table::rows(text).map(|row| table::numbers(&row, 1)).collect();
        DayHours {
            up: Hours(std::array::from_fn(|hour| rows[hour][0])),
            down: Hours(std::array::from_fn(|h| rows[h][1])),
        }
    })
});

static HABITS: LazyLock<[Vec<Habits>; 2]> = LazyLock::new(|| {
    [include_str!("data/occupancy_residents_weekday.csv"), include_str!("data/occupancy_residents_weekend.csv")]
        .map(|text| table::rows(text).map(|row| Habits::parse(&row)).collect())
});

impl Habits {
    fn parse(row: &[&str]) -> Self {
        let [up_offset, down_offset, up_if_anyone, up_per_extra, down_if_company, down_per_extra, joint_up, joint_down] =
            table::numbers(row, 1);
        let start = table::numbers(row, 9);
        Self {
            up_offset,
            down_offset,
            up_if_anyone,
            up_per_extra,
            down_if_company,
            down_per_extra,
            joint_up,
            joint_down,
            start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAYS: u32 = 2000;

    fn days(residents: u8, kind: DayKind) -> impl Iterator<Item = Occupancy> {
        (0..DAYS).map(move |day| draw_day(residents, kind, &mut Draw::of_day(3, 1, day)))
    }

    fn draw_day(residents: u8, kind: DayKind, draw: &mut Draw) -> Occupancy {
        Occupancy(People::at_midnight(residents, kind, draw).live(kind, 0..SLOTS, draw).try_into().unwrap())
    }

    #[test]
    fn nobody_is_active_who_does_not_live_there() {
        for residents in 1..=5 {
            for kind in [DayKind::Weekday, DayKind::Weekend] {
                assert!(days(residents, kind).all(|day| day.slots().iter().all(|active| *active <= residents)));
            }
        }
    }

    #[test]
    fn the_start_of_a_day_follows_its_distribution() {
        let asleep = days(1, DayKind::Weekday).filter(|day| day.slots()[0] == 0).count() as f64 / f64::from(DAYS);
        // Five standard errors of a share of 2,000 days.
        assert!((asleep - 0.844).abs() < 0.041, "{asleep}");
    }

    #[test]
    fn somebody_is_active_for_the_share_of_the_day_that_appliances_are_calibrated_for() {
        let share = |residents| {
            let active = |day: Occupancy| day.slots().iter().filter(|active| **active > 0).count();
            days(residents, DayKind::Weekday).map(active).sum::<usize>() as f64 / f64::from(DAYS) / SLOTS as f64
        };
        let shares = [1, 2, 3, 4, 5].map(share);
        assert!(shares.is_sorted(), "more residents, fewer empty minutes: {shares:?}");
        // The mean over all homes of the country, most of them small, is 0.459.
        assert!(shares[0] > 0.3 && shares[0] < 0.459 && shares[2] > 0.459, "{shares:?}");
    }

    #[test]
    fn people_sleep_at_four_and_are_active_at_seven_in_the_evening() {
        let share = |slot: usize| {
            days(3, DayKind::Weekday).filter(|day| day.slots()[slot] > 0).count() as f64 / f64::from(DAYS)
        };
        assert!(share(24) < 0.1 && share(114) > 0.75, "{} {}", share(24), share(114));
    }

    #[test]
    fn people_move_by_the_clock_of_the_end_of_a_slot() {
        let days = (0..40_000).map(|day| draw_day(1, DayKind::Weekday, &mut Draw::of_day(3, 2, day)));
        let asleep: Vec<Occupancy> = days.filter(|day| day.slots()[41] == 0).collect();
        let rose = asleep.iter().filter(|day| day.slots()[42] == 1).count() as f64 / asleep.len() as f64;
        // At seven, half way from the value of half past six to the next. Five standard errors are 0.009; ten minutes
        // earlier it would be 0.014 less.
        let expected = sigmoid(f64::midpoint(0.35, 1.28) - 2.96);
        assert!((rose - expected).abs() < 0.009, "{rose} {expected}");
    }

    #[test]
    fn a_group_that_moves_together_moves_whole() {
        let mut draw = Draw::of_home(3, 1);
        let moved: Vec<u8> = (0..200).map(|_| movers(4, 1.0, 0.5, &mut draw)).collect();
        assert!(moved.iter().all(|movers| [0, 4].contains(movers)));
        assert!(moved.contains(&0) && moved.contains(&4));
        let alone: Vec<u8> = (0..200).map(|_| movers(4, 0.0, 0.5, &mut draw)).collect();
        assert!((0..=4).all(|movers| alone.contains(&movers)));
    }

    #[test]
    fn company_keeps_people_up() {
        let two = habits(2, DayKind::Weekday);
        assert!(two.up(0.0, 1) > two.up(0.0, 0));
        assert!(two.down(0.0, 2) < two.down(0.0, 1));
        assert_eq!(two.up(0.0, 0), sigmoid(-3.21));
        assert_eq!(two.down(0.0, 2), sigmoid(-1.94 - 0.43));
    }

    #[test]
    fn residents_are_one_to_five() {
        assert_eq!("2".parse(), Residents::exactly(2));
        assert_eq!("1..5".parse(), Residents::between(1, 5));
        for wrong in ["", "0", "6", "5..1", "1..6", "0..3", "1...5", "two", "-1"] {
            assert_eq!(wrong.parse::<Residents>(), Err(ResidentsError), "{wrong}");
        }
    }
}
