//! What the command lines of the simulator share.

use thiserror::Error;

/// What was asked for cannot be: told in one line, exit code 2. Everything else that goes wrong exits with 1.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct BadInput(pub String);

/// Parses a whole number of a range. Clap's own ranges say what is allowed only to those who give a number.
pub fn whole<T: TryFrom<u64>, const LEAST: u64, const MOST: u64>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("use a whole number from {LEAST} to {MOST}"))
}
