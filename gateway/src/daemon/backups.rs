//! Hands out back-ups: `dream-gateway backup` asks for one on a socket beside the store, which whoever may read the store can open.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::UnixListener;
use tracing::{info, warn};

use crate::config::Place;
use crate::store::{self, Store};

/// How long a client may read nothing: what it reads from is kept in the file as long as it takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for those who want a back-up.
#[derive(Debug)]
pub(super) struct Backups {
    listener: UnixListener,
    socket: PathBuf,
}

impl Backups {
    /// Listens beside the file of a store, which is open: nobody else does. A database has tools of its own.
    pub(super) fn listen(place: &Place) -> Option<Self> {
        let Place::File { path, .. } = place else { return None };
        let socket = store::socket_of(path);
        match bind(&socket) {
            Ok(listener) => Some(Self { listener, socket }),
            Err(error) => {
                warn!(socket = %socket.display(), %error, "no back-ups while the gateway runs: cannot listen for `dream-gateway backup`");
                None
            }
        }
    }

    /// Hands out one back-up after the other, until the gateway stops.
    pub(super) async fn hand_out(backups: Option<&Self>, store: &Arc<dyn Store>, stopping: &Arc<AtomicBool>) {
        let Some(Self { listener, .. }) = backups else { return std::future::pending().await };
        loop {
            let sent = match listener.accept().await.and_then(|(client, _)| client.into_std()) {
                Ok(client) => send(client, store.clone(), stopping.clone()).await,
                Err(error) => Err(error.to_string()),
            };
            match sent {
                Ok(()) => info!("a back-up of the store was handed out"),
                Err(error) => {
                    warn!(error, "a back-up of the store was not completed");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

impl Drop for Backups {
    fn drop(&mut self) {
        std::fs::remove_file(&self.socket).ok();
    }
}

fn bind(socket: &Path) -> io::Result<UnixListener> {
    // One that a killed gateway left.
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn send(
    client: std::os::unix::net::UnixStream,
    store: Arc<dyn Store>,
    stopping: Arc<AtomicBool>,
) -> Result<(), String> {
    let work = move || {
        client
            .set_nonblocking(false)
            .and_then(|()| client.set_write_timeout(Some(PATIENCE)))
            .map_err(|error| error.to_string())?;
        store.send_rows(&mut WhileRunning { client, stopping }).map_err(|error| error.to_string())
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}

/// A client that gets nothing more once the gateway stops.
struct WhileRunning {
    client: std::os::unix::net::UnixStream,
    stopping: Arc<AtomicBool>,
}

impl Write for WhileRunning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(io::Error::other("the gateway stops"));
        }
        self.client.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.client.flush()
    }
}
