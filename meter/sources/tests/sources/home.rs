//! A home's broker: a real Mosquitto on a spare port, and someone who publishes on it.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rumqttc::{AsyncClient, Event, EventLoop, MqttOptions, Packet, PublishOptions, QoS};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::run::Running;

/// How long a broker may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A broker, which is killed when it is dropped.
pub(crate) struct Home {
    port: u16,
    broker: Child,
    publisher: AsyncClient,
    polling: JoinHandle<()>,
    directory: TempDir,
}

impl Home {
    /// Starts one for everyone.
    pub(crate) fn start() -> Self {
        Self::with("allow_anonymous true\n", |_| {})
    }

    /// Starts one that asks for a login.
    pub(crate) fn locked(username: &str, password: &str) -> Self {
        let mut file = PathBuf::new();
        let directory = TempDir::new().expect("a directory");
        file.push(directory.path());
        file.push("passwords");
        let made = Command::new("mosquitto_passwd").args(["-b", "-c"]).arg(&file).args([username, password]).status();
        assert!(made.expect("mosquitto_passwd runs").success());
        let lines = format!("allow_anonymous false\npassword_file {}\n", file.display());
        Self::within(directory, &lines, |options| {
            options.set_credentials(username, password.to_owned());
        })
    }

    fn with(lines: &str, login: impl FnOnce(&mut MqttOptions)) -> Self {
        Self::within(TempDir::new().expect("a directory"), lines, login)
    }

    fn within(directory: TempDir, lines: &str, login: impl FnOnce(&mut MqttOptions)) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        // `user root` has no effect for anyone else, and lets root keep the temporary directory.
        let config = format!("user root\nlistener {port} 127.0.0.1\n{lines}");
        std::fs::write(directory.path().join("mosquitto.conf"), config).expect("written");
        let broker = run(&directory, port);
        let mut options = MqttOptions::new("bridge", ("127.0.0.1", port));
        login(&mut options);
        let (publisher, connection) = AsyncClient::builder(options).unbounded().build();
        Self { port, broker, publisher, polling: tokio::spawn(poll(connection)), directory }
    }

    pub(crate) fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// Runs a source of kind `mqtt` with more lines of configuration.
    pub(crate) fn source(&self, lines: &str) -> Running {
        Running::start(&format!("kind = 'mqtt'\nbroker = '{}'\n{lines}", self.url()))
    }

    pub(crate) fn say(&self, topic: &str, payload: &str) {
        self.publish(topic, payload, false);
    }

    /// Publishes a message that the broker keeps; returns when the broker has it.
    pub(crate) async fn keep(&self, topic: &str, payload: &str) {
        let mut options = MqttOptions::new("keeper", ("127.0.0.1", self.port));
        options.set_keep_alive(10);
        let (client, mut connection) = AsyncClient::builder(options).unbounded().build();
        let how = PublishOptions::new(QoS::AtLeastOnce).retain(true);
        client.try_publish(topic, payload.to_owned(), how).expect("queued");
        while !matches!(connection.poll().await.expect("a connection"), Event::Incoming(Packet::PubAck(_))) {}
    }

    pub(crate) fn kill(&mut self) {
        self.broker.kill().expect("killed");
        self.broker.wait().expect("ended");
    }

    /// Runs it again, on the same port.
    pub(crate) fn restart(&mut self) {
        self.broker = run(&self.directory, self.port);
    }

    fn publish(&self, topic: &str, payload: &str, retain: bool) {
        let how = PublishOptions::new(QoS::AtLeastOnce).retain(retain);
        self.publisher.try_publish(topic, payload.to_owned(), how).expect("queued");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.polling.abort();
        if self.broker.kill().is_ok() {
            self.broker.wait().ok();
        }
    }
}

fn run(directory: &TempDir, port: u16) -> Child {
    let mut command = Command::new("mosquitto");
    // Debian has it where only root looks.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
    command.arg("-c").arg(directory.path().join("mosquitto.conf"));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Mosquitto is installed");
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < PATIENCE, "Mosquitto does not listen on port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

/// Keeps the publisher's connection, also when the broker is restarted.
async fn poll(mut connection: EventLoop) {
    loop {
        if connection.poll().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
