//! Whether an authority signed a certificate (`protocol.md 3`, rule 2).
//!
//! A gateway and a meter on a computer leave that to x509-parser, which knows RSA and ECDSA too. A device carries what its own
//! authorities sign with: Ed25519, and ECDSA on P-256 with the feature `p256`.

use super::fields::Fields;

/// Whether the signature verifies under the key of this SubjectPublicKeyInfo.
#[cfg(feature = "gateway")]
pub(super) fn verifies(read: &Fields<'_>, key_info: &[u8]) -> bool {
    use x509_parser::certificate::X509Certificate;
    use x509_parser::prelude::FromDer as _;
    use x509_parser::x509::SubjectPublicKeyInfo;

    let (Ok((_, certificate)), Ok((_, key))) =
        (X509Certificate::from_der(read.whole), SubjectPublicKeyInfo::from_der(key_info))
    else {
        return false;
    };
    // A second reader must have seen the same in it as ours.
    certificate.tbs_certificate.as_ref() == read.signed
        && certificate.signature_algorithm.algorithm.as_bytes() == read.algorithm.oid
        && certificate.signature_value.data.as_ref() == read.signature
        && certificate.verify_signature(Some(&key)).is_ok()
}

/// Whether the signature verifies under the key of this SubjectPublicKeyInfo.
#[cfg(not(feature = "gateway"))]
pub(super) fn verifies(read: &Fields<'_>, key_info: &[u8]) -> bool {
    device::verifies(read, key_info)
}

/// Without `ring`, and without std.
#[cfg(not(feature = "gateway"))]
mod device {
    use super::Fields;
    use crate::certificate::fields::{self, oid};
    use crate::keys::IdentityPublic;

    pub(super) fn verifies(read: &Fields<'_>, key_info: &[u8]) -> bool {
        let Some((kind, key)) = fields::public_key(key_info) else { return false };
        match read.algorithm.oid {
            oid::ED25519 if kind.is_ed25519() => match (key.try_into(), read.signature.try_into()) {
                (Ok(key), Ok(signature)) => IdentityPublic(key).verifies(read.signed, signature),
                _ => false,
            },
            #[cfg(feature = "p256")]
            oid::ECDSA_WITH_SHA256 if kind.oid == oid::EC_PUBLIC_KEY && is_p256(&kind) => {
                use p256::ecdsa::signature::Verifier as _;
                use p256::ecdsa::{DerSignature, VerifyingKey};
                let Ok(signature) = DerSignature::from_bytes(read.signature) else { return false };
                VerifyingKey::from_sec1_bytes(key).is_ok_and(|key| key.verify(read.signed, &signature).is_ok())
            }
            _ => false,
        }
    }

    #[cfg(feature = "p256")]
    fn is_p256(kind: &fields::Algorithm<'_>) -> bool {
        use der::Tagged as _;
        kind.parameters.is_some_and(|curve| curve.tag() == der::Tag::ObjectIdentifier && curve.value() == oid::P256)
    }
}
