//! Terms that suit the number of homes. Noise grows with the root mean square that a day's account holds, what is cut off falls with it,
//! and only the noise shrinks with the homes: the best of both depends on how many there are.

use dream_edge::cut_off::CutOffTable;
use dream_protocol::noise::{DAY_DELTA, epsilon_of_rho};
use dream_protocol::params::{Params, Terms};
use serde::Serialize;

use super::PlanArgs;
use super::error::Energy;
use super::numbers::{Grouped, Percent};
use crate::config::decimal::Fraction;

/// Which part of what is cut off homes may have more or less of than the simulated ones, when terms are compared: what is estimated is
/// worth less than what is measured.
const UNLIKE: f64 = 0.3;

/// Worth a change of the configuration.
const WORTH: f64 = 0.9;

/// Better terms at the same privacy of a day.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Suited {
    pub(super) range_watts: (i64, i64),
    pub(super) rms_watts: u64,
    pub(super) micro_epsilon_per_attempt: u64,
    pub(super) day_micro_epsilon: u64,
    /// How far the energy of a day may be off, also where homes are unlike the simulated ones; and under the terms of the plan.
    pub(super) day_percent: f64,
    pub(super) day_percent_as_planned: f64,
}

impl PlanArgs {
    /// Returns the best terms that the table of what is cut off has for the kind, if they are much better than those of the plan, and if
    /// nothing else was asked for.
    pub(super) fn suited(&self, params: &Params, mean_load_watts: u64) -> Option<Suited> {
        let rho = params.terms().day_micro_rho;
        if self.range.is_some() || self.epsilon.is_some() || rho == 0 {
            return None;
        }
        let off = |params: &Params| {
            let cut_off = self.cut_off(params)?;
            let (share, ..) = cut_off.of_a_year(params.members());
            let known = Energy::new(params, mean_load_watts, 1, Some(cut_off)).band95_percent;
            Some(known.hypot(196.0 * UNLIKE * share))
        };
        let day_percent_as_planned = off(params)?;
        let policy = self.meter_policy.rules();
        let table = CutOffTable::shipped();
        let fitting = table.terms(self.kind).filter_map(|(range_watts, rms)| {
            let terms = Terms { lo: range_watts.0, hi: range_watts.1, ..*params.terms() };
            let terms = terms.with_day_rho(rho, rms, policy.largest_micro_epsilon(&terms))?;
            let params = Params::new(params.members().into(), terms).ok()?;
            Some(Suited {
                range_watts,
                rms_watts: params.day_rms_watts()?,
                micro_epsilon_per_attempt: params.charge_micro_epsilon(),
                day_micro_epsilon: micro_epsilon(rho),
                day_percent: off(&params)?,
                day_percent_as_planned,
            })
        });
        let best = fitting.min_by(|one, other| one.day_percent.total_cmp(&other.day_percent))?;
        (best.day_percent < WORTH * day_percent_as_planned).then_some(best)
    }
}

/// Returns the epsilon of a day, in millionths, rounded up.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands at most, above 0")]
fn micro_epsilon(micro_rho: u64) -> u64 {
    (1e6 * epsilon_of_rho(micro_rho as f64 / 1e6, DAY_DELTA)).ceil() as u64
}

impl Suited {
    pub(super) fn told(&self) -> String {
        let (lo, hi) = self.range_watts;
        let [epsilon, day] = [self.micro_epsilon_per_attempt, self.day_micro_epsilon].map(Fraction::millionths);
        format!(
            "Terms that suit so many homes better: range_watts = [{lo}, {hi}], epsilon = {epsilon}, day_epsilon = {day}. A day costs as \
             much, its account holds a root mean square of {} W, and its energy is within {} instead of {}, also where homes cut off a \
             third more or less than simulated ones.",
            Grouped(self.rms_watts),
            Percent(self.day_percent),
            Percent(self.day_percent_as_planned)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::parsed;
    use super::*;

    fn suited(arguments: &str) -> Option<Suited> {
        let args = parsed(arguments);
        let params = args.params(&args.choice()).unwrap();
        args.suited(&params, args.mean_watts(&params))
    }

    #[test]
    fn few_homes_want_less_noise_and_many_want_less_cut_off() {
        let rms = |homes: u16| suited(&format!("--homes {homes} --day-epsilon 4")).map(|suited| suited.rms_watts);
        let [few, many] = [rms(60), rms(10_000)].map(|rms| rms.expect("better than those of some hundred homes"));
        assert!(few < 1700 && many > 2000, "{few} {many}");
        assert!(suited("--homes 10000 --day-epsilon 4 --range 0..8000").is_none(), "a range was asked for");
    }

    #[test]
    fn suited_terms_cost_a_day_the_same_and_meters_accept_them() {
        for (homes, day) in [("--homes 60", ""), ("--homes 10000", "--day-epsilon 4"), ("--homes 2000 --kind flat", "")]
        {
            let found = suited(&format!("{homes} {day}")).unwrap();
            let [epsilon, day] = [found.micro_epsilon_per_attempt, found.day_micro_epsilon].map(Fraction::millionths);
            let (lo, hi) = found.range_watts;
            let again = parsed(&format!("{homes} --range {lo}..{hi} --epsilon {epsilon} --day-epsilon {day}"));
            let params = again.params(&again.choice()).unwrap();
            assert_eq!(again.meter_policy.rules().objections(&params).next(), None, "{homes}: {found:?}");
            let rms = params.day_rms_watts().unwrap();
            assert!(rms.abs_diff(found.rms_watts) <= rms / 100, "{homes}: {rms}, {found:?}");
        }
    }
}
