//! Certificates and keys, as machines hold them and as PEM files where a configuration wants them.

use std::path::Path;

use dream_protocol::ids::{ClusterId, GatewayId};
use dream_protocol::meter::MeterConfig;
use dream_protocol::policy::Policy;
use pem::Pem;
use rcgen::{CertificateParams, SanType, date_time_ymd};

use crate::example::SMALL;
use crate::pki::{Issued, Pki};

/// The gateway that every meter of these tests obeys.
pub const GATEWAY: &str = "gw";

/// The range of all readings, in watts: wide enough that a sum tells its readings apart.
pub const RANGE: (i64, i64) = (0, 1 << 30);

/// Two authorities, and everyone they vouch for.
#[derive(Debug, Default)]
pub struct Identities {
    pub pki: Pki,
}

impl Identities {
    /// Returns the certificate of a gateway.
    pub fn gateway(&self, id: &str) -> Issued {
        self.pki.issue(id, "gateway", valid_for_decades)
    }

    /// Returns a meter of `cluster` that accepts slots as short as a test's.
    pub fn meter(&self, id: &str, cluster: &ClusterId) -> MeterConfig {
        let issued = self.pki.issue(id, "meter", valid_for_decades);
        let policy = Policy {
            range: RANGE,
            min_noise_watts: 0,
            daily_micro_epsilon: u64::MAX,
            day_micro_epsilon: u64::MAX,
            day_micro_rho: u64::MAX,
            floors: SMALL,
            min_slot_seconds: 1,
            ..Policy::new(self.pki.authorities(), [GatewayId::new(GATEWAY).unwrap()])
        };
        MeterConfig { identity: issued.identity(), certificate: issued.der, cluster: cluster.clone(), policy }
    }

    /// Writes `gateway.pem` and `gateway.key`, and the certificates of the authorities.
    pub fn write_gateway(&self, directory: &Path, id: &str) {
        self.write(directory, "gateway", &self.gateway(id));
        let key = directory.join("store.key");
        std::fs::write(&key, "5e".repeat(32)).unwrap();
        std::fs::set_permissions(key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }

    /// Writes them anew, with another key.
    pub fn renew_gateway(&self, directory: &Path, id: &str) {
        self.write(directory, "gateway", &self.pki.issue_for(id, "gateway", [7; 32], valid_for_decades));
    }

    /// Writes `broker.pem` and `broker.key` of a broker on the loopback, and the certificates of the authorities.
    pub fn write_broker(&self, directory: &Path) {
        let issued = self.pki.issue("broker", "broker", |params| {
            valid_for_decades(params);
            params.subject_alt_names.push(SanType::DnsName("localhost".try_into().unwrap()));
            params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        });
        self.write(directory, "broker", &issued);
    }

    /// Writes `NAME.pem` and `NAME.key`, and the certificates of the authorities.
    pub fn write(&self, directory: &Path, name: &str, issued: &Issued) {
        let file = |name: String, text| std::fs::write(directory.join(name), text).unwrap();
        let authorities = [self.pki.meter_authority(), self.pki.gateway_authority()].map(|der| pem("CERTIFICATE", der));
        file("broker-clients.pem".to_owned(), authorities.concat());
        let [meters, gateways] = authorities;
        file("meter-authority.pem".to_owned(), meters);
        file("gateway-authority.pem".to_owned(), gateways);
        file(format!("{name}.pem"), pem("CERTIFICATE", &issued.der));
        file(format!("{name}.key"), pem("PRIVATE KEY", &pkcs8(&issued.seed)));
        let key = directory.join(format!("{name}.key"));
        std::fs::set_permissions(key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
}

/// Makes a certificate good for whenever a test is run.
pub fn valid_for_decades(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2048, 1, 1);
}

/// Returns bytes as PEM.
pub fn pem(label: &str, der: &[u8]) -> String {
    pem::encode(&Pem::new(label, der))
}

/// An Ed25519 key as PKCS#8 (RFC 8410).
fn pkcs8(seed: &[u8; 32]) -> Vec<u8> {
    let head = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    [head.as_slice(), seed].concat()
}
