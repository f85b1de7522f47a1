//! How the home's own broker is reached.

use std::fmt;
use std::path::PathBuf;

use dream_edge::config::Section;
use dream_edge::mqtt::{Acknowledges, BrokerUrl, Client, Credentials, Names};
use dream_edge::{files, tls};

/// Messages of bridges are small; a larger one ends the connection.
const LARGEST_PACKET: usize = 256 << 10;

const KEEP_ALIVE_SECONDS: u16 = 20;

#[derive(Debug, Clone)]
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
    pub(super) fn read(section: &Section<'_>) -> Option<Self> {
        let url = section.key("broker").required("\"mqtt://192.168.1.2\"").parsed(|url| {
            BrokerUrl::parse(url).ok_or(
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
        let url = url?;
        match (url.tls, section.has("ca")) {
            (true, false) => section.missing("ca", "mqtts:// needs the CA certificates that verify the home's broker"),
            (false, true) => section.wrong("ca", "has no effect with mqtt://; use mqtts://, or leave it out"),
            (true, true) | (false, false) => {}
        }
        Some(Self { url, ca, login, client_id })
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
