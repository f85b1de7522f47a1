//! Simulated homes of a kind over some days, and what their meters report of them, in slots of ten minutes.

use dream_edge::HomeKind;
use dream_homes::home::{ActivityModel, Calendar, Day, Home, PvShare, Residents};
use dream_homes::slots::SlotLength;
use dream_homes::street::{self, all_cores, in_parallel};
use dream_protocol::params::Params;
use dream_protocol::simulation::DayAccount;
use dream_protocol::time::Slot;
use rand_chacha::ChaCha8Rng;

const HEATER: &str = "storage_heater";

/// At least so many of a hundred simulated homes have one.
const HEATERS_OF_A_HUNDRED: usize = 2;

/// Returns so many simulated homes of a kind, which are the same for a seed: flats have one or two residents, and only homes with
/// electric heat have storage heaters.
pub fn homes_of(kind: HomeKind, seed: u64, count: usize) -> Vec<Home> {
    let heats = |home: &Home| home.owned().iter().any(|device| device.name() == HEATER);
    let candidates = |count: usize| u32::try_from(count + count / 10 + 50).unwrap_or(u32::MAX);
    let usual = |count| street::usual_homes(seed, candidates(count), ActivityModel::Crest).into_iter();
    let homes: Vec<Home> = match kind {
        HomeKind::Flat => {
            let few = Residents::between(1, 2).expect("one is less than two");
            let small = street::homes(seed, candidates(count), few, ActivityModel::Crest);
            small.into_iter().filter(|home| !heats(home)).take(count).collect()
        }
        HomeKind::House => usual(count).filter(|home| !heats(home)).take(count).collect(),
        HomeKind::ElectricHeat => usual(count * 100 / HEATERS_OF_A_HUNDRED).filter(heats).take(count).collect(),
        HomeKind::Pv => {
            let all: PvShare = "1".parse().expect("all of them");
            usual(count).filter(|home| !heats(home)).map(|home| home.with_pv(all)).take(count).collect()
        }
    };
    assert_eq!(homes.len(), count, "more than enough were made");
    homes
}

/// Slots of ten minutes.
pub(super) const PER_DAY: usize = 144;

pub(super) fn ten_minutes() -> SlotLength {
    SlotLength::new(600).expect("divides a day")
}

/// The watts of homes, day by day: `home * days * PER_DAY + slot`.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) homes: usize,
    pub(super) days: usize,
    watts: Vec<i32>,
}

impl Pool {
    /// Simulates homes from a day of the year on, counted as [`Calendar::Year`] does, whose first is the 1st of November.
    pub(super) fn simulate(homes: &[Home], first: u32, days: usize) -> Self {
        Self::of(homes, days, |home| home.days(Calendar::Year.day(first)).take(days).map(|day| day.total()).collect())
    }

    /// The same of single days.
    pub(super) fn simulate_days(homes: &[Home], days: &[Day]) -> Self {
        Self::of(homes, days.len(), |home| days.iter().map(|day| home.day(*day).total()).collect())
    }

    fn of(homes: &[Home], days: usize, of_home: impl Fn(&Home) -> Vec<dream_homes::home::Minutes> + Sync) -> Self {
        let slot = ten_minutes();
        let watts = in_parallel(all_cores(), homes, |home| {
            let means = of_home(home).into_iter().flat_map(|day| slot.means(&day));
            means.map(|watts| i32::try_from(watts).expect("a home's watts")).collect::<Vec<_>>()
        });
        Self { homes: homes.len(), days, watts: watts.concat() }
    }

    /// Of homes that are given.
    #[cfg(test)]
    pub(super) fn of_watts(homes: usize, watts: Vec<i32>) -> Self {
        Self { homes, days: watts.len() / homes / PER_DAY, watts }
    }

    /// What a home draws.
    pub(super) fn home(&self, home: usize) -> &[i32] {
        &self.watts[home * self.days * PER_DAY..(home + 1) * self.days * PER_DAY]
    }

    /// What the meters report of it under these parameters, from a slot on that a day begins with.
    pub(super) fn reported(&self, params: &Params, first: Slot) -> Self {
        let all: Vec<usize> = (0..self.homes).collect();
        let watts = in_parallel(all_cores(), &all, |home| {
            let mut account = DayAccount::default();
            let told = (first.0..).zip(self.home(*home)).map(|(slot, watts)| {
                i32::try_from(account.report(params, Slot(slot), (*watts).into())).expect("no more than it draws")
            });
            told.collect::<Vec<_>>()
        });
        Self { watts: watts.concat(), ..*self }
    }

    /// What some homes come to together, slot by slot.
    pub(super) fn sums(&self, members: &[usize]) -> Vec<i64> {
        let mut sums = vec![0; self.days * PER_DAY];
        for home in members {
            sums.iter_mut().zip(self.home(*home)).for_each(|(sum, watts)| *sum += i64::from(*watts));
        }
        sums
    }

    /// Members of a cluster by lot.
    pub(super) fn draw(&self, members: usize, chance: &mut ChaCha8Rng) -> Vec<usize> {
        rand::seq::index::sample(chance, self.homes, members).into_vec()
    }
}
