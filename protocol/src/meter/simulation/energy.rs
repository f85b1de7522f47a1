//! The energy account of a home without a meter around it.

use crate::day::Days;
use crate::params::Params;
use crate::time::Slot;

/// What a home's meter would report, slot after slot, for simulators that run no meters.
#[derive(Debug, Clone, Default)]
pub struct EnergyAccount {
    days: Days,
}

impl EnergyAccount {
    /// Returns what is reported of a slot's mean power, without noise: clipped to the range, and as far as the day's account
    /// allows it. Slots come in order.
    pub fn report(&mut self, params: &Params, slot: Slot, watts: i64) -> i64 {
        let day = params.slot_start(slot).utc_day();
        let earlier: Vec<u64> = self.days.open().filter(|&open| open < day).collect();
        earlier.into_iter().for_each(|over| self.days.close(over));
        self.days.charge(day, params, params.terms().day_micro_epsilon);
        self.days.grant(day, params, &params.clip(watts)).watts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Terms;

    #[test]
    fn a_day_reports_what_its_account_allows() {
        let params = Params::new(100, Terms { max_malicious: 10, ..Terms::DEFAULT }).unwrap();
        let mut account = EnergyAccount::default();
        let day = |account: &mut EnergyAccount, first: u64| -> i64 {
            (first..first + 144).map(|slot| account.report(&params, Slot(slot), 7000)).sum()
        };
        // 30 kWh in slots of a sixth of an hour.
        assert_eq!([day(&mut account, 144), day(&mut account, 288)], [180_000; 2]);
    }
}
