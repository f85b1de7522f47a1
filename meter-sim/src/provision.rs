//! `meter-sim provision`: certificates, keys and a gateway's configuration for trials.
//!
//! The authorities are for tests: the key of the meters' lies on the same machine as the gateway's, which `protocol.md 1` forbids.

mod settings;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use dream_edge::HomeKind;
use dream_edge::mqtt::BrokerUrl;
use dream_fleet::authority::{Host, METER_AUTHORITY, TestAuthorities};
use dream_homes::street;
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::noise::{DAY_DELTA, epsilon_of_rho};
use dream_protocol::policy::{Policy, Profile};
use dream_protocol::scheme::SchemeChoice;

use self::settings::Settings;
use crate::cli::progress;
use dream_homes::args::{BadInput, whole};

const EXAMPLES: &str = "\
Examples:
  meter-sim provision --out trial
  meter-sim provision --out trial --meters 50 --cluster riverside --cluster old-town --force
  meter-sim provision --out village --meters 30 --community-policy
  meter-sim provision --out trial-60 --slot-seconds 60 --broker-url mqtts://broker.example:8883
  meter-sim provision --out local --broker-url mqtt://localhost";

/// The reader of results on the broker, as its ACL calls it. No meter has this name.
const OBSERVER: &str = "observer";

/// A gateway is the client `{id}-{ordinal}`, which must be an id too.
const LONGEST_GATEWAY: usize = 60;

/// Make certificates, keys and a gateway's configuration for a trial
///
/// Writes two test authorities and the certificates they issue: one for the meters; the other for a gateway, a broker,
/// and an observer of the results. Keeping the meter authority's key beside the gateway's is for trials only. In
/// production, another organisation runs that authority and issues no certificates for invented meters.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("names").args(["clusters", "cluster"]))]
pub(crate) struct ProvisionArgs {
    /// The directory to write; it is created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The number of meters per cluster
    #[arg(long, default_value_t = 100, value_parser = whole::<u16, 2, 10_000>)]
    meters: u16,
    /// The number of clusters, which are named cluster-1, cluster-2 and so on
    #[arg(long, default_value_t = 1, value_parser = whole::<u16, 1, 1000>)]
    clusters: u16,
    /// A cluster's name; repeat it for more
    #[arg(long, value_name = "NAME", value_parser = cluster_id)]
    cluster: Vec<ClusterId>,
    /// The gateway's name
    #[arg(long, value_name = "NAME", default_value = "gw-1", value_parser = gateway_id)]
    gateway: GatewayId,
    /// The broker's address, for gateway.toml
    #[arg(long, value_name = "URL", default_value = "mqtts://localhost:8883")]
    broker_url: String,
    /// A name or IP address that the broker's certificate is for; repeat it for more. By default the host of --broker-url
    #[arg(long, value_name = "HOST")]
    broker_host: Vec<Host>,
    /// The number of days for which the certificates are valid
    #[arg(long, default_value_t = 397, value_parser = whole::<u32, 1, 3650>)]
    days: u32,
    /// The length of a slot, for gateway.toml
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = whole::<u64, 4, 86_400>)]
    slot_seconds: u64,
    /// Epsilon of one attempt, for gateway.toml; by default flat 0.48, house 0.5, electric-heat 0.24, pv 0.5
    #[arg(long, value_name = "DECIMAL", value_parser = epsilon)]
    epsilon: Option<String>,
    /// Home profile of the clusters, for gateway.toml: flat, house, electric-heat or pv
    #[arg(long, value_name = "KIND", default_value_t)]
    kind: HomeKind,
    /// How readings are masked, for gateway.toml: `committee`, `pairwise`, or `auto`, which is a committee from 50
    /// members on
    #[arg(long, value_name = "SCHEME", default_value_t)]
    scheme: SchemeChoice,
    /// Certify each meter for its cluster and the number of meters in it, and write gateway.toml for meters with the
    /// community policy, which then accept smaller clusters
    #[arg(long)]
    community_policy: bool,
    /// Write into a directory that is not empty, and replace the meters that an earlier run made there
    #[arg(long)]
    force: bool,
}

impl ProvisionArgs {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let clusters = self.cluster_ids()?;
        let (tls, host) = self.broker()?;
        let meters = self.meter_ids(&clusters);
        // Brokers authorise by common name.
        let taken = meters.iter().any(|(_, id)| id.as_str() == self.gateway.as_str());
        let owner = if taken { "a meter" } else { "the observer of the results" };
        if taken || self.gateway.as_str() == OBSERVER {
            let message = format!("--gateway: {owner} is called `{}`; use another name", self.gateway);
            return Err(BadInput(message).into());
        }
        let earlier = self.prepare()?;
        let write = || self.write(&clusters, &meters, tls, &host);
        write().with_context(|| format!("--out: {} cannot be written", self.out.display()))?;
        self.tell(&clusters, tls, earlier);
        Ok(())
    }

    fn cluster_ids(&self) -> Result<Vec<ClusterId>, BadInput> {
        if self.cluster.is_empty() {
            let named = (1..=self.clusters).map(|number| ClusterId::new(&format!("cluster-{number}")));
            return Ok(named.map(|id| id.expect("a plain name")).collect());
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.cluster.iter().find(|cluster| !seen.insert(*cluster)) {
            return Err(BadInput(format!("--cluster: `{twice}` is given twice")));
        }
        Ok(self.cluster.clone())
    }

    /// Returns whether the broker is reached over TLS, and the hosts of its certificate.
    fn broker(&self) -> Result<(bool, Vec<Host>), BadInput> {
        let url = &self.broker_url;
        let address = BrokerUrl::parse(url).and_then(|url| Some((url.tls, url.host.parse().ok()?)));
        let (tls, host): (bool, Host) = address.ok_or_else(|| {
            // What stands before an `@` may be a password.
            let shown = if url.contains('@') { "the value".to_owned() } else { format!("`{url}`") };
            BadInput(format!(
                "--broker-url: {shown} is not a broker's address; use mqtt://HOST[:1883] or mqtts://HOST[:8883]"
            ))
        })?;
        if !self.broker_host.is_empty() {
            return Ok((tls, self.broker_host.clone()));
        }
        let local = host == Host::Name("localhost".to_owned());
        let loopback = ["127.0.0.1", "::1"].map(|address| Host::Address(address.parse().expect("an address")));
        Ok((tls, std::iter::once(host).chain(loopback.into_iter().filter(|_| local)).collect()))
    }

    /// Returns the meters of every cluster. They are numbered across clusters, so that no name is used twice.
    fn meter_ids(&self, clusters: &[ClusterId]) -> Vec<(ClusterId, MeterId)> {
        let of_clusters = clusters.iter().flat_map(|cluster| std::iter::repeat_n(cluster, self.meters.into()));
        let total = clusters.len() * usize::from(self.meters);
        let width = total.to_string().len().max(4);
        let id = |number: usize| MeterId::new(&format!("m-{number:0width$}")).expect("a plain name");
        of_clusters.cloned().zip((1..=total).map(id)).collect()
    }

    /// Creates the directory, or removes the meters of an earlier run. Returns whether there was anything in it.
    fn prepare(&self) -> anyhow::Result<bool> {
        let out = &self.out;
        let unusable = || format!("--out: cannot use {}", out.display());
        fs::create_dir_all(out).with_context(unusable)?;
        let used = fs::read_dir(out).with_context(unusable)?.next().is_some();
        if used && !self.force {
            let message = "is not empty; use another directory, or --force to replace what an earlier run wrote";
            return Err(BadInput(format!("--out: {} {message}", out.display())).into());
        }
        let meters = out.join("meters");
        // Only what is ours: meters of another authority would be refused.
        if used && out.join(format!("{METER_AUTHORITY}.pem")).exists() && meters.exists() {
            fs::remove_dir_all(&meters).with_context(unusable)?;
        }
        Ok(used)
    }

    fn write(
        &self,
        clusters: &[ClusterId],
        meters: &[(ClusterId, MeterId)],
        tls: bool,
        hosts: &[Host],
    ) -> io::Result<()> {
        let out = &self.out;
        let authority = TestAuthorities::new(self.days);
        authority.write(out)?;
        authority.gateway(&self.gateway).write(out, "gateway")?;
        authority.broker(hosts).write(out, "broker")?;
        authority.observer(OBSERVER).write(out, OBSERVER)?;
        for cluster in clusters {
            fs::create_dir_all(folder(out, cluster))?;
            fs::write(out.join(format!("{cluster}.allow")), allow_list(cluster, meters))?;
        }
        let progress = progress(meters.len(), "meters");
        let issued = street::in_parallel(street::all_cores(), meters, |(cluster, id)| {
            progress.inc(1);
            let issued = match self.profile() {
                Profile::Community => authority.meter_of(id, cluster, self.meters),
                Profile::Strict | Profile::Trial => authority.meter(id),
            };
            issued.write(&folder(out, cluster), id.as_str())
        });
        progress.finish_and_clear();
        issued.into_iter().collect::<io::Result<()>>()?;
        let settings = Settings {
            gateway: &self.gateway,
            broker_url: &self.broker_url,
            tls,
            clusters,
            meters: self.meters,
            profile: self.profile(),
            slot_seconds: self.slot_seconds,
            epsilon: &self.epsilon(),
            kind: self.kind,
            scheme: self.scheme,
        };
        fs::write(out.join("gateway.toml"), settings.to_toml())
    }

    #[expect(clippy::print_stdout, reason = "the command's answer")]
    fn tell(&self, clusters: &[ClusterId], tls: bool, earlier: bool) {
        let out = self.out.display();
        println!("Wrote {out}, for trials only, valid for {} days:", self.days);
        println!("  meter-authority.pem, .key      the authority of meters; its key can invent meters");
        println!("  gateway-authority.pem, .key    the authority of the gateway, the broker and the observer");
        println!("  broker-clients.pem             both: the broker verifies its clients with them");
        println!("  gateway.pem, gateway.key       the gateway {}", self.gateway);
        println!("  broker.pem, broker.key         for the broker's TLS");
        println!("  observer.pem, observer.key     for a client that reads the results from the broker");
        for cluster in clusters {
            let meters = format!("meters/{cluster}/");
            println!("  {meters:<30} {} meters; {cluster}.allow names them", self.meters);
        }
        println!("  gateway.toml                   the gateway's configuration");
        for note in self.notes(earlier) {
            println!("\nNote: {note}");
        }
        let with = if tls {
            ", with broker.pem and broker.key; broker-clients.pem verifies its clients' certificates"
        } else {
            ""
        };
        println!("\nNext:\n  1. Start a broker at {}{with}.", self.broker_url);
        println!("  2. dream-gateway run --config {out}/gateway.toml");
        let url = &self.broker_url;
        let policy = match self.profile() {
            _ if self.is_lenient() => " --trial-policy",
            Profile::Community => " --community-policy",
            Profile::Strict | Profile::Trial => "",
        };
        println!("  3. meter-sim run --dir {out} --broker {url}{policy}");
        println!("     meter-sim lie --dir {out} --broker {url} shows that they refuse a dishonest gateway");
    }

    /// Returns what the meters of gateway.toml accept: those of a cluster that is too small for any home are on trial.
    fn profile(&self) -> Profile {
        let small = self.meters < Profile::Strict.floors().members;
        if self.community_policy {
            Profile::Community
        } else if small {
            Profile::Trial
        } else {
            Profile::Strict
        }
    }

    /// Returns the policy that meters should have: the default one, unless another was asked for.
    fn policy(&self) -> Policy {
        if self.community_policy { Profile::Community.rules() } else { Policy::default_rules() }
    }

    /// Returns whether that policy would refuse these settings.
    fn is_lenient(&self) -> bool {
        let policy = self.policy();
        let too_short = self.slot_seconds < policy.min_slot_seconds;
        self.meters < policy.floors.members || too_short || self.slots_a_day().is_some() || self.costly_day().is_some()
    }

    /// Returns the number of slots that the daily budget covers, if it does not cover all.
    fn slots_a_day(&self) -> Option<u64> {
        let epsilon: f64 = self.epsilon().parse().unwrap_or(f64::MAX);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of slots")]
        let enough = (self.policy().daily_micro_epsilon as f64 / 1e6 / epsilon) as u64;
        (enough < 86_400 / self.slot_seconds).then_some(enough)
    }

    /// Returns the rho of a day, if it is more than the policy allows: what the day of the kind takes.
    fn costly_day(&self) -> Option<f64> {
        let epsilon: f64 = self.epsilon().parse().unwrap_or(f64::MAX);
        let (lo, hi) = self.kind.range();
        let weight = if lo < 0 { 2.0 } else { 1.0 };
        let share = self.kind.rms_watts() as f64 * epsilon / hi.abs_diff(lo) as f64;
        let rho = weight * 86_400.0 / self.slot_seconds as f64 * share.powi(2);
        Some(rho).filter(|rho| *rho > self.policy().day_micro_rho as f64 / 1e6)
    }

    /// Returns the epsilon of an attempt that was asked for, or else the usual one of the kind.
    fn epsilon(&self) -> String {
        let (numerator, denominator) = self.kind.epsilon();
        self.epsilon.clone().unwrap_or_else(|| (numerator as f64 / denominator as f64).to_string())
    }

    fn notes(&self, earlier: bool) -> Vec<String> {
        let mut notes = Vec::new();
        let (policy, name) = (self.policy(), if self.community_policy { "community" } else { "default" });
        let (fewest, shortest) = (policy.floors.members, policy.min_slot_seconds);
        if self.meters < fewest {
            let here = self.meters;
            notes.push(format!(
                "meters with the {name} policy accept no list of fewer than {fewest} members, and a cluster here has {here}."
            ));
        }
        if self.slot_seconds < shortest {
            notes.push(format!("meters with the {name} policy accept no slots shorter than {shortest} seconds."));
        }
        if let Some(slots) = self.slots_a_day() {
            notes.push(format!("meters with the {name} policy have spent a day's privacy after {slots} slots."));
        }
        if let Some(rho) = self.costly_day() {
            let most = policy.day_micro_rho as f64 / 1e6;
            let [day, limit] = [rho, most].map(|rho| epsilon_of_rho(rho, DAY_DELTA));
            notes.push(format!(
                "meters with the {name} policy accept no day of more than rho {most} (epsilon {limit:.1}), and one of this kind \
                 of home takes {rho:.1} (epsilon {day:.1}); `day_epsilon` in gateway.toml in place of `epsilon` can lower it."
            ));
        }
        let known = ["gateway.redb", "meters.redb"].into_iter().filter(|name| earlier && self.out.join(name).exists());
        notes.extend(
            known.map(|name| format!("{name} belongs to the earlier meters; remove it before the next start.")),
        );
        notes
    }
}

fn folder(out: &Path, cluster: &ClusterId) -> PathBuf {
    out.join("meters").join(cluster.as_str())
}

fn allow_list(cluster: &ClusterId, meters: &[(ClusterId, MeterId)]) -> String {
    let mut text = format!("# The meters that may join {cluster}.\n");
    for (_, id) in meters.iter().filter(|(of, _)| of == cluster) {
        writeln!(text, "{id}").expect("writing to a string does not fail");
    }
    text
}

pub(crate) fn cluster_id(text: &str) -> Result<ClusterId, String> {
    ClusterId::new(text).map_err(|error| error.to_string())
}

fn gateway_id(text: &str) -> Result<GatewayId, String> {
    if text.len() > LONGEST_GATEWAY {
        return Err(format!("use at most {LONGEST_GATEWAY} characters"));
    }
    GatewayId::new(text).map_err(|error| error.to_string())
}

/// Parses an epsilon as the gateway's configuration takes it: a decimal with at most six places.
fn epsilon(text: &str) -> Result<String, String> {
    let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    // TOML has no leading zeros.
    let plain = digits(whole) && digits(places) && (whole == "0" || !whole.starts_with('0'));
    let positive = text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let allowed = "use a decimal above 0 with at most six places, such as 1 or 0.5";
    if plain && positive { Ok(text.to_owned()) } else { Err(allowed.to_owned()) }
}
