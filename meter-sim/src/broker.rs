//! A broker inside this process, for demonstrations and tests. It has no ACLs and keeps everything in memory.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rumqttd::{Broker, Config, ConnectionSettings, RouterConfig, ServerSettings};

/// The largest message: a membership list.
const MAX_PAYLOAD: usize = 16 << 20;

/// How long it may take until the broker listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// The embedded broker. Once started it has no end but the process's.
#[derive(Debug)]
pub struct Embedded;

impl Embedded {
    /// Starts one on a free port of the loopback, and returns when it listens.
    pub fn start() -> io::Result<SocketAddr> {
        let listen = free_address()?;
        Self::start_at(listen)?;
        Ok(listen)
    }

    /// Starts one on this address, and returns when it listens.
    pub fn start_at(listen: SocketAddr) -> io::Result<()> {
        // The broker itself only logs that the address is taken.
        drop(TcpListener::bind(listen)?);
        let mut broker = Broker::new(config(listen));
        let running = thread::Builder::new().name("broker".to_owned()).spawn(move || broker.start().is_ok())?;
        let begun = Instant::now();
        while TcpStream::connect(listen).is_err() {
            if running.is_finished() || begun.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("the embedded broker does not listen on {listen}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// A free port of the loopback, below those that the system hands out: a connection to one of them, tried again and again
/// before anyone listens, may one day take it and reach itself.
fn free_address() -> io::Result<SocketAddr> {
    let mut last = None;
    for _ in 0..100 {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, rand::random_range(10_000..30_000)));
        match TcpListener::bind(address) {
            Ok(_) => return Ok(address),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
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
    fn two_brokers_have_an_address_each_and_a_taken_one_is_told() {
        let [one, other] = [(); 2].map(|()| Embedded::start().unwrap());
        assert_ne!(one, other);
        assert_eq!(Embedded::start_at(one).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
