//! Whether the time is right: this machine's clocks beside each other, and beside what the members say.
//!
//! A clock that is ahead would close slots for good that have not begun, and one that comes back would find no slot left to
//! open. So a clock that jumps is not followed until members show that it is right; and after a start, before anything shows
//! it, nothing is closed or forgotten because of the time alone.

use std::collections::HashMap;

use dream_protocol::cluster::{Forget, Input, carried_ahead};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use tracing::{error, info};

use super::Driver;
use crate::board::STALLED_SLOTS;
use crate::board::readiness::Latch;
use crate::clock::{Clock as _, Standing};
use crate::engine::served::{self, NEVER, ServeError, ServedCluster};
use crate::engine::writer::WriterEnded;
use crate::store::Change;

/// For how many slots members are listened to after a start, before the clock is believed for want of an objection.
const PATIENT_SLOTS: u64 = 2;

/// What is thought of the clock, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Trust {
    /// Nothing has confirmed it since the start.
    #[default]
    Unconfirmed,
    /// Nor since the broker's messages come, or members last objected, by the steady clock.
    Listening {
        since_millis: u64,
    },
    Right,
    /// The wall clock jumped.
    Jumped,
}

impl Driver {
    /// Returns whether slots may close because of the time. A clock that jumped is not followed, so that the time is right.
    pub(super) fn time_is_right(&self) -> bool {
        matches!(self.state.time, Trust::Right | Trust::Jumped)
    }

    /// Looks at the time once more when a cluster was rebuilt: the store may say that little time has passed since its last slot,
    /// or that the cluster was carried ahead.
    pub(super) async fn check_time_of(&mut self, cluster: &ClusterId) -> Result<(), WriterEnded> {
        let now = self.parts.clock.now();
        let Some(served) = self.state.clusters.get(cluster) else { return Ok(()) };
        if self.time_is_right() {
            if served.machine.was_carried_ahead(now) {
                self.withdraw_what_is_ahead(std::slice::from_ref(cluster), now).await?;
            }
            return Ok(());
        }
        let slot_seconds = served.settings.terms.slot_seconds;
        let end = served.last.map(|closed| closed.outcome.end);
        if end.is_some_and(|end| end <= now && now <= end.plus_secs(STALLED_SLOTS * slot_seconds)) {
            self.follow("it fits the last slot in the store").await?;
        }
        Ok(())
    }

    /// Judges the clock by what members have said so far.
    pub(super) async fn check_time(&mut self) -> Result<(), WriterEnded> {
        match self.parts.clock.standing() {
            Standing::Unconfirmed => self.listen().await,
            Standing::Agrees if self.state.time == Trust::Jumped => {
                self.believe("it agrees with the steady clock again");
                Ok(())
            }
            Standing::Agrees => Ok(()),
            Standing::Ahead(millis) => {
                let now = self.parts.clock.now();
                if self.state.clusters.values().any(|served| served.machine.fits_clock_ahead(millis, now)) {
                    return self.follow("enough members have the same time").await;
                }
                if self.state.time != Trust::Jumped {
                    let (seconds, way) = (millis.unsigned_abs() / 1000, if millis > 0 { "ahead" } else { "back" });
                    self.doubt(
                        Trust::Jumped,
                        format!(
                            "The clock jumped {seconds} seconds {way}: slots follow the steady clock until both agree \
                             again, or enough members show that the new time is right"
                        ),
                    );
                }
                Ok(())
            }
        }
    }

    /// After a start: waits for members whose readings fit the time.
    async fn listen(&mut self) -> Result<(), WriterEnded> {
        let clusters = &self.state.clusters;
        if clusters.values().any(|served| served.machine.time_is_witnessed()) {
            return self.follow("members' readings fit it").await;
        }
        let both = self.parts.clock.both();
        let Trust::Listening { since_millis } = self.state.time else {
            // Which is when all clusters are rebuilt.
            if self.parts.readiness.is_set(Latch::BrokerSubscribed) {
                self.state.time = Trust::Listening { since_millis: both.monotonic_millis };
            }
            return Ok(());
        };
        if !self.parts.readiness.is_set(Latch::BrokerSubscribed) {
            self.state.time = Trust::Unconfirmed;
            return Ok(());
        }
        let longest = clusters.values().map(|served| served.settings.terms.slot_seconds).max().unwrap_or_default();
        if both.monotonic_millis.saturating_sub(since_millis) <= PATIENT_SLOTS * longest * 1000 {
            return Ok(());
        }
        if !clusters.values().any(|served| served.machine.time_is_contradicted(both.wall)) {
            return self.follow("no member objects to it").await;
        }
        let again = Trust::Listening { since_millis: both.monotonic_millis };
        if !self.parts.readiness.is_set(Latch::ClockRight) {
            self.state.time = again;
            return Ok(());
        }
        self.doubt(
            again,
            "The members\u{2019} readings are of another time than the clock\u{2019}s: no slot closes, and nothing is \
             forgotten, until they agree"
                .to_owned(),
        );
        Ok(())
    }

    fn doubt(&mut self, trust: Trust, trouble: String) {
        self.state.time = trust;
        self.parts.telemetry.clock_doubtful(&trouble);
        self.parts.readiness.unset(Latch::ClockRight);
        self.parts.board.update_gateway(|gateway| gateway.clock_trouble = Some(trouble));
    }

    fn believe(&mut self, why: &str) {
        self.state.time = Trust::Right;
        self.parts.telemetry.clock_right(why);
        self.parts.readiness.set(Latch::ClockRight);
        self.parts.board.update_gateway(|gateway| gateway.clock_trouble = None);
    }

    /// Follows the wall clock from here on, and lets time act on every cluster. What was done in a future that never was is
    /// withdrawn.
    async fn follow(&mut self, why: &str) -> Result<(), WriterEnded> {
        self.parts.clock.confirm();
        self.believe(why);
        self.state.next_expiry = None;
        let now = self.parts.clock.now();
        let was_ahead = |served: &&ServedCluster| served.machine.was_carried_ahead(now) || begun_ahead(served, now);
        let ahead: Vec<_> = self.state.clusters.values().filter(was_ahead).map(|served| served.id.clone()).collect();
        if !ahead.is_empty() {
            self.withdraw_what_is_ahead(&ahead, now).await?;
        }
        let all: Vec<ClusterId> = self.state.clusters.keys().cloned().collect();
        for cluster in all {
            if let Some(served) = self.state.clusters.get_mut(&cluster) {
                served.machine.forget_witnesses();
                served.machine.trust_time(now);
            }
            self.input(&cluster, Input::Tick);
        }
        Ok(())
    }

    async fn withdraw_what_is_ahead(&mut self, clusters: &[ClusterId], now: Timestamp) -> Result<(), WriterEnded> {
        // What is rebuilt is rebuilt from the store.
        self.flush().await?;
        if let Err(error) = self.carry_back(clusters, now) {
            let error = format!("{:#}", anyhow::Error::from(error));
            error!(error, "what was stored while the clock was ahead cannot be withdrawn: restart the gateway");
        }
        Ok(())
    }

    /// Withdraws from the store what lies in the future, and rebuilds these clusters without it.
    fn carry_back(&mut self, clusters: &[ClusterId], now: Timestamp) -> Result<(), ServeError> {
        let store = &*self.parts.store;
        let mut rebuilt = Vec::new();
        for cluster in clusters {
            let (records, later) = (store.records(cluster)?, store.slots(cluster, now..NEVER, usize::MAX)?);
            let forgotten = carried_ahead(&records, later.iter().map(|closed| &closed.outcome), now);
            if !forgotten.is_empty() {
                let lists = forgotten.iter().filter(|forget| matches!(forget, Forget::List(_))).count();
                self.parts.telemetry.carried_back(cluster, forgotten.len() - lists, lists);
                let forget = |forget| Change::Forget(cluster.clone(), forget);
                store.commit(&forgotten.into_iter().map(forget).collect::<Vec<_>>())?;
            } else if !self.state.clusters.get(cluster).is_some_and(|served| begun_ahead(served, now)) {
                continue;
            }
            rebuilt.push(cluster.clone());
        }
        if rebuilt.is_empty() {
            return Ok(());
        }
        let config = &self.parts.config;
        let some: Vec<_> = config.owned().filter(|(id, _)| rebuilt.contains(id)).collect();
        let (identity, skew, zone) = (&self.parts.identity, config.clock_skew_seconds, &config.time_zone);
        for served in served::resume_all(&some, identity, skew, zone, store, &HashMap::new(), now)? {
            self.forget(&served.id);
            self.add(served);
        }
        info!(clusters = rebuilt.len(), "clusters rebuilt from the store without what lay in the future");
        self.subscribe(&rebuilt);
        self.publish_online_when_subscribed();
        Ok(())
    }
}

/// Returns whether a cluster was rebuilt at a time that is still to come: its deadlines are of that time too.
fn begun_ahead(served: &ServedCluster, now: Timestamp) -> bool {
    now < served.since
}
