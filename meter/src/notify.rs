//! Tells a service manager such as systemd how the meter is doing (`sd_notify(3)`): datagrams to the socket that `NOTIFY_SOCKET`
//! names.

use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Talks to the service manager, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    socket: Option<UnixDatagram>,
    /// How often the manager wants to hear that the meter gets on.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Takes the addresses that a service manager leaves in the environment.
    pub(crate) fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let micros = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        let ours = variable("WATCHDOG_PID").is_none_or(|id| id == std::process::id().to_string());
        Self {
            socket: variable("NOTIFY_SOCKET").and_then(|address| connect(&address).ok()),
            watchdog: micros.filter(|_| ours).map(Duration::from_micros),
        }
    }

    /// Says that the meter gets on, as often as it was asked to. Never returns; everything runs on one thread, so that it falls
    /// silent with the rest.
    pub(crate) async fn keep_watchdog_calm(&self) {
        let Some(watchdog) = self.watchdog else { return std::future::pending().await };
        loop {
            self.send("WATCHDOG=1");
            tokio::time::sleep(watchdog / 2).await;
        }
    }

    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Says in a few words what the meter does, for `systemctl status`.
    pub(crate) fn status(&self, words: &str) {
        self.send(&format!("STATUS={words}"));
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
    // A manager that does not listen must not keep the meter from its work.
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
