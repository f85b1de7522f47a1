//! How a broker is reached: a socket, TLS over it, and packets cut that are too large.

use std::future::Future;
use std::io;
use std::sync::Arc;

use rumqttc::NetworkOptions;
use rumqttc::tokio_rustls::TlsConnector;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};

use super::cut::Cut;
use super::socket::Socket;
use super::{BrokerUrl, Cutting};

/// Opens a stream of bytes to a broker: over TCP, or in memory in tests.
pub(super) trait Dial: Clone + Send + Sync + 'static {
    type Stream: Stream + 'static;

    fn dial(&self, url: &BrokerUrl, network: NetworkOptions) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Anything that carries bytes both ways.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for S {}

#[derive(Debug, Clone, Copy)]
pub(super) struct Tcp;

impl Dial for Tcp {
    type Stream = Socket;

    async fn dial(&self, url: &BrokerUrl, network: NetworkOptions) -> io::Result<Socket> {
        Socket::connect(url.address(), network).await
    }
}

/// Connects. TLS is made here, because what is cut has to be decrypted first.
pub(super) async fn connect(
    dial: impl Dial,
    url: BrokerUrl,
    network: NetworkOptions,
    tls: Option<Arc<rustls::ClientConfig>>,
    cutting: Option<(usize, Cutting)>,
) -> io::Result<Box<dyn Stream>> {
    let stream = dial.dial(&url, network).await?;
    let Some(tls) = tls else { return Ok(cut(stream, cutting)) };
    let name = ServerName::try_from(url.host).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(cut(TlsConnector::from(tls).connect(name, stream).await?, cutting))
}

fn cut(stream: impl Stream + 'static, cutting: Option<(usize, Cutting)>) -> Box<dyn Stream> {
    match cutting {
        Some((limit, cutting)) => Box::new(Cut::new(stream, limit, cutting)),
        None => Box::new(stream),
    }
}
