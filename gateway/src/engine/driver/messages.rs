//! What the driver does with a message, and with what a machine puts out.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dream_protocol::cluster::{Input, Notice, Output, Record, Rejection};
use dream_protocol::enrolment::EnrolmentError;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::membership::ListError;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::{GatewayChannel, MeterChannel, Topic};
use dream_protocol::wire::DecodeError;
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;

use super::Driver;
use super::connection::filters;
use super::meters::MeterIndex;
use crate::clock::Clock as _;
use crate::engine::announce;
use crate::engine::effect::Effect;
use crate::engine::served::ServedCluster;
use crate::engine::telemetry::Telemetry;
use crate::engine::transport::{Delivery, Session};
use crate::engine::writer::Job;
use crate::store::Change;

impl Driver {
    pub(super) fn deliver(&mut self, delivery: Delivery) {
        let Some(delivery) = self.state.rebuilding.hold(delivery) else { return };
        self.handle_message(&delivery);
        if let (Some(session), Some(receipt)) = (&self.state.session, delivery.receipt) {
            session.state().unacknowledged.fetch_add(1, Ordering::Relaxed);
            match self.state.job.effects.last_mut() {
                Some(Effect::Acknowledge(same, receipts)) if Arc::ptr_eq(same, session) => receipts.push(receipt),
                _ => self.state.job.effects.push(Effect::Acknowledge(session.clone(), vec![receipt])),
            }
        }
    }

    fn handle_message(&mut self, delivery: &Delivery) {
        let Some(topic) = std::str::from_utf8(&delivery.topic).ok() else { return self.parts.telemetry.bad_topic() };
        let (cluster, kind, reports) = match Topic::parse(topic) {
            Ok(Topic::Meter { cluster, channel, meter }) => {
                (cluster, channel.as_str(), (channel == MeterChannel::Reading).then_some(meter))
            }
            Ok(Topic::Gateway { cluster, channel }) => (cluster, channel.as_str(), None),
            Err(_) => return self.parts.telemetry.bad_topic(),
        };
        if delivery.too_large {
            return self.parts.telemetry.too_large(kind);
        }
        if let Some((cluster, meter)) = self.enrolled_elsewhere(topic) {
            return self.parts.telemetry.rejected(kind, cluster, meter.as_ref(), &Rejection::InOtherCluster);
        }
        let Some(served) = self.state.clusters.get_mut(cluster) else { return self.not_served(cluster, kind) };
        let now = self.parts.clock.now();
        served.machine.handle(Input::Message { topic, payload: &delivery.payload }, now, &mut UnwrapErr(SysRng));
        if !std::mem::replace(&mut served.touched, true) {
            self.state.touched.push(served.id.clone());
        }
        if !drain(
            served,
            kind,
            now,
            &self.state.session,
            &mut self.state.job,
            &mut self.state.meters,
            &self.parts.telemetry,
        ) {
            *self.state.accepted.entry(kind).or_default() += 1;
            if let Some(meter) = reports {
                served.heard(meter, now);
            }
        }
    }

    /// Returns the cluster and the meter of an enrolment if the meter is in another cluster here. A meter is in one at a time,
    /// and moves when the other one neither lists it nor knows it any more.
    fn enrolled_elsewhere(&self, topic: &str) -> Option<(&ClusterId, Option<MeterId>)> {
        let Ok(Topic::Meter { cluster, channel: MeterChannel::Enrol, meter }) = Topic::parse(topic) else {
            return None;
        };
        let clusters = &self.state.clusters;
        let served = clusters.get(cluster).filter(|served| !served.machine.holds(meter))?;
        let mut others = self.state.meters.clusters(meter).filter(|other| **other != served.id);
        let elsewhere = others.any(|other| clusters.get(other).is_some_and(|other| other.machine.holds(meter)));
        elsewhere.then(|| (&served.id, MeterId::new(meter).ok()))
    }

    /// A session outlives a cluster that has moved or was removed: its topics are given up when they turn up.
    fn not_served(&mut self, cluster: &str, kind: &str) {
        self.parts.telemetry.not_served(kind);
        if self.state.foreign.insert(cluster.to_owned())
            && let (Ok(cluster), Some(session)) = (ClusterId::new(cluster), &self.state.session)
        {
            session.unsubscribe(filters(&cluster));
        }
    }

    pub(super) fn input(&mut self, cluster: &ClusterId, input: Input<'_>) {
        let Some(served) = self.state.clusters.get_mut(cluster) else { return };
        let now = self.parts.clock.now();
        served.machine.handle(input, now, &mut UnwrapErr(SysRng));
        served.changed = true;
        drain(served, "", now, &self.state.session, &mut self.state.job, &mut self.state.meters, &self.parts.telemetry);
        if !std::mem::replace(&mut served.touched, true) {
            self.state.touched.push(served.id.clone());
        }
    }
}

/// Moves all outputs of a machine into the job. Returns whether a message was rejected.
fn drain(
    served: &mut ServedCluster,
    kind: &str,
    now: Timestamp,
    session: &Option<Arc<dyn Session>>,
    job: &mut Job,
    meters: &mut MeterIndex,
    telemetry: &Telemetry,
) -> bool {
    let mut rejected = false;
    while let Some(output) = served.machine.poll() {
        match output {
            Output::Persist(record) => {
                if let Record::Enrolment { meter, .. } = &record {
                    meters.note(&served.id, meter.as_str());
                }
                job.changes.push(Change::Put(served.id.clone(), record));
            }
            Output::Forget(forget) => job.changes.push(Change::Forget(served.id.clone(), forget)),
            Output::Publish { channel, payload } => {
                if let Some(session) = session {
                    let (session, topic) = (session.clone(), channel.topic(&served.id));
                    let (payload, retain) = (bytes::Bytes::from_owner(payload), channel.is_retained());
                    job.effects.push(Effect::Publish { session, topic, payload, retain });
                }
            }
            Output::Reject { meter, reason } => {
                rejected = true;
                telemetry.rejected(kind, &served.id, meter.as_ref(), &reason);
                if is_of_earlier_format(&reason) {
                    if !std::mem::replace(&mut served.earlier_format, true) {
                        telemetry.earlier_format(&served.id, kind);
                    }
                } else if kind == GatewayChannel::FullMembership.as_str()
                    && !std::mem::replace(&mut served.foreign_list, true)
                {
                    telemetry.foreign_list(&served.id, &reason);
                }
            }
            Output::Closed(outcome) => {
                let closed = served.note_closed(outcome, &mut job.changes);
                job.effects.push(Effect::Closed { cluster: served.id.clone(), closed });
                if let Some(session) = session {
                    let (topic, payload) = announce::aggregate(&served.id, &closed, served.energy().as_ref());
                    let (session, payload) = (session.clone(), payload.into());
                    job.effects.push(Effect::Publish { session, topic, payload, retain: true });
                }
            }
            Output::Notice(notice) => {
                served.note(&notice, now);
                if let (Notice::TakenOver { .. }, Some(list)) = (&notice, served.machine.newest_list()) {
                    list.members().iter().for_each(|member| meters.note(&served.id, member.id().as_str()));
                }
                telemetry.notice(&served.id, &notice, now);
            }
        }
    }
    rejected
}

/// Returns whether a message was made by a version whose formats were other ones.
const fn is_of_earlier_format(reason: &Rejection) -> bool {
    matches!(
        reason,
        Rejection::Decode(DecodeError::EarlierFormat)
            | Rejection::Enrolment(EnrolmentError::Decode(DecodeError::EarlierFormat))
            | Rejection::List(ListError::Decode(DecodeError::EarlierFormat))
    )
}
