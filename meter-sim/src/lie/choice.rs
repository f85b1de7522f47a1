//! What the command line can choose from: the lies of a gateway, also to a committee, and those of a member.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::{Attack, CommitteeAttack, Liar};

/// One of the lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Gateway(Attack),
    Committee(CommitteeAttack),
    Member(Liar),
}

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: std::sync::LazyLock<Vec<Choice>> = std::sync::LazyLock::new(|| {
            let attacks = Attack::value_variants().iter().copied().map(Choice::Gateway);
            let to_committees = CommitteeAttack::value_variants().iter().copied().map(Choice::Committee);
            attacks.chain(to_committees).chain(Liar::value_variants().iter().copied().map(Choice::Member)).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Gateway(attack) => attack.to_possible_value(),
            Self::Committee(attack) => attack.to_possible_value(),
            Self::Member(liar) => liar.to_possible_value(),
        }
    }
}

/// Returns the lies that were chosen; all of them if none was.
pub(super) fn chosen(only: &[Choice]) -> (Vec<Attack>, Vec<CommitteeAttack>, Vec<Liar>) {
    let wanted = |choice: &&Choice| only.is_empty() || only.contains(choice);
    let (mut attacks, mut to_committees, mut liars) = (Vec::new(), Vec::new(), Vec::new());
    for choice in Choice::value_variants().iter().filter(wanted) {
        match choice {
            Choice::Gateway(attack) => attacks.push(*attack),
            Choice::Committee(attack) => to_committees.push(*attack),
            Choice::Member(liar) => liars.push(*liar),
        }
    }
    (attacks, to_committees, liars)
}
