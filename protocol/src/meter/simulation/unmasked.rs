//! A slot without masks: the outcome that simulators get from readings at once, with the meters' own noise.

use rand_core::CryptoRng;

use super::Simulation;
use crate::aggregate::{Aggregate, Failure, SlotOutcome};
use crate::noise::Sampler;
use crate::params::Params;
use crate::time::Slot;

/// Returns how a slot closes in which the members measure these watts; `None` stands for a silent member.
///
/// Every reading is clipped and gets a share of the noise as in a meter, and too many silent members or an implausible
/// sum fail the slot as in a gateway. What is left out are masks and messages, which do not change a sum: so a simulator
/// can fill in slots that nobody ever reported. They belong to no list; their epoch is 0.
pub fn unmasked_slot(
    params: &Params,
    slot: Slot,
    members: impl IntoIterator<Item = Option<(i64, Simulation)>>,
    rng: &mut (impl CryptoRng + ?Sized),
) -> SlotOutcome {
    let sampler = Sampler::new(params.honest().into(), params.noise_scale());
    let (mut sum, mut responders) = (0, 0);
    for (watts, simulation) in members.into_iter().flatten() {
        let share = sampler.sample(rng);
        sum += params.clip(watts).watts() + simulation.share.unwrap_or(share);
        responders += 1;
    }
    unmasked_sum(params, slot, sum, responders)
}

/// Returns how a slot closes whose responders report this together, noise included: what [`unmasked_slot`] is for, where a simulator
/// draws the noise of all of them at once.
pub fn unmasked_sum(params: &Params, slot: Slot, sum: i64, responders: u16) -> SlotOutcome {
    let result = if responders < params.members() - params.max_missing() {
        Err(Failure::TooManyMissing)
    } else if params.is_plausible(sum) {
        Ok(Aggregate::new(sum))
    } else {
        Err(Failure::UnmaskFailed)
    };
    SlotOutcome {
        slot,
        start: params.slot_start(slot),
        end: params.slot_end(slot),
        epoch: 0,
        members: params.members(),
        honest: params.honest(),
        responders,
        attempts: 1,
        micro_epsilon: params.charge_micro_epsilon(),
        noise_scale: params.noise_scale(),
        result,
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    use super::*;
    use crate::noise::Confidence;
    use crate::params::Terms;

    const HOMES: u16 = 40;

    fn params() -> Params {
        Params::new(HOMES.into(), Terms { max_missing: 4, max_malicious: 4, ..Terms::DEFAULT }).unwrap()
    }

    fn slot(silent: usize, watts: i64, simulation: Simulation, rng: &mut ChaCha8Rng) -> SlotOutcome {
        let members = (0..usize::from(HOMES)).map(|at| (at >= silent).then_some((watts, simulation)));
        unmasked_slot(&params(), Slot(7), members, rng)
    }

    #[test]
    fn the_noise_is_that_of_real_slots() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let runs = 4000;
        let (mut within, mut error) = (0, 0.0);
        for _ in 0..runs {
            let outcome = slot(2, 500, Simulation::default(), &mut rng);
            let off = (outcome.result.unwrap().watts() - 38 * 500).unsigned_abs();
            within += u32::from(off <= outcome.spread().half_width(Confidence::P95));
            error += off as f64 / f64::from(runs);
        }
        let (share, expected) = (f64::from(within) / f64::from(runs), 0.95);
        // Of so many slots, three standard deviations.
        assert!((share - expected).abs() < 0.0104, "{share}");
        let mean = slot(2, 500, Simulation::default(), &mut rng).spread().mean_error();
        // As many shares as members instead of honest ones would make it a tenth smaller.
        assert!((error / mean - 1.0).abs() < 0.05, "{error} {mean}");
    }

    #[test]
    fn readings_are_clipped_and_replaced_shares_added() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let sum = |watts, simulation: Simulation, rng: &mut _| slot(0, watts, simulation, rng).result.unwrap().watts();
        assert_eq!(sum(100, Simulation::NOISELESS, &mut rng), 4000);
        assert_eq!(sum(10_000, Simulation::NOISELESS, &mut rng), 40 * 8000);
        assert_eq!(sum(-5, Simulation { share: Some(7), ..Simulation::default() }, &mut rng), 280);
    }

    #[test]
    fn a_slot_fails_as_a_real_one_does() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert!(slot(4, 100, Simulation::NOISELESS, &mut rng).result.is_ok());
        let failed = slot(5, 100, Simulation::NOISELESS, &mut rng);
        assert_eq!((failed.result, failed.responders, failed.missing()), (Err(Failure::TooManyMissing), 35, 5));
        let far = Simulation { share: Some(1_000_000), ..Simulation::default() };
        assert_eq!(slot(0, 100, far, &mut rng).result, Err(Failure::UnmaskFailed));
    }
}
