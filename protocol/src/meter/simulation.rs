//! Meters for simulators and tests, whose noise can be replaced and whose rules can be switched off: [`Meter<Simulated>`].

mod day_account;
#[cfg(feature = "gateway")]
mod unmasked;

pub use day_account::DayAccount;
#[cfg(feature = "gateway")]
pub use unmasked::{unmasked_slot, unmasked_sum};

use super::conduct::sealed::Sealed as _;
use super::lists::Role;
use super::record::Stage;
use super::{Conduct, Meter, MeterConfig, MeterError, Record, Refusal, SlotRecord};
use crate::keys::{AgreementPublic, SharedSecret};
use crate::member_set::MemberSet;
use crate::scheme::committee::field::Element;
use crate::time::{Slot, Timestamp};
use crate::wire::{Mac0, Message as _, RecoveryRequest, Reveal, Sign1};

/// Which rules a simulated meter breaks; by default none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Simulation {
    /// Replaces the noise share, in watts: 0 makes sums exact, anything else shifts them.
    pub share: Option<i64>,
    /// Whether an attempt is answered only once.
    pub one_answer: bool,
    /// Whether a request may name at most M members.
    pub missing_bound: bool,
    /// What readings cost the account of their day.
    pub day_account: Accounting,
    /// Whether it answers rightly as a holder.
    pub right_answers: bool,
}

/// What readings cost the account of their day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accounting {
    /// What they must.
    Right,
    /// Half of what they must, where they may be negative.
    SignedAtHalf,
    /// Nothing: there is no account.
    Off,
}

/// What a meter hid in an attempt's message: the reading, clipped and as far as the day's account allowed it, and its share of
/// the noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hidden {
    pub slot: Slot,
    pub attempt: u8,
    pub watts: i64,
    pub share: i64,
}

impl Default for Simulation {
    /// An honest meter.
    fn default() -> Self {
        Self { share: None, ..Self::NOISELESS }
    }
}

impl Simulation {
    /// A meter that adds no noise, so that sums are exact.
    pub const NOISELESS: Self = Self {
        share: Some(0),
        one_answer: true,
        missing_bound: true,
        day_account: Accounting::Right,
        right_answers: true,
    };
}

/// The conduct of a simulated meter: its settings, and what its last attempt hid.
#[derive(Debug)]
pub struct Simulated {
    settings: Simulation,
    hidden: Option<Hidden>,
}

impl Conduct for Simulated {
    fn share(&self, drawn: i64) -> i64 {
        self.settings.share.unwrap_or(drawn)
    }

    fn answers_once(&self) -> bool {
        self.settings.one_answer
    }

    fn most_missing(&self, allowed: u16) -> u16 {
        if self.settings.missing_bound { allowed } else { u16::MAX }
    }

    fn day_weight(&self, due: u8) -> Option<u8> {
        match self.settings.day_account {
            Accounting::Right => Some(due),
            Accounting::SignedAtHalf => Some(1),
            Accounting::Off => None,
        }
    }

    fn answer(&self, sum: Element) -> Element {
        if self.settings.right_answers { sum } else { sum + sum + Element::ONE }
    }

    fn hid(&mut self, hidden: Hidden) {
        self.hidden = Some(hidden);
    }
}

impl Meter<Simulated> {
    /// Rebuilds a simulated meter from its records, as [`Meter::resume`] does for a real one.
    pub fn simulated(
        config: MeterConfig,
        records: impl IntoIterator<Item = Record>,
        settings: Simulation,
    ) -> Result<Self, MeterError> {
        Simulated { settings, hidden: None }.resume(config, records.into_iter().collect())
    }

    /// Returns what the last attempt hid, once: a simulator that knows it can tell whether masks cancelled exactly.
    pub fn take_hidden(&mut self) -> Option<Hidden> {
        self.conduct.hidden.take()
    }

    /// Hands over an X25519 result that this process knows from the other end of the pair.
    pub fn offer_agreement(&mut self, with: AgreementPublic, shared: SharedSecret) {
        if let Some(newest) = self.enrolments.newest_seq() {
            self.enrolments.agreements.insert((newest, with), shared);
        }
    }

    /// The X25519 results of the newest enrolment, for the other ends of the pairs.
    pub fn agreements(&self) -> impl Iterator<Item = (&AgreementPublic, &SharedSecret)> {
        let newest = self.enrolments.newest_seq();
        self.enrolments
            .agreements
            .iter()
            .filter(move |((seq, _), _)| Some(*seq) == newest)
            .map(|((_, with), shared)| (with, shared))
    }

    /// Returns the X25519 result of the newest enrolment with another public key, for the other end of the pair. One that is
    /// not known yet is computed, and not kept. `None` without an enrolment, or if the result is not contributory.
    pub fn agree_with(&self, with: &AgreementPublic) -> Option<SharedSecret> {
        let newest = self.enrolments.newest_seq()?;
        let known = self.enrolments.agreements.get(&(newest, *with)).cloned();
        known.or_else(|| self.enrolments.own.get(&newest)?.agreement.agree(with))
    }
}

impl<C: Conduct> Meter<C> {
    /// Answers a second request for an answered attempt: what no honest meter does.
    pub(super) fn answer_again(
        &mut self,
        request: &RecoveryRequest,
        bytes: &[u8],
        at: Timestamp,
    ) -> Result<(), Refusal> {
        let record = self.slots.reported.get(&request.slot).ok_or(Refusal::UnknownSlot)?.clone();
        let Stage::Answered { attempt, message, request: answered, reveal } = &record.stage else {
            return Err(Refusal::OtherAttempt);
        };
        let held = self.lists.get(&record.list).ok_or(Refusal::UnknownSlot)?;
        let members = held.list.params().members();
        let first = RecoveryRequest::decode(Sign1::decode(answered)?.payload())?;
        let told = MemberSet::from_bytes(members, &first.missing)?;
        let now_told = MemberSet::from_bytes(members, &request.missing)?;
        let Role::Pairwise(member) = &held.role else { return Err(Refusal::NotAHolder) };
        self.check_missing(&now_told, held.list.params().max_missing(), member.index)?;
        let revealed = Reveal::decode(Mac0::decode(reveal)?.payload())?.revealed;
        let secret = revealed.wrapping_sub(member.given_up(&told, request.slot, *attempt));
        let again = secret.wrapping_add(member.given_up(&now_told, request.slot, *attempt));
        let (attempt, message) = (*attempt, message.clone());
        let reveal = self.seal_reveal(request, again)?;
        self.keep(SlotRecord { stage: Stage::Answered { attempt, message, request: bytes.into(), reveal }, ..record });
        self.publish_reveal(request.slot, at);
        Ok(())
    }
}
