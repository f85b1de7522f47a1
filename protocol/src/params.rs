//! The parameters of a membership list: valid by construction.

use core::fmt;

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

use crate::day::DAY_SECONDS;
use crate::noise::Scale;
use crate::reading::Reading;
use crate::scheme::Scheme;
use crate::scheme::committee::CommitteeError;
use crate::scheme::pairwise::partners;
use crate::time::{Slot, Timestamp};

/// The most members a list may have.
pub const MAX_MEMBERS: usize = 10_000;

/// The most authorities that a list may name.
pub const MAX_AUTHORITIES: usize = 16;

/// The most members of a list that lets them mask with some others only: whether that is safe takes a sum of up to N^2/8
/// terms, and the gateway chooses N.
pub const MAX_PARTIAL_MEMBERS: u16 = 1000;

/// The rho of a day stays below this, in millionths, so that a meter's account fits 128 bits.
pub const MAX_DAY_MICRO_RHO: u64 = 1 << 40;

/// The largest numerator and denominator of an epsilon.
pub const MAX_EPSILON_PART: u64 = 1_000_000;

/// Largest slot that a list may end with: far beyond any clock, and small enough that no time of it overflows.
pub const MAX_SLOT: u64 = 1 << 40;

/// Epochs stay below this, so that one always follows.
pub const MAX_EPOCH: u64 = 1 << 40;

/// The parameters as a list states them, unchecked (`protocol.md 7`, message 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub slot_seconds: u64,
    pub reading_seconds: u64,
    pub reveal_seconds: u64,
    /// M: how many members may be silent.
    pub max_missing: u64,
    /// T: how many members may collude.
    pub max_malicious: u64,
    pub scheme: Scheme,
    /// The least and the greatest reading in watts.
    pub lo: i64,
    pub hi: i64,
    /// Epsilon of one attempt, as a fraction.
    pub epsilon_numerator: u64,
    pub epsilon_denominator: u64,
    /// The rho of all slots of a UTC day together, in millionths; 0 for none.
    pub day_micro_rho: u64,
    pub attempts: u64,
}

impl Terms {
    /// What the gateway states unless it is configured otherwise, for homes of the kind `house`. M and T depend on the
    /// members, and are 0 here.
    pub const DEFAULT: Self = Self {
        slot_seconds: 600,
        reading_seconds: 60,
        reveal_seconds: 60,
        max_missing: 0,
        max_malicious: 0,
        scheme: Scheme::PAIRWISE,
        lo: 0,
        hi: 8000,
        epsilon_numerator: 1,
        epsilon_denominator: 2,
        day_micro_rho: 1_722_657,
        attempts: 2,
    };

    /// Returns the defaults for slots of another length: each window is a tenth of a slot.
    pub const fn with_slots_of(seconds: u64) -> Self {
        Self { slot_seconds: seconds, reading_seconds: seconds / 10, reveal_seconds: seconds / 10, ..Self::DEFAULT }
    }

    /// Returns these terms with the least rho under which a meter can report a day of readings with this root mean square:
    /// `w * slots * rms^2 / lambda^2`, rounded up to millionths, and no more than a list may state.
    #[must_use]
    pub const fn with_day_rms(self, watts: u64) -> Self {
        let squares = weight_of(self.lo) as u128 * slots_of_a_day(self.slot_seconds) as u128 * (watts as u128).pow(2);
        let above = squares.saturating_mul(1_000_000).saturating_mul((self.epsilon_numerator as u128).pow(2));
        let scale = self.hi.abs_diff(self.lo) as u128 * self.epsilon_denominator as u128;
        let least = match scale.saturating_mul(scale) {
            0 => 1,
            below => above.div_ceil(below),
        };
        let most = MAX_DAY_MICRO_RHO as u128 - 1;
        Self { day_micro_rho: narrow_u64(if least < most { least } else { most }), ..self }
    }

    /// Returns these terms with this rho and the largest epsilon of an attempt under which a meter can report a day of readings
    /// with this root mean square, but no more than `most_micro_epsilon`: a decimal, rounded down, so that the noise is never
    /// too small. `None` if it would be less than a millionth.
    pub fn with_day_rho(self, day_micro_rho: u64, rms_watts: u64, most_micro_epsilon: u64) -> Option<Self> {
        let width = u128::from(self.hi.abs_diff(self.lo));
        let above = width.saturating_mul(width).saturating_mul(1_000_000 * u128::from(day_micro_rho));
        let each = u128::from(weight_of(self.lo)) * u128::from(slots_of_a_day(self.slot_seconds));
        let fitting = above.checked_div(each * u128::from(rms_watts).pow(2)).unwrap_or(u128::MAX).isqrt();
        // A range without width is refused as such.
        let fitting = if width == 0 { u128::MAX } else { fitting };
        let micro = u64::try_from(fitting).unwrap_or(u64::MAX).min(most_micro_epsilon.max(1));
        // A numerator of more than a million takes fewer places.
        let mut units = core::iter::successors(Some(1u64), |unit| unit.checked_mul(10));
        let unit = units.find(|unit| micro / unit <= MAX_EPSILON_PART)?;
        let epsilon = Scale::checked(micro - micro % unit, MAX_EPSILON_PART)?;
        let (epsilon_numerator, epsilon_denominator) = (epsilon.numerator(), epsilon.denominator());
        Some(Self { epsilon_numerator, epsilon_denominator, day_micro_rho, ..self })
    }
}

impl Terms {
    /// Returns the parameters of a list of so many members, of whom these shares may be silent and malicious.
    ///
    /// M is rounded down, so that no more members may be silent than the share allows. T is rounded up, so that no fewer
    /// colluders are reckoned with, and at least what meters ask for. Nothing else in the project turns shares into numbers.
    pub fn for_members(
        self,
        members: u16,
        silent: Share,
        malicious: Share,
        least_malicious: u16,
    ) -> Result<Params, ParamsError> {
        let max_missing = silent.floor_of(members);
        let stated = malicious.ceil_of(members);
        // What meters ask for makes up for a small cluster, not for a share that no larger one may have.
        let least = if 10 * stated < u64::from(members) { 0 } else { u64::from(least_malicious) };
        let max_malicious = stated.max(least);
        Params::new(members.into(), Self { max_missing, max_malicious, ..self })
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A share of a cluster's members, exact: from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    numerator: u32,
    denominator: u32,
}

impl Share {
    /// `None` unless `0 <= numerator <= denominator` and `denominator > 0`.
    pub const fn new(numerator: u32, denominator: u32) -> Option<Self> {
        if denominator == 0 || numerator > denominator { None } else { Some(Self { numerator, denominator }) }
    }

    /// Rounds down.
    fn floor_of(self, members: u16) -> u64 {
        u64::from(self.numerator) * u64::from(members) / u64::from(self.denominator)
    }

    /// Rounds up.
    fn ceil_of(self, members: u16) -> u64 {
        (u64::from(self.numerator) * u64::from(members)).div_ceil(self.denominator.into())
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f64::from(self.numerator) / f64::from(self.denominator)).fmt(f)
    }
}

/// Why [`Terms`] do not make [`Params`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ParamsError {
    #[error("a list has 1 to {MAX_MEMBERS} members, this one has {members}")]
    Members { members: usize },
    #[error("{missing} of {members} members may be silent; the most is a fifth, {most}")]
    TooManyMissing { missing: u64, members: u64, most: u64 },
    #[error("only {malicious} of {members} members may be malicious; the least is a tenth, {least}")]
    TooFewMalicious { malicious: u64, members: u64, least: u64 },
    #[error("{missing} silent and {malicious} malicious leave no honest one of {members} members")]
    NoneHonest { missing: u64, malicious: u64, members: u64 },
    #[error("the range {lo}..{hi} W must contain 0 and at least one other value")]
    Range { lo: i64, hi: i64 },
    #[error("epsilon {numerator}/{denominator}: both must be from 1 to {MAX_EPSILON_PART}")]
    Epsilon { numerator: u64, denominator: u64 },
    #[error("the rho of a day is {found} millionths; it must be below 2^40")]
    DayRho { found: u64 },
    #[error("the noise has a scale below 1 W, which no account of a day allows for; raise the range or lower epsilon")]
    DayScale,
    #[error(
        "{attempts} attempts of {reading} + {reveal} s do not fit a slot of {slot} s; every part must be at least 1"
    )]
    Windows { attempts: u64, reading: u64, reveal: u64, slot: u64 },
    #[error("the sum of {members} readings and its noise could reach 2^40; lower the range or raise epsilon")]
    TooLarge { members: u64 },
    #[error(
        "{partners} mask partners of {members} members do not keep the honest ones connected (`protocol.md 6`); use 0 \
         for all"
    )]
    TooFewPartners { partners: u64, members: u64 },
    #[error(
        "{partners} mask partners of {members} members: with more than {MAX_PARTIAL_MEMBERS} members all others are \
         partners; use 0"
    )]
    TooLargeForPartners { partners: u64, members: u64 },
    #[error(transparent)]
    Committee(#[from] CommitteeError),
}

/// Checked parameters of one list, and everything derived from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    members: u16,
    terms: Terms,
}

impl Params {
    pub fn new(members: usize, terms: Terms) -> Result<Self, ParamsError> {
        let params = Self::unconnected(members, terms)?;
        params.check_partners()?;
        Ok(params)
    }

    /// Checks everything but whether there are enough mask partners, which takes long for large lists.
    pub(crate) fn unconnected(members: usize, terms: Terms) -> Result<Self, ParamsError> {
        let count = u16::try_from(members).ok().filter(|&n| n > 0 && usize::from(n) <= MAX_MEMBERS);
        let count = count.ok_or(ParamsError::Members { members })?;
        let params = Self { members: count, terms };
        params.check_tolerances()?;
        params.check_numbers()?;
        params.check_windows()?;
        params.check_committee()?;
        Ok(params)
    }

    pub(crate) fn check_partners(&self) -> Result<(), ParamsError> {
        let (partners, members) = (self.terms.scheme.partners(), self.members.into());
        if partners::threshold(self).is_none() {
            return Ok(());
        }
        if self.members > MAX_PARTIAL_MEMBERS {
            return Err(ParamsError::TooLargeForPartners { partners, members });
        }
        if partners::suffice(self) { Ok(()) } else { Err(ParamsError::TooFewPartners { partners, members }) }
    }

    /// Skips every check, so that a test can ask about parameters that no list may have.
    #[cfg(test)]
    pub(crate) const fn unchecked(members: u16, terms: Terms) -> Self {
        Self { members, terms }
    }

    /// N.
    pub const fn members(&self) -> u16 {
        self.members
    }

    /// M.
    pub const fn max_missing(&self) -> u16 {
        narrow(self.terms.max_missing)
    }

    /// T.
    pub const fn max_malicious(&self) -> u16 {
        narrow(self.terms.max_malicious)
    }

    /// n = N - M - T: how many honest shares add up to the whole noise.
    pub const fn honest(&self) -> u16 {
        self.members - self.max_missing() - self.max_malicious()
    }

    /// D = hi - lo, the sensitivity.
    pub const fn sensitivity(&self) -> u64 {
        self.terms.hi.abs_diff(self.terms.lo)
    }

    /// lambda = D / epsilon, the scale of the whole noise.
    pub fn noise_scale(&self) -> Scale {
        Scale::new(self.sensitivity() * self.terms.epsilon_denominator, self.terms.epsilon_numerator)
    }

    /// What one attempt costs a meter's ledger: `ceil(10^6 * epsilon)`.
    pub const fn charge_micro_epsilon(&self) -> u64 {
        (1_000_000 * self.terms.epsilon_numerator).div_ceil(self.terms.epsilon_denominator)
    }

    /// V = floor(lambda^2): what the square of a reading is measured against.
    pub(crate) fn squared_scale(&self) -> u128 {
        let lambda = self.noise_scale();
        u128::from(lambda.numerator()).pow(2) / u128::from(lambda.denominator()).pow(2)
    }

    /// How many times the square of a reading counts: twice if readings may be negative.
    pub(crate) const fn day_weight(&self) -> u8 {
        weight_of(self.terms.lo)
    }

    /// How many slots start on a UTC day, or one more than on some of them.
    pub const fn slots_of_a_day(&self) -> u64 {
        slots_of_a_day(self.terms.slot_seconds)
    }

    /// How many slots there are from this one to the last that starts on the same UTC day.
    pub(crate) const fn slots_to_midnight(&self, slot: Slot) -> u64 {
        let midnight = (self.slot_start(slot).utc_day() + 1) * DAY_SECONDS;
        self.slot_at(Timestamp::from_secs(midnight - 1)).0 - slot.0 + 1
    }

    /// What the first attempts of a UTC day cost together under this list alone, where it states no rho, in millionths of
    /// epsilon. Retries then cost more.
    pub const fn plain_day_micro_epsilon(&self) -> u64 {
        self.slots_of_a_day().saturating_mul(self.charge_micro_epsilon())
    }

    /// The largest root mean square of a day's readings that a meter can report under rho, in watts. `None` without rho.
    pub fn day_rms_watts(&self) -> Option<u64> {
        let squares = u128::from(self.terms.day_micro_rho) * self.squared_scale();
        let each = 1_000_000 * u128::from(self.day_weight()) * u128::from(self.slots_of_a_day());
        let rms = u64::try_from((squares / each).isqrt()).expect("below 2^53");
        (self.terms.day_micro_rho > 0).then_some(rms)
    }

    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    pub const fn attempts(&self) -> u8 {
        narrow_u8(self.terms.attempts)
    }

    pub(crate) fn clip(&self, watts: i64) -> Reading {
        Reading::new(watts.clamp(self.terms.lo, self.terms.hi))
    }

    /// Whether a decoded sum can be one: within 100 noise scales of what N readings can add up to.
    pub fn is_plausible(&self, sum: i64) -> bool {
        self.could_be_of(self.members.into(), 100, sum)
    }

    /// Whether a decoded sum is none, and would be none with or without any one reading and its share of the noise.
    pub fn is_beyond_doubt(&self, sum: i64) -> bool {
        !self.could_be_of(i128::from(self.members) + 1, 200, sum)
    }

    /// Whether a sum is within so many noise scales of what so many readings can add up to.
    fn could_be_of(&self, members: i128, scales: i128, sum: i64) -> bool {
        let (sum, unit) = (i128::from(sum), i128::from(self.terms.epsilon_numerator));
        let noise = scales * i128::from(self.sensitivity()) * i128::from(self.terms.epsilon_denominator);
        let least = members * i128::from(self.terms.lo) * unit - noise;
        let most = members * i128::from(self.terms.hi) * unit + noise;
        (least..=most).contains(&(sum * unit))
    }

    /// The slot that contains `at`.
    pub const fn slot_at(&self, at: Timestamp) -> Slot {
        Slot(at.as_secs() / self.terms.slot_seconds)
    }

    pub const fn slot_start(&self, slot: Slot) -> Timestamp {
        Timestamp::from_secs(slot.0.saturating_mul(self.terms.slot_seconds))
    }

    /// The end of the slot, where its readings are due.
    pub const fn slot_end(&self, slot: Slot) -> Timestamp {
        self.slot_start(slot.plus(1))
    }

    /// The end of the following slot, after which nothing of this one is left open.
    pub const fn slot_expiry(&self, slot: Slot) -> Timestamp {
        self.slot_start(slot.plus(2))
    }

    fn check_tolerances(&self) -> Result<(), ParamsError> {
        let members = u64::from(self.members);
        let Terms { max_missing: missing, max_malicious: malicious, .. } = self.terms;
        if missing > members / 5 {
            return Err(ParamsError::TooManyMissing { missing, members, most: members / 5 });
        }
        let least = members.div_ceil(10);
        if malicious < least {
            return Err(ParamsError::TooFewMalicious { malicious, members, least });
        }
        if malicious >= members - missing {
            return Err(ParamsError::NoneHonest { missing, malicious, members });
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), ParamsError> {
        let Terms { lo, hi, epsilon_numerator: numerator, epsilon_denominator: denominator, .. } = self.terms;
        let small = |part: u64| (1..=MAX_EPSILON_PART).contains(&part);
        if !small(numerator) || !small(denominator) {
            return Err(ParamsError::Epsilon { numerator, denominator });
        }
        if self.terms.day_micro_rho >= MAX_DAY_MICRO_RHO {
            return Err(ParamsError::DayRho { found: self.terms.day_micro_rho });
        }
        if lo > 0 || hi < 0 || lo == hi {
            return Err(ParamsError::Range { lo, hi });
        }
        let [members, width, en, ed] = [self.members.into(), hi.abs_diff(lo), numerator, denominator].map(u128::from);
        if members * width * en + 200 * width * ed >= en << 40 {
            return Err(ParamsError::TooLarge { members: self.members.into() });
        }
        if self.terms.day_micro_rho > 0 && self.squared_scale() == 0 {
            return Err(ParamsError::DayScale);
        }
        Ok(())
    }

    fn check_committee(&self) -> Result<(), ParamsError> {
        let Terms { max_missing: missing, max_malicious: malicious, scheme, .. } = self.terms;
        match scheme.committee() {
            Some(committee) => Ok(committee.check(self.members.into(), missing, malicious)?),
            None => Ok(()),
        }
    }

    fn check_windows(&self) -> Result<(), ParamsError> {
        let Terms { attempts, reading_seconds: reading, reveal_seconds: reveal, slot_seconds: slot, .. } = self.terms;
        let fits = [attempts, reading, reveal, slot].iter().all(|&part| part > 0)
            && attempts <= u64::from(u8::MAX)
            && slot <= 86_400
            && reading.saturating_add(reveal).saturating_mul(attempts) <= slot;
        if fits { Ok(()) } else { Err(ParamsError::Windows { attempts, reading, reveal, slot }) }
    }
}

/// Narrows a tolerance that `check_tolerances` has held below N <= 10,000.
#[expect(clippy::cast_possible_truncation, reason = "bounded by the number of members")]
const fn narrow(count: u64) -> u16 {
    count as u16
}

const fn weight_of(lo: i64) -> u8 {
    if lo < 0 { 2 } else { 1 }
}

const fn slots_of_a_day(slot_seconds: u64) -> u64 {
    if slot_seconds == 0 { 0 } else { DAY_SECONDS.div_ceil(slot_seconds) }
}

#[expect(clippy::cast_possible_truncation, reason = "bounded by `MAX_DAY_MICRO_RHO`")]
const fn narrow_u64(count: u128) -> u64 {
    count as u64
}

#[expect(clippy::cast_possible_truncation, reason = "bounded by `check_windows`")]
const fn narrow_u8(count: u64) -> u8 {
    count as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: Terms = Terms { reveal_seconds: 30, max_missing: 10, max_malicious: 10, ..Terms::DEFAULT };

    const TERMS: Terms = Terms { hi: 5000, epsilon_denominator: 1, ..HOUSE };

    #[test]
    fn derived_values_follow_the_specification() {
        let params = Params::new(100, TERMS).unwrap();
        assert_eq!((params.honest(), params.sensitivity()), (80, 5000));
        assert_eq!(params.noise_scale(), Scale::new(5000, 1));
        assert_eq!(params.charge_micro_epsilon(), 1_000_000);
        let third = Params::new(100, Terms { epsilon_denominator: 3, ..TERMS }).unwrap();
        assert_eq!(third.charge_micro_epsilon(), 333_334);
        assert_eq!(third.noise_scale(), Scale::new(15_000, 1));
        assert_eq!(params.slot_at(Timestamp::from_secs(1199)), Slot(1));
        assert_eq!(params.slot_end(Slot(1)), Timestamp::from_secs(1200));
    }

    #[test]
    fn plausible_sums_end_where_the_specification_says() {
        let params = Params::new(100, TERMS).unwrap();
        assert!(params.is_plausible(-500_000) && !params.is_plausible(-500_001));
        assert!(params.is_plausible(1_000_000) && !params.is_plausible(1_000_001));
        assert!(!params.is_plausible(i64::MIN) && !params.is_plausible(i64::MAX));
    }

    #[test]
    fn a_sum_is_beyond_doubt_if_no_single_member_makes_it_plausible() {
        let params = Params::new(100, TERMS).unwrap();
        // One more reading of 5,000, and 100 more scales of 5,000.
        assert!(!params.is_beyond_doubt(1_505_000) && params.is_beyond_doubt(1_505_001));
        assert!(!params.is_beyond_doubt(-1_000_000) && params.is_beyond_doubt(-1_000_001));
        assert!(!params.is_beyond_doubt(1_000_001) && params.is_beyond_doubt(i64::MIN));
    }

    #[test]
    fn readings_are_clipped_to_the_range() {
        let params = Params::new(100, Terms { lo: -500, ..TERMS }).unwrap();
        let clip = |watts| params.clip(watts).watts();
        assert_eq!([clip(-501), clip(-500), clip(7), clip(5001), clip(i64::MAX)], [-500, -500, 7, 5000, 5000]);
    }

    #[test]
    fn every_limit_is_refused_by_name() {
        let refused = |terms| Params::new(100, terms).unwrap_err();
        assert!(matches!(Params::new(0, TERMS), Err(ParamsError::Members { .. })));
        assert!(matches!(Params::new(10_001, TERMS), Err(ParamsError::Members { .. })));
        assert!(matches!(refused(Terms { max_missing: 21, ..TERMS }), ParamsError::TooManyMissing { most: 20, .. }));
        assert!(matches!(refused(Terms { max_malicious: 9, ..TERMS }), ParamsError::TooFewMalicious { least: 10, .. }));
        assert!(matches!(refused(Terms { max_malicious: 90, ..TERMS }), ParamsError::NoneHonest { .. }));
        assert!(matches!(refused(Terms { max_malicious: u64::MAX, ..TERMS }), ParamsError::NoneHonest { .. }));
        for (lo, hi) in [(1, 2), (-2, -1), (0, 0), (5, -5)] {
            assert_eq!(refused(Terms { lo, hi, ..TERMS }), ParamsError::Range { lo, hi });
        }
        for (numerator, denominator) in [(0, 1), (1, 0), (1_000_001, 1), (1, 1_000_001), (u64::MAX, u64::MAX)] {
            let terms = Terms { epsilon_numerator: numerator, epsilon_denominator: denominator, ..TERMS };
            assert_eq!(refused(terms), ParamsError::Epsilon { numerator, denominator });
        }
        let endless = Terms { day_micro_rho: MAX_DAY_MICRO_RHO, ..TERMS };
        assert_eq!(refused(endless), ParamsError::DayRho { found: MAX_DAY_MICRO_RHO });
        assert!(Params::new(100, Terms { day_micro_rho: MAX_DAY_MICRO_RHO - 1, ..TERMS }).is_ok());
        let quiet = Terms { hi: 1, epsilon_numerator: 2, ..TERMS };
        assert_eq!(refused(quiet), ParamsError::DayScale);
        assert!(Params::new(100, Terms { epsilon_numerator: 1, ..quiet }).is_ok(), "lambda is 1 W");
        assert!(Params::new(100, Terms { day_micro_rho: 0, ..quiet }).is_ok());
        assert!(matches!(refused(Terms { hi: i64::MAX, lo: i64::MIN, ..TERMS }), ParamsError::TooLarge { .. }));
        assert!(matches!(
            refused(Terms { hi: 6000, epsilon_denominator: 1_000_000, ..TERMS }),
            ParamsError::TooLarge { .. }
        ));
        for terms in [
            Terms { attempts: 0, ..TERMS },
            Terms { attempts: 7, ..TERMS },
            Terms { reading_seconds: 0, ..TERMS },
            Terms { reveal_seconds: 0, ..TERMS },
            Terms { reading_seconds: u64::MAX, ..TERMS },
            Terms { reveal_seconds: u64::MAX, ..TERMS },
            Terms { slot_seconds: 0, ..TERMS },
            Terms { slot_seconds: 86_401, ..TERMS },
        ] {
            assert!(matches!(refused(terms), ParamsError::Windows { .. }), "{terms:?}");
        }
        assert!(matches!(
            refused(Terms { scheme: Scheme::Pairwise { partners: 46 }, ..TERMS }),
            ParamsError::TooFewPartners { .. }
        ));
        assert!(Params::new(100, Terms { scheme: Scheme::Pairwise { partners: 47 }, ..TERMS }).is_ok());
    }

    #[test]
    fn a_day_is_a_sum_of_squares_or_of_epsilons() {
        let house = Params::new(100, HOUSE).unwrap();
        assert_eq!((house.terms().day_micro_rho, house.day_rms_watts()), (1_722_657, Some(1750)));
        assert_eq!(HOUSE.with_day_rms(1750), HOUSE);
        let plain = Params::new(100, Terms { day_micro_rho: 0, epsilon_denominator: 3, ..HOUSE }).unwrap();
        assert_eq!((plain.plain_day_micro_epsilon(), plain.day_rms_watts()), (144 * 333_334, None));
        let with = |terms: Terms, rms| terms.with_day_rms(rms).day_micro_rho;
        assert_eq!(with(Terms { lo: -8000, ..HOUSE }, 2000), 1_125_000, "twice, at twice the lambda");
        assert_eq!(with(Terms { hi: 12_000, epsilon_denominator: 1, ..HOUSE }, 1000), 1_000_000);
        assert_eq!(with(Terms { hi: 7000, ..HOUSE }, 1000), 734_694, "rounded up");
        assert_eq!(with(HOUSE, u64::from(u32::MAX)), MAX_DAY_MICRO_RHO - 1, "the most that a list may state");
        assert_eq!([with(Terms { hi: 0, ..HOUSE }, 1), with(Terms { hi: i64::MAX, ..HOUSE }, 1)], [1, 1]);
    }

    #[test]
    fn the_epsilon_of_an_attempt_follows_from_rho() {
        let with = |terms: Terms, rho, most| {
            let found = terms.with_day_rho(rho, 1750, most)?;
            assert_eq!(found.day_micro_rho, rho);
            Some((found.epsilon_numerator, found.epsilon_denominator))
        };
        assert_eq!(with(HOUSE, 1_722_657, 1_000_000), Some((1, 2)));
        assert_eq!(with(HOUSE, 1_722_656, 1_000_000), Some((499_999, 1_000_000)), "rounded down");
        assert_eq!(with(HOUSE, 100_000_000, 1_000_000), Some((1, 1)), "the most");
        assert_eq!(with(HOUSE, 50_000_000, 9_000_000), Some((134_687, 50_000)), "in five places");
        assert_eq!(with(Terms { hi: 1, slot_seconds: 60, ..HOUSE }, 1, 1_000_000), None);
    }

    #[test]
    fn slots_are_counted_to_the_last_that_starts_before_midnight() {
        let left = |seconds, slot| Params::unchecked(100, Terms::with_slots_of(seconds)).slots_to_midnight(Slot(slot));
        assert_eq!([left(600, 0), left(600, 1), left(600, 143), left(600, 144)], [144, 143, 1, 144]);
        // Of 1,000 s, 87 start on the first day, and 86 on the second, from second 87,000 on.
        assert_eq!([left(1000, 0), left(1000, 86), left(1000, 87), left(1000, 172)], [87, 1, 86, 1]);
        assert_eq!(left(86_400, 9), 1);
    }

    #[test]
    fn a_large_cluster_masks_with_everybody() {
        let of = |members: usize, partners| {
            let tenth = u64::try_from(members.div_ceil(10)).unwrap();
            Params::new(
                members,
                Terms { max_missing: 0, max_malicious: tenth, scheme: Scheme::Pairwise { partners }, ..TERMS },
            )
        };
        assert!(of(1000, 900).is_ok());
        assert_eq!(of(1001, 999).unwrap_err(), ParamsError::TooLargeForPartners { partners: 999, members: 1001 });
        assert!(of(1001, 0).is_ok() && of(1001, 1000).is_ok() && of(1001, u64::MAX).is_ok());
    }

    #[test]
    fn the_least_number_of_colluders_is_reckoned_with_however_small_the_cluster() {
        let tenth = Share::new(1, 10).unwrap();
        let tolerances = |members, least| {
            let params = TERMS.for_members(members, tenth, tenth, least).unwrap();
            (params.max_missing(), params.max_malicious(), params.honest())
        };
        assert_eq!(tolerances(50, 10), (5, 10, 35));
        assert_eq!(tolerances(99, 10), (9, 10, 80));
        assert_eq!(tolerances(101, 10), (10, 11, 80));
        assert_eq!(tolerances(23, 3), (2, 3, 18));
        assert!(matches!(TERMS.for_members(11, tenth, tenth, 10), Err(ParamsError::NoneHonest { .. })));
        let twentieth = Share::new(1, 20).unwrap();
        let refused = TERMS.for_members(50, tenth, twentieth, 10).unwrap_err();
        assert_eq!(refused, ParamsError::TooFewMalicious { malicious: 3, members: 50, least: 5 });
    }
}
