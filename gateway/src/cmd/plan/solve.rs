//! Finds the one number that is left open so that sums err by no more than was asked for.
//!
//! Each of the three makes errors smaller as it grows, but for the rounding of shares to whole members: so that halving an interval
//! finds the least that is enough.

use dream_protocol::params::{MAX_MEMBERS, MAX_PARTIAL_MEMBERS};
use serde::Serialize;

use super::PlanArgs;
use super::choice::{Choice, Privacy};
use super::error::Deviation;
use super::numbers::{Grouped, Length};
use crate::cmd::BadInput;
use crate::config::decimal::Fraction;

/// The lengths of slots that are thought of, in minutes: parts of an hour, and hours that divide a day.
const SLOT_MINUTES: [u64; 18] = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440];

/// What is left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Free {
    Homes,
    DayEpsilon,
    SlotSeconds,
}

impl PlanArgs {
    /// Returns the choice to plan with; if an error was asked for, also what was found for it.
    pub(super) fn solved(&self) -> Result<(Choice, Option<Free>), BadInput> {
        let given = self.choice();
        let Some(error) = self.error else { return Ok((given, None)) };
        let free = self.free()?;
        match self.solve(free, &given, error)? {
            Ok(choice) => Ok((choice, Some(free))),
            Err(nearest) => Err(self.unsolved(free, &given, &nearest, error)),
        }
    }

    /// Returns what is to be found: the first that is not given of the homes, the day's epsilon and the length of slots.
    fn free(&self) -> Result<Free, BadInput> {
        match (self.homes, self.day_epsilon, self.epsilon, self.slot_seconds) {
            (None, ..) => Ok(Free::Homes),
            (Some(_), None, None, _) => Ok(Free::DayEpsilon),
            (Some(_), Some(day), None, None) if day > 0 => Ok(Free::SlotSeconds),
            (Some(_), _, Some(_), _) => Err(nothing_free("--homes or --epsilon")),
            (Some(_), Some(0), None, _) => Err(nothing_free("--homes or --day-epsilon")),
            (Some(_), Some(_), None, _) => Err(nothing_free("--homes, --day-epsilon or --slot-seconds")),
        }
    }

    /// Returns the choice with the least value of what is free that is enough, or else with the one that comes nearest.
    fn solve(&self, free: Free, given: &Choice, error: f64) -> Result<Result<Choice, Choice>, BadInput> {
        let most = self.most(free, given)?;
        let floors = self.meter_policy.floors();
        let enough = |count: u64| {
            let params = self.params(&free.set(given, count));
            // Fewer homes than meters accept would be no answer.
            let params = params.ok().filter(|params| free != Free::Homes || floors.allow(params));
            params.is_some_and(|params| Deviation::mean_percent(&params, self.mean_watts(&params)) <= error)
        };
        // If something else is wrong, that is what has to be said.
        self.params(&free.set(given, most))?;
        if !enough(most) {
            return Ok(Err(free.set(given, most)));
        }
        let (mut too_little, mut found) = (0, most);
        while found - too_little > 1 {
            let middle = too_little + (found - too_little) / 2;
            if enough(middle) { found = middle } else { too_little = middle }
        }
        let shown = if free == Free::DayEpsilon { three_digits(found).min(most) } else { found };
        Ok(Ok(free.set(given, shown)))
    }

    /// Returns the greatest value of what is free.
    fn most(&self, free: Free, given: &Choice) -> Result<u64, BadInput> {
        match free {
            Free::Homes if self.partners > 0 => Ok(MAX_PARTIAL_MEMBERS.into()),
            Free::Homes => Ok(MAX_MEMBERS as u64),
            Free::DayEpsilon => self.largest_day(given),
            Free::SlotSeconds => Ok(SLOT_MINUTES.len() as u64),
        }
    }

    /// Says that nothing is enough, what comes nearest, and what else would do.
    fn unsolved(&self, free: Free, given: &Choice, nearest: &Choice, error: f64) -> BadInput {
        let least = self.params(nearest).map(|params| Deviation::mean_percent(&params, self.mean_watts(&params)));
        let least = least.map_or_else(|_| String::new(), |least| format!("{:.2}", (100.0 * least).ceil() / 100.0));
        // Slots of a day come nearest, and nobody wants them: what else would work is shown for usual ones.
        let from = if free == Free::SlotSeconds { given } else { nearest };
        let others = [Free::Homes, Free::DayEpsilon, Free::SlotSeconds].into_iter();
        let others = others.filter(|other| *other != free && self.is_free_to(*other, from));
        let ways = others.filter_map(|other| self.solve(other, from, error).ok()?.ok());
        let ways: String = ways.map(|choice| format!("\n  {choice}")).collect();
        let ways = if ways.is_empty() { ways } else { format!("\nWhat would work:{ways}") };
        let open = match free {
            Free::Homes => "with any number of homes that a list may have",
            Free::DayEpsilon => "with any epsilon of a day that such meters accept",
            Free::SlotSeconds => "with any length of slots",
        };
        BadInput(format!(
            "--error {error}: it cannot be reached {open}.\nThe closest, with {least} %:\n  {nearest}{ways}"
        ))
    }

    /// Returns whether another value of this would be heard: the length of slots matters only if the day's epsilon is fixed, and that only if the attempt's is not.
    fn is_free_to(&self, free: Free, from: &Choice) -> bool {
        match free {
            Free::Homes => true,
            Free::DayEpsilon => self.epsilon.is_none() && self.day_epsilon != Some(0),
            Free::SlotSeconds => matches!(from.privacy, Privacy::Day(_)),
        }
    }
}

fn nothing_free(flags: &str) -> BadInput {
    BadInput(format!("--error: nothing is left to solve for: leave out {flags}, or leave out --error to compute it"))
}

impl Free {
    /// Returns the choice with this value; of slots it is the position of their length, from 1 on.
    fn set(self, given: &Choice, count: u64) -> Choice {
        match self {
            Self::Homes => Choice { homes: u16::try_from(count).unwrap_or(u16::MAX), ..*given },
            Self::DayEpsilon => Choice { privacy: Privacy::Day(count), ..*given },
            Self::SlotSeconds => {
                let at = usize::try_from(count).unwrap_or(usize::MAX).clamp(1, SLOT_MINUTES.len());
                Choice { slot_seconds: 60 * SLOT_MINUTES[at - 1], ..*given }
            }
        }
    }
}

/// Returns what was found for an error that was asked for, in words.
pub(super) fn told(free: Free, choice: &Choice, error: f64) -> String {
    let takes = match (free, choice.privacy) {
        (Free::DayEpsilon, Privacy::Day(day)) => format!("an epsilon of {} a day", Fraction::millionths(day)),
        (Free::Homes | Free::DayEpsilon, _) => format!("{} homes", Grouped(choice.homes.into())),
        (Free::SlotSeconds, _) => format!("slots of {}", Length(choice.slot_seconds)),
    };
    format!("An error of {error} % takes {takes}.")
}

/// Rounds up to three digits that count.
fn three_digits(count: u64) -> u64 {
    let unit = 10u64.pow(count.checked_ilog10().unwrap_or(0).saturating_sub(2));
    count.div_ceil(unit) * unit
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parsed, refused};
    use super::*;
    use dream_protocol::noise::{DAY_DELTA, rho_of_epsilon};

    fn found(arguments: &str) -> (Choice, Option<Free>) {
        parsed(arguments).solved().unwrap()
    }

    fn error_of(arguments: &str, choice: &Choice) -> f64 {
        let args = parsed(arguments);
        let params = args.params(choice).unwrap();
        Deviation::mean_percent(&params, args.mean_watts(&params))
    }

    #[test]
    fn the_least_that_is_enough_is_found_for_each_of_the_three() {
        for error in ["12", "5", "3", "1.1"] {
            let asked: f64 = error.parse().unwrap();
            let homes = format!("--error {error} --day-epsilon 11");
            let (choice, free) = found(&homes);
            let fewer = Choice { homes: choice.homes - 1, ..choice };
            assert_eq!(free, Some(Free::Homes));
            assert!(error_of(&homes, &choice) <= asked && error_of(&homes, &fewer) > asked, "{homes}: {choice:?}");

            let day = format!("--error {error} --homes 5000");
            let (choice, free) = found(&day);
            let Privacy::Day(micro) = choice.privacy else { panic!("{choice:?}") };
            let less = Choice { privacy: Privacy::Day(micro - micro / 90), ..choice };
            assert_eq!(free, Some(Free::DayEpsilon));
            assert!(error_of(&day, &choice) <= asked && error_of(&day, &less) > asked, "{day}: {choice:?}");

            let slot = format!("--error {error} --homes 3000 --day-epsilon 2");
            let (choice, free) = found(&slot);
            let at = SLOT_MINUTES.iter().position(|minutes| 60 * minutes == choice.slot_seconds).unwrap();
            let shorter = Choice { slot_seconds: 60 * SLOT_MINUTES[at - 1], ..choice };
            assert_eq!(free, Some(Free::SlotSeconds));
            assert!(error_of(&slot, &choice) <= asked && error_of(&slot, &shorter) > asked, "{slot}: {choice:?}");
        }
    }

    #[test]
    fn what_was_found_solves_for_the_others_too() {
        // Errors are in proportion to 1 / homes and to 1 over the root of rho, until meters accept no larger epsilon.
        let (choice, _) = found("--error 3 --day-epsilon 4");
        let (day, _) = found(&format!("--error 3 --homes {}", choice.homes));
        let (slot, _) = found(&format!("--error 3 --homes {} --day-epsilon 4", choice.homes));
        let Privacy::Day(micro) = day.privacy else { panic!("{day:?}") };
        assert!((3_980_000..=4_010_000).contains(&micro), "{day:?}");
        assert_eq!(slot.slot_seconds, 600);
        let (fewer, _) = found("--error 3 --day-epsilon 8");
        let ratio = f64::from(choice.homes) / f64::from(fewer.homes);
        let rhos = rho_of_epsilon(8.0, DAY_DELTA) / rho_of_epsilon(4.0, DAY_DELTA);
        assert!((ratio / rhos.sqrt() - 1.0).abs() < 0.01, "{choice:?} {fewer:?}");
    }

    #[test]
    fn no_fewer_homes_are_found_than_meters_accept() {
        assert_eq!(found("--error 100").0.homes, 50);
        assert_eq!(found("--error 100 --meter-policy community --epsilon 1").0.homes, 23);
        assert_eq!(
            found("--error 100 --max-missing 0.2 --max-malicious 0.5 --epsilon 1").0.homes,
            66,
            "20 honest ones"
        );
    }

    #[test]
    fn without_an_error_everything_is_as_given() {
        let (choice, free) = found("--day-epsilon 4");
        assert_eq!((choice.homes, choice.slot_seconds, choice.privacy), (300, 600, Privacy::Day(4_000_000)));
        assert_eq!(free, None);
    }

    #[test]
    fn what_cannot_be_reached_is_told_with_what_comes_nearest_and_what_would_do() {
        for (asked, ways) in [
            ("--error 0.5 --day-epsilon 4", 2),
            ("--error 1 --homes 600", 1),
            ("--error 1 --homes 600 --day-epsilon 10", 1),
            ("--error 0.001", 0),
            ("--error 0.5 --epsilon 0.1 --kind pv", 0),
        ] {
            let told = refused(asked);
            let error: f64 = asked.split(' ').nth(1).unwrap().parse().unwrap();
            let kind = if asked.contains("pv") { " --kind pv" } else { "" };
            let mut errors = told.lines().filter_map(|line| line.strip_prefix("  ")).map(|flags| {
                let flags = format!("{flags}{kind}");
                error_of(&flags, &parsed(&flags).choice())
            });
            let nearest = errors.next().unwrap();
            assert!(nearest > error && told.contains(&format!("{:.2} %", (100.0 * nearest).ceil() / 100.0)), "{told}");
            let others: Vec<f64> = errors.collect();
            assert!(others.len() == ways && others.iter().all(|other| *other <= error), "{asked}: {told}: {others:?}");
        }
    }

    #[test]
    fn it_is_told_when_nothing_is_left_to_be_found() {
        for asked in
            ["--homes 600 --day-epsilon 4 --slot-seconds 600", "--homes 600 --epsilon 1", "--homes 600 --day-epsilon 0"]
        {
            let told = refused(&format!("--error 3 {asked}"));
            assert!(told.starts_with("--error: ") && told.contains("leave out"), "{told}");
        }
        assert_eq!(found("--error 5 --epsilon 0.5").1, Some(Free::Homes));
    }
}
