//! How brokers are reached.
//!
//! The community's broker and the home's have connections of their own, even if they are one: what is said to the home cannot
//! end up on the other by a mistake in a topic.

use dream_edge::files::{self, FileError};
use dream_edge::mqtt::{Acknowledges, Client, Connection, Credentials, Names};
use dream_edge::tls;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::config::Broker;

/// Why a broker cannot be reached as it is configured.
#[derive(Debug, Error)]
pub enum AccessError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot set up TLS to {address}: {error}")]
    Tls { address: String, error: rustls::Error },
}

/// A broker, and what is shown to it.
#[derive(Debug, Clone)]
pub struct Access {
    broker: Broker,
    credentials: Credentials,
    persistent: bool,
}

/// A client's certificate in DER, and its key.
pub type ClientCertificate<'a> = (&'a [u8], Zeroizing<Vec<u8>>);

impl Access {
    /// Reads the files that it takes; with TLS, the client's certificate is shown to the broker.
    pub fn new(broker: &Broker, client: Option<ClientCertificate<'_>>) -> Result<Self, AccessError> {
        let trouble = |error| AccessError::Tls { address: broker.to_string(), error };
        let tls = match &broker.ca {
            None => None,
            Some(ca) => {
                let roots = tls::roots(files::certificates(ca)?).map_err(trouble)?;
                let client = client.map(|(certificate, key)| {
                    let chain = vec![CertificateDer::from(certificate.to_vec())];
                    (chain, PrivateKeyDer::Pkcs8(key.to_vec().into()))
                });
                Some(tls::client(roots, client).map_err(trouble)?)
            }
        };
        let login = broker.login.as_ref().map(|(name, file)| Credentials::login(name, file.as_deref())).transpose()?;
        Ok(Self { broker: broker.clone(), credentials: Credentials { tls, login }, persistent: false })
    }

    /// Lets the broker keep what it has for this client while it is away.
    #[must_use]
    pub fn persistent(self) -> Self {
        Self { persistent: true, ..self }
    }

    /// Connects. The last will is a topic and what the broker says there, retained, when the connection is lost.
    pub fn connect(self, client_id: String, last_will: Option<(String, &'static str)>) -> Connection {
        let Self { broker, credentials, persistent } = self;
        let client = Client::new(broker.urls, client_id, credentials, broker.names);
        Client { persistent, last_will, acknowledges: Acknowledges::Later, ..client }.start()
    }
}

/// What the settings of the community's broker are called.
pub const COMMUNITY: Names = Names {
    client: "this meter",
    url: "`community.url`",
    ca: "`community.ca`",
    certificate: Some(("`identity.certificate`", "`identity.key`")),
    login: "`community.username`, `community.password_file`",
    is_another: "is another meter",
    tell_apart: "Stop it: each meter has its own certificate, and runs once",
};

/// What those of the home's own broker are called.
pub const HOME: Names = Names {
    url: "`home.url`",
    ca: "`home.ca`",
    certificate: None,
    login: "`home.username`, `home.password_file`",
    ..COMMUNITY
};
