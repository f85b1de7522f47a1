//! Deterministic CBOR (RFC 8949, 4.2): shortest heads only, definite lengths only, nothing left over.
//!
//! Messages use five of CBOR's eight major types, and each item has exactly one encoding. With a reader of our own
//! that is a property of one function, [`Reader::head`]; nothing is copied, and the code fits a small meter.

use alloc::vec::Vec;

use strum::{IntoStaticStr, VariantNames};
use thiserror::Error;

use crate::ids::IdError;

/// Why bytes are not a message. `at` counts bytes from the start of the envelope or of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum DecodeError {
    #[error("the bytes end at {at}, inside an item")]
    Truncated { at: usize },
    #[error("{extra} bytes follow the end")]
    Trailing { extra: usize },
    #[error("the item at {at} is not in its shortest, definite form")]
    NonCanonical { at: usize },
    #[error("the item at {at} should be {expected}")]
    WrongType { at: usize, expected: &'static str },
    #[error("the array at {at} should have {expected} elements, it has {found}")]
    WrongCount { at: usize, expected: u64, found: u64 },
    #[error("`{field}` should have {expected} bytes, it has {found}")]
    WrongLength { field: &'static str, expected: usize, found: usize },
    #[error("`{field}` is out of range")]
    OutOfRange { field: &'static str },
    #[error("the message is of kind {found}, kind {expected} was expected here")]
    WrongKind { expected: u64, found: u64 },
    #[error("the protected header is not the one algorithm of this envelope")]
    WrongAlgorithm,
    #[error("the unprotected header should be {expected}")]
    WrongHeader { expected: &'static str },
    #[error(
        "the message is of an earlier format, from before the first release; update meters and gateway to one version"
    )]
    EarlierFormat,
    #[error("`{field}` is not an id: {reason}")]
    Id { field: &'static str, reason: IdError },
}

/// The major types in use.
const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;

/// Reads one item after the other and refuses every encoding but the deterministic one.
#[derive(Debug)]
#[expect(unnameable_types, reason = "messages are read and written here only, which seals their trait")]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Ends the reading: nothing may be left.
    pub(crate) fn end(self) -> Result<(), DecodeError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            extra => Err(DecodeError::Trailing { extra }),
        }
    }

    pub(crate) fn array(&mut self, expected: u64) -> Result<(), DecodeError> {
        let at = self.at;
        match self.array_of_any()? {
            found if found == expected => Ok(()),
            found => Err(DecodeError::WrongCount { at, expected, found }),
        }
    }

    pub(crate) fn array_of_any(&mut self) -> Result<u64, DecodeError> {
        self.head_of(ARRAY, "an array")
    }

    pub(crate) fn map(&mut self) -> Result<u64, DecodeError> {
        self.head_of(MAP, "a map")
    }

    pub(crate) fn uint(&mut self) -> Result<u64, DecodeError> {
        self.head_of(UNSIGNED, "an unsigned integer")
    }

    pub(crate) fn int(&mut self) -> Result<i64, DecodeError> {
        const EXPECTED: &str = "an integer of at most 64 bits";
        let at = self.at;
        let (major, argument) = self.head()?;
        let value = i64::try_from(argument).map_err(|_| DecodeError::WrongType { at, expected: EXPECTED })?;
        match major {
            UNSIGNED => Ok(value),
            // A negative integer -1-n is encoded by n, which is its complement.
            NEGATIVE => Ok(!value),
            _ => Err(DecodeError::WrongType { at, expected: EXPECTED }),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.head_of(BYTES, "a byte string")?;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        let at = self.at;
        let len = self.head_of(TEXT, "a text string")?;
        core::str::from_utf8(self.take(len)?).map_err(|_| DecodeError::WrongType { at, expected: "a text string" })
    }

    pub(crate) fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let bytes = self.bytes()?;
        bytes.try_into().map_err(|_| DecodeError::WrongLength { field, expected: N, found: bytes.len() })
    }

    pub(crate) fn small(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        u8::try_from(self.uint()?).map_err(|_| DecodeError::OutOfRange { field })
    }

    /// Reads a number that must be below `limit`.
    pub(crate) fn below(&mut self, limit: u64, field: &'static str) -> Result<u64, DecodeError> {
        self.uint().and_then(|value| if value < limit { Ok(value) } else { Err(DecodeError::OutOfRange { field }) })
    }

    /// Reads the number of an attempt that a list can allow, so that one more is a number too.
    pub(crate) fn attempt(&mut self) -> Result<u8, DecodeError> {
        let attempt = self.small("attempt")?;
        if attempt < u8::MAX { Ok(attempt) } else { Err(DecodeError::OutOfRange { field: "attempt" }) }
    }

    pub(crate) fn kind(&mut self, expected: u64) -> Result<(), DecodeError> {
        match self.uint()? {
            found if found == expected => Ok(()),
            found => Err(DecodeError::WrongKind { expected, found }),
        }
    }

    fn head_of(&mut self, major: u8, expected: &'static str) -> Result<u64, DecodeError> {
        let at = self.at;
        match self.head()? {
            (found, argument) if found == major => Ok(argument),
            _ => Err(DecodeError::WrongType { at, expected }),
        }
    }

    /// Major type and argument of the next item, which must be encoded in as few bytes as can be.
    #[inline]
    fn head(&mut self) -> Result<(u8, u64), DecodeError> {
        let at = self.at;
        let &first = self.bytes.get(at).ok_or(DecodeError::Truncated { at })?;
        self.at += 1;
        let argument = match first & 0x1f {
            short @ 0..=0x17 => short.into(),
            long => self.long_argument(long, at)?,
        };
        Ok((first >> 5, argument))
    }

    /// An argument of 1, 2, 4 or 8 bytes, none of which may be spare. Indefinite lengths, and what CBOR reserves, are refused.
    fn long_argument(&mut self, code: u8, at: usize) -> Result<u64, DecodeError> {
        let len = match code {
            0x18..=0x1b => 1 << (code - 0x18),
            _ => return Err(DecodeError::NonCanonical { at }),
        };
        let argument = self.take(len)?.iter().fold(0, |argument, &byte| argument << 8 | u64::from(byte));
        if head_len(argument) == self.at - at { Ok(argument) } else { Err(DecodeError::NonCanonical { at }) }
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        let len = usize::try_from(len).ok().filter(|&len| len <= rest.len());
        let len = len.ok_or(DecodeError::Truncated { at: self.bytes.len() })?;
        self.at += len;
        Ok(&rest[..len])
    }
}

/// How many bytes the head of an item with this argument has.
pub(crate) const fn head_len(argument: u64) -> usize {
    match argument {
        0..=0x17 => 1,
        0x18..=0xff => 2,
        0x100..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// Writes deterministic CBOR into a vector.
#[derive(Debug)]
#[expect(unnameable_types, reason = "messages are read and written here only, which seals their trait")]
pub struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn array(len: u64) -> Self {
        Self::sized(len, 64)
    }

    /// With room for so many bytes, so that secrets are not left behind where a growing buffer was.
    pub(crate) fn sized(len: u64, capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity)).head(ARRAY, len)
    }

    pub(crate) fn nested_array(self, len: u64) -> Self {
        self.head(ARRAY, len)
    }

    pub(crate) fn uint(self, value: u64) -> Self {
        self.head(UNSIGNED, value)
    }

    pub(crate) fn int(self, value: i64) -> Self {
        let major = if value < 0 { NEGATIVE } else { UNSIGNED };
        self.head(major, (if value < 0 { !value } else { value }).unsigned_abs())
    }

    pub(crate) fn bytes(self, value: &[u8]) -> Self {
        self.head(BYTES, value.len() as u64).raw(value)
    }

    pub(crate) fn text(self, value: &str) -> Self {
        self.head(TEXT, value.len() as u64).raw(value.as_bytes())
    }

    pub(crate) fn raw(mut self, encoded: &[u8]) -> Self {
        self.0.extend_from_slice(encoded);
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    fn head(self, major: u8, argument: u64) -> Self {
        let (head, len) = head(major, argument);
        self.raw(&head[..len])
    }
}

/// The head of an item, and how many of its bytes count. Nothing on the heap: the gateway's hot path uses it too.
pub(crate) fn head(major: u8, argument: u64) -> ([u8; 9], usize) {
    let len = head_len(argument);
    let mut head = [0; 9];
    let bytes = argument.to_be_bytes();
    if len == 1 {
        head[0] = major << 5 | bytes[7];
    } else {
        // 0x18, 0x19, 0x1a and 0x1b announce an argument of 1, 2, 4 and 8 bytes.
        head[0] = major << 5 | 0x18 | (len - 1).trailing_zeros().to_be_bytes()[3];
        head[1..len].copy_from_slice(&bytes[9 - len..]);
    }
    (head, len)
}

/// The head of a byte string.
pub(crate) fn byte_string_head(len: usize) -> ([u8; 9], usize) {
    head(BYTES, len as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_shortest_form_is_read() {
        let uint = |bytes: &[u8]| Reader::new(bytes).uint();
        assert_eq!(uint(&[0x17]), Ok(23));
        assert_eq!(uint(&[0x18, 0x18]), Ok(24));
        for long in [&[0x18, 0x17][..], &[0x19, 0, 0xff], &[0x1a, 0, 0, 0xff, 0xff], &[0x1b, 0, 0, 0, 0, 0, 0, 0, 1]] {
            assert_eq!(uint(long), Err(DecodeError::NonCanonical { at: 0 }), "{long:?}");
        }
        assert_eq!(Reader::new(&[0x38, 0x18]).int(), Ok(-25));
        assert_eq!(Reader::new(&[0x38, 0x17]).int(), Err(DecodeError::NonCanonical { at: 0 }));
        assert_eq!(Reader::new(&[0x3b, 0x7f, 255, 255, 255, 255, 255, 255, 255]).int(), Ok(i64::MIN));
        assert_eq!(Reader::new(&[0x58, 1, 7]).bytes(), Err(DecodeError::NonCanonical { at: 0 }));
        assert_eq!(Reader::new(&[0x98, 1]).array_of_any(), Err(DecodeError::NonCanonical { at: 0 }));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let lengths = [0, 1, 0x17, 0x18, 0xff, 0x100, 0xffff, 0x1_0000];
        for value in lengths.into_iter().chain([0xffff_ffff, 0x1_0000_0000, u64::MAX]) {
            let written = Writer::array(1).uint(value).finish();
            let mut reader = Reader::new(&written);
            assert_eq!((reader.array(1), reader.uint(), reader.end()), (Ok(()), Ok(value), Ok(())));
        }
        for value in [0, -1, -24, -25, i64::MIN, i64::MAX] {
            assert_eq!(Reader::new(&Writer::array(0).int(value).finish()[1..]).int(), Ok(value));
        }
        for len in lengths {
            let bytes = vec![7; usize::try_from(len).unwrap()];
            assert_eq!(Reader::new(&Writer::array(0).bytes(&bytes).finish()[1..]).bytes(), Ok(bytes.as_slice()));
        }
    }

    #[test]
    fn another_library_writes_the_same_bytes() {
        let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for value in edges.chain([u64::MAX]) {
            let signed = value.cast_signed();
            let bytes = vec![0xa5; usize::try_from(value % 70_000).unwrap()];
            let mut theirs = minicbor::Encoder::new(Vec::new());
            theirs.array(value).unwrap().u64(value).unwrap().i64(signed).unwrap();
            theirs.bytes(&bytes).unwrap().str("north").unwrap();
            let ours = Writer::array(value).uint(value).int(signed).bytes(&bytes).text("north").finish();
            assert_eq!(ours, theirs.into_writer(), "{value}");
        }
    }

    #[test]
    fn indefinite_lengths_are_refused() {
        assert!(matches!(Reader::new(&[0x9f, 0xff]).array_of_any(), Err(DecodeError::NonCanonical { .. })));
        assert!(matches!(Reader::new(&[0xbf, 0xff]).map(), Err(DecodeError::NonCanonical { .. })));
        assert!(Reader::new(&[0x5f, 0x41, 7, 0xff]).bytes().is_err());
        assert!(Reader::new(&[0x7f, 0x61, 0x61, 0xff]).text().is_err());
    }

    #[test]
    fn what_is_missing_and_what_is_too_much_are_told_apart() {
        assert_eq!(Reader::new(&[0x43, 1, 2]).bytes(), Err(DecodeError::Truncated { at: 3 }));
        assert_eq!(Reader::new(&[]).uint(), Err(DecodeError::Truncated { at: 0 }));
        assert_eq!(Reader::new(&[0, 0]).end(), Err(DecodeError::Trailing { extra: 2 }));
        assert!(matches!(Reader::new(&[0x20]).uint(), Err(DecodeError::WrongType { at: 0, .. })));
    }
}
