//! How to reach a broker: its address, and the client's certificate or password.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use dream_protocol::broker_address::broker_address;
use rumqttc::{MqttOptions, TlsConfiguration, Transport};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::pem::{self, PemError};

/// The largest packet that is normal: a list of 10,000 members has up to 7 MB.
const MAX_PACKET: usize = 16 << 20;

const KEEP_ALIVE_SECONDS: u16 = 10;

/// The arguments that name a broker. Flatten them behind a command's own arguments: they begin a heading.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Broker")]
pub struct BrokerArgs {
    /// The broker: `mqtt://HOST[:1883]`, or `mqtts://HOST[:8883]` for TLS
    #[arg(long, value_name = "URL")]
    pub broker: Option<String>,
    /// The certificates that a broker's is checked with, in PEM; for mqtts://
    #[arg(long, value_name = "FILE", requires = "broker")]
    pub ca: Option<PathBuf>,
    /// A client's certificate for the broker, in PEM. Meters of a directory show their own: there it is for whoever watches
    #[arg(long, value_name = "FILE", requires_all = ["broker", "client_key"])]
    pub client_certificate: Option<PathBuf>,
    /// The key of the client's certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub client_key: Option<PathBuf>,
    /// The user name at the broker
    #[arg(long, value_name = "NAME", requires = "broker")]
    pub username: Option<String>,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE", requires = "username")]
    pub password_file: Option<PathBuf>,
}

impl BrokerArgs {
    /// Returns the broker that was named, if any, and reads the files. `default_ca` stands in for a missing `--ca`.
    pub fn access(&self, default_ca: Option<&Path>) -> Result<Option<Access>, AccessError> {
        let Some(url) = &self.broker else { return Ok(None) };
        let client = self.client_certificate.as_deref().zip(self.client_key.as_deref());
        let login = self.username.as_deref().map(|name| (name, self.password_file.as_deref()));
        let default_ca = default_ca.filter(|_| url.starts_with("mqtts://"));
        Access::parse(url, self.ca.as_deref().or(default_ca), client, login).map(Some)
    }
}

/// Why a broker cannot be reached as it was described.
#[derive(Debug, Error)]
pub enum AccessError {
    #[error(
        "--broker: {0} is not a broker's address; use mqtt://HOST[:1883] or mqtts://HOST[:8883], and --username and --password-file for a login"
    )]
    Url(String),
    #[error(
        "--ca is missing: mqtts:// needs the certificates that the broker's is checked with, such as the gateway-authority.pem of `meter-sim provision`"
    )]
    NoCa,
    #[error("{0} has no effect with mqtt://; use mqtts://, or leave it out")]
    NotTls(&'static str),
    #[error(transparent)]
    Pem(#[from] PemError),
    #[error("--password-file: {} cannot be read: {error}", path.display())]
    Password { path: PathBuf, error: std::io::Error },
    #[error("TLS towards the broker cannot be set up: {reason}")]
    Tls { reason: rustls::Error },
}

impl From<rustls::Error> for AccessError {
    fn from(reason: rustls::Error) -> Self {
        Self::Tls { reason }
    }
}

/// A broker, and what is shown to it.
#[derive(Debug, Clone)]
pub struct Access {
    host: String,
    port: u16,
    tls: Option<Tls>,
    login: Option<(String, Secret)>,
}

#[derive(Debug, Clone)]
struct Tls {
    roots: Arc<RootCertStore>,
    config: Arc<rustls::ClientConfig>,
}

/// A password, which never prints.
#[derive(Clone)]
struct Secret(Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

impl Access {
    /// Returns access without TLS and without a login.
    pub fn open(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port, tls: None, login: None }
    }

    /// Builds access from a URL, the file with the broker's authorities, a client's certificate and key, and a user name with the file of
    /// its password.
    pub fn parse(
        url: &str,
        ca: Option<&Path>,
        client: Option<(&Path, &Path)>,
        login: Option<(&str, Option<&Path>)>,
    ) -> Result<Self, AccessError> {
        // What stands before an `@` may be a password.
        let shown = || if url.contains('@') { "the value".to_owned() } else { format!("`{url}`") };
        let (tls, host, port) = broker_address(url).ok_or_else(|| AccessError::Url(shown()))?;
        let tls = match (tls, ca, client) {
            (true, Some(ca), client) => {
                let roots = Arc::new(roots(ca)?);
                let client = client.map(|(certificate, key)| client_files(certificate, key)).transpose()?;
                Some(Tls { config: client_config(&roots, client)?, roots })
            }
            (true, None, _) => return Err(AccessError::NoCa),
            (false, Some(_), _) => return Err(AccessError::NotTls("--ca")),
            (false, None, Some(_)) => return Err(AccessError::NotTls("--client-certificate")),
            (false, None, None) => None,
        };
        let login = match login {
            None => None,
            Some((name, file)) => Some((name.to_owned(), password(file)?)),
        };
        Ok(Self { host, port, tls, login })
    }

    /// Returns access to the same broker with another client certificate. Without TLS it changes nothing.
    pub fn with_client(&self, certificate: &Path, key: &Path) -> Result<Self, AccessError> {
        let mut access = self.clone();
        if let Some(tls) = &mut access.tls {
            tls.config = client_config(&tls.roots, Some(client_files(certificate, key)?))?;
        }
        Ok(access)
    }

    pub const fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the options of one client. The caller decides whether its session outlives the connection.
    pub fn options(&self, client_id: &str) -> MqttOptions {
        let mut options = MqttOptions::new(client_id, (self.host.clone(), self.port));
        options.set_keep_alive(KEEP_ALIVE_SECONDS).set_max_packet_size(MAX_PACKET, MAX_PACKET);
        if let Some((name, Secret(password))) = &self.login {
            options.set_credentials(name.clone(), password.to_vec());
        }
        if let Some(tls) = &self.tls {
            options.set_transport(Transport::Tls(TlsConfiguration::Rustls(tls.config.clone())));
        }
        options
    }
}

impl fmt::Display for Access {
    /// The address, and nothing of a login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls() { "mqtts" } else { "mqtt" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "{scheme}://{host}:{}", self.port)
    }
}

fn roots(ca: &Path) -> Result<RootCertStore, AccessError> {
    let mut roots = RootCertStore::empty();
    for root in pem::certificates(ca)? {
        roots.add(root)?;
    }
    Ok(roots)
}

type Client = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn client_files(certificate: &Path, key: &Path) -> Result<Client, AccessError> {
    Ok((pem::certificates(certificate)?, pem::private_key(key)?))
}

fn client_config(roots: &Arc<RootCertStore>, client: Option<Client>) -> Result<Arc<rustls::ClientConfig>, AccessError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots.clone());
    Ok(Arc::new(match client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
    }))
}

/// Returns the file's first line, or an empty password without a file.
fn password(file: Option<&Path>) -> Result<Secret, AccessError> {
    let Some(path) = file else { return Ok(Secret(Zeroizing::default())) };
    let text = std::fs::read(path).map_err(|error| AccessError::Password { path: path.to_owned(), error })?;
    let text = Zeroizing::new(text);
    let line = text.split(|&byte| byte == b'\n' || byte == b'\r').next().unwrap_or_default();
    Ok(Secret(Zeroizing::new(line.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_not_repeated() {
        let error = Access::parse("mqtt://me:hunter2@broker", None, None, None).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn what_needs_tls_is_refused_without_it_and_demanded_with_it() {
        let ca = Some(Path::new("gateway-authority.pem"));
        assert!(matches!(Access::parse("mqtt://broker", ca, None, None), Err(AccessError::NotTls("--ca"))));
        assert!(matches!(Access::parse("mqtts://broker", None, None, None), Err(AccessError::NoCa)));
        assert!(matches!(Access::parse("mqtts://broker", ca, None, None), Err(AccessError::Pem(_))));
    }

    #[test]
    fn an_access_prints_its_address_and_never_its_password() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "hunter2\nsecond line\n").unwrap();
        let access = Access::parse("mqtt://[::1]:1883", None, None, Some(("me", Some(&file)))).unwrap();
        assert_eq!(access.to_string(), "mqtt://[::1]:1883");
        assert!(!format!("{access:?}").contains("hunter2"));
    }
}
