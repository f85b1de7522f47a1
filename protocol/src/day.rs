//! What all slots of a UTC day cost a home together (`protocol.md 5a`).
//!
//! Under a list that states rho, readings draw on an account of squares: each costs its square over that of lambda, and twice
//! as much where readings may be negative. Two days of a home are then rho-concentrated, whatever happened in it. Under a list
//! that states none, each attempt costs its whole epsilon. The two are different measures, and are never added.

use alloc::collections::BTreeMap;
use core::fmt;

use zeroize::Zeroizing;

use crate::params::Params;
use crate::policy::Policy;
use crate::reading::Reading;
use crate::time::{Slot, Timestamp};
use crate::wire::{DecodeError, Reader, Writer};

pub(crate) const DAY_SECONDS: u64 = 86_400;

/// Readings are charged in units of 2^-20 of a millionth of rho, rounded up: fine enough that a day's rounding costs a home
/// little, and coarse enough that products stay within 128 bits.
const UNITS_OF_A_MILLIONTH: u32 = 20;
const UNITS_OF_RHO: u128 = 1_000_000 << UNITS_OF_A_MILLIONTH;

/// A slot may use so many times its even part of what is left of the day.
const PACE: u128 = 4;

/// What a meter has spent of every UTC day that is not closed yet; around midnight there are two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Days {
    days: BTreeMap<u64, Day>,
}

/// What a day costs, as far as it follows from lists and attempts: never what its readings used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DayCost {
    /// Millionths of epsilon spent on attempts under lists that state no rho.
    pub micro_epsilon: u64,
    /// The rho that binds the day, in millionths; 0 while none is reserved.
    pub micro_rho: u64,
}

/// One day. Its cost follows from lists and attempts alone; `used` derives from readings and stays in the meter.
#[derive(Clone, Default, PartialEq, Eq)]
struct Day {
    /// Rho is reserved at the day's first reading under a list that states one.
    cost: DayCost,
    /// What readings have used of it, in units.
    used: Zeroizing<u64>,
}

impl fmt::Debug for Day {
    /// Says what lists and attempts cost, and nothing of readings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cost, used: _ } = self;
        f.debug_struct("Day").field("cost", cost).finish_non_exhaustive()
    }
}

impl Days {
    /// Returns what a day has cost so far.
    pub fn cost(&self, at: Timestamp) -> DayCost {
        self.days.get(&at.utc_day()).map(|day| day.cost).unwrap_or_default()
    }

    /// Returns what each day that is not closed has cost so far, by its number since 1970.
    pub fn costs(&self) -> impl Iterator<Item = (u64, DayCost)> {
        self.days.iter().map(|(&day, Day { cost, .. })| (day, *cost))
    }

    /// Returns whether one more attempt of the day keeps it within the policy's limits. `largest` is what the day reserves if
    /// it has reserved nothing yet.
    pub(crate) fn allow(&self, day: u64, params: &Params, largest: u64, policy: &Policy) -> bool {
        let next = self.with_attempt(day, params, largest).cost;
        next.micro_epsilon <= policy.day_micro_epsilon && next.micro_rho <= policy.day_micro_rho
    }

    /// Charges one more attempt, whatever its reading is.
    pub(crate) fn charge(&mut self, day: u64, params: &Params, largest: u64) {
        let next = self.with_attempt(day, params, largest);
        self.days.insert(day, next);
    }

    fn with_attempt(&self, day: u64, params: &Params, largest: u64) -> Day {
        let mut next = self.days.get(&day).cloned().unwrap_or_default();
        let DayCost { micro_epsilon, micro_rho } = &mut next.cost;
        if params.terms().day_micro_rho == 0 {
            *micro_epsilon = micro_epsilon.saturating_add(params.charge_micro_epsilon());
        } else if *micro_rho == 0 {
            *micro_rho = largest;
        }
        next
    }

    /// Takes a reading's part out of its day's account, where a square counts `weight` times, and returns that part: all of
    /// it, what the account allows of it, or 0.
    ///
    /// A list that states less than the day has reserved gets less; one that states more waits for the next day. With r slots
    /// to the end of the day, a slot uses at most 4/r of what is left: what is used up in the morning is missing every evening.
    pub(crate) fn grant(&mut self, slot: Slot, params: &Params, reading: &Reading, weight: u8) -> Reading {
        let stated = params.terms().day_micro_rho;
        if stated == 0 {
            return reading.clone();
        }
        let day = self.days.entry(params.slot_start(slot).utc_day()).or_default();
        let whole = u128::from(stated.min(day.cost.micro_rho)) << UNITS_OF_A_MILLIONTH;
        let left = Zeroizing::new(whole.saturating_sub((*day.used).into()));
        let allowed = Zeroizing::new(left.min(PACE * *left / u128::from(params.slots_to_midnight(slot))));
        // An account is below 2^60, since rho < 2^40, and V below 2^66, since lambda < 2^33.
        let (square, unit) = (params.squared_scale(), u128::from(weight) * UNITS_OF_RHO);
        let most = i64::try_from((*allowed * square / unit).isqrt()).unwrap_or(i64::MAX);
        let part = Reading::new(reading.watts().clamp(-most, most));
        // A reading is below 2^40 W, so that this is below 2^121.
        let cost = (u128::from(part.watts().unsigned_abs()).pow(2) * unit).div_ceil(square);
        *day.used += u64::try_from(cost).expect("no more than is allowed");
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
        self.days.iter().fold(head, |writer, (&number, Day { cost, used })| {
            let head = writer.uint(number).uint(cost.micro_epsilon).uint(cost.micro_rho);
            head.bytes(&*Zeroizing::new(used.to_be_bytes()))
        })
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::read_each(reader, |reader, micro_epsilon, micro_rho| {
            let used = Zeroizing::new(u64::from_be_bytes(*Zeroizing::new(reader.fixed("account of a day")?)));
            let within = u128::from(*used) <= u128::from(micro_rho) << UNITS_OF_A_MILLIONTH;
            let cost = DayCost { micro_epsilon, micro_rho };
            within.then_some(Day { cost, used }).ok_or(DecodeError::OutOfRange { field: "day" })
        })
    }

    /// Reads the days of a version whose accounts were of energy, in 16 bytes. Such a day keeps the pure epsilon that it had
    /// reserved, beside what it reserves from now on.
    pub(crate) fn read_energy(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::read_each(reader, |reader, plain, reserved| {
            let _used: Zeroizing<[u8; 16]> = Zeroizing::new(reader.fixed("energy account")?);
            let cost = DayCost { micro_epsilon: plain.saturating_add(reserved), micro_rho: 0 };
            Ok(Day { cost, used: Zeroizing::default() })
        })
    }

    fn read_each<'a>(
        reader: &mut Reader<'a>,
        day: impl Fn(&mut Reader<'a>, u64, u64) -> Result<Day, DecodeError>,
    ) -> Result<Self, DecodeError> {
        let days = (0..reader.array_of_any()? / 4).map(|_| {
            let number = reader.below(u64::MAX / DAY_SECONDS, "day")?;
            let (first, second) = (reader.uint()?, reader.uint()?);
            Ok((number, day(reader, first, second)?))
        });
        Ok(Self { days: days.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{MAX_DAY_MICRO_RHO, MAX_EPSILON_PART, Terms};

    const DAY: u64 = 7;

    /// Slots of four hours, of which the last four may use all that is left.
    const SLOTS: Terms = Terms { hi: 1000, epsilon_denominator: 1, ..Terms::with_slots_of(14_400) };

    fn params(terms: Terms) -> Params {
        Params::new(100, Terms { max_malicious: 10, ..terms }).unwrap()
    }

    /// Lambda is 1000 W, so that a square kilowatt costs 1.
    fn stating(day_micro_rho: u64) -> Params {
        params(Terms { day_micro_rho, ..SLOTS })
    }

    /// Lambda is 2000 W here.
    fn signed(day_micro_rho: u64) -> Params {
        params(Terms { lo: -1000, day_micro_rho, ..SLOTS })
    }

    /// One attempt as a strict meter makes it, in a slot of the day.
    fn report(days: &mut Days, number: u64, params: &Params, watts: i64) -> Option<i64> {
        let slot = Slot(params.slot_at(Timestamp::from_secs(DAY * DAY_SECONDS)).0 + number);
        let (day, largest) = (params.slot_start(slot).utc_day(), params.terms().day_micro_rho);
        days.allow(day, params, largest, &Policy::default_rules()).then(|| {
            days.charge(day, params, largest);
            days.grant(slot, params, &params.clip(watts), params.day_weight()).watts()
        })
    }

    fn reports<const N: usize>(days: &mut Days, params: &Params, watts: [(u64, i64); N]) -> [i64; N] {
        watts.map(|(number, watts)| report(days, number, params, watts).unwrap())
    }

    #[test]
    fn what_is_left_of_a_reading_is_reported_in_part_and_then_nothing() {
        let (mut days, two) = (Days::default(), stating(2_000_000));
        let found = reports(&mut days, &two, [(2, 1000), (3, 600), (4, 9000), (5, 1000), (5, 1), (6, 9000)]);
        assert_eq!(found, [1000, 600, 800, 0, 0, 1000], "1 + 0.36 + 0.64; never silent; another day");
        let cost = days.cost(Timestamp::from_secs(DAY * DAY_SECONDS));
        assert_eq!(cost, DayCost { micro_epsilon: 0, micro_rho: 2_000_000 });
    }

    #[test]
    fn a_slot_leaves_something_for_those_after_it() {
        let (mut days, one) = (Days::default(), stating(1_000_000));
        let found = reports(&mut days, &one, [(0, 1000), (1, 1000), (2, 1000), (3, 1000)]);
        // 4/6 of 1, 4/5 of the third that is left, and then all but what whole watts leave.
        assert_eq!(found, [816, 517, 258, 17]);
        let ten_minutes =
            params(Terms { hi: 6000, epsilon_denominator: 1, day_micro_rho: 1_000_000, ..Terms::DEFAULT });
        let mut days = Days::default();
        let found: Vec<i64> = (0..144).map(|number| report(&mut days, number, &ten_minutes, 6000).unwrap()).collect();
        assert_eq!(found[..3], [999, 989, 978], "4/144 of the square of 6,000, rounded down, and so on");
        assert!(found.is_sorted_by(|one, next| one >= next) && found[140] > 0);
    }

    #[test]
    fn readings_that_may_be_negative_cost_twice_their_square() {
        let mut days = Days::default();
        let found = reports(&mut days, &signed(500_000), [(2, -600), (3, 700), (4, -1000), (5, 1000)]);
        // Squares of 4 * 0.5 / 2 = 1 square kilowatt.
        assert_eq!(found, [-600, 700, -387, 15], "what a whole watt leaves");
        let found = reports(&mut Days::default(), &stating(250_000), [(2, 400), (3, 1000)]);
        assert_eq!(found, [400, 300]);
    }

    #[test]
    fn lists_of_both_kinds_share_one_account() {
        let mut days = Days::default();
        assert_eq!(report(&mut days, 2, &signed(1_000_000), -1000), Some(-1000), "a half");
        assert_eq!(report(&mut days, 3, &stating(1_000_000), 1000), Some(707), "the other half");
        assert_eq!(report(&mut days, 4, &signed(1_000_000), 1000), Some(17), "707 is less than 707.1");
    }

    #[test]
    fn an_account_that_holds_more_than_its_day_has_is_damaged() {
        let read = |number: u64, micro_rho: u64, used: u64| {
            let cost = DayCost { micro_epsilon: 0, micro_rho };
            let days = Days { days: [(number, Day { cost, used: Zeroizing::new(used) })].into() };
            let bytes = days.write(Writer::array(1)).finish();
            let mut reader = Reader::new(&bytes);
            reader.array_of_any().unwrap();
            Days::read(&mut reader).map(|found| assert_eq!(found, days))
        };
        let damaged = Err(DecodeError::OutOfRange { field: "day" });
        // In units of 2^-20 of a millionth.
        for rho in [0, 1, 2_000_000] {
            assert_eq!(read(DAY, rho, rho << 20), Ok(()), "all of it is used");
            assert_eq!(read(DAY, rho, (rho << 20) + 1), damaged);
            assert_eq!(read(DAY, rho, u64::MAX), damaged);
        }
        let last = u64::MAX / DAY_SECONDS - 1;
        assert_eq!((read(last, 1, 1), read(last + 1, 1, 1)), (Ok(()), damaged), "a day that no clock can show");
    }

    #[test]
    fn the_rho_of_a_day_is_what_its_first_reading_reserved() {
        let (small, large) = (stating(1_000_000), stating(2_000_000));
        let mut days = Days::default();
        assert_eq!(report(&mut days, 2, &small, 800), Some(800));
        assert_eq!(report(&mut days, 3, &large, 800), Some(600), "it is not raised");
        assert_eq!(report(&mut days, 8, &large, 1000), Some(1000));
        assert_eq!(report(&mut days, 9, &small, 1000), Some(0), "a list that states less gets less");
        assert_eq!(report(&mut days, 10, &large, 1000), Some(1000));
        assert_eq!(days.cost(Timestamp::from_secs((DAY + 1) * DAY_SECONDS)).micro_rho, 2_000_000);
    }

    #[test]
    fn attempts_without_rho_cost_their_epsilon_beside_it_and_each_has_its_limit() {
        let (plain, two) = (stating(0), stating(2_000_000));
        let mut days = Days::default();
        assert!((0..100).all(|_| report(&mut days, 0, &plain, 9000) == Some(1000)));
        assert_eq!(report(&mut days, 0, &plain, 0), None, "100 is the most");
        assert_eq!(report(&mut days, 2, &two, 1000), Some(1000), "and no part of rho");
        let cost = days.cost(Timestamp::from_secs(DAY * DAY_SECONDS));
        assert_eq!(cost, DayCost { micro_epsilon: 100_000_000, micro_rho: 2_000_000 });
        assert_eq!(report(&mut Days::default(), 2, &stating(2_000_001), 0), None);
    }

    #[test]
    fn rounding_never_favours_the_reading_and_nothing_overflows() {
        let last = |params: &Params| params.slot_at(Timestamp::from_secs((DAY + 1) * DAY_SECONDS - 1));
        let widest = Terms { day_micro_rho: MAX_DAY_MICRO_RHO - 1, ..Terms::DEFAULT };
        for terms in [
            Terms { hi: (1 << 40) / 301, epsilon_denominator: 1, ..widest },
            Terms { lo: -(1 << 30), hi: 1 << 30, epsilon_denominator: 1, ..widest },
            Terms { hi: 8000, epsilon_denominator: MAX_EPSILON_PART / 4, ..widest },
            Terms { hi: 1 << 31, epsilon_numerator: MAX_EPSILON_PART, epsilon_denominator: 999_999, ..widest },
            Terms { hi: 7, epsilon_numerator: 6, epsilon_denominator: 1, day_micro_rho: 1, ..widest },
            Terms { hi: 4999, epsilon_numerator: 7, epsilon_denominator: 9, day_micro_rho: 1_000_001, ..widest },
        ] {
            let params = params(terms);
            let mut days = Days::default();
            days.charge(DAY, &params, terms.day_micro_rho);
            for _ in 0..5 {
                days.grant(last(&params), &params, &params.clip(i64::MAX), params.day_weight());
                days.grant(last(&params), &params, &params.clip(i64::MIN), params.day_weight());
            }
            let used = *days.days[&DAY].used;
            assert!(u128::from(used) <= u128::from(terms.day_micro_rho) << UNITS_OF_A_MILLIONTH, "{terms:?}");
            assert!(used > 0 || terms.day_micro_rho == 1, "{terms:?}");
        }
    }

    #[test]
    fn records_keep_an_account_and_its_length_tells_nothing() {
        let two = stating(2_000_000);
        let [mut empty, mut used] = [Days::default(), Days::default()];
        for (days, watts) in [(&mut empty, 0), (&mut used, 1000)] {
            for _ in 0..4 {
                report(days, 4, &two, watts).unwrap();
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

    #[test]
    fn a_day_of_an_earlier_version_keeps_the_epsilon_that_it_had_reserved() {
        let earlier = Writer::array(1).nested_array(4).uint(DAY).uint(5).uint(72_000_000).bytes(&[1; 16]).finish();
        let mut reader = Reader::new(&earlier);
        reader.array(1).unwrap();
        let mut days = Days::read_energy(&mut reader).unwrap();
        assert_eq!(report(&mut days, 4, &stating(2_000_000), 1000), Some(1000));
        let cost = days.cost(Timestamp::from_secs(DAY * DAY_SECONDS));
        assert_eq!(cost, DayCost { micro_epsilon: 72_000_005, micro_rho: 2_000_000 });
    }
}
