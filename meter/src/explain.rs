//! What this home gives away, in its owner's words: `dream-meter explain`, and one sentence of it on the page.

use dream_edge::time::calendar;
use dream_protocol::noise::{DAY_DELTA, epsilon_of_rho, right_guesses};
use dream_protocol::time::Timestamp;

use crate::config::{ONE_AUTHORITY_MEANS, meaning};
use crate::shared::Shared;
use crate::standing::{ListTerms, Standing};
use crate::words;

const DAY_SECONDS: u64 = 86_400;

/// Says everything, each part with its heading.
pub fn text(standing: &Standing) -> String {
    let parts = [
        ("In one sentence", sentence(standing)),
        ("What leaves this home", leaves(standing)),
        ("A day", day(standing.list.as_ref())),
        ("So far", so_far(&standing.shared)),
        ("What your policy refuses", meaning(standing.profile).to_owned()),
        ("Who could break it", breakers(standing)),
        ("What is not hidden", OPEN.to_owned()),
    ];
    parts.into_iter().map(|(heading, words)| format!("{heading}: {words}\n")).collect()
}

/// What anyone at the gateway or the broker knows, whatever the noise.
const OPEN: &str = "that this home takes part, when it is silent, and when its messages come; and what your \
                    habits have in common with everybody's. docs/privacy.md says more";

/// Says in one sentence what a day gives away and how many there were.
pub fn sentence(standing: &Standing) -> String {
    let shared = &standing.shared;
    let so_far = match shared.days {
        0 => "nothing has been shared yet".to_owned(),
        1 => format!("1 day has been shared since {}", date(shared.since)),
        days => format!("{days} days have been shared since {}, and they add up", date(shared.since)),
    };
    let Some(list) = &standing.list else {
        return format!("this home shares nothing now, because no list names it; {so_far}");
    };
    let knows = "whoever sees all that the gateway sees, and knows everything else about this home,";
    match list.day_micro_rho {
        0 => {
            let (numerator, denominator) = list.epsilon;
            let guess = times(right_guesses(0.0, numerator as f64 / denominator as f64));
            format!(
                "{knows} tells two possible readings of {} apart {guess}, where a coin is right 50 times; nothing bounds a day; {so_far}",
                words::span(list.slot_seconds)
            )
        }
        micro => {
            let guess = times(right_guesses(micro as f64 / 1e6, 0.0));
            format!("{knows} tells a day at home from a day away {guess}, where a coin is right 50 times; {so_far}")
        }
    }
}

fn leaves(standing: &Standing) -> String {
    match &standing.list {
        None => {
            "its enrolment: the meter's name, certificate and a fresh key. No reading leaves before a list names it"
                .to_owned()
        }
        Some(list) => format!(
            "every {}, one number: the mean power with noise in it, masked so that only the sum over up to {} homes opens. \
             The sum is shown with all of the noise. Your reading itself never leaves",
            words::span(list.slot_seconds),
            list.members
        ),
    }
}

fn day(list: Option<&ListTerms>) -> String {
    match list.map(|list| (list, list.day_micro_rho)) {
        None => "no list is in force, so a day costs nothing".to_owned(),
        Some((_, 0)) => "the list in force bounds single readings and not the day: many readings together can show whether you were at home".to_owned(),
        Some((_, micro)) => {
            let rho = micro as f64 / 1e6;
            format!(
                "rho {rho:.2} at most, which is epsilon {:.1} but for a chance of one in a million; a guess between any two \
                 days of this home is right {}. What you do for an hour shows far less than a whole day away",
                epsilon_of_rho(rho, DAY_DELTA),
                times(right_guesses(rho, 0.0))
            )
        }
    }
}

fn so_far(shared: &Shared) -> String {
    let Shared { since, days, micro_rho, micro_epsilon } = *shared;
    if days == 0 {
        return "no reading was shared since these records began".to_owned();
    }
    let (rho, epsilon) = (micro_rho as f64 / 1e6, micro_epsilon as f64 / 1e6);
    let unbounded = match micro_epsilon {
        0 => String::new(),
        _ => format!(" and epsilon {epsilon:.1} under lists that bound no day"),
    };
    format!(
        "{days} {} since {} (UTC), together rho {rho:.2}{unbounded}: epsilon {:.1} in all, but for a chance of one in a \
         million. A guess between two lives that differ on all of these days is right {}: noise hides a day better than a habit",
        if days == 1 { "day" } else { "days" },
        date(since),
        epsilon_of_rho(rho, DAY_DELTA) + epsilon,
        times(right_guesses(rho, epsilon))
    )
}

fn breakers(standing: &Standing) -> String {
    let floor = standing.profile.floors();
    let colluders = standing.list.as_ref().map_or_else(|| floor.malicious.into(), |list| list.max_malicious);
    let (authority, alone) = match standing.one_authority {
        true => (format!("{ONE_AUTHORITY_MEANS}; "), "The broker and your neighbours alone"),
        false => (
            "the gateway's operator together with the authority that certifies meters, by inventing homes; ".to_owned(),
            "The operator alone, the broker and your neighbours",
        ),
    };
    format!(
        "{authority}the operator together with more than {colluders} of the other homes, step by step, or with most of the \
         homes that help to open sums, at once; whoever takes this machine, or copies its state directory; whoever measures \
         your line. {alone} cannot"
    )
}

/// Says how often a guess is right. Rounded up: never less than what holds.
fn times(right: f64) -> String {
    let hundredths = (100.0 * right).ceil();
    if hundredths < 100.0 { format!("at most {hundredths:.0} times in 100") } else { "nearly always".to_owned() }
}

fn date(day: u64) -> String {
    calendar(Timestamp::from_secs(day.saturating_mul(DAY_SECONDS))).strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use dream_protocol::params::Terms;
    use dream_protocol::policy::Profile;

    use super::*;
    use crate::words::tests::ordinary;

    fn by_default() -> Standing {
        let list = ordinary().list.map(|list| ListTerms {
            members: 300,
            max_malicious: 30,
            epsilon: (1, 2),
            day_micro_rho: Terms::DEFAULT.day_micro_rho,
            ..list
        });
        Standing { profile: Profile::Strict, list, ..ordinary() }
    }

    #[test]
    fn an_owner_is_told_what_a_home_gives_away() {
        let cases = [
            by_default(),
            ordinary(),
            Standing { one_authority: true, list: None, shared: Shared::default(), ..ordinary() },
            Standing { shared: Shared { days: 1, micro_rho: 0, ..ordinary().shared }, ..by_default() },
        ];
        insta::assert_snapshot!(cases.iter().map(text).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn a_smaller_bound_of_a_day_is_said_to_hide_more() {
        let told = |day_micro_rho| {
            let list = by_default().list.map(|list| ListTerms { day_micro_rho, ..list });
            sentence(&Standing { list, ..by_default() })
        };
        assert!(told(Terms::DEFAULT.day_micro_rho).contains("at most 90 times in 100"));
        assert!(told(311_000).contains("at most 70 times in 100"), "{}", told(311_000));
        assert!(told(18_000_000).contains("nearly always"));
    }
}
