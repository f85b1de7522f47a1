//! Decimals read exactly: a counter of a meter has more digits than a 32-bit float keeps.

/// The largest number that is read, in thousandths: a counter of a billion kWh, in mWh.
const LARGEST: i128 = 1_000_000_000_000_000;

/// Reads a decimal such as `-12.5` or `1.2e3`, times ten to the power of `exponent`, in thousandths, rounded half away from
/// zero. `None` for anything else: empty text, words, `NaN`, and numbers beyond what any meter shows.
pub(crate) fn thousandths(text: &str, exponent: i32) -> Option<i64> {
    let (mantissa, written) = match text.split_once(['e', 'E']) {
        Some((mantissa, written)) => {
            (mantissa, written.parse::<i32>().ok().filter(|power| (-40..=40).contains(power))?)
        }
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, places) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + places.len() == 0 || whole.len() + places.len() > 30 || !all_digits(whole) || !all_digits(places) {
        return None;
    }
    let number = whole.bytes().chain(places.bytes()).fold(0i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
    let places = i32::try_from(places.len()).ok()?;
    let magnitude = scaled(number, exponent.checked_add(written)?.checked_add(3)?.checked_sub(places)?)?;
    let magnitude = i64::try_from(magnitude).ok()?;
    Some(if negative { -magnitude } else { magnitude })
}

/// Returns the step of a decimal as it is written, times ten to the power of `exponent`, in thousandths: 1000 for `115`, 1 for
/// `0.115` and for anything finer.
pub(crate) fn step(text: &str, exponent: i32) -> i64 {
    let (text, written) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent = exponent.saturating_add(written.parse().unwrap_or(0)).clamp(-20, 15);
    let places = text.split_once('.').map_or(0, |(_, places)| places.bytes().take_while(u8::is_ascii_digit).count());
    let exponent = exponent + 3 - i32::try_from(places).unwrap_or(i32::MAX / 2);
    10i64.saturating_pow(exponent.max(0).unsigned_abs())
}

/// Returns `number`, not negative, times ten to the power of `exponent`, rounded half up.
fn scaled(number: i128, exponent: i32) -> Option<i128> {
    let factor = 10i128.checked_pow(exponent.unsigned_abs());
    let scaled = match (exponent >= 0, factor) {
        (true, Some(factor)) => number.checked_mul(factor)?,
        (true, None) if number == 0 => 0,
        (true, None) => return None,
        (false, Some(factor)) => rounded(number, factor),
        (false, None) => 0,
    };
    (scaled <= LARGEST).then_some(scaled)
}

/// Divides, and rounds half away from zero. The divisor is above zero.
pub(crate) fn rounded(dividend: i128, divisor: i128) -> i128 {
    let (quotient, rest) = (dividend / divisor, dividend % divisor);
    if rest.abs() * 2 >= divisor { quotient + dividend.signum() } else { quotient }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_to_the_last_digit() {
        for (text, exponent, expected) in [
            ("007881.115", 3, 7_881_115_000),
            ("-6", 0, -6_000),
            ("+0.0005", 0, 1),
            ("-0.0005", 0, -1),
            ("0.00049", 0, 0),
            ("1.2e3", 0, 1_200_000),
            ("12E-1", 0, 1_200),
            (".5", 0, 500),
            ("5.", 0, 5_000),
            ("22", -3, 22),
            ("38118.691500000001", 0, 38_118_692),
            ("0", 40, 0),
        ] {
            assert_eq!(thousandths(text, exponent), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_step_is_what_the_last_written_place_stands_for() {
        assert_eq!(
            [step("7881.115", 3), step("25688", 3), step("0.10", 0), step("-1.23456", 0)],
            [1_000, 1_000_000, 10, 1]
        );
    }

    #[test]
    fn what_is_no_number_of_a_meter_is_none() {
        for text in
            ["", "-", ".", "1.2.3", "NaN", "inf", "unavailable", "1,5", " 1", "1e99", "1e", "9999999999999999", "٣"]
        {
            assert_eq!(thousandths(text, 0), None, "{text}");
        }
    }
}
