//! How the home's own broker is reached.

use std::fmt;
use std::path::PathBuf;

use dream_edge::mqtt::{Acknowledges, BrokerUrl, Client, Credentials, Names};
use dream_edge::{files, tls};

use crate::config::{ConfigError, MqttConfig};

/// Messages of bridges are small; a larger one ends the connection.
const LARGEST_PACKET: usize = 256 << 10;

const KEEP_ALIVE_SECONDS: u16 = 20;

#[derive(Debug)]
pub(super) struct HomeBroker {
    url: BrokerUrl,
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
    pub(super) fn new(config: &MqttConfig) -> Result<Self, ConfigError> {
        let Some(url) = BrokerUrl::parse(&config.broker) else {
            // What stands before an `@` may be a password.
            let shown =
                if config.broker.contains('@') { "the value".to_owned() } else { format!("{:?}", config.broker) };
            let problem = format!(
                "{shown} is not a broker's address; use \"mqtt://HOST[:1883]\" or \"mqtts://HOST[:8883]\", and `username` and `password_file` for a login"
            );
            return Err(ConfigError::new("broker", problem));
        };
        match (url.tls, &config.ca) {
            (true, None) => {
                return Err(ConfigError::new(
                    "ca",
                    "is missing: mqtts:// needs the certificates that the home broker's is checked with",
                ));
            }
            (false, Some(_)) => {
                return Err(ConfigError::new("ca", "has no effect with mqtt://; use mqtts://, or leave it out"));
            }
            (true, Some(_)) | (false, None) => {}
        }
        let login = match (&config.username, &config.password_file) {
            (Some(username), password_file) => {
                Some(Login { username: username.clone(), password_file: password_file.clone() })
            }
            (None, Some(_)) => return Err(ConfigError::new("username", "is missing beside `password_file`")),
            (None, None) => None,
        };
        let client_id = config.client_id.clone().unwrap_or_else(|| "dream-meter".to_owned());
        Ok(Self { url, ca: config.ca.clone(), login, client_id })
    }

    /// Returns the client, which reads its files whenever it connects.
    pub(super) fn client(&self) -> Client {
        let (ca, login) = (self.ca.clone(), self.login.clone());
        Client {
            urls: vec![self.url.clone()],
            id: self.client_id.clone(),
            credentials: Box::new(move || {
                let ca = ca.as_ref().map(|ca| files::certificates(ca)).transpose()?;
                let tls = ca.map(|ca| tls::client(tls::roots(ca)?, None)).transpose()?;
                let password = login.as_ref().and_then(|login| login.password_file.as_ref());
                let password = password.map(|file| files::read(file)).transpose()?;
                let password = password.map(|text| files::password(&text)).unwrap_or_default();
                Ok(Credentials { tls, login: login.as_ref().map(|login| (login.username.clone(), password)) })
            }),
            persistent: false,
            last_will: None,
            keep_alive_seconds: KEEP_ALIVE_SECONDS,
            largest_packet: LARGEST_PACKET,
            cutting: None,
            acknowledges: Acknowledges::AtOnce,
            names: NAMES,
        }
    }
}

const NAMES: Names = Names {
    client: "this meter",
    url: "`source.broker`",
    ca: "`source.ca`",
    certificate: None,
    login: "`source.username`, `source.password_file`",
    is_another: "is another client",
    tell_apart: "Give one of them another `source.client_id`",
};

impl fmt::Display for HomeBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the home broker {}", self.url.address())
    }
}
