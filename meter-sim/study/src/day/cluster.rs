//! A cluster over some days as everybody sees it: what its meters report within range and account, the sums with their noise,
//! and what the gateway's filter makes of them.

use dream_edge::HomeKind;
use dream_filter::{Filter, LocalTime, Release};
use dream_protocol::params::{Params, Share, Terms};
use dream_protocol::simulation::EnergyAccount;
use dream_protocol::time::Slot;
use rand_chacha::ChaCha8Rng;

use crate::accuracy::Shares;
use crate::dataset::{FIRST_DAY, Loads};
use crate::settings::Settings;
use dream_homes::slots::SECONDS_PER_DAY;

/// The terms of a kind of home, but for what was asked for.
pub(super) fn terms(kind: HomeKind, settings: &Settings, slot_seconds: u64) -> Terms {
    let (epsilon_numerator, epsilon_denominator) = settings.epsilon().fraction();
    let mut terms = kind.terms(Terms { epsilon_numerator, epsilon_denominator, ..Terms::with_slots_of(slot_seconds) });
    if let Some(range) = settings.asked_range() {
        let (lo, hi) = range.ends();
        terms = Terms { lo, hi, ..terms }.with_day_watt_hours(kind.day_watt_hours());
    }
    let day_micro_epsilon = settings.day_epsilon().map_or(terms.day_micro_epsilon, |day| day.millionths());
    Terms { day_micro_epsilon, ..terms }
}

/// The same terms for a cluster of so many. Half of alpha may be silent, half malicious, but a tenth is always reckoned with as
/// malicious, and no more than a fifth may be silent.
pub(super) fn params(members: usize, terms: Terms, settings: &Settings) -> Result<Params, String> {
    let alpha = settings.alpha().percent();
    let malicious = alpha.div_ceil(2).max(10).max(alpha.saturating_sub(20));
    let silent = alpha
        .checked_sub(malicious)
        .ok_or("It needs an --alpha of 0.1 or more: meters always reckon with a tenth of malicious members.")?;
    let share = |percent| Share::new(percent, 100).expect("less than all");
    let members = u16::try_from(members).map_err(|_| "It needs a --size of 65535 or less.".to_owned())?;
    terms
        .for_members(members, share(silent), share(malicious), 10)
        .map_err(|error| format!("These terms do not fit: {error}."))
}

/// A cluster's slot before noise, in watts: the load of those who respond, and what range and account leave out of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reported {
    pub(super) truth: f64,
    pub(super) lost_to_range: f64,
    pub(super) lost_to_account: f64,
    pub(super) responders: u16,
}

impl Reported {
    /// As if everybody had responded who is a member, and had used as much.
    fn scaled(self, factor: f64) -> Self {
        Self {
            truth: factor * self.truth,
            lost_to_range: factor * self.lost_to_range,
            lost_to_account: factor * self.lost_to_account,
            ..self
        }
    }
}

/// Lets every home's meter report its days; returns the cluster's.
pub(super) fn reported(params: &Params, days: &[Loads]) -> Vec<Vec<Reported>> {
    let terms = params.terms();
    let per_day = u64::from(SECONDS_PER_DAY) / terms.slot_seconds;
    let of_day = |(number, loads): (u64, &Loads)| {
        let mut slots = vec![Reported::default(); loads.slots()];
        for (home, watts) in loads.watts.iter().enumerate() {
            let mut account = EnergyAccount::default();
            for (at, (slot, watts)) in slots.iter_mut().zip(watts).enumerate() {
                if loads.silent_slots(home).contains(&at) {
                    continue;
                }
                let measured = watts.round();
                #[expect(clippy::cast_possible_truncation, reason = "a home's watts")]
                let told = account.report(params, Slot(number * per_day + at as u64), measured as i64) as f64;
                let clipped = measured.clamp(terms.lo as f64, terms.hi as f64);
                slot.truth += measured;
                slot.lost_to_range += measured - clipped;
                slot.lost_to_account += clipped - told;
                slot.responders += 1;
            }
        }
        slots
    };
    (FIRST_DAY..).zip(days).map(of_day).collect()
}

/// A slot as everybody sees it, scaled to all members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observed {
    /// How far into the day it begins, from 0 to 1.
    pub(super) at: f64,
    pub(super) reported: Reported,
    pub(super) released: f64,
    /// Load and half its band.
    pub(super) filtered: Option<(f64, f64)>,
}

/// Adds the noise of the responders' shares, and filters the sums as the gateway does, if there are clocks to do it by. A slot
/// that too many are silent in has no sum, and is left out.
pub(super) fn follow(
    params: &Params,
    days: &[Vec<Reported>],
    chance: &mut ChaCha8Rng,
    clocks: Option<&(dyn Fn(u64) -> LocalTime + Sync)>,
) -> Vec<Vec<Observed>> {
    let (members, honest) = (params.members(), u32::from(params.honest()));
    let everybody = Shares::new(params.noise_scale(), honest, members.into());
    let mut filter = clocks.map(|clocks| (clocks, Filter::default()));
    let mut end_millis = FIRST_DAY * 1000 * u64::from(SECONDS_PER_DAY);
    let mut slot = |at: f64, reported: &Reported| {
        let start_millis = end_millis;
        end_millis += 1000 * params.terms().slot_seconds;
        let responders = reported.responders;
        if members - responders > params.max_missing() {
            return None;
        }
        let some = || Shares::new(params.noise_scale(), honest, responders.into());
        let shares = if responders == members { everybody } else { some() };
        let watts = reported.truth - reported.lost_to_range - reported.lost_to_account + shares.draw(chance);
        let variance = shares.variance();
        let filtered = filter.as_mut().and_then(|(clocks, filter)| {
            let local = clocks(start_millis.midpoint(end_millis));
            filter.observe(&Release { start_millis, end_millis, local, watts, variance, responders, members })
        });
        let filtered = filtered.map(|filtered| (filtered.watts, filtered.band95));
        let factor = f64::from(members) / f64::from(responders);
        Some(Observed { at, reported: reported.scaled(factor), released: factor * watts, filtered })
    };
    let mut day = |slots: &Vec<Reported>| {
        let at = |number: usize| number as f64 / slots.len() as f64;
        slots.iter().enumerate().filter_map(|(number, reported)| slot(at(number), reported)).collect()
    };
    days.iter().map(&mut day).collect()
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng as _;

    use super::*;
    use dream_homes::slots::SlotLength;

    fn houses(members: usize) -> Params {
        params(members, Terms::DEFAULT, &Settings::default()).unwrap()
    }

    fn ten_minutes() -> SlotLength {
        SlotLength::new(600).unwrap()
    }

    #[test]
    fn range_and_account_take_what_they_must() {
        let loads = Loads::new(ten_minutes(), vec![vec![7000.0; 144], vec![100.0; 144]]);
        let days = reported(&houses(100), &[loads]);
        let sum = |part: fn(&Reported) -> f64| days[0].iter().map(part).sum::<f64>();
        assert_eq!(sum(|slot| slot.truth), 7100.0 * 144.0);
        assert_eq!(sum(|slot| slot.lost_to_range), 2000.0 * 144.0);
        assert_eq!(sum(|slot| slot.lost_to_account), 5000.0 * (144.0 - 36.0), "30 kWh are told");
    }

    #[test]
    fn sums_of_those_who_respond_are_scaled_and_too_few_have_no_sum() {
        let params = houses(100);
        let mut loads = Loads::new(ten_minutes(), vec![vec![500.0; 144]; 100]);
        // Ten are silent in the first slot, which M allows, and eleven in the second.
        loads.silent = (0..100).map(|home| (0..2).filter(|slot| home < 10 + slot).collect()).collect();
        for silent in 0..11 {
            loads.silent_slots(silent).to_vec().iter().for_each(|slot| loads.watts[silent][*slot] = 0.0);
        }
        let days = reported(&params, &[loads]);
        assert_eq!([days[0][0].truth, days[0][2].truth], [45_000.0, 50_000.0]);
        let seen = follow(&params, &days, &mut ChaCha8Rng::seed_from_u64(1), Some(&LocalTime::utc));
        assert_eq!(seen[0].len(), 143);
        assert!(seen[0].iter().all(|slot| (slot.reported.truth - 50_000.0).abs() < 1e-6));
        assert_eq!([seen[0][0].at, seen[0][1].at], [0.0, 2.0 / 144.0]);
    }

    #[test]
    fn alpha_is_split_as_meters_allow() {
        let split = |alpha: &str| {
            let settings = Settings::with_alpha(alpha);
            params(1000, Terms::DEFAULT, &settings).map(|params| (params.max_missing(), params.max_malicious()))
        };
        assert_eq!(split("0.2"), Ok((100, 100)));
        assert_eq!(split("0.1"), Ok((0, 100)));
        assert_eq!(split("0.5"), Ok((200, 300)));
        assert!(split("0.05").unwrap_err().contains("--alpha of 0.1"));
    }

    #[test]
    fn terms_are_those_of_the_kind_but_for_what_was_asked_for() {
        assert_eq!(terms(HomeKind::House, &Settings::default(), 600), HomeKind::House.terms(Terms::DEFAULT));
        let asked = Settings::asking("0..10000", "0.5", None);
        let terms_asked = terms(HomeKind::House, &asked, 600);
        assert_eq!((terms_asked.hi, terms_asked.epsilon_numerator, terms_asked.epsilon_denominator), (10_000, 1, 2));
        // 30 kWh of slots of ten minutes, under noise of 20 kW.
        assert_eq!(terms_asked.day_micro_epsilon, 18_000_000);
        assert_eq!(
            terms(HomeKind::House, &Settings::asking("0..10000", "0.5", Some("4")), 600).day_micro_epsilon,
            4_000_000
        );
    }
}
