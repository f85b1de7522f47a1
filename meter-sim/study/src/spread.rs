//! How values are spread: their mean, deviation and maximum.

use super::section::Cell;

/// What the paper's tables tell of many values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) mean: f64,
    pub(super) deviation: f64,
    pub(super) max: f64,
}

impl Spread {
    /// None of no values.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let max = values.iter().copied().reduce(f64::max)?;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Some(Self { mean, deviation: variance.sqrt(), max })
    }
}

/// The numbers of each seed, their mean, and how far they are apart, each with what its row is called.
pub(super) fn with_mean_and_spread<const N: usize>(
    seeds: &[(u64, [f64; N])],
) -> impl Iterator<Item = (Cell, [f64; N])> {
    let of = |fold: fn(f64, f64) -> f64, first: f64| -> [f64; N] {
        std::array::from_fn(|at| seeds.iter().map(|(_, numbers)| numbers[at]).fold(first, fold))
    };
    let (sum, low, high) = (of(|a, b| a + b, 0.0), of(f64::min, f64::MAX), of(f64::max, f64::MIN));
    let mean = ("mean".into(), sum.map(|sum| sum / seeds.len() as f64));
    let spread = ("spread".into(), std::array::from_fn(|at| high[at] - low[at]));
    seeds.iter().map(|(seed, numbers)| (Cell::from(*seed), *numbers)).chain([mean, spread])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_a_mean_a_deviation_and_a_maximum() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(spread, Some(Spread { mean: 5.0, deviation: 2.0, max: 9.0 }));
        assert_eq!(Spread::of(&[]), None);
    }
}
