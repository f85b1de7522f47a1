//! A plan in three sentences that can be quoted: what the operator sees, what a home gives away, and what may fail.

use dream_protocol::params::Params;
use serde::Serialize;

use super::cost::{CERTIFICATE_BYTES, METER};
use super::error::{Deviation, Energy, MeasuredFilter, USEFUL_PERCENT, Verdict};
use super::homes::Homes;
use super::numbers::{Grouped, Length, Percent, Probability, Rounded, real};
use super::report::DailyEpsilon;
use super::scheme::{CommitteePlan, SchemePlan};
use super::suited::Suited;
use crate::board::day_epsilon;
use crate::config::decimal::Fraction;

/// An epsilon above which a day as a whole is not called hidden: who guesses between two days may be right in 99 of 100 cases.
const HIDES_NO_DAY: f64 = 5.0;

/// So little of the energy, in per cent, is not worth a word.
const NEXT_TO_NOTHING: f64 = 0.05;

/// The three sentences, and what they rest on.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Summary {
    /// What the operator sees.
    pub(super) accuracy: String,
    /// What a home gives away (`protocol.md 5a`).
    pub(super) privacy: String,
    /// What may fail.
    pub(super) robustness: String,
    pub(super) assumed: String,
}

/// What the sentences are about.
pub(super) struct Facts<'a> {
    pub(super) params: &'a Params,
    pub(super) homes: Homes,
    pub(super) mean_watts: u32,
    pub(super) slot: &'a Deviation,
    pub(super) day: &'a Energy,
    pub(super) suited: Option<&'a Suited>,
    pub(super) filter: Option<MeasuredFilter>,
    pub(super) verdict: Verdict,
    /// How much is cut off, in per cent, if it is known.
    pub(super) cut_off_percent: Option<f64>,
    pub(super) opening: &'a SchemePlan,
}

impl Facts<'_> {
    pub(super) fn summary(&self) -> Summary {
        Summary {
            accuracy: self.accuracy(),
            privacy: self.privacy(),
            robustness: self.robustness(),
            assumed: self.assumed(),
        }
    }

    /// Returns what else to know: what would make sums more useful, what the scheme risks, and whether budgets suffice.
    pub(super) fn notes(&self, daily: &DailyEpsilon) -> Vec<String> {
        let (params, mut notes) = (self.params, Vec::new());
        let [members, malicious] = [params.members(), params.max_malicious()].map(u32::from);
        if self.verdict != Verdict::Useful {
            let enough = f64::from(members) * self.slot.band95_percent / USEFUL_PERCENT;
            let possible = if enough <= 10_000.0 { "which costs no privacy" } else { "more than a list can have" };
            notes.push(format!(
                "For sums whose 95 % band is {USEFUL_PERCENT} %: about {} homes, {possible}; or longer slots; or a larger epsilon or a \
                 smaller range, at the cost of privacy or of clipped readings.",
                Rounded(enough)
            ));
        }
        notes.extend(self.suited.map(Suited::told));
        if members < 50 && 5 * malicious < members {
            notes.push("With fewer than 50 members, --max-malicious 0.2 or more is recommended.".to_owned());
        }
        notes.extend(self.opening.no_committee.iter().map(|reason| format!("No committee can be formed: {reason}.")));
        notes.push(match &self.opening.committee {
            Some(CommitteePlan { colluding, needed, .. }) => format!(
                "The scheme has a cliff: while at most {colluding} holders collude, nothing but whole sums opens; {needed} that collude or \
                 are stolen open every reading, including old ones that someone recorded."
            ),
            None => format!(
                "The scheme has no cliff: beyond {malicious} colluding members the noise gets thinner step by step, and a single reading \
                 opens only if nearly all others collude. Every meter that sent a reading must answer, or the attempt is lost."
            ),
        });
        let budget = Fraction::millionths(daily.budget_micro_epsilon);
        notes.push(if daily.micro_epsilon_all_attempts <= daily.budget_micro_epsilon {
            format!("A meter's budget of {budget} a day always suffices.")
        } else if let Some(retries) = daily.attempts_within_budget.checked_sub(daily.slots) {
            format!("A meter's budget of {budget} a day pays for {} retries.", Grouped(retries))
        } else {
            let silent = Grouped(daily.slots - daily.attempts_within_budget);
            format!(
                "WARNING: a meter's budget of {budget} a day is spent before the day is over: it would be silent for {silent} slots of \
                 every 24 hours. Use longer slots or a smaller epsilon."
            )
        });
        notes.push(format!(
            "Bytes are for ids of {} characters and certificates of {CERTIFICATE_BYTES} bytes, without TLS and TCP; AES blocks leave out key \
             schedules, HMAC and the random numbers of the noise.",
            METER.len()
        ));
        notes
    }

    fn accuracy(&self) -> String {
        let Self { params, homes, slot, day, .. } = self;
        let (count, length) = (Grouped(params.members().into()), Length(params.terms().slot_seconds));
        let [mean, band, energy] = [slot.mean_percent, slot.band95_percent, day.band95_percent].map(Percent);
        let cut_off = match self.cut_off_percent {
            Some(percent) if percent < NEXT_TO_NOTHING => String::new(),
            Some(percent) => format!("; about {percent} % of it is estimated, because very high readings are capped"),
            None => "; readings that are capped make totals lower still".to_owned(),
        };
        let filtered = self.filter.map(|MeasuredFilter { homes, filtered_percent, .. }| {
            format!(", after the gateway's filter by {filtered_percent} % or less on average (measured on {homes} simulated homes)")
        });
        let filtered = filtered.unwrap_or_default();
        format!(
            "The load of {count} {}, in slots of {length}, is off by {mean} of its mean on average and by no more than {band} in \
             95 of 100 slots{filtered}, and the energy of a day by no more than {energy} in 95 of 100 days{cut_off}.",
            homes.many
        )
    }

    fn privacy(&self) -> String {
        let params = self.params;
        let [colluding, members] = [params.max_malicious(), params.members()].map(|count| Grouped(count.into()));
        let who = format!("Even to an operator who works together with {colluding} of the {members} homes,");
        if day_epsilon::rho(params).is_none() {
            let epsilon = real(params.charge_micro_epsilon()) / 1e6;
            return format!(
                "{who} each sum changes the odds between any two readings of another home by at most a factor of {}, and nothing but \
                 their number bounds the sums of a day together: by a factor of {}, which hides no day as a whole.",
                factor(epsilon),
                factor(day_epsilon::pure(params, 1))
            );
        }
        let [day, month, year] = day_epsilon::PERIODS.map(|days| day_epsilon::at_delta(params, days));
        let whole = if day > HIDES_NO_DAY { ", which hides no day as a whole" } else { "" };
        format!(
            "{who} all sums of a UTC day change the odds between any two courses of another home's day by at most a factor of {}{whole}, \
             except with a probability of one in a million, and between using and not using one kilowatt-hour by at most {}, while \
             nothing of its readings is cut off: epsilon {} a day, {} in 30 days and {} in a year.",
            factor(day),
            change(epsilon_of_kilowatt_hour(params)),
            day_epsilon::shown(day),
            day_epsilon::shown(month),
            day_epsilon::shown(year)
        )
    }

    fn robustness(&self) -> String {
        let (params, opening) = (self.params, self.opening);
        let [silent, members] = [params.max_missing(), params.members()].map(|count| Grouped(count.into()));
        let (loss, lost) = (Probability(opening.loss), lost(opening.slot_fails));
        let how = match &opening.committee {
            Some(committee) => format!(
                "with {} homes willing to hold keys, of whom {} hold them and {} must answer",
                Grouped(committee.willing.into()),
                Grouped(committee.holders),
                Grouped(committee.needed)
            ),
            None if params.attempts() == 1 => "since all that sent one must answer".to_owned(),
            None => format!("since all that sent one must answer in one of {} attempts", params.attempts()),
        };
        format!(
            "Up to {silent} of the {members} homes may be silent in a slot, and if {loss} of those that sent a reading cannot be reached \
             afterwards, {lost}, {how}."
        )
    }

    fn assumed(&self) -> String {
        let Self { params, homes, mean_watts, .. } = self;
        let (terms, most) = (params.terms(), params.day_rms_watts());
        let load = if terms.lo < 0 { "draws or feeds in" } else { "draws" };
        let beyond = match most {
            Some(rms) => format!(" and what exceeds a root mean square of {} W over a day", Grouped(rms)),
            None => String::new(),
        };
        let whose = match self.cut_off_percent {
            Some(percent) if percent < NEXT_TO_NOTHING => format!(", next to nothing of simulated {}", homes.many),
            Some(percent) => format!(", {percent} % of the energy of simulated {}", homes.many),
            None => String::new(),
        };
        format!(
            "Assumed: a {} {load} {} W on average (--mean-load), and all of them answer. Readings outside {} to {} W{beyond} are cut \
             off{whose}: noise averages out over slots and days, this does not, so the gateway estimates it. docs/threat-model.md has the whole promise.",
            homes.one,
            Grouped((*mean_watts).into()),
            terms.lo,
            terms.hi
        )
    }
}

/// Returns what one kilowatt-hour costs, whenever it is used, and reported again in every retry.
pub(super) fn epsilon_of_kilowatt_hour(params: &Params) -> f64 {
    let slot_hours = real(params.terms().slot_seconds) / 3600.0;
    f64::from(params.attempts()) * 1000.0 / (params.noise_scale().as_f64() * slot_hours)
}

/// Writes by what factor an epsilon lets odds change.
fn factor(epsilon: f64) -> String {
    let shown = (1000.0 * epsilon).round() / 1000.0;
    match epsilon.exp() {
        value @ ..1e6 => format!("e^{shown} = {}", Rounded(value)),
        _ => format!("e^{shown}"),
    }
}

/// Writes a small change of odds in per cent, a large one as a factor.
fn change(epsilon: f64) -> String {
    if epsilon < 0.6 {
        Percent(100.0 * epsilon.exp_m1()).to_string()
    } else {
        format!("a factor of {}", factor(epsilon))
    }
}

/// Writes how many slots are lost.
fn lost(probability: f64) -> String {
    match probability {
        ..1e-9 => "fewer than one slot in a billion is lost".to_owned(),
        ..1e-4 => format!("about one slot in {} is lost", Grouped(in_how_many(probability))),
        _ => format!("{} of the slots are lost", Probability(probability)),
    }
}

/// Returns in how many one is, to two digits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 10^9, and above 0")]
fn in_how_many(probability: f64) -> u64 {
    let unit = 10f64.powf((1.0 / probability).log10().floor() - 1.0);
    ((1.0 / probability / unit).round() * unit) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_and_losses_are_told_in_a_way_that_suits_their_size() {
        assert_eq!([4.0, 0.0667, 7.0, 72.0].map(factor), ["e^4 = 54.6", "e^0.067 = 1.1", "e^7 = 1,097", "e^72"]);
        assert_eq!([0.0667, 1.2].map(change), ["6.9 %", "a factor of e^1.2 = 3.3"]);
        assert_eq!(
            [0.0, 3e-10, 0.0123].map(lost)[1..],
            ["fewer than one slot in a billion is lost", "1.2 % of the slots are lost"]
        );
        assert_eq!(lost(2.96e-6), "about one slot in 340,000 is lost");
    }
}
