//! What tests need around a real gateway: brokers, browsers and gateways as processes, and clients that talk to them. Behind
//! the feature `lab`, because it brings an MQTT client and a broker.
//!
//! Everything listens on the loopback only. Processes are ended by their id, when they are dropped at the latest.

pub mod access;
pub mod aggregates;
pub mod brokers;
pub mod browser;
pub mod client;
pub mod command;
pub mod fleet;
pub mod gateway;
pub mod http;
pub mod identities;
pub mod mosquitto;
pub mod postgres;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod settings;
pub mod watcher;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dream_protocol::time::Timestamp;

/// How long anything may take before a test gives up: far longer than it does.
pub const PATIENCE: Duration = Duration::from_secs(120);

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

/// Whether someone listens on a port of the loopback.
pub fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Waits until someone listens on a port of the loopback.
///
/// # Panics
/// If it takes longer than [`PATIENCE`].
pub fn wait_for_port(port: u16) {
    let started = Instant::now();
    while !listens(port) {
        assert!(started.elapsed() < PATIENCE, "nobody listens on port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the time of the system's clock.
pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(since.as_millis().try_into().unwrap())
}

/// Waits until a condition holds.
///
/// # Panics
/// If it takes longer than [`PATIENCE`].
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_some(what, || holds().then_some(())).await;
}

/// Waits until there is something, and returns it.
///
/// # Panics
/// If it takes longer than [`PATIENCE`].
pub async fn until_some<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    // In virtual time, patience is virtual too.
    let started = tokio::time::Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited too long until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for a future.
///
/// # Panics
/// If it takes longer than [`PATIENCE`].
pub async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}
