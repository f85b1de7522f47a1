//! Panels on the roof of a home, and what they generate under the day's sky.
//!
//! All that is kept is what decides the shape of a cluster's load. A roof has a peak power from 2 to 6 kW and a slope that looks
//! anywhere from east over south to west, all equally probable, and is 35 degrees steep. A day has one sky for all homes of
//! a seed: it lets through from a quarter to all of a clear sky's light, from sunrise to sunset alike, so that no clouds pass. On
//! average that is 0.625, which over a year comes to what satellites have measured around Birmingham. (The lamps' average sky is
//! darker; it is a part of their fit, and the same for every day.)
//!
//! Light is split into direct and diffuse after Erbs, Klein and Duffie (Solar Energy 28, 1982), and brought to the slope after
//! Hay and Davies (1980). Of what falls on the panels, a share arrives as power: it stands for temperature, dirt, cables and the
//! inverter. A slope to the south then yields about 950 kWh a year for each kilowatt of its peak.

use std::f64::consts::FRAC_PI_2;
use std::str::FromStr;

use thiserror::Error;

use super::Minutes;
use super::calendar::{Day, Month};
use super::draw::{self, Draw};
use super::irradiance::{self, Sun};

/// The panels of a home.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rooftop {
    /// Under a kilowatt of light a square metre, before losses.
    peak_watts: f64,
    /// Where the slope looks, in radians from the south to the west.
    azimuth: f64,
}

impl Rooftop {
    /// Panels of this peak power on a slope that looks so many degrees from the south to the west; east is negative.
    pub fn new(peak_watts: u32, azimuth_degrees: i32) -> Self {
        Self { peak_watts: f64::from(peak_watts), azimuth: f64::from(azimuth_degrees).to_radians() }
    }

    pub(super) fn draw(draw: &mut Draw) -> Self {
        const LEAST_WATTS: f64 = 2000.0;
        const MOST_WATTS: f64 = 6000.0;
        let peak_watts = LEAST_WATTS + draw.unit() * (MOST_WATTS - LEAST_WATTS);
        Self { peak_watts, azimuth: (2.0 * draw.unit() - 1.0) * FRAC_PI_2 }
    }

    /// The peak power in watts.
    pub fn peak_watts(&self) -> f64 {
        self.peak_watts
    }

    /// What it generates on one day under the sky of this seed, in watts: nothing while the sun is down.
    pub fn day(&self, seed: u64, day: Day) -> Minutes {
        /// What is left of the light after all losses.
        const YIELD: f64 = 0.8;
        let clearness = clearness(seed, day.number());
        let suns = irradiance::suns(day.month());
        std::array::from_fn(|minute| {
            draw::watts(YIELD * self.peak_watts * self.light(&suns[minute], day.month(), clearness))
        })
    }

    /// The light that falls on the slope, in kilowatts a square metre.
    fn light(&self, sun: &Sun, month: Month, clearness: f64) -> f64 {
        /// Of the slope, in radians.
        const STEEPNESS: f64 = 35.0 * std::f64::consts::PI / 180.0;
        /// What the ground throws back.
        const ALBEDO: f64 = 0.2;
        /// Below this height, which is three degrees, the sun is behind other roofs: none of its light falls on the slope directly.
        const LOWEST: f64 = 0.05;
        if sun.height <= 0.0 {
            return 0.0;
        }
        let level = clearness * irradiance::clear_sky(sun.height);
        let beyond = irradiance::above_the_air(month) * sun.height;
        let diffuse = level * diffuse_share(level / beyond);
        let direct = level - diffuse;
        // Diffuse light comes from around the sun as far as the sky is clear, and evenly from all of it otherwise.
        let around = direct / beyond;
        let facing = sun.height * STEEPNESS.cos()
            + STEEPNESS.sin() * (sun.south * self.azimuth.cos() + sun.west * self.azimuth.sin());
        let tilted = if sun.height < LOWEST { 0.0 } else { facing.max(0.0) / sun.height };
        let sky = f64::midpoint(1.0, STEEPNESS.cos());
        let light =
            (direct + around * diffuse) * tilted + (1.0 - around) * diffuse * sky + ALBEDO * level * (1.0 - sky);
        light / 1000.0
    }
}

/// The share of a clear sky's light that a day lets through, the same for all homes.
fn clearness(seed: u64, day: u32) -> f64 {
    const LEAST: f64 = 0.25;
    LEAST + Draw::of_sky(seed, day).unit() * (1.0 - LEAST)
}

/// The share of the light that is diffuse, if this share of what is above the air arrives.
fn diffuse_share(arrives: f64) -> f64 {
    match arrives {
        ..=0.22 => 1.0 - 0.09 * arrives,
        ..=0.8 => {
            let bend = 4.388 + arrives * (-16.638 + arrives * 12.336);
            0.9511 + arrives * (-0.1604 + arrives * bend)
        }
        _ => 0.165,
    }
}

/// Which share of homes have panels.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct PvShare(f64);

impl PvShare {
    /// No home has.
    pub const NONE: Self = Self(0.0);

    pub(super) fn probability(self) -> f64 {
        self.0
    }

    /// Whether there are no such homes.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl FromStr for PvShare {
    type Err = PvShareError;

    fn from_str(text: &str) -> Result<Self, PvShareError> {
        let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        share.map(Self).ok_or(PvShareError)
    }
}

impl std::fmt::Display for PvShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("use a share of the homes from 0 to 1, such as 0.3")]
pub struct PvShareError;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::{Calendar, DayKind, MINUTES_PER_DAY};

    fn day(month: u8, number: u32) -> Day {
        Calendar::Same(Month::new(month).unwrap(), DayKind::Weekday).day(number)
    }

    fn energy(minutes: &Minutes) -> i32 {
        minutes.iter().sum()
    }

    #[test]
    fn there_is_no_power_at_night_and_most_at_noon() {
        let watts = Rooftop::new(4000, 0).day(1, day(6, 1));
        let up: Vec<usize> = (0..MINUTES_PER_DAY).filter(|minute| watts[*minute] > 0).collect();
        // The sun is up from 4:47 to 21:23 by summer time.
        assert!(up.first().unwrap().abs_diff(287) < 20 && up.last().unwrap().abs_diff(1283) < 20, "{up:?}");
        let most = (0..MINUTES_PER_DAY).max_by_key(|minute| watts[*minute]).unwrap();
        assert!(most.abs_diff(13 * 60 + 5) < 10, "minute {most}");
        assert!(watts.iter().all(|watts| (0..=4000).contains(watts)));
    }

    #[test]
    fn a_slope_to_the_east_has_the_morning_and_one_to_the_west_the_evening() {
        // On a dull day, light comes evenly from all of the sky.
        let clear = (1..50).find(|number| clearness(1, *number) > 0.9).unwrap();
        let [east, west] = [-90, 90].map(|azimuth| Rooftop::new(4000, azimuth).day(1, day(6, clear)));
        let morning = |watts: &Minutes| watts[..785].iter().sum::<i32>();
        assert!(10 * morning(&east) > 13 * (energy(&east) - morning(&east)), "{}", morning(&east));
        assert!(10 * (energy(&west) - morning(&west)) > 13 * morning(&west), "{}", morning(&west));
        assert!((f64::from(energy(&east)) / f64::from(energy(&west)) - 1.0).abs() < 0.02);
    }

    #[test]
    fn all_homes_of_a_day_are_under_the_same_sky_and_days_differ() {
        let ratio = |number| {
            let [small, large] = [2000, 6000].map(|peak| energy(&Rooftop::new(peak, 0).day(7, day(6, number))));
            f64::from(large) / f64::from(small)
        };
        assert!((1..30).all(|number| (ratio(number) - 3.0).abs() < 0.01));
        let skies: Vec<f64> = (0..20_000).map(|number| clearness(7, number)).collect();
        let mean = skies.iter().sum::<f64>() / 20_000.0;
        assert!((mean - 0.625).abs() < 0.0077, "{mean}: five standard errors");
        assert!(skies.iter().all(|sky| (0.25..1.0).contains(sky)));
        assert_ne!(clearness(7, 1).to_bits(), clearness(8, 1).to_bits());
    }

    #[test]
    fn the_diffuse_share_has_no_steps_and_falls_as_the_sky_clears() {
        let shares: Vec<f64> = (0..=1000).map(|step| diffuse_share(f64::from(step) / 1000.0)).collect();
        assert!(shares.windows(2).all(|pair| (pair[1] - pair[0]).abs() < 0.01));
        assert_eq!(shares[0], 1.0);
        assert!((shares[500] - 0.659).abs() < 0.001, "{}", shares[500]);
    }

    #[test]
    fn a_share_is_from_0_to_1() {
        assert_eq!("0.3".parse(), Ok(PvShare(0.3)));
        for wrong in ["-0.1", "1.1", "30%", "", "NaN"] {
            assert_eq!(wrong.parse::<PvShare>(), Err(PvShareError), "{wrong}");
        }
    }
}
