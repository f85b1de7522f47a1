//! `meter-sim demo`: a broker, the real gateway and a street of meters on this machine, in one command.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dream_gateway::config::secrets::GatewayIdentity;
use dream_gateway::config::{Config, Overrides};
use dream_gateway::daemon;
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::policy::Policy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::access::Access;
use crate::broker::Embedded;
use crate::cli::whole;
use crate::clock;
use crate::clustering::Clustering;
use crate::conduct::ConductArgs;
use crate::fleet::{ClusterSetup, Fleet, Records, Setup};
use crate::provision::Authority;
use crate::run::lenient;
use crate::source::Source;
use crate::street;
use crate::trial::{Trial, interrupted};
use crate::verdict::Verdict;
use crate::view::View;

/// Run a broker, a gateway and simulated meters on this machine, and watch
///
/// Everything stays on the loopback and in a temporary directory, and is gone afterwards.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  meter-sim demo
  meter-sim demo --meters 1000
  meter-sim demo --slots 5 --faults 0.05
  meter-sim demo --no-noise --slots 3
  meter-sim demo --clusters 10 --meters 200 --slot-seconds 5")]
pub(crate) struct DemoArgs {
    /// How many meters each cluster has
    #[arg(long, default_value_t = 100, value_parser = whole::<u32, 5, 5000>)]
    meters: u32,
    /// How many clusters there are
    #[arg(long, default_value_t = 1, value_parser = whole::<u32, 1, 100>)]
    clusters: u32,
    /// Stop after so many slots; without it, when interrupted
    #[arg(long, value_name = "COUNT", value_parser = whole::<usize, 1, 1_000_000>)]
    slots: Option<usize>,
    /// How long a slot takes, which stands for ten minutes in the homes; by default 4, and longer for many meters, because
    /// each agrees on a key with every other first
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u32, 4, 600>)]
    slot_seconds: Option<u32>,
    /// Print JSON: one object a slot, and the verdict as the last
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    conduct: ConductArgs,
}

const GATEWAY: &str = "gw-demo";

/// What a slot stands for in the homes.
const HOME_SLOT_SECONDS: f64 = 600.0;

/// The share of readings with a fault, unless another is asked for.
const FAULTS: f64 = 0.03;

/// How many meters are a connection each; more of them share connections.
const SINGLE: u32 = 200;

impl DemoArgs {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Runtime::new().context("no threads can be started")?;
        let mut view = View::new(self.json);
        let verdict = runtime.block_on(self.demonstrate(&mut view));
        // The embedded broker has no way to stop: its threads end with the process.
        runtime.shutdown_background();
        let verdict = verdict?;
        view.verdict(&verdict);
        Ok(verdict.exit_code())
    }

    async fn demonstrate(&self, view: &mut View) -> anyhow::Result<Verdict> {
        let directory = tempfile::TempDir::new().context("a temporary directory")?;
        let broker = Embedded::start().context("the embedded broker")?;
        let authority = Authority::new("Demo authority", 1);
        let clusters = self.cluster_ids()?;
        self.write_gateway(directory.path(), &authority, &clusters, broker)?;
        let config = Config::load(&directory.path().join("gateway.toml"), &Overrides::default())?;
        let identity = GatewayIdentity::load(&config.identity, &config.id, clock::wall())?;
        let listener = daemon::listen(&config).await?;
        let http = listener.local_addr()?;
        if !self.json {
            self.explain(http, broker)?;
        }

        let (stop, stopped) = oneshot::channel::<()>();
        let (_reloads, waiting) = mpsc::channel(1);
        let mut gateway = tokio::spawn(daemon::run(config, identity, listener, waiting, async {
            stopped.await.ok();
        }));
        let trial = self.trial(directory.path(), &authority, clusters, broker)?;
        let run = async {
            // Meters that enrol before the gateway has subscribed would be heard a minute later.
            while !is_ready(http).await.unwrap_or_default() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            trial.run(view, interrupted()).await
        };
        let verdict = tokio::select! {
            verdict = run => verdict?,
            ended = &mut gateway => {
                ended.context("the gateway")??;
                anyhow::bail!("the gateway has ended by itself");
            }
        };
        drop(stop);
        gateway.await.context("the gateway")??;
        Ok(verdict)
    }

    /// The clusters with their meters, numbered through.
    fn cluster_ids(&self) -> anyhow::Result<Vec<(ClusterId, Vec<MeterId>)>> {
        let meter = |number: u32| MeterId::new(&format!("meter-{number:04}"));
        let cluster = |number: u32| {
            let name = if self.clusters == 1 { "riverside".to_owned() } else { format!("district-{}", number + 1) };
            let first = number * self.meters + 1;
            anyhow::Ok((ClusterId::new(&name)?, (first..first + self.meters).map(meter).collect::<Result<_, _>>()?))
        };
        (0..self.clusters).map(cluster).collect()
    }

    fn slot_seconds(&self) -> u32 {
        let pairs = self.clusters * self.meters / 2 * self.meters;
        self.slot_seconds.unwrap_or_else(|| (pairs / 20_000).clamp(4, 600))
    }

    fn trial(
        &self,
        directory: &Path,
        authority: &Authority,
        clusters: Vec<(ClusterId, Vec<MeterId>)>,
        broker: SocketAddr,
    ) -> anyhow::Result<Trial> {
        let access = Access::open(broker.ip().to_string(), broker.port());
        let (seed, all) = (self.conduct.seed, self.clusters * self.meters);
        let source = Source::street(seed, all);
        let sizes: Vec<usize> = clusters.iter().map(|(_, meters)| meters.len()).collect();
        let homes = Clustering::Random.assign(&source, &sizes, seed);
        let setup = |((cluster, meters), homes): ((ClusterId, Vec<MeterId>), Vec<usize>)| {
            let numbered: Vec<_> = meters.iter().enumerate().collect();
            let issue = |(number, id): &(usize, &MeterId)| Setup {
                id: (*id).clone(),
                issued: authority.meter(id),
                access: access.clone(),
                simulation: self.conduct.of_meter(*number, numbered.len()),
            };
            ClusterSetup { cluster, homes, meters: street::in_parallel(street::all_cores(), &numbered, issue) }
        };
        let faults = self.conduct.faults(FAULTS);
        Ok(Trial {
            clusters: clusters.into_iter().zip(homes).map(setup).collect(),
            observer: access.options("demo-observer"),
            injected: self.conduct.injected(&faults),
            slots: self.slots,
            fleet: Arc::new(Fleet {
                policy: lenient(Policy::new(authority.authorities(), [GatewayId::new(GATEWAY)?])),
                source,
                speed: HOME_SLOT_SECONDS / f64::from(self.slot_seconds()),
                faults,
                seed,
                per_connection: if all <= SINGLE { 1 } else { 20 },
                records: Records::open(&directory.join("meters.redb"))?,
            }),
        })
    }

    /// Writes what a gateway needs.
    fn write_gateway(
        &self,
        directory: &Path,
        authority: &Authority,
        clusters: &[(ClusterId, Vec<MeterId>)],
        broker: SocketAddr,
    ) -> anyhow::Result<()> {
        authority.write(directory, "authority")?;
        authority.gateway(&GatewayId::new(GATEWAY)?).write(directory, "gateway")?;
        let (slot, window) = (self.slot_seconds(), self.slot_seconds() / 4);
        let mut toml = format!(
            "id = \"{GATEWAY}\"\n[identity]\ncertificate = \"gateway.pem\"\nkey = \"gateway.key\"\n\
             authorities = [\"authority.pem\"]\n[broker]\nurl = \"mqtt://{broker}\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
             [defaults]\nslot_seconds = {slot}\nreading_seconds = {window}\nreveal_seconds = {window}\n\
             max_missing = 0.2\nmin_members = {}\ndrop_after_slots = 0\n",
            self.meters,
        );
        for (cluster, meters) in clusters {
            let allowed: String = meters.iter().map(|meter| format!("{meter}\n")).collect();
            std::fs::write(directory.join(format!("{cluster}.allow")), allowed)?;
            writeln!(toml, "[clusters.{cluster}]\nallow_file = \"{cluster}.allow\"")?;
        }
        std::fs::write(directory.join("gateway.toml"), toml)?;
        Ok(())
    }

    fn explain(&self, http: SocketAddr, broker: SocketAddr) -> anyhow::Result<()> {
        let (homes, seconds) = (self.clusters * self.meters, self.slot_seconds());
        let clusters = if self.clusters == 1 { String::new() } else { format!(" in {} clusters", self.clusters) };
        let noise = if self.conduct.is_exact() {
            "Noise is switched off here, so that sums are exact. No real meter can do that."
        } else {
            "The noise hides a single home; its size does not grow with the number of homes, so that the sum of many\n\
             homes is known well and that of few is not. Try --meters 1000."
        };
        writeln!(
            std::io::stdout(),
            "{homes} simulated homes{clusters}, a broker and a gateway, all on this machine.\n\
             \n\
             Every meter adds a little random noise to its reading and hides the result behind masks that it shares with\n\
             the other meters. The masks cancel in the sum of the whole cluster and nowhere else: the gateway learns\n\
             the sum, give or take the noise, and nobody learns what a single home draws.\n\
             {noise}\n\
             \n\
             page     http://{http}/\n\
             metrics  http://{http}/metrics\n\
             broker   mqtt://{broker}, topics dream/v1/#\n\
             \n\
             A slot takes {seconds} s here and stands for ten minutes in the homes. So the meters spend their privacy for a day in\n\
             minutes; those of this demo are told to go on, real ones would stop. Ctrl-C ends it all.\n",
        )?;
        Ok(())
    }
}

/// Whether the gateway says so.
async fn is_ready(http: SocketAddr) -> std::io::Result<bool> {
    let mut connection = TcpStream::connect(http).await?;
    connection.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.0 200"))
}
