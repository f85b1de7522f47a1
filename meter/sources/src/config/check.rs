//! What the keys of a source may be, and the mistakes that a file can contain.

use std::fmt;
use std::ops::RangeInclusive;

use crate::units::Unit;

/// A mistake in the configuration of a source: the key, and what is wrong and allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub key: String,
    pub problem: String,
}

impl ConfigError {
    pub(crate) fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`source.{}` {}", self.key, self.problem)
    }
}

impl std::error::Error for ConfigError {}

/// Returns `value` if it is in the range.
pub(crate) fn within(key: &str, value: u64, allowed: RangeInclusive<u64>) -> Result<u64, ConfigError> {
    if allowed.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (allowed.start(), allowed.end());
    Err(ConfigError::new(key, format!("is {value}; allowed are {least} to {most}")))
}

/// Returns the interval in milliseconds: an hour at most, because a slot needs several samples.
pub(crate) fn interval_millis(seconds: u64) -> Result<u64, ConfigError> {
    Ok(within("interval_seconds", seconds, 1..=3600)? * 1000)
}

/// Returns a counter's step in thousandths of a watt-hour.
pub(crate) fn counter_step(watt_hours: Option<u64>) -> Result<Option<i64>, ConfigError> {
    let Some(watt_hours) = watt_hours else { return Ok(None) };
    let step = within("counter_step_wh", watt_hours, 1..=1000)?;
    Ok(i64::try_from(step * 1000).ok())
}

pub(crate) fn unit_of_power(key: &str, unit: Unit) -> Result<Unit, ConfigError> {
    if unit.is_power() {
        return Ok(unit);
    }
    Err(ConfigError::new(key, format!("is {:?}, a unit of energy; a power is in \"W\" or \"kW\"", unit.name())))
}

pub(crate) fn unit_of_energy(key: &str, unit: Unit) -> Result<Unit, ConfigError> {
    if unit.is_power() {
        let problem =
            format!("is {:?}, a unit of power; a counter is in \"Wh\", \"kWh\", \"MWh\" or \"W*min\"", unit.name());
        return Err(ConfigError::new(key, problem));
    }
    Ok(unit)
}
