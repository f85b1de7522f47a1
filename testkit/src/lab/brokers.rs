//! The brokers that are supported, each on a spare port and with the files of `broker-config/` as they ship. They can be
//! stopped or killed, and come back with what they had persisted.

mod mosquitto;
mod nats;
mod rabbitmq;
mod rumqttd;
mod shipped;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::process::Process;
use super::{free_port, listens};
pub use shipped::Shipped;

/// How long a broker may take to start: some take long on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// The brokers that can be run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerKind {
    Mosquitto,
    RabbitMq,
    Nats,
    /// That of `meter-sim demo`, inside this process: it cannot be stopped, and knows no certificates.
    Rumqttd,
}

impl BrokerKind {
    /// Whether it admits only clients with a certificate, and knows them by it.
    pub const fn knows_certificates(self) -> bool {
        match self {
            Self::Mosquitto | Self::RabbitMq | Self::Nats => true,
            Self::Rumqttd => false,
        }
    }

    /// Whether it has on disk what it has acknowledged, so that SIGKILL costs nothing.
    pub const fn survives_kill(self) -> bool {
        match self {
            Self::RabbitMq | Self::Nats => true,
            Self::Mosquitto | Self::Rumqttd => false,
        }
    }

    /// Whether it can be restarted, and has kept what it knew.
    pub const fn persists(self) -> bool {
        self.knows_certificates()
    }
}

impl fmt::Display for BrokerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Whom a broker is configured for.
#[derive(Debug, Clone)]
pub struct Clients {
    /// Where `broker-clients.pem`, and `broker.pem` with its key, are.
    pub directory: PathBuf,
    pub gateway: String,
    pub observer: String,
    /// The gateway's file with the meters of a cluster.
    pub allow_file: PathBuf,
}

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    pub kind: BrokerKind,
    processes: Vec<Process>,
    port: u16,
    /// Goes after the processes that use it: fields are dropped in this order.
    _directory: TempDir,
}

impl Broker {
    /// Starts one for these clients, and returns when it listens.
    pub fn start(kind: BrokerKind, clients: &Clients) -> Self {
        let (directory, port) = (TempDir::new().unwrap(), free_port());
        let processes = match kind {
            BrokerKind::Mosquitto => {
                vec![mosquitto::prepare(directory.path(), &clients.directory, &clients.gateway, "", port)]
            }
            BrokerKind::RabbitMq => rabbitmq::prepare(directory.path(), clients, port),
            BrokerKind::Nats => vec![nats::prepare(directory.path(), clients, port)],
            BrokerKind::Rumqttd => {
                rumqttd::start(port);
                Vec::new()
            }
        };
        Self::started(kind, processes, port, directory)
    }

    /// Starts the broker inside this process, for everyone.
    pub fn embedded() -> Self {
        let (directory, port) = (TempDir::new().unwrap(), free_port());
        rumqttd::start(port);
        Self::started(BrokerKind::Rumqttd, Vec::new(), port, directory)
    }

    /// Starts Mosquitto with the certificates of a directory, for its gateway, and with more lines in its list of rights.
    pub fn mosquitto(certificates: &Path, gateway: &str, more_rights: &str) -> Self {
        let (directory, port) = (TempDir::new().unwrap(), free_port());
        let process = mosquitto::prepare(directory.path(), certificates, gateway, more_rights, port);
        Self::started(BrokerKind::Mosquitto, vec![process], port, directory)
    }

    fn started(kind: BrokerKind, processes: Vec<Process>, port: u16, directory: TempDir) -> Self {
        let mut broker = Self { kind, processes, port, _directory: directory };
        broker.restart();
        broker
    }

    /// Runs it again, on the same port and with the same data.
    pub fn restart(&mut self) {
        self.processes.iter_mut().for_each(Process::start);
        let begun = Instant::now();
        while !listens(self.port) {
            let running = self.processes.iter_mut().all(Process::is_running);
            assert!(running, "{} has ended", self.kind);
            assert!(begun.elapsed() < PATIENCE, "{} does not listen on port {}", self.kind, self.port);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends SIGTERM, and waits for the end.
    pub fn stop(&mut self) {
        assert!(self.kind.persists(), "{} cannot be stopped", self.kind);
        for process in self.processes.iter_mut().rev() {
            process.stop();
        }
    }

    /// Sends SIGKILL: what was not written is gone.
    pub fn kill(&mut self) {
        assert!(self.kind.persists(), "{} cannot be killed", self.kind);
        self.processes.iter_mut().rev().for_each(Process::kill);
    }

    /// Returns the id of the process that serves clients.
    pub fn id(&self) -> Option<u32> {
        self.processes.last().and_then(Process::id)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its address, as a configuration names it.
    pub fn url(&self) -> String {
        let scheme = if self.kind.knows_certificates() { "mqtts" } else { "mqtt" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }
}
