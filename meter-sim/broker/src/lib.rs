//! A small MQTT 3.1.1 broker inside this process, for demonstrations and tests on the loopback.
//!
//! It has QoS 0 and 1, retained messages, the wildcards `+` and `#`, sessions that outlive their connections, last wills,
//! keep-alive, and takeover by a client of the same id. It has no ACLs, no TLS and no QoS 2 (a subscription that asks for it gets
//! 1), and keeps everything in memory: what waits for one client is bounded, the number of sessions and of retained topics is not.
//!
//! - `hub`: who is connected, who subscribed to what, and what is retained; it knows no sockets;
//! - `session`: what a client has to get, and in what order;
//! - `subscriptions`: filters, and who has them;
//! - `connection`: the bytes of one connection.

mod connection;
mod hub;
mod session;
mod subscriptions;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;

use hub::Hub;

/// The largest packet in either direction. The largest message is a membership list.
pub const MAX_PACKET: usize = 16 << 20;

/// How many connections may wait to be accepted: all meters of a demonstration connect at once.
const BACKLOG: u32 = 1024;

/// How long to wait when a connection cannot be accepted, because there are too many open files for example.
const PAUSE: Duration = Duration::from_millis(50);

/// A running broker. It ends when it is dropped: connections are closed, and no last will is published.
#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    /// Its end is the sign to stop.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Broker {
    /// Starts a broker on a thread of its own and returns when it listens. Port 0 takes a free one.
    pub fn start(listen: SocketAddr) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (started, starting) = mpsc::channel();
        let run = move || match start_listening(listen) {
            Ok((runtime, listener, address)) => {
                started.send(Ok(address)).ok();
                runtime.block_on(accept_until(listener, stopped));
            }
            Err(error) => drop(started.send(Err(error))),
        };
        let thread = thread::Builder::new().name("broker".to_owned()).spawn(run)?;
        let address =
            starting.recv().map_err(|_| io::Error::other("the broker's thread ended before it listened"))??;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It fails only if the thread panicked, which has been reported.
            thread.join().ok();
        }
    }
}

fn start_listening(at: SocketAddr) -> io::Result<(tokio::runtime::Runtime, TcpListener, SocketAddr)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _context = runtime.enter();
        let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(at)?;
        socket.listen(BACKLOG)?
    };
    let address = listener.local_addr()?;
    Ok((runtime, listener, address))
}

/// Serves every connection that is made, until the other end of the channel is gone.
async fn accept_until(listener: TcpListener, mut stopped: oneshot::Receiver<()>) {
    let hub = Arc::new(Mutex::new(Hub::default()));
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(tokio::spawn(connection::serve(stream, Arc::clone(&hub)))),
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            _ = &mut stopped => return,
        }
    }
}
