//! `sml`: the optical interface of German meters, which send a binary file every few seconds.
//!
//! The crate `sml-rs` reads the files. Their transport is read here, because some meters compute checksums in another way
//! than the standard: which one is right is said in the configuration and never guessed.

use sml_rs::parser::common::{ListEntry, Value};
use sml_rs::parser::complete::{MessageBody, parse as parse_file};
use thiserror::Error;

use crate::crc;
use crate::decimal;
use crate::obis::{Quantity, Registers, quantity};
use crate::sample::Values;

const ESCAPE: [u8; 4] = [0x1b; 4];
const START: [u8; 8] = [0x1b, 0x1b, 0x1b, 0x1b, 1, 1, 1, 1];

/// Files have some hundred bytes; what is longer has lost its end.
const LONGEST: usize = 32 << 10;

/// How a meter computes checksums.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Crc {
    /// As the standard says.
    #[default]
    X25,
    /// As some Holley DTZ541 do.
    Kermit,
}

/// Why a file is not used. No value of it appears here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SmlError {
    #[error("the checksum of the message is wrong; check the position of the optical head")]
    Checksum,
    #[error("the checksum is that of `crc = \"{0}\"`; add this setting, which only some meters need")]
    OtherCrc(&'static str),
    #[error("the message is not SML as meters send it: {0}")]
    File(String),
    #[error("the message has neither power (16.7.0) nor a counter (1.8.x)")]
    Nothing,
}

/// Gathers bytes, and gives out what lies between the escape sequences of start and end, checksum included.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole frame.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        loop {
            match find(&self.buffer, &START) {
                Some(start) => drop(self.buffer.drain(..start)),
                None => {
                    let kept = self.buffer.len().min(START.len() - 1);
                    self.buffer.drain(..self.buffer.len() - kept);
                    return None;
                }
            }
            match end_of(&self.buffer) {
                End::At(end) => return Some(self.buffer.drain(..end).collect()),
                End::Broken(at) => drop(self.buffer.drain(..at)),
                End::NotYet if self.buffer.len() > LONGEST => drop(self.buffer.drain(..START.len())),
                End::NotYet => return None,
            }
        }
    }
}

enum End {
    At(usize),
    NotYet,
    /// An escape sequence means something else: another start, or noise.
    Broken(usize),
}

/// Finds the end of a frame that begins at 0.
fn end_of(frame: &[u8]) -> End {
    let mut at = START.len();
    while let Some(found) = find(&frame[at..], &ESCAPE) {
        at += found;
        match frame.get(at + 4..at + 8) {
            None => return End::NotYet,
            Some(ESCAPE_TWICE) => at += 8,
            Some([0x1a, ..]) => return End::At(at + 8),
            Some(_) => return End::Broken(at),
        }
    }
    End::NotYet
}

const ESCAPE_TWICE: &[u8] = &ESCAPE;

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Reads a frame.
pub fn parse(frame: &[u8], expected: Crc) -> Result<Values, SmlError> {
    let found = crc_of(frame).ok_or(SmlError::Checksum)?;
    if found != expected {
        return Err(SmlError::OtherCrc(found.name()));
    }
    let file = unescaped(frame).ok_or_else(|| SmlError::File("its padding is longer than it".to_owned()))?;
    let file = match found {
        Crc::X25 => file,
        Crc::Kermit => with_standard_crc(&file).ok_or_else(|| SmlError::File("its lists do not end".to_owned()))?,
    };
    let file = parse_file(&file).map_err(|error| SmlError::File(error.to_string()))?;
    let mut registers = Registers::default();
    for message in &file.messages {
        if let MessageBody::GetListResponse(list) = &message.message_body {
            list.val_list.iter().for_each(|entry| note(&mut registers, entry));
        }
    }
    let values = registers.values();
    if values.is_empty() { Err(SmlError::Nothing) } else { Ok(values) }
}

/// Puts a file into a frame, as a meter would.
pub fn framed(file: &[u8], crc: Crc) -> Vec<u8> {
    let padding = (4 - file.len() % 4) % 4;
    let mut frame = START.to_vec();
    let mut rest = file;
    while let Some(at) = find(rest, &ESCAPE) {
        frame.extend_from_slice(&rest[..at + 4]);
        frame.extend_from_slice(&ESCAPE);
        rest = &rest[at + 4..];
    }
    frame.extend_from_slice(rest);
    frame.extend(std::iter::repeat_n(0, padding));
    frame.extend_from_slice(&ESCAPE);
    frame.extend([0x1a, u8::try_from(padding).unwrap_or(0)]);
    let sum = crc.of(&frame);
    frame.extend_from_slice(&sum);
    frame
}

/// Tells by which checksum a frame is sound.
pub fn crc_of(frame: &[u8]) -> Option<Crc> {
    let (body, sent) = frame.split_last_chunk::<2>()?;
    [Crc::X25, Crc::Kermit].into_iter().find(|crc| crc.of(body) == *sent)
}

impl Crc {
    /// The checksum of bytes, in the order in which it is sent.
    fn of(self, bytes: &[u8]) -> [u8; 2] {
        match self {
            Self::X25 => crc::x25(bytes).to_le_bytes(),
            Self::Kermit => crc::kermit(bytes).to_be_bytes(),
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::X25 => "x25",
            Self::Kermit => "kermit",
        }
    }
}

/// Takes off start, end, padding and the doubling of escape sequences.
fn unescaped(frame: &[u8]) -> Option<Vec<u8>> {
    let padding = usize::from(*frame.get(frame.len().checked_sub(3)?)?);
    let mut rest = frame.get(START.len()..frame.len().checked_sub(8 + padding)?)?;
    let mut file = Vec::with_capacity(rest.len());
    while let Some(at) = find(rest, &ESCAPE) {
        file.extend_from_slice(&rest[..at + 4]);
        rest = rest.get(at + 8..)?;
    }
    file.extend_from_slice(rest);
    Some(file)
}

/// Gives every message the checksum of the standard: the frame's own has been checked, and `sml-rs` knows only that one.
fn with_standard_crc(file: &[u8]) -> Option<Vec<u8>> {
    let (mut standard, mut at) = (Vec::with_capacity(file.len()), 0);
    while at < file.len() {
        let start = at;
        at += 1; // the head of a list of six
        for _ in 0..4 {
            at = after(file, at, 0)?;
        }
        let message = file.get(start..at)?;
        standard.extend_from_slice(message);
        standard.push(0x63);
        standard.extend_from_slice(&crc::x25(message).to_le_bytes());
        standard.push(0);
        at = after(file, after(file, at, 0)?, 0)?;
    }
    Some(standard)
}

/// Returns where the element that begins at `at` ends.
fn after(file: &[u8], mut at: usize, depth: u8) -> Option<usize> {
    let first = *file.get(at)?;
    let mut length = usize::from(first & 0x0f);
    let start = at;
    while file.get(at)? & 0x80 != 0 {
        at += 1;
        length = length.checked_mul(16)?.checked_add(usize::from(file.get(at)? & 0x0f))?;
    }
    at += 1;
    if first & 0x70 != 0x70 {
        // The length counts its own bytes; the end of a message is a byte of no length.
        return start.checked_add(length).map(|end| end.max(at)).filter(|end| *end <= file.len());
    }
    if depth > 8 || length > file.len() {
        return None;
    }
    for _ in 0..length {
        at = after(file, at, depth + 1)?;
    }
    Some(at)
}

fn note(registers: &mut Registers, entry: &ListEntry<'_>) {
    let [1, 0, code @ .., 255] = entry.obj_name else { return };
    let Ok(code) = <[u8; 3]>::try_from(code) else { return };
    let number = match entry.value {
        Value::I8(value) => value.to_string(),
        Value::I16(value) => value.to_string(),
        Value::I32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::U8(value) => value.to_string(),
        Value::U16(value) => value.to_string(),
        Value::U32(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        Value::Bool(_) | Value::Bytes(_) | Value::List(_) => return,
    };
    // Units of DLMS: 27 is W, 30 is Wh.
    let is_sound = match quantity(code) {
        Some(Quantity::Power) => entry.unit == Some(27),
        Some(Quantity::Energy) => entry.unit == Some(30),
        None => false,
    };
    let scaler = i32::from(entry.scaler.unwrap_or(0));
    if let Some(value) = decimal::thousandths(&number, scaler).filter(|_| is_sound) {
        registers.note(code, value, Some(decimal::step("0", scaler.clamp(-9, 9))));
    }
}

#[cfg(test)]
mod tests;
