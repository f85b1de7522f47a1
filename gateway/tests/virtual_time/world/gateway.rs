//! A gateway without a process: everything that `daemon::run` puts together, with the broker in memory, the virtual clock, and
//! commits that can be stopped at any step.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use dream_gateway::config::access::{Logins, Rights, Role, Token, token_hash};
use dream_gateway::config::secrets::GatewayIdentity;
use dream_gateway::config::{Config, Overrides};
use dream_gateway::daemon;
use dream_gateway::engine::driver::{Command, Driver};
use dream_gateway::engine::effect::EffectRunner;
use dream_gateway::engine::parts::Parts;
use dream_gateway::engine::transport;
use dream_gateway::http::access::Access;
use dream_gateway::http::router;
use dream_gateway::store::{self, FileStore, Store};
use dream_testkit::lab::aggregates::{Slots, decoded, listed};
use dream_testkit::lab::http::Answer;
use dream_testkit::lab::identities::GATEWAY;
use dream_testkit::lab::prometheus::Samples;
use dream_testkit::lab::settings::Settings;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use super::connection::keep_connected;
use super::freezer::Freezer;
use super::writer::{Doom, write};
use super::{SLOT_SECONDS, World, eventually, eventually_some};

/// The token of its operator.
const OPERATOR: &str = "the operator's token";

/// A gateway with its directory, running or not.
#[derive(Debug)]
pub struct Gateway {
    world: World,
    /// Its configuration from the next start or reload on.
    pub settings: Settings,
    pub doom: Doom,
    pub freezer: Freezer,
    directory: TempDir,
    life: Option<Life>,
}

/// Returns a directory on a file system in memory, if there is one: a process that dies loses nothing there either.
pub fn in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// A back-up that is being made.
#[derive(Debug)]
pub struct BackUp {
    rows: std::io::PipeReader,
    sending: std::thread::JoinHandle<()>,
}

impl BackUp {
    /// Takes the rest of its rows into a file.
    pub fn finish(mut self, path: &Path) {
        FileStore::receive(&mut self.rows, path, &[("gateway", GATEWAY)]).unwrap();
        self.sending.join().unwrap();
    }
}

/// Says when the first rows are sent: they are of that moment.
struct Told<'a> {
    out: &'a mut std::io::PipeWriter,
    first: &'a mut Option<std::sync::mpsc::Sender<()>>,
}

impl Write for Told<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(first) = self.first.take() {
            first.send(()).unwrap();
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// From a start to the next stop.
#[derive(Debug)]
struct Life {
    router: axum::Router,
    commands: mpsc::Sender<Command>,
    driver: JoinHandle<()>,
    writer: JoinHandle<()>,
    connection: JoinHandle<()>,
    store: Arc<dyn Store>,
}

impl Gateway {
    /// Starts a gateway with an empty store.
    pub fn start(world: &World, settings: Settings) -> Self {
        let mut gateway = Self::stopped(world, settings);
        gateway.restart();
        gateway
    }

    /// A gateway with an empty store that runs after [`Gateway::restart`].
    pub fn stopped(world: &World, settings: Settings) -> Self {
        let gateway = Self {
            world: world.clone(),
            settings,
            doom: Doom::default(),
            freezer: Freezer::default(),
            directory: in_memory(),
            life: None,
        };
        world.identities.write_gateway(gateway.directory.path(), GATEWAY);
        gateway
    }

    /// Starts a gateway, and waits until it is ready.
    pub async fn ready(world: &World, settings: Settings) -> Self {
        let gateway = Self::start(world, settings);
        gateway.wait_until_ready().await;
        gateway
    }

    /// Runs again with the same store; it must not run.
    pub fn restart(&mut self) {
        self.restart_with(|store| store);
    }

    /// The same, with something before the store.
    pub fn restart_with(&mut self, before: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) {
        assert!(self.life.is_none(), "the gateway runs");
        let (config, identity) = self.load();
        let name = self.name();
        let mut parts = Parts::new(config, identity, self.world.gateway_clock.clone()).unwrap();
        assert_eq!(parts.store.try_take().unwrap(), None);
        parts.store = before(parts.store);
        let operator = Token { hash: token_hash(OPERATOR), rights: Rights::of_all(Role::Operator) };
        let logins = Logins { tokens: [("operator".to_owned(), operator)].into(), ..Logins::default() };
        let access = Arc::new(Access::new(&parts.config.http, logins));
        let (store, service, status_topic) =
            (parts.store.clone(), daemon::service(&parts, access, None).unwrap(), parts.status_topic.clone());
        let (jobs, waiting) = mpsc::channel(8);
        let runner = EffectRunner::new(&parts);
        let driver = Driver::new(parts, jobs);
        let (sender, incoming) = transport::channel();
        let (commands, told) = mpsc::channel(1);
        let connection = keep_connected(self.world.broker.clone(), name, status_topic, sender);
        let drive = async { driver.run(incoming, told).await.unwrap() };
        let freezer = &self.freezer;
        self.life = Some(Life {
            router: router(service),
            commands,
            driver: tokio::spawn(freezer.clone().run(drive)),
            store: store.clone(),
            writer: tokio::spawn(freezer.clone().run(write(store, runner, waiting, self.doom.clone()))),
            connection: tokio::spawn(freezer.clone().run(connection)),
        });
    }

    /// Ends at once: nothing more is written or said but its last will.
    pub async fn kill(&mut self) {
        let Life { driver, writer, connection, store, .. } = self.life.take().expect("the gateway runs");
        for task in [driver, writer, connection] {
            task.abort();
            task.await.ok();
        }
        // Its lease ends; here nobody waits for that.
        store.give_back();
        // A cluster that is being rebuilt on another thread still reads from it.
        while Arc::strong_count(&store) > 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.world.broker.cut(&self.name());
    }

    /// Dies, and starts again.
    pub async fn crash(&mut self) {
        self.kill().await;
        self.doom.lift();
        self.restart();
        self.wait_until_ready().await;
    }

    /// Stops as SIGTERM does, and waits for the end.
    pub async fn stop(&mut self) {
        let Life { commands, driver, writer, connection, store, .. } = self.life.take().expect("the gateway runs");
        commands.send(Command::Stop).await.unwrap();
        driver.await.unwrap();
        writer.await.unwrap();
        connection.abort();
        connection.await.ok();
        store.give_back();
    }

    /// Reads the settings again, as SIGHUP does.
    pub async fn reload(&self) {
        let (config, identity) = self.load();
        let commands = &self.life().commands;
        let (done, _) = oneshot::channel();
        commands.send(Command::Reload(Box::new(config), Box::new(identity), done)).await.unwrap();
    }

    /// Replaces its certificate and key by new ones; they count after [`Gateway::reload`].
    pub fn renew(&self) {
        self.world.identities.renew_gateway(self.directory.path(), GATEWAY);
    }

    pub fn name(&self) -> String {
        format!("{GATEWAY}-{}", self.settings.ordinal)
    }

    pub fn store_path(&self) -> PathBuf {
        self.directory.path().join("gateway.redb")
    }

    /// Makes a back-up, as a running gateway hands it out.
    pub fn back_up(&self, path: &Path) {
        self.begin_back_up().finish(path);
    }

    /// Begins a back-up, whose rows wait for whoever takes them.
    pub fn begin_back_up(&self) -> BackUp {
        let (rows, mut out) = std::io::pipe().unwrap();
        let store = self.life().store.clone();
        let (begun, beginning) = std::sync::mpsc::channel();
        let sending = std::thread::spawn(move || {
            let mut first = Some(begun);
            let mut told = Told { out: &mut out, first: &mut first };
            store.send_rows(&mut told).unwrap();
        });
        beginning.recv().unwrap();
        BackUp { rows, sending }
    }

    /// Opens the store of a gateway that does not run, to write to it.
    pub fn open_store(&self) -> Arc<dyn Store> {
        assert!(self.life.is_none(), "the gateway runs");
        let store = store::open(&self.load().0.store, self.settings.ordinal, &self.name()).unwrap();
        assert_eq!(store.try_take().unwrap(), None);
        store
    }

    /// Asks for a path, without a socket.
    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Request::get(path)).await
    }

    /// Asks for a path with the token of an operator.
    pub async fn get_as_operator(&self, path: &str) -> Answer {
        self.ask(Request::get(path).header("authorization", format!("Bearer {OPERATOR}"))).await
    }

    async fn ask(&self, request: axum::http::request::Builder) -> Answer {
        let request = request.body(Body::empty()).unwrap();
        let response = self.life().router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let header = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
            (name.as_str().to_owned(), value.to_str().unwrap().to_owned())
        };
        let headers = response.headers().iter().map(header).collect();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec();
        Answer { status, headers, body }
    }

    pub async fn is_ready(&self) -> bool {
        self.get("/readyz").await.status == 200
    }

    pub async fn wait_until_ready(&self) {
        eventually("the gateway is ready", async || self.is_ready().await).await;
    }

    pub async fn metrics(&self) -> Samples {
        Samples::parse(self.get("/metrics").await.text())
    }

    /// Returns the sample of a cluster.
    pub async fn metric(&self, name: &str, cluster: &str) -> Option<f64> {
        self.metrics().await.get(name, &[("cluster", cluster)])
    }

    /// Returns how many messages of a kind were counted with this result.
    pub async fn messages(&self, kind: &str, result: &str) -> f64 {
        self.metrics().await.sum("dream_messages_total", &[("kind", kind), ("result", result)])
    }

    /// Returns the slots of a cluster as the API lists them.
    pub async fn slots(&self, cluster: &str) -> Slots {
        listed(&self.get(&format!("/api/v1/clusters/{cluster}/slots")).await)
    }

    /// Waits until so many slots more are decoded, and returns all there are.
    pub async fn decode_more(&self, cluster: &str, more: usize) -> Slots {
        let before = decoded(&self.slots(cluster).await);
        eventually_some("more slots are decoded", async || {
            Some(self.slots(cluster).await).filter(|slots| decoded(slots) >= before + more)
        })
        .await
    }

    /// Checks that the hours and days of a cluster have every slot in them that is listed, once.
    pub async fn assert_energy_has_each_slot_once(&self, cluster: &str) {
        for step in ["hour", "day"] {
            let (slots, rows) = eventually_some("no slot closes in between", async || {
                let slots = self.slots(cluster).await;
                let path = format!("/api/v1/clusters/{cluster}/history?step={step}");
                let rows = self.get(&path).await.json()["periods"].as_array().unwrap().clone();
                (self.slots(cluster).await.len() == slots.len()).then_some((slots, rows))
            })
            .await;
            let sum = |of: &str| rows.iter().map(|row| row[of].as_f64().unwrap()).sum::<f64>();
            #[expect(clippy::cast_precision_loss, reason = "few slots")]
            let [all, gave_sums, length] = [slots.len() as f64, decoded(&slots) as f64, SLOT_SECONDS as f64];
            assert_eq!((sum("slots"), sum("measured_seconds")), (all, gave_sums * length), "{step}: {rows:?}");
            assert_eq!(sum("filled_seconds") + sum("missing_seconds"), (all - gave_sums) * length, "{step}: {rows:?}");
            if all == gave_sums {
                let watts: f64 = slots.values().filter_map(|slot| slot.load_estimated_watts).sum();
                assert!((sum("energy_watt_hours") - watts * length / 3600.0).abs() < 2.0, "{step}: {rows:?}");
            }
        }
    }

    fn load(&self) -> (Config, GatewayIdentity) {
        let path = self.directory.path().join("gateway.toml");
        std::fs::write(&path, self.settings.toml(1)).unwrap();
        let config = Config::load(&path, &Overrides { ordinal: Some(self.settings.ordinal), ..Overrides::default() });
        let config = config.unwrap();
        let identity = GatewayIdentity::load(&config.identity, &config.id, self.world.now()).unwrap();
        (config, identity)
    }

    fn life(&self) -> &Life {
        self.life.as_ref().expect("the gateway runs")
    }
}
