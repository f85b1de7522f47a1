//! What a request sees: the service, as far as the sender may see it. There is no other way to the board.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use dream_protocol::time::Timestamp;
use tokio::sync::watch;

use super::Service;
use super::overview::Sparklines;
use crate::board::ClusterView;
use crate::board::gateway_view::GatewayView;
use crate::board::group::GroupView;
use crate::board::holders::HolderJson;
use crate::board::offenders::OffenderJson;
use crate::board::running::RunningJson;
use crate::config::access::{Rights, Role};
use crate::history::History;

/// The service with what it remembers between requests.
pub(super) struct Common {
    service: Service,
    /// Whether the server is about to end.
    closing: watch::Sender<bool>,
    sparklines: Sparklines,
}

impl Common {
    pub(super) fn new(service: Service, closing: watch::Sender<bool>) -> Self {
        Self { service, closing, sparklines: Sparklines::default() }
    }
}

/// The same for one request, with what its sender may see.
#[derive(Clone)]
pub(super) struct Shared {
    common: Arc<Common>,
    rights: Arc<Rights>,
}

impl FromRequestParts<Arc<Common>> for Shared {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, common: &Arc<Common>) -> Result<Self, Infallible> {
        // Nobody gets here without having been let in; whoever did would see nothing.
        let nothing = || Arc::new(Rights { role: Role::Metrics, clusters: Some([].into()) });
        let rights = parts.extensions.get::<Arc<Rights>>().cloned().unwrap_or_else(nothing);
        Ok(Self { common: common.clone(), rights })
    }
}

impl Shared {
    pub(super) fn now(&self) -> Timestamp {
        self.common.service.clock.now()
    }

    pub(super) fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Returns the past of all clusters: of those that came from here, only.
    pub(super) fn history(&self) -> &dyn History {
        self.common.service.history.as_ref()
    }

    /// Returns the name of this replica.
    pub(super) fn gateway(&self) -> &str {
        &self.common.service.gateway
    }

    pub(super) fn notice(&self) -> Option<&str> {
        self.common.service.notice.as_deref()
    }

    pub(super) fn readiness(&self) -> &crate::board::readiness::Readiness {
        &self.common.service.readiness
    }

    pub(super) fn sparklines(&self) -> &Sparklines {
        &self.common.sparklines
    }

    /// Returns whether no cluster closes slots in time, of all that are served.
    pub(super) fn is_stalled(&self) -> bool {
        let (now, (_, all)) = (self.now(), self.common.service.board.clusters());
        !all.is_empty() && all.iter().all(|view| view.is_stalled(now))
    }

    /// Returns what Prometheus scrapes.
    pub(super) fn scrape(&self) -> String {
        let all = (self.common.service.scrape)();
        super::access::visible(all, &self.rights, |group| self.group(group).is_some())
    }

    /// Returns the version of the board.
    pub(super) fn version(&self) -> u64 {
        *self.common.service.board.watch().borrow()
    }

    pub(super) fn versions(&self) -> watch::Receiver<u64> {
        self.common.service.board.watch()
    }

    pub(super) fn closing(&self) -> watch::Receiver<bool> {
        self.common.closing.subscribe()
    }

    pub(super) fn gateway_view(&self) -> GatewayView {
        self.common.service.board.gateway()
    }

    pub(super) fn cluster(&self, id: &str) -> Option<Arc<ClusterView>> {
        self.common.service.board.cluster(id).filter(|_| self.rights.sees(id))
    }

    pub(super) fn clusters(&self) -> (u64, Vec<Arc<ClusterView>>) {
        let (version, mut all) = self.common.service.board.clusters();
        all.retain(|view| self.rights.sees(view.cluster.as_str()));
        (version, all)
    }

    pub(super) fn group(&self, id: &str) -> Option<GroupView> {
        self.common.service.board.group(id).filter(|view| self.rights.sees_group(&view.group))
    }

    pub(super) fn groups(&self) -> (u64, Vec<GroupView>) {
        let (version, mut all) = self.common.service.board.groups();
        all.retain(|view| self.rights.sees_group(&view.group));
        (version, all)
    }

    /// Returns who spoils slots, to an operator.
    pub(super) fn offenders(&self) -> Vec<OffenderJson> {
        let mut all = self.common.service.members.offenders();
        all.retain(|offender| self.names(&offender.cluster));
        all
    }

    /// Returns which holders dropped out or contradicted others, to an operator.
    pub(super) fn holders(&self) -> Vec<HolderJson> {
        let mut all = self.common.service.members.holders();
        all.retain(|holder| self.names(&holder.cluster));
        all
    }

    /// Returns the configuration in force, to an operator of all clusters.
    pub(super) fn running(&self) -> Option<RunningJson> {
        let may_see = self.rights.role >= Role::Operator && self.rights.clusters.is_none();
        may_see.then(|| self.common.service.running.json())
    }

    fn names(&self, cluster: &str) -> bool {
        self.rights.role >= Role::Operator && self.rights.sees(cluster)
    }
}
