//! Interpolation and decoding as their definitions say, however long it takes.

use dream_protocol::scheme::committee::decoding::Decoded;
use dream_protocol::scheme::committee::field::Element;

type Answers<'a> = &'a [(u16, Element)];

/// The value at a point of the polynomial whose coefficients are given, the lowest first.
pub(super) fn evaluate(coefficients: &[Element], x: u16) -> Element {
    let x = Element::from(x);
    coefficients.iter().rev().fold(Element::ZERO, |value, coefficient| value * x + *coefficient)
}

/// The value at a point of the polynomial through all answers: Lagrange's formula as it is written.
pub(super) fn interpolate(answers: Answers<'_>, at: u16) -> Element {
    let at = Element::from(at);
    let term = |&(x, value): &(u16, Element)| {
        let others = || answers.iter().map(|(other, _)| *other).filter(|other| *other != x).map(Element::from);
        let below = others().fold(Element::ONE, |product, other| product * (Element::from(x) - other));
        others().fold(value * below.inverse().unwrap(), |term, other| term * (at - other))
    };
    answers.iter().map(term).sum()
}

/// Tries the polynomial through every subset of as many answers as are needed, and takes one on which enough lie.
pub(super) fn all_subsets(needed: usize, answers: Answers<'_>) -> Option<Decoded> {
    let subsets = (0..1u32 << answers.len()).filter(|subset| subset.count_ones() as usize == needed);
    let mut found = subsets.filter_map(|subset| {
        let chosen: Vec<_> = (0..answers.len()).filter(|i| subset >> i & 1 == 1).map(|i| answers[i]).collect();
        judged(needed, answers, |x| interpolate(&chosen, x))
    });
    let first = found.next()?;
    assert!(found.all(|other| other == first), "only one polynomial can have so many answers");
    Some(first)
}

/// Berlekamp and Welch: finds E of degree t, with leading coefficient 1, and Q of degree below q + t with
/// Q(x) = y E(x) at all answers, for t from the largest down to the smallest, by Gauss's elimination. Then the polynomial is
/// Q / E.
pub(super) fn berlekamp_welch(needed: usize, answers: Answers<'_>) -> Option<Decoded> {
    let most = answers.len().checked_sub(needed)? / 2;
    (0..=most).rev().find_map(|errors| {
        let row = |&(x, value): &(u16, Element)| {
            let power = |n: usize| Element::from(x).pow(n as u64);
            let quotient = (0..needed + errors).map(power);
            let locator = (0..errors).map(|n| -value * power(n));
            quotient.chain(locator).chain([value * power(errors)]).collect()
        };
        let solution = solve(answers.iter().map(row).collect(), needed + 2 * errors)?;
        let (quotient, locator) = solution.split_at(needed + errors);
        let polynomial = divide(quotient, &[locator, &[Element::ONE]].concat())?;
        judged(needed, answers, |x| evaluate(&polynomial, x))
    })
}

/// The result if the polynomial disagrees with no more answers than can be corrected.
fn judged(needed: usize, answers: Answers<'_>, polynomial: impl Fn(u16) -> Element) -> Option<Decoded> {
    let mut wrong: Vec<u16> = answers.iter().filter(|(x, value)| polynomial(*x) != *value).map(|(x, _)| *x).collect();
    wrong.sort_unstable();
    let agreeing = answers.len() - wrong.len();
    (wrong.len() <= (answers.len() - needed) / 2).then(|| Decoded { secret: polynomial(0), agreeing, wrong })
}

/// One solution of a system of linear equations, unknowns that are left free being 0. Each row ends with its right side.
fn solve(mut rows: Vec<Vec<Element>>, unknowns: usize) -> Option<Vec<Element>> {
    let mut pivots = Vec::new();
    for column in 0..unknowns {
        let done = pivots.len();
        let Some(pivot) = (done..rows.len()).find(|&row| rows[row][column] != Element::ZERO) else { continue };
        rows.swap(done, pivot);
        let inverse = rows[done][column].inverse().unwrap();
        rows[done].iter_mut().for_each(|entry| *entry *= inverse);
        let pivot = rows[done].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(index, _)| *index != done) {
            let factor = row[column];
            row.iter_mut().zip(&pivot).for_each(|(entry, pivot)| *entry -= factor * *pivot);
        }
        pivots.push(column);
    }
    if rows[pivots.len()..].iter().any(|row| row[unknowns] != Element::ZERO) {
        return None;
    }
    let mut solution = vec![Element::ZERO; unknowns];
    for (row, column) in pivots.into_iter().enumerate() {
        solution[column] = rows[row][unknowns];
    }
    Some(solution)
}

/// The quotient by a polynomial with leading coefficient 1, if nothing remains.
fn divide(dividend: &[Element], divisor: &[Element]) -> Option<Vec<Element>> {
    let mut rest = dividend.to_vec();
    let degree = divisor.len() - 1;
    let mut quotient = vec![Element::ZERO; (dividend.len()).saturating_sub(degree)];
    for place in (0..quotient.len()).rev() {
        let factor = rest[place + degree];
        quotient[place] = factor;
        rest[place..].iter_mut().zip(divisor).for_each(|(entry, divisor)| *entry -= factor * *divisor);
    }
    rest.iter().all(|entry| *entry == Element::ZERO).then_some(quotient)
}
