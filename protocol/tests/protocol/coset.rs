//! Another COSE implementation reads and verifies what the crate writes, and writes what the crate reads and verifies.

use coset::cbor::value::Value;
use coset::{CborSerializable, CoseMac0, CoseSign1, iana};
use dream_protocol::keys::{IdentityPublic, MacKey};
use dream_protocol::wire::{Mac0, Sign1};
use ed25519_dalek::{Signature, SigningKey, Verifier};

use crate::support::envelope::{self, X5CHAIN, hmac_256_64};
use crate::support::messages::{self, Seal, Sealed};
use crate::support::pki::Pki;

#[test]
fn another_implementation_verifies_every_message() {
    for message in messages::all(&Pki::new()) {
        assert!(theirs_verifies(&message, &message.topic), "{}", message.rule);
        assert!(!theirs_verifies(&message, "dream/v1/north/elsewhere"), "{} on another topic", message.rule);
    }
}

#[test]
fn another_implementation_writes_the_same_bytes() {
    for message in messages::all(&Pki::new()) {
        assert_eq!(
            envelope::seal(&message.seal, &message.payload, &message.topic),
            message.envelope,
            "{}",
            message.rule
        );
    }
}

#[test]
fn what_another_implementation_writes_verifies_here() {
    for message in messages::all(&Pki::new()) {
        // A payload that the crate did not make, so that nothing but the envelope is agreed on.
        let foreign = Sealed { payload: [&message.payload[..], b"foreign"].concat(), ..message };
        let envelope = envelope::seal(&foreign.seal, &foreign.payload, &foreign.topic);
        assert!(ours_verifies(&foreign, &envelope, &foreign.topic), "{}", foreign.rule);
        assert!(!ours_verifies(&foreign, &envelope, "dream/v1/north/elsewhere"), "{} elsewhere", foreign.rule);
        for at in [envelope.len() - 1, envelope.len() - 8] {
            let mut altered = envelope.clone();
            altered[at] ^= 1;
            assert!(!ours_verifies(&foreign, &altered, &foreign.topic), "{} altered at {at}", foreign.rule);
        }
    }
}

#[test]
fn tagged_envelopes_are_refused() {
    for message in messages::all(&Pki::new()) {
        let tag: &[u8] = if matches!(message.seal, Seal::Mac(_)) { &[0xd1] } else { &[0xd2] };
        let tagged = [tag, &message.envelope].concat();
        let refused = match message.seal {
            Seal::Mac(_) => Mac0::decode(&tagged).is_err(),
            Seal::Sign(_) => Sign1::decode(&tagged).is_err(),
            Seal::Certified(_) => Sign1::decode_certified(&tagged).is_err(),
        };
        assert!(refused, "{}", message.rule);
    }
}

fn theirs_verifies(message: &Sealed, topic: &str) -> bool {
    match &message.seal {
        Seal::Mac(key) => {
            let envelope = CoseMac0::from_slice(&message.envelope).unwrap();
            assert_eq!(envelope.protected.header.alg, Some(coset::Algorithm::Assigned(iana::Algorithm::HMAC_256_64)));
            assert!(envelope.unprotected.is_empty());
            assert_eq!(envelope.payload.as_ref(), Some(&message.payload));
            let verify = |tag: &[u8], data: &[u8]| if tag == hmac_256_64(key, data) { Ok(()) } else { Err(()) };
            envelope.verify_payload_tag(topic.as_bytes(), || (), verify).is_ok()
        }
        Seal::Sign(seed) => theirs_verifies_signature(message, seed, None, topic),
        Seal::Certified(issued) => theirs_verifies_signature(message, &issued.seed, Some(&issued.der), topic),
    }
}

fn theirs_verifies_signature(message: &Sealed, seed: &[u8; 32], certificate: Option<&[u8]>, topic: &str) -> bool {
    let envelope = CoseSign1::from_slice(&message.envelope).unwrap();
    assert_eq!(envelope.protected.header.alg, Some(coset::Algorithm::Assigned(iana::Algorithm::EdDSA)));
    let chain = certificate.map(|der| (coset::Label::Int(X5CHAIN), Value::Bytes(der.to_vec())));
    assert_eq!(envelope.unprotected.rest, Vec::from_iter(chain));
    assert_eq!(envelope.payload.as_ref(), Some(&message.payload));
    let key = SigningKey::from_bytes(seed).verifying_key();
    let verify = |signature: &[u8], data: &[u8]| key.verify(data, &Signature::from_slice(signature).unwrap());
    envelope.verify_signature(topic.as_bytes(), verify).is_ok()
}

fn ours_verifies(message: &Sealed, envelope: &[u8], topic: &str) -> bool {
    let public = |seed: &[u8; 32]| IdentityPublic(SigningKey::from_bytes(seed).verifying_key().to_bytes());
    let (payload, verifies) = match &message.seal {
        Seal::Mac(key) => {
            let mac0 = Mac0::decode(envelope).unwrap();
            (mac0.payload(), mac0.verifies(&MacKey::from_bytes(*key), topic))
        }
        Seal::Sign(seed) => {
            let sign1 = Sign1::decode(envelope).unwrap();
            (sign1.payload(), sign1.verifies(&public(seed), topic))
        }
        Seal::Certified(issued) => {
            let (sign1, certificate) = Sign1::decode_certified(envelope).unwrap();
            assert_eq!(certificate, issued.der);
            (sign1.payload(), sign1.verifies(&public(&issued.seed), topic))
        }
    };
    assert_eq!(payload, message.payload);
    verifies
}
