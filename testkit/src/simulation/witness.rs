//! What one meter says and records, and what it must never say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dream_protocol::meter::{self, Refusal};
use dream_protocol::params::Terms;
use dream_protocol::time::{Slot, Timestamp};
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{Answer, DealtReading, Mac0, MaskedReading, Message as _, Reveal};

use super::fixture::SLOT_SECONDS;
use crate::example::at;

/// An attempt of a slot.
pub(super) type Attempt = (Slot, u8);

/// What one meter said and recorded.
#[derive(Debug, Default)]
pub(super) struct Witness {
    readings: BTreeMap<Attempt, (Arc<[u8]>, [u8; 8])>,
    reveals: BTreeMap<Attempt, Arc<[u8]>>,
    recorded: BTreeSet<Attempt>,
    /// Charges by their slot.
    charged: BTreeMap<Slot, u64>,
    /// What each UTC day's account was drawn on, in 2^-20 of a millionth of rho; and what was reported of each reading.
    drawn: BTreeMap<u64, u128>,
    reported: BTreeMap<Attempt, i64>,
}

impl Witness {
    /// Takes note of what the meter wanted to do and did: the first `kept` outputs. `reported` is a reading that it made, as it
    /// was measured and as it was hidden; returns whether the day's account under these terms left only a part of it.
    pub(super) fn watch(
        &mut self,
        outputs: &[meter::Output],
        kept: usize,
        reported: Option<(i64, i64)>,
        terms: &Terms,
    ) -> bool {
        let mut in_part = false;
        for (place, output) in outputs.iter().enumerate() {
            match output {
                // The account, the record, then this notice: a crash between the first two wastes the charge.
                meter::Output::Notice(meter::Notice::Charged { slot, attempt }) => {
                    assert!(matches!(outputs[place - 2], meter::Output::Persist(meter::Record::Account(_))));
                    let (measured, hidden) = reported.expect("a reading was made");
                    let drawn = self.drawn.entry(slot.0 * SLOT_SECONDS / 86_400).or_default();
                    let (part, cost) = allowed(terms, *slot, measured, *drawn);
                    assert_eq!(hidden, part, "what is left of {slot}/{attempt} is reported");
                    in_part = hidden < measured;
                    if kept + 1 >= place {
                        *self.charged.entry(*slot).or_default() += 1;
                        *drawn += cost;
                        self.reported.insert((*slot, *attempt), hidden);
                    }
                    if kept >= place {
                        assert!(self.recorded.insert((*slot, *attempt)), "{slot}/{attempt} is recorded once");
                    }
                }
                meter::Output::Publish { channel, payload, .. } if place < kept => self.published(*channel, payload),
                meter::Output::Persist(_)
                | meter::Output::Erase(_)
                | meter::Output::Measure { .. }
                | meter::Output::Publish { .. }
                | meter::Output::Subscribe(_)
                | meter::Output::Unsubscribe(_)
                | meter::Output::Notice(_) => {}
            }
        }
        in_part
    }

    /// What the meter reported in an attempt.
    pub(super) fn reported(&self, attempt: Attempt) -> i64 {
        self.reported[&attempt]
    }

    /// How many attempts were charged for slots that start in the 24 hours up to `end`.
    pub(super) fn charges(&self, end: Timestamp) -> u64 {
        let within = |slot: &Slot| {
            let start = at(slot.0 * SLOT_SECONDS);
            start <= end && end.millis_since(start) < 86_400_000
        };
        self.charged.iter().filter(|(slot, _)| within(slot)).map(|(_, charges)| charges).sum()
    }

    pub(super) fn lost_its_store(&mut self) {
        self.charged.clear();
        self.drawn.clear();
    }

    fn published(&mut self, channel: MeterChannel, payload: &Arc<[u8]>) {
        match channel {
            MeterChannel::Reading => {
                let (slot, attempt, under) = reading_of(payload).unwrap();
                let (first, list) = self.readings.entry((slot, attempt)).or_insert_with(|| (payload.clone(), under));
                assert_eq!(first, payload, "two readings for {slot}/{attempt}");
                assert_eq!(*list, under);
                assert!(self.recorded.contains(&(slot, attempt)), "recorded before it is published");
                let mut same_time = self.readings.range((slot, 0)..=(slot, u8::MAX));
                assert!(same_time.all(|(_, (_, list))| *list == under), "two lists for slot {slot}");
            }
            MeterChannel::Reveal => {
                let (slot, attempt) = answer_of(payload).unwrap();
                let first = self.reveals.entry((slot, attempt)).or_insert_with(|| payload.clone());
                assert_eq!(first, payload, "two reveals or answers for {slot}/{attempt}");
            }
            MeterChannel::Enrol | MeterChannel::Status => {}
        }
    }
}

/// What a day's account allows of a reading, and what that costs, where lambda is the highest reading: by the letter of the
/// specification, and not by the code of meters.
fn allowed(terms: &Terms, slot: Slot, measured: i64, drawn: u128) -> (i64, u128) {
    let Terms { lo, hi, epsilon_numerator, epsilon_denominator, day_micro_rho, .. } = *terms;
    assert_eq!((lo, epsilon_numerator, epsilon_denominator), (0, 1, 1), "w is 1, and V the square of the range");
    let (square, unit) = (u128::try_from(hi).expect("positive").pow(2), 1_000_000 << 20);
    let left = (u128::from(day_micro_rho) << 20) - drawn;
    let slots = 86_400 / SLOT_SECONDS;
    let most = left.min(4 * left / u128::from(slots - slot.0 % slots));
    let mut part = measured;
    // By halves, down to the largest number of watts that costs no more.
    let cost = |watts: i64| (u128::try_from(watts).expect("positive").pow(2) * unit).div_ceil(square);
    if cost(part) > most {
        let (mut low, mut high) = (0, measured);
        while high - low > 1 {
            let middle = i64::midpoint(low, high);
            *if cost(middle) <= most { &mut low } else { &mut high } = middle;
        }
        part = low;
    }
    (part, cost(part))
}

/// The slot, attempt and list of a reading in either scheme.
pub(super) fn reading_of(payload: &[u8]) -> Option<(Slot, u8, [u8; 8])> {
    let envelope = Mac0::decode(payload).ok()?;
    let masked = MaskedReading::decode(envelope.payload()).map(|one| (one.slot, one.attempt, one.list));
    let dealt = || DealtReading::decode(envelope.payload()).map(|one| (one.slot, one.attempt, one.list));
    masked.or_else(|_| dealt()).ok()
}

/// The slot and attempt of a reveal, or of a holder's answer.
pub(super) fn answer_of(payload: &[u8]) -> Option<Attempt> {
    let envelope = Mac0::decode(payload).ok()?;
    let reveal = Reveal::decode(envelope.payload()).map(|one| (one.slot, one.attempt));
    reveal.or_else(|_| Answer::decode(envelope.payload()).map(|one| (one.slot, one.attempt))).ok()
}

/// What no meter ever has to refuse an honest gateway.
pub(super) fn check_refusal(refusal: &Refusal, clocks_jump: bool) {
    // Lists pile up at a meter whose clock went back.
    if *refusal == Refusal::TooManyLists && clocks_jump {
        return;
    }
    let wrong = matches!(
        refusal,
        Refusal::SecondRequest
            | Refusal::BadSignature
            | Refusal::TwoListsOfAnEpoch(_)
            | Refusal::BrokenChain(_)
            | Refusal::Bitmap(_)
            | Refusal::TooManyMissing { .. }
            | Refusal::AttemptNotAbove { .. }
            | Refusal::TooManyAttempts { .. }
            | Refusal::List(_)
            | Refusal::Policy(_)
            | Refusal::TooManyLists
            | Refusal::Decode(_)
            | Refusal::Topic(_)
    );
    assert!(!wrong, "a meter refuses an honest gateway: {refusal:?}");
}
