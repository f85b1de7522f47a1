//! Logs and counts what happens. Each method writes its log line and moves its counters, so that they cannot drift apart.
//!
//! `error` is a bug or lost data, `warn` is worth an operator's look, `info` is the life of slots and lists, `debug` is
//! single messages. A meter's id appears only there.

use std::sync::Arc;
use std::time::Duration;

use dream_protocol::cluster::{Notice, Offence, Rejection};
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::time::Timestamp;
use dream_protocol::topic::GatewayChannel;
use tracing::{debug, error, info, warn};

use crate::board::holders::HoldersView;
use crate::clock::rfc3339;
use crate::engine::mqtt::Trouble;
use crate::history::ClosedSlot;
use crate::metrics::{Metrics, Stage, status_label};
use crate::store::StoreError;

/// Writes log lines and counters.
#[derive(Debug, Clone)]
pub struct Telemetry {
    pub metrics: Arc<Metrics>,
}

impl Telemetry {
    pub fn rejected(&self, kind: &str, cluster: &ClusterId, meter: Option<&MeterId>, reason: &Rejection) {
        self.metrics.message(kind, reason.as_str());
        let meter = meter.map(MeterId::as_str);
        debug!(%cluster, kind, meter, %reason, "message not used");
    }

    /// Somebody else publishes lists for a cluster that is served here.
    pub fn foreign_list(&self, cluster: &ClusterId, reason: &Rejection) {
        warn!(
            %cluster, %reason,
            "the broker has a membership list of this cluster that is not ours: does another gateway, or a trial that was \
             set up anew, use the same broker? Give one of them other names of clusters and another `id`, or a broker of its \
             own; if it is gone, publish an empty retained message on dream/v1/{cluster}/membership/full"
        );
    }

    /// Somebody speaks the formats of an earlier version.
    pub fn earlier_format(&self, cluster: &ClusterId, kind: &str) {
        let who = if kind == GatewayChannel::FullMembership.as_str() { "a gateway" } else { "a meter" };
        warn!(
            %cluster, kind,
            "{who} sends an earlier format, which is no longer supported: upgrade it to this gateway's version; \
             dream_messages_total counts the messages not used, and the debug log names the meters"
        );
    }

    pub fn too_large(&self, kind: &str) {
        self.metrics.message(kind, "too_large");
        debug!(kind, "message dropped: too large");
    }

    pub fn not_served(&self, kind: &str) {
        self.metrics.message(kind, "not_ours");
        debug!(kind, "message for a cluster that is not served here");
    }

    pub fn bad_topic(&self) {
        self.metrics.message("other", "topic");
        debug!("message on a topic of no cluster");
    }

    /// A slot closed, durably.
    pub fn slot_closed(&self, cluster: &ClusterId, closed: &ClosedSlot, now: Timestamp) {
        let outcome = &closed.outcome;
        self.metrics.slot_closed(cluster, closed.label());
        self.metrics.stage(Stage::Close, Duration::from_millis(now.millis_since(outcome.end)));
        let (slot, epoch, members, responders, attempts) =
            (outcome.slot.0, outcome.epoch, outcome.members, outcome.responders, outcome.attempts);
        let end = rfc3339(outcome.end);
        match (outcome.result, closed.sum()) {
            (Ok(_), sum) => {
                let (load_watts, band95_watts) = sum.map(|load| (load.watts, load.band95)).unzip();
                info!(%cluster, slot, end, load_watts, band95_watts, epoch, members, responders, attempts, "slot decoded");
            }
            (Err(reason), _) => {
                warn!(%cluster, slot, end, epoch, members, responders, attempts, %reason, "slot failed")
            }
        }
    }

    /// Logs and counts what a machine says at `now`.
    pub fn notice(&self, cluster: &ClusterId, notice: &Notice, now: Timestamp) {
        match notice {
            Notice::Requested { slot, ended, .. } => {
                self.metrics.stage(Stage::Request, Duration::from_millis(now.millis_since(*ended)));
                debug!(%cluster, slot = slot.0, "recovery requested");
            }
            Notice::ListPublished { epoch, members, from_slot, to_slot } => {
                info!(%cluster, epoch, members, from_slot = from_slot.0, to_slot = to_slot.0, "membership list published");
            }
            Notice::CannotForm { members, reason } => {
                warn!(%cluster, members, %reason, "no membership list can be formed");
            }
            Notice::TakenOver { epoch } => {
                info!(%cluster, epoch, "took the cluster over from its retained membership list");
            }
            Notice::Dropped { members } => warn!(%cluster, members, "silent members dropped"),
            Notice::Quarantined { meter, offence } => {
                let offence = match offence {
                    Offence::Silent => "sends readings and does not reveal",
                    Offence::SpoilsSums => "spoils sums",
                    Offence::Suspected => "is suspected of spoiling sums",
                    Offence::AtOdds => "deals or answers wrongly",
                };
                warn!(%cluster, offence, "a member is left out of sums until it passes a trial");
                debug!(%cluster, %meter, "the member that is left out of sums");
            }
            Notice::Released { meter } => {
                info!(%cluster, "a member takes part in sums again");
                debug!(%cluster, %meter, "the member that takes part again");
            }
            Notice::LeftOutOfLists { meter, until } => {
                warn!(%cluster, until = until.as_secs(), "a member failed its trials: lists are formed without it if enough remain");
                debug!(%cluster, %meter, "the member that is left out of lists");
            }
            Notice::SearchStarted { slot } => {
                warn!(%cluster, slot = slot.0, "a member spoils sums: groups are left out to find it");
            }
            Notice::SearchesByLists { left_out: 0, wide: false } => {
                info!(%cluster, "the next list names all members again, with the usual limit on missing ones");
            }
            Notice::SearchesByLists { left_out: 0, wide: true } => {
                warn!(%cluster, "several members may spoil sums: the next list lets more be missing to find them");
            }
            Notice::SearchesByLists { left_out, .. } => {
                warn!(%cluster, left_out, "several members spoil sums: the next list leaves some members out to find them");
            }
            Notice::Convicted { meter } => {
                warn!(%cluster, "confirmed: a suspected member spoils sums");
                debug!(%cluster, %meter, "the member that spoils sums");
            }
            Notice::AtOdds { member, holder } => {
                warn!(%cluster, "a holder's answers are wrong if a member is in the sum, and right without it: one of the two lies");
                debug!(%cluster, %member, %holder, "the member and the holder that are at odds");
            }
            Notice::CannotBeFound => {
                warn!(%cluster, "sum after sum fails: more members spoil sums than can be found at this size");
            }
            Notice::Holders(report) => {
                let seen = HoldersView::new(report, now);
                self.metrics.holders_answered(cluster, &seen);
                let (slot, HoldersView { holders, needed, answered, wrong, .. }) = (report.slot.0, seen);
                if seen.runs_low() {
                    warn!(%cluster, slot, holders, needed, answered, wrong, "barely enough holders answered");
                } else {
                    debug!(%cluster, slot, holders, needed, answered, wrong, "holders answered");
                }
                let (vanished, wrong) = (&report.vanished, &report.wrong);
                if !vanished.is_empty() || !wrong.is_empty() {
                    debug!(%cluster, slot, ?vanished, ?wrong, "holders that did not answer or answered wrongly");
                }
            }
            Notice::NoCommittee(reason) => {
                warn!(%cluster, %reason, "the list is pairwise, because no committee can be formed");
            }
            Notice::Readmitted { members } => info!(%cluster, members, "dropped members were heard again"),
            Notice::ListOverwritten { epoch, erased } => {
                warn!(%cluster, epoch, erased, "the retained membership list was replaced or erased; published it \
                      again. Who else may write to its topic?");
            }
            Notice::MeterStatus { meter, code, slot, .. } => {
                let code_label = status_label(*code);
                self.metrics.meter_status(cluster, code_label);
                debug!(%cluster, %meter, code = code_label, slot = slot.0, "a meter says why it is silent");
            }
            Notice::Proven { gateway, contradiction } => {
                self.metrics.contradiction(cluster);
                error!(%cluster, %gateway, %contradiction, "a meter has shown that two messages of a gateway contradict each other: is another gateway running with this identity? The evidence is at /api/v1/clusters/{cluster}/evidence");
            }
        }
    }

    pub fn broker_connected(&self) {
        info!("connected to the broker");
    }

    pub fn broker_subscribed(&self) {
        self.metrics.broker_connected(true);
        info!("subscribed to the topics of all clusters");
    }

    pub fn subscription_refused(&self, filter: &str) {
        self.metrics.broker_trouble("not_authorised");
        error!(filter, "the broker refuses the subscription: allow it in the broker's access rules");
    }

    pub fn broker_lost(&self, trouble: &Trouble) {
        self.metrics.broker_connected(false);
        self.metrics.broker_trouble(trouble.label());
        warn!(reason = %trouble, "no connection to the broker; trying again");
    }

    /// The clock is not believed.
    pub fn clock_doubtful(&self, trouble: &str) {
        self.metrics.clock_doubtful(true);
        warn!("{trouble}. Check the machine's time service");
    }

    /// The clock is believed again, for a reason.
    pub fn clock_right(&self, why: &str) {
        self.metrics.clock_doubtful(false);
        info!("the clock is right: {why}");
    }

    /// The store was carried ahead by a clock that was wrong.
    pub fn carried_back(&self, cluster: &ClusterId, slots: usize, lists: usize) {
        warn!(%cluster, slots, lists, "the clock had been ahead: withdrew slots that closed before their time, and lists that \
              begin too late for any meter");
    }

    pub fn window_bound(&self, window: usize) {
        warn!(
            window,
            "the broker keeps at most this many messages in flight, which limits throughput: raise its \
             in-flight window (mosquitto: max_inflight_messages, RabbitMQ: mqtt.prefetch, NATS: max_ack_pending)"
        );
    }

    pub fn commit_failed(&self, error: &StoreError) {
        self.metrics.commit_failed();
        if matches!(error, StoreError::Displaced { .. }) {
            return error!("{error}");
        }
        error!(%error, "the store cannot be written; nothing is acknowledged until it can. Is the disk full?");
    }
}
