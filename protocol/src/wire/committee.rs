//! 8 and 9: what members and holders of a committee say (`protocol.md 4a, 7`).

use super::{DecodeError, Message, Reader, Writer, read_about, write_about};
use crate::keys::MacKey;
use crate::scheme::committee::field::Element;
use crate::time::Slot;

/// 8: a member's noisy reading, hidden by what it deals to the holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DealtReading<'a> {
    pub list: [u8; 8],
    pub slot: Slot,
    pub attempt: u8,
    pub ciphertext: Element,
    /// For each holder after the first q, in order: how far what it is dealt is off the polynomial. 8 bytes each, below p.
    pub corrections: &'a [u8],
}

impl<'a> Message<'a> for DealtReading<'a> {
    const KIND: u64 = 8;
    const FIELDS: u64 = 6;
    type Key<'k> = &'k MacKey;

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (list, slot, attempt) = read_about(reader)?;
        let ciphertext = element(reader.fixed("ciphertext")?, "ciphertext")?;
        Ok(Self { list, slot, attempt, ciphertext, corrections: corrections(reader)? })
    }

    fn write(&self, writer: Writer) -> Writer {
        let head = write_about(writer, &self.list, self.slot, self.attempt);
        head.bytes(&self.ciphertext.to_be_bytes()).bytes(self.corrections)
    }
}

/// 9: a holder's answer to a request: the sum of what the members that are not missing dealt to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub list: [u8; 8],
    pub slot: Slot,
    pub attempt: u8,
    pub sum: Element,
    /// Names the request that is answered: the start of its payload's SHA-256.
    pub request: [u8; 8],
}

impl Message<'_> for Answer {
    const KIND: u64 = 9;
    const FIELDS: u64 = 6;
    type Key<'k> = &'k MacKey;

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (list, slot, attempt) = read_about(reader)?;
        let sum = element(reader.fixed("sum")?, "sum")?;
        Ok(Self { list, slot, attempt, sum, request: reader.fixed("request hash")? })
    }

    fn write(&self, writer: Writer) -> Writer {
        let head = write_about(writer, &self.list, self.slot, self.attempt);
        head.bytes(&self.sum.to_be_bytes()).bytes(&self.request)
    }
}

/// A number below p.
fn element(bytes: [u8; 8], field: &'static str) -> Result<Element, DecodeError> {
    Element::from_canonical(u64::from_be_bytes(bytes)).ok_or(DecodeError::OutOfRange { field })
}

/// Whole numbers below p. The caller, who knows the list, checks how many there are.
pub(crate) fn corrections<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    const FIELD: &str = "corrections";
    let bytes = reader.bytes()?;
    let (values, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(DecodeError::OutOfRange { field: FIELD });
    }
    values.iter().try_for_each(|value| element(*value, FIELD).map(drop))?;
    Ok(bytes)
}
