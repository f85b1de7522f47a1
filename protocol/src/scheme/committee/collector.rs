//! What the gateway collects in an attempt of the committee scheme, and how it opens the sum (`protocol-gateway.md 4a`).

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::Committee;
use super::decoding::{self, Decoded};
use super::field::Element;
use crate::member_set::MemberSet;

/// How many answers more than needed must agree for a sum to be released before the deadline: two wrong ones among the first
/// answers are noticed.
const CONFIRMING: usize = 4;

/// Readings and answers of one attempt.
#[derive(Debug)]
pub(crate) struct Collector {
    holders: usize,
    needed: usize,
    ciphertexts: Box<[Element]>,
    /// By member, those of each holder after the first q.
    corrections: Box<[Element]>,
    present: MemberSet,
    count: u16,
    /// The sum of all ciphertexts without the members' streams, and of all corrections, by holder.
    sum: Element,
    corrected: Box<[Element]>,
    /// What holders answered, by holder.
    answers: Box<[Option<Element>]>,
    answered: usize,
}

/// A sum that the answers open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The sum over everybody who is not missing.
    pub(crate) sum: i64,
    /// How many answers agree with it.
    pub(crate) agreeing: usize,
    /// The holders whose answers do not, counted from 0: they lied, or members dealt them something wrong.
    pub(crate) wrong: Vec<u16>,
}

impl Collector {
    pub(crate) fn new(members: u16, committee: Committee) -> Self {
        let count = |count: u64| usize::try_from(count).expect("a sound list has at most 256 holders");
        let (holders, needed) = (count(committee.holders), count(committee.needed));
        let members_too = usize::from(members);
        Self {
            holders,
            needed,
            ciphertexts: vec![Element::ZERO; members_too].into(),
            corrections: vec![Element::ZERO; members_too * (holders - needed)].into(),
            present: MemberSet::empty(members),
            count: 0,
            sum: Element::ZERO,
            corrected: vec![Element::ZERO; holders - needed].into(),
            answers: vec![None; holders].into(),
            answered: 0,
        }
    }

    /// The length in bytes of the corrections in a reading.
    pub(crate) const fn corrections_len(&self) -> usize {
        8 * (self.holders - self.needed)
    }

    /// Whether a member sent a reading, and if so, whether it was this one.
    pub(crate) fn reading_is(&self, member: u16, ciphertext: Element, corrections: &[u8]) -> Option<bool> {
        self.present.contains(member).then(|| {
            let same = self.corrections_of(member).iter().map(|value| value.to_be_bytes());
            self.ciphertexts[usize::from(member)] == ciphertext
                && same.eq(corrections.as_chunks::<8>().0.iter().copied())
        })
    }

    pub(crate) fn has_reading(&self, member: u16) -> bool {
        self.present.contains(member)
    }

    /// Takes a reading, and what is left of its ciphertext without the member's stream. Corrections have the right length.
    pub(crate) fn add_reading(&mut self, member: u16, ciphertext: Element, unstreamed: Element, corrections: &[u8]) {
        let at = usize::from(member);
        let width = self.corrected.len();
        let values = corrections.as_chunks::<8>().0;
        if self.present.contains(member) || at >= self.ciphertexts.len() || values.len() != width {
            return;
        }
        self.present.insert(member);
        self.ciphertexts[at] = ciphertext;
        self.count += 1;
        self.sum += unstreamed;
        let kept = &mut self.corrections[at * width..][..width];
        for ((kept, sum), value) in kept.iter_mut().zip(&mut self.corrected).zip(values) {
            *kept = Element::from_be_bytes(*value).unwrap_or_default();
            *sum += *kept;
        }
    }

    /// How many readings there are.
    pub(crate) const fn count(&self) -> u16 {
        self.count
    }

    /// What a holder answered, if it did.
    pub(crate) fn answer(&self, holder: u16) -> Option<Element> {
        self.answers.get(usize::from(holder)).copied().flatten()
    }

    pub(crate) fn add_answer(&mut self, holder: u16, sum: Element) {
        if let Some(answer @ None) = self.answers.get_mut(usize::from(holder)) {
            *answer = Some(sum);
            self.answered += 1;
        }
    }

    /// Whether so many answers are there that another one changes nothing: all, or enough to be sure of the sum if they agree.
    pub(crate) fn may_be_enough(&self) -> bool {
        self.answered == self.holders || self.answered >= self.needed + CONFIRMING
    }

    /// Whether the sum need not wait for more answers.
    pub(crate) fn is_settled(&self, opened: &Opened) -> bool {
        self.answered == self.holders || self.is_confirmed(opened)
    }

    /// Whether some answers more than are needed agree.
    pub(crate) const fn is_confirmed(&self, opened: &Opened) -> bool {
        opened.agreeing >= self.needed + CONFIRMING
    }

    /// Whether there are enough answers to open a sum, if none is wrong.
    pub(crate) const fn has_enough(&self) -> bool {
        self.answered >= self.needed
    }

    /// Opens the sum over everybody who is not missing, if the answers allow it; `unstreamed` gives what is left of a member's
    /// ciphertext without its stream.
    pub(crate) fn open(&self, missing: &MemberSet, unstreamed: impl Fn(u16, Element) -> Element) -> Option<Opened> {
        if !self.has_enough() {
            return None;
        }
        let (mut sum, mut corrected) = (self.sum, self.corrected.clone());
        for member in missing.iter().filter(|&member| self.present.contains(member)) {
            sum -= unstreamed(member, self.ciphertexts[usize::from(member)]);
            for (corrected, value) in corrected.iter_mut().zip(self.corrections_of(member)) {
                *corrected -= *value;
            }
        }
        let answers = (0u16..).zip(&self.answers).filter_map(|(holder, answer)| {
            let correction =
                usize::from(holder).checked_sub(self.needed).map_or(Element::ZERO, |place| corrected[place]);
            Some((holder + 1, (*answer)? + correction))
        });
        let answers: Vec<(u16, Element)> = answers.collect();
        let Decoded { secret, agreeing, wrong } = decoding::decode(self.needed, &answers).ok()?;
        let wrong = wrong.into_iter().map(|point| point - 1).collect();
        Some(Opened { sum: (sum - secret).to_signed(), agreeing, wrong })
    }

    fn corrections_of(&self, member: u16) -> &[Element] {
        let width = self.corrected.len();
        &self.corrections[usize::from(member) * width..][..width]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::keys::{ListHash, PairKey, SelfKey};
    use crate::scheme::committee::dealing::Dealer;
    use crate::scheme::committee::member::{Holder, Member};
    use crate::time::Slot;

    const MEMBERS: u16 = 14;
    /// The members 2 to 13 are holders, and nine answers are needed.
    const COMMITTEE: Committee = Committee { drawn: 0, needed: 9, holders: 12 };
    const FIRST_HOLDER: u16 = 2;
    const SLOT: Slot = Slot(2_980_000);
    const LIST: ListHash = ListHash([7; 32]);

    fn pair(one: u16, other: u16) -> Option<PairKey> {
        let ends = [one.min(other), one.max(other)].map(u16::to_be_bytes).concat();
        (one != other).then(|| PairKey::from_bytes(std::array::from_fn(|i| ends[i % 4] ^ 0x5a)))
    }

    fn self_key(member: u16) -> Arc<SelfKey> {
        Arc::new(SelfKey::from_bytes([u8::try_from(member).unwrap(); 32]))
    }

    fn watts(member: u16) -> i64 {
        1000 * i64::from(member) - 3000
    }

    /// A collector with everybody's readings, of which the corrections of some may be changed; streams are left out.
    fn collected(change: impl Fn(u16, &mut Vec<Element>)) -> Collector {
        let dealer = Arc::new(Dealer::new(12, 9));
        let mut collector = Collector::new(MEMBERS, COMMITTEE);
        for member in 0..MEMBERS {
            let seats = (FIRST_HOLDER..MEMBERS).map(|holder| Some((pair(member, holder)?, member < holder)));
            let dealing = Member::new(seats, dealer.clone(), self_key(member), LIST).deal(SLOT, 0);
            let mut corrections = dealing.corrections().to_vec();
            change(member, &mut corrections);
            let corrections: Vec<u8> = corrections.iter().flat_map(|value| value.to_be_bytes()).collect();
            let hidden = Element::from_signed(watts(member)) + dealing.secret();
            assert_eq!(collector.reading_is(member, hidden, &corrections), None);
            collector.add_reading(member, hidden, hidden, &corrections);
            assert_eq!(collector.reading_is(member, hidden, &corrections), Some(true));
            assert_eq!(collector.reading_is(member, hidden + Element::ONE, &corrections), Some(false));
        }
        collector
    }

    fn answer(holder: u16, missing: &MemberSet) -> Element {
        let own = FIRST_HOLDER + holder;
        let keys = (0..MEMBERS).map(|member| pair(own, member)).collect();
        Holder::new(keys, self_key(own), LIST).answer(missing, SLOT, 0)
    }

    fn opened(
        collector: &mut Collector,
        missing: &MemberSet,
        holders: impl IntoIterator<Item = u16>,
    ) -> Option<Opened> {
        holders.into_iter().for_each(|holder| collector.add_answer(holder, answer(holder, missing)));
        collector.open(missing, |_, ciphertext| ciphertext)
    }

    fn sum_without(missing: &MemberSet) -> i64 {
        (0..MEMBERS).filter(|&member| !missing.contains(member)).map(watts).sum()
    }

    #[test]
    fn any_holders_that_are_enough_open_the_sum_of_those_who_are_not_missing() {
        for missing in [MemberSet::empty(MEMBERS), MemberSet::from_members(MEMBERS, [0, 5])] {
            for gone in 0..12u16 {
                let there = (0..12).filter(|&holder| ![gone, (gone + 1) % 12, (gone + 5) % 12].contains(&holder));
                let found = opened(&mut collected(|_, _| {}), &missing, there).unwrap();
                assert_eq!((found.sum, found.agreeing), (sum_without(&missing), 9));
            }
            assert_eq!(opened(&mut collected(|_, _| {}), &missing, 0..8), None, "one too few");
        }
    }

    #[test]
    fn a_wrong_answer_is_found_and_the_sum_is_right() {
        let missing = MemberSet::from_members(MEMBERS, [1]);
        let mut collector = collected(|_, _| {});
        collector.add_answer(4, Element::from_signed(12_345));
        let found = opened(&mut collector, &missing, 0..12).unwrap();
        assert_eq!((found.sum, found.agreeing, found.wrong), (sum_without(&missing), 11, vec![4]));
    }

    #[test]
    fn a_sum_is_released_early_only_if_four_answers_more_than_needed_agree() {
        // Nobody reported, so that every right answer is 0, and the sum is 0.
        let committee = Committee { drawn: 0, needed: 3, holders: 10 };
        let mut collector = Collector::new(MEMBERS, committee);
        let settled = |collector: &Collector| {
            let opened = collector.open(&MemberSet::empty(MEMBERS), |_, ciphertext| ciphertext).unwrap();
            (opened.sum, opened.agreeing, collector.is_settled(&opened))
        };
        for holder in 0..6 {
            collector.add_answer(holder, if holder == 0 { Element::ONE } else { Element::ZERO });
        }
        assert_eq!((collector.may_be_enough(), settled(&collector)), (false, (0, 5, false)));
        collector.add_answer(6, Element::ZERO);
        assert_eq!((collector.may_be_enough(), settled(&collector)), (true, (0, 6, false)), "one of seven is wrong");
        collector.add_answer(7, Element::ZERO);
        assert_eq!(settled(&collector), (0, 7, true), "three are needed, and four more agree");
    }

    #[test]
    fn a_sum_waits_for_no_more_answers_when_all_are_there() {
        let mut collector = Collector::new(MEMBERS, Committee { drawn: 0, needed: 3, holders: 5 });
        (0..5).for_each(|holder| collector.add_answer(holder, Element::ZERO));
        let opened = collector.open(&MemberSet::empty(MEMBERS), |_, ciphertext| ciphertext).unwrap();
        assert!(collector.is_settled(&opened) && !collector.is_confirmed(&opened));
    }

    #[test]
    fn a_wrong_dealing_looks_like_a_wrong_answer_of_the_holder() {
        let missing = MemberSet::empty(MEMBERS);
        let deals_wrongly = |member: u16, corrections: &mut Vec<Element>| {
            if member == 6 {
                corrections[1] += Element::ONE;
            }
        };
        let found = opened(&mut collected(deals_wrongly), &missing, 0..12).unwrap();
        assert_eq!((found.sum, found.wrong), (sum_without(&missing), vec![10]));
        let without = MemberSet::from_members(MEMBERS, [6]);
        let found = opened(&mut collected(deals_wrongly), &without, 0..12).unwrap();
        assert_eq!(
            (found.sum, found.wrong),
            (sum_without(&without), vec![]),
            "a member that is left out spoils nothing"
        );
    }

    #[test]
    fn too_many_wrong_answers_open_nothing() {
        let mut collector = collected(|_, _| {});
        collector.add_answer(0, Element::from_signed(1));
        collector.add_answer(1, Element::from_signed(2));
        assert_eq!(opened(&mut collector, &MemberSet::empty(MEMBERS), 2..12), None);
    }
}
