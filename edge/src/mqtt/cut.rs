//! Cuts packets that are larger than allowed, before the MQTT client sees them.
//!
//! The client would end the connection, and the broker would send the same packet again on the next one, forever. Here its
//! head and the first bytes of its payload are handed on, as a smaller packet, and the rest is dropped as it is read: the message
//! is refused for its size, counted and acknowledged like any other, it takes no more memory than they do, and nothing else is
//! lost with it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Cutting;

/// How much is read at a time.
const BUFFER: usize = 16 << 10;

/// What is left of a packet beside its payload: the longest topic, with its length and a packet identifier.
const HEAD: usize = 2 + 65_535 + 2;

/// The packet type of a PUBLISH, the only one that others decide the size of.
const PUBLISH: u8 = 3;

/// A connection of which no PUBLISH longer than a limit is read.
#[derive(Debug)]
pub(super) struct Cut<S> {
    stream: S,
    limit: usize,
    setting: &'static str,
    /// What is left of a packet, and its length as MQTT writes it. A packet beyond the limit has as many bytes for that, or more.
    kept: usize,
    kept_length: [u8; 3],
    buffer: Box<[u8]>,
    /// What was read and not yet looked at, in the buffer.
    start: usize,
    end: usize,
    /// How much of the current packet is handed on, and how much behind that is dropped.
    pass: usize,
    skip: usize,
    told: bool,
}

impl<S> Cut<S> {
    /// Packets may have `limit` bytes after their fixed header; no less than what is kept of larger ones.
    #[expect(clippy::cast_possible_truncation, reason = "seven bits each")]
    pub(super) fn new(stream: S, limit: usize, cutting: Cutting) -> Self {
        let kept = HEAD + cutting.kept_payload;
        debug_assert!(kept < limit && kept < 1 << 21, "three bytes tell how long it is");
        let kept_length = [(kept & 0x7f) as u8 | 0x80, (kept >> 7 & 0x7f) as u8 | 0x80, (kept >> 14) as u8];
        let (setting, buffer) = (cutting.setting, vec![0; BUFFER].into());
        Self { stream, limit, setting, kept, kept_length, buffer, start: 0, end: 0, pass: 0, skip: 0, told: false }
    }

    /// Hands on what is in the buffer, as far as there is room for it and it is known how long its packet is.
    fn hand_on(&mut self, out: &mut ReadBuf<'_>) {
        while self.start < self.end {
            let available = self.end - self.start;
            if self.pass > 0 {
                let length = self.pass.min(available).min(out.remaining());
                if length == 0 {
                    return;
                }
                out.put_slice(&self.buffer[self.start..self.start + length]);
                self.start += length;
                self.pass -= length;
            } else if self.skip > 0 {
                let length = self.skip.min(available);
                self.start += length;
                self.skip -= length;
            } else if !self.begin_packet() {
                return;
            }
        }
    }

    /// Decides about the packet that begins here; `false` if too little of it is there.
    fn begin_packet(&mut self) -> bool {
        let bytes = &self.buffer[self.start..self.end];
        let Some((header, length)) = fixed_header(bytes) else { return false };
        let kind = bytes[0];
        if length <= self.limit || kind >> 4 != PUBLISH {
            self.pass = header.saturating_add(length);
            return true;
        }
        self.tell(length);
        // The new header is no longer than the one that was there.
        let begin = self.start + header - (1 + self.kept_length.len());
        self.buffer[begin] = kind;
        self.buffer[begin + 1..self.start + header].copy_from_slice(&self.kept_length);
        self.start = begin;
        self.pass = 1 + self.kept_length.len() + self.kept;
        self.skip = length - self.kept;
        true
    }

    /// Once a connection, so that nobody fills the log.
    fn tell(&mut self, bytes: usize) {
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                bytes,
                limit = self.limit,
                "a packet larger than {} was dropped, and all like it will be: limit the size of messages at the broker",
                self.setting
            );
        }
    }
}

impl<S: AsyncRead + Unpin> Cut<S> {
    /// Reads behind what is in the buffer, and returns how much.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // At most an incomplete header.
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let mut read = ReadBuf::new(&mut self.buffer[self.end..]);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut read))?;
        let length = read.filled().len();
        self.end += length;
        Poll::Ready(Ok(length))
    }
}

/// Returns the length of a packet's fixed header, and how much follows it; `None` if the header is not all there. What is no
/// header at all is for the client to complain about, and has no end.
fn fixed_header(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut length = 0;
    for at in 0..4 {
        let byte = *bytes.get(1 + at)?;
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((2 + at, length));
        }
    }
    Some((5, usize::MAX))
}

impl<S: AsyncRead + Unpin> AsyncRead for Cut<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        loop {
            self.hand_on(out);
            if out.filled().len() > before || out.remaining() == 0 || ready!(self.poll_fill(context))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Cut<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use rumqttc::mqttbytes::v4::Packet;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: usize = 131_072;
    const LARGEST_MESSAGE: usize = 16 << 10;
    const CUTTING: Cutting = Cutting { kept_payload: LARGEST_MESSAGE + 1, setting: "`limit`" };

    #[expect(clippy::cast_possible_truncation, reason = "as many bits as MQTT writes")]
    fn publish(topic: &str, packet: u16, payload: usize) -> Vec<u8> {
        let mut length = 2 + topic.len() + 2 + payload;
        let mut bytes = vec![0x32];
        while length > 0x7f {
            bytes.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend((topic.len() as u16).to_be_bytes());
        bytes.extend(topic.as_bytes());
        bytes.extend(packet.to_be_bytes());
        bytes.resize(bytes.len() + payload, 0xda);
        bytes
    }

    /// Returns what is read of packets which arrive in pieces of this size.
    async fn read(packets: &[Vec<u8>], pieces: usize) -> Vec<u8> {
        let (mut broker, stream) = tokio::io::duplex(pieces);
        let sent = packets.concat();
        let sending = tokio::spawn(async move { broker.write_all(&sent).await });
        let mut all = Vec::new();
        Cut::new(stream, LIMIT, CUTTING).read_to_end(&mut all).await.unwrap();
        sending.await.unwrap().unwrap();
        all
    }

    /// The topic, packet identifier and length of each message.
    fn decode(bytes: &[u8]) -> Vec<(String, u16, usize)> {
        let mut bytes = bytes::BytesMut::from(bytes);
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let Packet::Publish(publish) = Packet::read(&mut bytes, LIMIT).unwrap() else { panic!("no PUBLISH") };
            found.push((String::from_utf8(publish.topic.to_vec()).unwrap(), publish.pkid, publish.payload.len()));
        }
        found
    }

    #[tokio::test]
    async fn what_is_within_the_limit_is_left_as_it_is_however_it_arrives() {
        let largest = LIMIT - 2 - "b".len() - 2;
        let packets = [publish("a", 1, 0), publish("b", 2, 300), publish("c", 3, 20_000), vec![0xd0, 0x00]];
        for pieces in [1, 2, 5] {
            assert!(read(&packets, pieces).await == packets.concat(), "{pieces}");
        }
        let packets = [publish("a", 1, 0), publish("b", 2, largest), publish("c", 3, 200), vec![0xd0, 0x00]];
        for pieces in [3, 1000, 1 << 20] {
            assert!(read(&packets, pieces).await == packets.concat(), "{pieces}");
        }
    }

    #[tokio::test]
    async fn a_packet_beyond_the_limit_keeps_its_head_and_too_much_payload_to_be_taken_for_a_message() {
        let long = "t".repeat(65_535);
        let packets = [
            publish("a", 1, 20),
            publish("b", 2, LIMIT),
            publish("c", 3, 30),
            publish("d", 4, 3 * LIMIT),
            publish(&long, 5, LIMIT),
            publish("e", 6, 40),
        ];
        for pieces in [97, 4096, 1 << 20] {
            let found = decode(&read(&packets, pieces).await);
            let topics: Vec<_> = found.iter().map(|(topic, packet, _)| (topic.as_str(), *packet)).collect();
            assert_eq!(topics, [("a", 1), ("b", 2), ("c", 3), ("d", 4), (&*long, 5), ("e", 6)], "{pieces}");
            let lengths: Vec<usize> = found.iter().map(|(_, _, length)| *length).collect();
            assert_eq!([lengths[0], lengths[2], lengths[5]], [20, 30, 40]);
            assert!([lengths[1], lengths[3], lengths[4]].iter().all(|length| *length > LARGEST_MESSAGE), "{lengths:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_mqtt_is_handed_on_for_the_client_to_refuse() {
        let nonsense = vec![0xff; 300];
        assert_eq!(read(std::slice::from_ref(&nonsense), 100).await, nonsense);
    }
}
