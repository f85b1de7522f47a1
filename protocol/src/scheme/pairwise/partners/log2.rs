//! Logarithms to the base 2 in integers: every meter computes the same bound, with or without a floating-point unit.

/// How many bits of a logarithm are behind the point.
const FRACTION: u32 = 44;

/// A logarithm, in units of 2^-44. Errors are below one unit for one number, and add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Log2(i64);

impl Log2 {
    pub(super) const ONE: Self = Self(0);

    /// A whole power of two.
    pub(super) const fn power(exponent: i16) -> Self {
        Self((exponent as i64) << FRACTION)
    }

    /// The logarithm of a positive number, rounded down: squaring doubles it, and a square of two and more shows the next bit.
    pub(super) fn of(number: u64) -> Self {
        let exponent = number.ilog2();
        let mut mantissa = number << (63 - exponent);
        let mut bits = u64::from(exponent);
        for _ in 0..FRACTION {
            let square = u128::from(mantissa) * u128::from(mantissa);
            let carry = square >> 127;
            mantissa = narrow(square >> (63 + carry));
            bits = bits << 1 | narrow(carry);
        }
        Self(bits.cast_signed())
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(super) const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub(super) const fn times(self, factor: i64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    #[cfg(feature = "report")]
    #[expect(clippy::cast_precision_loss, reason = "a report")]
    pub(super) fn to_f64(self) -> f64 {
        self.0 as f64 / (1u64 << FRACTION) as f64
    }

    const fn split(self) -> (i64, u64) {
        (self.0 >> FRACTION, (self.0 & ((1 << FRACTION) - 1)).cast_unsigned())
    }
}

/// A sum of numbers given by their logarithms, without overflow or underflow: `sum * 2^(exponent - 63)`.
#[derive(Debug, Default)]
pub(super) struct Sum {
    exponent: i64,
    sum: u128,
}

impl Sum {
    pub(super) fn add(&mut self, number: Log2) {
        let (exponent, fraction) = number.split();
        if self.sum == 0 || exponent > self.exponent {
            self.sum = shifted(self.sum, exponent.saturating_sub(self.exponent));
            self.exponent = exponent;
        }
        let below = self.exponent - exponent;
        // What is less than 2^-63 of the largest is not worth raising two to a power for.
        if below <= 63 {
            self.sum += shifted(u128::from(exp2(fraction)), below);
        }
    }

    /// `None` if nothing was added.
    pub(super) fn log2(&self) -> Option<Log2> {
        let above = (128 - self.sum.leading_zeros()).saturating_sub(64);
        let mantissa = narrow(self.sum >> above);
        (mantissa > 0).then(|| {
            let whole = self.exponent.saturating_add(i64::from(above) - 63);
            Log2(whole.saturating_mul(1 << FRACTION)).plus(Log2::of(mantissa))
        })
    }
}

fn shifted(number: u128, by: i64) -> u128 {
    u32::try_from(by).ok().and_then(|by| number.checked_shr(by)).unwrap_or(0)
}

/// Two to the power of a fraction, in units of 2^-63: the product of those roots of two that its bits name.
fn exp2(fraction: u64) -> u64 {
    let named = (0..FRACTION).rev().zip(ROOTS).filter(|(bit, _)| fraction >> bit & 1 == 1);
    named.fold(1 << 63, |product, (_, root)| narrow((u128::from(product) * u128::from(root)) >> 63))
}

/// The square root of two, the square root of that, and so on, in units of 2^-63.
const ROOTS: [u64; FRACTION as usize] = {
    let mut roots = [0; FRACTION as usize];
    let mut square = 1u128 << 64;
    let mut at = 0;
    while at < roots.len() {
        let root = (square << 63).isqrt();
        roots[at] = narrow(root);
        square = root;
        at += 1;
    }
    roots
};

#[expect(clippy::cast_possible_truncation, reason = "every caller has shifted it below 2^64")]
const fn narrow(number: u128) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_powers_are_those_of_floating_point() {
        for number in [1, 2, 3, 7, 10, 4097, 9_999, 1 << 40, (1 << 52) - 1, u64::MAX] {
            #[expect(clippy::cast_precision_loss, reason = "a test's tolerance")]
            let expected = (number as f64).log2();
            assert!((Log2::of(number).to_f64() - expected).abs() < 1e-12, "{number}");
        }
        for fraction in [0, 1, 1 << 43, (1 << 44) - 1, 0x5a5_5a5a_5a5a] {
            let expected = Log2(i64::try_from(fraction).unwrap()).to_f64().exp2();
            #[expect(clippy::cast_precision_loss, reason = "a test's tolerance")]
            let found = exp2(fraction) as f64 / (1u64 << 63) as f64;
            assert!((found - expected).abs() < 1e-12, "{fraction}");
        }
    }

    #[test]
    fn sums_do_not_depend_on_their_order_or_size() {
        let log2 = |numbers: &[i16]| {
            let mut sum = Sum::default();
            numbers.iter().for_each(|&number| sum.add(Log2::power(number)));
            sum.log2().map(Log2::to_f64)
        };
        assert_eq!(log2(&[]), None);
        assert_eq!(log2(&[-5]), Some(-5.0));
        assert_eq!(log2(&[-3000, -3000]), Some(-2999.0));
        assert_eq!(log2(&[-200, 10, 10, -200]), Some(11.0));
        assert_eq!(log2(&[0; 1024]), Some(10.0));
        assert!((log2(&[0, 1]).unwrap() - 3f64.log2()).abs() < 1e-12);
        assert!((log2(&[1, 0]).unwrap() - 3f64.log2()).abs() < 1e-12);
    }
}
