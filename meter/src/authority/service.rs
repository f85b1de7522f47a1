//! Serves EST (RFC 7030) over TLS, and beside it the authorities of the other roles and the register.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Extension, Query, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use dream_edge::serve::{ClientCertificate, Peer};
use dream_edge::tls;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::community::{BROKER_AUTHORITIES, GATEWAY_AUTHORITIES};
use super::invitations::InvitationRefused;
use super::{Authority, AuthorityError, Lock, Outcome, Request};
use crate::clock::wall;
use crate::est;
use crate::files;
use crate::invitation::Secret;

/// How many connections there may be at a time.
const CONNECTIONS: usize = 256;

/// How large a request may be.
const REQUEST_BYTES: usize = 16 << 10;

/// How often one address may ask in a minute. A village may share an address.
const PER_MINUTE: u32 = 60;
const MINUTE: Duration = Duration::from_secs(60);

/// When to ask again for a certificate that somebody signs by hand.
const AGAIN_SECONDS: &str = "600";

const TRANSFER_ENCODING: HeaderName = HeaderName::from_static("content-transfer-encoding");

/// An authority whose certificates can be asked for.
#[derive(Debug)]
pub struct Desk {
    directory: PathBuf,
    authority: Mutex<Authority>,
    asked: Mutex<(Instant, HashMap<IpAddr, u32>)>,
}

impl Desk {
    /// Opens the authority in a directory.
    pub fn open(directory: &Path) -> Result<Self, AuthorityError> {
        let authority = Authority::open(directory)?;
        if authority.has_key() {
            let _lock = Lock::take(directory)?;
            authority.publish(wall())?;
        }
        let asked = Mutex::new((Instant::now(), HashMap::new()));
        Ok(Self { directory: directory.to_owned(), authority: Mutex::new(authority), asked })
    }

    /// Returns whether certificates are signed here.
    pub fn signs(&self) -> bool {
        held(&self.authority).has_key()
    }

    /// Does something with the authority as it is now, while no other program changes it.
    fn with<T>(&self, act: impl FnOnce(&mut Authority) -> Result<T, AuthorityError>) -> Result<T, AuthorityError> {
        let mut authority = held(&self.authority);
        let _lock = Lock::take(&self.directory)?;
        super::refuse_beside_gateway(&self.directory)?;
        authority.refresh()?;
        act(&mut authority)
    }

    /// Whether an address may ask once more.
    fn admits(&self, peer: Peer) -> bool {
        let mut asked = held(&self.asked);
        if asked.0.elapsed() >= MINUTE {
            *asked = (Instant::now(), HashMap::new());
        }
        let count = asked.1.entry(peer.0.ip()).or_default();
        *count += 1;
        *count <= PER_MINUTE
    }
}

/// Serves until `shutdown` is done. `hosts` are the names in a certificate that is made for it.
pub async fn serve(
    listener: TcpListener,
    desk: Arc<Desk>,
    hosts: &[String],
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let config = {
        let authority = held(&desk.authority);
        tls::server_of_clients(authority.server(hosts, wall())?, authority.certificate().clone())?
    };
    let tls = watch::Sender::new(config).subscribe();
    Ok(dream_edge::serve::serve(listener, router(desk), CONNECTIONS, Some(tls), shutdown).await?)
}

pub(super) fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route(est::CA_CERTIFICATES, get(authorities))
        .route(est::ATTRIBUTES, get(attributes))
        .route(est::ENROL, post(enrol))
        .route(est::REENROL, post(reenrol))
        .route(est::GATEWAY_AUTHORITIES, get(async |State(desk): State<Arc<Desk>>| file(&desk, GATEWAY_AUTHORITIES)))
        .route(est::BROKER_AUTHORITIES, get(async |State(desk): State<Arc<Desk>>| file(&desk, BROKER_AUTHORITIES)))
        .route(est::REGISTER, get(register))
        .fallback(async || (StatusCode::NOT_FOUND, "An authority of meters answers here, by EST (RFC 7030).\n"))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
        .with_state(desk)
}

async fn authorities(State(desk): State<Arc<Desk>>) -> Response {
    let body = est::certificates(&[held(&desk.authority).certificate()]);
    let kind = [(header::CONTENT_TYPE, "application/pkcs7-mime"), (TRANSFER_ENCODING, "base64")];
    (kind, body).into_response()
}

/// Says what a request must have: an Ed25519 key (RFC 8410).
async fn attributes() -> Response {
    const ED25519: [u8; 7] = [0x30, 5, 6, 3, 0x2b, 0x65, 0x70];
    let kind = [(header::CONTENT_TYPE, "application/csrattrs"), (TRANSFER_ENCODING, "base64")];
    (kind, est::wrapped(&ED25519)).into_response()
}

async fn enrol(
    State(desk): State<Arc<Desk>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !desk.admits(peer) {
        return too_many();
    }
    let Some((user, secret)) = login(&headers) else { return refused(&InvitationRefused::NoSecret.into()) };
    answer(
        "enrol",
        &read(&body)
            .and_then(|request| desk.with(|authority| authority.enrol(&secret.hash(), &user, &request, wall()))),
    )
}

async fn reenrol(
    State(desk): State<Arc<Desk>>,
    Extension(peer): Extension<Peer>,
    client: Option<Extension<ClientCertificate>>,
    body: Bytes,
) -> Response {
    if !desk.admits(peer) {
        return too_many();
    }
    let Some(Extension(ClientCertificate(client))) = client else {
        let words = "renewing needs the certificate that is to be renewed, as the client certificate of TLS\n";
        return (StatusCode::UNAUTHORIZED, words).into_response();
    };
    answer(
        "renew",
        &read(&body).and_then(|request| desk.with(|authority| authority.reenrol(&client, &request, wall()))),
    )
}

#[derive(Deserialize)]
struct Since {
    #[serde(default)]
    from: usize,
}

async fn register(State(desk): State<Arc<Desk>>, Query(since): Query<Since>) -> Response {
    match desk.with(|authority| authority.register()) {
        Ok(Some(register)) => axum::Json(register.since(since.from)).into_response(),
        Ok(None) => (StatusCode::NOT_FOUND, "no certificate is registered yet\n").into_response(),
        Err(error) => refused(&error),
    }
}

fn file(desk: &Desk, name: &str) -> Response {
    let path = desk.directory.join(name);
    if !path.exists() {
        return (StatusCode::NOT_FOUND, "there is none\n").into_response();
    }
    match files::read(&path) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/x-pem-file")], text.to_vec()).into_response(),
        Err(error) => refused(&error.into()),
    }
}

fn read(body: &[u8]) -> Result<Request, AuthorityError> {
    let der = est::decode(body).ok_or_else(|| {
        AuthorityError::Request(super::RequestError::Broken {
            from: "the body, which must be PKCS#10 in base64,".to_owned(),
        })
    })?;
    Ok(Request::parse(&der, "the request")?)
}

/// Returns the user name and the secret of a request.
fn login(headers: &HeaderMap) -> Option<(String, Secret)> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let text = zeroize::Zeroizing::new(String::from_utf8(BASE64.decode(text).ok()?).ok()?);
    let (user, secret) = text.split_once(':')?;
    Some((user.to_owned(), Secret::parse(secret)?))
}

fn answer(what: &'static str, outcome: &Result<Outcome, AuthorityError>) -> Response {
    match outcome {
        Ok(Outcome::Certificate(der)) => {
            info!(what, "answered with a certificate");
            let kind = [
                (header::CONTENT_TYPE, "application/pkcs7-mime; smime-type=certs-only"),
                (TRANSFER_ENCODING, "base64"),
            ];
            (kind, est::certificates(&[der])).into_response()
        }
        Ok(Outcome::Waiting) => {
            info!(what, "queued for the machine that signs");
            let words = "somebody signs this by hand; ask again later\n";
            (StatusCode::ACCEPTED, [(header::RETRY_AFTER, AGAIN_SECONDS)], words).into_response()
        }
        Err(error) => refused(error),
    }
}

fn refused(error: &AuthorityError) -> Response {
    let status = match error {
        AuthorityError::Invitation(
            InvitationRefused::NoSecret | InvitationRefused::Unknown | InvitationRefused::OtherMeter { .. },
        ) => StatusCode::UNAUTHORIZED,
        AuthorityError::Request(_) => StatusCode::BAD_REQUEST,
        AuthorityError::Invitation(InvitationRefused::Expired { .. } | InvitationRefused::Used)
        | AuthorityError::OtherName { .. }
        | AuthorityError::OtherKey(_)
        | AuthorityError::Certified { .. }
        | AuthorityError::TwoValid { .. }
        | AuthorityError::Full { .. }
        | AuthorityError::NothingToRenew(_)
        | AuthorityError::TooEarly { .. }
        | AuthorityError::Foreign(_)
        | AuthorityError::Denied(_)
        | AuthorityError::RefusedElsewhere(_) => StatusCode::FORBIDDEN,
        AuthorityError::File(_)
        | AuthorityError::None { .. }
        | AuthorityError::Certificate { .. }
        | AuthorityError::BesideGateway { .. }
        | AuthorityError::Size(_)
        | AuthorityError::Days(_)
        | AuthorityError::Reserved { .. }
        | AuthorityError::NoDrawKey { .. }
        | AuthorityError::NoReserved { .. }
        | AuthorityError::Register(_)
        | AuthorityError::Community(_) => {
            error!(%error, "cannot answer");
            let words = "the authority cannot answer now; whoever runs it finds the reason in its log\n";
            return (StatusCode::INTERNAL_SERVER_ERROR, words).into_response();
        }
    };
    warn!(%error, status = status.as_u16(), "refused");
    let mut response = (status, format!("{error}\n")).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let realm = header::HeaderValue::from_static("Basic realm=\"an invitation\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
    }
    response
}

fn too_many() -> Response {
    let words = "too many requests from this address; wait a minute\n";
    (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "60")], words).into_response()
}

/// A panic of another request leaves nothing half done: all that matters is in files.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
