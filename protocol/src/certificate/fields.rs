//! The fields of a certificate, read by the rules of DER and by no others (`protocol.md 3`).
//!
//! One reader serves meters and gateways, so that they cannot disagree. It borrows everything and needs no std. What it leaves
//! alone is opaque: serial numbers, other attributes of names, other extensions.

use alloc::vec::Vec;

use der::asn1::{BitStringRef, IntRef};
use der::{Decode, ErrorKind, Length, Reader, SliceReader, TagMode, TagNumber};

use super::CertificateError;

/// Object identifiers, as the bytes that DER has for them.
pub(super) mod oid {
    pub(crate) const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
    #[cfg(feature = "p256")]
    pub(crate) const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
    #[cfg(feature = "p256")]
    pub(crate) const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    #[cfg(feature = "p256")]
    pub(crate) const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
    pub(crate) const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
    pub(crate) const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
    pub(crate) const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
    pub(crate) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
    pub(crate) const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
}

/// Tags of DER, as their bytes.
pub(super) mod tag {
    pub(crate) const BOOLEAN: u8 = 0x01;
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const BIT_STRING: u8 = 0x03;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(crate) const UTF8_STRING: u8 = 0x0c;
    pub(crate) const PRINTABLE_STRING: u8 = 0x13;
    pub(crate) const UTC_TIME: u8 = 0x17;
    pub(crate) const GENERALIZED_TIME: u8 = 0x18;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;
    /// `[6]` of GeneralName, and `[3]` of a certificate.
    pub(crate) const URI: u8 = 0x86;
    pub(crate) const EXTENSIONS: u8 = 0xa3;
}

/// One element: whatever its tag is, its length is in the form that DER asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) value: &'a [u8],
}

impl<'a> Element<'a> {
    fn decode(reader: &mut SliceReader<'a>) -> der::Result<Self> {
        let tag = reader.read_byte()?;
        // Tags of several bytes are in no certificate.
        if tag & 0x1f == 0x1f {
            return Err(odd());
        }
        let length = Length::decode(reader)?;
        Ok(Self { tag, value: reader.read_slice(length)? })
    }

    /// Reads exactly one element.
    pub(super) fn from_der(der: &'a [u8]) -> der::Result<Self> {
        whole(der, Self::decode)
    }
}

/// What a certificate says, with nothing of it judged.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    pub(super) whole: &'a [u8],
    /// What the authority signed.
    pub(super) signed: &'a [u8],
    pub(super) algorithm: Algorithm<'a>,
    pub(super) signature: &'a [u8],
    /// In DER, as all names and keys are compared.
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
    pub(super) key_info: &'a [u8],
    pub(super) common_names: Vec<Element<'a>>,
    /// Unix seconds; instants before 1970 count as 0.
    pub(super) not_before: u64,
    pub(super) not_after: u64,
    pub(super) extensions: Vec<Extension<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extension<'a> {
    pub(super) oid: &'a [u8],
    pub(super) critical: bool,
    pub(super) value: &'a [u8],
}

/// An AlgorithmIdentifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Algorithm<'a> {
    pub(super) oid: &'a [u8],
    pub(super) parameters: Option<Element<'a>>,
}

impl Algorithm<'_> {
    /// Ed25519 has no parameters (RFC 8410).
    pub(super) fn is_ed25519(&self) -> bool {
        self.oid == oid::ED25519 && self.parameters.is_none()
    }
}

impl<'a> Fields<'a> {
    pub(super) fn read(der: &'a [u8]) -> Result<Self, CertificateError> {
        Self::decode(der).map_err(|_| CertificateError::Malformed)
    }

    fn decode(der: &'a [u8]) -> der::Result<Self> {
        let [signed, outer, signature] = whole(sequence(der)?, |parts| {
            Ok([parts.tlv_bytes()?, parts.tlv_bytes()?, BitStringRef::decode(parts)?.as_bytes().ok_or_else(odd)?])
        })?;
        whole(sequence(signed)?, |fields| {
            // Version 3: nothing else has extensions.
            if fields.tlv_bytes()? != [0xa0, 0x03, 0x02, 0x01, 0x02] {
                return Err(odd());
            }
            IntRef::decode(fields)?; // the serial number
            // The algorithm is stated twice, the first time under the signature.
            let inner = fields.tlv_bytes()?;
            if inner != outer {
                return Err(odd());
            }
            let issuer = fields.tlv_bytes()?;
            common_names(issuer)?;
            let [not_before, not_after] =
                whole(sequence(fields.tlv_bytes()?)?, |times| Ok([time(times)?, time(times)?]))?;
            let subject = fields.tlv_bytes()?;
            let key_info = fields.tlv_bytes()?;
            for unique_id in [1, 2].map(TagNumber) {
                fields.context_specific::<BitStringRef<'_>>(unique_id, TagMode::Implicit)?;
            }
            let extensions = if fields.is_finished() { Vec::new() } else { extensions(fields)? };
            Ok(Self {
                whole: der,
                signed,
                algorithm: algorithm(inner)?,
                signature,
                issuer,
                subject,
                key_info,
                common_names: common_names(subject)?,
                not_before,
                not_after,
                extensions,
            })
        })
    }

    /// Returns the algorithm and the bytes of the subject's key.
    pub(super) fn key(&self) -> Result<(Algorithm<'a>, &'a [u8]), CertificateError> {
        public_key(self.key_info).ok_or(CertificateError::Malformed)
    }
}

/// Reads a SubjectPublicKeyInfo.
pub(super) fn public_key(info: &[u8]) -> Option<(Algorithm<'_>, &[u8])> {
    let read = whole(sequence(info).ok()?, |parts| {
        let (of, key) = (algorithm(parts.tlv_bytes()?)?, BitStringRef::decode(parts)?);
        Ok((of, key.as_bytes().ok_or_else(odd)?))
    });
    read.ok()
}

/// Returns what subjectAltName has as URIs; `None` if it is no list of names.
pub(super) fn uris(value: &[u8]) -> Option<Vec<&str>> {
    let mut uris = Vec::new();
    for name in elements(sequence(value).ok()?).ok()? {
        match name.tag {
            // A URI that is no text is none of ours.
            tag::URI => uris.extend(core::str::from_utf8(name.value).ok()),
            // The other kinds of names: some have parts, and some have none.
            0xa0 | 0x81 | 0x82 | 0xa3 | 0xa4 | 0xa5 | 0x87 | 0x88 => {}
            _ => return None,
        }
    }
    Some(uris)
}

/// Returns whether basicConstraints says CA; `None` if it is malformed.
pub(super) fn is_authority(value: &[u8]) -> Option<bool> {
    let parts = elements(sequence(value).ok()?).ok()?;
    let flag = |element: &Element<'_>| match element {
        Element { tag: tag::BOOLEAN, value: [0xff] } => Some(true),
        Element { tag: tag::BOOLEAN, value: [0] } => Some(false),
        _ => None,
    };
    match parts.as_slice() {
        [] | [Element { tag: tag::INTEGER, .. }] => Some(false),
        [ca] | [ca, Element { tag: tag::INTEGER, .. }] => flag(ca),
        _ => None,
    }
}

/// Returns whether keyUsage has digitalSignature; `None` if it is malformed.
pub(super) fn allows_signatures(value: &[u8]) -> Option<bool> {
    let bits = Element::from_der(value).ok().filter(|bits| bits.tag == tag::BIT_STRING)?;
    let (unused, bits) = bits.value.split_first()?;
    let first = bits.first().copied().unwrap_or(0);
    (*unused < 8).then_some(first & 0x80 != 0)
}

/// Whether extendedKeyUsage is a list of object identifiers.
pub(super) fn is_list_of_purposes(value: &[u8]) -> bool {
    let purposes = sequence(value).and_then(elements);
    purposes.is_ok_and(|all| all.iter().all(|one| one.tag == tag::OBJECT_IDENTIFIER && !one.value.is_empty()))
}

fn odd() -> der::Error {
    ErrorKind::Failed.into()
}

/// Returns the content of exactly one element, a SEQUENCE.
fn sequence(der: &[u8]) -> der::Result<&[u8]> {
    let any = Element::from_der(der)?;
    if any.tag == tag::SEQUENCE { Ok(any.value) } else { Err(odd()) }
}

/// Reads all of some bytes.
fn whole<'a, T>(bytes: &'a [u8], read: impl FnOnce(&mut SliceReader<'a>) -> der::Result<T>) -> der::Result<T> {
    let mut reader = SliceReader::new(bytes)?;
    let value = read(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

fn elements(content: &[u8]) -> der::Result<Vec<Element<'_>>> {
    whole(content, |reader| {
        let mut all = Vec::new();
        while !reader.is_finished() {
            all.push(Element::decode(reader)?);
        }
        Ok(all)
    })
}

fn object_identifier<'a>(reader: &mut SliceReader<'a>) -> der::Result<&'a [u8]> {
    let oid = Element::decode(reader)?;
    if oid.tag == tag::OBJECT_IDENTIFIER && !oid.value.is_empty() { Ok(oid.value) } else { Err(odd()) }
}

fn algorithm(der: &[u8]) -> der::Result<Algorithm<'_>> {
    whole(sequence(der)?, |parts| {
        let oid = object_identifier(parts)?;
        let parameters = if parts.is_finished() { None } else { Some(Element::decode(parts)?) };
        Ok(Algorithm { oid, parameters })
    })
}

/// Returns the values of all common names in a name.
fn common_names(name: &[u8]) -> der::Result<Vec<Element<'_>>> {
    let mut found = Vec::new();
    for relative in elements(sequence(name)?)? {
        let attributes = elements(relative.value)?;
        if relative.tag != tag::SET || attributes.is_empty() {
            return Err(odd());
        }
        for attribute in attributes {
            if attribute.tag != tag::SEQUENCE {
                return Err(odd());
            }
            let (kind, value) =
                whole(attribute.value, |parts| Ok((object_identifier(parts)?, Element::decode(parts)?)))?;
            found.extend((kind == oid::COMMON_NAME).then_some(value));
        }
    }
    Ok(found)
}

/// Reads `[3]`, the extensions.
fn extensions<'a>(fields: &mut SliceReader<'a>) -> der::Result<Vec<Extension<'a>>> {
    let tagged = Element::decode(fields)?;
    if tagged.tag != tag::EXTENSIONS {
        return Err(odd());
    }
    elements(sequence(tagged.value)?)?.into_iter().map(extension).collect()
}

fn extension(extension: Element<'_>) -> der::Result<Extension<'_>> {
    if extension.tag != tag::SEQUENCE {
        return Err(odd());
    }
    whole(extension.value, |parts| {
        let oid = object_identifier(parts)?;
        let mut value = Element::decode(parts)?;
        // FALSE is the default, which DER leaves out.
        let critical = value.tag == tag::BOOLEAN && value.value == [0xff];
        if critical {
            value = Element::decode(parts)?;
        }
        if value.tag == tag::OCTET_STRING { Ok(Extension { oid, critical, value: value.value }) } else { Err(odd()) }
    })
}

/// Reads a UTCTime or a GeneralizedTime of whole seconds in UTC, as Unix seconds.
fn time(reader: &mut SliceReader<'_>) -> der::Result<u64> {
    let time = Element::decode(reader)?;
    let digits = time.value.strip_suffix(b"Z").ok_or_else(odd)?;
    let (century, short) = match (time.tag, digits) {
        (tag::UTC_TIME, [b'5'..=b'9', ..]) => (19, digits),
        (tag::UTC_TIME, _) => (20, digits),
        (tag::GENERALIZED_TIME, [first, second, rest @ ..]) => (two_digits([*first, *second])?, rest),
        _ => return Err(odd()),
    };
    let (&[year, month, day, hour, minute, second], []) = short.as_chunks::<2>() else { return Err(odd()) };
    let year = century * 100 + two_digits(year)?;
    let [month, day, hour, minute, second] =
        [two_digits(month)?, two_digits(day)?, two_digits(hour)?, two_digits(minute)?, two_digits(second)?];
    if !(1..=12).contains(&month)
        || !(1..=days_in(year, month)).contains(&day)
        || hour > 23
        || minute > 59
        || second > 59
    {
        return Err(odd());
    }
    let seconds = ((days_before(year, month) + i64::from(day - 1)) * 24 + i64::from(hour)) * 3600;
    Ok(u64::try_from(seconds + i64::from(minute * 60 + second)).unwrap_or(0))
}

fn two_digits(digits: [u8; 2]) -> der::Result<u32> {
    let [tens, ones] = digits.map(|digit| char::from(digit).to_digit(10));
    Ok(tens.ok_or_else(odd)? * 10 + ones.ok_or_else(odd)?)
}

const fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

const fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 => 28 + is_leap(year) as u32,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to the first of a month.
fn days_before(year: u32, month: u32) -> i64 {
    let years = i64::from(year) - 1;
    let leap_days = years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    let until_year = years * 365 + leap_days - (1969 * 365 + 477);
    until_year + (1..month).map(|month| i64::from(days_in(year, month))).sum::<i64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tag: u8, text: &str) -> Option<u64> {
        let length = u8::try_from(text.len()).unwrap();
        let der = [&[tag, length], text.as_bytes()].concat();
        whole(&der, time).ok()
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let (utc, generalized) = (0x17, 0x18);
        assert_eq!(read(utc, "700101000000Z"), Some(0));
        assert_eq!(read(utc, "691231235959Z"), Some(0), "1969");
        assert_eq!(read(utc, "500101000000Z"), Some(0), "1950, before 1970");
        assert_eq!(read(utc, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(read(utc, "240229120000Z"), Some(1_709_208_000));
        assert_eq!(read(generalized, "20000229000000Z"), Some(951_782_400));
        assert_eq!(read(generalized, "99991231235959Z"), Some(253_402_300_799));
        assert_eq!(read(generalized, "00010101000000Z"), Some(0));
    }

    #[test]
    fn times_that_are_none_are_refused() {
        let (utc, generalized) = (0x17, 0x18);
        for text in [
            "230229000000Z",
            "241301000000Z",
            "240100000000Z",
            "240101240000Z",
            "240101006000Z",
            "240101000060Z",
            "2401010000Z",
        ] {
            assert_eq!(read(utc, text), None, "{text}");
        }
        for text in ["20240101000000", "20240101000000+0000", "20240101000000.5Z", "21000229000000Z", "2024010100000aZ"]
        {
            assert_eq!(read(generalized, text), None, "{text}");
        }
        assert_eq!(read(0x16, "700101000000Z"), None);
    }
}
