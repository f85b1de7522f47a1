//! What the gateway's other clusters tell about a new one.
//!
//! A cluster's first days are like those of the others, more or less: how far the others differ from each other says how
//! much. Only hypotheses about homes begin with that. Those about something else know nothing, and take over where the new
//! cluster is something else.

use crate::daily::{DEVIATION, LEVEL};
use crate::hypothesis::Model;
use crate::normal::Normal;

/// Clusters differ by so much of the standard deviation of what may be, before it is seen by how much they do: a quarter, as
/// weekends differ from weekdays.
const BETWEEN: f64 = 0.25;
/// Homes of one cluster may be larger than those of another: the level may differ by so much of it.
const LEVEL_SHARE: f64 = 0.5;

/// What one cluster learned of its days, per member: as much as a new one may begin with.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile(Vec<Learned>);

/// The same for one hypothesis.
#[derive(Debug, Clone, PartialEq)]
struct Learned {
    parts: [Normal; DEVIATION],
    bins: Vec<Normal>,
}

impl Profile {
    pub(crate) fn of(models: &[Model]) -> Self {
        let part =
            |model: &Model, part: usize| Normal { mean: model.mean[part], variance: model.covariance[part][part] };
        let learned =
            |model: &Model| Learned { parts: std::array::from_fn(|at| part(model, at)), bins: model.bins.all.clone() };
        Self(models.iter().map(learned).collect())
    }
}

/// Lets the models of a new cluster begin with what the others learned. There is at least one other.
pub(crate) fn begin(models: &mut [Model], others: &[Profile]) {
    for (at, model) in models.iter_mut().enumerate().filter(|(_, model)| model.hypothesis.is_of_homes()) {
        for part in 0..DEVIATION {
            let found = pooled(others.iter().map(|other| other.0[at].parts[part]), model.variances[part]);
            (model.mean[part], model.covariance[part][part]) = (found.mean, found.variance);
        }
        model.covariance[LEVEL][LEVEL] += (LEVEL_SHARE * model.mean[LEVEL]).powi(2);
        for (number, bin) in model.bins.all.iter_mut().enumerate() {
            *bin = pooled(others.iter().map(|other| other.0[at].bins[number]), bin.variance);
        }
        model.primed = true;
    }
}

/// Returns what is known of one more, from those that are known. `free` is the variance if there were none.
fn pooled(others: impl Iterator<Item = Normal> + Clone, free: f64) -> Normal {
    let count = others.clone().count() as f64;
    let mean = others.clone().map(|other| other.mean).sum::<f64>() / count;
    let unsure = others.clone().map(|other| other.variance).sum::<f64>() / count;
    let squares: f64 = others.map(|other| (other.mean - mean).powi(2)).sum();
    // What one expects counts as much as one of them.
    let between = (squares + BETWEEN * BETWEEN * free) / count;
    Normal { mean, variance: (between * (1.0 + count.recip()) + unsure).min(free) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_that_agree_tell_more_than_one_and_others_that_differ_tell_less() {
        let known = |means: &[f64]| pooled(means.iter().map(|&mean| Normal { mean, variance: 4.0 }), 1600.0);
        let one = known(&[50.0]);
        // A quarter of 40 squared, twice: once for the one that is known, once for the new one.
        assert_eq!((one.mean, one.variance), (50.0, 204.0));
        let agreeing = known(&[50.0; 10]);
        assert!((agreeing.variance - (10.0 * 1.1 + 4.0)).abs() < 1e-9, "{agreeing:?}");
        let apart = known(&[30.0, 70.0]);
        assert!(apart.mean == 50.0 && apart.variance > 3.0 * one.variance, "{apart:?}");
        assert_eq!(known(&[-500.0, 500.0]).variance, 1600.0, "never less sure than without any");
    }
}
