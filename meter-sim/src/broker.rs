//! rumqttd inside this process, for `demo` and `lie`, with the file that `broker-config/` ships. It knows no ACL, keeps everything in
//! memory, and cannot be stopped: it ends with the process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rumqttd::{Broker, Config};

const SHIPPED: &str = include_str!("../../broker-config/rumqttd/rumqttd.toml");

/// rumqttd keeps what it has delivered until a filter has filled its segments. With the shipped size the readings of a demo of four
/// clusters would take half a gigabyte after two hours; eight segments of this size hold nine slots of 10,000 meters. A segment takes a
/// last message of any size, also the largest list.
const SEGMENT_BYTES: usize = 4 << 20;

/// How long it may take until the broker listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// How many ports are tried before giving up.
const ATTEMPTS: usize = 100;

/// Starts the broker on a port of the loopback, or on a free one, and returns its address once it listens.
pub(crate) fn start(port: Option<u16>) -> io::Result<SocketAddr> {
    if let Some(port) = port {
        return start_on(port);
    }
    // Below the ports that the system hands out: a connection to one of those, tried again and again before anyone listens, may
    // one day take it and reach itself.
    let mut tried = (0..ATTEMPTS).map(|_| start_on(rand::random_range(10_000..30_000)));
    let last = tried.find(|started| !matches!(started, Err(error) if error.kind() == io::ErrorKind::AddrInUse));
    last.unwrap_or_else(|| Err(io::ErrorKind::AddrInUse.into()))
}

fn start_on(port: u16) -> io::Result<SocketAddr> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // rumqttd only logs that an address is taken.
    drop(TcpListener::bind(listen)?);
    let mut broker = Broker::new(config(listen));
    let running = thread::Builder::new().name("broker".to_owned()).spawn(move || broker.start().is_ok())?;
    let started = Instant::now();
    while TcpStream::connect(listen).is_err() && !running.is_finished() && started.elapsed() < START_TIMEOUT {
        thread::sleep(Duration::from_millis(20));
    }
    if running.is_finished() || started.elapsed() >= START_TIMEOUT {
        return Err(io::Error::other(format!("the embedded broker does not listen on {listen}")));
    }
    Ok(listen)
}

/// Returns the shipped configuration with this address, and with less memory.
fn config(listen: SocketAddr) -> Config {
    let mut config: Config = toml::from_str(SHIPPED).expect("a test starts a broker with it");
    config.router.max_segment_size = SEGMENT_BYTES;
    config.v4.iter_mut().flatten().for_each(|(_, server)| server.listen = listen);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_brokers_have_different_addresses_and_a_taken_address_is_an_error() {
        let [one, other] = [(); 2].map(|()| start(None).unwrap());
        assert_ne!(one, other);
        assert_eq!(start(Some(one.port())).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
