//! How far off clusters are, and how often their bands hold.

use dream_filter::Filtered;
use dream_protocol::noise::{Confidence, Spread};
use dream_protocol::params::Params;

use crate::cluster::{Observed, Reported};

/// What clusters of one kind come to: `clusters[cluster][day][slot]`.
#[derive(Debug)]
pub(super) struct Scores {
    pub(super) params: Params,
    pub(super) clusters: Vec<Vec<Vec<Observed>>>,
}

impl Scores {
    pub(super) fn all(&self) -> Score {
        self.score(self.clusters.iter().flatten().flatten())
    }

    pub(super) fn evenings(&self) -> Score {
        self.score(self.clusters.iter().flatten().flatten().filter(|slot| slot.at >= 17.0 / 24.0))
    }

    /// A tenth of each cluster's days: the coldest, where homes heat with electricity.
    pub(super) fn highest_days(&self) -> Score {
        let load = |day: &Vec<Observed>| day.iter().map(|slot| slot.reported.truth).sum::<f64>();
        let slots = self.clusters.iter().flat_map(|days| {
            let mut days: Vec<&Vec<Observed>> = days.iter().collect();
            days.sort_by(|one, other| load(other).total_cmp(&load(one)));
            days.truncate(days.len().div_ceil(10));
            days.into_iter().flatten()
        });
        self.score(slots)
    }

    /// Of these days, counted from 0.
    pub(super) fn of_days(&self, days: impl Fn(usize) -> bool) -> Score {
        let chosen = |cluster: &'_ Vec<Vec<Observed>>| {
            let days = cluster.iter().enumerate().filter(|(day, _)| days(*day));
            days.flat_map(|(_, slots)| slots.iter().copied()).collect::<Vec<_>>()
        };
        let slots: Vec<Observed> = self.clusters.iter().flat_map(chosen).collect();
        self.score(slots.iter())
    }

    fn score<'a>(&self, slots: impl Iterator<Item = &'a Observed>) -> Score {
        let spread = self.params.noise_scale();
        let spread = Spread::new(spread, self.params.honest().into(), self.params.members().into());
        let band = spread.half_width(Confidence::P95) as f64;
        let (mut score, mut count, mut load) = (Score::default(), 0.0, 0.0);
        for Observed { reported: Reported { truth, lost_to_range, lost_to_account, .. }, released, filtered, .. } in
            slots
        {
            let within = |watts: f64, band: f64| f64::from(u8::from((watts - truth).abs() <= band));
            score.raw += (released - truth).abs() / base(*truth);
            score.absolute += (released - truth).abs();
            score.lost_to_range += lost_to_range;
            score.lost_to_account += lost_to_account;
            score.covered += within(*released, band);
            if let Some(Filtered { watts, band95 }) = filtered {
                score.filtered += (watts - truth).abs() / base(*truth);
                score.absolute_filtered += (watts - truth).abs();
                score.covered_filtered += within(*watts, *band95);
                score.is_filtered = true;
            }
            count += 1.0;
            load += truth.abs();
        }
        let (absolute, absolute_filtered) = (score.absolute / load, score.absolute_filtered / load);
        // Where homes feed in, sums go through 0, and a share of that means nothing.
        let feeds_in = self.params.terms().lo < 0;
        Score {
            raw: if feeds_in { absolute } else { score.raw / count },
            filtered: if feeds_in { absolute_filtered } else { score.filtered / count },
            absolute,
            absolute_filtered,
            lost_to_range: score.lost_to_range / load,
            lost_to_account: score.lost_to_account / load,
            covered: score.covered / count,
            covered_filtered: score.covered_filtered / count,
            is_filtered: score.is_filtered,
            mean_load: load / count,
        }
    }
}

/// What the paper divides the errors of a load by.
fn base(load: f64) -> f64 {
    load.abs() + 1.0
}

/// Means over slots; what is lost, and absolute errors, are shares of the energy.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Score {
    pub(super) raw: f64,
    pub(super) filtered: f64,
    pub(super) absolute: f64,
    pub(super) absolute_filtered: f64,
    pub(super) lost_to_range: f64,
    pub(super) lost_to_account: f64,
    pub(super) covered: f64,
    pub(super) covered_filtered: f64,
    pub(super) is_filtered: bool,
    /// Of a cluster, in watts.
    pub(super) mean_load: f64,
}

impl Score {
    /// Range and account only ever take away, where homes do not feed in.
    pub(super) fn bias(&self) -> f64 {
        -(self.lost_to_range + self.lost_to_account)
    }

    /// A number that only a filter has.
    pub(super) fn of_filter(&self, value: f64) -> Option<f64> {
        self.is_filtered.then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::terms::params;
    use super::*;
    use crate::settings::Settings;
    use dream_protocol::params::Terms;

    #[test]
    fn errors_are_shares_of_the_slot_or_of_the_mean() {
        let slot = |at: f64, truth: f64, released: f64, filtered: f64| Observed {
            at,
            reported: Reported { truth, lost_to_range: 10.0, lost_to_account: 20.0, ..Reported::default() },
            released,
            filtered: Some(Filtered { watts: filtered, band95: 30.0 }),
        };
        let day = vec![slot(0.2, 99.0, 149.0, 109.0), slot(0.8, 299.0, 269.0, 359.0)];
        let params = params(100, Terms::DEFAULT, &Settings::default()).unwrap();
        let scores = Scores { params, clusters: vec![vec![day]] };
        let all = scores.all();
        let found = [
            all.raw,
            all.filtered,
            all.covered_filtered,
            all.absolute,
            all.absolute_filtered,
            all.lost_to_range,
            all.bias(),
            all.mean_load,
            scores.evenings().raw,
            scores.of_days(|day| day == 0).raw,
        ];
        let of_load = |watts: f64| watts / 398.0;
        let expected = [0.3, 0.15, 0.5, of_load(80.0), of_load(70.0), of_load(20.0), of_load(-60.0), 199.0, 0.1, 0.3];
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found}, not {expected}: {all:?}");
        }
    }
}
