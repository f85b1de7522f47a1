//! How connections to the database are made.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{StoreError, words};
use crate::config;
use crate::config::secrets::{self, SecretError};

/// Everything that a connection needs.
#[derive(Debug)]
pub(super) struct Link {
    config: Config,
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Link {
    pub(super) fn new(from: &config::Postgres) -> Result<Self, SecretError> {
        let mut config: Config = from.url.parse().expect("the configuration has checked the URL");
        if let Some(path) = &from.password_file {
            config.password(&*secrets::database_password(path)?);
        }
        let tls = from.ca.as_ref().map(|ca| secrets::database_tls(ca)).transpose()?;
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        config.application_name("dream-gateway").connect_timeout(Duration::from_secs(5));
        // A server that is gone without a word is noticed within these.
        config.keepalives_idle(Duration::from_secs(5)).tcp_user_timeout(Duration::from_secs(10));
        Ok(Self { config, tls })
    }

    /// Connects, and leaves what the connection does to a task that ends with the client.
    pub(super) async fn connect(&self) -> Result<Client, StoreError> {
        let client = match &self.tls {
            Some(tls) => {
                let (client, connection) =
                    self.config.connect(MakeRustlsConnect::new((**tls).clone())).await.map_err(words)?;
                tokio::spawn(connection);
                client
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await.map_err(words)?;
                tokio::spawn(connection);
                client
            }
        };
        // A gateway that freezes within a transaction must not keep its successor from taking over.
        client.batch_execute("set idle_in_transaction_session_timeout = '2s'").await.map_err(words)?;
        Ok(client)
    }
}
