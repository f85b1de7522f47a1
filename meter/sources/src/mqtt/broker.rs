//! How the home's own broker is reached.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dream_edge::config::Section;
use dream_protocol::broker_address::broker_address;
use rumqttc::{MqttOptions, TlsConfiguration, Transport};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Messages of bridges are small; a larger one ends the connection.
const LARGEST_PACKET: usize = 256 << 10;

const KEEP_ALIVE_SECONDS: u16 = 20;

#[derive(Debug, Clone)]
pub(super) struct HomeBroker {
    host: String,
    port: u16,
    ca: Option<PathBuf>,
    login: Option<Login>,
    client_id: String,
}

#[derive(Clone)]
struct Login {
    username: String,
    password_file: Option<PathBuf>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

impl HomeBroker {
    pub(super) fn read(section: &Section<'_>) -> Option<Self> {
        let url = section.key("broker").required("\"mqtt://192.168.1.2\"").parsed(|url| {
            broker_address(url).ok_or(
                "not a broker's address; use mqtt://HOST[:1883] or mqtts://HOST[:8883], and `username` and `password_file` for a login",
            )
        });
        let ca = section.key("ca").text().map(PathBuf::from);
        let username = section.key("username").text();
        let password_file = section.key("password_file").text().map(PathBuf::from);
        let client_id = section.key("client_id").text().unwrap_or_else(|| "dream-meter".to_owned());
        if password_file.is_some() && username.is_none() {
            section.missing("username", "`password_file` needs a user name");
        }
        let login = username.map(|username| Login { username, password_file });
        let (is_tls, host, port) = url?;
        match (is_tls, section.has("ca")) {
            (true, false) => {
                section.missing("ca", "mqtts:// needs the certificates that the home broker's is checked with")
            }
            (false, true) => section.wrong("ca", "has no effect with mqtt://; use mqtts://, or leave it out"),
            (true, true) | (false, false) => {}
        }
        Some(Self { host, port, ca, login, client_id })
    }

    pub(super) fn options(&self) -> Result<MqttOptions, String> {
        let mut options = MqttOptions::new(self.client_id.clone(), (self.host.clone(), self.port));
        options
            .set_keep_alive(KEEP_ALIVE_SECONDS)
            .set_clean_session(true)
            .set_max_packet_size(LARGEST_PACKET, LARGEST_PACKET);
        if let Some(login) = &self.login {
            let password = login.password_file.as_deref().map(first_line).transpose()?.unwrap_or_default();
            options.set_credentials(login.username.clone(), password);
        }
        if let Some(ca) = &self.ca {
            options.set_transport(Transport::Tls(tls(ca)?));
        }
        Ok(options)
    }
}

fn first_line(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("`source.password_file`, {}: {error}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn tls(ca: &Path) -> Result<TlsConfiguration, String> {
    let problem = |error: &dyn fmt::Display| format!("`source.ca`, {}: {error}", ca.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).map_err(|error| problem(&error))? {
        let certificate = certificate.map_err(|error| problem(&error))?;
        roots.add(certificate).map_err(|error| problem(&error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| problem(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConfiguration::Rustls(Arc::new(config)))
}

impl fmt::Display for HomeBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the home broker {}:{}", self.host, self.port)
    }
}
