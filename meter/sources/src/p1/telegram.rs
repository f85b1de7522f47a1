//! One telegram of a P1 port, or of another interface that sends OBIS lines in text.
//!
//! Dutch DSMR 2.2 to 5, Belgium, Luxembourg and Sweden differ in codes and in whether there is a checksum; EasyMeter and other
//! German meters send the same kind of lines. So lines are read one by one, units are taken from the line, and what is not
//! needed is not looked at.

use thiserror::Error;

use crate::crc;
use crate::obis::{Quantity, Registers, quantity};
use crate::sample::Values;
use crate::units::Unit;

/// Why a telegram is not used. No value of it appears here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TelegramError {
    #[error("the checksum of the telegram is wrong: {sent:04X} was sent, and {found:04X} is right; check the cable")]
    Checksum { sent: u16, found: u16 },
    #[error("the checksum has {0} digits, not four: something on the way drops zeros; set `checksum = \"ignore\"`")]
    Digits(usize),
    #[error(
        "the checksum is right for lines that end with CR LF, which something on the way has changed; set `checksum = \"ignore\"`"
    )]
    LineEnds,
    #[error("the telegram ends without the checksum that its version has")]
    NoChecksum,
    #[error("the telegram does not end with `!` and at most four hexadecimal digits")]
    End,
    #[error("{code} is not a number with a unit of {expected}")]
    Value { code: String, expected: &'static str },
    #[error("{code} occurs twice, with different values")]
    Twice { code: String },
    #[error("the telegram has neither power (1.7.0) nor a counter (1.8.x)")]
    Nothing,
}

/// What a telegram says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telegram {
    pub values: Values,
    /// Its first line, which names the maker and often the model.
    pub identification: String,
    /// Whether it was protected by a checksum.
    pub has_checksum: bool,
}

/// How strictly checksums are taken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// Where the version has one, it must be there and right.
    #[default]
    Check,
    /// For bridges that change line ends, after which no checksum is right.
    Ignore,
}

/// Reads a telegram, from `/` to the line of the `!`.
pub fn parse(bytes: &[u8], checksum: Checksum) -> Result<Telegram, TelegramError> {
    let end = bytes.iter().rposition(|byte| byte & 0x7f == b'!').ok_or(TelegramError::End)?;
    let sent = match checksum_after(&bytes[end + 1..]) {
        Err(_) if checksum == Checksum::Ignore => None,
        sent => sent?,
    };
    // A 7E1 line that was read as 8N1 carries its parity in the eighth bit.
    let text: String = bytes[..end].iter().map(|byte| char::from(byte & 0x7f)).collect();
    let mut lines = text.lines().map(str::trim);
    let identification = lines.next().unwrap_or_default().to_owned();
    let mut registers = Registers::default();
    let mut has_version = false;
    for line in lines {
        let Some((code, rest)) = split_code(line) else { continue };
        has_version |= matches!(
            code,
            Code { group: Some((1, 3)), value: [0, 2, 8] } | Code { group: Some((0, 0)), value: [96, 1, 4] }
        );
        if let Some(quantity) = quantity(code.value).filter(|_| code.is_of_the_meter()) {
            let (value, step) = read(rest, quantity).ok_or_else(|| value_error(line, quantity))?;
            if !registers.note(code.value, value, step) {
                return Err(TelegramError::Twice { code: name_of(line) });
            }
        }
    }
    if checksum == Checksum::Check {
        match sent {
            Some(sent) => {
                let found = crc::arc(&bytes[..=end]);
                if sent != found {
                    let is_line_end = crc::arc(&with_line_ends(&bytes[..=end])) == sent;
                    return Err(if is_line_end {
                        TelegramError::LineEnds
                    } else {
                        TelegramError::Checksum { sent, found }
                    });
                }
            }
            // DSMR 2.2 and 3 have no checksum and say no version; 4 and later have both.
            None if has_version => return Err(TelegramError::NoChecksum),
            None => {}
        }
    }
    let values = registers.values();
    if values.is_empty() {
        return Err(TelegramError::Nothing);
    }
    Ok(Telegram { values, identification, has_checksum: sent.is_some() })
}

/// Reads what follows the `!`: four hexadecimal digits, or nothing.
fn checksum_after(rest: &[u8]) -> Result<Option<u16>, TelegramError> {
    let digits: String = rest.iter().map(|byte| char::from(byte & 0x7f)).collect();
    match digits.trim() {
        "" => Ok(None),
        digits if digits.len() == 4 && !digits.starts_with('+') => {
            u16::from_str_radix(digits, 16).map(Some).map_err(|_| TelegramError::End)
        }
        digits if digits.len() < 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            Err(TelegramError::Digits(digits.len()))
        }
        _ => Err(TelegramError::End),
    }
}

/// The telegram with CR LF wherever a line ends.
fn with_line_ends(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.collect::<Vec<_>>().join(&b"\r\n"[..])
}

/// An OBIS code: the groups A and B, which some meters leave out, and C, D, E.
#[derive(Debug, Clone, Copy)]
struct Code {
    group: Option<(u8, u8)>,
    value: [u8; 3],
}

impl Code {
    /// Whether it is of the electricity meter itself, not of a gas meter behind it.
    const fn is_of_the_meter(self) -> bool {
        matches!(self.group, None | Some((1, 0 | 1)))
    }
}

/// Splits `1-0:1.8.1(…` and `1-0:1.8.0*255(…`.
fn split_code(line: &str) -> Option<(Code, &str)> {
    let (code, rest) = line.split_at(line.find('(')?);
    let (group, code) = match code.split_once(':') {
        Some((group, code)) => {
            let (a, b) = group.split_once('-')?;
            (Some((a.parse().ok()?, b.parse().ok()?)), code)
        }
        None => (None, code),
    };
    let code = code.split_once('*').map_or(code, |(code, _)| code);
    // Some write the storage number as a fourth group, `1.8.0.255`.
    let mut groups = code.split('.').map(|group| group.parse::<u8>().ok());
    let value = [groups.next()??, groups.next()??, groups.next()??];
    (groups.next().is_none_or(|storage| storage == Some(255)) && groups.next().is_none())
        .then_some((Code { group, value }, rest))
}

/// Reads the last of the values in brackets, with its unit.
fn read(rest: &str, quantity: Quantity) -> Option<(i64, Option<i64>)> {
    let value = rest.strip_suffix(')')?.rsplit_once('(')?.1;
    let (number, unit) = value.split_once('*')?;
    let unit = match (quantity, unit.trim().to_ascii_lowercase().as_str()) {
        (Quantity::Power, "w") => Unit::W,
        (Quantity::Power, "kw") => Unit::KiloW,
        (Quantity::Energy, "wh") => Unit::Wh,
        (Quantity::Energy, "kwh") => Unit::KiloWh,
        _ => return None,
    };
    let number = number.trim();
    Some((unit.read(number)?, unit.step(number)))
}

fn value_error(line: &str, quantity: Quantity) -> TelegramError {
    let expected = match quantity {
        Quantity::Energy => "energy (kWh or Wh)",
        Quantity::Power => "power (kW or W)",
    };
    TelegramError::Value { code: name_of(line), expected }
}

fn name_of(line: &str) -> String {
    line.split('(').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
