//! A new configuration while running: clusters come and go, and the open slots of the others do not notice.

use std::collections::BTreeSet;

use dream_protocol::ids::ClusterId;
use tracing::{error, info};

use super::Driver;
use super::connection::filters;
use crate::clock::Clock as _;
use crate::config::secrets::GatewayIdentity;
use crate::config::snapshot::{self, Change, Snapshot};
use crate::config::{Config, Http};
use crate::engine::announce;
use crate::engine::served::{self, ServedCluster};

impl Driver {
    /// Serves by another configuration. Returns what has changed, or why nothing has.
    pub(super) async fn reload(&mut self, config: Config, identity: GatewayIdentity) -> Result<Vec<Change>, String> {
        let (before, later) = (self.parts.running.gateway(), Snapshot::of(&config));
        let changes = before.changes(&later);
        if let Err(error) = self.adopt(config, identity, &changes).await {
            error!(error, "keeping the current configuration");
            return Err(error);
        }
        self.parts.running.set_gateway(before.reloaded(later));
        Ok(changes)
    }

    async fn adopt(&mut self, mut config: Config, identity: GatewayIdentity, changes: &[Change]) -> Result<(), String> {
        if config.id != self.parts.config.id {
            return Err("`id` needs a restart".to_owned());
        }
        snapshot::log(changes);
        let same_identity = identity.certificate == self.parts.identity.certificate
            && identity.authorities == self.parts.identity.authorities;
        if same_identity && config == self.parts.config && changes.is_empty() {
            info!("configuration reloaded: nothing has changed");
            return Ok(());
        }
        (config.replicas, config.ordinal) = (self.parts.config.replicas, self.parts.config.ordinal);
        let everything = !same_identity || config.clock_skew_seconds != self.parts.config.clock_skew_seconds;
        let owned: BTreeSet<ClusterId> = config.owned().map(|(id, _)| id.clone()).collect();
        let removed: Vec<ClusterId> = self.state.clusters.keys().filter(|id| !owned.contains(*id)).cloned().collect();
        let changed: Vec<ClusterId> = config
            .owned()
            .filter(|(id, settings)| {
                everything || self.state.clusters.get(*id).is_none_or(|served| served.settings != **settings)
            })
            .map(|(id, _)| id.clone())
            .collect();
        // What is rebuilt is rebuilt from the store.
        if self.flush().await.is_err() {
            return Err("the store cannot be written".to_owned());
        }
        let all: Vec<_> = config.owned().filter(|(id, _)| changed.contains(id)).collect();
        let (skew, store, before) = (config.clock_skew_seconds, &*self.parts.store, &self.state.clusters);
        let (zone, now) = (&self.parts.config.time_zone, self.parts.clock.now());
        let rebuilt = served::resume_all(&all, &identity, skew, zone, store, before, now);
        let rebuilt = rebuilt.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
        self.parts.config.clusters = config.clusters;
        self.parts.board.set_groups(&config.groups);
        self.parts.config.groups = config.groups;
        self.parts.config.log.level = config.log.level;
        // What needs a restart stays as it is.
        let before = &self.parts.config.http;
        let tls = if before.tls.is_some() == config.http.tls.is_some() { config.http.tls } else { before.tls.clone() };
        self.parts.config.http = Http { listen: before.listen, tls, ..config.http };
        self.parts.config.clock_skew_seconds = config.clock_skew_seconds;
        self.parts.config.store.retention_days = config.store.retention_days;
        self.parts.config.store.hours_retention_days = config.store.hours_retention_days;
        self.parts.telemetry.metrics.certificate_ends(identity.checked.not_after());
        self.parts.board.update_gateway(|gateway| {
            gateway.certificate_ends = Some(identity.checked.not_after());
            gateway.retention_days = config.store.retention_days;
            gateway.hours_retention_days = config.store.hours_retention_days;
        });
        self.parts.identity = identity;
        for cluster in &removed {
            self.remove(cluster);
        }
        self.announce_to_home_assistant(config.home_assistant, &changed);
        for served in rebuilt {
            self.forget(&served.id);
            self.add(served);
        }
        info!(removed = removed.len(), changed = changed.len(), "configuration reloaded");
        self.subscribe(&changed);
        self.publish_online_when_subscribed();
        Ok(())
    }

    fn remove(&mut self, cluster: &ClusterId) {
        info!(%cluster, "no longer served here; its records stay in the store");
        self.forget(cluster);
        self.parts.telemetry.metrics.remove_cluster(cluster);
        self.parts.board.remove(cluster);
        self.parts.members.remove(cluster);
        self.subscribe_without(cluster);
        if let Some(session) = &self.state.session {
            session.unsubscribe(filters(cluster));
        }
        if let Some(prefix) = &self.parts.config.home_assistant
            && !self.parts.config.clusters.contains_key(cluster)
        {
            self.state.pending_discovery_removals.extend(announce::discovery_removal(prefix, cluster));
            self.publish_discovery_removals();
        }
    }

    /// Takes the sensors of all clusters away from the prefix of before, and announces them under a new one. Those in
    /// `changed` are announced when their topics are subscribed to.
    fn announce_to_home_assistant(&mut self, prefix: Option<String>, changed: &[ClusterId]) {
        let before = std::mem::replace(&mut self.parts.config.home_assistant, prefix);
        if before == self.parts.config.home_assistant {
            return;
        }
        let all: Vec<ClusterId> = self.state.clusters.keys().cloned().collect();
        if let Some(before) = before {
            let removals = all.iter().flat_map(|cluster| announce::discovery_removal(&before, cluster));
            self.state.pending_discovery_removals.extend(removals);
            self.publish_discovery_removals();
        }
        for cluster in all.iter().filter(|cluster| !changed.contains(cluster)) {
            self.announce(cluster);
        }
    }

    pub(super) fn forget(&mut self, cluster: &ClusterId) -> Option<ServedCluster> {
        let served = self.state.clusters.remove(cluster)?;
        self.state.ticks.remove(&(served.next_tick, cluster.clone()));
        Some(served)
    }

    /// Asks again for the topics that were asked for together with those of a cluster: it may be the one that is refused.
    fn subscribe_without(&mut self, cluster: &ClusterId) {
        let with: Vec<_> = self.state.subscribing.extract_if(|_, (some, _)| some.contains(cluster)).collect();
        for (_, (mut some, asking)) in with {
            asking.abort();
            some.retain(|other| other != cluster);
            self.subscribe(&some);
        }
    }
}
