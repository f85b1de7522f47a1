//! The parties of a trial, with certificates as files: a gateway, meters, an observer, the broker; and a foreign authority
//! that has issued the same names.

use std::path::{Path, PathBuf};

use dream_fleet::MeterSetup;
use dream_fleet::access::Access;
use dream_fleet::authority::{Issued, TestAuthorities};
use dream_protocol::certificate::Authorities;
use dream_protocol::ids::{GatewayId, MeterId};
use dream_protocol::simulation::Simulation;
use dream_testkit::lab::access::MAX_PACKET;
use dream_testkit::lab::brokers::{Broker, Clients};
use rumqttc::{MqttOptions, TlsConfiguration, Transport};
use tempfile::TempDir;

pub(super) const CLUSTER: &str = "riverside";
pub(super) const GATEWAY: &str = "gw-test";
const OBSERVER: &str = "observer";

/// Someone with a certificate.
#[derive(Debug, Clone)]
pub(super) struct Party {
    pub(super) name: String,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

pub(super) struct Trial {
    directory: TempDir,
    authority: TestAuthorities,
    pub(super) gateway: Party,
    pub(super) observer: Party,
    /// Those that the fleet plays, and one more.
    pub(super) meters: Vec<Party>,
    pub(super) setups: Vec<MeterSetup>,
}

impl Trial {
    /// With so many meters that take part, and a spare one that may and does not.
    pub(super) fn new(meters: usize) -> Self {
        let directory = TempDir::new().unwrap();
        let authority = TestAuthorities::new(1);
        authority.write(directory.path()).unwrap();
        let broker = authority.broker(&["localhost".parse().unwrap(), "127.0.0.1".parse().unwrap()]);
        broker.write(directory.path(), "broker").unwrap();
        let ids: Vec<MeterId> =
            (1..=meters + 1).map(|number| MeterId::new(&format!("m-{number:04}")).unwrap()).collect();
        let allowed: String = ids.iter().map(|id| format!("{id}\n")).collect();
        std::fs::write(directory.path().join(format!("{CLUSTER}.allow")), allowed).unwrap();
        let issued: Vec<Issued> = ids.iter().map(|id| authority.meter(id)).collect();
        let setup = |(id, issued): (&MeterId, &Issued)| MeterSetup {
            id: id.clone(),
            issued: issued.clone(),
            access: Access::open("nowhere", 1),
            simulation: Simulation::default(),
        };
        Self {
            gateway: party(directory.path(), GATEWAY, &authority.gateway(&GatewayId::new(GATEWAY).unwrap())),
            observer: party(directory.path(), OBSERVER, &authority.observer(OBSERVER)),
            meters: ids.iter().zip(&issued).map(|(id, issued)| party(directory.path(), id.as_str(), issued)).collect(),
            setups: ids.iter().zip(&issued).take(meters).map(setup).collect(),
            directory,
            authority,
        }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn authorities(&self) -> Authorities {
        self.authority.authorities()
    }

    /// The meter that may take part and does not.
    pub(super) fn spare(&self) -> &Party {
        self.meters.last().unwrap()
    }

    /// The gateway's and a meter's names, certified by somebody else.
    pub(super) fn foreigners(&self) -> [Party; 2] {
        let foreign = TestAuthorities::new(1);
        let directory = self.file("foreign");
        std::fs::create_dir_all(&directory).unwrap();
        let meter = MeterId::new(&self.meters[0].name).unwrap();
        [
            party(&directory, GATEWAY, &foreign.gateway(&GatewayId::new(GATEWAY).unwrap())),
            party(&directory, meter.as_str(), &foreign.meter(&meter)),
        ]
    }

    /// Returns whom a broker must know.
    pub(super) fn clients(&self) -> Clients {
        Clients {
            directory: self.directory.path().to_owned(),
            gateway: GATEWAY.to_owned(),
            observer: OBSERVER.to_owned(),
            allow_file: self.file(&format!("{CLUSTER}.allow")),
        }
    }

    /// Returns how a fleet with the certificate of one of the parties connects.
    pub(super) fn access(&self, broker: &Broker, party: &Party) -> Access {
        if !broker.kind.knows_certificates() {
            return Access::open("127.0.0.1", broker.port());
        }
        let client = Some((party.certificate.as_path(), party.key.as_path()));
        Access::parse(&[broker.url()], Some(&self.file("gateway-authority.pem")), client, None).unwrap()
    }

    /// Returns how one of the parties connects by its own name.
    pub(super) fn options(&self, broker: &Broker, party: &Party) -> MqttOptions {
        self.options_as(broker, Some(party), &party.name)
    }

    /// Returns how one of the parties, or someone without a certificate, connects by this name.
    pub(super) fn options_as(&self, broker: &Broker, party: Option<&Party>, id: &str) -> MqttOptions {
        let ca = broker.kind.knows_certificates().then(|| self.file("gateway-authority.pem"));
        options(broker.port(), ca.as_deref(), party.map(|party| (&*party.certificate, &*party.key)), id)
    }
}

/// Returns how a client reaches a broker on this machine: over TLS with an authority, and with a certificate if it has one.
pub(super) fn options(port: u16, ca: Option<&Path>, client: Option<(&Path, &Path)>, id: &str) -> MqttOptions {
    let mut options = MqttOptions::new(id, ("localhost", port));
    options.set_keep_alive(10).set_max_packet_size(MAX_PACKET, MAX_PACKET);
    if let Some(ca) = ca {
        let read = |path: &Path| std::fs::read(path).unwrap();
        let client_auth = client.map(|(certificate, key)| (read(certificate), read(key)));
        options.set_transport(Transport::Tls(TlsConfiguration::Simple { ca: read(ca), alpn: None, client_auth }));
    }
    options
}

fn party(directory: &Path, name: &str, issued: &Issued) -> Party {
    issued.write(directory, name).unwrap();
    let file = |extension: &str| directory.join(format!("{name}.{extension}"));
    Party { name: name.to_owned(), certificate: file("pem"), key: file("key") }
}
