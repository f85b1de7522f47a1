//! The bytes of one connection: packets in, packets out, at the same time. Neither direction waits for the other, because a
//! client may not read while it writes.

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rumqttc::mqttbytes::Error;
use rumqttc::{ConnAck, ConnectReturnCode, Packet};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::MAX_PACKET;
use crate::hub::{End, Hub, Key};

/// How long a client may take until it says who it is.
const INTRODUCTION: Duration = Duration::from_secs(10);

/// What is written at once, more or less.
const BATCH: usize = 64 << 10;

/// A payload of this size is written from where it is, which many connections share.
const LARGE: usize = 16 << 10;

/// Serves a client until one of the two ends it.
pub(crate) async fn serve(mut stream: TcpStream, hub: Arc<Mutex<Hub>>) {
    // Without it, small packets wait for each other.
    stream.set_nodelay(true).ok();
    let (read, mut write) = stream.split();
    let mut incoming = Incoming { read, buffer: BytesMut::new() };
    let connect = match timeout(INTRODUCTION, incoming.next()).await {
        Ok(Ok(Packet::Connect(connect))) => connect,
        Ok(Err(Error::InvalidProtocolLevel(_))) => {
            return refuse(&mut write, ConnAck::new(ConnectReturnCode::RefusedProtocolVersion, false)).await;
        }
        Ok(Ok(_) | Err(_)) | Err(_) => return,
    };
    let patience = (connect.keep_alive > 0).then(|| Duration::from_secs(connect.keep_alive.into()) * 3 / 2);
    let wake = Arc::new(Notify::new());
    let connected = lock(&hub).connect(connect, Arc::clone(&wake));
    let key = match connected {
        Ok(key) => key,
        Err(answer) => return refuse(&mut write, answer).await,
    };
    let end = tokio::select! {
        end = read_all(&mut incoming, patience, &hub, &key) => end,
        _ = write_all(&mut write, &wake, &hub, &key) => End::Lost,
    };
    lock(&hub).end(&key, end);
}

async fn refuse(write: &mut WriteHalf<'_>, answer: ConnAck) {
    let mut buffer = BytesMut::new();
    if answer.write(&mut buffer).is_ok() {
        // Whether the client hears it is its own affair.
        write.write_all(&buffer).await.ok();
    }
}

/// Handles what a client sends; returns how it ends. A client that is silent for too long is gone.
async fn read_all(incoming: &mut Incoming<'_>, patience: Option<Duration>, hub: &Mutex<Hub>, key: &Key) -> End {
    loop {
        let packet = match patience {
            Some(patience) => timeout(patience, incoming.next()).await.ok().and_then(Result::ok),
            None => incoming.next().await.ok(),
        };
        let Some(packet) = packet else { return End::Lost };
        if let ControlFlow::Break(end) = lock(hub).handle(key, packet) {
            return end;
        }
    }
}

/// Writes what a session has for its client, until another connection serves the session.
async fn write_all(write: &mut WriteHalf<'_>, wake: &Notify, hub: &Mutex<Hub>, key: &Key) -> io::Result<()> {
    while let Some((bytes, payload)) = next_batch(hub, key)? {
        if bytes.is_empty() {
            wake.notified().await;
        }
        write.write_all(&bytes).await?;
        write.write_all(&payload).await?;
    }
    Ok(())
}

/// Returns what to write now: some packets, and then the payload of the last if it is large. Nothing if the connection does not
/// serve its session any more.
fn next_batch(hub: &Mutex<Hub>, key: &Key) -> io::Result<Option<(BytesMut, Bytes)>> {
    let mut hub = lock(hub);
    let ControlFlow::Continue(session) = hub.served(key) else { return Ok(None) };
    let mut bytes = BytesMut::new();
    while bytes.len() < BATCH
        && let Some(packet) = session.next()
    {
        let size = packet.write(&mut bytes, usize::MAX).map_err(io::Error::other)?;
        if let Packet::Publish(publish) = packet
            && size > LARGE
        {
            bytes.truncate(bytes.len() - publish.payload.len());
            // So that a client that reads slowly does not hold the copy.
            return Ok(Some((BytesMut::from(&bytes[..]), publish.payload)));
        }
    }
    Ok(Some((bytes, Bytes::new())))
}

/// The packets that a client sends.
struct Incoming<'a> {
    read: ReadHalf<'a>,
    buffer: BytesMut,
}

impl Incoming<'_> {
    async fn next(&mut self) -> Result<Packet, Error> {
        loop {
            match Packet::read(&mut self.buffer, MAX_PACKET) {
                Err(Error::InsufficientBytes(more)) => self.buffer.reserve(more),
                packet_or_error => return packet_or_error,
            }
            if self.read.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}

/// Returns the hub. Another connection that panicked while it had it is no reason to stop.
fn lock(hub: &Mutex<Hub>) -> MutexGuard<'_, Hub> {
    hub.lock().unwrap_or_else(PoisonError::into_inner)
}
