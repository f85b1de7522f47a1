//! The part `[source]` of a configuration: every key as it is written, and the mistakes that a file can contain.

mod check;

use std::path::PathBuf;

use serde::Deserialize;

pub use check::ConfigError;
pub(crate) use check::{counter_step, interval_millis, unit_of_energy, unit_of_power, within};

use crate::modbus::Preset as ModbusPreset;
use crate::modbus::registers::{NumberType, Table, WordOrder};
use crate::mqtt::preset::Preset;
use crate::p1::telegram::Checksum;
use crate::sml::Crc;
use crate::units::{Sign, Unit};

/// Where samples come from.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SourceConfig {
    P1(P1Config),
    Sml(SmlConfig),
    Mqtt(MqttConfig),
    Modbus(ModbusConfig),
    Http(HttpConfig),
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

/// A bridge on the home's own broker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MqttConfig {
    /// `mqtt://HOST[:1883]` or `mqtts://HOST[:8883]`
    pub broker: String,
    /// The certificates that the broker's is checked with, in PEM; for `mqtts://`.
    pub ca: Option<PathBuf>,
    pub username: Option<String>,
    /// A file whose first line is the password.
    pub password_file: Option<PathBuf>,
    pub client_id: Option<String>,
    pub preset: Option<Preset>,
    /// The name of the device in its topics.
    pub device: Option<String>,
    /// These replace what the preset says; several are added.
    pub power: Option<Vec<FieldConfig>>,
    pub import: Option<Vec<FieldConfig>>,
    pub export: Option<Vec<FieldConfig>>,
    pub availability: Option<AvailabilityConfig>,
    pub speaks: Option<Speaks>,
    /// How often the bridge speaks at least.
    pub interval_seconds: Option<u64>,
    /// Whether nothing behind the meter can feed in.
    pub import_only: Option<bool>,
    pub counter_step_wh: Option<u64>,
}

/// Where a number is published.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldConfig {
    #[serde(default)]
    pub topic: String,
    /// Its place in a JSON document; without it, the message is the number.
    pub pointer: Option<String>,
    pub unit: Option<Unit>,
    #[serde(default)]
    pub sign: Sign,
}

/// Where a bridge says whether it is alive.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AvailabilityConfig {
    pub topic: String,
    #[serde(default = "online")]
    pub online: String,
    #[serde(default = "offline")]
    pub offline: String,
}

/// When a bridge speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speaks {
    Periodic,
    OnChange,
}

/// A meter that is asked over Modbus.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModbusConfig {
    /// A serial port; either this or `tcp`.
    pub serial: Option<PathBuf>,
    /// A device or a bridge, as `HOST:PORT`.
    pub tcp: Option<String>,
    /// Whether the bridge passes on the frames of RS-485 as they are.
    #[serde(default)]
    pub rtu_over_tcp: bool,
    #[serde(default = "baud")]
    pub baud: u32,
    #[serde(default)]
    pub parity: Parity,
    #[serde(default = "one")]
    pub unit_id: u8,
    pub preset: Option<ModbusPreset>,
    /// These replace what the preset says; several are added.
    pub power: Option<Vec<RegisterConfig>>,
    pub import: Option<Vec<RegisterConfig>>,
    pub export: Option<Vec<RegisterConfig>>,
    /// What a positive power means; makers of SunSpec meters do not agree.
    #[serde(default)]
    pub power_sign: Sign,
    /// Whether the meter counts what the home feeds in as import.
    #[serde(default)]
    pub invert: bool,
    /// Whether nothing behind the meter can feed in.
    #[serde(default)]
    pub import_only: bool,
    /// How often it is asked.
    #[serde(default = "ten")]
    pub interval_seconds: u64,
    pub counter_step_wh: Option<u64>,
}

/// The parity of a serial line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parity {
    #[default]
    None,
    Even,
}

/// Where a number is in the registers of a device.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterConfig {
    /// As it is on the wire: the first is 0.
    pub address: u16,
    #[serde(default)]
    pub table: Table,
    #[serde(rename = "type")]
    pub number: NumberType,
    #[serde(default)]
    pub word_order: WordOrder,
    /// The number counts times ten to the power of this.
    #[serde(default)]
    pub exponent: i32,
    pub unit: Option<Unit>,
    #[serde(default)]
    pub sign: Sign,
}

/// A device that is asked over HTTP.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// `http://HOST[:PORT]/PATH`, on the local network.
    pub url: String,
    pub preset: Option<HttpPreset>,
    /// These replace what the preset says; several are added.
    pub power: Option<Vec<HttpFieldConfig>>,
    pub import: Option<Vec<HttpFieldConfig>>,
    pub export: Option<Vec<HttpFieldConfig>>,
    /// How often it is asked.
    #[serde(default = "ten")]
    pub interval_seconds: u64,
    pub import_only: Option<bool>,
    pub counter_step_wh: Option<u64>,
}

/// A device that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HttpPreset {
    Homewizard,
}

/// Where a number is in the answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpFieldConfig {
    pub pointer: String,
    pub unit: Option<Unit>,
    #[serde(default)]
    pub sign: Sign,
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

fn online() -> String {
    "online".to_owned()
}

fn offline() -> String {
    "offline".to_owned()
}

const fn one() -> u8 {
    1
}
