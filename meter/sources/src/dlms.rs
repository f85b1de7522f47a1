//! `dlms`: what meters push by themselves over HDLC, as the HAN ports of Norway, Sweden and Switzerland send it.
//!
//! A message is a data notification of DLMS/COSEM: a tree of values in which OBIS codes stand before their numbers, often with a
//! scaler and a unit behind them. Norwegian meters send several lists, of which the short one has no export; a power that is
//! taken says nothing of what is fed in, so only lists with both are used. A counter counts only with its unit: makers
//! leave it out, and mean different ones.

use thiserror::Error;

use crate::ciphered::{self, CipherError, Keys};
use crate::crc;
use crate::decimal;
use crate::obis::{Quantity, Registers, quantity};
use crate::sample::Values;

const FLAG: u8 = 0x7e;

/// A message in segments is no longer than this.
const LONGEST: usize = 16 << 10;

/// How deep the values of a message lie at most.
const DEEPEST: u8 = 8;

/// Why a message is not used. No value of it appears here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DlmsError {
    #[error("the checksum of the frame is wrong; check the cable, and try another `line`")]
    Checksum,
    #[error("a segment of the message is missing")]
    Segment,
    #[error(transparent)]
    Cipher(#[from] CipherError),
    #[error("the message is no data notification (it begins with {0:02x}); this meter is not read yet")]
    Kind(u8),
    #[error("the values of the message do not end, or have a type that is not known")]
    Values,
    #[error("the message lists its objects apart from their values, which is not read yet")]
    Objects,
    #[error("{0} occurs twice, with different values")]
    Twice(String),
}

/// Gathers bytes, and gives out the content of frames, put together from segments.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    segments: Vec<u8>,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole message, or why a frame is none.
    pub fn next_frame(&mut self) -> Option<Result<Vec<u8>, DlmsError>> {
        loop {
            let start = self.buffer.iter().position(|byte| *byte == FLAG);
            self.buffer.drain(..start.unwrap_or(self.buffer.len()));
            let (&format, &low) = self.buffer.get(1).zip(self.buffer.get(2))?;
            let length = usize::from(format & 0x07) << 8 | usize::from(low);
            // A flag that ends a frame may begin the next one, and noise begins none.
            if format & 0xf0 != 0xa0 || length < 9 {
                self.buffer.drain(..1);
                continue;
            }
            let last = *self.buffer.get(length + 1)?;
            if last != FLAG {
                self.buffer.drain(..1);
                continue;
            }
            let frame: Vec<u8> = self.buffer.drain(..=length).collect();
            let has_more = format & 0x08 != 0;
            match self.take(&frame[1..], has_more) {
                Ok(true) => {}
                Ok(false) => return Some(Ok(std::mem::take(&mut self.segments))),
                Err(problem) => {
                    self.segments.clear();
                    return Some(Err(problem));
                }
            }
        }
    }

    /// Adds the content of a frame; returns whether more follows.
    fn take(&mut self, frame: &[u8], has_more: bool) -> Result<bool, DlmsError> {
        let (body, sent) = frame.split_last_chunk::<2>().ok_or(DlmsError::Checksum)?;
        if crc::x25(body).to_le_bytes() != *sent {
            return Err(DlmsError::Checksum);
        }
        // Two addresses of up to four bytes, of which the last has its lowest bit set, control, and a checksum of the head.
        let mut rest = &body[2..];
        for _ in 0..2 {
            let end = rest.iter().take(4).position(|byte| byte & 1 == 1).ok_or(DlmsError::Checksum)?;
            rest = &rest[end + 1..];
        }
        self.segments.extend_from_slice(rest.get(3..).ok_or(DlmsError::Checksum)?);
        if self.segments.len() > LONGEST { Err(DlmsError::Segment) } else { Ok(has_more) }
    }
}

/// Reads a message. What it leaves out is left out; a list without a power of both directions has nothing.
pub fn parse(message: &[u8], keys: Option<&Keys>) -> Result<Values, DlmsError> {
    let message = message.strip_prefix(&[0xe6, 0xe7, 0x00]).unwrap_or(message);
    let opened;
    let message = match message.first() {
        Some(&ciphered::TAG) => {
            opened = keys.ok_or(CipherError::NoKey)?.open(message)?;
            &opened[..]
        }
        Some(_) | None => message,
    };
    let [0x0f, _, _, _, _, rest @ ..] = message else {
        return Err(DlmsError::Kind(message.first().copied().unwrap_or(0)));
    };
    // The time, with its length, which some meters give a type.
    let rest = match rest {
        [0x09, 0x0c, rest @ ..] | [0x0c, rest @ ..] => rest.get(12..).ok_or(DlmsError::Values)?,
        [0x00, rest @ ..] => rest,
        _ => return Err(DlmsError::Values),
    };
    let mut tokens = Vec::new();
    let rest = walk(rest, 0, &mut tokens)?;
    // Padding to the length of a cipher's block may follow.
    if rest.iter().any(|byte| *byte != 0) {
        return Err(DlmsError::Values);
    }
    values(&tokens)
}

/// What a message has in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Code([u8; 6]),
    Text(Vec<u8>),
    Number(i64),
    /// A power of ten, and a unit of DLMS.
    Scale(i8, u8),
    /// A class and an attribute beside a code: the value is elsewhere.
    Object,
    Other,
}

/// Reads a value, and those within it; returns what follows.
fn walk<'b>(bytes: &'b [u8], depth: u8, tokens: &mut Vec<Token>) -> Result<&'b [u8], DlmsError> {
    let (&kind, rest) = bytes.split_first().ok_or(DlmsError::Values)?;
    let size = match kind {
        0x01 | 0x02 => {
            let (count, mut rest) = length(rest)?;
            // Each has a byte at least.
            if depth > DEEPEST || count > rest.len() {
                return Err(DlmsError::Values);
            }
            let from = tokens.len();
            for _ in 0..count {
                rest = walk(rest, depth + 1, tokens)?;
            }
            match tokens[from..] {
                [Token::Number(scaler), Token::Scale(_, unit)] if kind == 0x02 => {
                    let scaler = i8::try_from(scaler).map_err(|_| DlmsError::Values)?;
                    tokens.splice(from.., [Token::Scale(scaler, unit)]);
                }
                [Token::Number(_), Token::Code(_), Token::Number(_), ..] if kind == 0x02 => {
                    tokens.splice(from.., [Token::Object]);
                }
                _ => {}
            }
            return Ok(rest);
        }
        0x09 | 0x0a | 0x0c => {
            let (length, rest) = length(rest)?;
            let (text, rest) = rest.split_at_checked(length).ok_or(DlmsError::Values)?;
            let code = <[u8; 6]>::try_from(text).ok().filter(|code| kind == 0x09 && code[5] == 255);
            tokens.push(code.map_or_else(|| Token::Text(text.to_vec()), Token::Code));
            return Ok(rest);
        }
        0x04 => length(rest)?.0.div_ceil(8) + 1,
        0x00 => 0,
        0x03 | 0x0d | 0x0f | 0x11 | 0x16 => 1,
        0x10 | 0x12 => 2,
        0x1b => 4,
        0x05 | 0x06 | 0x17 => 4,
        0x1a => 5,
        0x14 | 0x15 | 0x18 => 8,
        0x19 => 12,
        _ => return Err(DlmsError::Values),
    };
    let (value, rest) = rest.split_at_checked(size).ok_or(DlmsError::Values)?;
    let unsigned = value.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    tokens.push(match (kind, value) {
        (0x0f, &[byte]) => Token::Number(byte.cast_signed().into()),
        (0x10, &[high, low]) => Token::Number(i16::from_be_bytes([high, low]).into()),
        (0x05, &[a, b, c, d]) => Token::Number(i32::from_be_bytes([a, b, c, d]).into()),
        (0x14, _) => Token::Number(unsigned.cast_signed()),
        (0x06 | 0x11 | 0x12, _) => Token::Number(unsigned.cast_signed()),
        (0x15, _) => Token::Number(i64::try_from(unsigned).map_err(|_| DlmsError::Values)?),
        // An enumeration is a unit where it follows a scaler.
        (0x16, &[unit]) => Token::Scale(0, unit),
        _ => Token::Other,
    });
    Ok(rest)
}

/// Reads a length: one byte, or how many bytes it has and those.
fn length(bytes: &[u8]) -> Result<(usize, &[u8]), DlmsError> {
    match bytes {
        [short @ 0..=0x7f, rest @ ..] => Ok((usize::from(*short), rest)),
        [0x81, length, rest @ ..] => Ok((usize::from(*length), rest)),
        [0x82, high, low, rest @ ..] => Ok((usize::from(u16::from_be_bytes([*high, *low])), rest)),
        _ => Err(DlmsError::Values),
    }
}

/// The codes of power that is taken, and that is fed in.
const TAKEN: [u8; 3] = [1, 7, 0];
const FED: [u8; 3] = [2, 7, 0];

fn values(tokens: &[Token]) -> Result<Values, DlmsError> {
    if tokens.contains(&Token::Object) {
        return Err(DlmsError::Objects);
    }
    let mut registers = Registers::default();
    let mut powers = 0;
    let mut note = |code: [u8; 3], number: i64, scale: Option<(i8, u8)>| {
        // Units of DLMS: 27 is W, 30 is Wh. Power without a unit is in W in every list that is known.
        let scaler = match (quantity(code), scale) {
            (Some(Quantity::Power), Some((scaler, 27))) | (Some(Quantity::Energy), Some((scaler, 30))) => scaler,
            (Some(Quantity::Power), None) => 0,
            _ => return Ok(()),
        };
        powers += u8::from(code == TAKEN || code == FED);
        let scaler = i32::from(scaler);
        let value = decimal::thousandths(&number.to_string(), scaler).ok_or(DlmsError::Values)?;
        let is_new = registers.note(code, value, Some(decimal::step("0", scaler.clamp(-9, 9))));
        let [c, d, e] = code;
        is_new.then_some(()).ok_or_else(|| DlmsError::Twice(format!("{c}.{d}.{e}")))
    };
    match tokens {
        // The lists of Kaifa have no codes, and are known by their name.
        [Token::Text(name), Token::Text(_), Token::Text(_), Token::Number(taken), Token::Number(fed), ..]
            if name == b"KFM_001" =>
        {
            note(TAKEN, *taken, None)?;
            note(FED, *fed, None)?;
        }
        _ => {
            for (at, token) in tokens.iter().enumerate() {
                let Token::Code([1, _, c, d, e, 255]) = token else { continue };
                let (code, Some(Token::Number(number))) = ([*c, *d, *e], tokens.get(at + 1)) else { continue };
                let scale = match tokens.get(at + 2) {
                    Some(Token::Scale(scaler, unit)) => Some((*scaler, *unit)),
                    Some(_) | None => None,
                };
                note(code, *number, scale)?;
            }
        }
    }
    let values = registers.values();
    // Of what is taken alone nobody knows what is fed in; the list is whole for counters alone, too.
    Ok(match powers {
        1 => Values { power: None, ..values },
        _ => values,
    })
}

/// Puts a message of up to 2,000 bytes into a frame, as a meter would.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len() + 9).unwrap_or(u16::MAX) & 0x07ff;
    let mut frame = (0xa000 | length).to_be_bytes().to_vec();
    frame.extend([0x41, 0x03, 0x13]);
    let head = crc::x25(&frame).to_le_bytes();
    frame.extend(head);
    frame.extend_from_slice(message);
    let sum = crc::x25(&frame).to_le_bytes();
    frame.extend(sum);
    [&[FLAG], &frame[..], &[FLAG]].concat()
}

#[cfg(test)]
mod tests;
