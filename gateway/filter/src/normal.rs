//! Normal distributions, their mixtures, and the bands that hold 95 % of them.

/// A normal distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Normal {
    pub(crate) mean: f64,
    pub(crate) variance: f64,
}

impl Normal {
    /// Returns the normal distribution with the mean and the variance of a mixture.
    pub(crate) fn mixture<const N: usize>(weights: &[f64; N], parts: &[Self; N]) -> Self {
        let weighted = |value: &dyn Fn(&Self) -> f64| -> f64 {
            weights.iter().zip(parts).map(|(weight, part)| weight * value(part)).sum()
        };
        let mean = weighted(&|part| part.mean);
        Self { mean, variance: weighted(&|part| part.variance + (part.mean - mean).powi(2)) }
    }

    /// Returns the same mean, with a variance that allows for the truth being another, with this probability.
    pub(crate) fn allowing_for(self, other: Self, probability: f64) -> Self {
        let from_here = other.variance + (other.mean - self.mean).powi(2);
        Self { variance: self.variance + probability * (from_here - self.variance).max(0.0), ..self }
    }

    /// Returns the same with a mean no further than `most` from another value. The truth may still be where it was thought to be.
    pub(crate) fn within(self, most: f64, of: f64) -> Self {
        let mean = self.mean.clamp(of - most, of + most);
        Self { mean, variance: self.variance + (mean - self.mean).powi(2) }
    }

    /// Returns half the width of the band that holds 95 %, where the slot's own sum had noise of this variance.
    pub(crate) fn band95(self, noise: f64) -> f64 {
        deviations95(self.variance / noise) * self.variance.sqrt()
    }
}

/// Returns how many standard deviations hold 95 %: those of Laplace noise if the slot's sum is all that is known (the
/// variance is all of the noise's), those of a normal distribution if it hardly counts.
fn deviations95(share_of_noise: f64) -> f64 {
    const NORMAL: f64 = 1.959_964;
    const LAPLACE: f64 = 2.118_277; // ln(20) / sqrt(2)
    NORMAL + (LAPLACE - NORMAL) * share_of_noise.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(mean: f64, variance: f64) -> Normal {
        Normal { mean, variance }
    }

    #[test]
    fn parts_that_disagree_widen_the_mixture() {
        assert_eq!(Normal::mixture(&[0.5, 0.5], &[normal(10.0, 4.0); 2]), normal(10.0, 4.0));
        assert_eq!(Normal::mixture(&[0.25, 0.75], &[normal(10.0, 4.0), normal(18.0, 4.0)]), normal(16.0, 16.0));
    }

    #[test]
    fn a_mean_that_is_moved_leaves_room_for_where_it_was() {
        assert_eq!(normal(10.0, 4.0).within(3.0, 12.0), normal(10.0, 4.0));
        assert_eq!(normal(10.0, 4.0).within(3.0, 15.0), normal(12.0, 8.0));
        assert_eq!(normal(10.0, 4.0).within(f64::INFINITY, 0.0), normal(10.0, 4.0));
    }

    #[test]
    fn another_truth_widens_by_its_distance_and_never_narrows() {
        let (here, there) = (normal(10.0, 4.0), normal(16.0, 8.0));
        assert_eq!(here.allowing_for(there, 0.25), normal(10.0, 0.75 * 4.0 + 0.25 * 44.0));
        assert_eq!(here.allowing_for(normal(10.0, 1.0), 0.5), here);
    }
}
