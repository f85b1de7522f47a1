//! The files that HTTP needs: certificate and key, users and tokens. They are read again when they change, since those who renew
//! certificates and secrets (cert-manager, an external secret) send no signal.

use std::sync::Arc;
use std::time::Duration;

use dream_edge::serve::Tls;
use rustls::ServerConfig;
use tokio::sync::watch;
use tracing::error;

use crate::board::running::Running;
use crate::config::access::Logins;
use crate::config::secrets::{self, HttpCertificate};
use crate::config::snapshot::{self, Change, Snapshot};
use crate::config::{Config, Http};
use crate::http::access::Access;

/// How often they are looked at.
const INTERVAL: Duration = Duration::from_secs(60);

/// What the files of a configuration hold.
#[derive(Debug, Clone)]
pub struct HttpFiles {
    logins: Logins,
    certificate: Option<HttpCertificate>,
}

impl HttpFiles {
    pub fn load(config: &Config) -> anyhow::Result<Self> {
        let certificate = config.http.tls.as_ref().map(secrets::http_tls).transpose()?;
        Ok(Self { logins: Logins::load(config)?, certificate })
    }

    /// Takes down what they hold.
    pub fn snapshot(&self, http: &Http) -> Snapshot {
        Snapshot::of_http(http, &self.logins)
    }
}

/// What is served by, as it is now.
#[derive(Debug)]
pub(super) struct Current {
    config: Config,
    files: HttpFiles,
    pub(super) access: Arc<Access>,
    tls: Option<watch::Sender<Arc<ServerConfig>>>,
    running: Arc<Running>,
}

impl Current {
    pub(super) fn new(config: &Config, files: HttpFiles, running: Arc<Running>) -> Self {
        let access = Arc::new(Access::new(&config.http, files.logins.clone()));
        let tls = files.certificate.as_ref().map(|certificate| watch::Sender::new(certificate.server.clone()));
        running.set_http(files.snapshot(&config.http));
        Self { config: config.clone(), files, access, tls, running }
    }

    pub(super) fn tls(&self) -> Option<Tls> {
        self.tls.as_ref().map(watch::Sender::subscribe)
    }

    /// Serves by a configuration that was read again; returns what is different.
    pub(super) fn replace(&mut self, config: &Config, files: HttpFiles) -> Vec<Change> {
        self.config = config.clone();
        self.access.replace(&config.http, files.logins.clone());
        if let (Some(tls), Some(certificate)) = (&self.tls, &files.certificate)
            && self.files.certificate.as_ref().is_none_or(|before| before.chain != certificate.chain)
        {
            tls.send_replace(certificate.server.clone());
        }
        let changes = self.running.set_http(files.snapshot(&config.http));
        snapshot::log(&changes);
        self.files = files;
        changes
    }

    /// Reads the files again from time to time, and says what is wrong with them once.
    pub(super) async fn follow(current: &tokio::sync::Mutex<Self>) {
        let mut told = None;
        loop {
            tokio::time::sleep(INTERVAL).await;
            let mut current = current.lock().await;
            match HttpFiles::load(&current.config) {
                Ok(files) => {
                    told = None;
                    if files.logins != current.files.logins || !files.is_certified_as(&current.files) {
                        let config = current.config.clone();
                        current.replace(&config, files);
                    }
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if told.as_ref() != Some(&error) {
                        error!(error, "the files of HTTP have changed; keeping what they held before");
                        told = Some(error);
                    }
                }
            }
        }
    }
}

impl HttpFiles {
    fn is_certified_as(&self, other: &Self) -> bool {
        let chain = |files: &Self| files.certificate.as_ref().map(|certificate| certificate.chain.clone());
        chain(self) == chain(other)
    }
}
