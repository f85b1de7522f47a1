//! Who may see what over HTTP: `[http]`, `[http.proxy]`, and the file of users and tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use argon2::password_hash::phc::PasswordHash;
use dream_edge::config::{ConfigError, Section, Variables, one_of};
use dream_edge::files::mode_for_everybody;
use dream_protocol::ids::ClusterId;
use ipnet::IpNet;
use sha2::{Digest as _, Sha256};

use super::{Config, Group, GroupId};

/// What HTTP serves, where, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    pub listen: SocketAddr,
    pub tls: Option<HttpTls>,
    /// Users and tokens.
    pub access_file: Option<PathBuf>,
    pub proxy: Option<Proxy>,
    /// What needs no login.
    pub open: Open,
}

/// The server's certificate and key: files in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpTls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A proxy that lets people log in, and says in a header who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Whose headers count: never everybody's.
    pub addresses: Vec<IpNet>,
    /// In lower case.
    pub user_header: String,
    pub groups_header: String,
    /// Members of these groups are operators.
    pub operator_groups: BTreeSet<String>,
    /// If any are named, only members of these and operators may see the pages.
    pub viewer_groups: BTreeSet<String>,
}

impl Proxy {
    /// Returns whether headers from this address count. An IPv4 address may come written as one of IPv6.
    pub fn is_at(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.addresses.iter().any(|network| network.contains(&address))
    }
}

/// What needs no login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    pub health: bool,
    pub metrics: bool,
    pub pages: bool,
}

impl Open {
    pub const ALL: Self = Self { health: true, metrics: true, pages: true };
}

impl Http {
    /// Returns whether anybody can log in.
    pub fn has_logins(&self) -> bool {
        self.access_file.is_some() || self.proxy.is_some()
    }

    /// Returns what strangers on the network could do, in words: for `check-config` and the log.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.listen.ip().is_loopback() {
            return all;
        }
        let listen = self.listen;
        if !self.has_logins() {
            all.push(format!(
                "everybody who reaches {listen} sees every page and number; name users and tokens in \
                 `http.access_file`, or a proxy in [http.proxy], or listen on the loopback"
            ));
        }
        if self.tls.is_none() {
            let what = if self.access_file.is_some() { "passwords, tokens and pages" } else { "pages and numbers" };
            all.push(format!(
                "{what} travel in clear to and from {listen}; set `http.tls_certificate` and `http.tls_key`, or \
                 listen on the loopback behind a proxy that has TLS"
            ));
        }
        all
    }
}

/// What a login is for. Each role may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// `/metrics` alone.
    Metrics,
    /// Pages and API.
    Viewer,
    /// What names meters, too.
    Operator,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Metrics, Self::Viewer, Self::Operator];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What somebody may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    pub role: Role,
    /// Which clusters; `None` for all.
    pub clusters: Option<BTreeSet<ClusterId>>,
}

impl Rights {
    /// Returns the rights of a role to see every cluster.
    pub fn of_all(role: Role) -> Self {
        Self { role, clusters: None }
    }

    pub fn sees(&self, cluster: &str) -> bool {
        self.clusters.as_ref().is_none_or(|clusters| clusters.contains(cluster))
    }

    /// Returns whether a sum of clusters may be seen: only if each of them may.
    pub fn sees_group(&self, group: &Group) -> bool {
        self.clusters.as_ref().is_none_or(|clusters| group.clusters.is_subset(clusters))
    }
}

/// Users and tokens, from their file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logins {
    pub users: BTreeMap<String, User>,
    pub tokens: BTreeMap<String, Token>,
}

/// Shown without its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Argon2, as a PHC string.
    pub password: String,
    pub rights: Rights,
}

/// Shown without its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// SHA-256. A token is random, so nothing slower is needed.
    pub hash: [u8; 32],
    pub rights: Rights,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("rights", &self.rights).finish_non_exhaustive()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("rights", &self.rights).finish_non_exhaustive()
    }
}

/// Returns what is kept of a token.
pub fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Returns a new token.
pub fn new_token() -> String {
    let bytes: [u8; 32] = rand::random();
    format!("dream_{}", hex(&bytes))
}

/// Returns bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}

impl Logins {
    /// Reads the file of a configuration, if it names one.
    pub fn load(config: &Config) -> Result<Self, ConfigError> {
        let Some(path) = &config.http.access_file else { return Ok(Self::default()) };
        Self::read(path, &config.clusters.keys().cloned().collect(), &config.groups)
    }

    /// Reads and checks a file, in which logins may be limited to these clusters and groups.
    pub fn read(
        path: &Path,
        clusters: &BTreeSet<ClusterId>,
        groups: &BTreeMap<GroupId, Group>,
    ) -> Result<Self, ConfigError> {
        let (found, mut report) = dream_edge::config::read(path, &Variables::default(), |root| {
            let known = Known { clusters, groups };
            let users = root.sections("users").into_iter().filter_map(|(name, section)| {
                if name.contains(':') || name.is_empty() {
                    section.wrong_here("a user name has at least one character, and no colon");
                }
                let password = section.key("password").required("\"$argon2id$...\"").parsed(password);
                let rights = known.rights(&section);
                Some((name.to_owned(), User { password: password?, rights: rights? }))
            });
            let users: BTreeMap<_, _> = users.collect();
            let tokens = root.sections("tokens").into_iter().filter_map(|(name, section)| {
                let hash = section.key("token_sha256").required("\"64 hexadecimal digits\"").parsed(sha256);
                let rights = known.rights(&section);
                Some((name.to_owned(), Token { hash: hash?, rights: rights? }))
            });
            Self { users, tokens: tokens.collect() }
        });
        if let Ok(Some(mode)) = mode_for_everybody(path) {
            report.wrong(
                "",
                format!(
                    "it can be read by everybody on this machine (mode {mode:o}), who could guess passwords by their \
                     hashes; `chmod 600` it, or 440 if the gateway reads it through a group"
                ),
            );
        }
        report.finish(found)
    }
}

/// What logins can be limited to.
struct Known<'a> {
    clusters: &'a BTreeSet<ClusterId>,
    groups: &'a BTreeMap<GroupId, Group>,
}

impl Known<'_> {
    fn rights(&self, section: &Section<'_>) -> Option<Rights> {
        let role = section.key("role").required("\"viewer\"").one_of(&Role::ALL.map(|role| (role.as_str(), role)));
        let names = section.key("clusters").texts();
        let clusters = names.map(|names| {
            if names.is_empty() {
                section.wrong("clusters", "this list is empty; name clusters or groups, or leave it out for all");
            }
            names.iter().flat_map(|name| self.of(name, section)).collect()
        });
        Some(Rights { role: role?, clusters })
    }

    /// Returns the cluster of a name, or those of a group.
    fn of(&self, name: &str, section: &Section<'_>) -> Vec<ClusterId> {
        if let Some(group) = self.groups.get(name) {
            return group.clusters.iter().cloned().collect();
        }
        if let Some(cluster) = self.clusters.get(name) {
            return vec![cluster.clone()];
        }
        let known = self.clusters.iter().map(ClusterId::as_str).chain(self.groups.keys().map(GroupId::as_str));
        section.wrong("clusters", format!("there is no cluster or group `{name}`; {}", one_of(name, known)));
        Vec::new()
    }
}

fn password(text: &str) -> Result<String, &'static str> {
    let usual = "not a hash of argon2; `dream-gateway access user` makes one";
    let hash = PasswordHash::new(text).map_err(|_| usual)?;
    let is_argon2 = hash.algorithm.as_str().starts_with("argon2") && hash.hash.is_some() && hash.salt.is_some();
    if is_argon2 { Ok(text.to_owned()) } else { Err(usual) }
}

fn sha256(text: &str) -> Result<[u8; 32], &'static str> {
    let usual = "not 64 hexadecimal digits; `dream-gateway access token` makes them";
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks_exact(2);
    let bytes: Option<Vec<u8>> = pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect();
    bytes.filter(|_| text.len() == 64).and_then(|bytes| bytes.try_into().ok()).ok_or(usual)
}

/// Reads `[http]`.
pub(super) fn http(section: &Section<'_>) -> Http {
    let address = |text: &str| {
        text.parse::<SocketAddr>().map_err(|_| "not an address and a port; use 127.0.0.1:9464 or [::]:9464")
    };
    let usual = SocketAddr::from(([127, 0, 0, 1], 9464));
    let listen = section.key("listen").overridable().parsed(address).unwrap_or(usual);
    section.retired(
        "operator_listen",
        &[],
        "replaced by the role `operator`: give it to a user or a token in `access_file`, or to a group in [http.proxy]",
    );
    let certificate = section.key("tls_certificate").overridable().path();
    let key = section.key("tls_key").overridable().path();
    if certificate.is_some() && key.is_none() {
        section.missing("tls_key", "`tls_certificate` needs its key");
    }
    if key.is_some() && certificate.is_none() {
        section.missing("tls_certificate", "`tls_key` needs its certificate");
    }
    let tls = certificate.zip(key).map(|(certificate, key)| HttpTls { certificate, key });
    let access_file = section.key("access_file").overridable().path();
    let proxy = section.optional("proxy").and_then(|proxy| self::proxy(&proxy));
    let has_logins = access_file.is_some() || section.has("proxy");
    let open = section.key("open").texts();
    if open.is_some() && !has_logins {
        section.wrong("open", "has no effect: without `access_file` or [http.proxy] everything is open");
    }
    let open = match open {
        Some(names) => {
            let known = ["health", "metrics", "pages"];
            for name in names.iter().filter(|name| !known.contains(&name.as_str())) {
                section.wrong("open", format!("`{name}` cannot be open; {}", one_of(name, known.into_iter())));
            }
            let has = |name: &str| names.iter().any(|found| found == name);
            Open { health: has("health"), metrics: has("metrics"), pages: has("pages") }
        }
        None if has_logins => Open { health: true, metrics: false, pages: false },
        None => Open::ALL,
    };
    Http { listen, tls, access_file, proxy, open }
}

/// Headers that a client fills, or a proxy from what a client said.
const CLIENTS: [&str; 11] = [
    "authorization",
    "connection",
    "cookie",
    "forwarded",
    "host",
    "user-agent",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

fn proxy(section: &Section<'_>) -> Option<Proxy> {
    let addresses = section.key("addresses").required("[\"127.0.0.1\"]").texts();
    let addresses = addresses.map(|addresses| {
        if addresses.is_empty() {
            section.wrong("addresses", "this list is empty; name the addresses from which the proxy connects");
        }
        let networks = addresses.iter().filter_map(|text| {
            let network =
                text.parse().or_else(|_| text.parse().map(|address: IpAddr| IpNet::from(address.to_canonical())));
            match network {
                Err(_) => {
                    let wrong = format!("`{text}` is no address or network; use 10.0.0.7 or 10.1.0.0/16");
                    section.wrong("addresses", wrong);
                }
                Ok(network) if network.prefix_len() == 0 => {
                    let wrong =
                        format!("`{text}` is every address, so that everybody could be anybody; name the proxy's");
                    section.wrong("addresses", wrong);
                }
                Ok(_) => {}
            }
            network.ok()
        });
        networks.collect::<Vec<IpNet>>()
    });
    let header = |text: &str| {
        let (name, is_name) = (text.to_ascii_lowercase(), axum::http::HeaderName::try_from(text).is_ok());
        match CLIENTS.contains(&name.as_str()) {
            false if is_name => Ok(name),
            false => Err("not a header; use X-Forwarded-User"),
            true => Err("clients choose what it says; use a header that the proxy sets, such as X-Forwarded-User"),
        }
    };
    let usual = |key: &'static str, usual: &str| section.key(key).parsed(header).unwrap_or_else(|| usual.to_owned());
    let user_header = usual("user_header", "x-forwarded-user");
    let groups_header = usual("groups_header", "x-forwarded-groups");
    if user_header == groups_header {
        section.wrong("groups_header", "must differ from `user_header`, or a user called like a group would be in it");
    }
    let groups = |key: &'static str| {
        let names = section.key(key).texts().unwrap_or_default();
        for name in &names {
            if name.trim().is_empty() {
                section.wrong(key, "an empty name would be the group of everybody who is in none; leave it out");
            }
            if name.contains(',') {
                section.wrong(key, format!("`{name}` has a comma, which separates groups; name each by itself"));
            }
        }
        names.iter().map(|name| name.trim().to_owned()).collect()
    };
    Some(Proxy {
        operator_groups: groups("operator_groups"),
        viewer_groups: groups("viewer_groups"),
        addresses: addresses?,
        user_header,
        groups_header,
    })
}
