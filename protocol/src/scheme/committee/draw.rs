//! Who is a holder: drawn by a value that the authority drew, so that a gateway can leave honest holders out, but cannot make more
//! colluders holders (`protocol.md 4a`).

use alloc::vec;
use alloc::vec::Vec;

use thiserror::Error;

use super::{Committee, MAX_HOLDERS};

/// Up to this size every willing member is a holder.
const MOST_WITHOUT_DRAW: u16 = 200;

/// How many holders a gateway aims for where they are drawn, and what it tries if too few of those could drop out.
const WANTED: [u64; 5] = [160, 180, 200, 220, 130];

/// How many holders at least must be able to drop out where they are drawn.
pub const LEAST_SPARE: u64 = 15;

/// Returns the day that a list is drawn for: that of its first slot, counted from 1970.
pub const fn day_of(from_slot_seconds: u64) -> u64 {
    from_slot_seconds / 86_400
}

/// Returns the number below which a draw makes a holder: `floor(k * 2^64 / N)`; `None` if every draw does.
pub fn threshold(drawn: u64, members: u64) -> Option<u64> {
    if drawn == 0 {
        return None;
    }
    u64::try_from((u128::from(drawn) << 64) / u128::from(members.max(1))).ok()
}

/// A committee that a gateway has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub committee: Committee,
    /// f: how many of the holders may collude.
    pub colluding: u64,
}

/// Why no committee can be formed of the members there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{willing} of {members} members can be holders; of the {holders} holders {spare} could vanish, and {least} must be able to: \
     raise `holds` in meters, have their certificates state draw values, or choose the pairwise scheme"
)]
pub struct NoCommittee {
    pub members: u16,
    pub willing: usize,
    pub holders: u64,
    pub spare: u64,
    pub least: u64,
}

/// Chooses k and q for a list of so many members, of whom T may be malicious. There is a draw for each of them that is willing to
/// be a holder, which is `None` if it can only be one where all are. Where holders may not be drawn, because meters want to see
/// every certificate, all willing ones are holders.
pub fn choose(members: u16, malicious: u16, draws: &[Option<u64>], may_draw: bool) -> Result<Choice, NoCommittee> {
    let all = members <= MOST_WITHOUT_DRAW || !may_draw;
    let (count, willing) = (u64::from(members), draws.iter().filter(|draw| all || draw.is_some()).count());
    let of = |drawn: u64| {
        let holders = match threshold(drawn, count) {
            None => willing,
            Some(threshold) => draws.iter().flatten().filter(|draw| **draw < threshold).count(),
        } as u64;
        let colluding = Committee::colluding(drawn, count, malicious.into())?;
        let needed = Committee::needed_of(holders, colluding);
        Some(Choice { committee: Committee { drawn, needed, holders }, colluding })
    };
    let least_of = |drawn: u64, holders: u64| if drawn == 0 { (holders / 5).min(LEAST_SPARE) } else { LEAST_SPARE };
    let fits = |choice: &Choice| {
        let Committee { drawn, holders, .. } = choice.committee;
        let least = least_of(drawn, holders).max(1);
        (1..=MAX_HOLDERS).contains(&holders) && choice.committee.spare() >= least
    };
    let drawn: Vec<u64> = if all {
        vec![0]
    } else {
        WANTED.iter().map(|wanted| (wanted * count).div_ceil((willing as u64).max(1)).min(count - 1)).collect()
    };
    let tried: Vec<Choice> = drawn.iter().filter_map(|&drawn| of(drawn)).collect();
    tried.iter().find(|choice| fits(choice)).copied().ok_or_else(|| {
        let best = tried.iter().map(|choice| choice.committee).max_by_key(Committee::spare);
        let best = best.unwrap_or(Committee { drawn: 1, needed: 0, holders: 0 });
        let least = least_of(best.drawn, best.holders).max(1);
        NoCommittee { members, willing, holders: best.holders, spare: best.spare(), least }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws that are spread evenly.
    fn draws(count: u64) -> Vec<Option<u64>> {
        (0..count).map(|i| u64::try_from((u128::from(2 * i + 1) << 64) / u128::from(2 * count)).ok()).collect()
    }

    fn chosen(members: u16, willing: u64) -> Result<(u64, u64, u64, u64), NoCommittee> {
        let Choice { committee: Committee { drawn, needed, holders }, colluding } =
            choose(members, (members / 10).max(10), &draws(willing), true)?;
        Ok((drawn, holders, colluding, needed))
    }

    #[test]
    fn committees_follow_the_number_of_willing_members() {
        assert_eq!(chosen(50, 50), Ok((0, 50, 20, 38)));
        assert_eq!(chosen(100, 100), Ok((0, 100, 20, 75)));
        assert_eq!(chosen(200, 180), Ok((0, 180, 40, 135)));
        assert_eq!(chosen(1000, 1000), Ok((160, 160, 96, 129)));
        assert_eq!(chosen(10_000, 10_000), Ok((160, 160, 96, 129)));
        let (drawn, holders, ..) = chosen(1000, 800).unwrap();
        assert_eq!((drawn, holders), (200, 160));
    }

    #[test]
    fn too_few_willing_members_make_no_committee_and_it_says_how_many_there_are() {
        let refused = chosen(1000, 350).unwrap_err();
        assert_eq!((refused.members, refused.willing, refused.least), (1000, 350, 15));
        assert!(refused.spare < 15);
        assert!(chosen(100, 20).is_err(), "no more holders than may collude");
        assert!(chosen(60, 0).is_err());
    }

    #[test]
    fn who_has_no_draw_value_is_a_holder_only_where_all_are() {
        let without = |members: u16| choose(members, members / 10, &vec![None; members.into()], true);
        assert_eq!(without(200).map(|choice| choice.committee.holders), Ok(200));
        assert_eq!(without(201).map_err(|reason| reason.willing), Err(0));
    }

    #[test]
    fn a_threshold_is_a_share_of_all_draws() {
        assert_eq!(threshold(0, 100), None);
        assert_eq!(threshold(50, 100), Some(1 << 63));
    }
}
