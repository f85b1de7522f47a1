//! `meter-sim run`: a fleet of meters on a broker, beside the gateway that serves it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use dream_protocol::ids::ClusterId;
use dream_protocol::policy::{Policy, Profile};

use crate::conduct::ConductArgs;
use crate::provision::cluster_id;
use crate::trial::{Trial, interrupted};
use crate::view::View;
use dream_edge::mqtt::Client;
use dream_fleet::access::{Access, BrokerArgs};
use dream_fleet::directory::{Directory, MeterFiles, OpenError};
use dream_fleet::{ClusterSetup, Fleet, MeterSetup, Records};
use dream_homes::args::{BadInput, whole};
use dream_homes::clustering::Clustering;
use dream_homes::home::{Month, PvShare};
use dream_homes::readings::Readings;
use dream_homes::source::Source;
use dream_homes::street;

const EXAMPLES: &str = "\
Examples:
  meter-sim provision --out trial --meters 50 --slot-seconds 60
  meter-sim run --dir trial --broker mqtts://localhost
  meter-sim run --dir trial --broker mqtt://localhost --meters-per-connection 50 --faults 0.02 --slots 20
  meter-sim run --dir trial --broker mqtts://localhost --speed 10 --clustering consumption
  meter-sim run --dir trial --broker mqtts://localhost --readings homes.csv --json";

/// The seed of homes and faults, unless another is asked for.
const HOMES_SEED: u64 = 2026;

const SEED_OF_READINGS: &str = "warning: with --readings, --seed only decides which homes are in which cluster and \
                                which faults occur. Anyone who knows a seed can derive the keys and the noise, so \
                                those of your readings come from the operating system";

/// Run a fleet of simulated meters on a broker, and compare what the gateway publishes with the true sums
///
/// The meters come from a directory made by `meter-sim provision`: each has a certificate, a home, and records that
/// outlive this process. A fleet that is stopped or killed resumes when it is started again, and breaks no rule of the
/// protocol. Exits with 0 only if nothing was wrong. A slot that failed because of an injected fault is not wrong.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The directory made by `meter-sim provision`
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Limit to this cluster; repeat it for more
    #[arg(long, value_name = "NAME", conflicts_with = "clusters", value_parser = cluster_id)]
    cluster: Vec<ClusterId>,
    /// Limit to COUNT clusters of the directory
    #[arg(long, value_name = "COUNT", value_parser = whole::<usize, 1, 1000>)]
    clusters: Option<usize>,
    /// Limit to COUNT meters per cluster
    #[arg(long, value_name = "COUNT", value_parser = whole::<usize, 1, 10_000>)]
    meters: Option<usize>,
    /// The number of meters per connection. More than one needs a broker that lets a client publish for others; brokers that
    /// identify meters by their certificates do not
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = whole::<usize, 1, 10_000>)]
    meters_per_connection: usize,
    /// The meters' records, which survive a crash; by default meters.redb in the directory
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// Stop after COUNT slots per cluster; by default, run until interrupted
    #[arg(long, value_name = "COUNT", value_parser = whole::<usize, 1, 1_000_000>)]
    slots: Option<usize>,
    /// How fast time passes in the homes: with 10, a slot of one minute stands for ten minutes
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    speed: f64,
    /// Which homes are in which cluster
    #[arg(long, value_enum, default_value_t)]
    clustering: Clustering,
    /// The share of simulated homes with solar panels. They feed in: give gateway and meters a range that starts below
    /// 0, with `range_watts` and --range-watts
    #[arg(long, value_name = "SHARE", default_value_t, conflicts_with = "readings")]
    pv: PvShare,
    /// The simulated month, from 1 to 12
    #[arg(long, default_value = "11", conflicts_with = "readings")]
    month: Month,
    /// Readings of your own instead of simulated homes: CSV with one column per home and one row per slot
    #[arg(long, value_name = "FILE")]
    readings: Option<PathBuf>,
    /// Let meters accept slots shorter than a minute and lists of a few members, and spend without a daily limit. Real
    /// meters do not
    #[arg(long, conflicts_with = "community_policy")]
    trial_policy: bool,
    /// Let meters accept the smaller clusters of the community policy. Their certificates must state how many meters a
    /// cluster has; `meter-sim provision --community-policy` makes such certificates
    #[arg(long)]
    community_policy: bool,
    /// The widest range of readings that meters accept, in watts
    #[arg(long, value_name = "LO..HI", default_value = "-10000..15000", value_parser = range, allow_hyphen_values = true)]
    range_watts: (i64, i64),
    /// Print JSON: one object per slot, and the verdict as the last
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    conduct: ConductArgs,
    #[command(flatten)]
    broker: BrokerArgs,
}

impl RunArgs {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let directory = Directory::open(&self.dir)?;
        let Some(access) = self.broker.access(Some(&directory.broker_ca()))? else {
            return Err(BadInput("--broker is missing; `meter-sim demo` starts its own".to_owned()).into());
        };
        let chosen = self.chosen(&directory)?;
        let source = self.source(chosen.iter().map(|(_, meters)| meters.len()).sum())?;
        if self.readings.is_some() && self.conduct.seed.is_some() {
            writeln!(std::io::stderr(), "{SEED_OF_READINGS}")?;
        }
        let records = self.records.clone().unwrap_or_else(|| self.dir.join("meters.redb"));
        let faults = self.conduct.faults(self.homes_seed(), 0.0);
        let largest = chosen.iter().map(|(_, meters)| meters.len()).max().unwrap_or_default();
        let trial = Trial {
            clusters: self.clusters(&chosen, &source, &access)?,
            observer: self.observer(&directory, &access)?,
            injected: self.conduct.injected(&faults, largest),
            slots: self.slots,
            pacer: None,
            offenders: None,
            fleet: Arc::new(Fleet {
                policy: self.policy(&directory)?,
                source,
                speed: self.speed,
                faults,
                clock: None,
                seed: self.secrets_seed(),
                per_connection: self.meters_per_connection,
                records: Records::open(&records)?,
            }),
        };
        if !self.json {
            self.introduce(&trial, &access, &records)?;
        }
        let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
        let mut view = View::new(self.json);
        let verdict = runtime.block_on(trial.run(&mut view, interrupted()))?;
        view.verdict(&verdict);
        Ok(verdict.exit_code())
    }

    /// What homes and faults follow from: the same after a restart.
    fn homes_seed(&self) -> u64 {
        self.conduct.seed.unwrap_or(HOMES_SEED)
    }

    /// The seed of keys and noise. Those of real readings never come from a seed: anyone who knew it could remove the
    /// noise.
    fn secrets_seed(&self) -> Option<u64> {
        self.conduct.seed.filter(|_| self.readings.is_none())
    }

    /// Returns the clusters and meters that were asked for.
    fn chosen<'a>(&self, directory: &'a Directory) -> Result<Vec<(&'a ClusterId, &'a [MeterFiles])>, BadInput> {
        let there = directory.clusters();
        let missing = self.cluster.iter().find(|wanted| !there.iter().any(|(name, _)| name == *wanted));
        if let Some(missing) = missing {
            let names: Vec<_> = there.iter().map(|(name, _)| name.as_str()).collect();
            return Err(BadInput(format!(
                "--cluster: {} has no cluster `{missing}`; it has {}",
                self.dir.display(),
                names.join(", ")
            )));
        }
        let wanted = |(name, _): &&(ClusterId, _)| self.cluster.is_empty() || self.cluster.contains(name);
        let most = self.clusters.unwrap_or(usize::MAX);
        if let Some(most) = self.clusters.filter(|most| *most > there.len()) {
            let there = there.len();
            return Err(BadInput(format!(
                "--clusters: {} has {there}, not {most}; use at most {there}",
                self.dir.display()
            )));
        }
        let few = |(name, meters): &'a (ClusterId, Vec<MeterFiles>)| {
            let most = self.meters.unwrap_or(usize::MAX).min(meters.len());
            (name, &meters[..most])
        };
        Ok(there.iter().filter(wanted).take(most).map(few).collect())
    }

    fn source(&self, meters: usize) -> anyhow::Result<Source> {
        let Some(path) = &self.readings else {
            let street = Source::street(self.homes_seed(), u32::try_from(meters).context("so many meters")?);
            return Ok(street.with_pv(self.pv, self.month));
        };
        let readings = Readings::open(path).map_err(|error| BadInput(format!("--readings: {error}")))?;
        let homes = readings.homes();
        if homes < meters {
            return Err(BadInput(format!(
                "--readings: {} has {homes} homes, and there are {meters} meters; add columns, or use fewer with --meters \
                 and --clusters",
                path.display()
            ))
            .into());
        }
        Ok(Source::Readings(readings))
    }

    fn clusters(
        &self,
        chosen: &[(&ClusterId, &[MeterFiles])],
        source: &Source,
        access: &Access,
    ) -> anyhow::Result<Vec<ClusterSetup>> {
        let sizes: Vec<usize> = chosen.iter().map(|(_, meters)| meters.len()).collect();
        let homes = self.clustering.assign(source, &sizes, self.homes_seed());
        let setup = |((cluster, files), homes): (&(&ClusterId, &[MeterFiles]), Vec<usize>)| {
            let numbered: Vec<_> = files.iter().enumerate().collect();
            let meters = street::in_parallel(street::all_cores(), &numbered, |(number, files)| {
                Ok::<_, anyhow::Error>(MeterSetup {
                    id: files.id.clone(),
                    issued: files.load()?,
                    access: access.with_client(&files.certificate, &files.key)?,
                    simulation: self.conduct.of_meter(*number, numbered.len()),
                })
            });
            let meters = meters.into_iter().collect::<anyhow::Result<_>>()?;
            Ok(ClusterSetup { cluster: (*cluster).clone(), meters, homes, liars: Vec::new() })
        };
        chosen.iter().zip(homes).map(setup).collect()
    }

    /// Returns a client that may read aggregates: the one of the command line, or the directory's observer.
    fn observer(&self, directory: &Directory, access: &Access) -> anyhow::Result<Client> {
        let (certificate, key) = directory.observer_files();
        let access = match self.broker.client_certificate {
            None if key.exists() => access.with_client(&certificate, &key)?,
            None | Some(_) => access.clone(),
        };
        Ok(access.client(format!("observer-{:08x}", rand::random::<u32>()), false))
    }

    fn policy(&self, directory: &Directory) -> Result<Policy, OpenError> {
        let strict = Policy {
            range: self.range_watts,
            ..Policy::new(directory.authorities().clone(), [directory.gateway_id()?])
        };
        Ok(strict.with_profile(match (self.trial_policy, self.community_policy) {
            (true, _) => Profile::Trial,
            (false, true) => Profile::Community,
            (false, false) => Profile::Strict,
        }))
    }

    fn introduce(&self, trial: &Trial, access: &Access, records: &Path) -> std::io::Result<()> {
        let meters: usize = trial.clusters.iter().map(|cluster| cluster.meters.len()).sum();
        let mut out = std::io::stdout();
        writeln!(
            out,
            "{meters} meters in {} of {}, at {access}. Their records are in {}; after a restart they resume.",
            match trial.clusters.len() {
                1 => "one cluster".to_owned(),
                clusters => format!("{clusters} clusters"),
            },
            self.dir.display(),
            records.display(),
        )?;
        if self.trial_policy {
            writeln!(
                out,
                "Unlike real meters, they accept short slots and small clusters, and spend without a daily \
                           limit."
            )?;
        }
        if self.meters_per_connection > 1 && access.is_tls() {
            writeln!(out, "A connection uses the certificate of its first meter, and publishes for all.")?;
        }
        Ok(())
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok().filter(|speed| (0.01..=1000.0).contains(speed));
    speed.ok_or_else(|| "use a factor from 0.01 to 1000".to_owned())
}

fn range(text: &str) -> Result<(i64, i64), String> {
    let range = text.split_once("..").and_then(|(lo, hi)| Some((lo.parse().ok()?, hi.parse().ok()?)));
    range.filter(|(lo, hi)| lo < hi).ok_or_else(|| "use two whole numbers such as 0..9000 or -5000..9000".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn keys_and_noise_of_real_readings_follow_from_no_seed() {
        let seeds = |more: &[&str]| {
            let run = Cli::parse_from([&["x", "--dir", "trial"], more].concat()).run;
            (run.conduct.seed, run.secrets_seed())
        };
        assert_eq!(seeds(&[]), (None, None));
        assert_eq!(seeds(&["--seed", "7"]), (Some(7), Some(7)));
        assert_eq!(seeds(&["--readings", "homes.csv", "--seed", "7"]), (Some(7), None));
    }
}
