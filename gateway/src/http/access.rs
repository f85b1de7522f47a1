//! Who asks, and what they may see: passwords, tokens, and what a trusted proxy says.
//!
//! Everything that HTTP serves is read only, so nothing here protects against requests that another site makes a browser send.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use dream_edge::serve::Peer;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tracing::warn;

use super::error::ApiError;
use super::turns::Turns;
use crate::config::access::{Http, Logins, Open, Proxy, Rights, Role, token_hash};

/// How long a wrong password keeps its turn: at most eight guesses a second, whoever makes them.
const PENALTY: Duration = Duration::from_millis(250);

/// How often refusals are logged at most.
const LOGGED: Duration = Duration::from_secs(10);

/// How long a header of the proxy may be.
const LONGEST_HEADER: usize = 8192;

/// Lets people and programs in. What they may see can change while it serves.
#[derive(Debug)]
pub struct Access {
    rules: RwLock<Arc<Rules>>,
    /// Passwords that were right, by user, as [`Access::fingerprint`]s: a browser sends its password with every request.
    right: Mutex<HashMap<String, [u8; 32]>>,
    /// Makes fingerprints useless outside of this process.
    pepper: [u8; 32],
    turns: Arc<Turns>,
    /// When refusals were last logged, and how many there were since.
    refused: Mutex<(Option<Instant>, u64)>,
    /// Stands for the password of a user who does not exist, so that both take as long.
    nobody: String,
}

/// Who may see what.
#[derive(Debug)]
struct Rules {
    logins: Logins,
    proxy: Option<Proxy>,
    open: Open,
}

/// What a path needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Health,
    Metrics,
    Pages,
    Operator,
}

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// Nobody said who they are.
    Nobody,
    /// With what was wrong.
    Wrong(&'static str),
    /// Too many passwords wait to be checked, of everybody or from this address.
    Busy,
    /// The role is not enough.
    Role(Option<Role>),
}

impl Access {
    pub fn new(http: &Http, logins: Logins) -> Self {
        let nobody = Argon2::default().hash_password(&rand::random::<[u8; 16]>());
        let nobody = nobody.expect("the default parameters are valid").to_string();
        Self {
            rules: RwLock::new(Arc::new(Rules::new(http, logins))),
            right: Mutex::default(),
            pepper: rand::random(),
            turns: Arc::default(),
            refused: Mutex::default(),
            nobody,
        }
    }

    /// Lets everybody see everything but what names meters.
    pub fn open() -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::new(&Http { listen, tls: None, access_file: None, proxy: None, open: Open::ALL }, Logins::default())
    }

    /// Replaces who may see what, from the next request on.
    pub fn replace(&self, http: &Http, logins: Logins) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Rules::new(http, logins));
        // A password that was right before may be another user's now.
        self.right.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what the sender of a request may see, if that is enough.
    async fn admit(&self, need: Need, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Rights, Refusal> {
        let rules = self.rules();
        let rights = match self.login(&rules, headers, peer).await {
            Ok(rights) => Some(rights),
            Err(Refusal::Nobody) => None,
            // What is open needs no login, so no wrong one keeps anybody out.
            Err(_) if rules.open.is_to(need) => None,
            Err(refusal) => return Err(refusal),
        };
        match (rights, need.role()) {
            (Some(rights), role) if role.is_none_or(|role| rights.role >= role) => Ok(rights),
            (rights, _) if rules.open.is_to(need) => {
                // A login that is limited to clusters stays so.
                let clusters = rights.and_then(|rights| rights.clusters);
                Ok(Rights { role: Role::Viewer, clusters })
            }
            (None, Some(Role::Operator)) if rules.is_without_logins() => Err(Refusal::Role(None)),
            (None, _) => Err(Refusal::Nobody),
            (Some(_), role) => Err(Refusal::Role(role)),
        }
    }

    /// Returns the rights of the sender of a request: whom the proxy names, or else by a token or a password.
    async fn login(&self, rules: &Rules, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Rights, Refusal> {
        if let Some(proxy) = &rules.proxy
            && peer.is_some_and(|peer| proxy.is_at(peer))
            && headers.contains_key(&proxy.user_header)
        {
            return proxied(proxy, headers);
        }
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = given.next() else {
            let is_named = rules.proxy.as_ref().is_some_and(|proxy| headers.contains_key(&proxy.user_header));
            // Either somebody pretends to be the proxy, or its address is not configured: the log names it.
            return Err(if is_named { Refusal::Wrong("address for headers of the proxy") } else { Refusal::Nobody });
        };
        if given.next().is_some() {
            return Err(Refusal::Wrong("two headers `Authorization`"));
        }
        let value = value.to_str().map_err(|_| Refusal::Wrong("header `Authorization`"))?;
        let (scheme, rest) = value.split_once(' ').ok_or(Refusal::Wrong("header `Authorization`"))?;
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" => rules.token(rest.trim()).ok_or(Refusal::Wrong("token")),
            "basic" => {
                let decoded = BASE64_STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                let decoded = decoded.ok_or(Refusal::Wrong("header `Authorization`"))?;
                let (name, password) = decoded.split_once(':').ok_or(Refusal::Wrong("header `Authorization`"))?;
                self.password(rules, name, password, peer).await
            }
            _ => Err(Refusal::Wrong("scheme of `Authorization`")),
        }
    }

    async fn password(
        &self,
        rules: &Rules,
        name: &str,
        password: &str,
        peer: Option<IpAddr>,
    ) -> Result<Rights, Refusal> {
        let user = rules.logins.users.get(name);
        let hash = user.map_or(&self.nobody, |user| &user.password).clone();
        let fingerprint = self.fingerprint(name, &hash, password);
        let is_known = {
            let right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
            right.get(name).is_some_and(|known| bool::from(known.ct_eq(&fingerprint)))
        };
        if let (true, Some(user)) = (is_known, user) {
            return Ok(user.rights.clone());
        }
        let place = self.turns.place(peer).ok_or(Refusal::Busy)?;
        let given = zeroize::Zeroizing::new(password.to_owned());
        // A task of its own: a client that hangs up ends neither the check nor the penalty, so that nobody has more than a few of them.
        let checked = tokio::spawn(async move {
            let _turn = place.turn().await;
            let verify = move || {
                let hash = PasswordHash::new(&hash).ok()?;
                Argon2::default().verify_password(given.as_bytes(), &hash).ok()
            };
            let right = tokio::task::spawn_blocking(verify).await.ok().flatten();
            if right.is_none() {
                tokio::time::sleep(PENALTY).await;
            }
            right
        });
        let is_right = checked.await.ok().flatten().is_some();
        let Some(user) = user.filter(|_| is_right) else {
            return Err(Refusal::Wrong("user name or password"));
        };
        self.right.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), fingerprint);
        Ok(user.rights.clone())
    }

    /// Returns what is remembered of a password that was right. A new hash in the file makes it another.
    fn fingerprint(&self, name: &str, hash: &str, password: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.pepper);
        for part in [name, hash, password] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }

    /// Logs refusals, not too often, and never what was given.
    fn note(&self, peer: Option<IpAddr>, what: &str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.1 += 1;
        if refused.0.is_none_or(|last| last.elapsed() >= LOGGED) {
            let from = peer.map_or_else(|| "?".to_owned(), |peer| peer.to_canonical().to_string());
            warn!(from, wrong = what, logins = refused.1, "refused to log somebody in over HTTP");
            *refused = (Some(Instant::now()), 0);
        }
    }
}

impl Rules {
    fn new(http: &Http, logins: Logins) -> Self {
        Self { logins, proxy: http.proxy.clone(), open: http.open }
    }

    fn is_without_logins(&self) -> bool {
        self.proxy.is_none() && self.logins.users.is_empty() && self.logins.tokens.is_empty()
    }

    /// Returns the rights of a token. It is compared with all of them, in constant time.
    fn token(&self, token: &str) -> Option<Rights> {
        let hash = token_hash(token);
        let mut found = None;
        for known in self.logins.tokens.values() {
            if bool::from(known.hash.ct_eq(&hash)) {
                found = Some(&known.rights);
            }
        }
        found.cloned()
    }
}

impl Open {
    fn is_to(self, need: Need) -> bool {
        match need {
            Need::Health => self.health,
            Need::Metrics => self.metrics,
            Need::Pages => self.pages,
            Need::Operator => false,
        }
    }
}

impl Need {
    /// Returns the role that it takes; health takes a login, of whatever role.
    fn role(self) -> Option<Role> {
        match self {
            Self::Health => None,
            Self::Metrics => Some(Role::Metrics),
            Self::Pages => Some(Role::Viewer),
            Self::Operator => Some(Role::Operator),
        }
    }
}

/// Returns the rights of the person whom a trusted proxy names.
fn proxied(proxy: &Proxy, headers: &HeaderMap) -> Result<Rights, Refusal> {
    const WRONG: Refusal = Refusal::Wrong("header of the proxy");
    let mut users = headers.get_all(&proxy.user_header).iter();
    let user = users.next().and_then(|user| user.to_str().ok()).ok_or(WRONG)?;
    // A second one may be what the client sent to the proxy.
    if user.trim().is_empty() || user.len() > LONGEST_HEADER || users.next().is_some() {
        return Err(WRONG);
    }
    let mut lines = headers.get_all(&proxy.groups_header).iter();
    let groups = match (lines.next(), lines.next()) {
        (None, _) => "",
        (Some(groups), None) => groups.to_str().ok().filter(|groups| groups.len() <= LONGEST_HEADER).ok_or(WRONG)?,
        (Some(_), Some(_)) => return Err(WRONG),
    };
    let is_in =
        |named: &std::collections::BTreeSet<String>| groups.split(',').any(|group| named.contains(group.trim()));
    if is_in(&proxy.operator_groups) {
        Ok(Rights::of_all(Role::Operator))
    } else if proxy.viewer_groups.is_empty() || is_in(&proxy.viewer_groups) {
        Ok(Rights::of_all(Role::Viewer))
    } else {
        Err(Refusal::Role(Some(Role::Viewer)))
    }
}

/// Lets a request pass that may see what it asks for; what it may see goes with it.
pub(super) async fn admit(
    State((access, need)): State<(Arc<Access>, Need)>,
    mut request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().map(|Peer(address)| address.ip());
    match access.admit(need, request.headers(), peer).await {
        Ok(rights) => {
            request.extensions_mut().insert(Arc::new(rights));
            next.run(request).await
        }
        Err(refusal) => {
            if let Refusal::Wrong(what) = refusal {
                access.note(peer, what);
            }
            refuse(&access.rules(), refusal)
        }
    }
}

fn refuse(rules: &Rules, refusal: Refusal) -> Response {
    let unauthorised = |message: &str| {
        // Browsers ask for a password if there is anybody who has one.
        let scheme = if rules.logins.users.is_empty() { "Bearer" } else { "Basic" };
        let scheme = HeaderValue::from_str(&format!("{scheme} realm=\"DREAM gateway\", charset=\"UTF-8\""));
        let error = ApiError::new(StatusCode::UNAUTHORIZED, message.to_owned());
        ([(header::WWW_AUTHENTICATE, scheme.expect("plain ASCII"))], error).into_response()
    };
    match refusal {
        Refusal::Nobody => {
            unauthorised("this needs a login: a user name and password, or a token after `Authorization: Bearer`")
        }
        Refusal::Wrong(what) => unauthorised(&format!("wrong {what}")),
        Refusal::Busy => {
            let message = "too many passwords are being checked; try again in a few seconds".to_owned();
            let after = [(header::RETRY_AFTER, HeaderValue::from_static("5"))];
            (after, ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message)).into_response()
        }
        Refusal::Role(role) => {
            let message = match role {
                Some(role) => format!("this needs the role `{role}`"),
                None => "this names meters and needs the role `operator`, which nobody has here: give it to a user or \
                         a token in `http.access_file`, or to a group in [http.proxy]"
                    .to_owned(),
            };
            ApiError::new(StatusCode::FORBIDDEN, message).into_response()
        }
    }
}

/// Returns those lines of a scrape that these rights may see: with rights to some clusters, their series and no others.
pub(super) fn visible(scrape: String, rights: &Rights, group: impl Fn(&str) -> bool) -> String {
    if rights.clusters.is_none() {
        return scrape;
    }
    let is_visible = |line: &&str| {
        if line.starts_with('#') {
            return true;
        }
        match (label(line, "cluster"), label(line, "group")) {
            (Some(cluster), None) => rights.sees(cluster),
            (None, Some(name)) => group(name),
            (Some(_), Some(_)) | (None, None) => false,
        }
    };
    scrape.lines().filter(is_visible).flat_map(|line| [line, "\n"]).collect()
}

/// Returns the value of a label of a series. Those of clusters and groups need no escapes.
fn label<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, labels) = line.split_once('{')?;
    let mut rest = labels;
    while let Some((found, after)) = rest.split_once("=\"") {
        let (value, next) = after.split_once('"')?;
        if found.trim_start_matches(',') == name {
            return Some(value);
        }
        rest = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_whatever_the_others_say() {
        let line = "dream_slots_total{cluster=\"north\",outcome=\"decoded\"} 3";
        assert_eq!((label(line, "cluster"), label(line, "group")), (Some("north"), None));
        assert_eq!(label("dream_x{of_cluster=\"south\",cluster=\"north\"} 1", "cluster"), Some("north"));
        assert_eq!(label("dream_x 1", "cluster"), None);
        assert_eq!(label("dream_x{a=\"cluster=\"} 1", "cluster"), None);
    }
}
