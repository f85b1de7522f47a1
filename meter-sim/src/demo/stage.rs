//! What a demo needs before it begins: its clusters, their meters, and the files of the gateway.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use dream_edge::files;
use dream_fleet::access::Access;
use dream_fleet::authority::TestAuthorities;
use dream_fleet::liar::{Liar, Lie};
use dream_fleet::{ClusterSetup, MeterSetup};
use dream_gateway::config::{ClusterSettings, Config, Overrides, access};
use dream_homes::args::BadInput;
use dream_homes::clustering::Clustering;
use dream_homes::source::Source;
use dream_homes::street;
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::params::Params;
use dream_protocol::policy::{Policy, Profile};
use dream_protocol::scheme::Kind;

use super::{DemoArgs, GATEWAY, HONEST_SLOTS, NEXT_LIAR};

/// For how long certificates hold. Simulated time passes fast: this is for some weeks of it.
const VALID_DAYS: u32 = 3650;

/// Everything of a demo that is made before the first process starts.
pub(super) struct Stage<'a> {
    pub(super) args: &'a DemoArgs,
    pub(super) directory: &'a Path,
    pub(super) broker: SocketAddr,
    pub(super) authority: TestAuthorities,
}

impl<'a> Stage<'a> {
    pub(super) fn new(args: &'a DemoArgs, directory: &'a Path, broker: SocketAddr) -> Self {
        Self { args, directory, broker, authority: TestAuthorities::new(VALID_DAYS) }
    }

    pub(super) fn access(&self) -> Access {
        Access::open(self.broker.ip().to_string(), self.broker.port())
    }

    /// Returns the clusters with their meters, which are numbered across clusters.
    pub(super) fn cluster_ids(&self) -> anyhow::Result<Vec<(ClusterId, Vec<MeterId>)>> {
        let (clusters, meters) = (self.args.clusters, u32::from(self.args.meters));
        let meter = |number: u32| MeterId::new(&format!("meter-{number:04}"));
        let cluster = |number: u32| {
            let name = if clusters == 1 { "riverside".to_owned() } else { format!("district-{}", number + 1) };
            let first = number * meters + 1;
            anyhow::Ok((ClusterId::new(&name)?, (first..first + meters).map(meter).collect::<Result<_, _>>()?))
        };
        (0..clusters).map(cluster).collect()
    }

    /// Writes what a gateway needs, and reads it as the gateway does. Whoever has the token is its operator.
    pub(super) fn gateway(&self, clusters: &[(ClusterId, Vec<MeterId>)], operator: &str) -> anyhow::Result<Config> {
        let Self { args, directory, broker, authority } = self;
        authority.write(directory)?;
        authority.gateway(&GatewayId::new(GATEWAY)?).write(directory, "gateway")?;
        let (slot, window) = (args.slot_length(), args.slot_length() / 4);
        let hash = access::hex(&access::token_hash(operator));
        let tokens = format!("[tokens.demo]\ntoken_sha256 = \"{hash}\"\nrole = \"operator\"\n");
        files::create(&directory.join("access.toml"), tokens.as_bytes(), 0o600)?;
        let mut toml = format!(
            "id = \"{GATEWAY}\"\n[identity]\ncertificate = \"gateway.pem\"\nkey = \"gateway.key\"\n\
             meter_authorities = [\"meter-authority.pem\"]\n\
             gateway_authorities = [\"gateway-authority.pem\"]\n[broker]\nurl = \"mqtt://{broker}\"\n[http]\nlisten = \"{}\"\n\
             access_file = \"access.toml\"\nopen = [\"health\", \"metrics\", \"pages\"]\n[defaults]\nslot_seconds = {slot}\nreading_seconds = {window}\nreveal_seconds = {window}\n\
             kind = \"{}\"\nscheme = \"{}\"\nmeter_policy = \"{}\"\nmin_members = {}\ndrop_after_slots = 0\n",
            args.listen,
            args.home_kind(),
            args.scheme,
            // A cluster that is too small is refused as meters refuse it, with the number that they accept: see `params`.
            if args.meters < Profile::Strict.floors().members { Profile::Trial } else { Profile::Strict },
            args.meters,
        );
        for (cluster, meters) in clusters {
            let allowed: String = meters.iter().map(|meter| format!("{meter}\n")).collect();
            std::fs::write(directory.join(format!("{cluster}.allow")), allowed)?;
            writeln!(toml, "[clusters.{cluster}]\nallow_file = \"{cluster}.allow\"")?;
        }
        let names: Vec<&str> = clusters.iter().map(|(cluster, _)| cluster.as_str()).collect();
        for (group, of) in groups(&names) {
            writeln!(toml, "[groups.{group}]\nof = {of:?}")?;
        }
        let path = directory.join("gateway.toml");
        std::fs::write(&path, toml)?;
        Ok(Config::load(&path, &Overrides::default())?)
    }

    /// The meters' policy: that of real ones, but for what real time makes impossible.
    pub(super) fn policy(&self) -> anyhow::Result<Policy> {
        let strict = Policy::new(self.authority.authorities(), [GatewayId::new(GATEWAY)?]);
        let hurried = self.args.real_time;
        let unlimited = u64::MAX;
        Ok(if hurried {
            Policy {
                min_slot_seconds: 1,
                daily_micro_epsilon: unlimited,
                day_micro_epsilon: unlimited,
                day_micro_rho: unlimited,
                ..strict
            }
        } else {
            strict
        })
    }

    /// Gives every meter a certificate and a home.
    pub(super) fn meters(
        &self,
        clusters: Vec<(ClusterId, Vec<MeterId>)>,
        source: &Source,
        seed: u64,
    ) -> Vec<ClusterSetup> {
        let sizes: Vec<usize> = clusters.iter().map(|(_, meters)| meters.len()).collect();
        let homes = Clustering::Random.assign(source, &sizes, seed);
        let access = self.access();
        let setup = |((cluster, meters), homes): ((ClusterId, Vec<MeterId>), Vec<usize>)| {
            let numbered: Vec<_> = meters.iter().enumerate().collect();
            let issue = |(number, id): &(usize, &MeterId)| MeterSetup {
                id: (*id).clone(),
                issued: self.authority.meter(id),
                access: access.clone(),
                simulation: self.args.conduct.of_meter(*number, numbered.len()),
            };
            let meters = street::in_parallel(street::all_cores(), &numbered, issue);
            ClusterSetup { cluster, homes, meters, liars: Vec::new() }
        };
        let mut clusters: Vec<ClusterSetup> = clusters.into_iter().zip(homes).map(setup).collect();
        if let Some(first) = clusters.first_mut() {
            first.liars = self.liars();
        }
        clusters
    }

    /// Returns which meters of the first cluster turn dishonest. Those that cheat otherwise are the first ones.
    fn liars(&self) -> Vec<(usize, Liar)> {
        let meters = usize::from(self.args.meters);
        let lies: &[Lie] = match self.args.scheme_kind() {
            Kind::Pairwise => &[Lie::NeverReveals, Lie::SpoilsSums],
            // A member that does not answer costs a committee nothing.
            Kind::Committee => &[Lie::SpoilsSums],
        };
        let lies = lies.iter().copied().cycle();
        let liar = |(number, lie): (usize, Lie)| {
            let after_slots = HONEST_SLOTS + NEXT_LIAR * number;
            (meters / 2 + number, Liar { lie, after_slots })
        };
        lies.take(self.args.liars).enumerate().map(liar).collect()
    }
}

/// From how many clusters on the town of a demo has two substations.
const SUBSTATIONS_FROM: usize = 4;

/// Returns the groups of a demo, each with what it is the sum of: the town, if there are several clusters, and from four on two
/// substations in it.
fn groups<'a>(clusters: &[&'a str]) -> Vec<(&'static str, Vec<&'a str>)> {
    match clusters.len() {
        0 | 1 => Vec::new(),
        2..SUBSTATIONS_FROM => vec![("town", clusters.to_vec())],
        many => {
            let (one, other) = clusters.split_at(many / 2);
            let town = vec!["substation-1", "substation-2"];
            vec![("substation-1", one.to_vec()), ("substation-2", other.to_vec()), ("town", town)]
        }
    }
}

/// The parameters of a list of so many meters; if they would refuse it, why, and from how many on they would not.
pub(super) fn params(meters: u16, settings: &ClusterSettings, policy: &Policy) -> Result<Params, BadInput> {
    let settings = ClusterSettings { profile: Profile::Strict, ..settings.clone() };
    let accepted = |meters: u16| {
        let params = settings.params(meters).map_err(|error| error.to_string())?;
        policy.objections(&params).next().map_or(Ok(params), |objection| Err(objection.to_string()))
    };
    accepted(meters).map_err(|reason| {
        let least = (meters..1000).find(|more| accepted(*more).is_ok());
        let least = least.map_or_else(String::new, |least| format!(" They accept {least} or more."));
        BadInput(format!(
            "--meters {meters}: meters refuse a cluster this small, because it would not hide single homes well \
             enough: {reason}.{least} See `dream-gateway plan --homes {meters}`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_clusters_are_a_town_and_many_have_two_substations() {
        assert_eq!(groups(&["riverside"]), []);
        assert_eq!(groups(&["a", "b"]), [("town", vec!["a", "b"])]);
        let many = groups(&["a", "b", "c", "d", "e"]);
        let (one, other) = (("substation-1", vec!["a", "b"]), ("substation-2", vec!["c", "d", "e"]));
        assert_eq!(many, [one, other, ("town", vec!["substation-1", "substation-2"])]);
    }
}
