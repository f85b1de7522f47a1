//! Serving begins cluster by cluster: what arrives for one that is not rebuilt yet waits, unacknowledged.

use std::collections::HashMap;

use dream_protocol::topic::{MeterChannel, Topic};
use tracing::info;

use super::Driver;
use crate::board::readiness::Latch;
use crate::clock::Clock as _;
use crate::engine::served::{self, ServedCluster};
use crate::engine::transport::Delivery;

/// Clusters that are not rebuilt yet, and the messages that wait for them.
#[derive(Debug, Default)]
pub(super) struct Rebuilding {
    awaited: HashMap<String, Vec<Delivery>>,
    /// Enrolments of meters that another cluster may hold, for all that is known by now.
    newcomers: Vec<Delivery>,
}

impl Rebuilding {
    pub(super) fn new(clusters: impl Iterator<Item = String>) -> Self {
        Self { awaited: clusters.map(|cluster| (cluster, Vec::new())).collect(), newcomers: Vec::new() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Forgets the messages of a session that is gone: the broker sends them again.
    pub(super) fn session_lost(&mut self) {
        self.awaited.values_mut().for_each(Vec::clear);
        self.newcomers.clear();
    }

    /// Keeps a message that cannot be handled yet; otherwise returns it. The broker's window bounds how many are kept.
    pub(super) fn hold(&mut self, delivery: Delivery) -> Option<Delivery> {
        if self.is_over() {
            return Some(delivery);
        }
        let cluster = match std::str::from_utf8(&delivery.topic).ok().and_then(|topic| Topic::parse(topic).ok()) {
            Some(Topic::Meter { cluster, channel, .. }) if !self.awaited.contains_key(cluster) => {
                if channel == MeterChannel::Enrol {
                    self.newcomers.push(delivery);
                    return None;
                }
                return Some(delivery);
            }
            Some(Topic::Meter { cluster, .. } | Topic::Gateway { cluster, .. }) => cluster,
            None => return Some(delivery),
        };
        match self.awaited.get_mut(cluster) {
            Some(waiting) => {
                waiting.push(delivery);
                None
            }
            None => Some(delivery),
        }
    }
}

impl Driver {
    /// Serves a cluster that was rebuilt, beginning with the messages that wait for it.
    pub(super) async fn serve(&mut self, served: ServedCluster) -> anyhow::Result<()> {
        let cluster = served.id.clone();
        let waiting = self.state.rebuilding.awaited.remove(cluster.as_str()).unwrap_or_default();
        self.add(served);
        self.check_time_of(&cluster).await?;
        self.subscribe(&[cluster]);
        waiting.into_iter().for_each(|delivery| self.deliver(delivery));
        if self.state.rebuilding.is_over() {
            self.rebuilt_all().await?;
        }
        Ok(())
    }

    /// Everything is served: clusters that know little of their days begin with what the others know.
    pub(super) async fn rebuilt_all(&mut self) -> anyhow::Result<()> {
        info!(
            clusters = self.state.clusters.len(),
            of = self.parts.config.clusters.len(),
            "clusters rebuilt from the store"
        );
        // What closed meanwhile is replayed too, and whoever hears that all is ready finds every cluster on the board.
        self.tick();
        self.flush().await?;
        let profiles = served::profiles(self.state.clusters.values());
        let (zone, now) = (&self.parts.config.time_zone, self.parts.clock.now());
        for served in self.state.clusters.values_mut() {
            served.begin_filter(&profiles, zone, &*self.parts.store, now)?;
        }
        std::mem::take(&mut self.state.rebuilding.newcomers).into_iter().for_each(|delivery| self.deliver(delivery));
        self.parts.readiness.set(Latch::StoreReplayed);
        self.publish_online_when_subscribed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn delivery(topic: &'static str) -> Delivery {
        Delivery { topic: Bytes::from_static(topic.as_bytes()), payload: Bytes::new(), too_large: false, receipt: None }
    }

    #[test]
    fn messages_of_clusters_that_are_awaited_wait_and_so_do_all_enrolments() {
        let mut rebuilding = Rebuilding::new(["south".to_owned()].into_iter());
        for waits in ["south/reading/m-1", "south/enrol/m-1", "south/membership", "north/enrol/m-2"] {
            assert!(rebuilding.hold(delivery(format!("dream/v1/{waits}").leak())).is_none(), "{waits}");
        }
        for passes in ["north/reading/m-2", "north/membership", "elsewhere/reading/m-3"] {
            assert!(rebuilding.hold(delivery(format!("dream/v1/{passes}").leak())).is_some(), "{passes}");
        }
        assert_eq!((rebuilding.awaited["south"].len(), rebuilding.newcomers.len()), (3, 1));
        rebuilding.session_lost();
        assert_eq!((rebuilding.awaited["south"].len(), rebuilding.newcomers.len()), (0, 0));
        rebuilding.awaited.remove("south");
        assert!(rebuilding.hold(delivery("dream/v1/north/enrol/m-2")).is_some(), "nothing is awaited any more");
    }
}
