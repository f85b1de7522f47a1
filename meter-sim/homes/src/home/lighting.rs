//! The lamps of a home: lit when it is dark and somebody is there.

use std::sync::LazyLock;

use super::appliances::Device;
use super::draw::{self, Draw};
use super::life::{Stretch, Surroundings};
use super::{irradiance, table};

/// What a home has: its lamps, and how dark it has to be.
#[derive(Debug, Clone)]
pub(super) struct Lamps {
    /// Below this irradiance it is dark, in watts a square metre.
    threshold: f64,
    lamps: Vec<Lamp>,
}

#[derive(Debug, Clone)]
struct Lamp {
    watts: i32,
    /// The probability that one resident switches it on in a dark minute.
    weight: f64,
}

impl Lamps {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let threshold = draw.normal(60.0, 10.0);
        let count = draw::watts(draw.normal(23.9, 4.4)).clamp(12, 40);
        Self { threshold, lamps: (0..count).map(|_| Lamp::draw(draw)).collect() }
    }

    /// All of them off.
    pub(super) fn at_midnight(&self) -> Lighting<'_> {
        Lighting { of: self, left: vec![0; self.lamps.len()] }
    }

    /// How much light is wanted in each minute, in residents who want it. In daylight it is dark all the same in one
    /// minute of twenty.
    fn wanted(&self, surroundings: &Surroundings<'_>) -> Vec<f64> {
        const DARK_BY_DAY: f64 = 0.05;
        // Two persons in one room need the lamp once.
        const EFFECTIVE: [f64; 6] = [0.0, 1.0, 1.528, 1.694, 1.983, 2.094];
        let sky = &irradiance::of(surroundings.day.month())[10 * surroundings.first_slot..];
        let wanted = sky.iter().zip(surroundings.minutes()).map(|(light, active)| {
            let dark = if *light < self.threshold { 1.0 } else { DARK_BY_DAY };
            dark * EFFECTIVE[usize::from(active)]
        });
        wanted.collect()
    }
}

/// The lamps of a home, some of them lit.
#[derive(Debug)]
pub(super) struct Lighting<'a> {
    of: &'a Lamps,
    /// For how many more minutes each is lit, if somebody stays.
    left: Vec<usize>,
}

impl Lighting<'_> {
    /// Lives through a stretch of a day and says what all of them do in it.
    pub(super) fn live(&mut self, surroundings: &Surroundings<'_>, draw: &mut Draw) -> Stretch {
        let wanted = self.of.wanted(surroundings);
        let mut lit = Stretch { device: Device::LIGHTING, starts: 0, standby: 0, watts: vec![0; wanted.len()] };
        for (lamp, left) in self.of.lamps.iter().zip(&mut self.left) {
            lamp.live(left, &wanted, draw, &mut lit);
        }
        lit
    }
}

impl Lamp {
    fn draw(draw: &mut Draw) -> Self {
        const MEAN_WEIGHT: f64 = 0.008_153_686_396_677_05;
        let (watts, probabilities) = &*BULBS;
        Self { watts: watts[draw.weighted(probabilities)], weight: MEAN_WEIGHT * draw.exponential() }
    }

    /// Adds what it does. Where no light is wanted, nobody is there, and it goes out.
    fn live(&self, left: &mut usize, wanted: &[f64], draw: &mut Draw, lit: &mut Stretch) {
        for (wanted, watts) in wanted.iter().zip(&mut lit.watts) {
            if *wanted == 0.0 {
                *left = 0;
            } else if *left == 0 && draw.chance(self.weight * wanted) {
                lit.starts += 1;
                *left = burning_time(draw);
            }
            if *left > 0 {
                *watts += self.watts;
                *left -= 1;
            }
        }
    }
}

/// How long a lamp stays lit if somebody stays, in minutes: one of nine ranges, each as probable as the others.
fn burning_time(draw: &mut Draw) -> usize {
    const RANGES: [(f64, f64); 9] = [
        (1.0, 1.0),
        (2.0, 2.0),
        (3.0, 4.0),
        (5.0, 8.0),
        (9.0, 16.0),
        (17.0, 27.0),
        (28.0, 49.0),
        (50.0, 91.0),
        (92.0, 259.0),
    ];
    let (least, most) = RANGES[draw.below(9) as usize];
    draw::floor(least + draw.unit() * (most - least)) as usize
}

/// The powers that lamps have, and how frequent each is.
static BULBS: LazyLock<(Vec<i32>, Vec<f64>)> = LazyLock::new(|| {
    let rows = table::rows(include_str!("data/bulbs.csv")).map(|row| table::numbers(&row, 0));
    rows.map(|[watts, probability]: [f64; 2]| (draw::watts(watts), probability)).unzip()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::{ActivityModel, Calendar, DayKind, Month};

    const NOVEMBER: u8 = 11;

    fn light(lamps: &Lamps, month: u8, seed: u64, active: impl Fn(usize) -> u8) -> Stretch {
        let day = Calendar::Same(Month::new(month).unwrap(), DayKind::Weekday).day(1);
        let active: Vec<u8> = (0..144).map(active).collect();
        let surroundings = Surroundings { day, first_slot: 0, active: &active, activities: ActivityModel::Crest };
        lamps.at_midnight().live(&surroundings, &mut Draw::of_home(seed, 2))
    }

    fn energy(load: &Stretch) -> i32 {
        load.watts.iter().sum()
    }

    #[test]
    fn nobody_needs_no_light() {
        let lamps = Lamps::draw(&mut Draw::of_home(1, 1));
        assert_eq!(energy(&light(&lamps, NOVEMBER, 1, |_| 0)), 0);
    }

    #[test]
    fn the_light_goes_out_at_once_when_the_last_one_leaves() {
        let lamps = Lamps::draw(&mut Draw::of_home(1, 1));
        let load = light(&lamps, NOVEMBER, 1, |slot| u8::from(slot < 12) * 3);
        assert!(load.watts[60..120].iter().all(|watts| *watts > 0), "24 lamps and three people in the dark");
        assert!(load.watts[120..].iter().all(|watts| *watts == 0));
    }

    #[test]
    fn it_is_darker_in_winter_and_brighter_by_day() {
        let lamps = Lamps::draw(&mut Draw::of_home(1, 1));
        let days = |month, slots: std::ops::Range<usize>| -> i32 {
            (0..50).map(|seed| energy(&light(&lamps, month, seed, |slot| u8::from(slots.contains(&slot))))).sum()
        };
        assert!(days(12, 0..144) > days(6, 0..144) * 3 / 2);
        let (noon, evening) = (days(NOVEMBER, 69..75), days(NOVEMBER, 120..126));
        // Five in a hundred minutes are dark by day, but lamps that are lit stay lit.
        assert!(noon * 5 < evening && noon > 0, "{noon} {evening}");
    }

    #[test]
    fn more_people_want_more_light_but_share_it() {
        let lamps = Lamps::draw(&mut Draw::of_home(1, 1));
        let starts = |active: u8| (0..40).map(|seed| light(&lamps, NOVEMBER, seed, |_| active).starts).sum::<u32>();
        let (one, five) = (starts(1), starts(5));
        assert!(one < five && five < 3 * one, "{one} {five}");
    }

    #[test]
    fn homes_have_about_24_lamps() {
        let counts: Vec<usize> = (0..1000).map(|home| Lamps::draw(&mut Draw::of_home(1, home)).lamps.len()).collect();
        let mean = counts.iter().sum::<usize>() as f64 / 1000.0;
        assert!((mean - 23.9).abs() < 0.7, "{mean}: five standard errors");
        assert!(counts.iter().all(|count| (12..=40).contains(count)));
    }

    #[test]
    fn lamps_burn_from_one_minute_to_four_hours() {
        let mut draw = Draw::of_home(1, 1);
        let times: Vec<usize> = (0..20_000).map(|_| burning_time(&mut draw)).collect();
        assert_eq!((times.iter().min(), times.iter().max()), (Some(&1), Some(&258)));
        let short = times.iter().filter(|time| **time == 1).count() as f64 / 20_000.0;
        assert!((short - 1.0 / 9.0).abs() < 0.011, "{short}: five standard errors");
    }

    #[test]
    fn bulbs_have_probabilities() {
        assert!((BULBS.1.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
