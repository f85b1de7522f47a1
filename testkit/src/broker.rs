//! A broker inside this process, for demonstrations and tests. It has no ACLs and keeps everything in memory.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rumqttd::{Broker, Config, ConnectionSettings, RouterConfig, ServerSettings};

/// The largest message: a membership list.
const MAX_PAYLOAD: usize = 16 << 20;

/// How long it may take until the broker listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts rumqttd on a free port of the loopback, waits until it listens, and returns its address. It ends with the process.
pub fn start() -> io::Result<SocketAddr> {
    start_on(free_port())
}

/// Starts rumqttd on this port of the loopback, as [`start`] does.
pub fn start_on(port: u16) -> io::Result<SocketAddr> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // The broker itself only logs that the address is taken.
    drop(TcpListener::bind(listen)?);
    let mut broker = Broker::new(config(listen));
    let running = thread::Builder::new().name("broker".to_owned()).spawn(move || broker.start().is_ok())?;
    let started = Instant::now();
    while TcpStream::connect(listen).is_err() {
        if running.is_finished() || started.elapsed() > START_TIMEOUT {
            return Err(io::Error::other(format!("the embedded broker does not listen on {listen}")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(listen)
}

/// Returns a port of the loopback that nobody listens on. It is below those that the system hands out: a connection to one of
/// those, tried again and again before anyone listens, may one day take it and reach itself.
pub fn free_port() -> u16 {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| rand::random_range(10_000..30_000).into());
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

fn config(listen: SocketAddr) -> Config {
    let connections = ConnectionSettings {
        connection_timeout_ms: 60_000,
        max_payload_size: MAX_PAYLOAD,
        max_inflight_count: 1000,
        auth: None,
        external_auth: None,
        dynamic_filters: true,
    };
    let server = ServerSettings { name: "v4".to_owned(), listen, tls: None, next_connection_delay_ms: 1, connections };
    let router = RouterConfig {
        max_connections: 10_000,
        max_outgoing_packet_count: 1000,
        max_segment_size: MAX_PAYLOAD,
        max_segment_count: 8,
        ..RouterConfig::default()
    };
    Config { router, v4: Some(HashMap::from([("1".to_owned(), server)])), ..Config::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_brokers_have_different_addresses_and_a_taken_address_is_an_error() {
        let [one, other] = [(); 2].map(|()| start().unwrap());
        assert_ne!(one, other);
        assert_eq!(start_on(one.port()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
