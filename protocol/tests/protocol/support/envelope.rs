//! COSE envelopes made by another implementation, around any payload.

use coset::cbor::value::Value;
use coset::{CborSerializable, CoseMac0Builder, CoseSign1Builder, HeaderBuilder, iana};
use ed25519_dalek::{Signer, SigningKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::messages::Seal;

/// The header parameter for a certificate chain.
pub(crate) const X5CHAIN: i64 = 33;

pub(crate) fn seal(seal: &Seal, payload: &[u8], topic: &str) -> Vec<u8> {
    let aad = topic.as_bytes();
    match seal {
        Seal::Mac(key) => CoseMac0Builder::new()
            .protected(HeaderBuilder::new().algorithm(iana::Algorithm::HMAC_256_64).build())
            .payload(payload.to_vec())
            .create_tag(aad, |data| hmac_256_64(key, data))
            .build()
            .to_vec()
            .unwrap(),
        Seal::Sign(seed) => sign(seed, HeaderBuilder::new(), payload, aad),
        Seal::Certified(issued) => {
            let chain = HeaderBuilder::new().value(X5CHAIN, Value::Bytes(issued.der.clone()));
            sign(&issued.seed, chain, payload, aad)
        }
    }
}

fn sign(seed: &[u8; 32], unprotected: HeaderBuilder, payload: &[u8], aad: &[u8]) -> Vec<u8> {
    CoseSign1Builder::new()
        .protected(HeaderBuilder::new().algorithm(iana::Algorithm::EdDSA).build())
        .unprotected(unprotected.build())
        .payload(payload.to_vec())
        .create_signature(aad, |data| SigningKey::from_bytes(seed).sign(data).to_vec())
        .build()
        .to_vec()
        .unwrap()
}

pub(crate) fn hmac_256_64(key: &[u8; 32], data: &[u8]) -> Vec<u8> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).unwrap();
    mac.update(data);
    mac.finalize().into_bytes()[..8].to_vec()
}
