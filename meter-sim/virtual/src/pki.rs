//! Two authorities, of meters and of gateways, and the certificates they issue, made anew in every run but from fixed keys.

use dream_edge::issuer::{self, Issuer, Validity, key_pair};
use dream_protocol::certificate::{Anchors, Authorities, Draw};
use dream_protocol::keys::IdentityKey;
use rcgen::{CertificateParams, KeyPair, PublicKeyData, SanType};
use sha2::{Digest, Sha256};

/// From 2020 to 2049.
const AUTHORITY: Validity = Validity { from: 1_577_836_800, to: 2_493_072_000 };

/// From 2026 to 2028.
const LEAF: Validity = Validity { from: 1_767_225_600, to: 1_830_297_600 };

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
    issuer: Issuer,
    seed: [u8; 32],
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
        let again = |authority: &Authority| Authority::new(&authority.name, authority.seed);
        Self { key: self.key.clone(), meters: again(&self.gateways), gateways: again(&self.meters) }
    }

    /// The certificate of the authority of meters, in DER.
    pub fn meter_authority(&self) -> &[u8] {
        self.meters.issuer.certificate()
    }

    /// The certificate of the authority of gateways, in DER.
    pub fn gateway_authority(&self) -> &[u8] {
        self.gateways.issuer.certificate()
    }

    /// Both authorities, with their keys: of meters, and of gateways.
    pub fn authority_keys(&self) -> [Issued; 2] {
        [&self.meters, &self.gateways]
            .map(|authority| Issued { der: authority.issuer.certificate().to_vec(), seed: authority.seed })
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
        let is_meter = role == "meter";
        let draw = is_meter.then(|| draw_of(id).urn());
        let mut params = issuer::named(id, [format!("urn:dream:{role}:{id}")].into_iter().chain(draw), LEAF);
        change(&mut params);
        let authority = if is_meter { &self.meters } else { &self.gateways };
        authority.issuer.sign(&params, key)
    }

    /// A meter's certificate with nothing in it that its parameters do not say, for any kind of key.
    pub fn sign(&self, params: &CertificateParams, key: &impl PublicKeyData) -> Vec<u8> {
        self.meters.issuer.sign(params, key)
    }
}

impl Authority {
    fn new(name: &str, seed: [u8; 32]) -> Self {
        Self { name: name.to_owned(), issuer: Issuer::new(name, &seed, AUTHORITY), seed }
    }
}

/// The draw value of a meter: the same in all of its certificates, from any issuer.
pub fn draw_of(id: &str) -> Draw {
    let digest: [u8; 32] = Sha256::digest(format!("draw of {id}")).into();
    Draw(*digest.first_chunk().unwrap())
}

/// Fixed keys, so that vectors and failures repeat.
fn seed(authority: &str, what: &str) -> [u8; 32] {
    Sha256::digest(format!("{authority}/{what}")).into()
}
