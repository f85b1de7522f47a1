//! From minutes to the mean loads of slots, which are what a meter reports.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use thiserror::Error;

use crate::home::MINUTES_PER_DAY;

pub const SECONDS_PER_DAY: u32 = 86_400;

/// How long a slot is: a day is a whole number of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotLength(u32);

impl SlotLength {
    pub fn new(seconds: u32) -> Result<Self, SlotLengthError> {
        if seconds > 0 && SECONDS_PER_DAY.is_multiple_of(seconds) { Ok(Self(seconds)) } else { Err(SlotLengthError) }
    }

    pub fn seconds(self) -> u32 {
        self.0
    }

    pub fn per_day(self) -> usize {
        (SECONDS_PER_DAY / self.0) as usize
    }

    /// The mean power in each slot of a day, to the nearest watt.
    pub fn means<W: Copy + Into<i64>>(self, minutes: &[W; MINUTES_PER_DAY]) -> Vec<i64> {
        let begins = (0..self.per_day()).map(|slot| slot * self.0 as usize);
        begins.map(|begin| mean(joules(minutes, begin..begin + self.0 as usize), self.0.into())).collect()
    }
}

/// What is used between two seconds of a day: minute by minute, and of the first and the last minute a part.
pub fn joules<W: Copy + Into<i64>>(minutes: &[W; MINUTES_PER_DAY], seconds: Range<usize>) -> i64 {
    let mut joules = 0;
    let mut second = seconds.start;
    while second < seconds.end {
        let minute = second / 60;
        let end = seconds.end.min((minute + 1) * 60);
        joules += i64::try_from(end - second).expect("at most 60") * minutes[minute].into();
        second = end;
    }
    joules
}

/// The mean power, to the nearest watt.
pub fn mean(joules: i64, seconds: i64) -> i64 {
    (2 * joules + seconds).div_euclid(2 * seconds)
}

impl fmt::Display for SlotLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SlotLength {
    type Err = SlotLengthError;

    fn from_str(text: &str) -> Result<Self, SlotLengthError> {
        text.parse().map_err(|_| SlotLengthError).and_then(Self::new)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("use a number of seconds that divides a day of 86400, such as 60, 600, 900 or 3600")]
pub struct SlotLengthError;

#[cfg(test)]
mod tests {
    use super::*;

    fn means(seconds: u32, minutes: &[i32; MINUTES_PER_DAY]) -> Vec<i64> {
        SlotLength::new(seconds).unwrap().means(minutes)
    }

    #[test]
    fn a_minute_is_itself() {
        let minutes: [i32; MINUTES_PER_DAY] = std::array::from_fn(|minute| i32::try_from(minute).unwrap());
        assert_eq!(means(60, &minutes), (0..1440).collect::<Vec<i64>>());
    }

    #[test]
    fn longer_slots_have_the_mean_to_the_nearest_watt() {
        let mut minutes = [0; MINUTES_PER_DAY];
        minutes[..10].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        minutes[10] = 4;
        minutes[20] = -6;
        let means = means(600, &minutes);
        assert_eq!(means.len(), 144);
        assert_eq!(means[..4], [6, 0, -1, 0], "5.5, 0.4 and -0.6");
    }

    #[test]
    fn a_slot_need_not_be_a_number_of_minutes() {
        let mut minutes = [0; MINUTES_PER_DAY];
        minutes[0] = 90;
        minutes[1] = 30;
        assert_eq!(means(20, &minutes)[..7], [90, 90, 90, 30, 30, 30, 0]);
        assert_eq!(means(90, &minutes)[..2], [70, 10]);
    }

    #[test]
    fn energy_is_kept() {
        let minutes: [i32; MINUTES_PER_DAY] = std::array::from_fn(|minute| i32::try_from(minute * 7 % 900).unwrap());
        let mean = i64::from(minutes.iter().sum::<i32>() / 1440);
        assert_eq!(means(86_400, &minutes), [mean]);
    }

    #[test]
    fn a_day_is_a_whole_number_of_slots() {
        for wrong in ["0", "7000", "86401", "ten", "-60", "1.5"] {
            assert_eq!(wrong.parse::<SlotLength>(), Err(SlotLengthError), "{wrong}");
        }
        assert_eq!("900".parse::<SlotLength>().unwrap().per_day(), 96);
    }
}
