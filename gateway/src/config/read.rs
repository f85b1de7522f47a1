//! Every key of the file: its name, type, bounds and default, and what must fit together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dream_edge::HomeKind;
use dream_edge::config::Section;
use dream_edge::cut_off::CutOffTable;
use dream_edge::mqtt::BrokerUrl;
use dream_protocol::cluster::RosterRules;
use dream_protocol::ids::{ClusterId, GatewayId, MAX_ID_LEN, MeterId};
use dream_protocol::noise::day_micro_rho;
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::Profile;
use dream_protocol::scheme::{self, Scheme, SchemeChoice};

use super::decimal::{self, Fraction};
use super::{
    Broker, BrokerTls, ClusterSettings, Config, Files, Identity, Log, LogFormat, Login, Overrides, Place, Postgres,
    Store, access, group, remote_write,
};
use crate::clock::Zone;

/// What a member takes in a list, with a certificate of some 500 bytes.
const LIST_BYTES_PER_MEMBER: usize = 700;

/// Returns the configuration, if nothing that it needs is missing, and the files that it names.
pub(super) fn config(root: &Section<'_>, overrides: &Overrides) -> (Option<Config>, Files) {
    let id = root.key("id").overridable().required("\"gw-1\"").parsed(gateway_id);
    let replicas = root.key("replicas").overridable().number(1..=1000).unwrap_or(1);
    let ordinal = ordinal(root, replicas, overrides);
    let clock_skew_seconds = root.key("clock_skew_seconds").number(0..=3600).unwrap_or(5);
    let shutdown_grace_seconds = root.key("shutdown_grace_seconds").number(1..=3600).unwrap_or(10);
    let time_zone = root.key("time_zone").overridable().parsed(time_zone).or_else(|| Zone::named("UTC"));
    let identity = identity(&root.section("identity"));
    let broker_section = root.section("broker");
    let broker = broker(&broker_section);
    let store = store(&root.section("store"));
    let http = access::http(&root.section("http"));
    let log = log(&root.section("log"));
    let home_assistant = home_assistant(&root.section("home_assistant"));
    let remote_write = remote_write::read(&root.section("remote_write"));
    let sections = root.sections("clusters");
    let clusters = clusters(root, &sections);
    let groups = group::read(root, sections.iter().map(|(name, _)| *name).collect(), &clusters);
    let largest = clusters.values().map(|cluster| usize::from(cluster.roster.min_members)).max();
    if let (Some(broker), Some(members)) = (&broker, largest) {
        let (found, needed) = (broker.max_packet_bytes, members * LIST_BYTES_PER_MEMBER);
        if found < needed {
            let message = format!("{found} is too small for a list of {members} members; use at least {needed}");
            broker_section.wrong("max_packet_bytes", message);
        }
    }
    let files = Files {
        id: id.clone(),
        identity: identity.clone(),
        tls: broker.as_ref().and_then(|broker| broker.tls.clone()),
        login: broker.as_ref().and_then(|broker| broker.login.clone()),
        store: Some(store.place.clone()),
        http: http.tls.clone(),
    };
    let config = || {
        Some(Config {
            id: id?,
            replicas,
            ordinal,
            clock_skew_seconds,
            shutdown_grace_seconds,
            time_zone: time_zone?,
            identity: identity?,
            broker: broker?,
            store,
            http,
            log,
            home_assistant,
            remote_write,
            clusters,
            groups,
        })
    };
    (config(), files)
}

fn gateway_id(text: &str) -> Result<GatewayId, String> {
    // `{id}-{ordinal}` is an id too: the client's at the broker.
    let longest = MAX_ID_LEN - "-999".len();
    if text.len() > longest {
        return Err(format!("too long; use at most {longest} characters"));
    }
    GatewayId::new(text).map_err(|error| error.to_string())
}

/// From the command line, the environment, the file, or the end of the host name, in this order.
fn ordinal(root: &Section<'_>, replicas: u32, overrides: &Overrides) -> u32 {
    let written = root.key("ordinal").overridable().number(0..=999);
    let host = overrides.host_name.as_deref().unwrap_or_default();
    let of_host = || host.rsplit_once('-')?.1.parse().ok();
    let ordinal = overrides.ordinal.or(written).or_else(|| if replicas <= 1 { Some(0) } else { of_host() });
    let Some(ordinal) = ordinal else {
        let message = format!(
            "missing; each of {replicas} replicas needs its own: use --ordinal, DREAM_ORDINAL, this key, or a host name that ends \
             in `-0`, `-1` and so on (this one is `{host}`)"
        );
        root.wrong("ordinal", message);
        return 0;
    };
    if ordinal >= replicas.max(1) {
        let allowed = match replicas {
            0 | 1 => "without other replicas it is 0".to_owned(),
            replicas => format!("the ordinals of {replicas} replicas are 0 to {}", replicas - 1),
        };
        root.wrong("ordinal", format!("{ordinal} is out of range; {allowed}"));
    }
    ordinal
}

fn time_zone(name: &str) -> Result<Zone, &'static str> {
    Zone::named(name)
        .ok_or("no such time zone; use a name of the IANA database, such as UTC, Europe/Amsterdam or America/New_York")
}

fn identity(section: &Section<'_>) -> Option<Identity> {
    section.retired(
        "authorities",
        &["meter_authorities", "gateway_authorities"],
        "replaced by two keys: `meter_authorities` for those who certify meters, and `gateway_authorities` for those who certify \
         this gateway",
    );
    let certificate = section.key("certificate").overridable().required("\"gateway.pem\"").path();
    let key = section.key("key").overridable().required("\"gateway.key\"").path();
    let meters = section.key("meter_authorities").required("[\"meter-authority.pem\"]").paths();
    let gateways = section.key("gateway_authorities").required("[\"gateway-authority.pem\"]").paths();
    for (name, found) in [("meter_authorities", &meters), ("gateway_authorities", &gateways)] {
        if found.as_ref().is_some_and(Vec::is_empty) {
            section.wrong(name, "this list is empty; name at least one file with the certificate of an authority");
        }
    }
    Some(Identity { certificate: certificate?, key: key?, meter_authorities: meters?, gateway_authorities: gateways? })
}

fn broker(section: &Section<'_>) -> Option<Broker> {
    let urls = BrokerUrl::read(section, section.key("url").overridable());
    let ca = section.key("ca").overridable().path();
    let certificate = section.key("client_certificate").overridable().path();
    let key = section.key("client_key").overridable().path();
    let username = section.key("username").overridable().text();
    let password_file = section.key("password_file").overridable().path();
    let keep_alive_seconds = section.key("keep_alive_seconds").number(5..=3600).unwrap_or(30);
    // Room for what is kept of a packet that is larger.
    let max_packet_bytes = section.key("max_packet_bytes").number(131_072..=268_435_455).unwrap_or(16 << 20);
    if certificate.is_some() && key.is_none() {
        section.missing("client_key", "`client_certificate` needs its key");
    }
    if key.is_some() && certificate.is_none() {
        section.missing("client_certificate", "`client_key` needs its certificate");
    }
    if password_file.is_some() && username.is_none() {
        section.missing("username", "`password_file` needs a user name");
    }
    let login = username.map(|username| Login { username, password_file });
    let urls = urls?;
    let tls = match (urls[0].tls, ca) {
        (true, Some(ca)) => Some(BrokerTls { ca, client: certificate.zip(key) }),
        (true, None) => {
            section.missing("ca", "name the file with the CA certificates that verify the broker's");
            None
        }
        (false, ca) => {
            for (name, is_set) in [("ca", ca.is_some()), ("client_certificate", certificate.is_some())] {
                if is_set {
                    section.wrong(name, "has no effect with mqtt://; use mqtts:// in `url`, or leave it out");
                }
            }
            None
        }
    };
    Some(Broker { urls, tls, login, keep_alive_seconds, max_packet_bytes })
}

fn store(section: &Section<'_>) -> Store {
    Store {
        place: place(section),
        retention_days: section.key("retention_days").overridable().number(1..=36_500).unwrap_or(56),
        hours_retention_days: section.key("hours_retention_days").overridable().number(1..=36_500).unwrap_or(1830),
    }
}

/// A file, unless a database is named.
fn place(section: &Section<'_>) -> Place {
    let path = section.key("path").overridable().path();
    let cache_mebibytes = section.key("cache_mebibytes").number(1..=65_536).unwrap_or(8);
    let url = section.key("url").overridable().parsed(postgres_url);
    let (ca, password_file) = (section.key("ca").path(), section.key("password_file").path());
    let keys = section.key("keys").paths().unwrap_or_default();
    let lease_seconds = section.key("lease_seconds").number(1..=300);
    if url.is_none() && !section.has("url") {
        for name in ["ca", "password_file", "keys", "lease_seconds"].into_iter().filter(|name| section.has(name)) {
            section.wrong(name, "has no effect on a file; name a database in `url`, or leave it out");
        }
        return Place::File { path: path.unwrap_or_else(|| section.resolve("gateway.redb")), cache_mebibytes };
    }
    if path.is_some() {
        section.wrong("path", "the store is a file or a database: leave out this or `url`");
    }
    if keys.is_empty() {
        section.missing("keys", "name a file that `openssl rand -hex 32` made; what names meters is sealed under it");
    }
    let (url, lease_seconds) = (url.unwrap_or_default(), lease_seconds.unwrap_or(15));
    Place::Postgres(Postgres { url, ca, password_file, keys, lease_seconds })
}

#[cfg(feature = "postgres")]
fn postgres_url(text: &str) -> Result<String, String> {
    let usual = "use postgres://dream@db.example:5432/dream";
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        return Err(format!("not the address of a PostgreSQL; {usual}"));
    }
    let parsed: tokio_postgres::Config = text.parse().map_err(|error| match std::error::Error::source(&error) {
        Some(cause) => format!("{cause}; {usual}"),
        None => format!("{error}; {usual}"),
    })?;
    if parsed.get_password().is_some() {
        return Err("a password belongs in a file; name it in `store.password_file`".to_owned());
    }
    if parsed.get_hosts().is_empty() || parsed.get_dbname().is_none() || parsed.get_user().is_none() {
        return Err(format!("it must name a user, a host and a database; {usual}"));
    }
    Ok(text.to_owned())
}

#[cfg(not(feature = "postgres"))]
fn postgres_url(_: &str) -> Result<String, &'static str> {
    Err("this program was built without PostgreSQL; use `store.path`, or build it with the feature `postgres`")
}

fn log(section: &Section<'_>) -> Log {
    let levels = ["error", "warn", "info", "debug", "trace"].map(|level| (level, level));
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    Log {
        level: section.key("level").overridable().one_of(&levels).unwrap_or("info").to_owned(),
        format: section.key("format").overridable().one_of(&formats).unwrap_or(LogFormat::Text),
    }
}

fn home_assistant(section: &Section<'_>) -> Option<String> {
    let is_enabled = section.key("enabled").flag().unwrap_or(false);
    let prefix = section.key("discovery_prefix").parsed(|prefix| {
        let is_topic = !prefix.is_empty()
            && !prefix.contains(['+', '#', '\0'])
            && !prefix.starts_with('/')
            && !prefix.ends_with('/');
        if is_topic {
            Ok(prefix.to_owned())
        } else {
            Err("not a topic; the prefix of Home Assistant is `homeassistant`")
        }
    });
    is_enabled.then(|| prefix.unwrap_or_else(|| "homeassistant".to_owned()))
}

/// Returns the clusters that are in order.
fn clusters<'r>(root: &Section<'r>, sections: &[(&str, Section<'r>)]) -> BTreeMap<ClusterId, ClusterSettings> {
    let defaults = root.section("defaults");
    if sections.is_empty() {
        root.wrong("clusters", "no clusters configured; add a section [clusters.NAME] for each cluster of homes");
        cluster(&defaults);
    }
    let checked = sections.iter().filter_map(|(name, section)| {
        let id = ClusterId::new(name).map_err(|error| section.wrong_here(error.to_string())).ok();
        let settings = cluster(&section.over(&defaults));
        id.zip(settings)
    });
    checked.collect()
}

/// Reads a cluster, each key from the defaults if it is not here.
fn cluster(section: &Section<'_>) -> Option<ClusterSettings> {
    let before = section.mistakes();
    let rules = RosterRules::default();
    let slot_seconds = section.key("slot_seconds").number(1..=86_400).unwrap_or(Terms::DEFAULT.slot_seconds);
    let usual = Terms::with_slots_of(slot_seconds);
    let reading_seconds = section.key("reading_seconds").number(0..=86_400).unwrap_or(usual.reading_seconds);
    let reveal_seconds = section.key("reveal_seconds").number(0..=86_400).unwrap_or(usual.reveal_seconds);
    let attempts = section.key("attempts").number(1..=255);
    let epsilon =
        section.key("epsilon").decimal(decimal::epsilon, "use a number above 0 with at most six places, such as 0.5");
    let kind = section.key("kind").one_of(&HomeKind::ALL.map(|kind| (kind.as_str(), kind))).unwrap_or_default();
    let range = section.key("range_watts").numbers().unwrap_or_else(|| kind.range().into());
    let day = section.key("day_epsilon");
    let day = day.decimal(
        decimal::day_micro_epsilon,
        "use 0 for none, or a number below 1099511 with at most six places, such as 4.0",
    );
    let missing_share = share(section, "max_missing", "use 0 to 0.2, such as 0.1");
    let malicious_share = share(section, "max_malicious", "use 0.1 to 1, such as 0.1");
    let partners = section.key("partners").number(0..=10_000).unwrap_or(0);
    let scheme = scheme(section, partners);
    let profile = section.key("meter_policy");
    let profile = profile.one_of(&Profile::ALL.map(|profile| (profile.as_str(), profile))).unwrap_or_default();
    let min_members = min_members(section, profile);
    let deny = meter_ids(section, "deny_file");
    let allow = meter_ids(section, "allow_file");
    let cut_off = cut_off(section).unwrap_or_else(CutOffTable::shipped);
    let roster = RosterRules {
        min_members,
        settle_seconds: section.key("settle_seconds").number(0..=86_400).unwrap_or(rules.settle_seconds),
        list_slots: section.key("list_slots").number(4..=1_000_000).unwrap_or(rules.list_slots),
        drop_after_slots: section.key("drop_after_slots").number(0..=u32::MAX).unwrap_or(rules.drop_after_slots),
        min_interval_seconds: section.key("min_interval_seconds").number(0..=31_536_000).unwrap_or(6 * slot_seconds),
        allow,
        deny: deny.unwrap_or_default(),
    };
    if let Some(allow) = &roster.allow {
        let allowed = allow.difference(&roster.deny).count();
        if allowed < min_members.into() {
            let message =
                format!("allows {allowed} meters, fewer than `min_members`, {min_members}: no list could form");
            section.wrong("allow_file", message);
        }
    }
    let is_committee = scheme == SchemeChoice::Only(scheme::Kind::Committee);
    let terms = Terms {
        reading_seconds,
        reveal_seconds,
        scheme: Scheme::Pairwise { partners },
        lo: range[0],
        hi: range[1],
        attempts: attempts.unwrap_or(if is_committee { 1 } else { usual.attempts }),
        ..usual
    };
    let Some(terms) = with_privacy(terms, kind, profile, epsilon, day) else {
        let message =
            "so small an epsilon of a day leaves less than a millionth for a slot; use a larger one, or longer slots";
        section.wrong("day_epsilon", message);
        return None;
    };
    let settings = ClusterSettings {
        terms,
        scheme,
        committee_attempts: attempts.unwrap_or(1),
        missing_share,
        malicious_share,
        profile,
        roster,
        kind,
        cut_off,
    };
    if section.mistakes() > before {
        return None;
    }
    let formed = match settings.scheme {
        // Without a committee such a list is pairwise.
        SchemeChoice::Auto => settings.params(min_members).map_err(|error| error.to_string()),
        SchemeChoice::Only(_) => settings.formed(min_members),
    };
    formed
        .map_err(|error| section.wrong_here(format!("no list of `min_members` = {min_members} can form: {error}")))
        .ok()?;
    Some(settings)
}

/// Returns terms of this privacy. The root mean square of the kind's day, which a meter has to be able to report, ties the
/// epsilon of an attempt to that of a day: if one of them is left out, it follows from the other, and both from the kind.
/// `None` if a day leaves nothing for an attempt.
pub(crate) fn with_privacy(
    terms: Terms,
    kind: HomeKind,
    profile: Profile,
    attempt: Option<Fraction>,
    day_micro_epsilon: Option<u64>,
) -> Option<Terms> {
    let usual = || Fraction::from(kind.epsilon());
    let with = |Fraction { numerator, denominator }: Fraction| Terms {
        epsilon_numerator: numerator,
        epsilon_denominator: denominator,
        ..terms
    };
    let day = day_micro_epsilon.map(day_micro_rho);
    match (attempt, day) {
        (attempt, None) => Some(with(attempt.unwrap_or_else(usual)).with_day_rms(kind.rms_watts())),
        // No rho does not say how much noise there is.
        (None, Some(0)) => Some(Terms { day_micro_rho: 0, ..with(usual()) }),
        (Some(attempt), Some(day_micro_rho)) => Some(Terms { day_micro_rho, ..with(attempt) }),
        (None, Some(rho)) => terms.with_day_rho(rho, kind.rms_watts(), profile.rules().largest_micro_epsilon(&terms)),
    }
}

fn share(section: &Section<'_>, name: &'static str, allowed: &str) -> Share {
    let tenth = || Share::new(1, 10).expect("a tenth is a share");
    section.key(name).decimal(decimal::share, &format!("{allowed}: a share of the members")).unwrap_or_else(tenth)
}

fn scheme(section: &Section<'_>, partners: u64) -> SchemeChoice {
    let pairwise = SchemeChoice::Only(scheme::Kind::Pairwise);
    let committee = SchemeChoice::Only(scheme::Kind::Committee);
    let names = [("auto", SchemeChoice::Auto), ("committee", committee), ("pairwise", pairwise)];
    let choice = section.key("scheme").one_of(&names).unwrap_or(SchemeChoice::Auto);
    if partners == 0 {
        return choice;
    }
    if choice == committee {
        section.wrong("scheme", "a committee has no mask partners; leave `partners` out, or use pairwise");
    }
    pairwise
}

fn min_members(section: &Section<'_>, profile: Profile) -> u16 {
    let least = profile.floors().members;
    let members = section.key("min_members").number(2..=10_000).unwrap_or(least);
    if members < least {
        let message = format!(
            "meters with the {profile} policy refuse a list of {members} members; use {least} to 10000, or another `meter_policy`"
        );
        section.wrong("min_members", message);
    }
    members
}

/// Reads a table of what meters cut off, in place of the one that ships.
fn cut_off(section: &Section<'_>) -> Option<Arc<CutOffTable>> {
    const NAME: &str = "cut_off_file";
    let path = section.key(NAME).path()?;
    let table = std::fs::read_to_string(&path).map_err(|error| format!("cannot be read: {error}"));
    let table = table.and_then(|text| CutOffTable::parse(&text).map_err(|wrong| format!("is no such table: {wrong}")));
    table.map(Arc::new).map_err(|wrong| section.wrong(NAME, format!("{} {wrong}", path.display()))).ok()
}

/// Reads a file of ids, one a line; empty lines and what follows a `#` are left out.
fn meter_ids(section: &Section<'_>, name: &'static str) -> Option<BTreeSet<MeterId>> {
    let path = section.key(name).path()?;
    let shown = path.display();
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|error| section.wrong(name, format!("{shown} cannot be read: {error}"))).ok()?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).enumerate();
    let ids = lines.filter(|(_, id)| !id.is_empty()).map(|(at, id)| {
        MeterId::new(id)
            .map_err(|error| section.wrong(name, format!("{shown}:{}: {id:?} is not a meter id: {error}", at + 1)))
            .ok()
    });
    // All of them, so that every mistake is noted.
    ids.collect::<Vec<_>>().into_iter().collect()
}
