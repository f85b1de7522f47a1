//! Clusters over some days as everybody sees them: homes by lot, what their meters report within range and account, the sums with
//! their noise, and what the gateway's filter makes of them.

use dream_filter::{Filter, Filtered, LocalTime, Release};
use dream_protocol::noise::Scale;
use dream_protocol::params::Params;
use dream_protocol::simulation::DayAccount;
use dream_protocol::time::Slot;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use super::accuracy::Shares;
use super::dataset::{Dataset, FIRST_DAY, Loads};
use dream_homes::slots::SECONDS_PER_DAY;
use dream_homes::street::{all_cores, in_parallel};

/// Chance of its own: a stream keeps the parts of the study apart.
pub(super) fn chance(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    chance.set_stream(stream);
    chance
}

/// Clusters of one size by lot, and what their homes draw: `clusters[cluster][day]`.
#[derive(Debug)]
pub(super) struct Drawn<'a> {
    pub(super) data: &'a Dataset,
    seed: u64,
    /// The first of its streams of chance: that of the lots. Each cluster's noise has the next.
    stream: u64,
    pub(super) size: usize,
    pub(super) clusters: Vec<Vec<Loads>>,
}

impl<'a> Drawn<'a> {
    /// As many of the clusters as there are homes for. Says what is missing if there are none, or fewer days.
    pub(super) fn new(
        data: &'a Dataset,
        (seed, stream): (u64, u64),
        (size, clusters): (usize, usize),
        days: std::ops::RangeInclusive<u32>,
    ) -> Result<Self, String> {
        let clusters = clusters.min(data.homes() / size);
        let homes = rand::seq::index::sample(&mut chance(seed, stream), data.homes(), clusters * size).into_vec();
        let clusters: Vec<Vec<Loads>> =
            homes.chunks_exact(size).map(|members| data.days(members, *days.end())).collect();
        if clusters.is_empty() || clusters.iter().any(|found| found.len() < *days.start() as usize) {
            let heaters = if data.is_model() { " without storage heaters" } else { "" };
            return Err(format!("It needs {size} homes{heaters} and at least {} whole days of slots.", days.start()));
        }
        Ok(Self { data, seed, stream, size, clusters })
    }

    /// Has everybody see each of them, filtered.
    pub(super) fn follow(
        &self,
        sums: &Sums,
        reports: impl Fn(&[Loads]) -> Vec<Vec<Reported>> + Sync,
    ) -> Vec<Vec<Vec<Observed>>> {
        let numbered: Vec<(u64, &Vec<Loads>)> = (1..).zip(&self.clusters).collect();
        in_parallel(all_cores(), &numbered, |(number, days)| {
            let clocks = |millis| self.data.local_time(millis);
            sums.follow(&reports(days), &mut chance(self.seed, self.stream + number), Some(&clocks))
        })
    }
}

/// A cluster's slot before noise, in watts: the load of those who respond, and what range and account leave out of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reported {
    pub(super) truth: f64,
    /// What errors are shares of: the load and a watt or, if anybody feeds in on that day, the day's mean and a watt.
    pub(super) base: f64,
    pub(super) lost_to_range: f64,
    pub(super) lost_to_account: f64,
    pub(super) responders: u16,
}

impl Reported {
    /// What is in the sum.
    pub(super) fn told(&self) -> f64 {
        self.truth - self.lost_to_range - self.lost_to_account
    }

    /// As if every member had responded, and had used as much.
    fn scaled(self, factor: f64) -> Self {
        let [truth, base, lost_to_range, lost_to_account] =
            [self.truth, self.base, self.lost_to_range, self.lost_to_account].map(|watts| factor * watts);
        Self { truth, base, lost_to_range, lost_to_account, ..self }
    }
}

/// Lets every home's meter report its days within this range, and its account if there are terms for one; returns the
/// cluster's days.
pub(super) fn reported((lo, hi): (i64, i64), account: Option<&Params>, days: &[Loads]) -> Vec<Vec<Reported>> {
    let of_day = |(number, loads): (u64, &Loads)| {
        let (mut slots, mut feeds_in) = (vec![Reported::default(); loads.slots()], false);
        let first = number * slots.len() as u64;
        for (home, watts) in loads.watts.iter().enumerate() {
            let mut book = DayAccount::default();
            for (at, (slot, watts)) in slots.iter_mut().zip(watts).enumerate() {
                if loads.silent_slots(home).contains(&at) {
                    continue;
                }
                let measured = watts.round();
                let clipped = measured.clamp(lo as f64, hi as f64);
                #[expect(clippy::cast_possible_truncation, reason = "a home's watts")]
                let told = account
                    .map_or(clipped, |params| book.report(params, Slot(first + at as u64), measured as i64) as f64);
                feeds_in |= measured < 0.0;
                slot.truth += measured;
                slot.lost_to_range += measured - clipped;
                slot.lost_to_account += clipped - told;
                slot.responders += 1;
            }
        }
        let mean = slots.iter().map(|slot| slot.truth.abs()).sum::<f64>() / slots.len() as f64;
        slots.iter_mut().for_each(|slot| slot.base = if feeds_in { mean } else { slot.truth.abs() } + 1.0);
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
    pub(super) filtered: Option<Filtered>,
}

/// How a cluster's sums come about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sums {
    pub(super) members: u16,
    /// With more silent, there is no sum.
    pub(super) max_missing: u16,
    pub(super) scale: Scale,
    /// Of how many shares the noise is made, and how many each member has: shares are exact in hundredths of members.
    pub(super) honest: u32,
    pub(super) each: u32,
}

impl Sums {
    pub(super) fn of(params: &Params) -> Self {
        Self {
            members: params.members(),
            max_missing: params.max_missing(),
            scale: params.noise_scale(),
            honest: params.honest().into(),
            each: 1,
        }
    }

    pub(super) fn shares(&self, responders: u16) -> Shares {
        Shares::new(self.scale, self.honest, self.each * u32::from(responders))
    }

    /// Adds the noise of the responders' shares, and filters the sums as the gateway does, if there are clocks to do it by. A slot
    /// that too many are silent in has no sum, and is left out.
    pub(super) fn follow(
        &self,
        days: &[Vec<Reported>],
        chance: &mut ChaCha8Rng,
        clocks: Option<&(dyn Fn(u64) -> LocalTime + Sync)>,
    ) -> Vec<Vec<Observed>> {
        let (members, everybody) = (self.members, self.shares(self.members));
        let mut filter = clocks.map(|clocks| (clocks, Filter::default()));
        let mut end_millis = FIRST_DAY * 1000 * u64::from(SECONDS_PER_DAY);
        let mut slot = |(number, reported): (usize, &Reported), per_day: usize| {
            let start_millis = end_millis;
            end_millis += 1000 * u64::from(SECONDS_PER_DAY) / per_day as u64;
            let responders = reported.responders;
            if members - responders > self.max_missing {
                return None;
            }
            let shares = if responders == members { everybody } else { self.shares(responders) };
            let (watts, variance) = (reported.told() + shares.draw(chance), shares.variance());
            let filtered = filter.as_mut().and_then(|(clocks, filter)| {
                let local = clocks(start_millis.midpoint(end_millis));
                filter.observe(&Release { start_millis, end_millis, local, watts, variance, responders, members })
            });
            let factor = f64::from(members) / f64::from(responders);
            let at = number as f64 / per_day as f64;
            Some(Observed { at, reported: reported.scaled(factor), released: factor * watts, filtered })
        };
        let mut day = |slots: &Vec<Reported>| {
            slots.iter().enumerate().filter_map(|numbered| slot(numbered, slots.len())).collect()
        };
        days.iter().map(&mut day).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_homes::slots::SlotLength;
    use dream_protocol::params::{Share, Terms};

    fn houses() -> Params {
        let tenth = Share::new(1, 10).unwrap();
        Terms::DEFAULT.for_members(100, tenth, tenth, 10).unwrap()
    }

    fn of_houses(loads: Loads) -> Vec<Vec<Reported>> {
        reported((0, 8000), Some(&houses()), &[loads])
    }

    fn ten_minutes() -> SlotLength {
        SlotLength::new(600).unwrap()
    }

    #[test]
    fn range_and_account_take_what_they_must() {
        let loads = Loads::new(ten_minutes(), vec![vec![9000.0; 144], vec![100.0; 144]]);
        let sum = |days: &[Vec<Reported>], part: fn(&Reported) -> f64| days[0].iter().map(part).sum::<f64>();
        let days = of_houses(loads.clone());
        assert_eq!(sum(&days, |slot| slot.truth), 9100.0 * 144.0);
        assert_eq!(sum(&days, |slot| slot.lost_to_range), 1000.0 * 144.0);
        let squares = |slot: &Reported| (slot.told() - 100.0).powi(2);
        let rms = (days[0].iter().map(squares).sum::<f64>() / 144.0).sqrt();
        assert!((1749.0..1750.001).contains(&rms), "the root mean square of a house: {rms}");
        assert_eq!(sum(&reported((0, 8000), None, &[loads]), Reported::told), 8100.0 * 144.0, "no account");
    }

    #[test]
    fn errors_of_homes_that_feed_in_are_shares_of_the_days_mean() {
        let bases = |watts: [f64; 2]| {
            let loads = Loads::new(SlotLength::new(43_200).unwrap(), vec![watts.into()]);
            reported((-9000, 9000), None, &[loads])[0].iter().map(|slot| slot.base).collect::<Vec<_>>()
        };
        assert_eq!(bases([700.0, 200.0]), [701.0, 201.0]);
        assert_eq!(bases([-700.0, 200.0]), [451.0; 2]);
    }

    #[test]
    fn sums_of_those_who_respond_are_scaled_and_too_few_have_no_sum() {
        let mut loads = Loads::new(ten_minutes(), vec![vec![500.0; 144]; 100]);
        // Ten are silent in the first slot, which M allows, and eleven in the second.
        loads.silent = (0..100).map(|home| (0..2).filter(|slot| home < 10 + slot).collect()).collect();
        for silent in 0..11 {
            loads.silent_slots(silent).to_vec().iter().for_each(|slot| loads.watts[silent][*slot] = 0.0);
        }
        let days = of_houses(loads);
        assert_eq!([days[0][0].truth, days[0][2].truth], [45_000.0, 50_000.0]);
        let seen = Sums::of(&houses()).follow(&days, &mut chance(1, 0), Some(&LocalTime::utc));
        assert_eq!(seen[0].len(), 143);
        assert!(seen[0].iter().all(|slot| (slot.reported.truth - 50_000.0).abs() < 1e-6));
        assert_eq!([seen[0][0].at, seen[0][1].at], [0.0, 2.0 / 144.0]);
    }
}
