//! The noise: the shares that a seed gives, and whether a hundred thousand of them have the right distribution.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use dream_protocol::noise::{Sampler, Scale};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::Tally;
use crate::json::{Value, array, each, number, signed, small, vectors};

/// How many are counted, of which cells that are expected 50 times or more take part.
const DRAWS: u32 = 100_000;

pub(crate) fn noise(tally: &mut Tally) {
    let file = vectors("noise");
    for case in each(&file["shares"]) {
        let mut rng = ChaCha20Rng::from_seed(array(&case["seed"]));
        let sampler = sampler(case);
        for share in each(&case["shares"]) {
            tally.check("share", &sampler.sample(&mut rng), &signed(share));
        }
    }
    for case in each(&file["probabilities"]) {
        chi_square(tally, case);
    }
}

fn sampler(case: &Value) -> Sampler {
    Sampler::new(small(&case["n"]), Scale::new(number(&case["lambda"][0]), number(&case["lambda"][1])))
}

/// Counts the shares whose probability is on record, both signs as one cell and all others as another, and compares: the sum of
/// squares is at most what it is once in a million runs.
fn chi_square(tally: &mut Tally, case: &Value) {
    let sampler = sampler(case);
    let mut rng = ChaCha20Rng::seed_from_u64(20_261_118);
    let cells: Vec<(u64, f64)> = each(&case["probabilities"])
        .iter()
        .map(|cell| {
            let (distance, one) = (number(&cell["d"]), crate::json::text(&cell["p"]).parse::<f64>().expect("a number"));
            (distance, if distance == 0 { one } else { 2.0 * one })
        })
        .filter(|(_, probability)| probability * f64::from(DRAWS) >= 50.0)
        .collect();
    let mut counts = vec![0u32; cells.len() + 1];
    for _ in 0..DRAWS {
        let share = sampler.sample(&mut rng).unsigned_abs();
        counts[cells.iter().position(|(distance, _)| *distance == share).unwrap_or(cells.len())] += 1;
    }
    let rest = 1.0 - cells.iter().map(|(_, probability)| probability).sum::<f64>();
    let probabilities = cells.iter().map(|(_, probability)| *probability).chain([rest]);
    let statistic: f64 = counts
        .iter()
        .zip(probabilities)
        .filter(|(_, probability)| probability * f64::from(DRAWS) >= 50.0)
        .map(|(count, probability)| {
            let expected = probability * f64::from(DRAWS);
            let off = f64::from(*count) - expected;
            off * off / expected
        })
        .sum();
    // By degrees of freedom: exceeded with a probability of 10^-6.
    const MOST: [f64; 9] = [0.0, 23.93, 27.63, 30.66, 33.38, 35.89, 38.26, 40.52, 42.70];
    let name = format!("n = {}, lambda = {}/{}: chi-square {statistic:.1}", case["n"], case["lambda"][0], case["lambda"][1]);
    cortex_m_semihosting::hprintln!("    {} with {} degrees of freedom", name, cells.len());
    tally.check(&name, &(statistic <= MOST[cells.len()] && cells.len() > 1), &true);
}
