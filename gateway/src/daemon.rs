//! Puts the parts together and runs them: `dream-gateway run`.

mod backups;
mod http_files;
mod notify;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use dream_edge::service::ServiceManager;
use dream_edge::task::{self, TaskEnded};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::clock::{Clock, SystemClock};
use crate::cmd::ConfigArgs;
use crate::config::Config;
use crate::config::secrets::{GatewayIdentity, foreign_client};
use crate::engine::driver::{Command, Driver};
use crate::engine::effect::EffectRunner;
use crate::engine::mqtt::Connector;
use crate::engine::parts::Parts;
use crate::engine::transport::{self, BrokerEvent};
use crate::engine::writer::Writer;
use crate::http::access::Access;
use crate::http::{self, Service};
use crate::logging::{self, Level};
#[cfg(feature = "remote-write")]
use crate::remote_write::RemoteWriter;
use crate::store::Store;
use backups::Backups;
use http_files::Current;

pub use http_files::HttpFiles;

/// Runs a gateway until it gets SIGTERM or SIGINT; SIGHUP reads the configuration again.
pub fn main(source: &ConfigArgs) -> anyhow::Result<()> {
    let (config, identity, files) = read(source)?;
    if let Some(foreign) = config.broker.tls.as_ref().and_then(|tls| foreign_client(tls, &identity, &config.id)) {
        return Err(foreign.into());
    }
    let level = logging::start(&config.log)?;
    config.http.warnings().iter().for_each(|warning| warn!("{warning}"));
    warn_of_shared_authority(&identity);
    // At least two, so that nothing that takes long keeps the connection waiting.
    let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let manager = Arc::new(ServiceManager::of_process());
    let done = runtime.block_on(async {
        let (reloads, waiting) = mpsc::channel(1);
        let hangup = signal(SignalKind::hangup())?;
        let reloading = tokio::spawn(reload_on_hangup(source.clone(), reloads, level, hangup, manager.clone()));
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let shutdown = async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        };
        let listener = listen(&config).await?;
        let clock = Arc::new(SystemClock);
        tokio::select! {
            ended = run_supervised(config, identity, files, listener, clock, None, waiting, shutdown, &manager) => ended,
            ended = task::end_of("what reads the configuration again", reloading) => Err(ended.into()),
        }
    });
    // Anything that still waits has had the grace period.
    runtime.shutdown_timeout(Duration::from_secs(1));
    done
}

/// A configuration that was read again, with the identity it names and what HTTP needs; or why it cannot be used.
pub type Reload = Result<(Config, GatewayIdentity, HttpFiles), String>;

/// Reads and checks a configuration with the identity it names and what HTTP needs, as a start and a reload do.
pub fn read(source: &ConfigArgs) -> anyhow::Result<(Config, GatewayIdentity, HttpFiles)> {
    let config = source.load()?;
    let identity = GatewayIdentity::load(&config.identity, &config.id, SystemClock.now())?;
    let files = HttpFiles::load(&config)?;
    Ok((config, identity, files))
}

async fn reload_on_hangup(
    source: ConfigArgs,
    reloads: mpsc::Sender<Reload>,
    level: Level,
    mut hangup: Signal,
    manager: Arc<ServiceManager>,
) {
    while hangup.recv().await.is_some() {
        manager.reloading();
        let reload = read(&source).map_err(|error| format!("{error:#}"));
        match &reload {
            Ok((config, identity, _)) => {
                level.set(&config.log.level);
                warn_of_shared_authority(identity);
            }
            Err(error) => error!(error, "keeping the current configuration"),
        }
        if reloads.send(reload).await.is_err() {
            return;
        }
        manager.ready();
    }
}

fn warn_of_shared_authority(identity: &GatewayIdentity) {
    if let Some(shared) = identity.shared_authority() {
        warn!("{shared}");
    }
}

/// Takes the address for HTTP. Port 0 takes a free one, which the listener knows.
pub async fn listen(config: &Config) -> anyhow::Result<TcpListener> {
    let address = config.http.listen;
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("`http.listen`: cannot listen on {address}"))
}

/// Returns what HTTP serves of a gateway's parts, and to whom, with what every page begins with, if anything.
pub fn service(parts: &Parts, access: Arc<Access>, notice: Option<String>) -> anyhow::Result<Service> {
    let (metrics, board, clock) = (parts.telemetry.metrics.clone(), parts.board.clone(), parts.clock.clone());
    Ok(Service {
        board: parts.board.clone(),
        members: parts.members.clone(),
        running: parts.running.clone(),
        access,
        history: parts.store.clone(),
        readiness: parts.readiness.clone(),
        scrape: Arc::new(move || metrics.render(&board, clock.now())),
        gateway: parts.config.replica_name()?.to_string(),
        clock: parts.clock.clone(),
        notice,
    })
}

/// Runs a gateway until `shutdown` is done, and stops it within the grace period. Slots follow `clock`; connections, the
/// grace period and the log keep to real time. Every page begins with the `notice`, if there is one.
pub async fn run(
    config: Config,
    identity: GatewayIdentity,
    listener: TcpListener,
    clock: Arc<dyn Clock>,
    notice: Option<String>,
    reloads: mpsc::Receiver<Reload>,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let files = HttpFiles::load(&config)?;
    let manager = ServiceManager::default();
    run_supervised(config, identity, files, listener, clock, notice, reloads, shutdown, &manager).await
}

/// Runs a gateway, and tells a service manager how it is doing.
async fn run_supervised(
    config: Config,
    identity: GatewayIdentity,
    files: HttpFiles,
    listener: TcpListener,
    clock: Arc<dyn Clock>,
    notice: Option<String>,
    mut reloads: mpsc::Receiver<Reload>,
    shutdown: impl Future<Output = ()>,
    manager: &ServiceManager,
) -> anyhow::Result<()> {
    let name = config.replica_name().context("the replica's name")?.to_string();
    let grace = Duration::from_secs(config.shutdown_grace_seconds);
    let parts = Parts::new(config, identity, clock)?;
    let current = Current::new(&parts.config, files, parts.running.clone());
    info!(gateway = name, version = env!("CARGO_PKG_VERSION"), http = %listener.local_addr()?, "starting");

    let (close, closed) = oneshot::channel::<()>();
    let (service, tls) = (service(&parts, current.access.clone(), notice)?, current.tls());
    let mut server = tokio::spawn(http::serve(listener, service, tls, async { closed.await.unwrap_or_default() }));
    let current = Mutex::new(current);

    let (readiness, running, clock) = (parts.readiness.clone(), parts.running.clone(), parts.clock.clone());
    let writer = remote_writer(&parts)?;
    let (backups, store) = (Backups::listen(&parts.config.store.place), parts.store.clone());
    let (broker, status_topic) = (parts.config.broker.clone(), parts.status_topic.clone());
    let connector = Connector { broker, client_id: name, status_topic, store: parts.store.clone() };
    let stopping = Arc::new(AtomicBool::new(false));
    // HTTP answers all the while.
    let (commands, waiting) = mpsc::channel(1);
    let (sender, incoming) = transport::channel();
    let mut driving = spawn_driver(parts, stopping.clone(), incoming, waiting, connector.run(sender))?;

    // Handing over a configuration may take as long as a full disk stays full; stopping does not wait for that.
    let reloading = async {
        while let Some(reload) = reloads.recv().await {
            let (refused, changes) = match reload {
                Ok((config, identity, files)) => {
                    let changes = current.lock().await.replace(&config, files);
                    let (done, outcome) = oneshot::channel();
                    commands.send(Command::Reload(Box::new(config), Box::new(identity), done)).await.ok();
                    match outcome.await {
                        Ok(Ok(more)) => (None, [changes, more].concat()),
                        Ok(Err(error)) => (Some(error), changes),
                        // The driver has ended.
                        Err(_) => break,
                    }
                }
                Err(error) => (Some(error), Vec::new()),
            };
            running.reloaded(refused, changes, clock.now());
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = shutdown => {}
        () = reloading => {}
        () = Current::follow(&current) => {}
        () = Backups::hand_out(backups.as_ref(), &store, &stopping) => {}
        () = writer => {}
        () = notify::follow(manager, &readiness) => {}
        ended = &mut driving => return ended.context("the driver has failed")?,
        ended = task::end_of("what serves `http.listen`", &mut server) => return Err(ended.into()),
    }
    info!("stopping");
    manager.stopping();
    stopping.store(true, Ordering::Relaxed);
    drop((backups, store));
    let by = Instant::now() + grace;
    let driver_stops = async {
        commands.send(Command::Stop).await.ok();
        driving.await
    };
    let stopped = tokio::time::timeout_at(by, driver_stops).await;
    drop(close);
    // A client that waits longer than that gets no answer.
    if let Ok(served) = tokio::time::timeout_at(by, server).await {
        served??;
    }
    stopped.context("stopping took longer than the grace period; uncommitted messages were not acknowledged")??
}

/// Returns what writes released sums to a receiver, if the configuration names one. It never ends.
#[cfg(feature = "remote-write")]
fn remote_writer(parts: &Parts) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let writer = parts.config.remote_write.clone().map(|config| {
        let (store, board, metrics) = (parts.store.clone(), parts.board.clone(), parts.telemetry.metrics.clone());
        RemoteWriter::new(config, store, board, metrics, parts.clock.clone())
    });
    let writer = writer.transpose()?;
    Ok(async {
        match writer {
            Some(writer) => writer.run().await,
            None => std::future::pending().await,
        }
    })
}

#[cfg(not(feature = "remote-write"))]
fn remote_writer(_: &Parts) -> anyhow::Result<std::future::Pending<()>> {
    Ok(std::future::pending())
}

/// Becomes the one that writes to the store, then lets the connection begin, and drives the clusters as they are rebuilt: on a thread of
/// its own, because it computes.
fn spawn_driver(
    parts: Parts,
    stopping: Arc<AtomicBool>,
    incoming: mpsc::Receiver<BrokerEvent>,
    commands: mpsc::Receiver<Command>,
    connection: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<oneshot::Receiver<anyhow::Result<()>>> {
    let (ended, driving) = oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    std::thread::Builder::new().name("driver".to_owned()).spawn(move || {
        let drive = || {
            let store = parts.store.clone();
            if !take(&*store, &stopping) {
                return Ok(());
            }
            let (writer, jobs) = Writer::start(store.clone(), EffectRunner::new(&parts), stopping.clone())?;
            let driver = Driver::new(parts, jobs);
            let connected = task::end_of("the connection to the broker", runtime.spawn(connection));
            runtime.block_on(async {
                tokio::select! {
                    ended = driver.run(incoming, commands) => ended,
                    failed = unless_stopping(&stopping, connected) => Err(failed.into()),
                }
            })?;
            writer.join();
            store.give_back();
            Ok(())
        };
        drop(ended.send(drive()));
    })?;
    Ok(driving)
}

/// Waits until no other gateway writes to the store; `false` if this one stops before.
fn take(store: &dyn Store, stopping: &AtomicBool) -> bool {
    let mut told = None;
    while !stopping.load(Ordering::Relaxed) {
        match store.try_take() {
            Ok(None) => return true,
            Ok(Some(owner)) => {
                if told.as_ref() != Some(&owner) {
                    info!(owner, "another gateway writes to the store; waiting until it stops or falls silent");
                    told = Some(owner);
                }
            }
            Err(error) => error!(%error, "cannot find out who writes to the store"),
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    false
}

/// Waits for the end of a task, unless the gateway is stopping: then it is to end.
async fn unless_stopping(stopping: &AtomicBool, ended: impl Future<Output = TaskEnded>) -> TaskEnded {
    let ended = ended.await;
    if stopping.load(Ordering::Relaxed) { std::future::pending().await } else { ended }
}
