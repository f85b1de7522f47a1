//! A gateway with its settings and its certificates, in a directory of its own.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use dream_testkit::lab::aggregates::{Slots, decoded, listed};
use dream_testkit::lab::gateway::Gateway as Process;
use dream_testkit::lab::identities::{GATEWAY, Identities};
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::{free_port, until_some};
use tempfile::TempDir;

/// The process, and how it is configured.
#[derive(Debug)]
pub struct Gateway {
    process: Process,
    /// Change them and call [`Gateway::write_settings`] to tell the gateway something else.
    pub settings: Settings,
    http: u16,
    /// Goes after the process that uses it: fields are dropped in this order.
    directory: TempDir,
}

impl Gateway {
    /// Starts a gateway with an empty store; it may not be ready yet.
    pub fn start(identities: &Identities, settings: Settings) -> Self {
        let mut gateway = Self::prepare(identities, settings);
        gateway.process.start();
        gateway
    }

    /// Returns a gateway that does not run yet.
    pub fn prepare(identities: &Identities, settings: Settings) -> Self {
        let (directory, http) = (TempDir::new().unwrap(), free_port());
        let process = Process::new(Path::new(env!("CARGO_BIN_EXE_dream-gateway")), directory.path(), http);
        identities.write_gateway(directory.path(), GATEWAY);
        let gateway = Self { process, settings, http, directory };
        gateway.write_settings();
        gateway
    }

    /// Returns the port of its pages.
    pub const fn http(&self) -> u16 {
        self.http
    }

    /// Writes the settings; a running gateway reads them when it hangs up.
    pub fn write_settings(&self) {
        self.configure(&self.settings.toml(self.http));
        if let Some((_, password)) = &self.settings.access.login {
            std::fs::write(self.file("password"), password).unwrap();
        }
    }

    /// Replaces its certificate and key by new ones.
    pub fn renew(&self, identities: &Identities) {
        identities.renew_gateway(self.directory.path(), GATEWAY);
    }

    /// Returns the slots of a cluster as the API lists them.
    pub fn slots(&self, cluster: &str) -> Slots {
        listed(&self.get(&format!("/api/v1/clusters/{cluster}/slots")))
    }

    /// Waits until the gateway is ready and so many slots more are decoded, and returns all there are.
    pub async fn decode_more(&mut self, cluster: &str, more: usize) -> Slots {
        self.wait_until_ready().await;
        let before = decoded(&self.slots(cluster));
        until_some("more slots are decoded", || {
            Some(self.slots(cluster)).filter(|slots| decoded(slots) >= before + more)
        })
        .await
    }
}

impl Deref for Gateway {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl DerefMut for Gateway {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}
