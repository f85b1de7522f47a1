//! The connection's socket, which gathers small writes.
//!
//! rumqttc hands over every acknowledgement by itself and flushes after each: a system call for four bytes, which makes
//! the broker wake up for each of them. Here a flush only promises: what was written goes out before the next read, and
//! the driver of a connection reads whenever there is nothing left to write.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rumqttc::NetworkOptions;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How much is gathered at most.
const GATHERED: usize = 32 << 10;

/// A TCP connection whose writes wait for the next read.
pub(super) struct Socket {
    stream: TcpStream,
    /// Written, and not yet given to the kernel from `sent` on.
    waiting: Vec<u8>,
    sent: usize,
}

impl Socket {
    pub(super) async fn connect(host: String, options: NetworkOptions) -> io::Result<Self> {
        let stream = rumqttc::default_socket_connect(host, options).await?;
        // What goes out is gathered already: the kernel need not wait for more.
        stream.set_nodelay(true)?;
        Ok(Self { stream, waiting: Vec::new(), sent: 0 })
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.waiting.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.waiting[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        self.waiting.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A broker that does not read is still read from: it may be waiting for that.
        if let Poll::Ready(Err(error)) = self.poll_send(context) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.waiting.len() + bytes.len() > GATHERED {
            ready!(self.poll_send(context))?;
            if bytes.len() > GATHERED {
                return Pin::new(&mut self.stream).poll_write(context, bytes);
            }
        }
        self.waiting.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Drop for Socket {
    /// A connection that is meant to end is dropped after its last flush, and not read from again.
    fn drop(&mut self) {
        if let Some(last) = self.waiting.get(self.sent..).filter(|last| !last.is_empty()) {
            self.stream.try_write(last).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// Returns a socket and the broker's end of it, which gives up after a moment.
    async fn pair() -> (Socket, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let socket = Socket::connect(address, NetworkOptions::new()).await.unwrap();
        let (broker, _) = listener.accept().unwrap();
        broker.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        (socket, broker)
    }

    async fn write(socket: &mut Socket, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let written = poll_fn(|context| Pin::new(&mut *socket).poll_write(context, bytes)).await.unwrap();
            bytes = &bytes[written..];
        }
        poll_fn(|context| Pin::new(&mut *socket).poll_flush(context)).await.unwrap();
    }

    fn heard(broker: &mut std::net::TcpStream) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        let length = broker.read(&mut bytes).unwrap_or(0);
        bytes.truncate(length);
        bytes
    }

    #[tokio::test]
    async fn small_writes_go_out_together_before_the_next_read() {
        let (mut socket, mut broker) = pair().await;
        for _ in 0..100 {
            write(&mut socket, b"ack!").await;
        }
        assert_eq!(heard(&mut broker), b"");
        let mut buffer = [0; 16];
        let mut read = ReadBuf::new(&mut buffer);
        let nothing = poll_fn(|context| Poll::Ready(Pin::new(&mut socket).poll_read(context, &mut read))).await;
        assert!(nothing.is_pending());
        assert_eq!(heard(&mut broker), b"ack!".repeat(100));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_is_lost_or_out_of_order_when_much_is_written() {
        let (mut socket, mut broker) = pair().await;
        let writes: Vec<Vec<u8>> = (0..60u8).map(|at| vec![at; if at % 7 == 0 { 200_000 } else { 900 }]).collect();
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            broker.set_read_timeout(None).unwrap();
            broker.read_to_end(&mut all).unwrap();
            all
        });
        for bytes in &writes {
            write(&mut socket, bytes).await;
        }
        poll_fn(|context| Pin::new(&mut socket).poll_shutdown(context)).await.unwrap();
        assert!(reading.join().unwrap() == writes.concat());
    }

    #[tokio::test]
    async fn the_last_words_go_out_when_the_connection_is_dropped() {
        let (mut socket, mut broker) = pair().await;
        write(&mut socket, b"goodbye").await;
        drop(socket);
        assert_eq!(heard(&mut broker), b"goodbye");
    }
}
