//! What a home has given away since its records began: days, and what they cost together. It follows from lists and attempts
//! alone, never from readings.

use std::collections::BTreeMap;

use dream_protocol::day::DayCost;

use crate::records::{Number, Records};

/// Days in which readings were shared, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shared {
    /// The first of them since 1970, in UTC.
    pub since: u64,
    pub days: u64,
    /// In millionths: rho of days that had one, and epsilon of attempts under lists that state none.
    pub micro_rho: u64,
    pub micro_epsilon: u64,
}

/// What days cost that are not closed, by their number.
pub(crate) type OpenDays = BTreeMap<u64, DayCost>;

impl Shared {
    /// Returns what the records say; nothing if they have not counted yet.
    pub(crate) fn of(records: &Records) -> Option<Self> {
        let number = |number| records.number(number).unwrap_or_default();
        records.number(Number::SharedSince).map(|since| Self {
            since,
            days: number(Number::SharedDays),
            micro_rho: number(Number::SharedRho),
            micro_epsilon: number(Number::SharedEpsilon),
        })
    }

    /// Returns what to record: nothing before the first day.
    pub(crate) fn numbers(&self) -> Vec<(Number, u64)> {
        let Self { since, days, micro_rho, micro_epsilon } = *self;
        let all = [
            (Number::SharedSince, since),
            (Number::SharedDays, days),
            (Number::SharedRho, micro_rho),
            (Number::SharedEpsilon, micro_epsilon),
        ];
        if days == 0 { Vec::new() } else { all.into() }
    }

    /// Adds by how much open days have grown. The cost of a day never falls, and a closed one costs no more.
    pub(crate) fn add(&mut self, before: &OpenDays, after: &OpenDays) {
        for (day, cost) in after {
            let known = before.get(day);
            if known.is_none() {
                self.since = if self.days == 0 { *day } else { self.since.min(*day) };
                self.days += 1;
            }
            let known = known.copied().unwrap_or_default();
            let grown = |now: u64, then: u64| now.saturating_sub(then);
            self.micro_rho = self.micro_rho.saturating_add(grown(cost.micro_rho, known.micro_rho));
            self.micro_epsilon = self.micro_epsilon.saturating_add(grown(cost.micro_epsilon, known.micro_epsilon));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open<const N: usize>(days: [(u64, u64, u64); N]) -> OpenDays {
        days.into_iter().map(|(day, micro_epsilon, micro_rho)| (day, DayCost { micro_epsilon, micro_rho })).collect()
    }

    #[test]
    fn every_day_counts_once_and_with_all_that_it_cost() {
        let mut shared = Shared::default();
        assert_eq!(shared.numbers(), []);
        // A day that reserves rho; attempts under a list without; around midnight two are open; then the first is closed.
        let steps = [
            open([]),
            open([(7, 0, 1_700_000)]),
            open([(7, 500_000, 1_700_000)]),
            open([(7, 500_000, 1_700_000), (8, 250_000, 0)]),
            open([(8, 250_000, 0)]),
            open([(8, 250_000, 2_000_000)]),
            open([]),
        ];
        for (before, after) in steps.iter().zip(&steps[1..]) {
            shared.add(before, after);
        }
        assert_eq!(shared, Shared { since: 7, days: 2, micro_rho: 3_700_000, micro_epsilon: 750_000 });
        assert_eq!(shared.numbers().len(), 4);
    }
}
