//! Serves HTTP to clients that may be slow, or many, so that none of them takes what others need: an open file for the broker
//! least of all.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
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
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_io_timeout::TimeoutStream;

/// How long a client may take for the head of a request, counted from the connection or from the answer before.
const HEAD: Duration = Duration::from_secs(30);

/// How long a client may take nothing of its answer.
const STALL: Duration = Duration::from_secs(30);

/// How long to wait when no connection can be accepted.
const BREATH: Duration = Duration::from_secs(1);

/// Serves until `shutdown` is done, and then until every answer is out. Of more connections than `most` at a time, the one that has
/// waited longest for a request is closed.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    most: usize,
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
        let stream = tokio::select! {
            accepted = accept => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    complain(&error).await;
                    continue;
                }
            },
            () = &mut shutdown => break,
        };
        open.add(stream, app.clone(), &answering);
    }
    drop(listener);
    answering.shutdown().await;
    Ok(())
}

/// The connections that are open, in their order.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    /// Whether each has a request to answer.
    order: VecDeque<(AbortHandle, Arc<AtomicBool>)>,
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

    fn add(&mut self, stream: TcpStream, app: Router, answering: &GracefulShutdown) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(STALL));
        let busy = Arc::new(AtomicBool::new(false));
        let is_busy = busy.clone();
        let app = TowerToHyperService::new(app);
        let service = service_fn(move |request: Request<Incoming>| {
            let (answer, busy) = (app.call(request), busy.clone());
            async move {
                busy.store(true, Ordering::Relaxed);
                let answer = answer.await;
                busy.store(false, Ordering::Relaxed);
                answer
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(TokioIo::new(Box::pin(stream)), service);
        let connection = answering.watch(connection);
        // How a connection ends is the client's business.
        let task = self.tasks.spawn(async move { drop(connection.await) });
        self.order.push_back((task, is_busy));
    }
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
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::{Semaphore, oneshot};
    use tokio::task::JoinHandle;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";

    async fn started(app: Router, most: usize) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<io::Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(listener, app, most, async { stopped.await.unwrap_or_default() }));
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

    #[test]
    fn errors_for_want_of_files_are_told_from_others() {
        assert!(is_out_of_files(&io::Error::from_raw_os_error(Errno::MFILE.raw_os_error())));
        assert!(is_out_of_files(&io::Error::from_raw_os_error(Errno::NFILE.raw_os_error())));
        assert!(!is_out_of_files(&io::Error::from(io::ErrorKind::ConnectionRefused)));
    }
}
