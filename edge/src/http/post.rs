//! A client that posts to one server again and again, on a connection that it keeps.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderName, HeaderValue, Request, header};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Limits, cause};

/// Posts to one address of a server.
#[derive(Debug)]
pub struct Poster {
    host: String,
    port: u16,
    path: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    connection: Option<SendRequest<Body>>,
}

impl Poster {
    /// Makes a client, with TLS if it is told how; the error says why a host cannot be certified.
    pub fn new(host: &str, port: u16, path: &str, tls: Option<Arc<ClientConfig>>) -> Result<Self, String> {
        let name = |config| {
            let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
            name.map(|name| (config, name)).map_err(|error| format!("{host}: {error}"))
        };
        let tls = tls.map(name).transpose()?;
        Ok(Self { host: host.to_owned(), port, path: path.to_owned(), tls, connection: None })
    }

    /// Posts. Returns the status and the body, whatever the status is; the error says what is wrong.
    pub async fn post(
        &mut self,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
        limits: Limits,
    ) -> Result<(u16, Vec<u8>), String> {
        let posted = tokio::time::timeout(limits.patience, self.exchange(headers, body, limits.body_bytes)).await;
        let posted = posted.unwrap_or_else(|_| Err(format!("no answer within {} s", limits.patience.as_secs())));
        if posted.is_err() {
            self.connection = None;
        }
        posted
    }

    async fn exchange(
        &mut self,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
        most: u64,
    ) -> Result<(u16, Vec<u8>), String> {
        let mut kept = self.connection.take();
        // A server may have closed it meanwhile.
        if let Some(connection) = &mut kept
            && connection.ready().await.is_err()
        {
            kept = None;
        }
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut request = Request::post(&self.path).header(header::HOST, format!("{}:{}", self.host, self.port));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(body)).map_err(|error| error.to_string())?;
        let answer = connection.send_request(request).await.map_err(|error| cause(&error))?;
        let status = answer.status().as_u16();
        let body = to_bytes(Body::new(answer.into_body()), usize::try_from(most).unwrap_or(usize::MAX)).await;
        let body = body.map_err(|error| error.to_string())?.to_vec();
        self.connection = Some(connection);
        Ok((status, body))
    }

    async fn connect(&self) -> Result<SendRequest<Body>, String> {
        let host = self.host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, self.port)).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        match &self.tls {
            None => {
                let (sender, connection) =
                    http1::handshake(TokioIo::new(stream)).await.map_err(|error| cause(&error))?;
                tokio::spawn(async move { drop(connection.await) });
                Ok(sender)
            }
            Some((config, name)) => {
                let stream = TlsConnector::from(config.clone()).connect(name.clone(), stream).await;
                let stream = stream.map_err(|error| format!("TLS: {error}"))?;
                let (sender, connection) =
                    http1::handshake(TokioIo::new(stream)).await.map_err(|error| cause(&error))?;
                tokio::spawn(async move { drop(connection.await) });
                Ok(sender)
            }
        }
    }
}
