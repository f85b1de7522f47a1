//! What a driver works with.

use std::sync::Arc;

use dream_protocol::topic;

use crate::board::Board;
use crate::board::named::NamedMembers;
use crate::board::readiness::Readiness;
use crate::board::running::Running;
use crate::clock::{Clock, SteadyClock};
use crate::config::Config;
use crate::config::secrets::GatewayIdentity;
use crate::engine::mqtt::Trouble;
use crate::engine::telemetry::Telemetry;
use crate::metrics::Metrics;
use crate::store::{self, Store};

/// The parts of a gateway, of which HTTP serves some and the driver uses all.
#[derive(Debug)]
pub struct Parts {
    pub config: Config,
    pub identity: GatewayIdentity,
    /// Where this replica says that it is online.
    pub status_topic: String,
    pub store: Arc<dyn Store>,
    pub board: Arc<Board>,
    /// Members by name, for operators.
    pub members: Arc<NamedMembers>,
    /// The configuration in force, for operators.
    pub running: Arc<Running>,
    pub telemetry: Telemetry,
    pub readiness: Arc<Readiness>,
    pub clock: Arc<SteadyClock>,
}

impl Parts {
    /// Opens the store and makes the other parts, all empty.
    pub fn new(config: Config, identity: GatewayIdentity, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let name = config.replica_name()?;
        let status_topic = topic::gateway_status(&name);
        let store = store::open(&config.store, config.ordinal, &name.to_string())?;
        let telemetry = Telemetry { metrics: Arc::new(Metrics::new(&Trouble::LABELS)) };
        let clock = Arc::new(SteadyClock::new(clock));
        let (board, members, running, readiness) = <_>::default();
        Ok(Self { config, identity, status_topic, store, board, members, running, telemetry, readiness, clock })
    }
}
