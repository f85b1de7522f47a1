//! What all slots of a UTC day cost a home together (`protocol.md 5a`).
//!
//! Under a list that states E, the epsilon of a day, readings draw on an account of E/2: each costs its watts over lambda. Two
//! days of a home then differ by at most E/2 + E/2, whatever happened in it. Under a list that states none, each attempt costs
//! its whole epsilon.

use std::collections::BTreeMap;
use std::fmt;

use zeroize::Zeroizing;

use crate::noise::Scale;
use crate::params::Params;
use crate::reading::Reading;
use crate::time::Timestamp;
use crate::wire::{DecodeError, Reader, Writer};

pub(crate) const DAY_SECONDS: u64 = 86_400;

/// Readings are charged in units of 2^-32 of a millionth of epsilon, rounded up: fine enough that a day's rounding costs a home
/// less than a watt, and coarse enough that products stay within 128 bits.
const UNITS_OF_A_MILLIONTH: u32 = 32;

/// What a meter has spent of every UTC day that is not closed yet; around midnight there are two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Days {
    days: BTreeMap<u64, Day>,
}

/// One day. `plain` and `reserved` follow from lists and attempts alone; `used` derives from readings and stays in the meter.
#[derive(Clone, Default, PartialEq, Eq)]
struct Day {
    /// Millionths of epsilon spent on attempts under lists that state no E.
    plain: u64,
    /// The E that binds the day, in millionths: reserved at its first reading under a list that states one.
    reserved: u64,
    /// What readings have used of half of it, in units.
    used: Zeroizing<u128>,
}

impl fmt::Debug for Day {
    /// Says what lists and attempts cost, and nothing of readings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plain, reserved, used: _ } = self;
        f.debug_struct("Day").field("plain", plain).field("reserved", reserved).finish_non_exhaustive()
    }
}

impl Days {
    /// Returns what a day has cost so far, in millionths of epsilon: each attempt under a list without E, and the E that is
    /// reserved.
    pub fn cost(&self, at: Timestamp) -> u64 {
        self.days.get(&at.utc_day()).map_or(0, |day| day.plain.saturating_add(day.reserved))
    }

    /// Returns whether one more attempt of the day keeps it within `limit`. `largest` is what the day reserves if it has
    /// reserved nothing yet.
    pub(crate) fn allow(&self, day: u64, params: &Params, largest: u64, limit: u64) -> bool {
        let next = self.with_attempt(day, params, largest);
        next.plain.saturating_add(next.reserved) <= limit
    }

    /// Charges one more attempt, whatever its reading is.
    pub(crate) fn charge(&mut self, day: u64, params: &Params, largest: u64) {
        let next = self.with_attempt(day, params, largest);
        self.days.insert(day, next);
    }

    fn with_attempt(&self, day: u64, params: &Params, largest: u64) -> Day {
        let mut next = self.days.get(&day).cloned().unwrap_or_default();
        if params.terms().day_micro_epsilon == 0 {
            next.plain = next.plain.saturating_add(params.charge_micro_epsilon());
        } else if next.reserved == 0 {
            next.reserved = largest;
        }
        next
    }

    /// Takes a reading's part out of the day's account and returns that part: all of it, what is left for it, or 0.
    ///
    /// A list that states less than the day has reserved gets less; one that states more waits for the next day.
    pub(crate) fn grant(&mut self, day: u64, params: &Params, reading: &Reading) -> Reading {
        let stated = params.terms().day_micro_epsilon;
        if stated == 0 {
            return reading.clone();
        }
        let day = self.days.entry(day).or_default();
        let half = u128::from(stated.min(day.reserved)) << (UNITS_OF_A_MILLIONTH - 1);
        let left = Zeroizing::new(half.saturating_sub(*day.used));
        let scale = params.noise_scale();
        let most = i64::try_from(watts_for(*left, scale)).unwrap_or(i64::MAX);
        let part = Reading::new(reading.watts().clamp(-most, most));
        *day.used += cost_of(part.watts().unsigned_abs(), scale);
        part
    }

    /// The days that are not closed.
    pub(crate) fn open(&self) -> impl Iterator<Item = u64> {
        self.days.keys().copied()
    }

    /// Erases a day's account.
    pub(crate) fn close(&mut self, day: u64) {
        self.days.remove(&day);
    }

    /// Writes four items for each day, of a length that no reading changes.
    pub(crate) fn write(&self, writer: Writer) -> Writer {
        let head = writer.nested_array(4 * self.days.len() as u64);
        self.days.iter().fold(head, |writer, (&number, day)| {
            writer.uint(number).uint(day.plain).uint(day.reserved).bytes(&*Zeroizing::new(day.used.to_be_bytes()))
        })
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let days = (0..reader.array_of_any()? / 4).map(|_| {
            let (number, plain, reserved) = (reader.uint()?, reader.uint()?, reader.uint()?);
            let used = Zeroizing::new(u128::from_be_bytes(reader.fixed("energy account")?));
            let most = u128::from(reserved) << (UNITS_OF_A_MILLIONTH - 1);
            let within = number < u64::MAX / DAY_SECONDS && *used <= most;
            within.then_some((number, Day { plain, reserved, used })).ok_or(DecodeError::OutOfRange { field: "day" })
        });
        Ok(Self { days: days.collect::<Result<_, _>>()? })
    }
}

/// What a reading of so many watts costs, in units, rounded up: watts / lambda epsilon.
///
/// With watts < 2^40 and the denominator of lambda at most 10^6, products stay below 2^112.
fn cost_of(watts: u64, lambda: Scale) -> u128 {
    (u128::from(watts) * units_of_denominator(lambda)).div_ceil(lambda.numerator().into())
}

/// The most watts that cost no more than `units`.
///
/// An account is below 2^71, since E < 2^40, and the numerator of lambda below 2^53, since lambda < 2^33.
fn watts_for(units: u128, lambda: Scale) -> u128 {
    units * u128::from(lambda.numerator()) / units_of_denominator(lambda)
}

fn units_of_denominator(lambda: Scale) -> u128 {
    (1_000_000 * u128::from(lambda.denominator())) << UNITS_OF_A_MILLIONTH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{MAX_DAY_MICRO_EPSILON, MAX_EPSILON_PART, Terms};

    const LIMIT: u64 = 100_000_000;

    fn params(terms: Terms) -> Params {
        Params::new(100, Terms { max_malicious: 10, ..terms }).unwrap()
    }

    fn stating(day_micro_epsilon: u64) -> Params {
        params(Terms { lo: -5000, hi: 5000, day_micro_epsilon, ..Terms::DEFAULT })
    }

    /// One attempt as a meter makes it.
    fn report(days: &mut Days, day: u64, params: &Params, watts: i64) -> Option<i64> {
        let largest = params.terms().day_micro_epsilon;
        days.allow(day, params, largest, LIMIT).then(|| {
            days.charge(day, params, largest);
            days.grant(day, params, &params.clip(watts)).watts()
        })
    }

    #[test]
    fn what_is_left_of_a_reading_is_reported_in_part_and_then_nothing() {
        let house = params(Terms::DEFAULT);
        let mut days = Days::default();
        // Half of 72 times 5 kW: 36 slots at the top of the range.
        assert!((0..35).all(|_| report(&mut days, 7, &house, 5000) == Some(5000)));
        assert_eq!(report(&mut days, 7, &house, 1200), Some(1200));
        assert_eq!(report(&mut days, 7, &house, 9000), Some(3800));
        assert!((0..100).all(|_| report(&mut days, 7, &house, 1) == Some(0)), "never silent");
        assert_eq!(report(&mut days, 8, &house, 9000), Some(5000), "another day");
        assert_eq!(days.cost(Timestamp::from_secs(7 * DAY_SECONDS)), 72_000_000);
    }

    #[test]
    fn feeding_in_uses_the_account_as_drawing_does() {
        let signed = stating(2_000_000);
        let mut days = Days::default();
        let reports = [-4000, 3000, -4000, 4000].map(|watts| report(&mut days, 7, &signed, watts).unwrap());
        assert_eq!(reports, [-4000, 3000, -3000, 0]);
    }

    #[test]
    fn the_e_of_a_day_is_what_its_first_reading_reserved() {
        let (small, large) = (stating(1_000_000), stating(3_000_000));
        let mut days = Days::default();
        assert_eq!(report(&mut days, 7, &small, 4000), Some(4000));
        assert_eq!(report(&mut days, 7, &large, 4000), Some(1000), "it is not raised");
        assert_eq!(report(&mut days, 8, &large, 5000), Some(5000));
        assert_eq!(report(&mut days, 8, &small, 5000), Some(0), "a list that states less gets less");
        assert_eq!(report(&mut days, 8, &large, 5000), Some(5000));
        assert_eq!(days.cost(Timestamp::from_secs(8 * DAY_SECONDS)), 3_000_000);
    }

    #[test]
    fn attempts_without_e_cost_their_epsilon_beside_it() {
        let (plain, house) = (stating(0), params(Terms::DEFAULT));
        let mut days = Days::default();
        assert!((0..28).all(|_| report(&mut days, 7, &plain, 5000) == Some(5000)));
        assert_eq!(report(&mut days, 7, &house, 5000), Some(5000));
        assert_eq!(days.cost(Timestamp::from_secs(7 * DAY_SECONDS)), LIMIT);
        assert_eq!(report(&mut days, 7, &plain, 5000), None);
        assert_eq!(report(&mut days, 7, &house, 5000), Some(5000), "E is reserved once");
        assert!((0..29).all(|_| report(&mut days, 8, &plain, 0).is_some()));
        assert_eq!(report(&mut days, 8, &house, 0), None);
    }

    #[test]
    fn rounding_never_favours_the_reading_and_nothing_overflows() {
        let thirds = params(Terms { hi: 7, epsilon_denominator: 3, day_micro_epsilon: 1_000_000, ..Terms::DEFAULT });
        let lambda = thirds.noise_scale();
        assert_eq!((lambda.numerator(), lambda.denominator()), (21, 1));
        let mut days = Days::default();
        let reports: i64 = (0..30).map(|_| report(&mut days, 7, &thirds, 1).unwrap()).sum();
        assert_eq!(reports, 10, "half of lambda is 10.5 W");

        let widest = Terms { day_micro_epsilon: MAX_DAY_MICRO_EPSILON - 1, ..Terms::DEFAULT };
        for terms in [
            Terms { hi: (1 << 40) / 301, epsilon_denominator: 1, ..widest },
            Terms { hi: 8000, epsilon_denominator: MAX_EPSILON_PART, ..widest },
            Terms { hi: 1 << 32, epsilon_numerator: MAX_EPSILON_PART, epsilon_denominator: 999_999, ..widest },
            Terms { hi: 1, epsilon_numerator: MAX_EPSILON_PART, ..widest },
        ] {
            let Ok(params) = Params::new(100, Terms { max_malicious: 10, ..terms }) else { continue };
            let scale = params.noise_scale();
            let half = u128::from(terms.day_micro_epsilon) << 31;
            let most = watts_for(half, scale);
            let most = u64::try_from(most).unwrap().min(1 << 40);
            assert!(cost_of(most, scale) <= half, "{terms:?}");
        }
    }

    #[test]
    fn records_keep_an_account_and_its_length_tells_nothing() {
        let house = params(Terms::DEFAULT);
        let [mut empty, mut used] = [Days::default(), Days::default()];
        for (days, watts) in [(&mut empty, 0), (&mut used, 5000)] {
            for _ in 0..40 {
                report(days, 7, &house, watts).unwrap();
            }
        }
        let bytes = |days: &Days| days.write(Writer::array(1)).finish();
        assert_eq!(bytes(&empty).len(), bytes(&used).len());
        let encoded = bytes(&used);
        let mut reader = Reader::new(&encoded);
        reader.array(1).unwrap();
        assert_eq!(Days::read(&mut reader).unwrap(), used);
        assert_ne!(empty, used);
        assert_eq!(format!("{empty:?}"), format!("{used:?}"));
    }
}
