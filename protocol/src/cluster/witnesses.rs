//! What time it is by the members: each reading is of a slot that has just ended, by its meter's clock.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::member_message::MemberMessage;
use crate::membership::MembershipList;
use crate::params::Params;
use crate::time::Timestamp;

/// So many members must agree at least, and more than this share of the list: fewer may collude.
const FEWEST: usize = 3;
const SHARE: usize = 10;

/// For how many slots a reading says what time it is now.
const FRESH_SLOTS: u64 = 2;

/// When the last reading of each member came, by the epoch of its list.
#[derive(Debug, Default)]
pub(super) struct Witnesses(BTreeMap<u64, Heard>);

#[derive(Debug)]
struct Heard {
    params: Params,
    /// By member.
    readings: Vec<Option<Arrival>>,
}

/// When a reading came.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: Timestamp,
    /// How long after the end of its slot. Negative if it came before.
    late_millis: i64,
}

impl Witnesses {
    /// Notes the first reading of a slot. Nothing else a member says has its time in it.
    pub(super) fn note(&mut self, list: &MembershipList, member: u16, message: &MemberMessage<'_>, now: Timestamp) {
        let is_reading = matches!(message, MemberMessage::Reading(_) | MemberMessage::Dealt(_));
        if !is_reading || message.attempt() != 0 {
            return;
        }
        let heard = self.0.entry(list.epoch()).or_insert_with(|| Heard::new(*list.params()));
        heard.note(member, heard.params.slot_end(message.slot()), now);
    }

    /// Forgets what was said under lists that are gone.
    pub(super) fn keep(&mut self, is_held: impl Fn(u64) -> bool) {
        self.0.retain(|epoch, _| is_held(*epoch));
    }

    /// Whether enough members of a list spoke of the present. What waited at the broker counts until its slot expires.
    pub(super) fn fit(&self, skew_seconds: u64) -> bool {
        self.0.values().any(|heard| {
            let fits = |reading: &&Arrival| reading.fits(0, skew_seconds, heard.params.terms().slot_seconds);
            heard.are_enough(heard.readings.iter().flatten().filter(fits).count())
        })
    }

    /// Whether enough members of a list spoke of another time lately, and too few of the present.
    pub(super) fn contradict(&self, skew_seconds: u64, now: Timestamp) -> bool {
        !self.fit(skew_seconds) && self.0.values().any(|heard| heard.are_enough(heard.fresh(now).count()))
    }

    /// Whether enough members of a list lately fit a clock that is so far ahead, and no fewer than fit this one.
    pub(super) fn prefer(&self, ahead_millis: i64, skew_seconds: u64, now: Timestamp) -> bool {
        self.0.values().any(|heard| {
            let window = heard.params.terms().reading_seconds;
            let fitting = |ahead| heard.fresh(now).filter(|reading| reading.fits(ahead, skew_seconds, window)).count();
            heard.are_enough(fitting(ahead_millis)) && fitting(ahead_millis) >= fitting(0)
        })
    }
}

impl Heard {
    fn new(params: Params) -> Self {
        Self { params, readings: vec![None; params.members().into()] }
    }

    fn note(&mut self, member: u16, ended: Timestamp, now: Timestamp) {
        let late_millis = signed(now.millis_since(ended)) - signed(ended.millis_since(now));
        if let Some(reading) = self.readings.get_mut(usize::from(member)) {
            *reading = Some(Arrival { at: now, late_millis });
        }
    }

    fn fresh(&self, now: Timestamp) -> impl Iterator<Item = &Arrival> {
        let since = FRESH_SLOTS * self.params.terms().slot_seconds * 1000;
        self.readings.iter().flatten().filter(move |reading| now.millis_since(reading.at) <= since)
    }

    fn are_enough(&self, members: usize) -> bool {
        members >= FEWEST && members * SHARE > self.readings.len()
    }
}

impl Arrival {
    /// Whether it came between the end of its slot and so many seconds later, by a clock that is so far ahead.
    fn fits(&self, ahead_millis: i64, skew_seconds: u64, window_seconds: u64) -> bool {
        let (skew, window) = (signed(skew_seconds * 1000), signed(window_seconds * 1000));
        (-skew..=window + skew).contains(&self.late_millis.saturating_add(ahead_millis))
    }
}

fn signed(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}
