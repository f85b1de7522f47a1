//! Integers modulo the prime p = 2^61 - 1, in which the committee scheme computes.
//!
//! 2^61 is 1 modulo p, so a number is reduced by adding its bits above the 61st to those below. All operations but
//! [`Element::pow`] take the same time for all values, since most values are secret; `==` and [`Element::inverse`] tell
//! apart only what their results tell.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use zeroize::DefaultIsZeroes;

/// The prime p = 2^61 - 1.
pub const MODULUS: u64 = (1 << BITS) - 1;

const BITS: u32 = 61;

/// An integer modulo [`MODULUS`].
///
/// It can be copied, so it does not erase itself: those who hold secret ones keep them in `Zeroizing`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Element(
    /// Below the modulus, always.
    u64,
);

impl Element {
    pub const ZERO: Self = Self(0);
    pub const ONE: Self = Self(1);

    /// Takes a number as it travels: `None` unless it is below the modulus.
    pub const fn from_canonical(value: u64) -> Option<Self> {
        if value < MODULUS { Some(Self(value)) } else { None }
    }

    /// The number, below the modulus.
    pub const fn to_canonical(self) -> u64 {
        self.0
    }

    /// Takes eight bytes as they travel, big-endian: `None` unless the number is below the modulus.
    pub const fn from_be_bytes(bytes: [u8; 8]) -> Option<Self> {
        Self::from_canonical(u64::from_be_bytes(bytes))
    }

    pub const fn to_be_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The 128-bit big-endian integer, modulo p: of a uniform block, within a statistical distance of 2^-122 of uniform.
    pub const fn from_block(block: [u8; 16]) -> Self {
        Self::reduce(u128::from_be_bytes(block))
    }

    /// The element that a signed number is congruent to.
    pub fn from_signed(value: i64) -> Self {
        // Eight times the modulus is 2^64 - 8: enough to make every value positive.
        Self::reduce((i128::from(value) + 8 * i128::from(MODULUS)).cast_unsigned())
    }

    /// The number nearest to 0 that is congruent to the element: from -(p-1)/2 to (p-1)/2.
    pub const fn to_signed(self) -> i64 {
        let upper_half = ((MODULUS - 1) / 2).wrapping_sub(self.0) >> 63;
        self.0.wrapping_sub(MODULUS & upper_half.wrapping_neg()).cast_signed()
    }

    /// The multiplicative inverse, which every element but 0 has.
    pub fn inverse(self) -> Option<Self> {
        // Fermat: the power p - 1 is 1.
        (self != Self::ZERO).then(|| self.pow(MODULUS - 2))
    }

    /// The power; the time depends on the exponent, but not on the base.
    pub fn pow(self, exponent: u64) -> Self {
        let mut power = Self::ONE;
        for bit in (0..u64::BITS - exponent.leading_zeros()).rev() {
            power *= power;
            if exponent >> bit & 1 == 1 {
                power *= self;
            }
        }
        power
    }

    /// The sum of the products of elements at the same place; what one slice has more is left out.
    pub fn dot(left: &[Self], right: &[Self]) -> Self {
        // A product has 122 bits: as many as 64 of them fit 128 before they have to be reduced.
        let batches = left.chunks(64).zip(right.chunks(64));
        batches.map(|(left, right)| Self::reduce(sum_of_products(left, right))).sum()
    }

    const fn reduce(value: u128) -> Self {
        let digits = low(value) & MODULUS;
        let digits = digits.wrapping_add(low(value >> BITS) & MODULUS).wrapping_add(low(value >> (2 * BITS)));
        // Below 2^62 + 2^6 by now, and once more makes it at most the modulus and 2.
        Self::subtract_modulus((digits & MODULUS).wrapping_add(digits >> BITS))
    }

    /// Subtracts the modulus once from a number below twice the modulus, if it is not below the modulus already.
    const fn subtract_modulus(value: u64) -> Self {
        let less = value.wrapping_sub(MODULUS);
        let wrapped = less >> 63;
        Self(less.wrapping_add(MODULUS & wrapped.wrapping_neg()))
    }
}

/// At most 64 products.
fn sum_of_products(left: &[Element], right: &[Element]) -> u128 {
    left.iter().zip(right).fold(0, |sum, (left, right)| sum.wrapping_add(u128::from(left.0) * u128::from(right.0)))
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
const fn low(value: u128) -> u64 {
    value as u64
}

impl From<u16> for Element {
    fn from(value: u16) -> Self {
        Self(value.into())
    }
}

impl Add for Element {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::subtract_modulus(self.0.wrapping_add(other.0))
    }
}

impl Sub for Element {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::subtract_modulus(self.0.wrapping_add(MODULUS).wrapping_sub(other.0))
    }
}

impl Neg for Element {
    type Output = Self;

    fn neg(self) -> Self {
        Self::ZERO - self
    }
}

impl Mul for Element {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::reduce(u128::from(self.0) * u128::from(other.0))
    }
}

impl AddAssign for Element {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Element {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl MulAssign for Element {
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

impl Sum for Element {
    fn sum<I: Iterator<Item = Self>>(elements: I) -> Self {
        elements.fold(Self::ZERO, Add::add)
    }
}

impl<'a> Sum<&'a Self> for Element {
    fn sum<I: Iterator<Item = &'a Self>>(elements: I) -> Self {
        elements.copied().sum()
    }
}

/// Prints no value: most are secret.
impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Element").finish_non_exhaustive()
    }
}

/// Makes it, and slices and vectors of it, `Zeroize`.
impl DefaultIsZeroes for Element {}

#[cfg(test)]
mod tests {
    use zeroize::Zeroize;

    use super::*;

    #[test]
    fn only_numbers_below_the_modulus_are_taken() {
        for value in [0, 1, MODULUS - 1] {
            assert_eq!(Element::from_canonical(value).map(Element::to_canonical), Some(value));
            assert_eq!(
                Element::from_be_bytes(value.to_be_bytes()).map(Element::to_be_bytes),
                Some(value.to_be_bytes())
            );
        }
        for value in [MODULUS, MODULUS + 1, 1 << 61, u64::MAX] {
            assert_eq!(Element::from_canonical(value), None);
            assert_eq!(Element::from_be_bytes(value.to_be_bytes()), None);
        }
    }

    #[test]
    fn signed_numbers_lie_around_zero() {
        let most = (MODULUS - 1).cast_signed() / 2;
        for value in [0, 1, -1, 12_345, -12_345, most, -most] {
            assert_eq!(Element::from_signed(value).to_signed(), value);
        }
        assert_eq!(Element::from_signed(most + 1).to_signed(), -most);
        assert_eq!(Element::from_signed(-most - 1).to_signed(), most);
        assert_eq!(Element::from_signed(MODULUS.cast_signed()), Element::ZERO);
        assert_eq!(Element::from_signed(i64::MAX).to_canonical(), 3);
        assert_eq!(Element::from_signed(i64::MIN).to_canonical(), MODULUS - 4);
    }

    #[test]
    fn the_largest_block_and_the_longest_sum_of_products_do_not_overflow() {
        assert_eq!(u128::from(Element::from_block([0xff; 16]).to_canonical()), u128::MAX % u128::from(MODULUS));
        let largest = [Element(MODULUS - 1); 200];
        for length in [0, 1, 63, 64, 65, 128, 200u16] {
            let largest = &largest[..length.into()];
            assert_eq!(Element::dot(largest, largest), Element::from(length), "minus one squared is one");
        }
    }

    #[test]
    fn zero_has_no_inverse() {
        assert_eq!(Element::ZERO.inverse(), None);
        assert_eq!(Element(MODULUS - 1).inverse(), Some(Element(MODULUS - 1)));
        assert_eq!((Element::ZERO.pow(0), Element::ZERO.pow(7)), (Element::ONE, Element::ZERO));
    }

    #[test]
    fn no_value_is_printed_and_vectors_are_erased() {
        assert_eq!(format!("{:?}", Element(1_234_567)), "Element { .. }");
        let mut secrets = [Element(7), Element(8)];
        secrets.zeroize();
        assert_eq!(secrets, [Element::ZERO; 2]);
    }
}
