//! `dream-gateway check-config`: whether a gateway could start, and what it would do.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use clap::Args;
use dream_protocol::ids::ClusterId;
use dream_protocol::policy::PolicyError;
use dream_protocol::scheme::{COMMITTEE_FROM, Kind, SchemeChoice};
use dream_protocol::time::Timestamp;

use crate::board::day_epsilon;
use crate::clock::{Clock, rfc3339};
use crate::cmd::ConfigArgs;
use crate::config::access::{Logins, Open};
use crate::config::decimal::Fraction;
use crate::config::secrets::{self, GatewayIdentity, SecretError};
use crate::config::{Broker, ClusterSettings, Config, Draft, Files, Http, Place, Postgres, even_draws};
use crate::store;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway check-config --config /etc/dream/gateway.toml
  dream-gateway check-config --config gateway.toml --without-files")]
pub(super) struct CheckConfigArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Leave out keys, certificates, passwords and the store: for a place that does not have them
    #[arg(long)]
    without_files: bool,
}

pub(super) fn run(args: &CheckConfigArgs, clock: &dyn Clock, out: &mut impl Write) -> anyhow::Result<()> {
    let Draft { config, files, mut report } = args.config.draft();
    if !args.without_files {
        mistakes(&files, clock.now()).into_iter().for_each(|(key, message)| report.wrong(key, message));
    }
    // The file of users and tokens is understood only beside the clusters.
    let logins = config.as_ref().filter(|_| !args.without_files).map(Logins::load);
    if let Some(Err(error)) = &logins {
        report.include(error.clone());
    }
    let logins = logins.and_then(Result::ok);
    let config = report.finish(config)?;
    writeln!(out, "{}: valid configuration", args.config.path().display())?;
    let identity = (!args.without_files).then(|| GatewayIdentity::load(&config.identity, &config.id, clock.now()));
    let identity = identity.transpose()?;
    let until = identity.as_ref().map_or_else(String::new, |identity| {
        format!(", certificate valid until {}", rfc3339(Timestamp::from_secs(identity.checked.not_after())))
    });
    let Config { id, ordinal, replicas, store, .. } = &config;
    writeln!(out, "  gateway   {id}, replica {ordinal} of {replicas}{until}")?;
    if let Some(shared) = identity.and_then(|identity| identity.shared_authority()) {
        writeln!(out, "      NOTE: {shared}")?;
    }
    writeln!(out, "  broker    {}, as client {id}-{ordinal}", address(&config.broker))?;
    let (slots, hours) = (store.retention_days, store.hours_retention_days);
    let place = match &store.place {
        Place::File { path, .. } => path.display().to_string(),
        Place::Postgres(postgres) => postgres.url.clone(),
    };
    writeln!(out, "  store     {place}, slots kept for {slots} days, hours for {hours} days, days forever")?;
    if let (Place::Postgres(postgres), false) = (&store.place, args.without_files) {
        for warning in store::probe(postgres)? {
            writeln!(out, "      WARNING: {warning}")?;
        }
    }
    write_http(&config.http, logins.as_ref(), out)?;
    let owned: Vec<_> = config.owned().collect();
    writeln!(out, "  clusters  {}, of which this replica serves {}", config.clusters.len(), owned.len())?;
    for (cluster, settings) in owned {
        write_cluster(cluster, settings, out)?;
        for objection in no_committee(settings).into_iter().chain(objections(settings)) {
            writeln!(out, "      NOTE: {objection}")?;
        }
    }
    write_groups(&config, out)
}

/// Says where HTTP is served, to whom, and what strangers could do.
fn write_http(http: &Http, logins: Option<&Logins>, out: &mut impl Write) -> anyhow::Result<()> {
    let tls = if http.tls.is_some() { "with TLS" } else { "without TLS" };
    let mut whom: Vec<String> = Vec::new();
    match (logins, &http.access_file) {
        (Some(logins), Some(_)) => {
            let (users, tokens) = (logins.users.len(), logins.tokens.len());
            whom.push(format!("{users} {} and {tokens} {}", plural(users, "user"), plural(tokens, "token")));
        }
        (None, Some(_)) => whom.push("users and tokens".to_owned()),
        (_, None) => {}
    }
    whom.extend(http.proxy.is_some().then(|| "whom the proxy names".to_owned()));
    if whom.is_empty() {
        writeln!(out, "  http      {}, {tls}, without a login", http.listen)?;
    } else {
        let Open { health, metrics, pages } = http.open;
        let open = [("health", health), ("metrics", metrics), ("pages", pages)];
        let open: Vec<&str> = open.iter().filter(|(_, is_open)| *is_open).map(|(name, _)| *name).collect();
        let open = if open.is_empty() { "nothing".to_owned() } else { open.join(", ") };
        writeln!(out, "  http      {}, {tls}, for {}; open to all: {open}", http.listen, whom.join(", "))?;
    }
    for warning in http.warnings() {
        writeln!(out, "      WARNING: {warning}")?;
    }
    Ok(())
}

fn plural(count: usize, one: &str) -> String {
    if count == 1 { one.to_owned() } else { format!("{one}s") }
}

fn write_groups(config: &Config, out: &mut impl Write) -> anyhow::Result<()> {
    if !config.groups.is_empty() {
        writeln!(out, "  groups    {}", config.groups.len())?;
    }
    for (id, group) in &config.groups {
        let served = config.owned().filter(|(cluster, _)| group.clusters.contains(*cluster)).count();
        let (clusters, slot) = (group.clusters.len(), group.slot_seconds);
        writeln!(out, "    {id}: slots of {slot} s, clusters {clusters}, of which this replica serves {served}")?;
    }
    Ok(())
}

/// Returns what is wrong with the files that `run` would read or write before it connects. Mistakes of secrets name their keys.
fn mistakes(files: &Files, now: Timestamp) -> Vec<(&'static str, String)> {
    let secrets = secret_mistakes(files, now).into_iter().map(|error| ("", error.to_string()));
    secrets.chain(files.store.iter().flat_map(store_mistakes)).collect()
}

/// Returns what is wrong with keys, certificates and passwords.
pub(super) fn secret_mistakes(files: &Files, now: Timestamp) -> Vec<SecretError> {
    let identity =
        files.identity.iter().flat_map(|identity| secrets::identity_mistakes(identity, files.id.as_ref(), now));
    let tls = files.tls.iter().flat_map(secrets::tls_mistakes);
    let loaded = files
        .identity
        .as_ref()
        .zip(files.id.as_ref())
        .and_then(|(identity, id)| Some((GatewayIdentity::load(identity, id, now).ok()?, id)));
    let client = loaded.zip(files.tls.as_ref());
    let foreign = client.and_then(|((identity, id), tls)| secrets::foreign_client(tls, &identity, id));
    let password = files.login.iter().filter_map(|login| secrets::password(login).err());
    let http = files.http.iter().flat_map(secrets::http_mistakes);
    identity.chain(tls).chain(foreign).chain(password).chain(http).collect()
}

/// Returns why a store could not be used, each with its key.
pub(super) fn store_mistakes(place: &Place) -> Vec<(&'static str, String)> {
    match place {
        Place::File { path, .. } => store_mistake(path).map(|message| ("store.path", message)).into_iter().collect(),
        Place::Postgres(postgres) => database_mistakes(postgres),
    }
}

/// Returns what is wrong with the files that the way to a database needs, or with the database.
fn database_mistakes(postgres: &Postgres) -> Vec<(&'static str, String)> {
    let keys = postgres.keys.iter().filter_map(|path| secrets::store_key(path).err());
    let password = postgres.password_file.iter().filter_map(|path| secrets::database_password(path).err());
    let ca = postgres.ca.iter().filter_map(|path| secrets::database_tls(path).err());
    let files: Vec<_> = keys.chain(password).chain(ca).map(|error| ("", error.to_string())).collect();
    if !files.is_empty() || postgres.url.is_empty() {
        return files;
    }
    store::probe(postgres).err().map(|error| ("store.url", error.to_string())).into_iter().collect()
}

/// Returns why a store could not be opened or made at a path, for the user of this command.
fn store_mistake(path: &Path) -> Option<String> {
    let shown = path.display();
    if path.is_dir() {
        return Some(format!(
            "{shown} is a directory; name a file in it, such as {}",
            path.join("gateway.redb").display()
        ));
    }
    if path.exists() {
        let error = File::options().append(true).open(path).err()?;
        return Some(format!("{shown} cannot be written: {error}; it must belong to the user that runs the gateway"));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let directory = parent.display();
    if !parent.is_dir() {
        return Some(format!("no directory {directory}; create it for the user that runs the gateway, with mode 700"));
    }
    let probe = parent.join(format!(".dream-gateway-check-{}", std::process::id()));
    match File::options().write(true).create_new(true).open(&probe) {
        Ok(_) => std::fs::remove_file(&probe).err().map(|error| format!("cannot remove {}: {error}", probe.display())),
        Err(error) => Some(format!(
            "nothing can be written in {directory}: {error}; it must belong to the user that runs the gateway"
        )),
    }
}

/// Returns what keeps meters from taking part in the smallest list, or for a whole day, by the policy that they have.
fn objections(settings: &ClusterSettings) -> Vec<String> {
    let ClusterSettings { profile, roster, .. } = settings;
    let Ok(params) = settings.formed(roster.min_members) else { return Vec::new() };
    let policy = profile.rules();
    let refused = |rule: PolicyError| {
        format!("meters with the {profile} policy refuse a list of `min_members` = {}: {rule}", roster.min_members)
    };
    let mut all: Vec<String> = policy.objections(&params).map(refused).collect();
    let slots = 86_400u64.div_ceil(settings.terms.slot_seconds);
    let paid = policy.daily_micro_epsilon / params.charge_micro_epsilon();
    if paid < slots {
        all.push(format!(
            "meters with the {profile} policy are silent for {} of a day's {slots} slots: their daily epsilon, {}, \
             is spent; use longer slots or a smaller epsilon",
            slots - paid,
            policy.daily_micro_epsilon / 1_000_000,
        ));
    }
    all
}

fn address(broker: &Broker) -> String {
    let urls: Vec<String> = broker.urls.iter().map(ToString::to_string).collect();
    let login = match (&broker.tls, &broker.login) {
        (Some(tls), _) if tls.client.is_some() => " with a client certificate",
        (_, Some(_)) => " with a user name",
        (Some(_) | None, None) => " without a login",
    };
    format!("{}{login}", urls.join(", "))
}

fn write_cluster(cluster: &ClusterId, settings: &ClusterSettings, out: &mut impl Write) -> anyhow::Result<()> {
    let terms = &settings.terms;
    let epsilon = terms.epsilon_numerator as f64 / terms.epsilon_denominator as f64;
    let day = match terms.day_micro_rho {
        0 => "none for a day".to_owned(),
        micro => format!(
            "{} a day (rho {})",
            day_epsilon::shown(day_epsilon::of_micro_rho(micro)),
            Fraction::millionths(micro)
        ),
    };
    writeln!(
        out,
        "    {cluster}: slots of {} s, attempts of {} + {} s, epsilon {epsilon} each, {day}, {}..{} W, at least {} members, \
         meters with the {} policy",
        terms.slot_seconds,
        terms.reading_seconds,
        terms.reveal_seconds,
        terms.lo,
        terms.hi,
        settings.roster.min_members,
        settings.profile,
    )?;
    writeln!(out, "      {}", schemes(settings))?;
    Ok(())
}

/// Says how the sums of a cluster's lists are opened, from the smallest list on.
fn schemes(settings: &ClusterSettings) -> String {
    let attempts = |attempts: u64| if attempts == 1 { "1 attempt".to_owned() } else { format!("{attempts} attempts") };
    let pairwise = format!("all answer in the second round, {}", attempts(settings.terms.attempts));
    let least = settings.roster.min_members;
    let committee = |members: u16| {
        let params = settings.committee_params(members, &even_draws(members)).ok()?;
        let committee = params.terms().scheme.committee()?;
        let (holders, needed, spare) = (committee.holders, committee.needed, committee.spare());
        let attempts = attempts(settings.committee_attempts);
        Some(format!(
            "of {members} willing members {holders} are holders, {needed} must answer, {spare} may drop out, {attempts}"
        ))
    };
    match settings.scheme {
        SchemeChoice::Only(Kind::Pairwise) => format!("pairwise: {pairwise}"),
        SchemeChoice::Only(Kind::Committee) => {
            format!("committee: {}", committee(least).unwrap_or_default())
        }
        SchemeChoice::Auto => match (committee(least.max(COMMITTEE_FROM)), least < COMMITTEE_FROM) {
            (Some(committee), true) => {
                format!("pairwise below {COMMITTEE_FROM} members: {pairwise}; committee from there on: {committee}")
            }
            (Some(committee), false) => format!("committee: {committee}"),
            (None, _) => format!("pairwise: {pairwise}"),
        },
    }
}

/// Returns why no list of the cluster would have a committee although the configuration asks for none in particular.
fn no_committee(settings: &ClusterSettings) -> Option<String> {
    let members = settings.roster.min_members.max(COMMITTEE_FROM);
    let auto = settings.scheme == SchemeChoice::Auto;
    let reason = settings.committee_params(members, &even_draws(members)).err().filter(|_| auto)?;
    Some(format!("a list of {members} members has no committee, even if all are willing: {reason}"))
}
