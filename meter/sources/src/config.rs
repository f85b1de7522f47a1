//! The part `[source]` of a configuration: every key as it is written, and the mistakes that a file can contain.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::Deserialize;

use crate::p1::telegram::Checksum;
use crate::sml::Crc;
use crate::units::Unit;

/// Where samples come from.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SourceConfig {
    P1(P1Config),
    Sml(SmlConfig),
    Lines(LinesConfig),
}

/// The customer port of a meter, which sends OBIS lines in text.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct P1Config {
    /// A serial port; either this or `tcp`.
    pub serial: Option<PathBuf>,
    /// A bridge, as `HOST:PORT`.
    pub tcp: Option<String>,
    #[serde(default)]
    pub line: P1Line,
    #[serde(default)]
    pub checksum: Checksum,
    /// Whether the meter counts what the home feeds in as import.
    #[serde(default)]
    pub invert: bool,
    /// How often a telegram comes at least: every second with DSMR 5, every ten before.
    #[serde(default = "ten")]
    pub interval_seconds: u64,
    pub counter_step_wh: Option<u64>,
}

/// Speed and framing of a P1 port.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum P1Line {
    /// Tries one after the other.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "115200-8n1")]
    Fast,
    #[serde(rename = "9600-7e1")]
    Slow,
}

/// The optical interface of a German meter.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmlConfig {
    /// A serial port; either this or `tcp`.
    pub serial: Option<PathBuf>,
    /// A bridge, as `HOST:PORT`.
    pub tcp: Option<String>,
    #[serde(default = "baud")]
    pub baud: u32,
    #[serde(default)]
    pub crc: Crc,
    /// Whether the meter counts what the home feeds in as import.
    #[serde(default)]
    pub invert: bool,
    /// How often a message comes at least.
    #[serde(default = "ten")]
    pub interval_seconds: u64,
    pub counter_step_wh: Option<u64>,
}

/// A line a sample, from standard input or from a file that grows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinesConfig {
    /// A file; without it, standard input.
    pub path: Option<PathBuf>,
    /// Where in the file to begin.
    #[serde(default)]
    pub from: From,
    #[serde(default = "watts")]
    pub power_unit: Unit,
    #[serde(default = "kilowatt_hours")]
    pub energy_unit: Unit,
    /// How often a line comes at least.
    pub interval_seconds: u64,
    pub counter_step_wh: Option<u64>,
}

/// Where in a file to begin.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum From {
    Start,
    #[default]
    End,
}

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

const fn watts() -> Unit {
    Unit::W
}

const fn kilowatt_hours() -> Unit {
    Unit::KiloWh
}

const fn ten() -> u64 {
    10
}

const fn baud() -> u32 {
    9600
}
