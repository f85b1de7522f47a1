//! The slots of a cluster, from the end of their measurement until the last answer: who moves them on, what is learned from
//! them, and who is left out.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::holders::Watch;
use super::member_message::MemberMessage;
use super::open_slot::{Attempt, Judges, OpenSlot, Step};
use super::outputs::{Outputs, Turn};
use super::own_list::OwnList;
use super::publisher::Publisher;
use super::witnesses::Witnesses;
use super::{ClusterConfig, Forget, Notice, Offenders, Record, Rejection, Retries, STALL_SECONDS};
use crate::aggregate::{Aggregate, Failure, SlotOutcome};
use crate::time::{Slot, Timestamp};
use crate::topic::GatewayChannel;
use crate::wire::Mac0;

/// Open slots, those that are closed while answers still come, and what was learned from earlier ones.
#[derive(Debug)]
pub(super) struct Slots {
    config: Arc<ClusterConfig>,
    open: BTreeMap<Slot, OpenSlot>,
    /// Closed slots of committees, while answers still come.
    pub(super) watched: BTreeMap<Slot, Watch>,
    /// The end of the last slot that was opened: no time is opened twice.
    opened_until: Timestamp,
    pub(super) retries: Retries,
    /// Members that spoil slots.
    pub(super) offenders: Offenders,
    /// What time it is by the members.
    pub(super) witnesses: Witnesses,
}

impl Slots {
    pub(super) fn new(config: Arc<ClusterConfig>) -> Self {
        Self {
            config,
            open: BTreeMap::new(),
            watched: BTreeMap::new(),
            opened_until: Timestamp::from_millis(0),
            retries: Retries::default(),
            offenders: Offenders::default(),
            witnesses: Witnesses::default(),
        }
    }

    /// Returns when the first open slot moves on.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.open.values().map(OpenSlot::deadline).min()
    }

    /// Returns when the holders of a closed slot had their time to answer.
    pub(super) fn holders_deadline(&self) -> Option<Timestamp> {
        self.watched.values().map(|watch| watch.until).min()
    }

    /// The next slot to open, its list, and the moment.
    pub(super) fn next(&self, lists: &Publisher) -> Option<(Slot, Arc<OwnList>, Timestamp)> {
        lists.next_slot(self.opened_until)
    }

    /// Takes what a member says: the hot path. Allocates nothing but the output's place in the queue. Returns the slot if it
    /// can go on.
    pub(super) fn receive(
        &mut self,
        message: &MemberMessage<'_>,
        sealed: (&Mac0<'_>, &str, &str),
        lists: &Publisher,
        now: Timestamp,
        outputs: &mut Outputs,
    ) -> Result<Option<Slot>, Rejection> {
        let slot = message.slot();
        if let (MemberMessage::Answer(answer), Some(watch)) = (message, self.watched.get_mut(&slot)) {
            return watch.late_answer(answer, sealed).map(|()| None);
        }
        let Some(open) = self.open.get_mut(&slot) else {
            let covering = || lists.lists().filter(|own| own.list.covers(slot));
            // Of no use as a reading, it still tells what time it is for a member.
            let known = covering().find_map(|own| Some((own, own.authenticate(sealed, &message.list()).ok()?)));
            if let Some((own, member)) = known {
                self.witnesses.note(&own.list, member, message, now);
            }
            let over = covering().any(|own| own.list.params().slot_end(slot) <= self.opened_until);
            return Err(if over { Rejection::SlotClosed } else { Rejection::SlotNotOpen });
        };
        let member = open.own().authenticate(sealed, &message.list())?;
        self.witnesses.note(open.list(), member, message, now);
        outputs.persist(open.accept(member, message)?);
        Ok(open.is_complete().then_some(slot))
    }

    /// Gives open slots the time of a window, because the gateway was away.
    pub(super) fn catch_up(&mut self, now: Timestamp) {
        self.open.values_mut().for_each(|open| open.allow_catching_up(now));
    }

    /// Lets every request and retry be repeated at once.
    pub(super) fn broadcast_now(&mut self, now: Timestamp) {
        self.open.values_mut().for_each(|open| open.broadcast_now(now));
    }

    /// Moves all open slots on as far as they go.
    pub(super) fn step_all(&mut self, lists: &mut Publisher, turn: &mut Turn<'_>) {
        let open: Vec<Slot> = self.open.keys().copied().collect();
        for slot in open {
            self.step(slot, lists, turn);
        }
    }

    /// Opens the slots whose readings are due.
    pub(super) fn open_due(&mut self, lists: &mut Publisher, turn: &mut Turn<'_>) {
        while let Some((slot, own, opens)) = self.next(lists)
            && opens <= turn.now
        {
            let ended = own.list.params().slot_end(slot);
            let mut open = OpenSlot::new(slot, own);
            if ended.plus_secs(STALL_SECONDS) <= turn.now {
                open.allow_catching_up(turn.now);
            }
            self.opened_until = ended;
            self.open.entry(slot).or_insert(open);
            self.step(slot, lists, turn);
        }
    }

    /// Opens the slots whose readings come at this time, if the time is right: they are collected, and nothing else happens.
    /// Slots before them stay unopened. Returns when the next one is to be opened.
    pub(super) fn open_present(&mut self, lists: &Publisher, now: Timestamp) -> Option<Timestamp> {
        let mut reached = self.opened_until;
        while let Some((slot, own, opens)) = lists.next_slot(reached) {
            if now < opens {
                return Some(opens);
            }
            let params = *own.list.params();
            if now < params.slot_expiry(slot) {
                self.open.entry(slot).or_insert_with(|| OpenSlot::new(slot, own));
            }
            // Not one by one: the clock may be years ahead.
            let length = params.terms().slot_seconds;
            let recent = Timestamp::from_secs(now.as_secs().saturating_sub(2 * length));
            reached = params.slot_end(slot).max(recent);
        }
        None
    }

    /// Erases the lists that no slot needs.
    pub(super) fn forget_lists(&mut self, lists: &mut Publisher, now: Timestamp, outputs: &mut Outputs) {
        let is_open = |epoch| self.open.values().any(|open| open.epoch() == epoch);
        lists.forget_lists(self.opened_until, is_open, now, outputs);
        self.witnesses.keep(|epoch| lists.lists().any(|own| own.list.epoch() == epoch));
    }

    /// Returns the end of the last slot that was opened.
    pub(super) const fn opened_until(&self) -> Timestamp {
        self.opened_until
    }

    /// Moves one slot on as far as it goes; returns whether it closed.
    pub(super) fn step(&mut self, slot: Slot, lists: &mut Publisher, turn: &mut Turn<'_>) -> bool {
        while let Some(open) = self.open.get_mut(&slot) {
            let left = self.retries.left(slot, open.list().params(), &self.config);
            let (config, roster, offenders) = (&*self.config, &lists.roster, &mut self.offenders);
            match open.step(turn.now, &mut Judges { config, roster, offenders, left, rng: &mut *turn.rng }) {
                Step::Wait => return false,
                Step::Request { attempt, bytes, notices } => {
                    let ended = open.ends();
                    // The coin that the request shows is known before it is: a bet on it is never lost.
                    self.persist_offenders(turn.outputs);
                    turn.outputs.persist(Record::Request { slot, attempt, bytes: bytes.clone() });
                    turn.outputs.publish(GatewayChannel::Recovery, bytes);
                    turn.outputs.notices(notices);
                    turn.outputs.notice(Notice::Requested { slot, attempt, ended });
                }
                Step::Retry { attempt, bytes, ended } => {
                    turn.outputs.persist(Record::Retry { slot, attempt, bytes: bytes.clone() });
                    if self.retries.spend(slot, open.list().params(), &self.config) {
                        turn.outputs.persist(Record::Retries(Box::new(self.retries.clone())));
                    }
                    turn.outputs.publish(GatewayChannel::Retry, bytes);
                    if let Some(ended) = ended {
                        self.learn(&ended, lists, turn);
                    }
                }
                Step::Repeat { channel, bytes } => turn.outputs.publish(channel, bytes),
                // Without a connection nobody could be heard.
                Step::Close(Err(Failure::TooManyMissing)) if !lists.retained.is_connected() => {
                    self.close(slot, Err(Failure::Interrupted), lists, turn);
                }
                Step::Close(result) => self.close(slot, result, lists, turn),
            }
        }
        true
    }

    fn close(&mut self, slot: Slot, result: Result<Aggregate, Failure>, lists: &mut Publisher, turn: &mut Turn<'_>) {
        let Some(open) = self.open.remove(&slot) else { return };
        let outcome = open.outcome(result);
        turn.outputs.persist(Record::Outcome(outcome));
        turn.outputs.forget(Forget::Slot(slot));
        turn.outputs.close(outcome);
        // A slot that the gateway missed says nothing of the members.
        if result != Err(Failure::Interrupted) {
            lists.count_heard(&open, turn.now, turn.outputs);
            if let Some(ended) = open.ended() {
                self.learn(&ended, lists, turn);
            }
        }
        if let Some(watch) = open.into_watch(turn.now) {
            self.watched.insert(slot, watch);
            self.report_holders(lists.retained.is_connected(), turn.now, turn.outputs);
        }
        if self.offenders.end_exclusions(slot, turn.now) {
            lists.roster.change(turn.now);
            self.persist_offenders(turn.outputs);
        }
    }

    /// Learns from an attempt who spoils slots. Without a connection nobody could be heard.
    fn learn(&mut self, ended: &Attempt, lists: &mut Publisher, turn: &mut Turn<'_>) {
        if !lists.retained.is_connected() {
            return;
        }
        let left = self.retries.left(ended.slot, ended.list().params(), &self.config);
        let notices = self.offenders.observe(ended, &self.config, left, turn.now, &mut *turn.rng);
        self.persist_offenders(turn.outputs);
        let by_lists = |notice: &Notice| matches!(notice, Notice::SearchesByLists { .. });
        let left_out = |notice: &Notice| matches!(notice, Notice::LeftOutOfLists { .. });
        if notices.iter().any(|notice| by_lists(notice) || left_out(notice)) {
            lists.roster.change(turn.now);
        }
        if notices.iter().any(by_lists) {
            lists.hurry();
        }
        turn.outputs.notices(notices);
    }

    pub(super) fn persist_offenders(&mut self, outputs: &mut Outputs) {
        if self.offenders.take_changed() {
            outputs.persist(Record::Offenders(Box::new(self.offenders.clone())));
        }
    }

    /// Replays the outcome of a slot. It sorts after the slot's entries; if they are there, a crash came before they were
    /// forgotten.
    pub(super) fn reopen_outcome(&mut self, outcome: &SlotOutcome, outputs: &mut Outputs) {
        self.opened_until = self.opened_until.max(outcome.end);
        if self.open.get(&outcome.slot).is_some_and(|open| open.ends() == outcome.end) {
            self.open.remove(&outcome.slot);
            outputs.forget(Forget::Slot(outcome.slot));
        }
    }

    /// Replays an entry of an open slot. One without a list cannot be opened and is forgotten.
    pub(super) fn reopen(&mut self, slot: Slot, record: &Record, lists: &Publisher, outputs: &mut Outputs) {
        if !self.open.contains_key(&slot) {
            let Some(own) = lists.lists().rev().find(|own| own.list.covers(slot)).cloned() else {
                return outputs.forget(Forget::Slot(slot));
            };
            self.opened_until = self.opened_until.max(own.list.params().slot_end(slot));
            self.open.insert(slot, OpenSlot::new(slot, own));
        }
        if let Some(open) = self.open.get_mut(&slot) {
            open.replay(record);
        }
    }
}
