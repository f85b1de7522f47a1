//! A proxy in front of a broker, whose connections can be cut or slowed down.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A proxy on a port of its own.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    wire: Arc<Mutex<Wire>>,
}

#[derive(Debug, Default)]
struct Wire {
    cut: bool,
    delay: Duration,
    ends: Vec<TcpStream>,
}

impl Proxy {
    /// Carries connections to this port of the loopback, until the process ends.
    pub fn to(broker: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let wire = Arc::new(Mutex::new(Wire::default()));
        let shared = wire.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                connect(client.unwrap(), broker, &shared);
            }
        });
        Self { port, wire }
    }

    /// Returns the address that clients of the broker connect to instead.
    pub fn url(&self) -> String {
        format!("mqtts://127.0.0.1:{}", self.port)
    }

    /// Ends all connections, and lets none come until it is mended.
    pub fn cut(&self) {
        let mut wire = self.wire.lock().unwrap();
        wire.cut = true;
        wire.ends.drain(..).for_each(|end| drop(end.shutdown(Shutdown::Both)));
    }

    /// Holds back whatever passes, in both directions.
    pub fn slow(&self, delay: Duration) {
        self.wire.lock().unwrap().delay = delay;
    }

    /// Carries everything again, at once.
    pub fn mend(&self) {
        let mut wire = self.wire.lock().unwrap();
        (wire.cut, wire.delay) = (false, Duration::ZERO);
    }
}

fn connect(client: TcpStream, broker: u16, wire: &Arc<Mutex<Wire>>) {
    if wire.lock().unwrap().cut {
        return;
    }
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, broker)) else { return };
    let both = [(client.try_clone(), server.try_clone()), (server.try_clone(), client.try_clone())];
    wire.lock().unwrap().ends.extend([client, server]);
    for (from, to) in both {
        let (from, to, wire) = (from.unwrap(), to.unwrap(), wire.clone());
        std::thread::spawn(move || carry(from, to, &wire));
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, wire: &Mutex<Wire>) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let delay = wire.lock().unwrap().delay;
        std::thread::sleep(delay);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}
