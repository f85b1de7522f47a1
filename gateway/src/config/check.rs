//! What the keys of the file must be, and what they mean.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use dream_edge::mqtt::BrokerUrl;
use dream_protocol::cluster::RosterRules;
use dream_protocol::ids::{ClusterId, GatewayId, MAX_ID_LEN, MeterId};
use dream_protocol::kind::Kind;
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::Profile;
use dream_protocol::scheme::{self, Scheme, SchemeChoice};

use super::decimal::{self, Fraction};
use super::{
    Broker, BrokerTls, ClusterSettings, Config, Files, Identity, Log, Login, Overrides, Problem, Store, file, group,
};
use crate::clock::Zone;

/// What a member takes in a list, with a certificate of some 500 bytes.
const LIST_BYTES_PER_MEMBER: usize = 700;

/// Turns what the file says into what it means, and notes every mistake on the way.
pub(super) struct Checker<'a> {
    /// Relative paths are taken from the directory of the file.
    base: &'a Path,
    pub(super) problems: Vec<Problem>,
    /// Keys that are missing or were refused when the file was read: there is nothing to check.
    refused: BTreeSet<String>,
}

impl<'a> Checker<'a> {
    /// Goes on from what was wrong with the file already.
    pub(super) fn new(base: &'a Path, problems: Vec<Problem>) -> Self {
        let refused = problems.iter().map(|problem| problem.key.clone()).collect();
        Self { base, problems, refused }
    }

    /// Notes a mistake; one in `[defaults]` would otherwise be told again for every cluster.
    fn wrong(&mut self, key: impl Into<String>, message: impl Into<String>) {
        let problem = Problem { key: key.into(), message: message.into() };
        if !self.refused.contains(&problem.key) && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Returns the value, or `None` with the mistake noted.
    fn note<T, E: fmt::Display>(&mut self, key: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.wrong(key, error.to_string())).ok()
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }

    fn within<T: PartialOrd + fmt::Display + Copy>(&mut self, key: &str, value: T, least: T, most: T) -> Option<T> {
        if value < least || value > most {
            self.wrong(key, format!("{value} is not allowed; use {least} to {most}"));
            return None;
        }
        Some(value)
    }

    /// Returns the configuration, if nothing that it needs is wrong, and the files that it names.
    pub(super) fn config(&mut self, file: file::File, overrides: &Overrides) -> (Option<Config>, Files) {
        let id = self.gateway_id(&file.id);
        let replicas = self.within("replicas", file.replicas, 1, 1000);
        let ordinal = self.ordinal(&file, overrides);
        let skew = self.within("clock_skew_seconds", file.clock_skew_seconds, 0, 3600);
        let grace = self.within("shutdown_grace_seconds", file.shutdown_grace_seconds, 1, 3600);
        let time_zone = self.time_zone(&file.time_zone);
        let (meters, gateways) = (&file.identity.meter_authorities, &file.identity.gateway_authorities);
        if meters.is_empty() {
            self.wrong(
                "identity.meter_authorities",
                "name at least one file with the certificate of a meters' authority",
            );
        }
        if gateways.is_empty() {
            let message = "name at least one file with the certificate of the authority of this gateway";
            self.wrong("identity.gateway_authorities", message);
        }
        let identity = Identity {
            certificate: self.path(&file.identity.certificate),
            key: self.path(&file.identity.key),
            meter_authorities: meters.iter().map(|path| self.path(path)).collect(),
            gateway_authorities: gateways.iter().map(|path| self.path(path)).collect(),
        };
        let broker = self.broker(&file.broker);
        let store = self.store(&file.store);
        let http = self.listener("http.listen", &file.http.listen);
        let operator_http = file.http.operator_listen.map(|text| self.listener("http.operator_listen", &text));
        if let (Some(one), Some(Some(other))) = (http, operator_http)
            && one == other
        {
            self.wrong(
                "http.operator_listen",
                "names meters, so it needs an address of its own, not that of `http.listen`",
            );
        }
        let files = Files {
            id: id.clone(),
            identity: (!self.refused.iter().any(|key| key.starts_with("identity"))).then(|| identity.clone()),
            tls: broker.as_ref().and_then(|broker| broker.tls.clone()),
            login: broker.as_ref().and_then(|broker| broker.login.clone()),
            store: (!self.refused.contains("store.path")).then(|| self.path(&file.store.path)),
        };
        let log = self.log(file.log);
        let home_assistant = self.home_assistant(file.home_assistant);
        let clusters = self.clusters(&file.clusters, &file.defaults);
        let (groups, wrong) = group::check(&file.groups, &file.clusters, &clusters);
        wrong.into_iter().for_each(|problem| self.wrong(problem.key, problem.message));
        if let (Some(broker), Some(largest)) =
            (&broker, clusters.values().map(|cluster| cluster.roster.min_members).max())
        {
            self.room_for_lists(broker.max_packet_bytes, largest.into());
        }
        let config = || {
            Some(Config {
                id: id?,
                replicas: replicas?,
                ordinal: ordinal?,
                clock_skew_seconds: skew?,
                shutdown_grace_seconds: grace?,
                time_zone: time_zone?,
                identity,
                broker: broker?,
                store: store?,
                http: http?,
                operator_http: match operator_http {
                    Some(address) => Some(address?),
                    None => None,
                },
                log: log?,
                home_assistant,
                clusters,
                groups,
            })
        };
        (config(), files)
    }

    /// Reads an address to listen on.
    fn listener(&mut self, key: &str, text: &str) -> Option<SocketAddr> {
        let example = "for example 127.0.0.1:9464 or [::]:9464";
        self.note(key, text.parse().map_err(|_| format!("`{text}` is not an address and a port; {example}")))
    }

    fn room_for_lists(&mut self, max_packet_bytes: usize, members: usize) {
        let needed = members * LIST_BYTES_PER_MEMBER;
        if max_packet_bytes < needed {
            let message =
                format!("{max_packet_bytes} is too small for a list of {members} members; use at least {needed}");
            self.wrong("broker.max_packet_bytes", message);
        }
    }

    fn gateway_id(&mut self, id: &str) -> Option<GatewayId> {
        // `{id}-{ordinal}` is an id too: the client's at the broker.
        let longest = MAX_ID_LEN - "-999".len();
        if id.len() > longest {
            self.wrong("id", format!("`{id}` is too long; use at most {longest} characters"));
            return None;
        }
        self.note("id", GatewayId::new(id).map_err(|error| format!("`{id}`: {error}")))
    }

    /// From the command line, the environment, the file, or the end of the host name, in this order.
    fn ordinal(&mut self, file: &file::File, overrides: &Overrides) -> Option<u32> {
        let of_host = || {
            let name = overrides.host_name.as_deref()?;
            name.rsplit_once('-')?.1.parse().ok()
        };
        let ordinal = match overrides.ordinal.or(file.ordinal) {
            Some(ordinal) => ordinal,
            None if file.replicas <= 1 => 0,
            None => match of_host() {
                Some(ordinal) => ordinal,
                None => {
                    let host = overrides.host_name.as_deref().unwrap_or("");
                    let message = format!(
                        "with {} replicas each needs its own; use --ordinal, DREAM_ORDINAL, this key, or a host name that \
                         ends in `-0`, `-1` and so on (this one is `{host}`)",
                        file.replicas
                    );
                    self.wrong("ordinal", message);
                    return None;
                }
            },
        };
        if ordinal >= file.replicas.max(1) {
            let allowed = match file.replicas {
                0 | 1 => "without other replicas it is 0".to_owned(),
                replicas => format!("the ordinals of {replicas} replicas are 0 to {}", replicas - 1),
            };
            self.wrong("ordinal", format!("{ordinal} is not allowed; {allowed}"));
            return None;
        }
        Some(ordinal)
    }

    fn time_zone(&mut self, name: &str) -> Option<Zone> {
        let allowed = "use a name of the IANA database, such as UTC, Europe/Amsterdam or America/New_York";
        self.note("time_zone", Zone::named(name).ok_or_else(|| format!("`{name}` is no time zone; {allowed}")))
    }

    fn broker(&mut self, file: &file::Broker) -> Option<Broker> {
        let urls = self.urls(file);
        let keep_alive = self.within("broker.keep_alive_seconds", file.keep_alive_seconds, 5, 3600);
        // Room for what is kept of a packet that is larger.
        let max_packet = self.within("broker.max_packet_bytes", file.max_packet_bytes, 131_072, 268_435_455);
        let client = match (&file.client_certificate, &file.client_key) {
            (Some(certificate), Some(key)) => Some((self.path(certificate), self.path(key))),
            (None, None) => None,
            (Some(_), None) => {
                self.wrong("broker.client_key", "is missing; `broker.client_certificate` needs its key");
                None
            }
            (None, Some(_)) => {
                self.wrong("broker.client_certificate", "is missing; `broker.client_key` needs its certificate");
                None
            }
        };
        if file.password_file.is_some() && file.username.is_none() {
            self.wrong("broker.username", "is missing; `broker.password_file` needs a user name");
        }
        let login = file
            .username
            .clone()
            .map(|username| Login { username, password_file: file.password_file.as_ref().map(|path| self.path(path)) });
        let urls = urls?;
        let tls = match (urls[0].tls, &file.ca) {
            (true, Some(ca)) => Some(BrokerTls { ca: self.path(ca), client }),
            (true, None) => {
                self.wrong(
                    "broker.ca",
                    "is missing; name the file with the certificates that the broker's is checked with",
                );
                None
            }
            (false, ca) => {
                for (key, set) in [("broker.ca", ca.is_some()), ("broker.client_certificate", client.is_some())] {
                    if set {
                        self.wrong(key, "has no effect with `mqtt://`; use `mqtts://` in `broker.url`, or remove it");
                    }
                }
                None
            }
        };
        Some(Broker { urls, tls, login, keep_alive_seconds: keep_alive?, max_packet_bytes: max_packet? })
    }

    /// Returns at least one URL; all are with TLS, or none is.
    fn urls(&mut self, file: &file::Broker) -> Option<Vec<BrokerUrl>> {
        let (key, urls) = match (&file.url, &*file.urls) {
            (Some(_), [_, ..]) => {
                self.wrong("broker.urls", "is set beside `broker.url`; use one of them");
                return None;
            }
            (Some(url), []) => ("broker.url", std::slice::from_ref(url)),
            (None, urls @ [_, ..]) => ("broker.urls", urls),
            (None, []) => {
                self.wrong("broker.url", "is missing");
                return None;
            }
        };
        let urls =
            urls.iter().map(|url| self.url(key, url)).collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>()?;
        if urls.iter().any(|url| url.tls != urls[0].tls) {
            self.wrong(key, "mixes `mqtt://` and `mqtts://`; use one of them for all");
        }
        Some(urls)
    }

    fn url(&mut self, key: &str, url: &str) -> Option<BrokerUrl> {
        let wrong = || {
            // What stands before an `@` may be a password.
            let shown = if url.contains('@') { "the value" } else { url };
            format!(
                "{shown} is not a broker's address; use mqtt://HOST[:1883] or mqtts://HOST[:8883], and \
                 `broker.username` and `broker.password_file` for the login"
            )
        };
        self.note(key, BrokerUrl::parse(url).ok_or_else(wrong))
    }

    fn store(&mut self, file: &file::Store) -> Option<Store> {
        let retention = self.within("store.retention_days", file.retention_days, 1, 36_500);
        let cache = self.within("store.cache_mebibytes", file.cache_mebibytes, 1, 65_536);
        let hours = self.within("store.hours_retention_days", file.hours_retention_days, 1, 36_500);
        Some(Store {
            path: self.path(&file.path),
            retention_days: retention?,
            hours_retention_days: hours?,
            cache_mebibytes: cache?,
        })
    }

    fn log(&mut self, file: file::Log) -> Option<Log> {
        let known = ["error", "warn", "info", "debug", "trace"];
        if !known.contains(&file.level.as_str()) {
            self.wrong("log.level", format!("`{}` is not a level; use one of {}", file.level, known.join(", ")));
            return None;
        }
        Some(Log { level: file.level, format: file.format })
    }

    fn home_assistant(&mut self, file: file::HomeAssistant) -> Option<String> {
        let prefix = file.discovery_prefix;
        if prefix.is_empty() || prefix.contains(['+', '#', '\0']) || prefix.starts_with('/') || prefix.ends_with('/') {
            let message = format!("`{prefix}` is not a topic; use Home Assistant's discovery prefix, `homeassistant`");
            self.wrong("home_assistant.discovery_prefix", message);
        }
        file.enabled.then_some(prefix)
    }

    fn clusters(
        &mut self,
        clusters: &BTreeMap<String, file::Cluster>,
        defaults: &file::Cluster,
    ) -> BTreeMap<ClusterId, ClusterSettings> {
        if clusters.is_empty() {
            self.wrong("clusters", "there is none; add a table `[clusters.NAME]` for each cluster of homes");
        }
        let mut checked = BTreeMap::new();
        for (name, cluster) in clusters {
            let key = format!("clusters.{name}");
            let id = self.note(&key, ClusterId::new(name));
            let settings = self.cluster(&key, cluster, defaults);
            checked.extend(id.zip(settings));
        }
        checked
    }

    fn cluster(&mut self, key: &str, own: &file::Cluster, defaults: &file::Cluster) -> Option<ClusterSettings> {
        let before = self.problems.len();
        let (here, there, file) = (own.written(), defaults.written(), own.over(defaults));
        // Where the value stands.
        let of = |name: &str| {
            let inherited = !here.contains(name) && there.contains(name);
            if inherited { format!("defaults.{name}") } else { format!("{key}.{name}") }
        };
        let rules = RosterRules::default();
        let slot_seconds = file.slot_seconds.unwrap_or(Terms::DEFAULT.slot_seconds);
        let slot = self.within(&of("slot_seconds"), slot_seconds, 1, 86_400);
        let usual = Terms::with_slots_of(slot.unwrap_or(Terms::DEFAULT.slot_seconds));
        let epsilon = self.epsilon(&of("epsilon"), file.epsilon.as_ref());
        let missing = self.share(&of("max_missing"), file.max_missing.as_ref(), "0.1", "at most 0.2");
        let malicious = self.share(&of("max_malicious"), file.max_malicious.as_ref(), "0.1", "at least 0.1");
        let profile = self.profile(&of("meter_policy"), file.meter_policy.as_deref());
        let scheme = self.scheme(&of("scheme"), file.scheme.as_deref(), file.partners.unwrap_or(0));
        let min_members = self.min_members(&of("min_members"), file.min_members, profile.unwrap_or_default());
        let list_slots = self.within(&of("list_slots"), file.list_slots.unwrap_or(rules.list_slots), 4, 1_000_000);
        let settle = self.within(&of("settle_seconds"), file.settle_seconds.unwrap_or(rules.settle_seconds), 0, 86_400);
        let interval = file.min_interval_seconds.unwrap_or(6 * usual.slot_seconds);
        let interval = self.within(&of("min_interval_seconds"), interval, 0, 31_536_000);
        let allow = file.allow_file.as_ref().and_then(|path| self.meter_ids(&of("allow_file"), path));
        let deny = file.deny_file.as_ref().and_then(|path| self.meter_ids(&of("deny_file"), path));
        let kind = self.kind(&of("kind"), file.kind.as_deref());
        let day = file.day_epsilon.as_ref().map(|text| self.day_epsilon(&of("day_epsilon"), text));
        if let (Some(allow), Some(least)) = (&allow, min_members) {
            let allowed = allow.iter().filter(|id| deny.as_ref().is_none_or(|deny| !deny.contains(*id))).count();
            if allowed < least.into() {
                let message = format!("allows {allowed} meters, fewer than `min_members`, {least}: no list could form");
                self.wrong(of("allow_file"), message);
            }
        }
        slot?;
        let (epsilon, missing_share, malicious_share, min_members) = (epsilon?, missing?, malicious?, min_members?);
        let [lo, hi] = file.range_watts.unwrap_or_else(|| kind.map_or([0; 2], |kind| kind.range().into()));
        let committee = scheme == Some(SchemeChoice::Only(scheme::Kind::Committee));
        let settings = ClusterSettings {
            terms: Terms {
                reading_seconds: file.reading_seconds.unwrap_or(usual.reading_seconds),
                reveal_seconds: file.reveal_seconds.unwrap_or(usual.reveal_seconds),
                scheme: Scheme::Pairwise { partners: file.partners.unwrap_or(0) },
                lo,
                hi,
                epsilon_numerator: epsilon.numerator,
                epsilon_denominator: epsilon.denominator,
                attempts: file.attempts.unwrap_or(if committee { 1 } else { usual.attempts }),
                ..usual
            }
            .with_day_watt_hours(kind?.day_watt_hours()),
            scheme: scheme?,
            committee_attempts: file.attempts.unwrap_or(1),
            missing_share,
            malicious_share,
            profile: profile?,
            roster: RosterRules {
                min_members,
                settle_seconds: settle?,
                list_slots: list_slots?,
                drop_after_slots: file.drop_after_slots.unwrap_or(rules.drop_after_slots),
                min_interval_seconds: interval?,
                allow,
                deny: deny.unwrap_or_default(),
            },
        };
        let settings = match day {
            Some(day) => ClusterSettings { terms: Terms { day_micro_epsilon: day?, ..settings.terms }, ..settings },
            None => settings,
        };
        let formed = match settings.scheme {
            // Without a committee such a list is pairwise.
            SchemeChoice::Auto => settings.params(min_members).map_err(|error| error.to_string()),
            SchemeChoice::Only(_) => settings.formed(min_members),
        };
        if let Err(error) = formed {
            self.wrong(key, format!("a list of `min_members` = {min_members} could not be: {error}"));
        }
        (self.problems.len() == before).then_some(settings)
    }

    fn profile(&mut self, key: &str, text: Option<&str>) -> Option<Profile> {
        let Some(text) = text else { return Some(Profile::default()) };
        self.note(key, text.parse().map_err(|allowed| format!("`{text}` is no policy that meters have; {allowed}")))
    }

    fn scheme(&mut self, key: &str, text: Option<&str>, partners: u64) -> Option<SchemeChoice> {
        let choice = text.map_or(Ok(SchemeChoice::Auto), str::parse);
        let choice = choice.map_err(|allowed| format!("`{}` is no scheme; {allowed}", text.unwrap_or_default()));
        match (self.note(key, choice)?, partners) {
            (choice, 0) => Some(choice),
            (SchemeChoice::Auto | SchemeChoice::Only(scheme::Kind::Pairwise), _) => {
                Some(SchemeChoice::Only(scheme::Kind::Pairwise))
            }
            (SchemeChoice::Only(scheme::Kind::Committee), _) => {
                self.wrong(key, "a committee has no mask partners; leave `partners` out, or use pairwise");
                None
            }
        }
    }

    fn kind(&mut self, key: &str, text: Option<&str>) -> Option<Kind> {
        let Some(text) = text else { return Some(Kind::default()) };
        self.note(key, text.parse().map_err(|allowed| format!("`{text}` is no kind of home; {allowed}")))
    }

    fn day_epsilon(&mut self, key: &str, text: &file::Decimal) -> Option<u64> {
        let allowed = "use 0 for none, or a decimal below 1099511 with at most six places, such as 72 or 4.5";
        let text = &text.0;
        self.note(key, decimal::day_micro_epsilon(text).ok_or_else(|| format!("{text} is not allowed; {allowed}")))
    }

    fn min_members(&mut self, key: &str, members: Option<u16>, profile: Profile) -> Option<u16> {
        let least = profile.floors().members;
        let members = self.within(key, members.unwrap_or(least), 2, 10_000)?;
        if members < least {
            let allowed = format!("use {least} to 10000, or another `meter_policy`");
            self.wrong(key, format!("meters with the {profile} policy refuse a list of {members} members; {allowed}"));
            return None;
        }
        Some(members)
    }

    fn epsilon(&mut self, key: &str, text: Option<&file::Decimal>) -> Option<Fraction> {
        let text = text.map_or("1", |decimal| &decimal.0);
        let allowed = "use a decimal above 0 with at most six places, up to 1000000, such as 1 or 0.5";
        self.note(key, decimal::epsilon(text).ok_or_else(|| format!("{text} is not allowed; {allowed}")))
    }

    fn share(&mut self, key: &str, text: Option<&file::Decimal>, default: &str, allowed: &str) -> Option<Share> {
        let text = text.map_or(default, |decimal| &decimal.0);
        let wrong = || format!("{text} is not a share of the members; use a decimal from 0 to 1, {allowed}");
        self.note(key, decimal::share(text).ok_or_else(wrong))
    }

    /// One id a line; empty lines and what follows a `#` are left out.
    fn meter_ids(&mut self, key: &str, path: &Path) -> Option<BTreeSet<MeterId>> {
        let path = self.path(path);
        let text =
            std::fs::read_to_string(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()));
        let text = self.note(key, text)?;
        let (mut ids, before) = (BTreeSet::new(), self.problems.len());
        for (at, line) in text.lines().enumerate() {
            let id = line.split('#').next().unwrap_or("").trim();
            if id.is_empty() {
                continue;
            }
            match MeterId::new(id) {
                Ok(id) => drop(ids.insert(id)),
                Err(error) => {
                    self.wrong(key, format!("{}, line {}: `{id}` is no meter's id: {error}", path.display(), at + 1));
                }
            }
        }
        (self.problems.len() == before).then_some(ids)
    }
}
