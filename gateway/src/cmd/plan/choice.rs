//! The numbers that a plan weighs against each other, and the parameters that follow from them.

use std::fmt;

use dream_protocol::params::{Params, ParamsError, Terms};
use dream_protocol::scheme::Scheme;

use super::PlanArgs;
use crate::board::day_epsilon;
use crate::cmd::BadInput;
use crate::config::decimal::Fraction;
use crate::config::with_privacy;

/// How many homes a plan assumes: as many as a feeder may have, and enough that the filtered load of a usual cluster is useful.
const HOMES: u16 = 300;

/// How many homes, how long a slot, how much privacy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) homes: u16,
    pub(super) slot_seconds: u64,
    pub(super) privacy: Privacy,
}

/// Which epsilon is chosen. The root mean square of the kind's day, which a meter has to be able to report, ties the two together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Privacy {
    /// That of an attempt; that of a day follows.
    Attempt(Fraction),
    /// That of a day, but for a probability of one in a million, in millionths; that of an attempt follows.
    Day(u64),
    /// Both, so that the root mean square follows.
    Both { attempt: Fraction, day: u64 },
}

impl fmt::Display for Choice {
    /// Writes it as the flags that make it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--homes {}", self.homes)?;
        match self.privacy {
            Privacy::Attempt(epsilon) => write!(f, " --epsilon {epsilon}")?,
            Privacy::Day(day) => write!(f, " --day-epsilon {}", Fraction::millionths(day))?,
            Privacy::Both { attempt, day } => {
                write!(f, " --epsilon {attempt} --day-epsilon {}", Fraction::millionths(day))?;
            }
        }
        write!(f, " --slot-seconds {}", self.slot_seconds)
    }
}

impl PlanArgs {
    /// Returns what the arguments say, with defaults for what they do not.
    pub(super) fn choice(&self) -> Choice {
        let usual = Fraction::from(self.kind.epsilon());
        let privacy = match (self.epsilon, self.day_epsilon) {
            (Some(attempt), None) => Privacy::Attempt(attempt),
            (Some(attempt), Some(day)) => Privacy::Both { attempt, day },
            // No day does not say how much noise there is.
            (None, Some(0)) => Privacy::Both { attempt: usual, day: 0 },
            (None, Some(day)) => Privacy::Day(day),
            (None, None) => Privacy::Attempt(usual),
        };
        let slot_seconds = self.slot_seconds.unwrap_or(Terms::DEFAULT.slot_seconds);
        Choice { homes: self.homes.unwrap_or(HOMES), slot_seconds, privacy }
    }

    /// Returns the parameters of such a cluster's lists, in the pairwise scheme.
    pub(super) fn params(&self, choice: &Choice) -> Result<Params, BadInput> {
        let terms = self.terms(choice)?;
        let least = self.meter_policy.floors().malicious;
        let [missing, malicious] = [self.max_missing, self.max_malicious].map(|share| share.share());
        let (missing, malicious) = missing.zip(malicious).expect("shares by `super::share`");
        let params = terms.for_members(choice.homes, missing, malicious, least);
        params.map_err(|error| BadInput(format!("{}: {error}", flags(&error))))
    }

    fn terms(&self, choice: &Choice) -> Result<Terms, BadInput> {
        let usual = Terms::with_slots_of(choice.slot_seconds);
        let (lo, hi) = self.range.unwrap_or_else(|| self.kind.range());
        let terms = Terms {
            reading_seconds: self.reading_seconds.unwrap_or(usual.reading_seconds),
            reveal_seconds: self.reveal_seconds.unwrap_or(usual.reveal_seconds),
            scheme: Scheme::Pairwise { partners: self.partners },
            lo,
            hi,
            attempts: self.attempts.unwrap_or(usual.attempts),
            ..usual
        };
        let (attempt, day) = match choice.privacy {
            Privacy::Attempt(attempt) => (Some(attempt), None),
            Privacy::Day(day) => (None, Some(day)),
            Privacy::Both { attempt, day } => (Some(attempt), Some(day)),
        };
        with_privacy(terms, self.kind, self.meter_policy, attempt, day).ok_or_else(|| {
            let (kind, slot) = (self.kind, terms.slot_seconds);
            BadInput(format!(
                "--day-epsilon: so small a day leaves less than a millionth of epsilon for a slot of {slot} s; use a larger one or longer \
                 slots, or see what the day of the kind `{kind}` takes by leaving it out"
            ))
        })
    }

    /// Returns the largest epsilon of a day that is of use and that meters accept, in millionths: beyond it no attempt may have
    /// a larger epsilon.
    pub(super) fn largest_day(&self, choice: &Choice) -> Result<u64, BadInput> {
        let policy = self.meter_policy.rules();
        let terms = self.terms(&Choice { privacy: Privacy::Attempt(Fraction::millionths(1)), ..*choice })?;
        let largest = Fraction::millionths(policy.largest_micro_epsilon(&terms));
        let terms = self.terms(&Choice { privacy: Privacy::Attempt(largest), ..*choice })?;
        Ok(micro_epsilon_of_day(terms.day_micro_rho.min(policy.day_micro_rho)))
    }
}

/// Returns the epsilon of a rho, both in millionths and but for a probability of one in a million, rounded down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and little more than rho")]
pub(super) fn micro_epsilon_of_day(micro_rho: u64) -> u64 {
    (1e6 * day_epsilon::of_micro_rho(micro_rho)) as u64
}

/// Returns the flags that a refusal is about.
fn flags(error: &ParamsError) -> &'static str {
    match error {
        ParamsError::Members { .. } => "--homes",
        ParamsError::TooManyMissing { .. } => "--max-missing",
        ParamsError::TooFewMalicious { .. } => "--max-malicious",
        ParamsError::NoneHonest { .. } => "--homes, --max-missing, --max-malicious, --meter-policy",
        ParamsError::Range { .. } => "--range",
        ParamsError::Epsilon { .. } => "--epsilon",
        ParamsError::DayRho { .. } => "--day-epsilon, --slot-seconds",
        ParamsError::DayScale => "--range, --epsilon",
        ParamsError::Windows { .. } => "--slot-seconds, --reading-seconds, --reveal-seconds, --attempts",
        ParamsError::TooLarge { .. } => "--range, --epsilon, --day-epsilon",
        ParamsError::TooFewPartners { .. } | ParamsError::TooLargeForPartners { .. } => "--partners",
        ParamsError::Committee(_) => "--homes, --max-missing, --max-malicious, --scheme",
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parsed, refused};
    use super::*;
    use dream_edge::HomeKind;
    use dream_protocol::policy::Profile;

    fn planned(arguments: &str) -> Params {
        let args = parsed(arguments);
        args.params(&args.choice()).unwrap()
    }

    #[test]
    fn the_epsilon_of_a_day_is_kept_and_the_kinds_day_fits_into_it() {
        for kind in HomeKind::ALL {
            for (day, rho) in [("0.01", 4), ("0.7", 12_493), ("4", 311_064), ("11", 1_807_000)] {
                for slot in [60, 600, 900, 3600] {
                    let params = planned(&format!("--kind {kind} --day-epsilon {day} --slot-seconds {slot}"));
                    let (terms, told) = (params.terms(), params.day_rms_watts().unwrap());
                    assert!(terms.day_micro_rho.abs_diff(rho) <= rho / 1000 + 1, "{day}: {}", terms.day_micro_rho);
                    assert!(told >= kind.rms_watts(), "{kind} {day} {slot}: {told} W");
                    // The next larger decimal would not leave room for the day, unless meters refuse it.
                    let micro = params.charge_micro_epsilon() + 1;
                    let next = Terms { epsilon_numerator: micro, epsilon_denominator: 1_000_000, ..*terms };
                    let least = next.with_day_rms(kind.rms_watts()).day_micro_rho;
                    let largest = Profile::Strict.rules().largest_micro_epsilon(terms);
                    assert!(least > terms.day_micro_rho || micro > largest, "{kind} {day} {slot}");
                }
            }
        }
    }

    #[test]
    fn no_attempt_has_a_larger_epsilon_than_meters_accept() {
        let day = |arguments: &str| {
            let params = planned(arguments);
            (params.charge_micro_epsilon(), params.day_rms_watts())
        };
        assert_eq!(day("--day-epsilon 72"), (1_000_000, Some(3758)), "epsilon is at most 1");
        assert_eq!(day("--day-epsilon 100 --slot-seconds 300").0, 555_555, "the budget is 160 a day");
        assert_eq!(day("--day-epsilon 60 --range 0..1000 --slot-seconds 3600").0, 500_000, "2,000 W of noise at least");
        let community = "--homes 30 --meter-policy community --day-epsilon 99.999999";
        assert_eq!(day(community).0, 1_111_110, "160 / 144 in five places: the numerator is below a million");
    }

    #[test]
    fn if_both_epsilons_are_given_the_root_mean_square_follows() {
        let found = |arguments: &str| {
            let params = planned(arguments);
            (params.charge_micro_epsilon(), params.terms().day_micro_rho, params.day_rms_watts())
        };
        assert_eq!(found("--epsilon 1 --day-epsilon 4"), (1_000_000, 311_064, Some(371)));
        assert_eq!(found("--day-epsilon 0"), (500_000, 0, None));
        assert_eq!(found("--epsilon 0.25"), (250_000, 430_665, Some(1750)));
        assert_eq!(found(""), (500_000, 1_722_657, Some(1750)));
    }

    #[test]
    fn a_day_that_leaves_nothing_for_a_slot_is_refused_as_such() {
        let told = refused("--day-epsilon 0.000001 --slot-seconds 60 --range 0..1");
        assert!(told.starts_with("--day-epsilon: so small a day"), "{told}");
        let told = refused("--day-epsilon 4 --range 0..0");
        assert!(told.starts_with("--range:"), "{told}");
    }
}
