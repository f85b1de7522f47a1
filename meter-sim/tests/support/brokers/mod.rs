//! Real brokers on spare ports of the loopback, each started with the files of `broker-config/`. They can be stopped or
//! killed by process id, and come back with what they had persisted.

mod mosquitto;
mod nats;
mod process;
mod rabbitmq;
mod rumqttd;
mod shipped;

use std::fmt;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use dream_meter_sim::access::Access;
use tempfile::TempDir;

use super::trial::{GATEWAY, Party, Trial};
use process::Process;
pub use shipped::Shipped;

/// The brokers that can be run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Mosquitto,
    RabbitMq,
    Nats,
    /// Inside this process: it cannot be stopped, and knows no certificates.
    Rumqttd,
}

impl Kind {
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

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A running broker.
pub struct Broker {
    pub kind: Kind,
    processes: Vec<Process>,
    /// Goes after the processes that use it: fields are dropped in this order.
    directory: TempDir,
    port: u16,
}

impl Broker {
    /// Starts one for these parties, and returns when it listens.
    pub fn start(kind: Kind, trial: &Trial) -> Self {
        let directory = TempDir::new().unwrap();
        let port = free_port();
        let processes = match kind {
            Kind::Mosquitto => mosquitto::prepare(directory.path(), trial.path(), GATEWAY, port),
            Kind::RabbitMq => rabbitmq::prepare(directory.path(), trial, port),
            Kind::Nats => nats::prepare(directory.path(), trial, port),
            Kind::Rumqttd => {
                rumqttd::start(port);
                Vec::new()
            }
        };
        Self { kind, processes, directory, port }.started()
    }

    /// Mosquitto for a directory of `meter-sim provision` and its gateway.
    pub fn mosquitto(provisioned: &Path, gateway: &str) -> Self {
        Self::mosquitto_and(provisioned, gateway, "")
    }

    /// The same with someone who may read everything.
    pub fn mosquitto_with_spy(provisioned: &Path, gateway: &str, spy: &str) -> Self {
        Self::mosquitto_and(provisioned, gateway, &format!("\nuser {spy}\ntopic read dream/v1/#\n"))
    }

    fn mosquitto_and(provisioned: &Path, gateway: &str, more_rights: &str) -> Self {
        let (directory, port) = (TempDir::new().unwrap(), free_port());
        let processes = mosquitto::prepare(directory.path(), provisioned, gateway, port);
        let acl = directory.path().join("dream.acl");
        std::fs::write(&acl, std::fs::read_to_string(&acl).unwrap() + more_rights).unwrap();
        Self { kind: Kind::Mosquitto, processes, directory, port }.started()
    }

    fn started(mut self) -> Self {
        self.restart();
        self
    }

    /// Runs again, on the same port and with the same data.
    pub fn restart(&mut self) {
        self.processes.iter_mut().for_each(|process| process.start(self.directory.path()));
        let begun = Instant::now();
        while !self.listens() {
            let running = self.processes.iter_mut().all(Process::is_running);
            assert!(running, "{} has ended", self.kind);
            assert!(begun.elapsed() < PATIENCE, "{} does not listen on port {}", self.kind, self.port);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// SIGTERM, and waits for the end.
    pub fn stop(&mut self) {
        assert!(self.kind.persists(), "{} cannot be stopped", self.kind);
        self.processes.iter_mut().rev().for_each(Process::stop);
    }

    /// SIGKILL: what was not written is gone.
    pub fn kill(&mut self) {
        assert!(self.kind.persists(), "{} cannot be killed", self.kind);
        self.processes.iter_mut().rev().for_each(Process::kill);
    }

    /// The process that serves clients.
    pub fn id(&self) -> Option<u32> {
        self.processes.last().and_then(Process::id)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        let scheme = if self.kind.knows_certificates() { "mqtts" } else { "mqtt" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// How one of the parties connects.
    pub fn access(&self, trial: &Trial, party: &Party) -> Access {
        if !self.kind.knows_certificates() {
            return Access::open("127.0.0.1", self.port);
        }
        let client = (party.certificate.as_path(), party.key.as_path());
        Access::parse(&self.url(), Some(&trial.file("authority.pem")), Some(client), None).unwrap()
    }

    /// How someone without a certificate connects.
    pub fn anonymous(&self, trial: &Trial) -> Access {
        if !self.kind.knows_certificates() {
            return Access::open("127.0.0.1", self.port);
        }
        Access::parse(&self.url(), Some(&trial.file("authority.pem")), None, None).unwrap()
    }

    fn listens(&self) -> bool {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
    }
}

/// A Mosquitto with one login for everybody, and no more rules than that.
pub struct PasswordBroker {
    _process: Process,
}

impl PasswordBroker {
    /// In this directory, where `password` then is the password of the user `all`.
    pub fn start(directory: &Path, port: u16) -> Self {
        std::fs::write(directory.join("password"), "a word\n").unwrap();
        let mut command = Command::new("mosquitto_passwd");
        let made = command.current_dir(directory).args(["-b", "-c", "passwords", "all", "a word"]).status().unwrap();
        assert!(made.success());
        let config = format!(
            "user root\nlistener {port} 127.0.0.1\nallow_anonymous false\npassword_file {}\n",
            directory.join("passwords").display()
        );
        std::fs::write(directory.join("mosquitto.conf"), config).unwrap();
        let arguments = vec!["-c".to_owned(), directory.join("mosquitto.conf").display().to_string()];
        let mut process = Process::new("mosquitto", process::binary("mosquitto", "mosquitto"), arguments);
        process.start(directory);
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(process.is_running() && begun.elapsed() < PATIENCE, "mosquitto does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { _process: process }
    }
}

/// How long a broker may take to start or to stop.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Below the ports that the system hands out.
pub fn free_port() -> u16 {
    loop {
        let port = rand::random_range(10_000..30_000);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
