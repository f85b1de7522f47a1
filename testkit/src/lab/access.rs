//! How a test's client reaches a broker.

use std::path::PathBuf;

use rumqttc::{MqttOptions, TlsConfiguration, Transport};

/// The largest packet that is normal in tests.
pub const MAX_PACKET: usize = 16 << 20;

/// Where a broker listens on the loopback, and what it asks of its clients.
#[derive(Debug, Clone)]
pub struct Access {
    pub port: u16,
    /// A directory with `gateway-authority.pem`, and the name of the client's certificate and key in it.
    pub tls: Option<(PathBuf, String)>,
    /// A user name and its password.
    pub login: Option<(String, String)>,
}

impl Access {
    /// Access for anyone, in the clear.
    pub fn open(port: u16) -> Self {
        Self { port, tls: None, login: None }
    }

    /// Returns the broker's address, as a configuration names it.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "mqtts" } else { "mqtt" };
        format!("{scheme}://localhost:{}", self.port)
    }

    /// Returns the options with which the client of this id connects.
    pub fn options(&self, client: &str) -> MqttOptions {
        let mut options = MqttOptions::new(client, ("localhost", self.port));
        options.set_keep_alive(10).set_max_packet_size(MAX_PACKET, MAX_PACKET);
        if let Some((username, password)) = &self.login {
            options.set_credentials(username.clone(), password.clone());
        }
        if let Some((directory, name)) = &self.tls {
            let file = |name: &str| std::fs::read(directory.join(name)).unwrap();
            let client_auth = Some((file(&format!("{name}.pem")), file(&format!("{name}.key"))));
            let tls = TlsConfiguration::Simple { ca: file("gateway-authority.pem"), alpn: None, client_auth };
            options.set_transport(Transport::Tls(tls));
        }
        options
    }
}
