//! One home with nothing but its own share of the noise: why readings are masked as well.

use dream_protocol::noise::{Sampler, Scale};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

use super::dataset::Dataset;
use super::section::{Axis, Figure, Section, Stroke, Table, row};
use super::settings::Settings;

const DRAWS: u32 = 40_000;

pub(super) fn section(data: &Dataset, settings: &Settings, seed: u64) -> Result<Section, String> {
    let loads = data.loads(data.slot()).ok_or("It needs a slot.")?;
    let scale = settings.scale(settings.range(data));
    // A home in the middle by consumption, on its first day.
    let home = loads.by_consumption()[loads.homes() / 2];
    let watts: Vec<f64> = loads.watts[home].iter().take(data.slot().per_day()).copied().collect();
    // Of a cluster of a hundred.
    let shares = draws(settings.alpha().honest_of_hundred(), scale, watts.len(), seed);
    let hour = |slot: usize| slot as f64 * f64::from(data.slot().seconds()) / 3600.0;
    let points = |watts: Vec<f64>| watts.into_iter().enumerate().map(|(slot, watts)| (hour(slot), watts));
    let noisy = watts.iter().zip(&shares).map(|(watts, share)| watts + *share as f64).collect();
    let figure = Figure::new(
        "share",
        "One home's day, and the same with its share of the noise but without masks",
        (Axis::hours("hour of the day"), Axis::linear("W")),
        [Stroke::Dots.through("with its noise share", points(noisy)), Stroke::Solid.through("the home", points(watts))],
    );
    let finding = format!("a home's own share of the noise is 0 in {:.0} % of slots: masks hide it", {
        100.0 * nothing_added(settings.alpha().honest_of_hundred(), scale)
    });
    Ok(Section::new([table(scale, seed)], [figure]).finding(finding))
}

fn draws(honest: u32, scale: Scale, count: usize, seed: u64) -> Vec<i64> {
    let sampler = Sampler::new(honest, scale);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| sampler.sample(&mut rng)).collect()
}

/// How probable it is that a share is exactly 0. It is the difference of two negative binomials of shape 1/n with p =
/// exp(-1/lambda), so they have to be the same.
fn nothing_added(honest: u32, scale: Scale) -> f64 {
    let p = (-1.0 / scale.as_f64()).exp();
    let shape = 1.0 / f64::from(honest);
    let mut probability = (1.0 - p).powf(shape);
    let mut both_same = 0.0;
    // What is beyond 40 lambda is less probable than a double can add.
    for value in 1..=40 * scale.numerator().div_ceil(scale.denominator()) {
        both_same += probability * probability;
        probability *= p * (value as f64 - 1.0 + shape) / value as f64;
    }
    both_same
}

fn table(scale: Scale, seed: u64) -> Table {
    let row = |honest: u32| {
        let shares = draws(honest, scale, DRAWS as usize, seed);
        let within = |watts: u64| shares.iter().filter(|share| share.unsigned_abs() <= watts).count() as f64;
        let parts = [0, 100, 1000].map(|watts| within(watts) / f64::from(DRAWS));
        row![honest, nothing_added(honest, scale); parts]
    };
    Table::new("shares", "shares exactly_0_theory exactly_0 within_100_w within_1000_w", [1, 8, 80, 800].map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_nothing_as_often_as_theory_says() {
        let scale = Scale::new(9000, 1);
        for honest in [8, 80] {
            let zero = draws(honest, scale, 20_000, 7).iter().filter(|share| **share == 0).count() as f64 / 20_000.0;
            assert!((zero - nothing_added(honest, scale)).abs() < 0.012, "{honest}: {zero}");
        }
        // One share is the discrete Laplace distribution itself.
        let p = (-1.0 / scale.as_f64()).exp();
        assert!((nothing_added(1, scale) / ((1.0 - p) / (1.0 + p)) - 1.0).abs() < 1e-9);
        let theory = nothing_added(80, scale);
        assert!((theory - 0.796_63).abs() < 0.000_01, "{theory}");
    }
}
