//! Test authorities and what they issue: the profile of `protocol.md 3`, with Ed25519 keys.

use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use dream_edge::issuer::{self, Issuer, Validity, key_pair};
use dream_protocol::certificate::{Anchors, Authorities, DrawKey};
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::keys::IdentityKey;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, SanType};
use zeroize::Zeroizing;

use crate::pem;

/// How trials call their authorities: the certificate is in `NAME.pem`, its key in `NAME.key`.
pub const METER_AUTHORITY: &str = "meter-authority";
pub const GATEWAY_AUTHORITY: &str = "gateway-authority";

/// The file with both certificates: what a broker checks its clients' with.
pub const BROKER_CLIENTS: &str = "broker-clients.pem";

/// Certificates hold from a day ago: clocks differ, and a list's first slot may have begun.
const BACKDATED_SECONDS: u64 = 86_400;

const DAY_SECONDS: u64 = 86_400;

/// Issues certificates for trials: one authority certifies meters, the other gateways, brokers and observers. The key
/// of the first can invent meters, so somebody other than the gateway's operator runs a real one.
pub struct TestAuthorities {
    meters: Authority,
    gateways: Authority,
    draws: DrawKey,
}

struct Authority {
    issuer: Issuer,
    seed: Zeroizing<[u8; 32]>,
    validity: Validity,
}

/// A certificate in DER with its Ed25519 key.
#[derive(Clone)]
pub struct Issued {
    pub der: Vec<u8>,
    pub seed: Zeroizing<[u8; 32]>,
}

/// Where a broker is reached: what its certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Name(String),
    Address(IpAddr),
}

impl TestAuthorities {
    /// Creates authorities with new keys. Their certificates are valid for so many days from now.
    pub fn new(valid_days: u32) -> Self {
        let authority = |of: &str| Authority::new(&format!("DREAM test authority of {of}"), valid_days);
        Self {
            meters: authority("meters"),
            gateways: authority("gateways"),
            draws: DrawKey::from_bytes(rand::random()),
        }
    }

    /// Returns the authorities that meters and gateways verify with.
    pub fn authorities(&self) -> Authorities {
        let anchors = |authority: &Authority| Anchors::new([authority.issuer.certificate()]).expect("an authority's");
        Authorities::new(anchors(&self.meters), anchors(&self.gateways)).expect("each has a key of its own")
    }

    pub fn gateway(&self, id: &GatewayId) -> Issued {
        self.gateways.issue(&issuer::gateway(id, self.gateways.validity))
    }

    pub fn meter(&self, id: &MeterId) -> Issued {
        self.meters.issue(&issuer::meter(id, None, self.draws.value(id), self.meters.validity))
    }

    /// A meter's certificate that also says in which cluster it is, and how many meters that has.
    pub fn meter_of(&self, id: &MeterId, cluster: &ClusterId, size: u16) -> Issued {
        let cluster = Some((cluster, size.into()));
        self.meters.issue(&issuer::meter(id, cluster, self.draws.value(id), self.meters.validity))
    }

    /// A certificate for TLS. It has no name of the protocol's: a broker is neither meter nor gateway.
    pub fn broker(&self, hosts: &[Host]) -> Issued {
        let mut params = self.outsider("broker", ExtendedKeyUsagePurpose::ServerAuth);
        params.subject_alt_names = hosts.iter().map(Host::name).collect();
        // Strict TLS clients ask for it. Meters and gateways go without: lists repeat their certificates.
        params.use_authority_key_identifier_extension = true;
        self.gateways.issue(&params)
    }

    /// A certificate for a reader of results on the broker. It has no name of the protocol's either.
    pub fn observer(&self, name: &str) -> Issued {
        self.gateways.issue(&self.outsider(name, ExtendedKeyUsagePurpose::ClientAuth))
    }

    fn outsider(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
        let mut params = issuer::named(name, [], self.gateways.validity);
        params.extended_key_usages = vec![usage];
        params
    }

    /// Writes the certificates and keys of both, and [`BROKER_CLIENTS`].
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        for (authority, name) in [(&self.meters, METER_AUTHORITY), (&self.gateways, GATEWAY_AUTHORITY)] {
            pem::write_certificate(directory, name, authority.issuer.certificate())?;
            pem::write_key(directory, name, &authority.seed)?;
        }
        let both = [METER_AUTHORITY, GATEWAY_AUTHORITY].map(|name| fs::read(directory.join(format!("{name}.pem"))));
        let [meters, gateways] = both;
        fs::write(directory.join(BROKER_CLIENTS), [meters?, gateways?].concat())
    }
}

impl Authority {
    fn new(name: &str, valid_days: u32) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970").as_secs();
        let validity = Validity { from: now - BACKDATED_SECONDS, to: now + DAY_SECONDS * u64::from(valid_days) };
        let seed = Zeroizing::new(rand::random());
        Self { issuer: Issuer::new(name, &seed, validity), seed, validity }
    }

    /// Issues a certificate for a new key.
    fn issue(&self, params: &CertificateParams) -> Issued {
        let seed = Zeroizing::new(rand::random());
        Issued { der: self.issuer.sign(params, &key_pair(&seed)), seed }
    }
}

impl fmt::Debug for TestAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestAuthorities").finish_non_exhaustive()
    }
}

impl Issued {
    pub fn identity(&self) -> IdentityKey {
        IdentityKey::from_seed(&self.seed)
    }

    /// Writes `NAME.pem`, and `NAME.key` for its owner alone.
    pub fn write(&self, directory: &Path, name: &str) -> io::Result<()> {
        pem::write_certificate(directory, name, &self.der)?;
        pem::write_key(directory, name, &self.seed)
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").finish_non_exhaustive()
    }
}

impl Host {
    fn name(&self) -> SanType {
        match self {
            Self::Name(name) => SanType::DnsName(name.clone().try_into().expect("host names are ASCII")),
            Self::Address(address) => SanType::IpAddress(*address),
        }
    }
}

impl FromStr for Host {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let label = |label: &str| {
            let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            plain && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
        };
        let is_name = text.len() <= 253 && text.split('.').all(label);
        is_name.then(|| Self::Name(text.to_owned())).ok_or("use a host name or an IP address")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_issued_is_what_the_protocol_accepts() {
        let authority = TestAuthorities::new(1);
        let authorities = authority.authorities();
        let meter = authority.meter(&MeterId::new("m-1").unwrap());
        let checked = authorities.verify_meter(&meter.der).unwrap();
        assert_eq!(checked.meter().unwrap().as_str(), "m-1");
        assert_eq!(*checked.key(), meter.identity().public());
        assert_eq!(checked.not_after() - checked.not_before(), 2 * 86_400);
        assert_eq!(checked.cluster(), None);
        let (meter, north) = (MeterId::new("m-2").unwrap(), ClusterId::new("north").unwrap());
        let checked = authorities.verify_meter(&authority.meter_of(&meter, &north, 40).der).unwrap();
        assert_eq!((checked.meter(), checked.cluster().unwrap().size), (Ok(&meter), Some(40)));
        let gateway = authority.gateway(&GatewayId::new("gw").unwrap());
        assert_eq!(authorities.verify_gateway(&gateway.der).unwrap().gateway().unwrap().as_str(), "gw");
    }

    #[test]
    fn brokers_and_observers_are_neither_meter_nor_gateway_and_another_authority_nobody() {
        let authority = TestAuthorities::new(1);
        let broker = authority.broker(&["localhost".parse().unwrap(), "::1".parse().unwrap()]);
        for der in [broker.der, authority.observer("observer").der] {
            authority.authorities().verify_gateway(&der).unwrap_err();
            authority.authorities().verify_meter(&der).unwrap_err();
        }
        let meter = TestAuthorities::new(1).meter(&MeterId::new("m-1").unwrap());
        authority.authorities().verify_meter(&meter.der).unwrap_err();
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        assert_eq!("10.0.0.1".parse(), Ok(Host::Address([10, 0, 0, 1].into())));
        assert_eq!("broker.example".parse(), Ok(Host::Name("broker.example".to_owned())));
        for text in ["", "a b", "mqtt://a", "a..b", "-a", "a:1883", "h\u{f6}st"] {
            text.parse::<Host>().unwrap_err();
        }
    }

    #[test]
    fn secrets_do_not_print() {
        let authority = TestAuthorities::new(1);
        let issued = authority.meter(&MeterId::new("m-1").unwrap());
        assert_eq!(format!("{authority:?} {issued:?}"), "TestAuthorities { .. } Issued { .. }");
    }
}
