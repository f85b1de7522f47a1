//! A community: its authority, the gateway of somebody else, the broker between them with mutual TLS, and folders for homes.

use std::path::{Path, PathBuf};

use dream_meter::authority::{Authority, Grant, Request, write_request};
use dream_meter::files;
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::time::Timestamp;
use dream_testkit::lab::access::Access;
use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::gateway::Gateway;
use dream_testkit::lab::identities::{Identities, pem, valid_for_decades};
use dream_testkit::lab::{free_port, wall};
use tempfile::TempDir;

pub(super) const CLUSTER: &str = "riverside";
pub(super) const GATEWAY: &str = "gw-1";

/// Someone who may read everything, as nobody may in earnest.
const SPY: &str = "spy";

pub(super) struct Site {
    pub(super) gateway: Gateway,
    pub(super) broker: Broker,
    pub(super) authority: Authority,
    folder: TempDir,
}

impl Site {
    /// Everything but homes, with these lines in the gateway's configuration of the cluster. The gateway does not run yet.
    pub(super) fn new(terms: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let desk = folder.path().join("office/authority");
        std::fs::create_dir_all(&desk).unwrap();
        let authority = Authority::init(
            &desk,
            "Riverside energy community",
            &[GatewayId::new(GATEWAY).unwrap()],
            None,
            3650,
            wall(),
        )
        .unwrap();
        // The operator's own authority certifies gateway and broker. Each side trusts both.
        let operator = folder.path().join("operator");
        std::fs::create_dir(&operator).unwrap();
        let identities = Identities::default();
        identities.write_gateway(&operator, GATEWAY);
        identities.write_broker(&operator);
        identities.write(&operator, SPY, &identities.pki.issue(SPY, "observer", valid_for_decades));
        let operators = pem("CERTIFICATE", identities.pki.gateway_authority());
        let ours = std::fs::read_to_string(desk.join("authority.pem")).unwrap();
        std::fs::write(folder.path().join("operator.pem"), &operators).unwrap();
        std::fs::write(operator.join("meter-authority.pem"), &ours).unwrap();
        std::fs::write(operator.join("broker-clients.pem"), format!("{ours}{operators}")).unwrap();

        // In earnest an owner asks the operator for the right to read the cluster's sums.
        let rights = format!("\npattern read dream/v1/+/aggregate\n\nuser {SPY}\ntopic read #\n");
        let broker = Broker::mosquitto(&operator, GATEWAY, &rights);
        let http = free_port();
        let program = program("dream-gateway");
        let gateway = Gateway::new(&program, &operator, http);
        gateway.configure(&format!(
            "id = \"{GATEWAY}\"\nclock_skew_seconds = 1\n\
             [identity]\ncertificate = \"gateway.pem\"\nkey = \"gateway.key\"\n\
             meter_authorities = [\"meter-authority.pem\"]\ngateway_authorities = [\"gateway-authority.pem\"]\n\
             [broker]\nurl = \"{}\"\nkeep_alive_seconds = 5\nca = \"gateway-authority.pem\"\n\
             client_certificate = \"gateway.pem\"\nclient_key = \"gateway.key\"\n\
             [store]\npath = \"gateway.redb\"\n[http]\nlisten = \"127.0.0.1:{http}\"\n\
             [clusters.{CLUSTER}]\nmeter_policy = \"trial\"\nsettle_seconds = 1\nmin_interval_seconds = 0\n{terms}",
            broker.url()
        ));
        Self { gateway, broker, authority, folder }
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns what meters trust: the community's authority for meters, and the operator's for gateways.
    pub(super) fn authorities(&self) -> [PathBuf; 2] {
        [self.file("office/authority/authority.pem"), self.file("operator.pem")]
    }

    /// Returns the options of a client that hears everything.
    pub(super) fn spy(&self) -> rumqttc::MqttOptions {
        let tls = Some((self.file("operator"), SPY.to_owned()));
        Access { port: self.broker.port(), tls, login: None }.options(SPY)
    }

    /// Makes a home's folder with a key and a certificate that was issued at some time for a year, and a configuration with
    /// these lines at its end. Returns the configuration's path.
    pub(super) fn home(&mut self, meter: &str, size: u64, issued: Timestamp, lines: &str) -> PathBuf {
        let home = self.file(meter);
        std::fs::create_dir_all(&home).unwrap();
        let seed = files::create_key(&home.join("meter.key")).unwrap();
        let id = MeterId::new(meter).unwrap();
        write_request(&home.join("meter.csr"), &id, &seed).unwrap();
        let request = Request::read(&home.join("meter.csr")).unwrap();
        let grant = Grant { cluster: ClusterId::new(CLUSTER).unwrap(), size, days: 365 };
        let certificate = self.authority.sign(&id, None, &request, &grant, false, issued).unwrap().path.clone();
        std::fs::copy(certificate, home.join("meter.pem")).unwrap();
        let [ours, operators] = self.authorities().map(|path| path.display().to_string());
        let config = home.join("meter.toml");
        let text = format!(
            "[identity]\ncertificate = \"meter.pem\"\nkey = \"meter.key\"\n\
             meter_authorities = [\"{ours}\"]\ngateway_authorities = [\"{operators}\"]\n\
             [community]\nurl = \"{}\"\nca = \"{operators}\"\n\
             [policy]\nprofile = \"community\"\ngateways = [\"{GATEWAY}\"]\n\
             [state]\ndirectory = \"state\"\nwitness = \"{}\"\n[clock]\ntrusted = true\n\
             [http]\nlisten = \"127.0.0.1:{}\"\n{lines}",
            self.broker.url(),
            home.with_extension("witness").display(),
            free_port()
        );
        std::fs::write(&config, text).unwrap();
        config
    }
}

/// Returns where a program of this workspace is: beside the directory of the tests, because another package's is not built with
/// them.
pub(super) fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join(name);
    assert!(path.is_file(), "{} is missing: build it with `cargo build --workspace --bins`", path.display());
    path
}
