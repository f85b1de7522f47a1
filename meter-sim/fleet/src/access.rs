//! How to reach a broker: its address, and the client's certificate or password.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use dream_edge::files::{self, FileError};
use dream_edge::mqtt::{BrokerUrl, Client, Credentials, Names};
use dream_edge::tls;
use rustls::RootCertStore;
use thiserror::Error;

/// The arguments that name a broker. Flatten them behind a command's own arguments: they begin a heading.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Broker")]
pub struct BrokerArgs {
    /// The broker: `mqtt://HOST[:1883]`, or `mqtts://HOST[:8883]` for TLS. Several are tried in turn
    #[arg(long, value_name = "URL")]
    pub broker: Vec<String>,
    /// The CA certificates that verify the broker, in PEM; for mqtts://
    #[arg(long, value_name = "FILE", requires = "broker")]
    pub ca: Option<PathBuf>,
    /// The client certificate for the broker, in PEM. Meters of a directory use their own; this one is then for the
    /// observer
    #[arg(long, value_name = "FILE", requires_all = ["broker", "client_key"])]
    pub client_certificate: Option<PathBuf>,
    /// The key of the client's certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub client_key: Option<PathBuf>,
    /// The user name for the broker
    #[arg(long, value_name = "NAME", requires = "broker")]
    pub username: Option<String>,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE", requires = "username")]
    pub password_file: Option<PathBuf>,
}

impl BrokerArgs {
    /// Returns the broker that was named, if any, and reads the files. `default_ca` stands in for a missing `--ca`.
    pub fn access(&self, default_ca: Option<&Path>) -> Result<Option<Access>, AccessError> {
        let Some(first) = self.broker.first() else { return Ok(None) };
        let client = self.client_certificate.as_deref().zip(self.client_key.as_deref());
        let login = self.username.as_deref().map(|name| (name, self.password_file.as_deref()));
        let default_ca = default_ca.filter(|_| first.starts_with("mqtts://"));
        Access::parse(&self.broker, self.ca.as_deref().or(default_ca), client, login).map(Some)
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
        "--ca is missing: mqtts:// needs the CA certificates that verify the broker, such as the \
         gateway-authority.pem of `meter-sim provision`"
    )]
    NoCa,
    #[error("{0} has no effect with mqtt://; use mqtts://, or leave it out")]
    NotTls(&'static str),
    #[error("--broker: mqtt:// and mqtts:// are mixed; use one of them for all")]
    Mixed,
    #[error("--password-file: {0}")]
    Password(FileError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot set up TLS to the broker: {reason}")]
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
    /// In the order in which they are tried: all with TLS, or none.
    urls: Vec<BrokerUrl>,
    roots: Option<Arc<RootCertStore>>,
    credentials: Credentials,
}

impl Access {
    /// Returns access without TLS and without a login.
    pub fn open(host: impl Into<String>, port: u16) -> Self {
        let url = BrokerUrl { tls: false, host: host.into(), port };
        Self { urls: vec![url], roots: None, credentials: Credentials::default() }
    }

    /// Builds access from URLs, at least one, the file with the broker's authorities, a client's certificate and key, and a user name with the file of
    /// its password.
    pub fn parse(
        urls: &[impl AsRef<str>],
        ca: Option<&Path>,
        client: Option<(&Path, &Path)>,
        login: Option<(&str, Option<&Path>)>,
    ) -> Result<Self, AccessError> {
        let parsed = urls.iter().map(|url| {
            let url = url.as_ref();
            // What stands before an `@` may be a password.
            let shown = || if url.contains('@') { "the value".to_owned() } else { format!("`{url}`") };
            BrokerUrl::parse(url).ok_or_else(|| AccessError::Url(shown()))
        });
        let urls = parsed.collect::<Result<Vec<_>, _>>()?;
        let is_tls = urls.iter().any(|url| url.tls);
        if is_tls && !urls.iter().all(|url| url.tls) {
            return Err(AccessError::Mixed);
        }
        let roots = match (is_tls, ca, client) {
            (true, Some(ca), _) => Some(tls::roots(files::certificates(ca)?)?),
            (true, None, _) => return Err(AccessError::NoCa),
            (false, Some(_), _) => return Err(AccessError::NotTls("--ca")),
            (false, None, Some(_)) => return Err(AccessError::NotTls("--client-certificate")),
            (false, None, None) => None,
        };
        let login = login.map(|(name, file)| Credentials::login(name, file)).transpose();
        let login = login.map_err(AccessError::Password)?;
        let access = Self { urls, roots, credentials: Credentials { tls: None, login } };
        access.showing(client)
    }

    /// Returns access to the same broker with another client certificate. Without TLS it changes nothing.
    pub fn with_client(&self, certificate: &Path, key: &Path) -> Result<Self, AccessError> {
        self.clone().showing(Some((certificate, key)))
    }

    fn showing(mut self, client: Option<(&Path, &Path)>) -> Result<Self, AccessError> {
        if let Some(roots) = &self.roots {
            let client = client.map(|(certificate, key)| {
                Ok::<_, FileError>((files::certificates(certificate)?, files::private_key(key)?))
            });
            self.credentials.tls = Some(tls::client(roots.clone(), client.transpose()?)?);
        }
        Ok(self)
    }

    pub const fn is_tls(&self) -> bool {
        self.roots.is_some()
    }

    /// Returns one client, whose session may outlive its connections.
    pub fn client(&self, id: impl Into<String>, persistent: bool) -> Client {
        Client { persistent, ..Client::new(self.urls.clone(), id, self.credentials.clone(), NAMES) }
    }
}

const NAMES: Names = Names {
    client: "the simulated meters",
    url: "--broker",
    ca: "--ca",
    certificate: Some(("--client-certificate", "--client-key")),
    login: "--username, --password-file",
    is_another: "is another client",
    tell_apart: "Stop it: a directory of meters runs once",
};

impl fmt::Display for Access {
    /// The addresses, and nothing of a login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<String> = self.urls.iter().map(ToString::to_string).collect();
        f.write_str(&urls.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_not_repeated() {
        let error = Access::parse(&["mqtt://me:hunter2@broker"], None, None, None).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn what_needs_tls_is_refused_without_it_and_demanded_with_it() {
        let ca = Some(Path::new("gateway-authority.pem"));
        assert!(matches!(Access::parse(&["mqtt://broker"], ca, None, None), Err(AccessError::NotTls("--ca"))));
        assert!(matches!(Access::parse(&["mqtts://broker"], None, None, None), Err(AccessError::NoCa)));
        let mixed = Access::parse(&["mqtts://broker", "mqtt://broker"], ca, None, None);
        assert!(matches!(mixed, Err(AccessError::Mixed)));
        assert!(matches!(Access::parse(&["mqtts://broker"], ca, None, None), Err(AccessError::File(_))));
    }

    #[test]
    fn an_access_prints_its_address_and_never_its_password() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "hunter2\nsecond line\n").unwrap();
        let access = Access::parse(&["mqtt://[::1]:1883", "mqtt://b"], None, None, Some(("me", Some(&file)))).unwrap();
        assert_eq!(access.to_string(), "mqtt://[::1]:1883, mqtt://b:1883");
        assert!(!format!("{access:?}").contains("hunter2"));
    }
}
