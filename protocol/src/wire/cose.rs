//! The two COSE envelopes (RFC 9052), untagged: Mac0 with HMAC 256/64, Sign1 with EdDSA.
//!
//! The topic a message travels on is its external additional data, so a message replayed on another topic is refused.

use alloc::vec::Vec;

use hmac::Mac;

use super::cbor::{DecodeError, Reader, Writer, byte_string_head};
use crate::keys::{IdentityKey, IdentityPublic, MacKey, tags_equal};

/// `{1: 4}`, HMAC 256/64.
const MAC_PROTECTED: [u8; 3] = [0xa1, 0x01, 0x04];
/// `{1: -8}`, EdDSA.
const SIGN_PROTECTED: [u8; 3] = [0xa1, 0x01, 0x27];
/// The header parameter for a certificate chain.
const X5CHAIN: u64 = 33;
/// Bytes of a tag of HMAC 256/64.
const TAG: usize = 8;

/// A decoded COSE_Mac0, not yet verified.
#[derive(Debug, Clone, Copy)]
pub struct Mac0<'a> {
    payload: &'a [u8],
    tag: [u8; TAG],
}

impl<'a> Mac0<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        reader.array(4)?;
        protected(&mut reader, &MAC_PROTECTED)?;
        if reader.map()? != 0 {
            return Err(DecodeError::WrongHeader { expected: "empty" });
        }
        let payload = reader.bytes()?;
        let tag = reader.fixed("tag")?;
        reader.end()?;
        Ok(Self { payload, tag })
    }

    /// The payload, to find out whose key should verify it.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    pub fn tag(&self) -> &[u8] {
        &self.tag
    }

    pub fn verifies(&self, key: &MacKey, topic: &str) -> bool {
        tags_equal(&tag(key, topic, self.payload), &self.tag)
    }
}

/// What wraps a payload in an envelope.
pub trait Seal {
    /// Returns the envelope around a payload that travels on this topic.
    fn envelope(self, payload: &[u8], topic: &str) -> Vec<u8>;
}

impl Seal for &MacKey {
    fn envelope(self, payload: &[u8], topic: &str) -> Vec<u8> {
        let tag = tag(self, topic, payload);
        Writer::array(4).bytes(&MAC_PROTECTED).raw(&[0xa0]).bytes(payload).bytes(&tag).finish()
    }
}

impl Seal for &IdentityKey {
    fn envelope(self, payload: &[u8], topic: &str) -> Vec<u8> {
        sign1(payload, self, topic, None)
    }
}

/// With the signer's certificate, in DER.
impl Seal for (&IdentityKey, &[u8]) {
    fn envelope(self, payload: &[u8], topic: &str) -> Vec<u8> {
        sign1(payload, self.0, topic, Some(self.1))
    }
}

/// HMAC 256/64 over the MAC_structure, fed piece by piece: this is the gateway's hot path and allocates nothing.
fn tag(key: &MacKey, topic: &str, payload: &[u8]) -> [u8; TAG] {
    let mut mac = key.schedule().clone();
    mac.update(b"\x84\x64MAC0\x43\xa1\x01\x04");
    for bytes in [topic.as_bytes(), payload] {
        let (head, len) = byte_string_head(bytes.len());
        mac.update(&head[..len]);
        mac.update(bytes);
    }
    let full = mac.finalize().into_bytes();
    core::array::from_fn(|i| full[i])
}

/// A decoded COSE_Sign1, not yet verified.
#[derive(Debug, Clone, Copy)]
pub struct Sign1<'a> {
    certificate: Option<&'a [u8]>,
    payload: &'a [u8],
    signature: [u8; 64],
}

impl<'a> Sign1<'a> {
    /// Decodes an envelope with exactly one certificate.
    pub fn decode_certified(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        const EXPECTED: DecodeError = DecodeError::WrongHeader { expected: "one x5chain certificate" };
        let envelope = Self::read(bytes, EXPECTED)?;
        Ok((envelope, envelope.certificate.ok_or(EXPECTED)?))
    }

    /// Decodes an envelope without a certificate.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        const EXPECTED: DecodeError = DecodeError::WrongHeader { expected: "empty" };
        let envelope = Self::read(bytes, EXPECTED)?;
        if envelope.certificate.is_some() { Err(EXPECTED) } else { Ok(envelope) }
    }

    /// Decodes an envelope with or without a certificate: to show a message before its kind is known.
    pub fn decode_any(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::read(bytes, DecodeError::WrongHeader { expected: "empty or one x5chain certificate" })
    }

    fn read(bytes: &'a [u8], expected: DecodeError) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        reader.array(4)?;
        protected(&mut reader, &SIGN_PROTECTED)?;
        let certificate = match reader.map()? {
            0 => None,
            1 if reader.uint()? == X5CHAIN => Some(reader.bytes()?),
            _ => return Err(expected),
        };
        let payload = reader.bytes()?;
        let signature = reader.fixed("signature")?;
        reader.end()?;
        Ok(Self { certificate, payload, signature })
    }

    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The certificate that the envelope carries, in DER.
    pub fn certificate(&self) -> Option<&'a [u8]> {
        self.certificate
    }

    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    pub fn verifies(&self, key: &IdentityPublic, topic: &str) -> bool {
        key.verifies(&signed_bytes(topic, self.payload), &self.signature)
    }
}

/// Wraps a payload in a COSE_Sign1, with the signer's certificate if given.
fn sign1(payload: &[u8], key: &IdentityKey, topic: &str, certificate: Option<&[u8]>) -> Vec<u8> {
    let signature = key.sign(&signed_bytes(topic, payload));
    let envelope = Writer::array(4).bytes(&SIGN_PROTECTED);
    let envelope = match certificate {
        None => envelope.raw(&[0xa0]),
        Some(der) => envelope.raw(&[0xa1]).uint(X5CHAIN).bytes(der),
    };
    envelope.bytes(payload).bytes(&signature).finish()
}

/// The Sig_structure.
fn signed_bytes(topic: &str, payload: &[u8]) -> Vec<u8> {
    Writer::array(4).text("Signature1").bytes(&SIGN_PROTECTED).bytes(topic.as_bytes()).bytes(payload).finish()
}

fn protected(reader: &mut Reader<'_>, expected: &[u8]) -> Result<(), DecodeError> {
    if reader.bytes()? == expected { Ok(()) } else { Err(DecodeError::WrongAlgorithm) }
}
