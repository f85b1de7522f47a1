//! How a meter enrols: its enrolments are made, repeated until listed, renewed, erased.

use alloc::sync::Arc;
use alloc::vec::Vec;

use rand_core::CryptoRng;

use super::enrolments::Listing;
use super::{Conduct, Key, Meter, Notice, OwnEnrolment, Record};
use crate::enrolment::{MAX_AHEAD_SECONDS, MAX_ENROLMENT_SECONDS};
use crate::keys::{AgreementSecret, ListHash, SelfKey};
use crate::time::{Slot, Timestamp};
use crate::topic::{GatewayChannel, MeterChannel};
use crate::wire::{EnrolmentStatement, Message as _, StatusCode};

/// A meter that no list names repeats its enrolment after 45 to 75 seconds.
const REPEAT_MILLIS: (u64, u64) = (45_000, 75_000);

/// How much longer it waits while a list names its enrolment before that: the next list will come without haste.
const UNHURRIED: u64 = 60;

/// Within which time after a gateway came online a meter that is not listed enrols.
const ONLINE_MILLIS: u64 = 5_000;

/// Within which time after a slot in which nobody asked for anything a meter offers its enrolment again.
const NOT_ASKED_MILLIS: u64 = 60_000;

impl<C: Conduct> Meter<C> {
    /// Renews, repeats or erases enrolments.
    pub(super) fn enrol_when_due(&mut self, at: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        let ahead = |own: &OwnEnrolment| own.not_before > at.as_secs().saturating_add(MAX_AHEAD_SECONDS);
        let misdated = self.enrolments.newest().is_some_and(ahead);
        if self.enrolments.own.is_empty() || misdated || self.renewal_due().is_some_and(|due| due <= at) {
            self.enrol(at, rng);
        }
        if self.enrolments.offer_due(&self.lists) <= at {
            self.offer();
            let unhurried =
                self.enrolments.listing == Listing::Renewing && self.lists.ending().is_some_and(|ending| at < ending);
            let factor = if unhurried { UNHURRIED } else { 1 };
            self.enrolments.offer_again = at.plus_millis(factor * uniform(REPEAT_MILLIS.0, REPEAT_MILLIS.1, rng));
        }
        self.offer_when_not_asked(at);
        self.erase_old_enrolments(at);
    }

    /// A gateway that was away says that it is back: a meter that no list names enrols within some seconds, at a
    /// random moment because all hear it at once. A member that hears no requests cannot tell whether the gateway still knows
    /// it, and offers its enrolment as well, within a minute.
    pub(super) fn gateway_online(&mut self, at: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        let soon = at.plus_millis(uniform(0, ONLINE_MILLIS, rng));
        if self.enrolments.listing != Listing::Listed && at.plus_millis(ONLINE_MILLIS) < self.enrolments.offer_again {
            self.enrolments.offer_again = soon;
        }
        if self.enrolments.listing == Listing::Listed && !self.lists.wanted().contains(&GatewayChannel::Recovery) {
            self.enrolments.offer_at = Some(at.plus_millis(uniform(0, NOT_ASKED_MILLIS, rng)));
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
        self.enrolments.unasked = Some((at.plus_millis(uniform(0, NOT_ASKED_MILLIS, rng)), slot, list.prefix()));
    }

    fn offer_when_not_asked(&mut self, at: Timestamp) {
        if self.enrolments.offer_at.take_if(|due| *due <= at).is_some() {
            self.offer();
        }
        if let Some((_, slot, list)) = self.enrolments.unasked.take_if(|(due, ..)| *due <= at) {
            self.offer();
            self.say(StatusCode::NotAsked, Some(list), slot);
        }
    }

    /// Publishes the newest enrolment.
    fn offer(&mut self) {
        if let Some(newest) = self.enrolments.newest() {
            let bytes = newest.bytes.clone();
            self.publish(MeterChannel::Enrol, None, bytes);
        }
    }

    pub(super) fn enrolment_deadline(&self) -> Option<Timestamp> {
        let again = [
            Some(self.enrolments.offer_due(&self.lists)),
            self.enrolments.unasked.map(|(due, ..)| due),
            self.enrolments.offer_at,
        ]
        .into_iter()
        .flatten();
        // One that a list needs goes with the list.
        let unneeded = self.enrolments.own.values().filter(|own| !self.is_listed(own));
        let over = unneeded.map(|own| Timestamp::from_secs(own.not_after));
        // A renewal that is overdue waits for a certificate that has not ended.
        let ahead = |due: &Timestamp| self.clock.last.is_none_or(|last| last < *due);
        self.renewal_due().filter(ahead).into_iter().chain(again).chain(over).min()
    }

    fn renewal_due(&self) -> Option<Timestamp> {
        self.enrolments.renewal_due(&self.config.certificate, self.certificate.not_after())
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
        self.persist(Record::Enrolment(own.clone()));
        self.enrolments.own.insert(seq, own);
        self.notice(Notice::Enrolled { seq });
        let listed = self.enrolments.listing == Listing::Listed;
        self.enrolments.listing = if listed { Listing::Renewing } else { Listing::Unlisted };
        self.enrolments.offer_again = at;
    }

    /// Erases enrolments that have ended or been replaced, once no list needs their keys.
    fn erase_old_enrolments(&mut self, at: Timestamp) {
        let newest = self.enrolments.newest_seq();
        let needed = |own: &OwnEnrolment| {
            let live = Some(own.seq) == newest && at < Timestamp::from_secs(own.not_after);
            live || self.is_listed(own)
        };
        let old: Vec<u64> = self.enrolments.own.values().filter(|own| !needed(own)).map(|own| own.seq).collect();
        for seq in old {
            self.enrolments.own.remove(&seq);
            self.enrolments.agreements.retain(|&(own, _), _| own != seq);
            self.erase(Key::Enrolment(seq));
        }
    }

    fn is_listed(&self, own: &OwnEnrolment) -> bool {
        self.lists.held.values().any(|held| held.enrolment == own.seq)
    }
}

/// A number from `from` to `to`, near enough to uniform for a jitter.
pub(super) fn uniform(from: u64, to: u64, rng: &mut (impl CryptoRng + ?Sized)) -> u64 {
    let width = u128::from(to - from) + 1;
    from + u64::try_from((u128::from(rng.next_u64()) * width) >> 64).expect("below the width, which is of 64 bits")
}
