//! Decimals as exact fractions: a privacy parameter is never rounded.

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
        let numerator = whole.parse::<u64>().ok()? * denominator + places.parse::<u64>().ok()?;
        let divisor = greatest_common_divisor(numerator, denominator);
        Some(Self { numerator: numerator / divisor, denominator: denominator / divisor })
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_in_lowest_terms() {
        let parse = |text| Fraction::parse(text).map(|found| (found.numerator, found.denominator));
        assert_eq!(parse("1"), Some((1, 1)));
        assert_eq!(parse("0.1"), Some((1, 10)));
        assert_eq!(parse("0.250"), Some((1, 4)));
        assert_eq!(parse("12.5"), Some((25, 2)));
        assert_eq!(parse("0"), Some((0, 1)));
        for bad in ["", ".", ".5", "1.", "-1", "+1", "1e3", "1,5", "0.0000000001", "inf", "NaN", "1.2.3"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
