//! A broker inside the test's own process.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

use rumqttd::{Broker, Config, ConnectionSettings, RouterConfig, ServerSettings};

use super::access::{Access, MAX_PACKET};
use super::{free_port, wait_for_port};

/// Starts rumqttd in a thread of its own, and returns when it listens. It ends with the process.
pub fn start() -> Access {
    let port = free_port();
    let config = config(port);
    std::thread::spawn(move || Broker::new(config).start().expect("the broker runs"));
    wait_for_port(port);
    Access::open(port)
}

fn config(port: u16) -> Config {
    let connections = ConnectionSettings {
        connection_timeout_ms: 60_000,
        max_payload_size: MAX_PACKET,
        max_inflight_count: 1000,
        auth: None,
        external_auth: None,
        dynamic_filters: true,
    };
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let server = ServerSettings { name: "v4".to_owned(), listen, tls: None, next_connection_delay_ms: 1, connections };
    let router = RouterConfig {
        max_connections: 100,
        max_outgoing_packet_count: 1000,
        max_segment_size: MAX_PACKET,
        max_segment_count: 8,
        ..RouterConfig::default()
    };
    Config { router, v4: Some(HashMap::from([("1".to_owned(), server)])), ..Config::default() }
}
