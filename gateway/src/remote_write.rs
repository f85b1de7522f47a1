//! Writes released sums to a receiver of Prometheus's remote write, each with the time of its slot.
//!
//! What is sent is read from the store, where every closed slot is, so that nothing waits for a receiver and nothing is lost with one: what was
//! acknowledged is kept there too, and the rest is sent when the receiver is back, or the gateway. The slots of a cluster go in their order.

mod message;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, header};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use dream_edge::backoff::Backoff;
use dream_edge::files;
use dream_edge::http::{Limits, Poster};
use dream_edge::tls;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use tracing::{info, warn};

use crate::board::Board;
use crate::clock::{Clock, rfc3339};
use crate::config::{ReceiverLogin, RemoteWrite};
use crate::history::{ClosedSlot, HistoryError, Rollup, Step};
use crate::metrics::Metrics;
use crate::store::{Change, Store};
use message::Samples;

/// What a receiver may take to answer.
const LIMITS: Limits = Limits { patience: Duration::from_secs(30), body_bytes: 64 << 10 };

/// How many slots of a cluster go in one request.
const MOST_SLOTS: usize = 100;

/// How much of the past is read at a time.
const PIECE_MILLIS: u64 = 6 * 3_600_000;

/// How often to look for slots if nobody says that there are some.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// After how many requests the store is told what was acknowledged, at the latest.
const MOST_UNSAVED: usize = 50;

/// Sends what closes.
#[derive(Debug)]
pub(crate) struct RemoteWriter {
    config: RemoteWrite,
    store: Arc<dyn Store>,
    board: Arc<Board>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    poster: Poster,
    backoff: Backoff,
    /// Until when slots were acknowledged or refused, by cluster.
    sent: BTreeMap<ClusterId, Timestamp>,
    /// What of that the store does not know yet.
    unsaved: BTreeMap<ClusterId, Timestamp>,
    /// What is wrong with the receiver, if anything is.
    trouble: Option<String>,
}

/// Slots of a cluster that follow one another, and the hours that end with them.
#[derive(Debug, Default)]
struct Batch {
    slots: Vec<ClosedSlot>,
    hours: Vec<Rollup>,
}

/// What became of a request.
enum Answer {
    Accepted,
    Refused(String),
    TryAgain(String),
}

impl RemoteWriter {
    /// Reads the files that the configuration names.
    pub(crate) fn new(
        config: RemoteWrite,
        store: Arc<dyn Store>,
        board: Arc<Board>,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let client = |ca| -> anyhow::Result<_> { Ok(tls::client(tls::roots(files::certificates(ca)?)?, None)?) };
        let tls = config.ca.as_deref().map(client).transpose().context("`remote_write.ca`")?;
        let address = &config.address;
        let poster = Poster::new(&address.host, address.port, &address.path, tls);
        let poster = poster.map_err(anyhow::Error::msg).context("`remote_write.url`")?;
        authorization(&config)?;
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        let (sent, unsaved) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { config, store, board, metrics, clock, poster, backoff, sent, unsaved, trouble: None })
    }

    /// Sends slots as they close, until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut news = self.board.watch();
        loop {
            news.borrow_and_update();
            let clusters: Vec<ClusterId> = self.board.clusters().1.iter().map(|view| view.cluster.clone()).collect();
            for cluster in &clusters {
                if let Err(error) = self.catch_up(cluster).await {
                    warn!(%cluster, %error, "slots cannot be read to be written to the receiver; they are tried again");
                }
            }
            self.save().await;
            tokio::select! { _ = news.changed() => {}, () = tokio::time::sleep(LOOK_EVERY) => {} }
        }
    }

    /// Sends what a cluster has that was not sent.
    async fn catch_up(&mut self, cluster: &ClusterId) -> anyhow::Result<()> {
        if !self.sent.contains_key(cluster) {
            let (store, of) = (self.store.clone(), cluster.clone());
            let known = blocking(move || store.sent(&of)).await?;
            // What closed before anybody asked for it stays where it is.
            let begun = known.unwrap_or_else(|| self.clock.now());
            self.sent.insert(cluster.clone(), begun);
            if known.is_none() {
                self.unsaved.insert(cluster.clone(), begun);
                self.save().await;
            }
        }
        loop {
            let (store, of, now) = (self.store.clone(), cluster.clone(), self.clock.now());
            let sent = self.sent[cluster];
            let batch = blocking(move || Batch::read(&*store, &of, sent, now)).await?;
            let Some(last) = batch.slots.last().map(|closed| closed.outcome.end) else { break };
            self.deliver(cluster, &batch).await;
            self.sent.insert(cluster.clone(), last);
            self.unsaved.insert(cluster.clone(), last);
            if self.unsaved.len() >= MOST_UNSAVED || batch.slots.len() == MOST_SLOTS {
                self.save().await;
            }
        }
        self.metrics.remote_write_behind(Duration::ZERO);
        Ok(())
    }

    /// Sends a batch until the receiver has taken or refused it. A slot that it refuses does not take others with it.
    async fn deliver(&mut self, cluster: &ClusterId, batch: &Batch) {
        match self.send(cluster, batch).await {
            Ok(()) => {}
            Err(_) if batch.slots.len() > 1 => {
                for one in batch.by_slot() {
                    if let Err(reason) = self.send(cluster, &one).await {
                        self.refused(cluster, &one, &reason);
                    }
                }
            }
            Err(reason) => self.refused(cluster, batch, &reason),
        }
    }

    fn refused(&self, cluster: &ClusterId, batch: &Batch, reason: &str) {
        let samples = batch.samples(cluster, &self.config.labels).count();
        self.metrics.remote_written("refused", samples);
        let end = batch.slots.last().map(|closed| rfc3339(closed.outcome.end)).unwrap_or_default();
        warn!(%cluster, end, samples, reason, "the receiver refuses a slot, which is not sent again");
    }

    /// Sends samples, as often as it takes; the error is why they are refused.
    async fn send(&mut self, cluster: &ClusterId, batch: &Batch) -> Result<(), String> {
        let samples = batch.samples(cluster, &self.config.labels);
        let (count, body) = (samples.count(), Bytes::from(samples.encode()));
        loop {
            let first = batch.slots.first().map_or(u64::MAX, |closed| closed.outcome.end.as_millis());
            let behind = Duration::from_millis(self.clock.now().as_millis().saturating_sub(first));
            self.metrics.remote_write_behind(behind);
            match self.post(body.clone()).await {
                Answer::Accepted => {
                    self.metrics.remote_written("accepted", count);
                    self.recovered();
                    return Ok(());
                }
                Answer::Refused(reason) => {
                    self.recovered();
                    return Err(reason);
                }
                Answer::TryAgain(reason) => {
                    self.metrics.remote_write_failed();
                    if self.trouble.as_ref() != Some(&reason) {
                        warn!(reason, "the receiver does not take samples; they are sent when it does");
                        self.trouble = Some(reason);
                    }
                    tokio::time::sleep(self.backoff.next_wait()).await;
                }
            }
        }
    }

    fn recovered(&mut self) {
        self.backoff.reset();
        if self.trouble.take().is_some() {
            info!("the receiver takes samples again");
        }
    }

    async fn post(&mut self, body: Bytes) -> Answer {
        let mut headers = vec![
            (header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf")),
            (header::CONTENT_ENCODING, HeaderValue::from_static("snappy")),
            (HeaderName::from_static("x-prometheus-remote-write-version"), HeaderValue::from_static("0.1.0")),
            (header::USER_AGENT, HeaderValue::from_static(concat!("dream-gateway/", env!("CARGO_PKG_VERSION")))),
        ];
        // Read each time: a token may be replaced.
        match authorization(&self.config) {
            Ok(login) => headers.extend(login.map(|login| (header::AUTHORIZATION, login))),
            Err(error) => return Answer::TryAgain(format!("{error:#}")),
        }
        match self.poster.post(&headers, body, LIMITS).await {
            Ok((200..=299, _)) => Answer::Accepted,
            Ok((status @ (429 | 500..), body)) => Answer::TryAgain(told(status, &body)),
            // Nobody is let in: that is mended, and then the slots are wanted.
            Ok((status @ (401 | 403 | 404), body)) => Answer::TryAgain(told(status, &body)),
            Ok((status, body)) => Answer::Refused(told(status, &body)),
            Err(problem) => Answer::TryAgain(problem),
        }
    }

    /// Tells the store what was acknowledged. If it cannot take that now, it is told later: what is sent twice is there once.
    async fn save(&mut self) {
        if self.unsaved.is_empty() {
            return;
        }
        let changes: Vec<Change> = self
            .unsaved
            .iter()
            .map(|(cluster, until)| Change::PutSent { cluster: cluster.clone(), until: *until })
            .collect();
        let store = self.store.clone();
        match blocking(move || store.commit(&changes)).await {
            Ok(()) => self.unsaved.clear(),
            Err(error) => warn!(%error, "the store does not take note of what was written to the receiver"),
        }
    }
}

impl Batch {
    /// Reads the next slots of a cluster after those that were sent, if there are any.
    fn read(store: &dyn Store, cluster: &ClusterId, sent: Timestamp, now: Timestamp) -> Result<Self, HistoryError> {
        let mut from = sent.as_millis() + 1;
        let until = now.as_millis() + 1;
        while from < until {
            let to = until.min(from + PIECE_MILLIS);
            let span = Timestamp::from_millis(from)..Timestamp::from_millis(to);
            let mut slots = store.slots(cluster, span, usize::MAX)?;
            slots.retain(ClosedSlot::is_of_a_list);
            let mut reached = sent;
            // One that comes before it may still be open: until it has expired, no later one overtakes it.
            slots.truncate(MOST_SLOTS);
            let ready = slots.iter().take_while(|closed| {
                let (start, end) = (closed.outcome.start, closed.outcome.end);
                let follows = start <= reached || end.plus_millis(end.millis_since(start)) <= now;
                reached = end;
                follows
            });
            let ready = ready.count();
            if ready == 0 && !slots.is_empty() {
                break;
            }
            slots.truncate(ready);
            if let Some(last) = slots.last().map(|closed| closed.outcome.end) {
                // Hours that began a day before may end now: clocks are set.
                let begun = Timestamp::from_millis(sent.as_millis().saturating_sub(86_400_000))..last;
                let mut hours = store.rollups(cluster, Step::Hour, begun, usize::MAX)?;
                hours.retain(|hour| sent < hour.end && hour.end <= last);
                return Ok(Self { slots, hours });
            }
            from = to;
        }
        Ok(Self::default())
    }

    /// Parts it into slots, each with the hours that end with it.
    fn by_slot(&self) -> Vec<Self> {
        let mut before = Timestamp::from_millis(0);
        let one = |closed: &ClosedSlot| {
            let (from, end) = (before, closed.outcome.end);
            before = end;
            let hours = self.hours.iter().filter(|hour| from < hour.end && hour.end <= end).cloned().collect();
            Self { slots: vec![*closed], hours }
        };
        self.slots.iter().map(one).collect()
    }

    fn samples<'a>(&self, cluster: &'a ClusterId, labels: &'a BTreeMap<String, String>) -> Samples<'a> {
        let mut samples = Samples::new(cluster, labels);
        self.slots.iter().for_each(|closed| samples.add_slot(closed));
        self.hours.iter().for_each(|hour| samples.add_hour(hour));
        samples
    }
}

/// Returns what a receiver said, in one line.
fn told(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text.lines().next().unwrap_or_default().trim();
    format!("HTTP {status}: {}", line.chars().take(200).collect::<String>())
}

/// Returns the header that logs in.
fn authorization(config: &RemoteWrite) -> anyhow::Result<Option<HeaderValue>> {
    let line = |path| -> anyhow::Result<_> { Ok(files::password(&files::read(path)?)) };
    let value = match &config.login {
        None => return Ok(None),
        Some(ReceiverLogin::Token(file)) => {
            [b"Bearer ".as_slice(), &line(file).context("`remote_write.bearer_token_file`")?].concat()
        }
        Some(ReceiverLogin::Password { username, file }) => {
            let password = line(file).context("`remote_write.password_file`")?;
            let both = zeroize::Zeroizing::new([username.as_bytes(), b":", &password].concat());
            format!("Basic {}", BASE64_STANDARD.encode(&*both)).into_bytes()
        }
    };
    let mut value =
        HeaderValue::from_bytes(&value).context("the login of `remote_write` has characters that no header has")?;
    value.set_sensitive(true);
    Ok(Some(value))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("work that was started is neither cancelled nor panics")
}

#[cfg(test)]
mod tests {
    use dream_protocol::cluster::Record;
    use dream_testkit::outcomes::Slotted;
    use prost::Message as _;
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::message::WriteRequest;
    use super::*;
    use crate::clock::SystemClock;
    use crate::config::Address;
    use crate::store::FileStore;

    fn north() -> ClusterId {
        ClusterId::new("north").unwrap()
    }

    /// Reads one request; returns its head, and the times of the loads in it.
    async fn request(stream: &mut TcpStream) -> (String, Vec<i64>) {
        let mut bytes = Vec::new();
        loop {
            let head = bytes.windows(4).position(|four| four == b"\r\n\r\n");
            let text = String::from_utf8_lossy(&bytes[..head.unwrap_or(0)]).to_ascii_lowercase();
            let length: Option<usize> =
                text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            if let (Some(head), Some(length)) = (head, length)
                && bytes.len() == head + 4 + length
            {
                let body = snap::raw::Decoder::new().decompress_vec(&bytes[head + 4..]).unwrap();
                let request = WriteRequest::decode(body.as_slice()).unwrap();
                return (text, request.times("dream_slot_load_watts"));
            }
            let mut part = [0; 4096];
            let count = stream.read(&mut part).await.unwrap();
            assert!(count > 0, "a whole request");
            bytes.extend(&part[..count]);
        }
    }

    #[tokio::test]
    async fn what_fails_is_sent_again_and_what_is_refused_takes_nothing_with_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // A receiver that is broken, and that then refuses the second of three slots.
        let receiver = tokio::spawn(async move {
            let mut heard = Vec::new();
            let (mut stream, _) = listener.accept().await.unwrap();
            for status in [503, 400, 204, 400, 204] {
                let (head, times) = request(&mut stream).await;
                assert!(head.contains("authorization: bearer s3cret") && head.contains("snappy"), "{head}");
                heard.push(times.len());
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 12\r\n\r\nout of order");
                let answer = if status == 204 { "HTTP/1.1 204 X\r\n\r\n".to_owned() } else { answer };
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            heard
        });
        let folder = TempDir::new().unwrap();
        let store = Arc::new(FileStore::open(&folder.path().join("store.redb"), 4).unwrap());
        let now = SystemClock.now().as_secs() / 600;
        let changes: Vec<Change> = (1..=3)
            .map(|back| Change::Put(north(), Record::Outcome(Slotted::new(now - 4 + back).decoded(1000, 90))))
            .chain([Change::PutSent { cluster: north(), until: Timestamp::from_secs((now - 3) * 600) }])
            .collect();
        store.commit(&changes).unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "s3cret\n").unwrap();
        let address = Address { tls: false, host: "127.0.0.1".to_owned(), port, path: "/write".to_owned() };
        let (login, labels) = (Some(ReceiverLogin::Token(token)), BTreeMap::new());
        let config = RemoteWrite { address, ca: None, login, labels };
        let metrics = Arc::new(Metrics::new(&[]));
        let clock = Arc::new(SystemClock);
        let mut writer = RemoteWriter::new(config, store.clone(), Arc::default(), metrics.clone(), clock).unwrap();
        writer.catch_up(&north()).await.unwrap();
        writer.save().await;
        assert_eq!(receiver.await.unwrap(), [3, 3, 1, 1, 1]);
        assert_eq!(store.sent(&north()).unwrap(), Some(Timestamp::from_secs(now * 600)));
        let text = metrics.render(&Board::default(), SystemClock.now());
        for line in [
            "dream_remote_write_samples_total{result=\"accepted\"} 12",
            "dream_remote_write_samples_total{result=\"refused\"} 6",
            "dream_remote_write_failures_total 1",
            "dream_remote_write_behind_seconds 0",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn a_slot_waits_for_the_one_before_it_until_that_has_expired() {
        let folder = TempDir::new().unwrap();
        let store = FileStore::open(&folder.path().join("store.redb"), 4).unwrap();
        for slot in [11, 13] {
            store.commit(&[Change::Put(north(), Record::Outcome(Slotted::new(slot).decoded(1000, 90)))]).unwrap();
        }
        let at = |slot: u64| Timestamp::from_secs(slot * 600);
        let read = |sent, now| {
            let batch = Batch::read(&store, &north(), at(sent), at(now)).unwrap();
            batch.slots.iter().map(|closed| closed.outcome.slot.0).collect::<Vec<_>>()
        };
        assert_eq!(read(11, 14), [11], "12 may still close");
        assert_eq!(read(12, 14), [0; 0]);
        assert_eq!(read(12, 15), [13]);
        assert_eq!(read(14, 99), [0; 0]);
    }
}
