//! Serves HTTP to clients that may be slow, or many, so that none of them takes what others need: an open file for the broker
//! least of all.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use hyper_util::service::TowerToHyperService;
use rustix::io::Errno;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

/// How long a client may take for the head of a request, counted from the connection or from the answer before.
const HEAD: Duration = Duration::from_secs(30);

/// How long a client may take for the handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a client may take nothing of its answer.
const STALL: Duration = Duration::from_secs(30);

/// How long to wait when no connection can be accepted.
const BREATH: Duration = Duration::from_secs(1);

/// The certificate and key of a server as they are now: a new one counts from the next connection on.
pub type Tls = watch::Receiver<Arc<ServerConfig>>;

/// Where a request comes from, as its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// The certificate, in DER, that the client has shown it has the key of, as an extension of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate(pub Arc<[u8]>);

/// Serves until `shutdown` is done, and then until every answer is out. Of more connections than `most` at a time, the oldest that
/// has no request to answer is closed; one that is still in the handshake of TLS has none.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    most: usize,
    tls: Option<Tls>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut shutdown = pin!(shutdown);
    let answering = GracefulShutdown::new();
    let mut open = Connections::default();
    loop {
        let accept = async {
            let accepted = listener.accept().await;
            open.make_room(most).await;
            accepted
        };
        let (stream, peer) = tokio::select! {
            accepted = accept => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    complain(&error).await;
                    continue;
                }
            },
            () = &mut shutdown => break,
        };
        let tls = tls.as_ref().map(|tls| tls.borrow().clone());
        open.add(stream, Peer(peer), app.clone(), tls, &answering);
    }
    drop(listener);
    open.closing.send_replace(true);
    answering.shutdown().await;
    Ok(())
}

/// The connections that are open, in their order.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    /// Whether each has a request to answer.
    order: VecDeque<(AbortHandle, Arc<AtomicBool>)>,
    /// Whether the server ends: nobody waits for handshakes then.
    closing: watch::Sender<bool>,
}

impl Connections {
    /// Waits until there are fewer than `most`, and lets one go that waits for a request.
    async fn make_room(&mut self, most: usize) {
        while self.tasks.try_join_next().is_some() {}
        while self.tasks.len() >= most {
            self.order.retain(|(task, _)| !task.is_finished());
            if let Some(idle) = self.order.iter().position(|(_, busy)| !busy.load(Ordering::Relaxed))
                && let Some((task, _)) = self.order.remove(idle)
            {
                task.abort();
            }
            self.tasks.join_next().await;
        }
    }

    fn add(
        &mut self,
        stream: TcpStream,
        peer: Peer,
        app: Router,
        tls: Option<Arc<ServerConfig>>,
        answering: &GracefulShutdown,
    ) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(STALL));
        let stream = Box::pin(stream);
        let busy = Arc::new(AtomicBool::new(false));
        let is_busy = busy.clone();
        let (watcher, mut closing) = (answering.watcher(), self.closing.subscribe());
        // How a connection ends is the client's business.
        let task = self.tasks.spawn(async move {
            let Some(tls) = tls else { return drop(watcher.watch(connection(stream, peer, None, app, busy)).await) };
            let shaken = tokio::select! {
                shaken = tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(stream)) => shaken,
                _ = closing.wait_for(|&closing| closing) => return,
            };
            if let Ok(Ok(stream)) = shaken {
                let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                let client = shown.map(|der| ClientCertificate(der.as_ref().into()));
                drop(watcher.watch(connection(stream, peer, client, app, busy)).await);
            }
        });
        self.order.push_back((task, is_busy));
    }
}

/// Answers the requests of a connection, one after the other.
fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    client: Option<ClientCertificate>,
    app: Router,
    busy: Arc<AtomicBool>,
) -> impl GracefulConnection<Error = hyper::Error> + Send {
    let app = TowerToHyperService::new(app);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        if let Some(client) = &client {
            request.extensions_mut().insert(client.clone());
        }
        let (answer, busy) = (app.call(request), busy.clone());
        async move {
            busy.store(true, Ordering::Relaxed);
            let answer = answer.await;
            busy.store(false, Ordering::Relaxed);
            answer
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service)
}

/// Says why no connection is accepted, and waits a little unless it is the client that is gone.
async fn complain(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        return;
    }
    if is_out_of_files(error) {
        tracing::error!("cannot accept a connection for HTTP: {OUT_OF_FILES}");
    } else {
        tracing::error!(%error, "cannot accept a connection for HTTP");
    }
    tokio::time::sleep(BREATH).await;
}

/// What to do when [`is_out_of_files`].
pub const OUT_OF_FILES: &str =
    "too many files and connections are open; raise the limit (`LimitNOFILE=` of the unit, or `ulimit -n`)";

/// Returns whether something failed because this process, or the machine, has too many files open.
pub fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::{Semaphore, oneshot};
    use tokio::task::JoinHandle;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";

    type Started = (SocketAddr, oneshot::Sender<()>, JoinHandle<io::Result<()>>);

    async fn started(app: Router, most: usize) -> Started {
        started_with(app, most, None).await
    }

    async fn started_with(app: Router, most: usize, tls: Option<Tls>) -> Started {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(listener, app, most, tls, async { stopped.await.unwrap_or_default() }));
        (address, stop, served)
    }

    fn hello() -> Router {
        Router::new().route("/", get(|| async { "hello" }))
    }

    async fn connected(address: SocketAddr, said: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said).await.unwrap();
        stream
    }

    /// Returns all that comes until the server hangs up.
    async fn rest(stream: &mut TcpStream) -> String {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.ok();
        String::from_utf8(all).unwrap()
    }

    async fn answer(address: SocketAddr) -> String {
        rest(&mut connected(address, b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await).await
    }

    #[tokio::test]
    async fn many_slow_connections_keep_nobody_from_being_answered() {
        let (address, _stop, _served) = started(hello(), 20).await;
        let mut slow = Vec::new();
        for _ in 0..300 {
            slow.push(connected(address, b"GET / HTTP/1.1\r\nhost: h").await);
        }
        assert!(answer(address).await.ends_with("hello"));
        // All but the last twenty are gone, long before their time is over.
        for stream in &mut slow[..280] {
            assert_eq!(tokio::time::timeout(HEAD / 2, rest(stream)).await.as_deref(), Ok(""));
        }
    }

    #[tokio::test]
    async fn a_connection_with_an_answer_under_way_is_not_closed_to_make_room() {
        let gate = Arc::new(Semaphore::new(0));
        let waits = gate.clone();
        let app = hello().route(
            "/slow",
            get(async move || {
                waits.acquire().await.unwrap().forget();
                "at last"
            }),
        );
        let (address, _stop, _served) = started(app, 2).await;
        let slow = b"GET /slow HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
        let mut asking = connected(address, slow).await;
        for _ in 0..10 {
            assert!(answer(address).await.ends_with("hello"));
            drop(connected(address, b"GET").await);
        }
        gate.add_permits(1);
        assert!(rest(&mut asking).await.ends_with("at last"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_is_hung_up_on_also_after_an_answer() {
        let (address, _stop, _served) = started(hello(), 20).await;
        let mut half = connected(address, b"GET / HT").await;
        assert_eq!(rest(&mut half).await, "");
        let mut idle = connected(address, REQUEST).await;
        assert!(rest(&mut idle).await.ends_with("hello"), "it is answered, and in the end hung up on");
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_hung_up_on() {
        let app = Router::new().route("/", get(|| async { vec![b'x'; 64 << 20] }));
        let (address, _stop, _served) = started(app, 20).await;
        let mut deaf = connected(address, REQUEST).await;
        // Its answer fills what lies between; from here on time passes at once.
        tokio::time::sleep(Duration::from_millis(300)).await;
        tokio::time::pause();
        tokio::time::sleep(2 * STALL).await;
        assert!(rest(&mut deaf).await.len() < 64 << 20);
    }

    #[tokio::test]
    async fn answers_are_finished_before_it_ends() {
        let gate = Arc::new(Semaphore::new(0));
        let (asked, waits) = (Arc::new(Semaphore::new(0)), gate.clone());
        let told = asked.clone();
        let app = Router::new().route(
            "/",
            get(async move || {
                told.add_permits(1);
                waits.acquire().await.unwrap().forget();
                "at last"
            }),
        );
        let (address, stop, served) = started(app, 20).await;
        let mut asking = connected(address, REQUEST).await;
        asked.acquire().await.unwrap().forget();
        stop.send(()).unwrap();
        gate.add_permits(1);
        assert!(rest(&mut asking).await.ends_with("at last"));
        served.await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    /// Returns how to serve with a new certificate, and how to reach who has it.
    fn certified() -> (Arc<ServerConfig>, Arc<rustls::ClientConfig>) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let certificate = made.cert.der().clone();
        let server = crate::tls::server((vec![certificate.clone()], key.into())).unwrap();
        (server, crate::tls::client_of(certificate).unwrap())
    }

    async fn ask(address: SocketAddr, client: &Arc<rustls::ClientConfig>) -> Result<(u16, Vec<u8>), String> {
        let name = rustls::pki_types::ServerName::from(address.ip());
        let tls = Some((client.clone(), name));
        let limits = crate::http::Limits { patience: Duration::from_secs(60), body_bytes: 1000 };
        crate::http::Question { address, path: "/", token: None, tls }.ask(limits).await
    }

    #[tokio::test]
    async fn a_new_certificate_counts_from_the_next_connection_on_and_no_other_is_accepted() {
        let ((first, of_first), (second, of_second)) = (certified(), certified());
        let current = watch::Sender::new(first);
        let (address, _stop, _served) = started_with(hello(), 20, Some(current.subscribe())).await;
        assert_eq!(ask(address, &of_first).await, Ok((200, b"hello".to_vec())));
        ask(address, &of_second).await.unwrap_err();
        current.send_replace(second);
        assert_eq!(ask(address, &of_second).await, Ok((200, b"hello".to_vec())));
        ask(address, &of_first).await.unwrap_err();
        // A client without TLS is told nothing.
        let mut plain = connected(address, REQUEST).await;
        assert!(!rest_of_bytes(&mut plain).await.windows(5).any(|found| found == b"hello"));
    }

    async fn rest_of_bytes(stream: &mut TcpStream) -> Vec<u8> {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.ok();
        all
    }

    #[tokio::test]
    async fn handshakes_that_never_end_keep_nobody_from_being_answered() {
        let (server, client) = certified();
        let (address, stop, served) = started_with(hello(), 20, Some(watch::Sender::new(server).subscribe())).await;
        let mut silent = Vec::new();
        for _ in 0..300 {
            // The beginning of a ClientHello.
            silent.push(connected(address, &[0x16, 3, 1, 2, 0, 1, 0]).await);
        }
        assert_eq!(ask(address, &client).await, Ok((200, b"hello".to_vec())));
        for stream in &mut silent[..280] {
            let gone = tokio::time::timeout(HANDSHAKE / 2, rest_of_bytes(stream)).await;
            assert_eq!(gone.as_deref(), Ok(&[][..]), "long before its time is over");
        }
        // Nor does the end of the server wait for the others.
        stop.send(()).unwrap();
        tokio::time::timeout(HANDSHAKE / 2, served).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_finish_the_handshake_is_hung_up_on() {
        let (server, _) = certified();
        let (address, _stop, _served) = started_with(hello(), 20, Some(watch::Sender::new(server).subscribe())).await;
        for said in [&b""[..], &[0x16, 3, 1, 2, 0, 1, 0]] {
            assert_eq!(rest_of_bytes(&mut connected(address, said).await).await, b"");
        }
    }

    #[tokio::test]
    async fn a_request_knows_where_it_comes_from() {
        let app = Router::new().route(
            "/",
            get(|request: Request| async move { request.extensions().get::<Peer>().unwrap().0.to_string() }),
        );
        let (address, _stop, _served) = started(app, 20).await;
        let mut client = connected(address, b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await;
        let own = client.local_addr().unwrap().to_string();
        assert!(rest(&mut client).await.ends_with(&own));
    }

    #[test]
    fn errors_for_want_of_files_are_told_from_others() {
        assert!(is_out_of_files(&io::Error::from_raw_os_error(Errno::MFILE.raw_os_error())));
        assert!(is_out_of_files(&io::Error::from_raw_os_error(Errno::NFILE.raw_os_error())));
        assert!(!is_out_of_files(&io::Error::from(io::ErrorKind::ConnectionRefused)));
    }
}
