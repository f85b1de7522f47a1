//! How values are spread: their mean, deviation and maximum.

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
