//! Deterministic CBOR (RFC 8949, 4.2) over `minicbor`: shortest forms only, definite lengths only, nothing left over.

use minicbor::decode::Error as CborError;
use minicbor::{Decoder, Encoder};
use thiserror::Error;

use crate::ids::IdError;

/// Why bytes are not a message. `at` counts bytes from the start of the envelope or of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
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
    #[error("`{field}` is not an id: {reason}")]
    Id { field: &'static str, reason: IdError },
}

/// Reads one item after the other and refuses every encoding but the deterministic one.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    inner: Decoder<'a>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { inner: Decoder::new(bytes) }
    }

    /// Ends the reading: nothing may be left.
    pub(crate) fn end(self) -> Result<(), DecodeError> {
        match self.inner.input().len() - self.inner.position() {
            0 => Ok(()),
            extra => Err(DecodeError::Trailing { extra }),
        }
    }

    pub(crate) fn array(&mut self, expected: u64) -> Result<(), DecodeError> {
        let at = self.inner.position();
        match self.array_of_any()? {
            found if found == expected => Ok(()),
            found => Err(DecodeError::WrongCount { at, expected, found }),
        }
    }

    /// The length of an array of any length; `item` has refused an indefinite one.
    pub(crate) fn array_of_any(&mut self) -> Result<u64, DecodeError> {
        self.item("an array", Decoder::array, |len| len.map(head_len)).map(Option::unwrap_or_default)
    }

    pub(crate) fn map(&mut self) -> Result<u64, DecodeError> {
        self.item("a map", Decoder::map, |len| len.map(head_len)).map(Option::unwrap_or_default)
    }

    pub(crate) fn uint(&mut self) -> Result<u64, DecodeError> {
        self.item("an unsigned integer", Decoder::u64, |&value| Some(head_len(value)))
    }

    pub(crate) fn int(&mut self) -> Result<i64, DecodeError> {
        // A negative integer -1-n is encoded by n, which is its bitwise complement.
        let argument = |&value: &i64| Some(head_len((if value < 0 { !value } else { value }).unsigned_abs()));
        self.item("an integer of at most 64 bits", Decoder::i64, argument)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        self.item("a byte string", Decoder::bytes, |bytes| Some(head_len(bytes.len() as u64) + bytes.len()))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        self.item("a text string", Decoder::str, |text| Some(head_len(text.len() as u64) + text.len()))
    }

    pub(crate) fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let bytes = self.bytes()?;
        bytes.try_into().map_err(|_| DecodeError::WrongLength { field, expected: N, found: bytes.len() })
    }

    pub(crate) fn small(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        u8::try_from(self.uint()?).map_err(|_| DecodeError::OutOfRange { field })
    }

    pub(crate) fn kind(&mut self, expected: u64) -> Result<(), DecodeError> {
        match self.uint()? {
            found if found == expected => Ok(()),
            found => Err(DecodeError::WrongKind { expected, found }),
        }
    }

    /// Reads an item and compares its length with that of its only canonical encoding (`None`: it has none).
    fn item<T>(
        &mut self,
        expected: &'static str,
        read: impl FnOnce(&mut Decoder<'a>) -> Result<T, CborError>,
        canonical_len: impl FnOnce(&T) -> Option<usize>,
    ) -> Result<T, DecodeError> {
        let at = self.inner.position();
        let value = read(&mut self.inner).map_err(|error| {
            if error.is_end_of_input() {
                DecodeError::Truncated { at: self.inner.input().len() }
            } else {
                DecodeError::WrongType { at, expected }
            }
        })?;
        if canonical_len(&value) == Some(self.inner.position() - at) {
            Ok(value)
        } else {
            Err(DecodeError::NonCanonical { at })
        }
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
pub(crate) struct Writer {
    inner: Encoder<Vec<u8>>,
}

const TO_A_VEC: &str = "writing to a Vec cannot fail";

impl Writer {
    pub(crate) fn array(len: u64) -> Self {
        let mut inner = Encoder::new(Vec::new());
        inner.array(len).expect(TO_A_VEC);
        Self { inner }
    }

    pub(crate) fn nested_array(mut self, len: u64) -> Self {
        self.inner.array(len).expect(TO_A_VEC);
        self
    }

    pub(crate) fn uint(mut self, value: u64) -> Self {
        self.inner.u64(value).expect(TO_A_VEC);
        self
    }

    pub(crate) fn int(mut self, value: i64) -> Self {
        self.inner.i64(value).expect(TO_A_VEC);
        self
    }

    pub(crate) fn bytes(mut self, value: &[u8]) -> Self {
        self.inner.bytes(value).expect(TO_A_VEC);
        self
    }

    pub(crate) fn text(mut self, value: &str) -> Self {
        self.inner.str(value).expect(TO_A_VEC);
        self
    }

    pub(crate) fn raw(mut self, encoded: &[u8]) -> Self {
        self.inner.writer_mut().extend_from_slice(encoded);
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.inner.into_writer()
    }
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
