//! The numbers that a plan weighs against each other, and the parameters that follow from them.

use std::fmt;

use dream_protocol::params::{MAX_EPSILON_PART, Params, ParamsError, Terms};
use dream_protocol::scheme::Scheme;

use super::PlanArgs;
use crate::cmd::BadInput;
use crate::config::decimal::Fraction;

/// How many homes, how long a slot, how much privacy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) homes: u16,
    pub(super) slot_seconds: u64,
    pub(super) privacy: Privacy,
}

/// Which epsilon is chosen. The energy of the kind's day, which a meter has to be able to tell, ties the two together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Privacy {
    /// That of an attempt; that of a day follows.
    Attempt(Fraction),
    /// That of a day, E, in millionths; that of an attempt follows.
    Day(u64),
    /// Both, so that the energy of a day follows.
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
        let one = Fraction { numerator: 1, denominator: 1 };
        let privacy = match (self.epsilon, self.day_epsilon) {
            (Some(attempt), None) => Privacy::Attempt(attempt),
            (Some(attempt), Some(day)) => Privacy::Both { attempt, day },
            // No E does not say how much noise there is.
            (None, Some(0)) => Privacy::Both { attempt: one, day: 0 },
            (None, Some(day)) => Privacy::Day(day),
            (None, None) => Privacy::Attempt(one),
        };
        let slot_seconds = self.slot_seconds.unwrap_or(Terms::DEFAULT.slot_seconds);
        Choice { homes: self.homes.unwrap_or(100), slot_seconds, privacy }
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
        Ok(match choice.privacy {
            Privacy::Attempt(epsilon) => self.with_day(with_epsilon(terms, epsilon)),
            Privacy::Day(day) => {
                Terms { day_micro_epsilon: day, ..with_epsilon(terms, self.epsilon_of_day(&terms, day)?) }
            }
            Privacy::Both { attempt, day } => Terms { day_micro_epsilon: day, ..with_epsilon(terms, attempt) },
        })
    }

    /// Returns the terms with the E that the energy of the kind's day takes.
    fn with_day(&self, terms: Terms) -> Terms {
        terms.with_day_watt_hours(self.kind.day_watt_hours())
    }

    /// Returns the largest epsilon of an attempt under which the energy of the kind's day fits into E, and no more than meters accept: a
    /// decimal that a configuration may have. It is rounded down, so that the noise is never too small.
    fn epsilon_of_day(&self, terms: &Terms, day: u64) -> Result<Fraction, BadInput> {
        let [day, width, slot] = [day, terms.hi.abs_diff(terms.lo), terms.slot_seconds].map(u128::from);
        let energy = u128::from(self.kind.day_watt_hours());
        // E/2 * (D / epsilon) * slot hours = energy
        let fitting = day * width * slot / (7200 * energy);
        let micro = u64::try_from(fitting).unwrap_or(u64::MAX).min(self.largest_micro_epsilon(terms));
        // A range without width is refused as such.
        if micro == 0 && width > 0 {
            let kind = self.kind;
            return Err(BadInput(format!(
                "--day-epsilon: so small a day leaves less than a millionth of epsilon for a slot of {slot} s; use a larger one or longer \
                 slots, or see what the day of the kind `{kind}` takes by leaving it out"
            )));
        }
        // A numerator of more than a million needs fewer places.
        let unit = std::iter::successors(Some(1u64), |unit| unit.checked_mul(10));
        let unit = unit.into_iter().find(|unit| micro / unit <= MAX_EPSILON_PART).unwrap_or(1);
        Ok(Fraction::millionths((micro - micro % unit).max(1)))
    }

    /// Returns the largest epsilon of an attempt that meters accept in every slot of a day, in millionths.
    fn largest_micro_epsilon(&self, terms: &Terms) -> u64 {
        let policy = self.meter_policy.rules();
        let (numerator, denominator) = policy.max_epsilon;
        let of_budget = policy.daily_micro_epsilon / 86_400u64.div_ceil(terms.slot_seconds);
        let width = terms.hi.abs_diff(terms.lo).saturating_mul(1_000_000);
        let of_noise = width.checked_div(policy.min_noise_watts).unwrap_or(u64::MAX);
        (1_000_000 * numerator / denominator).min(of_budget).min(of_noise)
    }

    /// Returns the largest E that is of use and that meters accept, in millionths: beyond it no attempt may have a larger epsilon.
    pub(super) fn largest_day(&self, choice: &Choice) -> Result<u64, BadInput> {
        let most = self.meter_policy.rules().day_micro_epsilon;
        let terms = self.terms(&Choice { privacy: Privacy::Attempt(Fraction::millionths(1)), ..*choice })?;
        let largest = Fraction::millionths(self.largest_micro_epsilon(&terms));
        Ok(self.with_day(with_epsilon(terms, largest)).day_micro_epsilon.min(most))
    }
}

const fn with_epsilon(terms: Terms, epsilon: Fraction) -> Terms {
    Terms { epsilon_numerator: epsilon.numerator, epsilon_denominator: epsilon.denominator, ..terms }
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
        ParamsError::DayEpsilon { .. } => "--day-epsilon, --slot-seconds",
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

    fn planned(arguments: &str) -> Params {
        let args = parsed(arguments);
        args.params(&args.choice()).unwrap()
    }

    #[test]
    fn the_epsilon_of_a_day_is_kept_and_the_kinds_energy_fits_into_it() {
        for kind in HomeKind::ALL {
            for day in ["0.01", "0.7", "4", "13.37", "29"] {
                for slot in [60, 600, 900, 3600] {
                    let params = planned(&format!("--kind {kind} --day-epsilon {day} --slot-seconds {slot}"));
                    let (terms, told) = (params.terms(), params.day_watt_hours().unwrap());
                    assert_eq!(Fraction::millionths(terms.day_micro_epsilon).to_string(), day);
                    assert!(told >= kind.day_watt_hours(), "{kind} {day} {slot}: {told} Wh");
                    // The next larger decimal would not leave room for the energy, unless meters refuse it.
                    let micro = params.charge_micro_epsilon() + 1;
                    let next =
                        with_epsilon(*terms, Fraction::millionths(micro)).with_day_watt_hours(kind.day_watt_hours());
                    assert!(
                        next.day_micro_epsilon >= terms.day_micro_epsilon || micro > 1_000_000,
                        "{kind} {day} {slot}"
                    );
                }
            }
        }
        assert_eq!(planned("--homes 10000 --day-epsilon 4").charge_micro_epsilon(), 55_555);
    }

    #[test]
    fn no_attempt_has_a_larger_epsilon_than_meters_accept() {
        let energy = |arguments: &str| {
            let params = planned(arguments);
            (params.charge_micro_epsilon(), params.day_watt_hours())
        };
        assert_eq!(energy("--day-epsilon 72"), (1_000_000, Some(30_000)));
        assert_eq!(energy("--day-epsilon 100"), (1_000_000, Some(41_666)), "epsilon is at most 1");
        assert_eq!(energy("--day-epsilon 100 --slot-seconds 300").0, 555_555, "the budget is 160 a day");
        assert_eq!(energy("--day-epsilon 9 --range 0..1000 --slot-seconds 3600").0, 150_000);
        assert_eq!(
            energy("--day-epsilon 60 --range 0..1000 --slot-seconds 3600").0,
            500_000,
            "2,000 W of noise at least"
        );
        let community = "--homes 30 --meter-policy community --day-epsilon 99.999999";
        assert_eq!(energy(community).0, 1_111_110, "160 / 144 in five places: the numerator is below a million");
    }

    #[test]
    fn if_both_epsilons_are_given_the_energy_follows() {
        let both = planned("--epsilon 1 --day-epsilon 36");
        assert_eq!((both.charge_micro_epsilon(), both.day_watt_hours()), (1_000_000, Some(15_000)));
        let none = planned("--day-epsilon 0");
        assert_eq!((none.charge_micro_epsilon(), none.day_watt_hours()), (1_000_000, None));
        let usual = planned("--epsilon 0.5");
        assert_eq!((usual.terms().day_micro_epsilon, usual.day_watt_hours()), (36_000_000, Some(30_000)));
    }

    #[test]
    fn a_day_that_leaves_nothing_for_a_slot_is_refused_as_such() {
        let told = refused("--day-epsilon 0.000001 --slot-seconds 60");
        assert!(told.starts_with("--day-epsilon: so small a day"), "{told}");
        let told = refused("--day-epsilon 4 --range 0..0");
        assert!(told.starts_with("--range:"), "{told}");
    }
}
