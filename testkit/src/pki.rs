//! Two authorities, of meters and of gateways, and the certificates they issue, made anew in every run but from fixed keys.

use dream_protocol::certificate::{Anchors, Authorities, Draw};
use dream_protocol::keys::IdentityKey;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
    date_time_ymd,
};
use sha2::{Digest, Sha256};

/// The authorities of a test: one certifies meters, the other gateways and all else.
#[derive(Debug)]
pub struct Pki {
    /// What all keys depend on.
    key: String,
    meters: Authority,
    gateways: Authority,
}

#[derive(Debug)]
struct Authority {
    name: String,
    issuer: Issuer<'static, KeyPair>,
    issued: Issued,
}

/// A certificate with its key.
#[derive(Debug, Clone)]
pub struct Issued {
    pub der: Vec<u8>,
    pub seed: [u8; 32],
}

impl Issued {
    pub fn identity(&self) -> IdentityKey {
        IdentityKey::from_seed(&self.seed)
    }
}

impl Default for Pki {
    fn default() -> Self {
        Self::new()
    }
}

impl Pki {
    pub fn new() -> Self {
        Self::named("test authority")
    }

    pub fn named(name: &str) -> Self {
        Self::with_key(name, name)
    }

    /// Authorities of this name whose keys depend on `key`: authorities may share a name.
    pub fn with_key(name: &str, key: &str) -> Self {
        let meters = Authority::new(name, seed(key, "authority"));
        let gateways = Authority::new(&format!("{name} of gateways"), seed(key, "gateways' authority"));
        Self { key: key.to_owned(), meters, gateways }
    }

    /// The same authorities, each in the role of the other: meters of this are an operator's that makes its own.
    #[must_use]
    pub fn swapped(&self) -> Self {
        let again = |authority: &Authority| Authority::new(&authority.name, authority.issued.seed);
        Self { key: self.key.clone(), meters: again(&self.gateways), gateways: again(&self.meters) }
    }

    /// The certificate of the authority of meters, in DER.
    pub fn meter_authority(&self) -> &[u8] {
        &self.meters.issued.der
    }

    /// The certificate of the authority of gateways, in DER.
    pub fn gateway_authority(&self) -> &[u8] {
        &self.gateways.issued.der
    }

    /// Both authorities, with their keys: of meters, and of gateways.
    pub fn authority_keys(&self) -> [Issued; 2] {
        [&self.meters, &self.gateways].map(|authority| authority.issued.clone())
    }

    pub fn authorities(&self) -> Authorities {
        let anchors = |der: &[u8]| Anchors::new([der]).unwrap();
        Authorities::new(anchors(self.meter_authority()), anchors(self.gateway_authority())).unwrap()
    }

    pub fn meter(&self, id: &str) -> Issued {
        self.issue(id, "meter", |_| {})
    }

    /// A meter's certificate with one more URI, such as the name of its cluster.
    pub fn meter_named(&self, id: &str, uri: &str) -> Issued {
        self.issue(id, "meter", |params| params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap())))
    }

    pub fn gateway(&self, id: &str) -> Issued {
        self.issue(id, "gateway", |_| {})
    }

    /// A certificate for `id` in `role`, valid from 2026 to 2028, with whatever `change` does to it.
    pub fn issue(&self, id: &str, role: &str, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        self.issue_for(id, role, seed(&self.key, &format!("{role} {id}")), change)
    }

    pub fn issue_for(
        &self,
        id: &str,
        role: &str,
        seed: [u8; 32],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        Issued { der: self.issue_to(id, role, &key_pair(&seed), change), seed }
    }

    /// A certificate for a key of any kind.
    pub fn issue_to(
        &self,
        id: &str,
        role: &str,
        key: &KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, id);
        params.subject_alt_names.push(SanType::URI(format!("urn:dream:{role}:{id}").try_into().unwrap()));
        if role == "meter" {
            params.subject_alt_names.push(SanType::URI(draw_of(id).urn().try_into().unwrap()));
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2028, 1, 1);
        change(&mut params);
        let authority = if role == "meter" { &self.meters } else { &self.gateways };
        params.signed_by(key, &authority.issuer).unwrap().der().to_vec()
    }

    /// A meter's certificate with nothing in it that its parameters do not say, for any kind of key.
    pub fn sign(&self, params: &CertificateParams, key: &impl PublicKeyData) -> Vec<u8> {
        params.signed_by(key, &self.meters.issuer).unwrap().der().to_vec()
    }
}

impl Authority {
    fn new(name: &str, seed: [u8; 32]) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2049, 1, 1);
        let pair = key_pair(&seed);
        let der = params.self_signed(&pair).unwrap().der().to_vec();
        Self { name: name.to_owned(), issuer: Issuer::new(params, pair), issued: Issued { der, seed } }
    }
}

/// The draw value of a meter: the same in all of its certificates, whoever issues them.
pub fn draw_of(id: &str) -> Draw {
    let digest: [u8; 32] = Sha256::digest(format!("draw of {id}")).into();
    Draw(*digest.first_chunk().unwrap())
}

/// Fixed keys, so that vectors and failures repeat.
fn seed(authority: &str, what: &str) -> [u8; 32] {
    Sha256::digest(format!("{authority}/{what}")).into()
}

/// An Ed25519 key as PKCS#8 (RFC 8410), which is how rcgen takes it.
fn key_pair(seed: &[u8; 32]) -> KeyPair {
    let mut pkcs8 =
        vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    pkcs8.extend_from_slice(seed);
    KeyPair::try_from(pkcs8).unwrap()
}
