//! What the daemon's tests share: brokers, certificates, the daemon as a process, meters over MQTT, and their right answers.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(missing_debug_implementations, reason = "nobody prints a test's tools")]

pub mod aggregates;
pub mod broker;
pub mod client;
pub mod fleet;
pub mod gateway;
pub mod http;
pub mod identities;
pub mod metrics;
pub mod mosquitto;
pub mod node;
pub mod oracle;
#[path = "../../../protocol/tests/support/pki.rs"]
pub mod pki;
pub mod watcher;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dream_protocol::time::{Now, Timestamp};

/// How long anything may take before a test gives up: far longer than it does.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A port of the loopback that nobody listens on. It is below those that the system hands out: a connection to one of
/// them, tried again and again before anyone listens, may one day take it and reach itself.
pub fn free_port() -> u16 {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| rand::random_range(10_000..30_000).into());
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(since.as_millis().try_into().unwrap())
}

/// Both clocks of a meter, in step.
pub fn now() -> Now {
    let wall = wall();
    Now { wall, monotonic_millis: wall.as_millis() }
}

/// Waits until something is so.
///
/// # Panics
/// If it takes longer than [`PATIENCE`].
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    until_some(what, || so().then_some(())).await;
}

/// Waits until there is something.
///
/// # Panics
/// If it takes longer than [`PATIENCE`].
pub async fn until_some<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited too long until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
