//! `meter-sim demo`: a broker, the real gateway and a street of meters on this machine, in one command.

use std::future::Future;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use dream_gateway::config::{Config, Overrides};
use dream_gateway::daemon;
use dream_gateway::driver;
use dream_gateway::secrets::GatewayIdentity;
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::policy::Policy;
use dream_protocol::simulation::Simulation;
use rumqttc::MqttOptions;
use tokio::sync::{mpsc, watch};

use crate::broker::Embedded;
use crate::fleet::{self, ClusterSetup, Faults, Fleet, Records, Setup};
use crate::home::{ActivityModel, DayKind, Month, Residents};
use crate::provision::Authority;
use crate::slots::SlotLength;
use crate::source::Source;
use crate::street;
use crate::trial;
use crate::verdict::{Injected, Verdict};
use crate::view::View;

/// Run a broker, a gateway and simulated meters on this machine, and watch
///
/// Everything stays on the loopback and in a temporary directory, and is gone afterwards.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  meter-sim demo
  meter-sim demo --meters 1000
  meter-sim demo --slots 5 --faults 0.05
  meter-sim demo --no-noise --slots 3")]
pub struct DemoArgs {
    /// How many meters
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(5..=5000))]
    meters: u16,
    /// Stop after so many slots; without it, when interrupted
    #[arg(long, value_name = "COUNT")]
    slots: Option<usize>,
    /// How long a slot takes, which stands for ten minutes in the homes; by default 4, and longer for more than 200 meters,
    /// because each agrees on a key with every other first
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(4..=600))]
    slot_seconds: Option<u64>,
    /// The share of readings that something goes wrong with: silence, delay, damage, restarts and so on
    #[arg(long, value_name = "SHARE", default_value_t = 0.03, value_parser = share)]
    faults: f64,
    /// The share of readings after which a meter vanishes before it helps to unmask: one costs the attempt
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    vanish: f64,
    /// Leave the noise out, which no real meter can: sums are exact
    #[arg(long)]
    no_noise: bool,
    /// The same seed gives the same homes and the same faults
    #[arg(long, default_value_t = 2026)]
    seed: u64,
    /// Print the verdict as JSON, and nothing else
    #[arg(long)]
    json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "use a share from 0 to 1, such as 0.05".to_owned())
}

const CLUSTER: &str = "riverside";
const GATEWAY: &str = "gw-demo";

/// What a slot stands for in the homes.
const HOME_SLOT_SECONDS: u32 = 600;

impl DemoArgs {
    fn slot_seconds(&self) -> u64 {
        self.slot_seconds.unwrap_or_else(|| 4 * (u64::from(self.meters) / 160).max(1))
    }

    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let verdict = runtime.block_on(self.demonstrate(async {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        // The embedded broker has no way to stop: its threads end with the process.
        runtime.shutdown_background();
        let verdict = verdict?;
        let mut out = std::io::stdout();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(&verdict)?)?
        } else {
            writeln!(out, "\n{verdict}")?
        }
        Ok(if verdict.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn demonstrate(&self, interrupted: impl Future<Output = ()>) -> anyhow::Result<Verdict> {
        let directory = tempfile::TempDir::new().context("a temporary directory")?;
        let broker = Embedded::start().context("the embedded broker")?;
        let authority = Authority::new("Demo authority", 1);
        let meters: Vec<MeterId> =
            (1..=self.meters).map(|number| MeterId::new(&format!("meter-{number:04}"))).collect::<Result<_, _>>()?;
        let http = self.write_gateway(directory.path(), &authority, &meters, broker)?;
        let config = Config::load(&directory.path().join("gateway.toml"), &Overrides::default())?;
        let identity = GatewayIdentity::load(&config.identity, &config.id, driver::now())?;
        if !self.json {
            self.explain(http, broker)?;
        }

        let (stop, stopped) = watch::channel(false);
        let mut stopping = stopped.clone();
        let (_reloads, waiting) = mpsc::channel(1);
        let mut gateway = tokio::spawn(daemon::run(config, identity, waiting, async move {
            stopping.wait_for(|stop| *stop).await.ok();
        }));
        let fleet = Arc::new(self.fleet(directory.path(), &authority, broker)?);
        let issue = |id: &MeterId| {
            let issued = authority.meter(id);
            let share = self.no_noise.then_some(0);
            let simulation = Simulation { share, ..Simulation::default() };
            Setup { id: id.clone(), certificate: issued.der, seed: *issued.seed, simulation }
        };
        let setup = ClusterSetup {
            cluster: ClusterId::new(CLUSTER)?,
            homes: (0..meters.len()).collect(),
            meters: street::in_parallel(street::all_cores(), &meters, issue),
        };
        let running = vec![fleet::start(&fleet, setup, stopped)?];
        let mut view =
            View::new(self.json, "meters enrol, the gateway makes a list of them, and the first slot begins");
        let options = MqttOptions::new("demo-observer", (broker.ip().to_string(), broker.port()));
        let rows = tokio::select! {
            rows = trial::observe(options, &running, self.slots, &mut view, interrupted) => rows,
            ended = &mut gateway => {
                ended.context("the gateway")??;
                anyhow::bail!("the gateway has ended by itself");
            }
        };
        drop(view);
        stop.send_replace(true);
        running.into_iter().try_for_each(fleet::Running::join)?;
        gateway.await.context("the gateway")??;
        let injected = Injected { faults: self.faults > 0.0, vanishing: self.vanish > 0.0, malice: false };
        Ok(Verdict::of(&rows, injected))
    }

    fn fleet(&self, directory: &Path, authority: &Authority, broker: SocketAddr) -> anyhow::Result<Fleet> {
        let residents = Residents::between(1, 5)?;
        let homes = street::homes(self.seed, self.meters.into(), residents, ActivityModel::Crest);
        Ok(Fleet {
            policy: Policy {
                min_slot_seconds: 1,
                min_honest: 2,
                daily_micro_epsilon: u64::MAX,
                ..Policy::new(authority.authorities(), [GatewayId::new(GATEWAY)?])
            },
            source: Source::Model { homes, month: Month::new(11)?, kind: DayKind::Weekday },
            home_slot: SlotLength::new(HOME_SLOT_SECONDS)?,
            faults: Faults { seed: self.seed, rate: self.faults, vanish: self.vanish },
            per_connection: if self.meters <= 200 { 1 } else { 20 },
            records: Records::open(&directory.join("meters.redb"))?,
            connect: Box::new(move |id, _| MqttOptions::new(id, (broker.ip().to_string(), broker.port()))),
        })
    }

    /// Writes what a gateway needs, and says where it will listen.
    fn write_gateway(
        &self,
        directory: &Path,
        authority: &Authority,
        meters: &[MeterId],
        broker: SocketAddr,
    ) -> anyhow::Result<SocketAddr> {
        // Free now; nobody else takes ports in this moment, or the gateway says so.
        let http = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        authority.write(directory, "authority")?;
        authority.gateway(&GatewayId::new(GATEWAY)?).write(directory, "gateway")?;
        let allowed: String = meters.iter().map(|meter| format!("{meter}\n")).collect();
        std::fs::write(directory.join("riverside.allow"), allowed)?;
        let (slot, window) = (self.slot_seconds(), self.slot_seconds() / 4);
        let toml = format!(
            "id = \"{GATEWAY}\"\n[identity]\ncertificate = \"gateway.pem\"\nkey = \"gateway.key\"\n\
             authorities = [\"authority.pem\"]\n[broker]\nurl = \"mqtt://{broker}\"\n[http]\nlisten = \"{http}\"\n\
             [clusters.{CLUSTER}]\nslot_seconds = {slot}\nreading_seconds = {window}\nreveal_seconds = {window}\n\
             max_missing = 0.2\nmin_members = {}\nallow_file = \"riverside.allow\"\ndrop_after_slots = 0\n",
            meters.len(),
        );
        std::fs::write(directory.join("gateway.toml"), toml)?;
        Ok(http)
    }

    fn explain(&self, http: SocketAddr, broker: SocketAddr) -> anyhow::Result<()> {
        let (meters, seconds) = (self.meters, self.slot_seconds());
        let noise = if self.no_noise {
            "Noise is switched off here, so that sums are exact. No real meter can do that."
        } else {
            "The noise hides a single home; its size does not grow with the number of homes, so that the sum of many\n\
             homes is known well and that of few is not. Try --meters 1000."
        };
        writeln!(
            std::io::stdout(),
            "{meters} simulated homes, a broker and a gateway, all on this machine.\n\
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
