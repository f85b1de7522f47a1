//! What epsilon is left when fewer shares of the noise are in a sum than the claim counts on, because more meters collude
//! than T. Computed, not simulated: the distribution of any number of shares is known (`protocol-gateway.md 5`).

use super::section::{Axis, Cell, Figure, Section, Stroke, Table, row};
use dream_homes::street::{all_cores, in_parallel};

/// N = 100 members of which ten may be silent and ten malicious.
const NEEDED: u32 = 80;

/// D, in watts, as meters have it by default.
const RANGE: u32 = 5000;

const EPSILONS: [f64; 3] = [0.1, 0.5, 1.0];

const DELTA: f64 = 1e-6;

/// What is claimed: so many shares make up the noise that hides one home's range with epsilon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// n, the shares that the noise is made for.
    pub(crate) needed: u32,
    /// D, how much one reading may change.
    pub(crate) range: u32,
    pub(crate) epsilon: f64,
}

const COLUMNS: &str = "shares_needed epsilon_claimed shares_present malicious_beyond_t epsilon_effective \
                       epsilon_effective_delta_1e-6";

pub(crate) fn section() -> Section {
    let rows: Vec<(Claim, u32)> = EPSILONS
        .into_iter()
        .flat_map(|epsilon| [90, 80, 79, 76, 72, 64, 56, 48, 40, 20].map(|present| (claim(epsilon), present)))
        .collect();
    let rows = in_parallel(all_cores(), &rows, |(claim, present)| row(claim, *present));
    let left = claim(1.0).effective_epsilon(NEEDED * 9 / 10);
    let finding = format!("with a tenth of the noise missing, epsilon 1 becomes {left:.2}");
    Section::new([Table::new("shortfall", COLUMNS, rows)], [figure()]).finding(finding)
}

impl Claim {
    /// The epsilon that holds if so many honest shares are in the sum, infinite without any.
    ///
    /// It is the largest logarithm of how much more probable a sum is for one reading than for another. With fewer shares
    /// than needed the noise is peaked at 0, steeper there than anywhere else: what gives most away is a sum without any noise
    /// against one that is a whole range off. With as many or more it falls off by epsilon a range at the most, far out.
    pub(crate) fn effective_epsilon(&self, present: u32) -> f64 {
        if present >= self.needed {
            return self.epsilon;
        }
        if present == 0 {
            return f64::INFINITY;
        }
        let (shape, decay) = (self.shape(present), self.decay());
        let next = |term: f64, at: f64| term * decay * (at + shape) / (at + 1.0);
        // The chances of 0, 1, 2, ... of one negative binomial, and those of a range more. What they are multiples of
        // does not matter.
        let mut near = 1.0;
        let mut far = (0..self.range).fold(1.0, |term, at| next(term, f64::from(at)));
        let (mut at, mut none, mut whole) = (0.0, 0.0, 0.0);
        while near * near > 1e-18 * none {
            none += near * near;
            whole += near * far;
            near = next(near, at);
            far = next(far, at + f64::from(self.range));
            at += 1.0;
        }
        f64::ln(none / whole)
    }

    /// The epsilon that holds but for a chance of `delta`.
    fn epsilon_but_for(&self, delta: f64, present: u32) -> f64 {
        let chances = self.chances(present);
        let (mut low, mut high) = (0.0, self.effective_epsilon(present));
        for _ in 0..30 {
            let middle = f64::midpoint(low, high);
            if self.beyond(middle, &chances) > delta {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// By how much this epsilon is exceeded, over all sums: the least delta that goes with it.
    fn beyond(&self, epsilon: f64, chances: &[f64]) -> f64 {
        let (factor, range) = (epsilon.exp(), self.range as usize);
        let chance = |distance: usize| chances.get(distance).copied().unwrap_or(0.0);
        let excess = |here: f64, there: f64| (here - factor * there).max(0.0);
        // Noise that leads away from the other input, none included, and noise that leads towards it and past it.
        let away: f64 = (0..chances.len()).map(|noise| excess(chance(noise), chance(noise + range))).sum();
        let towards: f64 = (1..chances.len()).map(|noise| excess(chance(noise), chance(noise.abs_diff(range)))).sum();
        away + towards
    }

    /// The chances that the noise is 0, 1, 2, ...; below 0 they are the same.
    ///
    /// The generating function `(1 - pz)^-a (1 - p/z)^-a` has a differential equation, which ties three neighbours
    /// together. Downwards from far out, where they start does not matter (Miller's algorithm).
    fn chances(&self, present: u32) -> Vec<f64> {
        let (shape, decay) = (self.shape(present), self.decay());
        let reach = reach(40.0 * f64::from(self.range) / self.epsilon);
        let mut chances = vec![0.0; reach + 2];
        chances[reach] = 1e-200;
        for at in (1..=reach).rev() {
            let here = at as f64;
            let beyond = decay * (here + 1.0 - shape) * chances[at + 1];
            chances[at - 1] = ((1.0 + decay * decay) * here * chances[at] - beyond) / (decay * (here - 1.0 + shape));
        }
        let total = chances[0] + 2.0 * chances[1..].iter().sum::<f64>();
        chances.iter_mut().for_each(|chance| *chance /= total);
        chances
    }

    /// a = k/n.
    fn shape(&self, present: u32) -> f64 {
        f64::from(present) / f64::from(self.needed)
    }

    /// p.
    fn decay(&self) -> f64 {
        (-self.epsilon / f64::from(self.range)).exp()
    }
}

fn claim(epsilon: f64) -> Claim {
    Claim { needed: NEEDED, range: RANGE, epsilon }
}

fn row(claim: &Claim, present: u32) -> Vec<Cell> {
    let beyond = claim.needed.saturating_sub(present);
    row![claim.needed, claim.epsilon, present, beyond; [
        claim.effective_epsilon(present),
        claim.epsilon_but_for(DELTA, present)
    ]]
}

fn figure() -> Figure {
    let series = |&epsilon: &f64| {
        let point = |missing: u32| {
            let share = 100.0 * f64::from(missing) / f64::from(NEEDED);
            (share, claim(epsilon).effective_epsilon(NEEDED - missing))
        };
        Stroke::Solid.through(format!("claimed {epsilon}"), (0..=60).map(point))
    };
    Figure::new(
        "shortfall_curve",
        "Epsilon that is left against the share of the needed noise that is missing",
        (Axis::linear("noise shares missing (%)"), Axis::logarithmic("effective epsilon")),
        in_parallel(all_cores(), &EPSILONS, series),
    )
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some millions, and not negative")]
fn reach(distance: f64) -> usize {
    distance.ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Claim = Claim { needed: 4, range: 10, epsilon: 0.5 };

    #[test]
    fn as_many_shares_as_needed_are_worth_what_is_claimed_and_more_no_less() {
        for epsilon in EPSILONS {
            for range in [1, 10, 9000] {
                let claim = Claim { needed: 80, range, epsilon };
                assert_eq!(claim.effective_epsilon(80).to_bits(), epsilon.to_bits());
                assert_eq!(claim.effective_epsilon(100).to_bits(), epsilon.to_bits());
                // The series itself says so too, just below.
                let nearly = Claim { needed: 1_000_000_000, ..claim };
                assert!((nearly.effective_epsilon(999_999_999) / epsilon - 1.0).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn every_missing_share_costs_something() {
        for epsilon in EPSILONS {
            let effective: Vec<f64> = (1..=80).map(|present| claim(epsilon).effective_epsilon(present)).collect();
            assert!(effective.is_sorted_by(|fewer, more| fewer > more), "{effective:?}");
        }
        assert_eq!(SMALL.effective_epsilon(0), f64::INFINITY);
    }

    #[test]
    fn eight_colluders_too_many_of_eighty_make_epsilon_one_1_19() {
        assert!((claim(1.0).effective_epsilon(72) - 1.1875).abs() < 5e-5);
    }

    #[test]
    fn no_sum_tells_more_than_one_without_noise() {
        for (epsilon, present) in [(0.1, 3), (0.5, 3), (1.0, 3), (1.0, 1), (0.5, 2)] {
            let claim = Claim { epsilon, ..SMALL };
            let (chances, range) = (brute_force(&claim, present), 10);
            let chance = |noise: i64| chances[usize::try_from(noise.abs()).unwrap()];
            let ratios = (-300..300).map(|noise| f64::ln(chance(noise) / chance(noise - range)));
            let largest = ratios.fold(0.0, f64::max);
            assert!((claim.effective_epsilon(present) - largest).abs() < 1e-10, "{claim:?} {present}");
        }
    }

    #[test]
    fn chances_are_those_of_the_difference_of_two_negative_binomials() {
        for (epsilon, present) in [(0.1, 3), (1.0, 4), (0.5, 6), (1.0, 1)] {
            let claim = Claim { epsilon, ..SMALL };
            let pairs = claim.chances(present).into_iter().zip(brute_force(&claim, present));
            assert!(
                pairs.take(200).all(|(found, expected)| (found / expected - 1.0).abs() < 1e-10),
                "{claim:?} {present}"
            );
        }
    }

    #[test]
    fn the_table_leaves_out_rare_sums_in_its_last_column_only() {
        let section = section();
        let table = &section.tables[0];
        assert_eq!(table.rows.len(), 30);
        for row in &table.rows {
            let [.., Cell::Number(exactly), Cell::Number(nearly)] = row[..] else { panic!("two numbers end a row") };
            assert!(nearly <= exactly && nearly > 0.0, "{row:?}");
        }
    }

    #[test]
    fn leaving_out_rare_sums_leaves_a_little_less() {
        let (exactly, nearly) = (SMALL.effective_epsilon(3), SMALL.epsilon_but_for(DELTA, 3));
        assert!(nearly < exactly && nearly > 0.999 * exactly, "{nearly} {exactly}");
    }

    #[test]
    fn what_is_left_out_comes_up_as_often_as_it_may() {
        // Of the full noise: P(d) ~ p^|d|.
        let p = SMALL.decay();
        let chance = |noise: i32| (1.0 - p) / (1.0 + p) * p.powi(noise.abs());
        for delta in [1e-6, 1e-3, 0.05] {
            let factor = SMALL.epsilon_but_for(delta, 4).exp();
            let excess = (-3000..3000).map(|sum| (chance(sum) - factor * chance(sum - 10)).max(0.0));
            assert!((excess.sum::<f64>() - delta).abs() < 1e-8, "{delta}");
        }
    }

    /// The chances of noise 0, 1, 2, ... by convolution.
    fn brute_force(claim: &Claim, present: u32) -> Vec<f64> {
        let (shape, p) = (claim.shape(present), claim.decay());
        let mut half = vec![(1.0 - p).powf(shape)];
        for at in 0..6000 {
            half.push(half[at] * p * (at as f64 + shape) / (at as f64 + 1.0));
        }
        (0..400).map(|noise| half[noise..].iter().zip(&half).map(|(more, less)| more * less).sum()).collect()
    }
}
