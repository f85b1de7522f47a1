//! Dealing: what a member computes from the numbers it deals to the holders (`protocol.md`, the committee scheme).
//!
//! The holders stand at the points 1 to K. The polynomial f of degree below q goes through what the first q of them are
//! dealt. It is never written down: only its value C at 0 is needed, and its values at the points of the other K - q
//! holders, from which what they are dealt is subtracted. Those differences are the corrections.
//!
//! Both ways give the same numbers, in a time that does not depend on them:
//! - [`Dealer::new`] computes all weights of Lagrange's formula once, a matrix of K - q + 1 rows and q columns (33 kB at
//!   K = 160, q = 129), and multiplies. For computers, where multiplications are cheap. It can be shared by all meters
//!   under lists with the same K and q.
//! - [`Dealer::small`] keeps nothing. It takes differences of neighbours, then differences of these, and so on: because
//!   the points are consecutive, f follows on both sides by additions alone, some q * (K - q / 2) in all. For
//!   microcontrollers; it needs room for q numbers.

use alloc::vec::Vec;
use core::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::field::Element;

/// Evaluates members' polynomials, for one number of holders and of needed answers.
pub struct Dealer {
    holders: usize,
    needed: usize,
    method: Method,
}

enum Method {
    /// One row of Lagrange's weights for the point 0, then one for each holder after the first q.
    Matrix(Vec<Element>),
    Differences,
}

/// The values of a member's polynomial: at 0, and as corrections for holders. Erased when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Dealing {
    secret: Element,
    corrections: Vec<Element>,
}

impl Dealing {
    /// C: the polynomial's value at 0.
    pub const fn secret(&self) -> Element {
        self.secret
    }

    /// What the holders after the first q have to add to what they are dealt, in their order: made to be published.
    pub fn corrections(&self) -> &[Element] {
        &self.corrections
    }
}

impl fmt::Debug for Dealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dealing").finish_non_exhaustive()
    }
}

impl Dealer {
    /// Deals to `holders` (K), of which `needed` (q) will suffice, with a matrix computed here.
    ///
    /// # Panics
    /// Unless 1 <= `needed` <= `holders` <= 65,535.
    pub fn new(holders: usize, needed: usize) -> Self {
        let (last, first) = points(holders, needed);
        let weights = Weights::new(last, first);
        let targets = core::iter::once(0).chain(first + 1..=last);
        let matrix = targets.flat_map(|target| weights.row(target)).collect();
        Self { holders, needed, method: Method::Matrix(matrix) }
    }

    /// Deals to `holders` (K), of which `needed` (q) will suffice, in little memory.
    ///
    /// # Panics
    /// Unless 1 <= `needed` <= `holders` <= 65,535.
    pub fn small(holders: usize, needed: usize) -> Self {
        points(holders, needed);
        Self { holders, needed, method: Method::Differences }
    }

    /// Gives C and the corrections for what all holders are dealt, in their order.
    ///
    /// # Panics
    /// Unless `dealt` has one number for each holder.
    pub fn deal(&self, dealt: &[Element]) -> Dealing {
        assert_eq!(dealt.len(), self.holders, "one number for each holder");
        let (given, others) = dealt.split_at(self.needed);
        let mut dealing = match &self.method {
            Method::Matrix(matrix) => multiply(matrix, given),
            Method::Differences => extend(given, others.len()),
        };
        for (correction, dealt) in dealing.corrections.iter_mut().zip(others) {
            *correction -= *dealt;
        }
        dealing
    }
}

impl fmt::Debug for Dealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dealer")
            .field("holders", &self.holders)
            .field("needed", &self.needed)
            .field("small", &matches!(self.method, Method::Differences))
            .finish()
    }
}

/// The last holder's point, and the last one of the first q.
fn points(holders: usize, needed: usize) -> (u16, u16) {
    assert!(1 <= needed && needed <= holders, "{needed} of {holders} holders are needed");
    let point = |count| u16::try_from(count).expect("at most 65,535 holders");
    (point(holders), point(needed))
}

/// The polynomial's values at 0 and at the points after the given ones: one row of the matrix gives each.
fn multiply(matrix: &[Element], given: &[Element]) -> Dealing {
    let mut values = matrix.chunks(given.len()).map(|row| Element::dot(row, given));
    let secret = values.next().expect("the row for the point 0");
    Dealing { secret, corrections: values.collect() }
}

/// The polynomial's values at 0 and at so many points after the given ones, from a table of differences.
///
/// For q = 4, and values a to d at the points 1 to 4, the table is
///
/// ```text
///   a   b-a   c-2b+a   d-3c+3b-a
///   b   c-b   d-2c+b
///   c   d-c
///   d
/// ```
///
/// One column is kept at a time, in place of the one before. The top row, with alternating signs, adds up to the value at
/// 0. What a column leaves behind when it gets shorter are the ends of all columns, the last diagonal; the last column
/// would go on unchanged, so that adding along that diagonal gives the next one, and with it the next value.
fn extend(given: &[Element], further: usize) -> Dealing {
    let mut table = Zeroizing::new(given.to_vec());
    let mut secret = table[0];
    for (column, length) in (1..given.len()).zip((1..given.len()).rev()) {
        for row in 0..length {
            table[row] = table[row + 1] - table[row];
        }
        if column % 2 == 0 {
            secret += table[0];
        } else {
            secret -= table[0];
        }
    }
    let next = |()| {
        for row in 1..table.len() {
            let before = table[row - 1];
            table[row] += before;
        }
        table[table.len() - 1]
    };
    Dealing { secret, corrections: core::iter::repeat_n((), further).map(next).collect() }
}

/// Lagrange's weights for the points 1 to q, without a division for each.
struct Weights {
    /// 1 / m! and 1 / m for every m that is needed.
    inverse_factorials: Vec<Element>,
    inverses: Vec<Element>,
    first: u16,
}

impl Weights {
    /// For values at the points 1 to `first`, and targets up to the point `last`.
    fn new(last: u16, first: u16) -> Self {
        let inverse = |m| Element::from(m).inverse().unwrap_or(Element::ZERO);
        let inverses: Vec<Element> = (0..=last).map(inverse).collect();
        let mut product = Element::ONE;
        let inverse_factorials = inverses.iter().skip(1).map(|inverse| {
            let before = product;
            product *= *inverse;
            before
        });
        Self { inverse_factorials: inverse_factorials.collect(), inverses, first }
    }

    /// The weights of the first q values in the polynomial's value at a target, which is none of their points: the
    /// product of (target - m) / (i - m) over all m but i.
    fn row(&self, target: u16) -> Vec<Element> {
        let distance = |i: u16| Element::from(target) - Element::from(i);
        let all = (1..=self.first).map(distance).fold(Element::ONE, |product, distance| product * distance);
        let weight = |i: u16| {
            let (below, above) = (i - 1, self.first - i);
            let factorials = self.inverse_factorials[usize::from(below)] * self.inverse_factorials[usize::from(above)];
            let inverse = self.inverses[usize::from(target.abs_diff(i))];
            // (i - m) is negative for every m above i, and (target - i) where the target is 0.
            let negative = (above % 2 == 1) != (target < i);
            let weight = all * inverse * factorials;
            if negative { -weight } else { weight }
        };
        (1..=self.first).map(weight).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(polynomial: impl Fn(i64) -> i64, points: std::ops::RangeInclusive<i64>) -> Vec<Element> {
        points.map(|x| Element::from_signed(polynomial(x))).collect()
    }

    #[test]
    fn a_known_polynomial_is_extended_to_zero_and_to_all_holders() {
        let cubic = |x| 7 - 3 * x + 5 * x * x - 2 * x * x * x;
        let mut dealt = values(cubic, 1..=9);
        let offsets = [10, -20, 30, 0, 5].map(Element::from_signed);
        for (dealt, offset) in dealt[4..].iter_mut().zip(offsets) {
            *dealt -= offset;
        }
        for dealer in [Dealer::new(9, 4), Dealer::small(9, 4)] {
            let dealing = dealer.deal(&dealt);
            assert_eq!(dealing.secret().to_signed(), 7);
            assert_eq!(dealing.corrections(), offsets);
        }
    }

    #[test]
    fn one_needed_holder_and_no_spare_holder_are_the_limits() {
        let dealt = values(|x| 100 + x, 1..=3);
        for dealer in [Dealer::new(3, 1), Dealer::small(3, 1)] {
            let dealing = dealer.deal(&dealt);
            assert_eq!(dealing.secret().to_signed(), 101, "a constant");
            assert_eq!(dealing.corrections(), [-1, -2].map(Element::from_signed));
        }
        for dealer in [Dealer::new(3, 3), Dealer::small(3, 3)] {
            let dealing = dealer.deal(&dealt);
            assert_eq!((dealing.secret().to_signed(), dealing.corrections().len()), (100, 0));
        }
    }

    #[test]
    fn nothing_dealt_is_printed() {
        let dealing = Dealer::new(3, 2).deal(&values(|x| x, 1..=3));
        assert_eq!(format!("{dealing:?}"), "Dealing { .. }");
        assert_eq!(format!("{:?}", Dealer::new(3, 2)), "Dealer { holders: 3, needed: 2, small: false }");
    }
}
