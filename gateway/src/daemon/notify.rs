//! Tells a service manager when the gateway is ready, and that it makes progress.

use std::time::Duration;

use dream_edge::service::ServiceManager;
use tokio::time::Instant;

use crate::board::readiness::{Latch, Readiness};

/// How long a start may wait for the broker. Units that depend on this service need not wait for a broker that is away.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often to look whether the gateway is ready.
const GLANCE: Duration = Duration::from_millis(100);

/// Says when the gateway is ready for the first time, or has its clusters and waits for the broker for too long; then
/// pings the watchdog as often as the service manager asks, while the driver makes progress. Never returns.
pub(super) async fn follow(manager: &ServiceManager, readiness: &Readiness) {
    if manager.listens() {
        wait_until_started(readiness).await;
        manager.ready();
    }
    let mut before = None;
    // A driver that waits for a full disk does not hang: it goes on when there is room.
    let gets_on = || {
        let beats = readiness.beats();
        before.replace(beats) != Some(beats) || !readiness.is_set(Latch::StoreWritable)
    };
    manager.ping_watchdog(gets_on).await;
}

async fn wait_until_started(readiness: &Readiness) {
    let mut replayed = None;
    while !readiness.awaited().is_empty() {
        if readiness.is_set(Latch::StoreReplayed) {
            let since: Instant = *replayed.get_or_insert_with(Instant::now);
            if since.elapsed() > PATIENCE {
                return;
            }
        }
        tokio::time::sleep(GLANCE).await;
    }
}
