//! A client for one question to a server nearby: HTTP/1.1 on a connection of its own, without TLS or, to a gateway, with it.
//!
//! [`get`] blocks. What asks from a runtime does so on a thread where that is allowed.

mod post;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::response::Parts;
use axum::http::{Request, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use post::Poster;

/// What an answer may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the first packet to the last.
    pub patience: Duration,
    pub body_bytes: u64,
}

/// One question to a gateway.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    pub address: SocketAddr,
    pub path: &'a str,
    /// What goes after `Bearer`.
    pub token: Option<&'a str>,
    /// With TLS: how, and under which name the server is expected to be certified.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Question<'_> {
    /// Asks. Returns the status and the body, whatever the status is; the error says what is wrong.
    pub async fn ask(&self, limits: Limits) -> Result<(u16, Vec<u8>), String> {
        let answer = tokio::time::timeout(limits.patience, self.exchange(limits.body_bytes)).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {} s", limits.patience.as_secs())))
    }

    async fn exchange(&self, most: u64) -> Result<(u16, Vec<u8>), String> {
        let mut request = Request::get(self.path).header(header::HOST, self.address.to_string());
        if let Some(token) = self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Body::empty()).map_err(|error| error.to_string())?;
        let (head, body) = exchange(self.address, self.tls.as_ref(), request, most).await?;
        Ok((head.status.as_u16(), body))
    }
}

/// Sends any request, on a connection of its own; returns the answer's head and body, whatever its status is.
pub async fn send(
    address: SocketAddr,
    tls: Option<&(Arc<ClientConfig>, ServerName<'static>)>,
    request: Request<Body>,
    limits: Limits,
) -> Result<(Parts, Vec<u8>), String> {
    let answer = tokio::time::timeout(limits.patience, exchange(address, tls, request, limits.body_bytes)).await;
    answer.unwrap_or_else(|_| Err(format!("no answer within {} s", limits.patience.as_secs())))
}

async fn exchange(
    address: SocketAddr,
    tls: Option<&(Arc<ClientConfig>, ServerName<'static>)>,
    request: Request<Body>,
    most: u64,
) -> Result<(Parts, Vec<u8>), String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = match tls {
        None => {
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| cause(&error))?;
            (sender, tokio::spawn(async move { drop(connection.await) }))
        }
        Some((config, name)) => {
            let stream = TlsConnector::from(config.clone()).connect(name.clone(), stream).await;
            let stream = stream.map_err(|error| format!("TLS: {error}"))?;
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| cause(&error))?;
            (sender, tokio::spawn(async move { drop(connection.await) }))
        }
    };
    let answer = sender.send_request(request).await.map_err(|error| cause(&error))?;
    let (head, body) = answer.into_parts();
    let body = to_bytes(Body::new(body), usize::try_from(most).unwrap_or(usize::MAX)).await;
    connection.abort();
    Ok((head, body.map_err(|error| error.to_string())?.to_vec()))
}

fn cause(error: &hyper::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Asks for a document. Returns the status and the body, whatever the status is; the error says what is wrong.
pub fn get(url: &str, limits: Limits) -> Result<(u16, Vec<u8>), String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(limits.patience))
        .http_status_as_error(false)
        .max_redirects(0)
        // The environment's proxy is for the Internet.
        .proxy(None)
        .max_idle_connections(0)
        .user_agent(concat!("dream/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let ask = || {
        let mut answer = agent.get(url).call()?;
        let body = answer.body_mut().with_config().limit(limits.body_bytes).read_to_vec()?;
        Ok((answer.status().as_u16(), body))
    };
    ask().map_err(|error: ureq::Error| {
        let late = matches!(error, ureq::Error::Timeout(_));
        let text = error.to_string();
        let reason = text.strip_prefix("io: ").unwrap_or(&text);
        if late { format!("no answer within {} s", limits.patience.as_secs()) } else { reason.to_owned() }
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    const LIMITS: Limits = Limits { patience: Duration::from_secs(10), body_bytes: 1000 };

    /// Returns what comes of an answer, after which the server hangs up.
    fn taken(answer: &str) -> Result<(u16, Vec<u8>), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/data", listener.local_addr().unwrap());
        let answer = answer.to_owned();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 1000];
            let length = stream.read(&mut question).unwrap();
            assert!(question[..length].starts_with(b"GET /data HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let taken = get(&url, LIMITS);
        server.join().unwrap();
        taken
    }

    #[test]
    fn a_document_is_taken_out_of_an_answer() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}\r\n",
            "HTTP/1.0 200 OK\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        ] {
            assert_eq!(taken(answer).unwrap(), (200, b"{}".to_vec()), "{answer}");
        }
        assert_eq!(taken("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").unwrap().0, 403);
        assert_eq!(taken("HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n").unwrap().0, 302);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let long = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1001));
        for answer in [
            "nonsense\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nx",
            "",
            &long,
        ] {
            let problem = taken(answer).unwrap_err();
            assert!(!problem.is_empty(), "{answer}");
        }
    }
}
