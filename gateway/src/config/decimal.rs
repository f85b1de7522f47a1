//! Decimals as exact fractions: a privacy parameter is never rounded.

use std::fmt;

use dream_protocol::params::{MAX_DAY_MICRO_RHO, Share};

/// A decimal of at most nine places, in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fraction {
    pub(crate) numerator: u64,
    pub(crate) denominator: u64,
}

impl Fraction {
    /// Reads `digits[.digits]`; `None` for anything else, also for signs and exponents.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.len() <= 9 && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(places) {
            return None;
        }
        let denominator = 10u64.pow(u32::try_from(places.len()).ok()?);
        Some(Self::reduced(whole.parse::<u64>().ok()? * denominator + places.parse::<u64>().ok()?, denominator))
    }

    /// Returns so many millionths.
    pub(crate) fn millionths(count: u64) -> Self {
        Self::reduced(count, 1_000_000)
    }

    fn reduced(numerator: u64, denominator: u64) -> Self {
        let divisor = greatest_common_divisor(numerator, denominator);
        Self { numerator: numerator / divisor, denominator: denominator / divisor }
    }

    /// Returns it as a share of the members, from 0 to 1.
    pub(crate) fn share(self) -> Option<Share> {
        Share::new(self.numerator.try_into().ok()?, self.denominator.try_into().ok()?)
    }
}

impl From<(u64, u64)> for Fraction {
    fn from((numerator, denominator): (u64, u64)) -> Self {
        Self::reduced(numerator, denominator)
    }
}

impl fmt::Display for Fraction {
    /// Writes the decimal, exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.numerator / self.denominator, self.numerator % self.denominator);
        // The denominator divides 10^9.
        let places = format!("{:09}", rest * (1_000_000_000 / self.denominator));
        match places.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            places => write!(f, "{whole}.{places}"),
        }
    }
}

/// Epsilon of one attempt: above 0, and both parts at most a million.
pub(crate) fn epsilon(text: &str) -> Option<Fraction> {
    let small = |part: u64| (1..=1_000_000).contains(&part);
    Fraction::parse(text).filter(|epsilon| small(epsilon.numerator) && small(epsilon.denominator))
}

/// Epsilon of a day, but for a probability of one in a million, in millionths: from 0, which is none, with at most six places.
pub(crate) fn day_micro_epsilon(text: &str) -> Option<u64> {
    let Fraction { numerator, denominator } = Fraction::parse(text)?;
    let exact = 1_000_000u64.is_multiple_of(denominator).then(|| numerator.checked_mul(1_000_000 / denominator))?;
    // Rho is below epsilon.
    exact.filter(|&micro| micro < MAX_DAY_MICRO_RHO)
}

/// Parses a share of the members, from 0 to 1.
pub(crate) fn share(text: &str) -> Option<Share> {
    Fraction::parse(text)?.share()
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epsilon_is_above_zero_and_a_share_at_most_all() {
        assert_eq!(epsilon("0.000001"), Some(Fraction { numerator: 1, denominator: 1_000_000 }));
        assert_eq!(epsilon("1000000"), Some(Fraction { numerator: 1_000_000, denominator: 1 }));
        assert!(["0", "0.0000001", "1000001", "1000000.5"].into_iter().all(|text| epsilon(text).is_none()));
        assert_eq!((share("0"), share("1")), (Share::new(0, 1), Share::new(1, 1)));
        assert!(["1.1", "a tenth"].into_iter().all(|text| share(text).is_none()));
    }

    #[test]
    fn the_epsilon_of_a_day_is_none_or_a_number_of_millionths() {
        let found = ["0", "72", "0.000001", "45.5", "1099511.627775"].map(day_micro_epsilon);
        assert_eq!(found, [0, 72_000_000, 1, 45_500_000, (1 << 40) - 1].map(Some));
        assert!(
            ["-1", "0.0000001", "1099511.627776", "999999999", "none"]
                .map(day_micro_epsilon)
                .iter()
                .all(Option::is_none)
        );
    }

    #[test]
    fn decimals_are_exact_and_in_lowest_terms() {
        let parse = |text| Fraction::parse(text).map(|found| (found.numerator, found.denominator));
        assert_eq!(parse("1"), Some((1, 1)));
        assert_eq!(parse("0.1"), Some((1, 10)));
        assert_eq!(parse("0.250"), Some((1, 4)));
        assert_eq!(parse("12.5"), Some((25, 2)));
        assert_eq!(parse("0"), Some((0, 1)));
        for text in ["1", "0.1", "12.5", "0", "0.055555", "1099511.627775", "0.000000001"] {
            assert_eq!(Fraction::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Fraction::millionths(4_500_000), Fraction { numerator: 9, denominator: 2 });
        for bad in ["", ".", ".5", "1.", "-1", "+1", "1e3", "1,5", "0.0000000001", "inf", "NaN", "1.2.3"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
