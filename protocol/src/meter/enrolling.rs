//! A meter's own enrolments: made, repeated until listed, renewed, erased.

use std::sync::Arc;

use rand_core::CryptoRng;

use super::{Conduct, Key, Meter, Notice, Output, OwnEnrolment, Record};
use crate::enrolment::MAX_ENROLMENT_SECONDS;
use crate::keys::{AgreementSecret, SelfKey};
use crate::time::Timestamp;
use crate::topic::MeterChannel;
use crate::wire::{EnrolmentStatement, Message as _, Sign1};

/// A meter that is not listed repeats its enrolment after 45 to 75 seconds.
const REPEAT_MILLIS: (u64, u64) = (45_000, 75_000);

impl<C: Conduct> Meter<C> {
    /// Renews, repeats or erases enrolments.
    pub(super) fn enrol_when_due(&mut self, at: Timestamp, rng: &mut (impl CryptoRng + ?Sized)) {
        if self.enrolments.is_empty() || self.renewal_due().is_some_and(|due| due <= at) {
            self.enrol(at, rng);
        }
        if !self.listed && self.enrol_again <= at {
            if let Some(newest) = self.enrolments.values().next_back() {
                let bytes = newest.bytes.clone();
                self.publish(MeterChannel::Enrol, None, bytes);
            }
            self.enrol_again = at.plus_millis(uniform(REPEAT_MILLIS.0, REPEAT_MILLIS.1, rng));
        }
        self.erase_old_enrolments(at);
    }

    pub(super) fn enrolment_deadline(&self) -> Option<Timestamp> {
        let again = (!self.listed).then_some(self.enrol_again);
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

    /// Two thirds into the newest enrolment's life, and at once if it speaks for an earlier certificate; `None` if a new
    /// one could not live longer.
    fn renewal_due(&self) -> Option<Timestamp> {
        let newest = self.enrolments.values().next_back()?;
        let carried = Sign1::decode_certified(&newest.bytes).ok().map(|(_, certificate)| certificate);
        if carried != Some(&self.config.certificate) {
            return Some(Timestamp::from_secs(newest.not_before));
        }
        let life = newest.not_after.saturating_sub(newest.not_before);
        let due = Timestamp::from_secs(newest.not_before + life * 2 / 3);
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
