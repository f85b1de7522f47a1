//! A client of EST that knows the one server it trusts by its certificate.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::response::Parts;
use axum::http::{Method, Request, StatusCode, header};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use dream_edge::http::{self, Limits};
use dream_edge::tls;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use thiserror::Error;

use super::{CA_CERTIFICATES, ENROL, EnrolUrl, REENROL, read_certificates, wrapped};
use crate::identity::Identity;
use crate::invitation::{Fingerprint, Secret};

const LIMITS: Limits = Limits { patience: Duration::from_secs(30), body_bytes: 64 << 20 };

/// How long to wait for an answer that was put off without a time, and at most.
const AGAIN: u64 = 600;
const LONGEST: u64 = 86_400;

/// Why the authority could not be asked, or did not do what it was asked.
#[derive(Debug, Error)]
pub enum EstError {
    #[error("the authority at {url} cannot be reached: {why}; this goes on from here when you repeat it")]
    Unreachable { url: EnrolUrl, why: String },
    #[error(
        "whoever answers at {url} is not the authority of the invitation: its certificate has another fingerprint. Do not go on; ask \
         your community"
    )]
    Stranger { url: EnrolUrl },
    #[error("the authority refused: {0}")]
    Refused(String),
    #[error("the authority asks to wait for {seconds} s: too many requests")]
    TooMany { seconds: u64 },
    #[error("the authority's answer cannot be used: {0}; tell whoever runs it")]
    Unusable(&'static str),
}

/// What comes of a request for a certificate.
#[derive(Debug)]
pub enum Answer {
    /// In DER.
    Certificate(Vec<u8>),
    /// Somebody signs it by hand: ask again after so many seconds.
    Later { seconds: u64 },
}

/// One authority, as a meter asks it.
#[derive(Debug)]
pub struct Client {
    url: EnrolUrl,
    tls: Arc<ClientConfig>,
}

impl Client {
    /// A client of the server with this certificate, with the meter's own certificate if it has one.
    pub fn new(url: EnrolUrl, server: Fingerprint, identity: Option<&Identity>) -> Result<Self, rustls::Error> {
        let ours = identity.map(|identity| {
            let key = PrivatePkcs8KeyDer::from(identity.pkcs8().to_vec());
            (vec![CertificateDer::from(identity.certificate.clone())], key.into())
        });
        let tls = tls::client_of_known(move |found| Fingerprint::of(found) == server, ours)?;
        Ok(Self { url, tls })
    }

    /// Returns the certificates of the authority, in DER.
    pub async fn authorities(&self) -> Result<Vec<Vec<u8>>, EstError> {
        let body = self.get(CA_CERTIFICATES).await?;
        read_certificates(&body).ok_or(EstError::Unusable("no certificates of an authority"))
    }

    /// Asks with an invitation's secret.
    pub async fn enrol(&self, meter: &str, secret: &Secret, request: &[u8]) -> Result<Answer, EstError> {
        let login = BASE64.encode(format!("{meter}:{}", *secret.expose()));
        self.ask_for_certificate(ENROL, Some(format!("Basic {login}")), request).await
    }

    /// Asks with the certificate that is there.
    pub async fn renew(&self, request: &[u8]) -> Result<Answer, EstError> {
        self.ask_for_certificate(REENROL, None, request).await
    }

    async fn ask_for_certificate(&self, path: &str, login: Option<String>, request: &[u8]) -> Result<Answer, EstError> {
        let (head, body) = self.send(Method::POST, path, login.as_deref(), &wrapped(request)).await?;
        match head.status {
            StatusCode::OK => match read_certificates(&body) {
                Some(mut all) if all.len() == 1 => Ok(Answer::Certificate(all.swap_remove(0))),
                Some(_) | None => Err(EstError::Unusable("no single certificate")),
            },
            StatusCode::ACCEPTED => Ok(Answer::Later { seconds: seconds(&head) }),
            _ => Err(refusal(&head, &body)),
        }
    }

    /// Returns a document.
    pub async fn get(&self, path: &str) -> Result<Vec<u8>, EstError> {
        let (head, body) = self.send(Method::GET, path, None, "").await?;
        if head.status == StatusCode::OK { Ok(body) } else { Err(refusal(&head, &body)) }
    }

    /// Asks at each address of the authority's name until one answers.
    async fn send(
        &self,
        method: Method,
        path: &str,
        login: Option<&str>,
        body: &str,
    ) -> Result<(Parts, Vec<u8>), EstError> {
        let EnrolUrl { host, port } = &self.url;
        let unreachable = |why: String| EstError::Unreachable { url: self.url.clone(), why };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned()).map_err(|error| unreachable(error.to_string()))?;
        let tls = (self.tls.clone(), name);
        let found = tokio::net::lookup_host((bare, *port)).await.map_err(|error| unreachable(error.to_string()))?;
        let mut trouble = "its name has no address".to_owned();
        for address in found {
            let mut request = Request::builder().method(method.clone()).uri(path);
            request = request.header(header::HOST, format!("{host}:{port}"));
            if method == Method::POST {
                request = request.header(header::CONTENT_TYPE, "application/pkcs10");
            }
            if let Some(login) = login {
                request = request.header(header::AUTHORIZATION, login);
            }
            let request = request.body(Body::from(body.to_owned())).map_err(|error| unreachable(error.to_string()))?;
            match http::send(address, Some(&tls), request, LIMITS).await {
                Ok(answer) => return Ok(answer),
                Err(why) if why.contains("invalid peer certificate") => {
                    return Err(EstError::Stranger { url: self.url.clone() });
                }
                Err(why) => trouble = why,
            }
        }
        Err(unreachable(trouble))
    }
}

fn seconds(head: &Parts) -> u64 {
    let stated = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    stated.unwrap_or(AGAIN).clamp(1, LONGEST)
}

/// Says in the authority's words why it refuses: one line of text, and not too long.
fn refusal(head: &Parts, body: &[u8]) -> EstError {
    if head.status == StatusCode::TOO_MANY_REQUESTS {
        return EstError::TooMany { seconds: seconds(head) };
    }
    let text = String::from_utf8_lossy(body);
    let line: String = text.chars().filter(|char| !char.is_control()).take(500).collect();
    EstError::Refused(if line.trim().is_empty() { head.status.to_string() } else { line.trim().to_owned() })
}
