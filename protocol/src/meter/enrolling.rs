//! A meter's own enrolments: made, repeated until listed, renewed, erased.

use std::sync::Arc;

use rand_core::CryptoRng;

use super::{Conduct, Key, Meter, Notice, Output, OwnEnrolment, Record};
use crate::enrolment::{MAX_AHEAD_SECONDS, MAX_ENROLMENT_SECONDS};
use crate::keys::{AgreementSecret, ListHash, SelfKey};
use crate::time::{Slot, Timestamp};
use crate::topic::{GatewayChannel, MeterChannel};
use crate::wire::{EnrolmentStatement, Message as _, Sign1, StatusCode};

/// A meter that no list names repeats its enrolment after 45 to 75 seconds.
const REPEAT_MILLIS: (u64, u64) = (45_000, 75_000);

/// How much longer it waits while a list names its enrolment before that: the next list will come without haste.
const UNHURRIED: u64 = 60;

/// How many slots before its newest list ends a meter offers its enrolment again: the gateway may have left it out.
const OFFER_SLOTS: u64 = 2;

/// Within which time after a gateway came online a meter that is not listed enrols.
const ONLINE_MILLIS: u64 = 5_000;

/// Within which time after a slot in which nobody asked for anything a meter offers its enrolment again.
const NOT_ASKED_MILLIS: u64 = 60_000;

impl<C: Conduct> Meter<C> {
    /// Renews, repeats or erases enrolments.
    pub(super) fn enrol_when_due(&mut self, at: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        let ahead = |own: &OwnEnrolment| own.not_before > at.as_secs().saturating_add(MAX_AHEAD_SECONDS);
        let misdated = self.enrolments.values().next_back().is_some_and(ahead);
        if self.enrolments.is_empty() || misdated || self.renewal_due().is_some_and(|due| due <= at) {
            self.enrol(at, rng);
        }
        if self.offer_due() <= at {
            self.offer();
            let unhurried = self.renewing && self.list_ending().is_some_and(|ending| at < ending);
            let factor = if unhurried { UNHURRIED } else { 1 };
            self.enrol_again = at.plus_millis(factor * uniform(REPEAT_MILLIS.0, REPEAT_MILLIS.1, rng));
        }
        self.offer_when_not_asked(at);
        self.erase_old_enrolments(at);
    }

    /// Returns when the newest enrolment is offered next: from time to time while the newest list does not name it, and
    /// again from shortly before that list ends.
    fn offer_due(&self) -> Timestamp {
        match self.list_ending() {
            Some(ending) if self.listed => self.enrol_again.max(ending),
            Some(_) | None => self.enrol_again,
        }
    }

    /// Returns from when the newest list is about to end; `None` without a list.
    fn list_ending(&self) -> Option<Timestamp> {
        let list = &self.lists.values().next_back()?.list;
        Some(list.params().slot_start(Slot((list.to_slot().0 + 1).saturating_sub(OFFER_SLOTS))))
    }

    /// A gateway that was away says that it is there: whoever no list names need not wait to enrol. Spread over some
    /// seconds, because all hear it at once. A member that hears no requests cannot tell whether the gateway still knows
    /// it, and offers its enrolment as well, within a minute.
    pub(super) fn gateway_online(&mut self, at: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        let soon = at.plus_millis(uniform(0, ONLINE_MILLIS, rng));
        if !self.listed && at.plus_millis(ONLINE_MILLIS) < self.enrol_again {
            self.enrol_again = soon;
        }
        if self.listed && !self.wanted_channels().contains(&GatewayChannel::Recovery) {
            self.offer_at = Some(at.plus_millis(uniform(0, NOT_ASKED_MILLIS, rng)));
        }
    }

    /// Nobody asked for anything in a slot that was reported: the gateway may have lost its store, and then it knows neither
    /// the members nor the list. The meter offers its enrolment and says which epoch it knows, spread over a minute.
    pub(super) fn not_asked(
        &mut self,
        slot: Slot,
        list: &ListHash,
        at: Timestamp,
        rng: &mut (impl CryptoRng + ?Sized),
    ) {
        self.unasked = Some((at.plus_millis(uniform(0, NOT_ASKED_MILLIS, rng)), slot, list.prefix()));
    }

    fn offer_when_not_asked(&mut self, at: Timestamp) {
        if self.offer_at.take_if(|due| *due <= at).is_some() {
            self.offer();
        }
        if let Some((_, slot, list)) = self.unasked.take_if(|(due, ..)| *due <= at) {
            self.offer();
            self.say(StatusCode::NotAsked, Some(list), slot);
        }
    }

    /// Publishes the newest enrolment.
    fn offer(&mut self) {
        if let Some(newest) = self.enrolments.values().next_back() {
            let bytes = newest.bytes.clone();
            self.publish(MeterChannel::Enrol, None, bytes);
        }
    }

    pub(super) fn enrolment_deadline(&self) -> Option<Timestamp> {
        let again = [Some(self.offer_due()), self.unasked.map(|(due, ..)| due), self.offer_at].into_iter().flatten();
        // One that a list needs goes with the list.
        let unneeded = self.enrolments.values().filter(|own| !self.is_listed(own));
        let over = unneeded.map(|own| Timestamp::from_secs(own.not_after));
        // A renewal that is overdue waits for a certificate that has not ended.
        let ahead = |due: &Timestamp| self.clock.last.is_none_or(|last| last < *due);
        self.renewal_due().filter(ahead).into_iter().chain(again).chain(over).min()
    }

    pub(super) fn newest_seq(&self) -> Option<u64> {
        self.enrolments.keys().next_back().copied()
    }

    /// Between seven and eight twelfths into the newest enrolment's life, and at once if it speaks for an earlier
    /// certificate; `None` if a new one could not live longer. Meters that enrolled together renew one after the other:
    /// the moment follows from the enrolment's signature, which looks random.
    fn renewal_due(&self) -> Option<Timestamp> {
        let newest = self.enrolments.values().next_back()?;
        let carried = Sign1::decode_certified(&newest.bytes).ok().map(|(_, certificate)| certificate);
        if carried != Some(&self.config.certificate) {
            return Some(Timestamp::from_secs(newest.not_before));
        }
        let life = newest.not_after.saturating_sub(newest.not_before);
        let [high, low, ..] = newest.bytes.last_chunk::<64>().copied().unwrap_or([0; 64]);
        let spread = life / 12 * u64::from(u16::from_be_bytes([high, low])) / 0x1_0000;
        let due = Timestamp::from_secs(newest.not_before + life * 7 / 12 + spread);
        (newest.not_after < self.certificate.not_after()).then_some(due)
    }

    /// Makes a new key and says so. The certificate bounds an enrolment's life; an expired one ends enrolling.
    fn enrol(&mut self, at: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        let not_before = at.as_secs();
        let not_after = self.certificate.not_after().min(not_before + MAX_ENROLMENT_SECONDS);
        if not_after <= not_before {
            return;
        }
        let seq = not_before.max(self.account.seq + 1);
        let agreement = AgreementSecret::generate(rng);
        let statement = EnrolmentStatement {
            cluster: self.config.cluster.clone(),
            certificate: self.certificate.hash,
            agreement: agreement.public(),
            not_before,
            not_after,
            seq,
            holds: self.config.policy.holds.into(),
        };
        let topic = MeterChannel::Enrol.topic(&self.config.cluster, &self.id);
        let bytes = statement.seal((&self.config.identity, &self.config.certificate), &topic).into();
        let (agreement, self_key) = (Arc::new(agreement), Arc::new(SelfKey::generate(rng)));
        let own = OwnEnrolment { bytes, seq, not_before, not_after, agreement, self_key };
        self.account.seq = seq;
        self.persist_account();
        self.outputs.push_back(Output::Persist(Record::Enrolment(own.clone())));
        self.enrolments.insert(seq, own);
        self.notice(Notice::Enrolled { seq });
        self.renewing = self.listed;
        self.listed = false;
        self.enrol_again = at;
    }

    /// Erases enrolments that have ended or been replaced, once no list needs their keys.
    fn erase_old_enrolments(&mut self, at: Timestamp) {
        let newest = self.newest_seq();
        let needed = |own: &OwnEnrolment| {
            let live = Some(own.seq) == newest && at < Timestamp::from_secs(own.not_after);
            live || self.is_listed(own)
        };
        let old: Vec<u64> = self.enrolments.values().filter(|own| !needed(own)).map(|own| own.seq).collect();
        for seq in old {
            self.enrolments.remove(&seq);
            self.agreements.retain(|&(own, _), _| own != seq);
            self.outputs.push_back(Output::Erase(Key::Enrolment(seq)));
        }
    }

    fn is_listed(&self, own: &OwnEnrolment) -> bool {
        self.lists.values().any(|held| held.enrolment == own.seq)
    }
}

/// A number from `from` to `to`, near enough to uniform for a jitter.
pub(super) fn uniform(from: u64, to: u64, rng: &mut (impl CryptoRng + ?Sized)) -> u64 {
    let width = u128::from(to - from) + 1;
    from + u64::try_from((u128::from(rng.next_u64()) * width) >> 64).expect("below the width, which is of 64 bits")
}
