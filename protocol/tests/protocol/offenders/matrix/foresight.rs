//! A shadow gateway, which knows all that the gateway has seen and learned, and draws from other dice: what it foresees of S.

use dream_protocol::cluster::{Outcome, Search};
use dream_protocol::ids::MeterId;
use dream_protocol::member_set::MemberSet;
use dream_protocol::time::Slot;

use super::model::{Lists, below, dice, ids};

const SLOTS: u64 = 40;

/// How often the shadow draws to see whom it expects in a test group.
const DRAWS: usize = 16;

/// What a shadow foresaw of the test groups of a cluster with two liars.
#[derive(Debug, Default)]
struct Foresight {
    groups: usize,
    /// How many groups were those of the shadow's first draw.
    foreseen: usize,
    /// How many groups had the member in them that the shadow expected most.
    expected: usize,
}

impl Foresight {
    fn watch(&mut self, members: usize, seed: u64) {
        let (mut world, mut secret, mut shadow) = (dice(seed), dice(!seed), dice(seed << 32));
        let ids = ids(members);
        let (mut search, mut lists) = (Search::default(), Lists::new(members, false));
        for slot in 1..=SLOTS {
            lists.begin(slot);
            let (list, most) = lists.current.clone();
            let count = u16::try_from(list.len()).unwrap();
            let listed: Vec<&MeterId> = list.iter().map(|&number| &ids[number]).collect();
            let absent = (0..count).filter(|_| below(&mut world, 100) < 2).take(most.into());
            let absent = MemberSet::from_members(count, absent);
            let draws: Vec<MemberSet> = (0..DRAWS)
                .map(|_| search.clone().choose(Slot(slot), &listed, most, absent.clone(), true, &mut shadow).0)
                .collect();
            let (missing, _) = search.choose(Slot(slot), &listed, most, absent.clone(), true, &mut secret);
            let is_kept = |member: u16| search.offenders().any(|(meter, _)| meter == listed[usize::from(member)]);
            let free: Vec<u16> = (0..count).filter(|&member| !absent.contains(member) && !is_kept(member)).collect();
            if free.iter().any(|&member| missing.contains(member)) {
                let expected = |member: &&u16| draws.iter().filter(|draw| draw.contains(**member)).count();
                self.groups += 1;
                self.foreseen += usize::from(draws[0] == missing);
                self.expected +=
                    usize::from(free.iter().max_by_key(expected).is_some_and(|&most| missing.contains(most)));
            }
            let spoils = |&(member, &number): &(u16, &usize)| number < 2 && !missing.contains(member);
            let decoded = !(0u16..).zip(&list).any(|member| spoils(&member));
            lists.learn(&mut search, (slot, &ids), &missing, decoded, &mut secret);
            search.settle(Slot(slot), if decoded { Outcome::Good } else { Outcome::Bad }, list.len());
        }
    }
}

#[test]
fn a_shadow_gateway_that_knows_everything_does_not_foresee_whom_a_sum_leaves_out() {
    for (members, seeds) in [(60, 20), (200, 6)] {
        let mut seen = Foresight::default();
        (0..seeds).for_each(|seed| seen.watch(members, seed));
        super::said(&format!("{members} members: {seen:?}"));
        assert!(seen.groups > 150, "{seen:?}");
        // Where one is suspected alone, the group is that member or nobody: a coin.
        assert!(seen.foreseen * 12 < seen.groups, "{seen:?}");
        assert!(seen.expected * 100 < seen.groups * 60, "{seen:?}");
    }
}
