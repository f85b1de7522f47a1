//! `tic`: the customer output of French meters (téléinformation client), in its historic and its standard form.
//!
//! A frame lies between STX and ETX. Each line has a label, a value and a checksum, with spaces between them in the historic form
//! and tabs in the standard one. Power is there as apparent power only, in VA, which is not what a home takes; counters are in
//! whole watt-hours.

use thiserror::Error;

use crate::sample::Values;
use crate::units::Unit;

const START: u8 = 0x02;
const END: u8 = 0x03;

/// A frame has some hundred bytes; what is longer has lost its end.
const LONGEST: usize = 8 << 10;

/// The counters of each tariff of the historic form: those of one contract are added.
const HISTORIC: [&[&str]; 4] = [
    &["BASE"],
    &["HCHC", "HCHP"],
    &["EJPHN", "EJPHPM"],
    &["BBRHCJB", "BBRHPJB", "BBRHCJW", "BBRHPJW", "BBRHCJR", "BBRHPJR"],
];

/// Why a frame is not used. No value of it appears here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TicError {
    #[error("the checksum of {0} is wrong; check the cable, and that the line is 7E1")]
    Checksum(String),
    #[error("{0} is not a number")]
    Value(String),
    #[error("{0} occurs twice")]
    Twice(String),
    #[error("{0} is there, and other counters of the same contract are not")]
    Part(&'static str),
    #[error("the frame has no counter (EAST in the standard form, BASE, HCHC, EJPHN or BBRHCJB in the historic one)")]
    Nothing,
}

/// Gathers bytes, and gives out what lies between STX and ETX.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        // A 7E1 line that was read as 8N1 carries its parity in the eighth bit.
        self.buffer.extend(bytes.iter().map(|byte| byte & 0x7f));
    }

    /// Returns the next whole frame, without STX and ETX.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        loop {
            let start = self.buffer.iter().position(|byte| *byte == START);
            self.buffer.drain(..start.unwrap_or(self.buffer.len()));
            let end = self.buffer.iter().skip(1).position(|byte| matches!(*byte, START | END)).map(|end| end + 1);
            match end {
                Some(end) if self.buffer[end] == END => {
                    let frame: Vec<u8> = self.buffer.drain(..=end).collect();
                    return Some(frame[1..end].to_vec());
                }
                // The end of the frame before it got lost.
                Some(start) => drop(self.buffer.drain(..start)),
                None if self.buffer.len() > LONGEST => self.buffer.clear(),
                None => return None,
            }
        }
    }
}

/// Reads a frame. The historic form never says what is fed in, and the standard one only for those who have a contract for it.
pub fn parse(frame: &[u8]) -> Result<Values, TicError> {
    let mut counters: Vec<(&str, i64)> = Vec::new();
    let text = String::from_utf8_lossy(frame);
    for line in text.split(['\n', '\r']).filter(|line| !line.is_empty()) {
        let Some((label, value)) = split(line)? else { continue };
        let known = HISTORIC.into_iter().flatten().chain(&["EAST", "EAIT"]).find(|known| **known == label);
        let Some(label) = known else { continue };
        let value = Unit::Wh.read(value).ok_or_else(|| TicError::Value((*label).to_owned()))?;
        if counters.iter().any(|(before, _)| before == label) {
            return Err(TicError::Twice((*label).to_owned()));
        }
        counters.push((label, value));
    }
    let of = |label: &str| counters.iter().find(|(known, _)| *known == label).map(|(_, value)| *value);
    let mut import = of("EAST");
    for contract in HISTORIC {
        let mut all = contract.iter().map(|label| of(label).ok_or(*label));
        match (all.clone().any(|counter| counter.is_ok()), all.find_map(Result::err)) {
            (false, _) => {}
            (true, Some(_)) => {
                let there = contract.iter().find(|label| of(label).is_some());
                return Err(TicError::Part(there.copied().unwrap_or_default()));
            }
            (true, None) => {
                let sum = contract.iter().filter_map(|label| of(label)).fold(0i64, i64::saturating_add);
                import = import.or(Some(sum));
            }
        }
    }
    if import.is_none() {
        return Err(TicError::Nothing);
    }
    Ok(Values { import, export: of("EAIT"), power: None, step: Some(1000) })
}

/// Splits a line, and checks its sum; `None` for what is no line.
fn split(line: &str) -> Result<Option<(&str, &str)>, TicError> {
    // The checksum is the last character, which may be a space.
    let Some((at, checksum)) = line.char_indices().next_back() else { return Ok(None) };
    let body = &line[..at];
    let Some(separator) = body.chars().next_back().filter(|separator| matches!(separator, ' ' | '\t')) else {
        return Ok(None);
    };
    let inner = &body[..body.len() - 1];
    let Some((label, rest)) = inner.split_once(separator) else { return Ok(None) };
    // Between label and value, standard lines may have the time.
    let value = rest.rsplit_once(separator).map_or(rest, |(_, value)| value);
    // The historic form leaves the last separator out of the sum.
    let summed = if separator == '\t' { body } else { inner };
    let sum = summed.bytes().fold(0u8, u8::wrapping_add);
    if checksum == char::from((sum & 0x3f) + 0x20) {
        Ok(Some((label, value)))
    } else {
        Err(TicError::Checksum(label.chars().filter(char::is_ascii_alphanumeric).take(8).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As meters send them, without their serial numbers.
    const HISTORIC_FRAME: &str = "\x02\nOPTARIF HC.. <\r\nISOUSC 45 ?\r\nHCHC 094939439 8\r\nHCHP 127970334 7\r\nPTEC HP..  \r\n\
        IINST 009  \r\nIMAX 049 L\r\nPAPP 02160 *\r\nHHPHC E 0\r\nMOTDETAT 400000 F\r\x03";
    const STANDARD_FRAME: &str = "\x02\nVTIC\t02\tJ\r\nDATE\tH190323161039\t\tG\r\nEAST\t006231973\t.\r\nEASF02\t000000000\t#\r\n\
        EASD02\t000000000\t!\r\nURMS1\t235\tD\r\nPREF\t09\tH\r\nSINSTS\t01163\tQ\r\nSTGE\t003A0001\t:\r\nRELAIS\t000\tB\r\x03";

    fn frames(stream: &[u8], size: usize) -> Vec<Vec<u8>> {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for piece in stream.chunks(size) {
            frames.push(piece);
            found.extend(std::iter::from_fn(|| frames.next_frame()));
        }
        found
    }

    type Numbers = (Option<i64>, Option<i64>, Option<i64>);

    fn values(frame: &str) -> Result<Numbers, TicError> {
        let frame = frames(frame.as_bytes(), frame.len()).pop().expect("a frame");
        parse(&frame).map(|values| (values.import, values.export, values.power))
    }

    #[test]
    fn counters_are_read_and_apparent_power_is_not() {
        assert_eq!(values(HISTORIC_FRAME), Ok((Some(222_909_773_000), None, None)));
        assert_eq!(values(STANDARD_FRAME), Ok((Some(6_231_973_000), None, None)));
        assert_eq!(values("\x02\nEAST\t023591827\t4\r\x03"), Ok((Some(23_591_827_000), None, None)));
    }

    #[test]
    fn a_part_of_a_contract_and_a_wrong_sum_are_refused() {
        let half = HISTORIC_FRAME.replace("HCHP 127970334 7\r\n", "");
        assert_eq!(values(&half), Err(TicError::Part("HCHC")));
        let wrong = HISTORIC_FRAME.replace("094939439", "094939438");
        assert_eq!(values(&wrong), Err(TicError::Checksum("HCHC".to_owned())));
        let twice = STANDARD_FRAME.replace("PREF", "EAST\t006231973\t.\r\nPREF");
        assert_eq!(values(&twice), Err(TicError::Twice("EAST".to_owned())));
        assert_eq!(values("\x02\nRELAIS\t000\tB\r\x03"), Err(TicError::Nothing));
    }

    #[test]
    fn frames_are_found_in_whatever_pieces_they_come_and_with_parity() {
        let cut = &HISTORIC_FRAME[..40];
        let stream =
            [b"tail\x03".as_slice(), cut.as_bytes(), HISTORIC_FRAME.as_bytes(), STANDARD_FRAME.as_bytes()].concat();
        let with_parity: Vec<u8> =
            stream.iter().map(|byte| byte | u8::try_from(byte.count_ones() % 2).unwrap_or(0) << 7).collect();
        for size in [1, 7, stream.len()] {
            let found = frames(&stream, size);
            assert_eq!(found.len(), 2, "in pieces of {size}");
            assert_eq!(frames(&with_parity, size), found);
        }
    }
}
