//! What a gateway can open of a cluster with a committee (protocol-proofs.md 4a), whatever it shows to whom: linear algebra over
//! GF(2^61 - 1), which shares nothing with the machines, and the numbers of real meters against it.
//!
//! Everything that meters send is a linear combination of numbers that the gateway does not know. What it can compute about
//! readings is therefore what the rows of its view and the readings have in common. Every assignment of requests to holders
//! is tried, for small settings; controls break one condition each, and must open more.

mod classes;
mod real_meters;
mod slots;
mod space;
mod whole_view;

use self::space::{PRIME, Space};

/// What is wrong with the sums that open: a basis of them in echelon form, one column for each group of honest members that
/// all sums treat alike, with the number of members in each. Within the conditions at most one sum opens, over each of at
/// least `least` members once and over nobody else.
fn leak(open: &Space, sizes: &[usize], least: usize) -> Option<String> {
    let mut sums = open.rows();
    let sum = sums.next()?;
    if sums.next().is_some() {
        return Some(format!("{} sums open", open.len()));
    }
    let whole = sum.iter().find(|value| **value != 0)?;
    if sum.iter().any(|value| value != whole && *value != 0) {
        return Some(format!("a weighted sum opens: {sum:?}"));
    }
    let members: usize = sum.iter().zip(sizes).filter(|(value, _)| **value != 0).map(|(_, size)| size).sum();
    (members < least).then(|| format!("the sum of {members} members opens, of {least} at least"))
}

/// Whether the larger settings are asked for as well, as `make long` does by `DREAM_SIM_RUNS=2000`.
#[expect(clippy::disallowed_methods, reason = "the environment chooses how many settings to try")]
fn long() -> bool {
    std::env::var("DREAM_SIM_RUNS").is_ok_and(|runs| runs.parse::<u64>().expect("a number") >= 1000)
}

/// `base` to the power of `exponent`, modulo the prime.
fn power(base: u64, exponent: usize) -> u64 {
    (0..exponent).fold(1, |product, _| space::multiply(product, base))
}

/// `a - b` modulo the prime.
fn minus(a: u64, b: u64) -> u64 {
    (a + PRIME - b) % PRIME
}
