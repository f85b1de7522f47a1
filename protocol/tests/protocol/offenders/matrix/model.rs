//! What sums come to, without keys and messages: a sum fails if a liar that lies is in it.

use std::collections::BTreeMap;
use std::fmt;

use dream_protocol::cluster::{Limits, Notice, Offence, Outcome, Search};
use dream_protocol::ids::MeterId;
use dream_protocol::member_set::MemberSet;
use dream_protocol::time::Slot;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// How many slots after the one it is decided in a list begins.
const LEAD: u64 = 3;

/// How many attempts beyond the first tests may use in a day, in pairwise lists, which have two.
const SPARE: u64 = 12;

/// Of a hundred members so many are absent in an attempt.
const FAULTS: u64 = 2;

const DAY: u64 = 144;

/// When liars lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lies {
    Always,
    /// In three of ten sums.
    Rate,
    /// From 17:00 to 22:00; the run begins at 17:00.
    Evenings,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) members: usize,
    pub(super) liars: usize,
    /// Whether each begins 30 to 90 slots after the one before it, instead of all at once.
    pub(super) successive: bool,
    pub(super) lies: Lies,
    pub(super) pairwise: bool,
}

impl Case {
    pub(super) const fn scheme(&self) -> &'static str {
        if self.pairwise { "pairwise" } else { "committee" }
    }

    pub(super) fn words(&self) -> String {
        let lies = match self.lies {
            Lies::Always => "always",
            Lies::Rate => "3 of 10",
            Lies::Evenings => "evenings",
        };
        format!("{lies}{}", if self.successive { ", one after the other: the last" } else { "" })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.members, self.scheme(), self.liars, self.words())
    }
}

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Report {
    /// How many slots after the last liar began all were kept out.
    pub(super) found: Option<u64>,
    pub(super) lost: u64,
    /// The most slots in a row without a sum.
    pub(super) longest_blind: u64,
    /// How many honest members were ever kept out, and the longest time that one was.
    pub(super) honest_kept: u64,
    pub(super) longest_kept: u64,
    /// After how many slots all liars were convicted.
    pub(super) convicted: Option<u64>,
    pub(super) honest_convicted: u64,
    /// In how many slots a liar took part that had been found, trials apart.
    pub(super) released: u64,
}

/// Dice of the world, and of the gateway.
pub(super) fn dice(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

pub(super) fn below(dice: &mut ChaCha8Rng, end: u64) -> u64 {
    dice.next_u64() % end
}

pub(super) fn ids(members: usize) -> Vec<MeterId> {
    (0..members).map(|number| MeterId::new(&format!("m-{number:04}")).unwrap()).collect()
}

/// A cluster's lists, as the search asks for them.
pub(super) struct Lists {
    everybody: usize,
    limits: Limits,
    /// The members of the list in force, and M.
    pub(super) current: (Vec<usize>, u16),
    coming: Vec<(u64, Vec<usize>, u16)>,
}

impl Lists {
    pub(super) fn new(members: usize, pairwise: bool) -> Self {
        // With all of them willing, and T = N/10 of everybody, committees may be as small as this.
        let shortest = match members {
            60 => 50,
            200 => 100,
            600 => 300,
            1000 => 630,
            _ => members,
        };
        let max_missing = u16::try_from(members / 10).unwrap();
        let limits = Limits { max_missing, away: if pairwise { 0 } else { members - shortest } };
        Self { everybody: members, limits, current: ((0..members).collect(), max_missing), coming: Vec::new() }
    }

    /// Puts lists into force that begin by now.
    pub(super) fn begin(&mut self, slot: u64) {
        let (begun, coming) = std::mem::take(&mut self.coming).into_iter().partition(|(from, ..)| *from <= slot);
        self.coming = coming;
        let begun: Vec<(u64, Vec<usize>, u16)> = begun;
        if let Some((_, members, most)) = begun.into_iter().last() {
            self.current = (members, most);
        }
    }

    /// Learns what became of a sum, and forms another list if the search asks for one.
    pub(super) fn learn(
        &mut self,
        search: &mut Search,
        (slot, ids): (u64, &[MeterId]),
        missing: &MemberSet,
        decoded: bool,
        secret: &mut ChaCha8Rng,
    ) {
        let members: Vec<&MeterId> = self.current.0.iter().map(|&number| &ids[number]).collect();
        let notices = search.learn(Slot(slot), &members, missing, decoded, self.limits, secret);
        if !notices.iter().any(|notice| matches!(notice, Notice::SearchesByLists { .. })) {
            return;
        }
        let away: Vec<&MeterId> = search.away().collect();
        let list: Vec<usize> = (0..self.everybody).filter(|&number| !away.contains(&&ids[number])).collect();
        let malicious = self.everybody.div_ceil(10);
        let wide = (list.len() / 5).min((list.len() - malicious - 1) / 4);
        let most = if search.wants_wide_lists() { wide } else { list.len() / 10 };
        self.coming.push((slot + LEAD, list, u16::try_from(most).unwrap()));
    }
}

/// Runs a case.
pub(super) fn play(case: &Case, slots: u64, seed: u64) -> Report {
    let (mut world, mut secret) = (dice(seed), dice(!seed));
    let ids = ids(case.members);
    let liars = liars(case, &mut world);
    let last_begins = liars.last().map_or(0, |(_, begins)| *begins);
    let (mut search, mut lists) = (Search::default(), Lists::new(case.members, case.pairwise));
    let mut report = Report::default();
    let (mut blind, mut kept) = (0, vec![0u64; case.members]);
    let mut ever_kept = vec![false; case.members];
    let (mut spare, attempts) = (0, if case.pairwise { 2 } else { 1 });
    // From slot 1 on: 0 means never.
    for slot in 1..=slots {
        if slot % DAY == 1 {
            spare = SPARE;
        }
        lists.begin(slot);
        let mut decoded = false;
        for attempt in 0..attempts {
            if attempt > 0 {
                if spare == 0 {
                    break;
                }
                spare -= 1;
            }
            let again;
            (decoded, again) = sum(case, slot, &liars, &ids, &mut search, &mut lists, &mut world, &mut secret);
            if decoded || !again {
                break;
            }
        }
        blind = if decoded { 0 } else { blind + 1 };
        report.lost += u64::from(!decoded);
        report.longest_blind = report.longest_blind.max(blind);
        // Who is kept out, and whether it is convicted.
        let known: BTreeMap<&MeterId, bool> =
            search.offenders().map(|(meter, known)| (meter, known.offence == Offence::SpoilsSums)).collect();
        for (number, id) in ids.iter().enumerate().filter(|(number, _)| liars.iter().all(|(liar, _)| liar != number)) {
            let is_kept = known.contains_key(id);
            kept[number] = if is_kept { kept[number] + 1 } else { 0 };
            ever_kept[number] |= is_kept;
            report.longest_kept = report.longest_kept.max(kept[number]);
            report.honest_convicted += u64::from(known.get(id) == Some(&true));
        }
        for (liar, _) in &liars {
            let is_kept = known.contains_key(&ids[*liar]);
            report.released += u64::from(ever_kept[*liar] && !is_kept);
            ever_kept[*liar] |= is_kept;
        }
        if slot >= last_begins {
            let after = Some(slot + 1 - last_begins);
            let all = |is: &dyn Fn(bool) -> bool| {
                liars.iter().all(|(liar, _)| known.get(&ids[*liar]).is_some_and(|&convicted| is(convicted)))
            };
            report.found = report.found.or_else(|| after.filter(|_| all(&|_| true)));
            report.convicted = report.convicted.or_else(|| after.filter(|_| all(&|convicted| convicted)));
        }
    }
    let honest = |number: &usize| liars.iter().all(|(liar, _)| liar != number);
    report.honest_kept = (0..case.members).filter(|number| ever_kept[*number] && honest(number)).count() as u64;
    report
}

/// Who lies, and from which slot on.
fn liars(case: &Case, world: &mut ChaCha8Rng) -> Vec<(usize, u64)> {
    let mut liars: Vec<(usize, u64)> = Vec::new();
    let mut begins = 1;
    while liars.len() < case.liars {
        let liar = usize::try_from(below(world, case.members as u64)).unwrap();
        if liars.iter().all(|(other, _)| *other != liar) {
            liars.push((liar, begins));
            begins += if case.successive { 30 + below(world, 61) } else { 0 };
        }
    }
    liars
}

/// One attempt; returns whether its sum is one of readings and noise, and whether it may be tried again.
fn sum(
    case: &Case,
    slot: u64,
    liars: &[(usize, u64)],
    ids: &[MeterId],
    search: &mut Search,
    lists: &mut Lists,
    world: &mut ChaCha8Rng,
    secret: &mut ChaCha8Rng,
) -> (bool, bool) {
    let (list, most) = lists.current.clone();
    let count = u16::try_from(list.len()).unwrap();
    let absent: Vec<u16> = (0..count).filter(|_| below(world, 100) < FAULTS).collect();
    let lies = |(liar, begins): &(usize, u64), world: &mut ChaCha8Rng| {
        let now = match case.lies {
            Lies::Always => true,
            Lies::Rate => below(world, 10) < 3,
            Lies::Evenings => (slot - 1) % DAY < 30,
        };
        (now && *begins <= slot).then_some(*liar)
    };
    let lying: Vec<usize> = liars.iter().filter_map(|liar| lies(liar, world)).collect();
    if absent.len() > usize::from(most) {
        return (false, false);
    }
    let members: Vec<&MeterId> = list.iter().map(|&number| &ids[number]).collect();
    let absent = MemberSet::from_members(count, absent);
    let (missing, _) = search.choose(Slot(slot), &members, most, absent, !case.pairwise, secret);
    assert!(missing.len() <= most, "S has {} of {most}", missing.len());
    let decoded = !(0u16..).zip(&list).any(|(member, number)| lying.contains(number) && !missing.contains(member));
    let again = search.may_repeat(count, most);
    lists.learn(search, (slot, ids), &missing, decoded, secret);
    let outcome = if decoded { Outcome::Good } else { Outcome::Bad };
    search.settle(Slot(slot), outcome, list.len());
    (decoded, again)
}
