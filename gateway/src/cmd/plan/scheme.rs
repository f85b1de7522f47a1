//! How sums are opened, how often that fails when messages are lost between the rounds, and what each scheme risks.

use dream_protocol::params::Params;
use dream_protocol::scheme::committee::{Committee, LEAST_SPARE};
use serde::Serialize;

use super::numbers::real;

/// The scheme of the lists, and how often it fails.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SchemePlan {
    pub(super) scheme: &'static str,
    pub(super) committee: Option<CommitteePlan>,
    /// Why there is no committee, if one was preferred.
    pub(super) no_committee: Option<String>,
    /// The share of members that are lost between the rounds.
    pub(super) loss: f64,
    /// The probability that the first attempt at a slot fails for it.
    pub(super) attempt_fails: f64,
    /// The probability that all attempts do, each with losses of its own.
    pub(super) slot_fails: f64,
    /// The probability that an attempt fails in the pairwise scheme.
    pub(super) pairwise_attempt_fails: f64,
}

/// The committee that such a cluster has on average.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CommitteePlan {
    /// How many members are willing to be holders.
    pub(super) willing: u16,
    /// k: how many are drawn on average if all are willing; 0 if every willing member is a holder.
    pub(super) drawn: u64,
    /// K.
    pub(super) holders: u64,
    /// Between which numbers K is in 99 of 100 lists: draws differ, and too small a committee is not formed.
    pub(super) holders_between: (u64, u64),
    /// q.
    pub(super) needed: u64,
    pub(super) may_vanish: u64,
    /// f: how many of the holders may collude.
    pub(super) colluding: u64,
}

impl SchemePlan {
    pub(super) fn new(params: &Params, willing: u16, loss: f64, no_committee: Option<String>) -> Self {
        let members = u64::from(params.members());
        let scheme = params.terms().scheme;
        let pairwise = fails_below(members, members, loss);
        let draws = scheme.committee().and_then(|committee| Draws::new(params, committee, willing));
        let (committee, attempt_fails) = draws.map_or((None, pairwise), |draws| {
            (Some(draws.committee_plan()), draws.mean(|holders, needed| fails_below(holders, needed, loss)))
        });
        Self {
            scheme: scheme.kind().as_str(),
            committee,
            no_committee,
            loss,
            attempt_fails,
            // A committee waits for answers until the next slot ends: losses between the rounds cost no retry.
            slot_fails: if committee.is_some() { attempt_fails } else { attempt_fails.powi(params.attempts().into()) },
            pairwise_attempt_fails: pairwise,
        }
    }
}

/// Numbers of holders that are less probable than this are left out: they change nothing that is shown, and there are thousands.
const NEGLIGIBLE: f64 = 1e-60;

/// The committees that a draw may give: K varies, and q with it.
struct Draws {
    plan: CommitteePlan,
    /// How probable each number of holders is, for those of which a committee is formed.
    holders: Vec<(u64, f64)>,
}

impl Draws {
    fn new(params: &Params, committee: Committee, willing: u16) -> Option<Self> {
        let members = u64::from(params.members());
        let Committee { drawn, needed, holders } = committee;
        let colluding = Committee::colluding(drawn, members, params.max_malicious().into())?;
        let formed: Vec<(u64, f64)> = if drawn == 0 {
            vec![(holders, 1.0)]
        } else {
            let each = binomial(willing.into(), real(drawn) / real(members));
            let spare = |count: u64| count.saturating_sub(Committee::needed_of(count, colluding));
            let counts = (0u64..).zip(each).filter(|(_, probability)| *probability > NEGLIGIBLE);
            counts.filter(|(count, _)| spare(*count) >= LEAST_SPARE).collect()
        };
        let all: f64 = formed.iter().map(|(_, probability)| probability).sum();
        let holders_between = (quantile(&formed, 0.005 * all)?, quantile(&formed, 0.995 * all)?);
        let may_vanish = committee.spare();
        let plan = CommitteePlan { willing, drawn, holders, holders_between, needed, may_vanish, colluding };
        Some(Self { plan, holders: formed })
    }

    const fn committee_plan(&self) -> CommitteePlan {
        self.plan
    }

    /// Returns the mean over the draws of something that follows from K and q.
    fn mean(&self, of: impl Fn(u64, u64) -> f64) -> f64 {
        let all: f64 = self.holders.iter().map(|(_, probability)| probability).sum();
        let needed = |holders| match self.plan.drawn {
            0 => self.plan.needed,
            _ => Committee::needed_of(holders, self.plan.colluding),
        };
        self.holders.iter().map(|&(holders, share)| share * of(holders, needed(holders))).sum::<f64>() / all
    }
}

/// Returns the least number up to which the probabilities add up to more than this.
fn quantile(of: &[(u64, f64)], share: f64) -> Option<u64> {
    let mut sum = 0.0;
    of.iter()
        .find(|(_, probability)| {
            sum += probability;
            sum > share
        })
        .or_else(|| of.last())
        .map(|(count, _)| *count)
}

/// Returns the probability that fewer than `needed` of so many answer, each of whom is lost with this probability.
pub(super) fn fails_below(holders: u64, needed: u64, loss: f64) -> f64 {
    let lost = binomial(holders, loss);
    let most = usize::try_from(holders - needed.min(holders)).unwrap_or(usize::MAX);
    // Added up from the smallest, so that small probabilities are exact too.
    lost.iter().skip(most.saturating_add(1)).rev().sum::<f64>().min(1.0)
}

/// Returns the probabilities of 0 to n of n, each with probability p. In logarithms: the powers are too small for numbers.
fn binomial(n: u64, p: f64) -> Vec<f64> {
    if p <= 0.0 {
        return std::iter::once(1.0).chain((0..n).map(|_| 0.0)).collect();
    }
    let (p, rest) = (p.ln(), (-p.min(1.0 - f64::EPSILON)).ln_1p());
    let mut choices = 0.0;
    (0..=n)
        .map(|k| {
            if k > 0 {
                choices += (real(n - k + 1) / real(k)).ln();
            }
            (choices + real(k) * p + real(n - k) * rest).exp()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn everybody_must_answer_in_pairs_and_a_part_of_the_holders_in_a_committee() {
        near(fails_below(100, 100, 0.01), 1.0 - 0.99f64.powi(100));
        near(fails_below(3, 2, 0.1), 3.0 * 0.01 * 0.9 + 0.001);
        near(fails_below(2, 1, 0.5), 0.25);
        assert!(fails_below(10, 10, 0.0) <= 0.0 && fails_below(10, 0, 0.5) <= 0.0);
        near(fails_below(10_000, 10_000, 0.05), 1.0);
    }

    #[test]
    fn probabilities_add_up() {
        for (n, p) in [(7, 0.3), (256, 0.05), (10_000, 0.016)] {
            near(binomial(n, p).iter().sum(), 1.0);
        }
    }
}
