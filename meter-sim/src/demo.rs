//! `meter-sim demo`: a broker, the real gateway and a street of meters on this machine, in one command.

mod day_before;
mod offenders;
mod stage;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use clap::builder::ArgPredicate;
use dream_edge::HomeKind;
use dream_edge::clock::{self, Clock, SystemClock};
use dream_edge::http;
use dream_fleet::clock::SimulatedClock;
use dream_fleet::pace::Pacer;
use dream_fleet::{ClusterSetup, Faults, Fleet, Records};
use dream_gateway::config::Config;
use dream_gateway::config::access::new_token;
use dream_gateway::config::secrets::GatewayIdentity;
use dream_gateway::daemon;
use dream_gateway::store;
use dream_homes::args::{BadInput, whole};
use dream_homes::home::{Month, PvShare};
use dream_homes::source::Source;
use dream_protocol::params::Params;
use dream_protocol::scheme::{COMMITTEE_FROM, Kind, SchemeChoice};
use dream_protocol::time::Timestamp;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use crate::broker;
use crate::conduct::ConductArgs;
use crate::trial::{Trial, interrupted};
use crate::verdict::Verdict;
use crate::view::View;
use stage::Stage;

/// Run a broker, a gateway and simulated meters on this machine, and watch
///
/// Everything stays on the loopback and in a temporary directory, which is removed at the end. Simulated time runs
/// fast: a slot of ten minutes takes a few seconds. The day before the demo is filled in, so that the page has
/// something to show: sums of the same homes with the same noise, but without masking. The page labels them, they
/// belong to no list (epoch 0), and no metric counts them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  meter-sim demo
  meter-sim demo --liars 1
  meter-sim demo --clusters 1 --meters 1000 --vanish 0.05
  meter-sim demo --clusters 1 --meters 100 --scheme pairwise
  meter-sim demo --slots 5 --faults 0.05
  meter-sim demo --no-noise --slots 3
  meter-sim demo --shifting 0.005 --slots 10
  meter-sim demo --pv 0.5 --month 6
  meter-sim demo --clusters 10 --meters 200 --slot-seconds 5
  meter-sim demo --real-time --listen 127.0.0.1:9464 --mqtt-port 1883")]
pub(crate) struct DemoArgs {
    /// The number of meters per cluster; with --liars by default 100
    #[arg(long, default_value_t = 300, default_value_ifs = story("300", "100"), value_parser = whole::<u16, 2, 10_000>)]
    meters: u16,
    /// How readings are masked: `committee`, where some meters are holders that open the sum together, and some of
    /// these may drop out; `pairwise`, where every meter must help; or `auto`, the gateway's default: a committee from
    /// 50 meters on
    #[arg(long, value_name = "SCHEME", default_value_t)]
    scheme: SchemeChoice,
    /// The number of clusters; with --liars by default 1. Several of them are a group, the town, and from four on it has
    /// two substations
    #[arg(long, default_value_t = 4, default_value_ifs = story("4", "1"), value_parser = whole::<u32, 1, 100>)]
    clusters: u32,
    /// The share of homes with solar panels. They feed in: readings then range from -8 to 8 kW, which takes more noise
    #[arg(long, value_name = "SHARE", default_value_t)]
    pv: PvShare,
    /// The simulated month, from 1 to 12
    #[arg(long, default_value = "11")]
    month: Month,
    /// Stop after COUNT slots; by default, run until interrupted
    #[arg(long, value_name = "COUNT", value_parser = whole::<usize, 1, 1_000_000>)]
    slots: Option<usize>,
    /// How long a slot of ten minutes takes in real time. By default 4, with --liars 2, and more for thousands of meters;
    /// with --real-time 4 at least
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u32, 2, 600>)]
    slot_seconds: Option<u32>,
    /// Stamp slots with this machine's clock and their real length, for Prometheus, which accepts no other time. No day
    /// is filled in then, and the meters are set to accept slots that short
    #[arg(long)]
    real_time: bool,
    /// Home profile the gateway assumes: flat, house, electric-heat or pv. The homes themselves stay the same. By
    /// default house, and pv where some of them feed in
    #[arg(long, value_name = "KIND")]
    kind: Option<HomeKind>,
    /// The address of the page, the API and the metrics; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The port of the broker, on the loopback; by default a free one
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    mqtt_port: Option<u16>,
    /// The number of meters of the first cluster that turn dishonest, one after the other. They send data that makes
    /// sums invalid. In the pairwise scheme every other one, starting with the first, never helps to unmask instead; a
    /// committee tolerates that. The gateway finds them and excludes them, as the page shows. The first begins after a
    /// few slots; without --slots, the demo ends when all are found and sums continue
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = whole::<usize, 0, 4>)]
    liars: usize,
    /// Print JSON: one object per slot, and the verdict as the last
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    conduct: ConductArgs,
}

const GATEWAY: &str = "gw-demo";

/// The length of a slot in the homes.
const HOME_SLOT_SECONDS: u32 = 600;

/// How long a slot of real time is at least: windows are whole seconds, each a quarter of a slot.
const REAL_SLOT_SECONDS: u32 = 4;

/// When the demo begins, in seconds of its day: when people come home.
const BEGIN: u64 = (16 * 60 + 40) * 60;

/// The share of readings with a fault, unless another is asked for.
const FAULTS: f64 = 0.03;

/// After how many slots a meter turns dishonest: the first look is at how it works.
const HONEST_SLOTS: usize = 3;

/// After how many more slots the next one does.
const NEXT_LIAR: usize = 12;

/// About so many holders a committee has.
const HOLDERS: u32 = 160;

/// Up to so many meters have a connection each; more of them share connections.
const SINGLE: u32 = 200;

/// Returns an argument's defaults by whether meters turn dishonest: then a small cluster tells the story in about a minute.
fn story(without: &'static str, with: &'static str) -> [(&'static str, ArgPredicate, &'static str); 2] {
    [("liars", "0".into(), without), ("liars", ArgPredicate::IsPresent, with)]
}

impl DemoArgs {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
        let mut view = View::new(self.json);
        let verdict = runtime.block_on(self.demonstrate(&mut view));
        // What still computes in the background, and the broker, end with the process.
        runtime.shutdown_background();
        let verdict = verdict?;
        view.verdict(&verdict);
        Ok(verdict.exit_code())
    }

    async fn demonstrate(&self, view: &mut View) -> anyhow::Result<Verdict> {
        if self.real_time && self.slot_seconds() < REAL_SLOT_SECONDS {
            let message = format!("--real-time: use --slot-seconds {REAL_SLOT_SECONDS} or more");
            return Err(BadInput(message).into());
        }
        let seed = self.conduct.seed.unwrap_or_else(|| rand::random_range(1..1_000_000));
        let directory = tempfile::TempDir::new().context("a temporary directory")?;
        let broker = broker::start(self.mqtt_port).with_context(|| self.no_broker())?;
        let stage = Stage::new(self, directory.path(), broker);
        let clusters = stage.cluster_ids()?;
        let operator = new_token();
        let config = stage.gateway(&clusters, &operator)?;
        let policy = stage.policy()?;
        let settings = config.clusters.values().next().context("a demo has a cluster")?;
        let params = stage::params(self.meters, settings, &policy)?;
        let listener = daemon::listen(&config).await.context("--listen")?;
        view.say(&self.introduction(listener.local_addr()?, stage.broker, seed));

        let clock = (!self.real_time).then(|| Arc::new(SimulatedClock::new(begin())));
        let source = Source::street(seed, self.homes()).with_pv(self.pv, self.month);
        let faults = self.conduct.faults(seed, FAULTS);
        let meters = stage.meters(clusters, &source, seed);
        if clock.is_some() {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            fill_in(&config, &params, &meters, &source, &faults, &mut rng)?;
        }
        let trial = Trial {
            clusters: meters,
            observer: stage.access().client("demo-observer", false),
            injected: self.conduct.injected(&faults, self.meters.into()),
            slots: self.slots,
            pacer: clock.clone().map(|clock| Pacer::new(clock, self.speed())),
            offenders: None,
            fleet: Arc::new(Fleet {
                policy,
                source,
                speed: if self.real_time { self.speed() } else { 1.0 },
                faults,
                clock: clock.clone(),
                seed: Some(seed),
                per_connection: if self.homes() <= SINGLE { 1 } else { 20 },
                records: Records::open(&directory.path().join("meters.redb"))?,
            }),
        };
        beside_gateway(config, operator, listener, clock, trial, view).await
    }

    fn no_broker(&self) -> String {
        match self.mqtt_port {
            Some(port) => format!("--mqtt-port: no broker can listen on port {port}"),
            None => "no broker can listen on any port of the loopback".to_owned(),
        }
    }

    /// The home profile the gateway assumes.
    fn home_kind(&self) -> HomeKind {
        self.kind.unwrap_or_else(|| if self.pv.is_none() { HomeKind::House } else { HomeKind::Pv })
    }

    fn homes(&self) -> u32 {
        self.clusters * u32::from(self.meters)
    }

    /// How long a slot takes here.
    fn slot_seconds(&self) -> u32 {
        let usual = || {
            // In real time slots begin while meters still agree on keys, each with every other or with the holders.
            let pairs = match self.scheme_kind() {
                Kind::Pairwise => self.homes() / 2 * u32::from(self.meters),
                Kind::Committee => self.homes() * u32::from(self.meters).min(HOLDERS),
            };
            let wanted = if self.real_time { pairs / 20_000 } else { self.homes() / 500 };
            let least = if self.liars > 0 && !self.real_time { 2 } else { REAL_SLOT_SECONDS };
            wanted.clamp(least, HOME_SLOT_SECONDS)
        };
        self.slot_seconds.unwrap_or_else(usual)
    }

    /// The scheme that the gateway chooses.
    const fn scheme_kind(&self) -> Kind {
        match self.scheme {
            SchemeChoice::Only(kind) => kind,
            SchemeChoice::Auto if self.meters < COMMITTEE_FROM => Kind::Pairwise,
            SchemeChoice::Auto => Kind::Committee,
        }
    }

    /// How long a slot is by the clock that stamps it.
    fn slot_length(&self) -> u32 {
        if self.real_time { self.slot_seconds() } else { HOME_SLOT_SECONDS }
    }

    /// How many times as fast as here time passes in the homes.
    fn speed(&self) -> f64 {
        f64::from(HOME_SLOT_SECONDS) / f64::from(self.slot_seconds())
    }

    fn introduction(&self, http: SocketAddr, broker: SocketAddr, seed: u64) -> String {
        let (homes, seconds) = (self.homes(), self.slot_seconds());
        let clusters = if self.clusters == 1 { String::new() } else { format!(" in {} clusters", self.clusters) };
        let noise = if self.conduct.is_exact() {
            "Noise is switched off here, so that sums are exact. No real meter can do that."
        } else {
            "The noise hides a single home; its size does not grow with the number of homes, so that the sum of many\n\
             homes is known well and that of few is not."
        };
        let time = if self.real_time {
            format!(
                "A slot takes {seconds} s, and stands for ten minutes in the homes. So the meters spend their privacy of a day in\n\
                 minutes; those of this demo are set to go on, real ones would stop. Ctrl-C ends it all."
            )
        } else {
            format!(
                "Time is that of the homes: a slot of ten minutes takes {seconds} s. The day before was filled in, so that the page\n\
                 has something to show: the same homes and the same noise, but without masking. Ctrl-C ends it all."
            )
        };
        let hiding = match self.scheme_kind() {
            Kind::Pairwise => {
                "Every meter adds a little random noise to its reading and hides the result behind masks that it shares with\n\
                 the other meters. The masks cancel in the sum of the whole cluster and nowhere else: the gateway learns\n\
                 the sum, give or take the noise, and nobody learns what a single home draws."
            }
            Kind::Committee => {
                "Every meter adds a little random noise to its reading, hides the result, and deals out what would open it in\n\
                 pieces, one for each of the meters that are holders. Each holder adds up the pieces of all meters and answers\n\
                 once: enough such answers open the sum of the whole cluster and nothing less, even if some drop out. The gateway\n\
                 learns the sum, give or take the noise, and nobody learns what a single home draws."
            }
        };
        format!(
            "{homes} simulated homes{clusters}, a broker and a gateway, all on this machine. The seed is {seed}.\n\
             \n\
             {hiding}\n\
             {noise}\n\
             \n\
             page     http://{http}/\n\
             metrics  http://{http}/metrics\n\
             broker   mqtt://{broker}, topics dream/v1/#\n\
             \n\
             {time}\n",
        )
    }
}

/// Runs the meters beside the gateway that serves them.
async fn beside_gateway(
    config: Config,
    operator: String,
    listener: TcpListener,
    clock: Option<Arc<SimulatedClock>>,
    trial: Trial,
    view: &mut View,
) -> anyhow::Result<Verdict> {
    let (clock, notice): (Arc<dyn Clock>, _) = match clock {
        Some(clock) => (clock, Some(day_before::notice(begin()))),
        None => (Arc::new(SystemClock), None),
    };
    let http = listener.local_addr()?;
    let identity = GatewayIdentity::load(&config.identity, &config.id, clock.now())?;
    let (stop, stopped) = oneshot::channel::<()>();
    let (_reloads, waiting) = mpsc::channel(1);
    let mut gateway = tokio::spawn(daemon::run(config, identity, listener, clock, notice, waiting, async {
        stopped.await.ok();
    }));
    let (news, known) = watch::channel(BTreeMap::new());
    tokio::spawn(offenders::ask(http, operator, news));
    let trial = Trial { offenders: Some(known), ..trial };
    let run = async {
        // Meters that enrol before the gateway has subscribed would be heard some seconds later.
        while ask(http, "/readyz", None).await.is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        trial.run(view, interrupted()).await
    };
    let verdict = tokio::select! {
        verdict = run => verdict?,
        ended = &mut gateway => {
            ended.context("the gateway")??;
            anyhow::bail!("the gateway exited unexpectedly");
        }
    };
    drop(stop);
    gateway.await.context("the gateway")??;
    Ok(verdict)
}

/// Writes the day before the demo begins to the gateway's store.
fn fill_in(
    config: &Config,
    params: &Params,
    clusters: &[ClusterSetup],
    source: &Source,
    faults: &Faults,
    rng: &mut ChaCha20Rng,
) -> anyhow::Result<()> {
    let store = store::open(&config.store, 0, "demo")?;
    for setup in clusters {
        let day = day_before::slots(begin(), params, setup, source, faults, rng);
        day_before::write(&*store, &setup.cluster, &day)?;
    }
    Ok(())
}

/// When the demo begins by the homes' clock: today, in the afternoon.
fn begin() -> Timestamp {
    Timestamp::from_secs(clock::wall().utc_day() * 86_400 + BEGIN)
}

/// Asks the gateway for a path, with a token if it takes one; returns the body if it answers that all is well.
async fn ask(gateway: SocketAddr, path: &str, token: Option<&str>) -> Option<Vec<u8>> {
    let limits = http::Limits { patience: Duration::from_secs(10), body_bytes: 16 << 20 };
    let question = http::Question { address: gateway, path, token, tls: None };
    let (status, body) = question.ask(limits).await.ok()?;
    (status == 200).then_some(body)
}
