//! Decoding: the value at 0 of the polynomial on which the holders' answers lie, although some are missing or wrong.
//!
//! With a answers, of which q suffice, up to (a - q) / 2 wrong ones are found and left out. This is decoding of a
//! Reed-Solomon code over the integers modulo 2^61 - 1, in its general form, where any points may be missing; libraries
//! for such codes compute in fields of 2^8 or 2^16 elements. What follows is all that there is to it.
//!
//! # When all answers are right
//! Let G be a polynomial of degree below q, and y_i = G(x_i) the answers at a different points x_i, none of them 0. Give each
//! point the weight
//!
//! ```text
//!   u_i = 1 / (x_i * product of (x_i - x_m) over all m but i)
//! ```
//!
//! These are the weights of *divided differences* over the points and 0. The divided difference of a polynomial h over n
//! points is the coefficient of x^(n-1) in the polynomial of degree below n through its values there, which is h itself if
//! its degree is low enough; so for a degree below a, over the a points and 0, it is 0:
//!
//! ```text
//!   sum of u_i h(x_i) + v h(0) = 0,   where v = 1 / product of (0 - x_m) over all m
//! ```
//!
//! Take h = x^j G, whose degree is below a for j up to a - q, and call the sums the *moments* of the answers:
//!
//! ```text
//!   M_j = sum of u_i x_i^j y_i,   j = 0 .. a - q
//!
//!   M_0 = -v G(0),   and M_1 = M_2 = ... = M_(a-q) = 0, since x^j is 0 at 0
//! ```
//!
//! So M_0 gives the secret G(0), and the others check the answers. The checks miss nothing: a - q of them, independent,
//! leave a space of q dimensions, and all the polynomials of degree below q are in it already.
//!
//! # When some are wrong
//! Let y_i = G(x_i) + e_i, with e_i other than 0 for the t points of a set E. Moments are linear in the answers, so for j = 1
//! and above they show the errors alone:
//!
//! ```text
//!   M_j = sum over E of c_i x_i^j,   where c_i = u_i e_i is not 0
//! ```
//!
//! A sum of powers obeys a linear recurrence. With the *locator* L(x) = product of (x - x_i) over E = x^t + l_1 x^(t-1) +
//! ... + l_t,
//!
//! ```text
//!   M_(j+t) + l_1 M_(j+t-1) + ... + l_t M_j = sum over E of c_i x_i^j L(x_i) = 0
//! ```
//!
//! Massey's algorithm finds the shortest recurrence that a sequence obeys, in time quadratic in its length. No shorter one
//! than L generates these moments, because the points are different and no c_i is 0; and if the sequence has at least 2t
//! terms, which is a - q >= 2t, the shortest is unique. So the locator comes out, and its roots are the points of the wrong
//! answers.
//!
//! With more errors than that, what comes out has not as many roots among the points as its length, or is too long, and the
//! answers are undecodable; or else the answers happen to lie, but for (a - q) / 2 or fewer, on another polynomial.
//! Whatever the search says, the answers that are left go through the first part again, on their own, and all of them have
//! to agree. So a secret is only ever given when at least a - (a - q) / 2 answers lie on one polynomial; there can be one such
//! polynomial only, because two of them would share q points.
//!
//! The algorithms are from J. L. Massey, "Shift-register synthesis and BCH decoding" (1969); the setting, with any points,
//! is that of generalised Reed-Solomon codes (R. M. Roth, "Introduction to Coding Theory", chapters 5 and 6). Other
//! decoders (Berlekamp and Welch 1986; Gao 2003) find the same result by way of the whole polynomial, which nobody needs
//! here. The tests compare with the first of them and with trying all subsets.
//!
//! Nothing here runs in constant time: the answers are the gateway's to see, and so is what they open.

use alloc::vec;
use alloc::vec::Vec;

use thiserror::Error;

use super::field::Element;

/// The result of decoding a set of answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// G(0).
    pub secret: Element,
    /// How many answers lie on the polynomial: at least as many as are needed.
    pub agreeing: usize,
    /// The points of the answers that do not, ascending.
    pub wrong: Vec<u16>,
}

/// Why answers give no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Undecodable {
    #[error("{answers} answers of {needed} that are needed")]
    TooFew { answers: usize, needed: usize },
    #[error("more than {correctable} of {answers} answers are wrong")]
    TooManyWrong { answers: usize, correctable: usize },
    #[error("answers are at different points, 1 and above; these name a point twice, or the point 0")]
    Points,
}

/// Finds the value at 0 of the polynomial of degree below `needed` (q) on which all but at most (a - q) / 2 of the a answers
/// lie. Answers are values with their points, in any order.
///
/// A caller that waits for some answers more than are needed asks again after each, until enough are `agreeing`.
pub fn decode(needed: usize, answers: &[(u16, Element)]) -> Result<Decoded, Undecodable> {
    let moments = Moments::of(needed, answers)?;
    if let Some(secret) = moments.secret() {
        return Ok(Decoded { secret, agreeing: answers.len(), wrong: Vec::new() });
    }
    let correctable = (answers.len() - needed) / 2;
    let too_many = Undecodable::TooManyWrong { answers: answers.len(), correctable };
    let locator = shortest_recurrence(moments.checks());
    let (wrong, right): (Vec<_>, Vec<_>) = answers.iter().partition(|(x, _)| is_root(&locator, *x));
    if wrong.len() > correctable || wrong.len() + 1 != locator.len() {
        return Err(too_many);
    }
    let secret = Moments::of(needed, &right)?.secret().ok_or(too_many)?;
    let mut wrong: Vec<u16> = wrong.into_iter().map(|(x, _)| x).collect();
    wrong.sort_unstable();
    Ok(Decoded { secret, agreeing: right.len(), wrong })
}

/// Whether there are enough answers, and all of them lie on one polynomial of degree below `needed`.
pub fn consistent(needed: usize, answers: &[(u16, Element)]) -> bool {
    Moments::of(needed, answers).is_ok_and(|moments| moments.secret().is_some())
}

/// The moments of a set of answers: M_0, which has the secret, and those after it, which are 0 if all answers agree.
struct Moments {
    moments: Vec<Element>,
    /// -1/v: what M_0 has to be multiplied with.
    scale: Element,
}

impl Moments {
    fn of(needed: usize, answers: &[(u16, Element)]) -> Result<Self, Undecodable> {
        let too_few = Undecodable::TooFew { answers: answers.len(), needed };
        let spare = answers.len().checked_sub(needed).ok_or(too_few)?;
        let points: Vec<Element> = answers.iter().map(|(x, _)| Element::from(*x)).collect();
        let weights = weights(&points).ok_or(Undecodable::Points)?;
        let mut terms: Vec<Element> =
            weights.iter().zip(answers).map(|(weight, (_, value))| *weight * *value).collect();
        let mut moments = vec![terms.iter().sum()];
        for _ in 0..spare {
            terms.iter_mut().zip(&points).for_each(|(term, point)| *term *= *point);
            moments.push(terms.iter().sum());
        }
        Ok(Self { moments, scale: -product(points.iter().map(|point| -*point)) })
    }

    fn checks(&self) -> &[Element] {
        &self.moments[1..]
    }

    /// G(0), if all answers agree.
    fn secret(&self) -> Option<Element> {
        self.checks().iter().all(|check| *check == Element::ZERO).then(|| self.scale * self.moments[0])
    }
}

/// The weights u_i, or `None` if a point is 0 or there twice.
fn weights(points: &[Element]) -> Option<Vec<Element>> {
    let distances = |i: usize| {
        let (before, after) = (&points[..i], &points[i + 1..]);
        points[i] * product(before.iter().chain(after).map(|other| points[i] - *other))
    };
    invert_all((0..points.len()).map(distances).collect())
}

/// The inverses of all, with a single inversion; `None` if one of them is 0.
fn invert_all(mut elements: Vec<Element>) -> Option<Vec<Element>> {
    let mut running = Element::ONE;
    let mut before = Vec::with_capacity(elements.len());
    for element in &elements {
        before.push(running);
        running *= *element;
    }
    let mut inverse = running.inverse()?;
    for (element, before) in elements.iter_mut().zip(before).rev() {
        let factor = *element;
        *element = inverse * before;
        inverse *= factor;
    }
    Some(elements)
}

fn product(factors: impl Iterator<Item = Element>) -> Element {
    factors.fold(Element::ONE, |product, factor| product * factor)
}

/// The coefficients 1, l_1, ..., l_t of the shortest recurrence s_n + l_1 s_(n-1) + ... + l_t s_(n-t) = 0 that the whole
/// sequence obeys from its term t on (Massey 1969).
fn shortest_recurrence(sequence: &[Element]) -> Vec<Element> {
    let mut current = vec![Element::ONE];
    let mut length = 0;
    // The recurrence before it last got longer, with what it missed by then, inverted, and how many terms ago that was.
    let mut previous = (vec![Element::ONE], Element::ONE);
    let mut ago = 1;
    for n in 0..sequence.len() {
        let missed: Element = current.iter().zip(sequence[..=n].iter().rev()).map(|(l, s)| *l * *s).sum();
        if let Some(inverse) = missed.inverse() {
            let corrected = subtract_shifted(&current, missed * previous.1, ago, &previous.0);
            if 2 * length <= n {
                length = n + 1 - length;
                previous = (current, inverse);
                ago = 0;
            }
            current = corrected;
        }
        ago += 1;
    }
    current.resize(length + 1, Element::ZERO);
    current
}

/// Subtracts a multiple of one recurrence, put off by `shift` terms, from another.
fn subtract_shifted(from: &[Element], factor: Element, shift: usize, what: &[Element]) -> Vec<Element> {
    let mut difference = from.to_vec();
    difference.resize(from.len().max(what.len() + shift), Element::ZERO);
    for (coefficient, other) in difference[shift..].iter_mut().zip(what) {
        *coefficient -= factor * *other;
    }
    difference
}

/// Whether the polynomial with these coefficients, the highest first, is 0 at a point.
fn is_root(coefficients: &[Element], point: u16) -> bool {
    let point = Element::from(point);
    coefficients.iter().fold(Element::ZERO, |value, coefficient| value * point + *coefficient) == Element::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers at the points on 42 + 3x - x^2, of which three suffice.
    fn answers(points: &[u16]) -> Vec<(u16, Element)> {
        points.iter().map(|&x| (x, Element::from_signed(42 + 3 * i64::from(x) - i64::from(x).pow(2)))).collect()
    }

    #[test]
    fn answers_that_agree_give_the_secret() {
        for points in [&[1, 2, 3][..], &[9, 4, 7], &[5, 1, 256, 90, 2]] {
            let decoded = decode(3, &answers(points)).unwrap();
            assert_eq!((decoded.secret.to_signed(), decoded.agreeing, &*decoded.wrong), (42, points.len(), &[][..]));
            assert!(consistent(3, &answers(points)));
        }
    }

    #[test]
    fn wrong_answers_are_left_out_and_named() {
        let mut spoilt = answers(&[8, 7, 6, 5, 4, 3, 2]);
        spoilt[1].1 += Element::ONE;
        spoilt[4].1 = Element::ZERO;
        assert!(!consistent(3, &spoilt));
        let decoded = decode(3, &spoilt).unwrap();
        assert_eq!((decoded.secret.to_signed(), decoded.agreeing, &*decoded.wrong), (42, 5, &[4, 7][..]));
        spoilt[0].1 -= Element::ONE;
        assert_eq!(decode(3, &spoilt), Err(Undecodable::TooManyWrong { answers: 7, correctable: 2 }));
    }

    #[test]
    fn one_spare_answer_shows_a_wrong_one_but_not_which() {
        let mut spoilt = answers(&[1, 2, 3, 4]);
        spoilt[2].1 += Element::ONE;
        assert_eq!(decode(3, &spoilt), Err(Undecodable::TooManyWrong { answers: 4, correctable: 0 }));
    }

    #[test]
    fn a_wrong_answer_made_to_accuse_another_is_not_believed() {
        let mut spoilt = answers(&[1, 2, 3, 4]);
        let weights = weights(&[1, 2, 3, 4].map(Element::from)).unwrap();
        // With this error the one check is 2, and x - 2 the shortest recurrence.
        spoilt[3].1 += Element::from(2) * (weights[3] * Element::from(4)).inverse().unwrap();
        let checks = Moments::of(3, &spoilt).unwrap().checks().to_vec();
        assert_eq!(checks, [Element::from(2)]);
        assert!(is_root(&shortest_recurrence(&checks), 2));
        assert_eq!(decode(3, &spoilt), Err(Undecodable::TooManyWrong { answers: 4, correctable: 0 }));
    }

    #[test]
    fn too_few_answers_and_impossible_points_are_refused() {
        assert_eq!(decode(3, &answers(&[1, 2])), Err(Undecodable::TooFew { answers: 2, needed: 3 }));
        assert_eq!(decode(3, &answers(&[1, 2, 3, 2])), Err(Undecodable::Points));
        assert_eq!(decode(3, &answers(&[0, 1, 2])), Err(Undecodable::Points));
        assert!(!consistent(3, &answers(&[1, 2])) && !consistent(3, &answers(&[1, 2, 2])));
    }
}
