//! Tells a service manager such as systemd that the gateway is ready, reads its configuration again, stops, and gets on
//! (`sd_notify(3)`): datagrams to the socket that `NOTIFY_SOCKET` names.

use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio::time::Instant;

use crate::board::readiness::{Latch, Readiness};

/// How long a start may wait for the broker. Whoever depends on this service need not wait for a broker that is away.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often to look whether the gateway is ready.
const GLANCE: Duration = Duration::from_millis(100);

/// Talks to the service manager, if there is one.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    socket: Option<UnixDatagram>,
    /// How often the manager wants to hear that the gateway gets on.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Takes the addresses that a service manager leaves in the environment.
    pub(super) fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let micros = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        let ours = variable("WATCHDOG_PID").is_none_or(|id| id == std::process::id().to_string());
        Self {
            socket: variable("NOTIFY_SOCKET").and_then(|address| connect(&address).ok()),
            watchdog: micros.filter(|_| ours).map(Duration::from_micros),
        }
    }

    /// Says when the gateway is ready for the first time, or has its clusters and waits for the broker for too long; then
    /// says that it gets on, as often as it is asked to and for as long as it does. Never returns.
    pub(super) async fn follow(&self, readiness: &Readiness) {
        if self.socket.is_some() {
            self.wait_until_started(readiness).await;
            self.ready();
            if let Some(watchdog) = self.watchdog {
                self.watch(readiness, watchdog / 2).await;
            }
        }
        std::future::pending().await
    }

    async fn wait_until_started(&self, readiness: &Readiness) {
        let mut replayed = None;
        while !readiness.awaited().is_empty() {
            if readiness.is_set(Latch::StoreReplayed) {
                let since: Instant = *replayed.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    return;
                }
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// A driver that waits for a full disk does not hang: it goes on when there is room.
    async fn watch(&self, readiness: &Readiness, every: Duration) {
        let mut before = None;
        loop {
            let beats = readiness.beats();
            if before.replace(beats) != Some(beats) || !readiness.is_set(Latch::StoreWritable) {
                self.send("WATCHDOG=1");
            }
            tokio::time::sleep(every).await;
        }
    }

    pub(super) fn ready(&self) {
        self.send("READY=1");
    }

    pub(super) fn reloading(&self) {
        self.send("RELOADING=1");
    }

    pub(super) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, state: &str) {
        if let Some(Err(error)) = self.socket.as_ref().map(|socket| socket.send(state.as_bytes())) {
            tracing::debug!(%error, state, "the service manager cannot be told");
        }
    }
}

fn connect(address: &str) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&parse(address)?)?;
    // A manager that does not listen must not keep the gateway from its work.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Reads an address: a path, or on Linux a name in the abstract namespace, which starts with `@`.
fn parse(address: &str) -> std::io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = address.strip_prefix('@') {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(address)
}
