//! The account of a home's days without a meter around it.

use alloc::vec::Vec;

use crate::day::Days;
use crate::params::Params;
use crate::time::Slot;

/// What a home's meter would report, slot after slot, for simulators that run no meters.
#[derive(Debug, Clone, Default)]
pub struct DayAccount {
    days: Days,
}

impl DayAccount {
    /// Returns what is reported of a slot's mean power, without noise: clipped to the range, and as far as the day's account
    /// allows it. Slots come in order.
    pub fn report(&mut self, params: &Params, slot: Slot, watts: i64) -> i64 {
        let day = params.slot_start(slot).utc_day();
        let earlier: Vec<u64> = self.days.open().filter(|&open| open < day).collect();
        earlier.into_iter().for_each(|over| self.days.close(over));
        self.days.charge(day, params, params.terms().day_micro_rho);
        self.days.grant(slot, params, &params.clip(watts), params.day_weight()).watts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Terms;

    #[test]
    fn a_day_reports_what_its_account_allows() {
        let params = Params::new(100, Terms { max_malicious: 10, ..Terms::DEFAULT }).unwrap();
        let mut account = DayAccount::default();
        let mut day = |first: u64, watts: i64| -> Vec<i64> {
            (first..first + 144).map(|slot| account.report(&params, Slot(slot), watts)).collect()
        };
        assert_eq!(day(144, 1750), [1750; 144], "the rms of a house");
        let found = day(288, 7000);
        let squares: i64 = found.iter().map(|watts| watts * watts).sum();
        let whole = 144 * 1750 * 1750;
        // Rho is rounded up to millionths.
        assert!((whole - whole / 1000..=whole + whole / 1_000_000).contains(&squares), "{squares}");
        assert_eq!(found[0], 3500, "four times the even part");
    }
}
