//! Issues certificates as `protocol.md 3` wants them, with Ed25519 keys: for an authority's register, for trials and for tests.

use std::fmt;
use std::time::Duration;

use dream_protocol::certificate::Draw;
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose, PKCS_ED25519, PublicKeyData, SanType,
    SignatureAlgorithm, SigningKey as _, date_time_ymd,
};
use zeroize::Zeroizing;

pub use rcgen::SerialNumber;

/// What precedes the seed of an Ed25519 key in PKCS#8 (RFC 8410), version 1.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// When a certificate is valid, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub from: u64,
    pub to: u64,
}

/// An authority that signs.
pub struct Issuer {
    der: Vec<u8>,
    issuer: rcgen::Issuer<'static, KeyPair>,
}

impl Issuer {
    /// Makes an authority and its certificate, which it signs itself.
    pub fn new(name: &str, seed: &[u8; 32], validity: Validity) -> Self {
        let mut params = params(name, validity);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pair = key_pair(seed);
        let der = params.self_signed(&pair).expect("a common name can be encoded").der().to_vec();
        Self { der, issuer: rcgen::Issuer::new(params, pair) }
    }

    /// Goes on as the authority of this certificate and common name, which is all there is of its name.
    pub fn resume(der: &[u8], name: &str, seed: &[u8; 32]) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        Self { der: der.to_vec(), issuer: rcgen::Issuer::new(params, key_pair(seed)) }
    }

    /// Returns its own certificate, in DER.
    pub fn certificate(&self) -> &[u8] {
        &self.der
    }

    /// Returns a certificate for a key, in DER.
    pub fn sign(&self, params: &CertificateParams, key: &impl PublicKeyData) -> Vec<u8> {
        params.signed_by(key, &self.issuer).expect("names, hosts and dates can be encoded").der().to_vec()
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").finish_non_exhaustive()
    }
}

/// A meter's certificate, which may also name its cluster and say how many meters that has.
pub fn meter(id: &MeterId, cluster: Option<(&ClusterId, u64)>, draw: Draw, validity: Validity) -> CertificateParams {
    let cluster = cluster.map(|(cluster, size)| format!("urn:dream:cluster:{cluster}:{size}"));
    let names = [format!("urn:dream:meter:{id}")].into_iter().chain(cluster).chain([draw.urn()]);
    named(id.as_str(), names, validity)
}

/// A gateway's certificate.
pub fn gateway(id: &GatewayId, validity: Validity) -> CertificateParams {
    named(id.as_str(), [format!("urn:dream:gateway:{id}")], validity)
}

/// A certificate with these URIs. One without them is for a broker or an observer, which are no parties of the protocol.
pub fn named(common_name: &str, uris: impl IntoIterator<Item = String>, validity: Validity) -> CertificateParams {
    let mut params = params(common_name, validity);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let uri = |uri: String| SanType::URI(uri.try_into().expect("URIs are ASCII"));
    params.subject_alt_names = uris.into_iter().map(uri).collect();
    params
}

/// Returns the certificate of an HTTPS server, signed by itself, and its new key as PKCS#8: a P-256 key, which every client knows.
pub fn server(hosts: &[String], validity: Validity) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(hosts.to_vec())?;
    let dated = self::params(hosts.first().map_or("", String::as_str), validity);
    params.distinguished_name = dated.distinguished_name;
    (params.not_before, params.not_after) = (dated.not_before, dated.not_after);
    let certificate = params.self_signed(&key)?;
    Ok((certificate.der().to_vec(), Zeroizing::new(key.serialize_der())))
}

/// Returns an Ed25519 signature.
pub fn sign(seed: &[u8; 32], message: &[u8]) -> Vec<u8> {
    key_pair(seed).sign(message).expect("an Ed25519 key signs anything")
}

/// Returns a request for a meter's certificate, in DER.
pub fn request(id: &MeterId, seed: &[u8; 32]) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, id.as_str());
    params.serialize_request(&key_pair(seed)).expect("an id can be encoded").der().to_vec()
}

/// Returns an Ed25519 key as certificates are signed with it.
pub fn key_pair(seed: &[u8; 32]) -> KeyPair {
    let pkcs8 = Zeroizing::new([PKCS8.as_slice(), seed].concat());
    KeyPair::try_from(pkcs8.as_slice()).expect("any 32 bytes are an Ed25519 key")
}

/// A public key that a certificate is for.
#[derive(Debug, Clone, Copy)]
pub struct Ed25519(pub [u8; 32]);

impl PublicKeyData for Ed25519 {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

fn params(common_name: &str, validity: Validity) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(1970, 1, 1) + Duration::from_secs(validity.from);
    params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(validity.to);
    params
}

#[cfg(test)]
mod tests {
    use dream_protocol::certificate::{Anchors, Authorities};

    use super::*;

    const VALIDITY: Validity = Validity { from: 1_800_000_000, to: 1_900_000_000 };

    #[test]
    fn what_is_issued_is_what_the_protocol_accepts_also_after_a_restart() {
        let first = Issuer::new("an authority", &[1; 32], VALIDITY);
        let again = Issuer::resume(first.certificate(), "an authority", &[1; 32]);
        let gateways = Issuer::new("another", &[2; 32], VALIDITY);
        let anchors = |issuer: &Issuer| Anchors::new([issuer.certificate()]).unwrap();
        let authorities = Authorities::new(anchors(&first), anchors(&gateways)).unwrap();
        let (id, cluster) = (MeterId::new("m-1").unwrap(), ClusterId::new("north").unwrap());
        let params = meter(&id, Some((&cluster, 25)), Draw([7; 16]), VALIDITY);
        for issuer in [first, again] {
            let der = issuer.sign(&params, &key_pair(&[3; 32]));
            let found = authorities.verify_meter(&der).unwrap();
            assert_eq!((found.meter().unwrap(), found.draw()), (&id, Some(Draw([7; 16]))));
            assert_eq!((found.not_before(), found.not_after()), (VALIDITY.from, VALIDITY.to));
            let named = found.cluster().unwrap();
            assert_eq!((&named.id, named.size), (&cluster, Some(25)));
            let by_key = issuer.sign(&params, &Ed25519(found.key().0));
            assert_eq!(authorities.verify_meter(&by_key).unwrap().key(), found.key());
        }
        let der = gateways.sign(&gateway(&GatewayId::new("gw-1").unwrap(), VALIDITY), &key_pair(&[4; 32]));
        authorities.verify_gateway(&der).unwrap();
        authorities.verify_meter(&der).unwrap_err();
    }
}
