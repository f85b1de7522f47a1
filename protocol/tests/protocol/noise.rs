//! The noise against its exact distribution, with the power of each test shown on broken noise.

use dream_protocol::noise::{Confidence, Sampler, Scale, Spread};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

/// Scale, sums to draw, and by how many per cent the broken scale is too small.
type Corner = (u64, u32, u64);

const CORNERS: [Corner; 3] = [(5, 80_000, 5), (9_000, 80_000, 5), (1_000_000, 80_000, 5)];

#[test]
fn the_share_of_a_lone_meter_is_exact() {
    check_corners(1, &CORNERS);
}

#[test]
fn shares_for_two_meters_are_exact() {
    check_corners(2, &CORNERS);
}

#[test]
fn shares_for_ten_meters_are_exact() {
    check_corners(10, &CORNERS);
}

#[test]
fn shares_for_a_hundred_meters_are_exact() {
    check_corners(100, &CORNERS);
}

/// Almost every share is 0 here, and what one tells about the scale falls as 1/n. So no share is
/// wasted: the half a billion that make up the sums at scale 9,000 are all counted singly too. The
/// other scales make do with fewer draws and a larger error.
#[test]
fn shares_for_ten_thousand_meters_are_exact() {
    check_corners(10_000, &[(5, 25_000, 8), (9_000, 50_000, 5), (1_000_000, 25_000, 8)]);
}

#[test]
fn bands_cover_what_they_promise() {
    const SUMS: u32 = 50_000;
    let scale = Scale::new(9_000, 1);
    for (responders, honest) in [(1, 1), (20, 20), (25, 20), (40, 20), (125, 100)] {
        let spread = Spread::new(scale, honest, responders);
        let sampler = Sampler::new(honest, scale);
        let mut rng = ChaCha8Rng::seed_from_u64(responders.into());
        let widths = [Confidence::P95, Confidence::P99].map(|c| spread.half_width(c));
        let mut covered = [0; 2];
        for _ in 0..SUMS {
            let sum: i64 = (0..responders).map(|_| sampler.sample(&mut rng)).sum();
            for (count, width) in covered.iter_mut().zip(widths) {
                *count += u32::from(sum.unsigned_abs() <= width);
            }
        }
        for (count, probability) in covered.into_iter().zip([0.95, 0.99]) {
            let expected = probability * f64::from(SUMS);
            let tolerance = 5.0 * (expected * (1.0 - probability)).sqrt();
            let found = f64::from(count);
            assert!(
                (found - expected).abs() < tolerance,
                "{responders} responders of {honest}: {found} within, {expected} expected"
            );
        }
    }
}

#[test]
fn the_reference_is_the_discrete_laplace_for_a_full_sum() {
    for lambda in [5, 9_000, 1_000_000] {
        let cells = cells(1.0, lambda);
        let rate = 1.0 / lambda as f64;
        let norm = 1.0 + (-rate).exp();
        for pair in cells.windows(2).skip(1) {
            let (from, to) = (pair[0].from as f64, pair[1].from as f64);
            let exact = ((-from * rate).exp() - (-to * rate).exp()) / norm;
            assert!((pair[0].mass - exact).abs() < 1e-9 * exact + 1e-15);
        }
    }
}

#[test]
fn the_reference_is_the_convolution_of_negative_binomials() {
    let (shape, lambda) = (0.1, 5_u32);
    let p = (-1.0 / f64::from(lambda)).exp();
    let mut half = vec![(1.0 - p).powf(shape)];
    for k in 0..500 {
        half.push(half[k] * p * (k as f64 + shape) / (k as f64 + 1.0));
    }
    let mut exact = (0..).map(|d| half.iter().skip(d).zip(&half).map(|(x, y)| x * y).sum::<f64>());
    for pair in cells(shape, lambda.into()).windows(2) {
        let width = usize::try_from(pair[1].from - pair[0].from).unwrap();
        let mass: f64 = exact.by_ref().take(width).sum();
        assert!((pair[0].mass - mass).abs() < 1e-12);
    }
}

/// Checks single shares, and sums of `honest` of them, at each corner.
///
/// The right noise must stay below a critical value that one fair run in 10,000 exceeds. To show
/// that the test can see, noise whose scale is some per cent too small and sums that lack a share
/// (or a tenth of them) must exceed one that a fair run in ten million does.
fn check_corners(honest: u32, corners: &[Corner]) {
    for &(lambda, sums, error) in corners {
        let share = Bins::new(1.0 / f64::from(honest), lambda);
        let sum = Bins::new(1.0, lambda);
        let right = Counts::draw(honest, Scale::new(lambda, 1), sums, [&share, &sum]);
        let wrong = Scale::new(lambda * (100 - error), 100);
        let wrong = Counts::draw(honest, wrong, sums, [&share, &sum]);

        let case = format!("{honest} meters, scale {lambda}");
        share.assert_fair(&right.shares, &format!("a share of {case}"));
        sum.assert_fair(&right.sums, &format!("a sum of {case}"));
        share.assert_unfair(&wrong.shares, &format!("a share with a wrong scale of {case}"));
        sum.assert_unfair(&wrong.sums, &format!("a sum with a wrong scale of {case}"));
        sum.assert_unfair(&right.short_sums, &format!("a sum short of shares of {case}"));
    }
}

/// How often each bin was hit.
struct Counts {
    shares: Vec<u64>,
    sums: Vec<u64>,
    /// Sums that lack one share, or a tenth of them.
    short_sums: Vec<u64>,
}

impl Counts {
    fn draw(honest: u32, scale: Scale, sums: u32, [share_bins, sum_bins]: [&Bins; 2]) -> Self {
        let sampler = Sampler::new(honest, scale);
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut counts = Self {
            shares: vec![0; share_bins.masses.len()],
            sums: vec![0; sum_bins.masses.len()],
            short_sums: vec![0; sum_bins.masses.len()],
        };
        for _ in 0..sums {
            let mut add = |shares| -> i64 {
                (0..shares)
                    .map(|_| sampler.sample(&mut rng))
                    .inspect(|&share| counts.shares[share_bins.index(share)] += 1)
                    .sum()
            };
            let missing = honest.div_ceil(10);
            let short = add(honest - missing);
            let full = short + add(missing);
            counts.short_sums[sum_bins.index(short)] += 1;
            counts.sums[sum_bins.index(full)] += 1;
        }
        counts
    }
}

/// A partition of the integers into a middle bin and as many bins on either side of it.
struct Bins {
    /// The least magnitude in each bin outside the middle.
    edges: Vec<u64>,
    /// The exact probabilities: the middle, then the positive and the negative of each pair.
    masses: Vec<f64>,
}

impl Bins {
    /// Cuts the noise of `shape` (1/n for a share, 1 for a sum) into bins of about equal weight.
    ///
    /// Weight is half probability, half expected magnitude: large values are rare but show a wrong
    /// scale best.
    fn new(shape: f64, lambda: u64) -> Self {
        const PAIRS: f64 = 12.0;
        let cells = cells(shape, lambda);
        let mean_size = |cell: &Cell| cell.mass * cell.from as f64;
        let total: f64 = cells[1..].iter().map(|cell| cell.mass).sum();
        let total_size: f64 = cells[1..].iter().map(mean_size).sum();

        let (mut edges, mut masses) = (vec![], vec![cells[0].mass]);
        let mut weight = cells[0].mass;
        for cell in &cells[1..] {
            if weight >= 1.0 / PAIRS {
                edges.push(cell.from);
                masses.extend([0.0, 0.0]);
                weight = 0.0;
            }
            weight += (cell.mass / total + mean_size(cell) / total_size) / 2.0;
            if edges.is_empty() {
                masses[0] += 2.0 * cell.mass;
            } else {
                masses.iter_mut().rev().take(2).for_each(|mass| *mass += cell.mass);
            }
        }
        Self { edges, masses }
    }

    fn index(&self, value: i64) -> usize {
        if value == 0 {
            return 0;
        }
        match self.edges.partition_point(|&edge| edge <= value.unsigned_abs()) {
            0 => 0,
            pair => 2 * pair - usize::from(value > 0),
        }
    }

    fn assert_fair(&self, counts: &[u64], what: &str) {
        let (found, critical) = (self.statistic(counts), self.critical(3.719)); // p = 1e-4
        assert!(found < critical, "{what}: chi-square {found:.1}, at most {critical:.1} expected");
    }

    fn assert_unfair(&self, counts: &[u64], what: &str) {
        let (found, critical) = (self.statistic(counts), self.critical(5.199)); // p = 1e-7
        assert!(found > critical, "{what}: chi-square {found:.1} went unnoticed ({critical:.1})");
    }

    /// Pearson's statistic.
    fn statistic(&self, counts: &[u64]) -> f64 {
        let draws = counts.iter().sum::<u64>() as f64;
        let term = |(&count, &mass): (&u64, &f64)| {
            assert!(mass * draws > 5.0, "a bin too small for the chi-square approximation");
            (count as f64 - mass * draws).powi(2) / (mass * draws)
        };
        counts.iter().zip(&self.masses).map(term).sum()
    }

    /// The chi-square quantile at the normal quantile `z`, after Wilson and Hilferty (1931).
    fn critical(&self, z: f64) -> f64 {
        let freedom = (self.masses.len() - 1) as f64;
        let spread = 2.0 / (9.0 * freedom);
        freedom * (1.0 - spread + z * spread.sqrt()).powi(3)
    }
}

/// The magnitudes from `from` to the next cell, with the probability of either sign.
struct Cell {
    from: u64,
    mass: f64,
}

/// The exact distribution of `NB(shape, p) - NB(shape, p)`, in cells three per cent wide.
///
/// From `(1-pz)(1-p/z) z G' = shape p (z - 1/z) G` for its generating function `G`, the
/// probabilities obey a recursion of three terms, of which they are the falling solution: run
/// downwards it forgets an arbitrary start (Miller's algorithm), and the total is 1. Written in
/// steps between neighbours it only ever adds, so nothing cancels.
fn cells(shape: f64, lambda: u64) -> Vec<Cell> {
    let rate = 1.0 / lambda as f64;
    let bend = (-rate).exp_m1().powi(2) / (-rate).exp(); // (1-p)^2 / p
    let reach = 40 * lambda + 60;
    let mut cells = vec![Cell { from: 0, mass: 0.0 }];
    let mut from = 1;
    while from < reach {
        cells.push(Cell { from, mass: 0.0 });
        from = (from + 1).max(from * 103 / 100);
    }

    let (mut probability, mut step) = (1e-200, 1e-200);
    let mut magnitude = reach;
    for cell in cells.iter_mut().skip(1).rev() {
        while magnitude >= cell.from {
            cell.mass += probability;
            let d = magnitude as f64;
            step = (bend * d * probability + (d + 1.0 - shape) * step) / (d - 1.0 + shape);
            probability += step;
            magnitude -= 1;
        }
    }
    cells[0].mass = probability;
    let total = probability + 2.0 * cells[1..].iter().map(|cell| cell.mass).sum::<f64>();
    cells.iter_mut().for_each(|cell| cell.mass /= total);
    cells
}
