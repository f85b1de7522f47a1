//! What the gateway collects in an attempt of the committee scheme, and how it opens the sum (`protocol.md 4a`).

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

/// What the answers come to.
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
        self.answered == self.holders || opened.agreeing >= self.needed + CONFIRMING
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
