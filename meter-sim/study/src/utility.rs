//! The utility theorem against noise as it is drawn: how much the sum of all shares errs, and what simpler schemes cost.

use std::f64::consts::PI;

use dream_protocol::noise::{Sampler, Scale};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1, Gamma};

use super::accuracy::Alpha;
use super::cluster::chance;
use super::grouping::sizes;
use super::section::{Axis, Figure, Section, Stroke, Table, row};
use dream_homes::street::{all_cores, in_parallel};

/// What the integer shares hide; so many watts are as good as continuous.
const WATTS: u64 = 9000;
/// Members of the cluster whose shares are drawn.
const MEMBERS: u32 = 100;
/// Sums drawn for each alpha, and for each size of a cluster.
const SUMS: u32 = 100_000;
const NAIVE_SUMS: u32 = 20_000;
/// Sums that one core draws from one stream before it takes the next.
const BATCH: u32 = 500;

/// What the theorem promises, and what simpler schemes would cost. No home is needed for it.
pub(crate) fn section(seed: u64) -> Section {
    let rows: Vec<UtilityRow> = Alpha::ALL.iter().map(|&alpha| UtilityRow::draw(alpha, SUMS, seed)).collect();
    let naive: Vec<NaiveRow> = sizes(usize::MAX).map(|homes| NaiveRow::draw(homes, NAIVE_SUMS, seed)).collect();
    let finding = format!(
        "tolerating 20 % silent or malicious members costs a factor {:.3} in theory, {:.3} as drawn",
        mean_error(Alpha::PRODUCT.shape()),
        rows[2].integer.mean / rows[0].integer.mean
    );
    let (tables, figures) =
        ([utility_table(&rows), naive_table(&naive)], [utility_figure(&rows), naive_figure(&naive)]);
    Section::new(tables, figures).finding(finding)
}

/// The mean absolute value of the difference of two gamma variables of this shape and scale 1: 2 / B(1/2, shape).
pub(super) fn mean_error(shape: f64) -> f64 {
    2.0 / PI.sqrt() * gamma_ratio(shape)
}

/// The standard deviation of that absolute value.
pub(super) fn error_deviation(shape: f64) -> f64 {
    (2.0 * shape - mean_error(shape).powi(2)).sqrt()
}

/// Gamma(x + 1/2) / Gamma(x): by its series for large x, to which the recurrence of the gamma function leads.
fn gamma_ratio(x: f64) -> f64 {
    if x < 30.0 {
        return gamma_ratio(x + 1.0) * x / (x + 0.5);
    }
    let y = x.recip() / 8.0;
    x.sqrt() * (1.0 - y + y.powi(2) / 2.0 + 2.5 * y.powi(3) - 2.625 * y.powi(4))
}

/// Absolute values of drawn sums, in scales.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    mean: f64,
    deviation: f64,
    standard_error: f64,
}

impl Drawn {
    /// Draws sums on all cores; `stream` keeps what is drawn here apart from what is drawn elsewhere.
    fn new(sums: u32, seed: u64, stream: u64, sum: impl Fn(&mut ChaCha8Rng) -> f64 + Sync) -> Self {
        let batches: Vec<u64> = (0..u64::from(sums / BATCH)).collect();
        let moments = in_parallel(all_cores(), &batches, |batch| {
            let mut chance = chance(seed, (stream << 16) + batch);
            let draws = (0..BATCH).map(|_| sum(&mut chance).abs());
            draws.fold((0.0, 0.0), |(sum, squares), error| (sum + error, squares + error * error))
        });
        let (sum, squares) = moments.iter().fold((0.0, 0.0), |all, batch| (all.0 + batch.0, all.1 + batch.1));
        let count = f64::from(sums / BATCH * BATCH);
        let mean = sum / count;
        let deviation = (squares / count - mean * mean).sqrt();
        Self { mean, deviation, standard_error: deviation / count.sqrt() }
    }
}

/// Shares for one alpha, drawn both ways.
#[derive(Debug)]
struct UtilityRow {
    alpha: Alpha,
    gamma: Drawn,
    integer: Drawn,
}

impl UtilityRow {
    fn draw(alpha: Alpha, sums: u32, seed: u64) -> Self {
        let honest = MEMBERS * alpha.honest_of_hundred() / 100;
        let half = Gamma::new(f64::from(honest).recip(), 1.0).expect("a positive shape");
        let gamma = |chance: &mut ChaCha8Rng| (0..MEMBERS).map(|_| half.sample(chance) - half.sample(chance)).sum();
        let scale = Scale::new(WATTS, 1);
        let sampler = Sampler::new(honest, scale);
        let integer =
            |chance: &mut ChaCha8Rng| (0..MEMBERS).map(|_| sampler.sample(chance)).sum::<i64>() as f64 / scale.as_f64();
        let stream = 1000 * u64::from(honest);
        Self {
            alpha,
            gamma: Drawn::new(sums, seed, stream + 1, gamma),
            integer: Drawn::new(sums, seed, stream + 2, integer),
        }
    }
}

/// What schemes without shares cost in a cluster of one size.
#[derive(Debug)]
struct NaiveRow {
    homes: usize,
    each_home: Drawn,
    trusted: Drawn,
}

impl NaiveRow {
    fn draw(homes: usize, sums: u32, seed: u64) -> Self {
        let laplace = |chance: &mut ChaCha8Rng| -> f64 {
            let (up, down): (f64, f64) = (Exp1.sample(chance), Exp1.sample(chance));
            up - down
        };
        let stream = 1_000_000 + 2 * homes as u64;
        Self {
            homes,
            each_home: Drawn::new(sums, seed, stream, |chance| (0..homes).map(|_| laplace(chance)).sum()),
            trusted: Drawn::new(sums, seed, stream + 1, laplace),
        }
    }

    fn each_home_exact(&self) -> f64 {
        mean_error(self.homes as f64)
    }

    fn each_home_root(&self) -> f64 {
        (4.0 * self.homes as f64 / PI).sqrt()
    }
}

fn utility_table(rows: &[UtilityRow]) -> Table {
    const COLUMNS: &str = "alpha error_theorem error_gamma_shares error_integer_shares standard_error deviation_theorem \
                           deviation_gamma_shares deviation_integer_shares";
    let row = |UtilityRow { alpha, gamma, integer }: &UtilityRow| {
        let shape = alpha.shape();
        let means = [mean_error(shape), gamma.mean, integer.mean, integer.standard_error];
        row![alpha.share(); means; [error_deviation(shape), gamma.deviation, integer.deviation]]
    };
    Table::new("utility", COLUMNS, rows.iter().map(row))
}

fn utility_figure(rows: &[UtilityRow]) -> Figure {
    let curve = |factor: fn(f64) -> f64| {
        (0..=14u32).map(|step| f64::from(step) / 20.0).map(move |alpha| (alpha, factor((1.0 - alpha).recip())))
    };
    let dots = |value: fn(&UtilityRow) -> f64| rows.iter().map(move |row| (row.alpha.share(), value(row)));
    Figure::new(
        "utility_curve",
        "Mean and deviation of the absolute error against alpha: theorem and drawn shares",
        (
            Axis::linear("alpha, the share of members that need not add noise"),
            Axis::linear("absolute error, in lambda"),
        ),
        [
            Stroke::Solid.through("mean, theorem", curve(mean_error)),
            Stroke::Dashed.through("deviation, theorem", curve(error_deviation)),
            Stroke::Dots.through("mean, gamma shares", dots(|row| row.gamma.mean)),
            Stroke::Dots.through("mean, integer shares", dots(|row| row.integer.mean)),
            Stroke::Dots.through("deviation, gamma shares", dots(|row| row.gamma.deviation)),
            Stroke::Dots.through("deviation, integer shares", dots(|row| row.integer.deviation)),
        ],
    )
}

fn naive_table(rows: &[NaiveRow]) -> Table {
    const COLUMNS: &str = "homes each_home_simulated each_home_exact each_home_root_4n_pi paper_each_home \
                           trusted_simulated shares_no_tolerance shares_product";
    let row = |row: &NaiveRow| {
        let each = [row.each_home.mean, row.each_home_exact(), row.each_home_root(), row.homes as f64];
        let shares = [Alpha::NONE, Alpha::PRODUCT].map(|alpha| mean_error(alpha.shape()));
        row![row.homes; each; [row.trusted.mean]; shares]
    };
    Table::new("naive", COLUMNS, rows.iter().map(row))
}

fn naive_figure(rows: &[NaiveRow]) -> Figure {
    let points = |value: fn(&NaiveRow) -> f64| rows.iter().map(move |row| (row.homes as f64, value(row)));
    Figure::new(
        "naive_curve",
        "Error of simpler schemes against the size of a cluster",
        (Axis::logarithmic("homes in a cluster"), Axis::logarithmic("mean absolute error, in lambda")),
        [
            Stroke::Solid.through("each home, exact", points(NaiveRow::each_home_exact)),
            Stroke::Dashed.through("each home, paper: N", points(|row| row.homes as f64)),
            Stroke::Dots.through("each home, drawn", points(|row| row.each_home.mean)),
            Stroke::Dots.through("trusted aggregator, drawn", points(|row| row.trusted.mean)),
            Stroke::Solid.through("shares, alpha 0", points(|_| mean_error(Alpha::NONE.shape()))),
            Stroke::Dashed.through("shares, alpha 0.2", points(|_| mean_error(Alpha::PRODUCT.shape()))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use dream_protocol::noise::Spread;

    use super::*;

    /// Returns how far the further of the two means is from the theorem, in standard errors.
    fn worst_deviation(row: &UtilityRow) -> f64 {
        let expected = mean_error(row.alpha.shape());
        let off = [row.gamma, row.integer].map(|drawn| (drawn.mean - expected).abs() / drawn.standard_error);
        off[0].max(off[1])
    }

    #[test]
    fn the_theorem_gives_the_factors_of_the_papers_alphas() {
        let found = Alpha::PAPERS.map(|alpha| {
            let shape = alpha.shape();
            format!("{:.4} {:.4}", mean_error(shape), error_deviation(shape))
        });
        assert_eq!(found, ["1.0000 1.0000", "1.0662 1.0418", "1.2376 1.1513", "1.5000 1.3229"]);
    }

    #[test]
    fn the_theorem_agrees_with_what_the_product_says_of_its_noise() {
        let scale = Scale::new(1_000_000, 1);
        for (responders, honest) in [(1, 1), (10, 9), (10, 8), (2, 1), (100, 1), (1000, 1)] {
            let shape = f64::from(responders) / f64::from(honest);
            let spread = Spread::new(scale, honest, responders);
            let off = spread.mean_error() / 1e6 / mean_error(shape) - 1.0;
            assert!(off.abs() < 1e-9, "{shape}: {off}");
        }
    }

    #[test]
    fn drawn_shares_err_as_the_theorem_says() {
        for alpha in Alpha::PAPERS {
            let row = UtilityRow::draw(alpha, 10_000, 1);
            // The factor of a neighbouring alpha is off by six and more.
            assert!(worst_deviation(&row) < 4.0, "{row:?}");
            for drawn in [row.gamma, row.integer] {
                let expected = error_deviation(alpha.shape());
                assert!((drawn.deviation / expected - 1.0).abs() < 0.05, "{row:?}");
            }
        }
    }

    #[test]
    fn what_each_home_adds_grows_with_the_root_of_their_number_and_not_with_it() {
        let row = NaiveRow::draw(50, 4000, 1);
        let off = |found: f64, expected: f64| (found / expected - 1.0).abs();
        assert!(off(row.each_home.mean, row.each_home_root()) < 0.04, "{row:?}");
        assert!(off(row.each_home_exact(), row.each_home_root()) < 0.003, "1 - 1/8N of it");
        assert!(off(row.trusted.mean, 1.0) < 0.06, "{row:?}");
    }
}
