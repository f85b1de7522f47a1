//! How to reach a broker, and one inside the test's own process.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rumqttc::{MqttOptions, TlsConfiguration, Transport};
use rumqttd::{Broker, Config, ConnectionSettings, RouterConfig, ServerSettings};

use super::{PATIENCE, free_port};

/// The largest packet that is normal anywhere in these tests.
const PACKET: usize = 16 << 20;

/// Where a broker listens, and what it asks of its clients.
#[derive(Debug, Clone)]
pub struct Access {
    pub port: u16,
    /// A directory with `authority.pem`, and the name of the client's certificate and key in it.
    pub tls: Option<(PathBuf, String)>,
    pub login: Option<(String, String)>,
}

impl Access {
    /// For anyone, in the clear.
    pub fn open(port: u16) -> Self {
        Self { port, tls: None, login: None }
    }

    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "mqtts" } else { "mqtt" };
        format!("{scheme}://localhost:{}", self.port)
    }

    pub fn options(&self, client: &str) -> MqttOptions {
        let mut options = MqttOptions::new(client, ("localhost", self.port));
        options.set_keep_alive(10).set_max_packet_size(PACKET, PACKET);
        if let Some((username, password)) = &self.login {
            options.set_credentials(username.clone(), password.clone());
        }
        if let Some((directory, name)) = &self.tls {
            let file = |name: &str| std::fs::read(directory.join(name)).unwrap();
            let client_auth = Some((file(&format!("{name}.pem")), file(&format!("{name}.key"))));
            let tls = TlsConfiguration::Simple { ca: file("authority.pem"), alpn: None, client_auth };
            options.set_transport(Transport::Tls(tls));
        }
        options
    }
}

/// Starts a broker in a thread of its own. It has no end but the process's.
pub fn embedded() -> Access {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let connections = ConnectionSettings {
        connection_timeout_ms: 60_000,
        max_payload_size: PACKET,
        max_inflight_count: 1000,
        auth: None,
        external_auth: None,
        dynamic_filters: true,
    };
    let server = ServerSettings { name: "v4".to_owned(), listen, tls: None, next_connection_delay_ms: 1, connections };
    let config = Config {
        router: RouterConfig {
            max_connections: 100,
            max_outgoing_packet_count: 1000,
            max_segment_size: 16 << 20,
            max_segment_count: 8,
            ..RouterConfig::default()
        },
        v4: Some(HashMap::from([("1".to_owned(), server)])),
        ..Config::default()
    };
    std::thread::spawn(move || Broker::new(config).start().expect("the broker runs"));
    wait_for_port(listen.port());
    Access::open(listen.port())
}

/// Waits until someone listens.
pub fn wait_for_port(port: u16) {
    let started = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(started.elapsed() < PATIENCE, "nobody listens on port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
