//! How bright it is outside, which decides when lamps are lit and what panels generate.
//!
//! A clear sky after Haurwitz, dimmed evenly to what an average one lets through. All homes of a day are under the same
//! sky, in Loughborough, where the model comes from.

use std::f64::consts::TAU;
use std::sync::LazyLock;

use super::MINUTES_PER_DAY;
use super::calendar::Month;

/// The global irradiance in each minute of the middle of the month, in watts a square metre.
pub(super) fn of(month: Month) -> &'static [f64; MINUTES_PER_DAY] {
    static MONTHS: LazyLock<Vec<[f64; MINUTES_PER_DAY]>> = LazyLock::new(|| {
        let months = (1..=12).map(|month| Month::new(month).expect("1 to 12"));
        months.map(|month| std::array::from_fn(|minute| irradiance(month, minute))).collect()
    });
    &MONTHS[month.index()]
}

/// Where the sun is: a vector of length 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sun {
    /// The sine of its height above the horizon; below 0 it is down.
    pub(super) height: f64,
    pub(super) south: f64,
    pub(super) west: f64,
}

/// Where the sun is in each minute of the middle of the month.
pub(super) fn suns(month: Month) -> &'static [Sun; MINUTES_PER_DAY] {
    static MONTHS: LazyLock<Vec<[Sun; MINUTES_PER_DAY]>> = LazyLock::new(|| {
        let months = (1..=12).map(|month| Month::new(month).expect("1 to 12"));
        months.map(|month| std::array::from_fn(|minute| sun(month, minute))).collect()
    });
    &MONTHS[month.index()]
}

/// The irradiance of a level square metre under a clear sky, in watts.
pub(super) fn clear_sky(height: f64) -> f64 {
    1098.0 * height * (-0.057 / height).exp()
}

/// The irradiance above the air, of a square metre that faces the sun, in watts.
pub(super) fn above_the_air(month: Month) -> f64 {
    1367.0 * (1.0 + 0.033 * (TAU * f64::from(month.middle()) / 365.0).cos())
}

const LATITUDE: f64 = 52.77;
const LONGITUDE: f64 = -1.2;
/// The share of the clear sky's light that arrives on average: the middle of 0.4 to 0.5, between which it hardly matters.
const CLEARNESS: f64 = 0.45;

fn irradiance(month: Month, minute: usize) -> f64 {
    let height = sine_of_height(month.middle(), solar_minute(month, minute));
    if height <= 0.0 { 0.0 } else { CLEARNESS * 1098.0 * height * (-0.057 / height).exp() }
}

/// The time by the sun, in minutes after its midnight. Households live by the clock, in summer by summer time.
fn solar_minute(month: Month, minute: usize) -> f64 {
    const SUMMER_TIME: std::ops::RangeInclusive<usize> = 3..=9; // April to October
    let summer = if SUMMER_TIME.contains(&month.index()) { 60.0 } else { 0.0 };
    let year = TAU * (f64::from(month.middle()) - 81.0) / 364.0;
    let equation_of_time = 9.87 * (2.0 * year).sin() - 7.53 * year.cos() - 1.5 * year.sin();
    minute as f64 - summer + 4.0 * LONGITUDE + equation_of_time
}

fn sun(month: Month, minute: usize) -> Sun {
    let (day, solar_minute) = (month.middle(), solar_minute(month, minute));
    let (declination, hour_angle, latitude) = (declination(day), hour_angle(solar_minute), LATITUDE.to_radians());
    Sun {
        height: sine_of_height(day, solar_minute),
        south: latitude.sin() * declination.cos() * hour_angle.cos() - latitude.cos() * declination.sin(),
        west: declination.cos() * hour_angle.sin(),
    }
}

/// The cosine of the sun's angle from the zenith.
fn sine_of_height(day: u16, solar_minute: f64) -> f64 {
    let (declination, hour_angle, latitude) = (declination(day), hour_angle(solar_minute), LATITUDE.to_radians());
    latitude.sin() * declination.sin() + latitude.cos() * declination.cos() * hour_angle.cos()
}

fn declination(day: u16) -> f64 {
    23.45_f64.to_radians() * (TAU * (284.0 + f64::from(day)) / 365.0).sin()
}

fn hour_angle(solar_minute: f64) -> f64 {
    TAU * (solar_minute - 720.0) / 1440.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the last minute in which the sun is up.
    fn sunlight(month: u8) -> (usize, usize) {
        let sky = of(Month::new(month).unwrap());
        (sky.iter().position(|light| *light > 0.0).unwrap(), sky.iter().rposition(|light| *light > 0.0).unwrap())
    }

    #[test]
    fn the_sun_rises_and_sets_when_better_equations_say() {
        // Those of NOAA for the same place and days, without refraction. The simple declination is 0.9 degrees off in
        // November, which is worth seven minutes.
        for (month, rise, set) in [(11, 7 * 60 + 31, 16 * 60 + 8), (6, 4 * 60 + 47, 21 * 60 + 23)] {
            let (first, last) = sunlight(month);
            assert!(first.abs_diff(rise) < 10 && last.abs_diff(set) < 10, "month {month}: {first} {last}");
        }
    }

    #[test]
    fn the_sun_is_one_away_and_goes_from_east_over_south_to_west() {
        let suns = suns(Month::new(3).unwrap());
        for sun in suns {
            assert!((sun.height.hypot(sun.south).hypot(sun.west) - 1.0).abs() < 1e-12, "{sun:?}");
        }
        let [morning, noon, evening] = [8, 12, 16].map(|hour| suns[hour * 60]);
        assert!(morning.west < -0.5 && noon.west.abs() < 0.1 && evening.west > 0.5, "{morning:?} {noon:?} {evening:?}");
        assert!(noon.south > 0.5 && noon.height > 0.5, "{noon:?}");
    }

    #[test]
    fn noon_is_dim_in_november_and_bright_in_june() {
        let noon = |month: u8| of(Month::new(month).unwrap())[12 * 60];
        assert!((80.0..160.0).contains(&noon(11)), "{}", noon(11));
        assert!((350.0..450.0).contains(&noon(6)), "{}", noon(6));
    }
}
