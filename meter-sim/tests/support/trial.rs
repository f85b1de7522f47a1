//! The parties of a trial, with certificates as files: a gateway, meters, an observer, the broker; and a foreign authority
//! that has issued the same names.

use std::path::{Path, PathBuf};
use std::process::Command;

use dream_meter_sim::access::Access;
use dream_meter_sim::fleet::Setup;
use dream_meter_sim::provision::{Authority, Issued};
use dream_protocol::certificate::Authorities;
use dream_protocol::ids::{GatewayId, MeterId};
use dream_protocol::simulation::Simulation;
use tempfile::TempDir;

use super::brokers::Shipped;

pub const CLUSTER: &str = "riverside";
pub const GATEWAY: &str = "gw-test";
pub const OBSERVER: &str = "observer";

/// Someone with a certificate.
#[derive(Debug, Clone)]
pub struct Party {
    pub name: String,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

pub struct Trial {
    directory: TempDir,
    authority: Authority,
    pub gateway: Party,
    pub observer: Party,
    /// Those that the fleet plays, and one more.
    pub meters: Vec<Party>,
    pub setups: Vec<Setup>,
}

impl Trial {
    /// With so many meters that take part, and a spare one that may and does not.
    pub fn new(meters: usize) -> Self {
        let directory = TempDir::new().unwrap();
        let authority = Authority::new("Test authority", 1);
        authority.write(directory.path(), "authority").unwrap();
        let broker = authority.broker(&["localhost".parse().unwrap(), "127.0.0.1".parse().unwrap()]);
        broker.write(directory.path(), "broker").unwrap();
        let ids: Vec<MeterId> =
            (1..=meters + 1).map(|number| MeterId::new(&format!("m-{number:04}")).unwrap()).collect();
        let allowed: String = ids.iter().map(|id| format!("{id}\n")).collect();
        std::fs::write(directory.path().join(format!("{CLUSTER}.allow")), allowed).unwrap();
        let issued: Vec<Issued> = ids.iter().map(|id| authority.meter(id)).collect();
        let setup = |(id, issued): (&MeterId, &Issued)| Setup {
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

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn authorities(&self) -> Authorities {
        self.authority.authorities()
    }

    /// The meter that may take part and does not.
    pub fn spare(&self) -> &Party {
        self.meters.last().unwrap()
    }

    /// The gateway's and a meter's names, certified by somebody else.
    pub fn foreigners(&self) -> [Party; 2] {
        let foreign = Authority::new("Test authority", 1);
        let directory = self.file("foreign");
        std::fs::create_dir_all(&directory).unwrap();
        let meter = MeterId::new(&self.meters[0].name).unwrap();
        [
            party(&directory, GATEWAY, &foreign.gateway(&GatewayId::new(GATEWAY).unwrap())),
            party(&directory, meter.as_str(), &foreign.meter(&meter)),
        ]
    }

    /// Runs the shipped script that writes a broker's users.
    pub fn write_users(&self, broker: &str, to: &Path) {
        let mut command = Command::new(Shipped::path("users"));
        command
            .args([broker, "--gateway", GATEWAY, "--observer", OBSERVER])
            .arg(self.file(&format!("{CLUSTER}.allow")));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{broker}: {}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(to, output.stdout).unwrap();
    }
}

fn party(directory: &Path, name: &str, issued: &Issued) -> Party {
    issued.write(directory, name).unwrap();
    let file = |extension: &str| directory.join(format!("{name}.{extension}"));
    Party { name: name.to_owned(), certificate: file("pem"), key: file("key") }
}
