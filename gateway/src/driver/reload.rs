//! A new configuration while running: clusters come and go, and the open slots of the others do not notice.

use std::collections::BTreeSet;

use dream_protocol::ids::ClusterId;
use tracing::{error, info, warn};

use super::{Driver, Parts, filters, now};
use crate::announce;
use crate::config::Config;
use crate::secrets::GatewayIdentity;
use crate::served::{self, ServeError};

impl Driver {
    pub(super) async fn reload(&mut self, config: Config, identity: GatewayIdentity) {
        self.warn_of_what_needs_a_restart(&config);
        let everything = identity.certificate != self.parts.identity.certificate
            || identity.authorities != self.parts.identity.authorities
            || config.clock_skew_seconds != self.parts.config.clock_skew_seconds;
        let owned: BTreeSet<ClusterId> = config.owned().map(|(id, _)| id.clone()).collect();
        let removed: Vec<ClusterId> = self.state.clusters.keys().filter(|id| !owned.contains(*id)).cloned().collect();
        let changed: Vec<ClusterId> = config
            .owned()
            .filter(|(id, settings)| {
                everything || self.state.clusters.get(*id).is_none_or(|served| served.settings != **settings)
            })
            .map(|(id, _)| id.clone())
            .collect();
        self.parts.config.clusters = config.clusters;
        self.parts.config.clock_skew_seconds = config.clock_skew_seconds;
        self.parts.config.store.retention_days = config.store.retention_days;
        self.parts.identity = identity;
        // What is rebuilt below is rebuilt from the store.
        self.flush().await;
        for cluster in &removed {
            self.remove(cluster);
        }
        match self.rebuild(&changed) {
            Ok(()) => {
                info!(removed = removed.len(), changed = changed.len(), "configuration read again");
                self.subscribe(&changed);
            }
            Err(error) => error!(%error, "new and changed clusters stay as they were"),
        }
    }

    fn rebuild(&mut self, clusters: &[ClusterId]) -> Result<(), ServeError> {
        let Parts { config, identity, store, .. } = &self.parts;
        let all: Vec<_> = config.owned().filter(|(id, _)| clusters.contains(id)).collect();
        for served in served::resume_all(&all, identity, config.clock_skew_seconds, store, now())? {
            self.forget(&served.id);
            self.add(served);
        }
        Ok(())
    }

    fn remove(&mut self, cluster: &ClusterId) {
        info!(%cluster, "no longer served here; its records stay in the store");
        self.forget(cluster);
        self.parts.events.metrics.remove_cluster(cluster);
        self.parts.board.remove(cluster);
        if let Some(session) = &self.state.session {
            session.unsubscribe(filters(cluster));
        }
        if let Some(prefix) = self.parts.config.home_assistant.clone()
            && !self.parts.config.clusters.contains_key(cluster)
        {
            let (topic, payload) = announce::undiscovery(&prefix, cluster);
            self.publish(topic, payload, true);
        }
    }

    fn forget(&mut self, cluster: &ClusterId) {
        if let Some(served) = self.state.clusters.remove(cluster) {
            self.state.wakes.remove(&(served.wake, cluster.clone()));
        }
    }

    fn warn_of_what_needs_a_restart(&self, new: &Config) {
        let old = &self.parts.config;
        let kept = [
            ("id", old.id == new.id),
            ("replicas", old.replicas == new.replicas),
            ("ordinal", old.ordinal == new.ordinal),
            ("broker", old.broker == new.broker),
            ("store.path", old.store.path == new.store.path),
            ("http.listen", old.http == new.http),
            ("log.format", old.log.format == new.log.format),
            ("home_assistant", old.home_assistant == new.home_assistant),
        ];
        for (key, _) in kept.into_iter().filter(|(_, same)| !same) {
            warn!(key, "a change of this key takes a restart; it is left as it was");
        }
    }
}
