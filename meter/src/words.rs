//! What the owner reads, in plain words: the same on the page and from `dream-meter status`.

use dream_protocol::meter::Refusal;
use dream_protocol::noise::{DAY_DELTA, epsilon_of_rho};
use dream_protocol::wire::StatusCode;

use crate::clock::utc;
use crate::config::{ONE_AUTHORITY_MEANS, meaning};
use crate::explain;
use crate::oversight::Finding;
use crate::standing::{ListTerms, SourceState, Stage, Standing};

/// Returns what there is to say, each with its heading.
pub fn lines(standing: &Standing) -> Vec<(&'static str, String)> {
    let Standing { meter, cluster, .. } = standing;
    let spent = micro(standing.spent_micro);
    let budget = if standing.budget_micro == u64::MAX { "no limit".to_owned() } else { micro(standing.budget_micro) };
    let mut lines = vec![
        ("Taking part", taking_part(standing)),
        ("Meter", format!("{meter} in the cluster {cluster}")),
        ("Policy", meaning(standing.profile).to_owned()),
        ("Enrolled", enrolled(standing)),
    ];
    lines.extend(standing.one_authority.then(|| ("Warning", ONE_AUTHORITY_MEANS.to_owned())));
    lines.extend(standing.list.as_ref().map(|list| ("Terms", terms(list))));
    lines.extend([
        ("Readings sent today", format!("{}, counted in UTC", standing.sent_today)),
        ("Privacy spent", format!("epsilon {spent} of {budget} in the last 24 hours")),
        ("Given away", explain::sentence(standing)),
        ("Source", source(&standing.source)),
        ("Load of the cluster", load(standing)),
        ("Last refusal", refusal(standing)),
        ("Certificate", certificate(standing)),
    ]);
    lines.extend(standing.register.as_ref().map(|finding| ("Authority's register", register(finding))));
    lines
}

/// Returns the lines as text for a terminal.
pub fn text(standing: &Standing) -> String {
    lines(standing).into_iter().map(|(heading, words)| format!("{heading}: {words}\n")).collect()
}

/// Says whether the home takes part, and if not, why.
pub fn taking_part(standing: &Standing) -> String {
    match &standing.stage {
        Stage::WaitingForClock => {
            "no: waiting for this machine's clock to synchronise, because slots follow the time of day".to_owned()
        }
        Stage::Silent { until } => format!(
            "no: its records were copied or restored, so it sends nothing until {} and then enrols again",
            utc(*until)
        ),
        Stage::Connecting { trouble: None } => "no: connecting to the community's broker".to_owned(),
        Stage::Connecting { trouble: Some(trouble) } => {
            format!("no: cannot reach the community's broker ({trouble}); retrying")
        }
        Stage::Connected if standing.list.is_none() => {
            "not yet: waiting for a list from the gateway that names this meter".to_owned()
        }
        Stage::Connected if standing.takes_part() => "yes".to_owned(),
        Stage::Connected => "no: the last slot had no reading".to_owned(),
    }
}

fn enrolled(standing: &Standing) -> String {
    match &standing.list {
        None => "no list names this meter yet; it sends its enrolment about once a minute".to_owned(),
        Some(list) => format!("yes, in the list of {}, with {} homes", utc(list.epoch), list.members),
    }
}

/// Says what a list asks of a home, and allows.
pub fn terms(list: &ListTerms) -> String {
    let ListTerms { slot_seconds, epsilon: (numerator, denominator), range: (lo, hi), .. } = list;
    let epsilon = if *denominator == 1 { numerator.to_string() } else { format!("{numerator}/{denominator}") };
    let day = match list.day_micro_rho {
        0 => String::new(),
        micro => {
            let epsilon = epsilon_of_rho(micro as f64 / 1e6, DAY_DELTA);
            format!(
                "; all readings of a UTC day together cost at most epsilon {epsilon:.1}, except with a chance of one in a million"
            )
        }
    };
    format!(
        "a reading is the mean of {}, clipped to {lo} to {hi} W and blurred with epsilon {epsilon}{day}; a sum is opened if at most {} \
         homes are silent, and stays fully blurred even if {} work for the gateway; valid until {}",
        span(*slot_seconds),
        list.max_missing,
        list.max_malicious,
        utc(list.to)
    )
}

/// Says how long a slot is.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        60 => "a minute".to_owned(),
        _ if seconds.is_multiple_of(60) => format!("{} minutes", seconds / 60),
        _ => format!("{seconds} seconds"),
    }
}

fn source(source: &SourceState) -> String {
    match source {
        SourceState::NotAsked => "no slot has ended yet".to_owned(),
        SourceState::Fine => "fine: the last slot had a reading".to_owned(),
        SourceState::NoReading(why) => format!("the last slot had no reading, so nothing was sent: {why}"),
    }
}

fn load(standing: &Standing) -> String {
    let Some(load) = &standing.load else {
        let why = if standing.load_refused { "; the broker does not let this meter read it" } else { "" };
        return format!("not known yet{why}");
    };
    match (load.load_watts, load.band95_watts) {
        (Some(watts), Some(band)) => format!("{watts} W, give or take {band:.0} W, in the slot until {}", load.end),
        (Some(watts), None) => format!("{watts} W in the slot until {}", load.end),
        (None, _) => format!("there was no sum for the slot until {}", load.end),
    }
}

fn refusal(standing: &Standing) -> String {
    match &standing.last_refusal {
        None => "none since it started".to_owned(),
        Some((at, refusal)) => format!("{}: {refusal}. {}", utc(at.as_secs()), advice(refusal)),
    }
}

/// Says what an owner can do about a refusal.
pub const fn advice(refusal: &Refusal) -> &'static str {
    match refusal.status() {
        None => "Nothing to do: it was out of date or not meant for this meter.",
        Some(StatusCode::NoList) => {
            "Nothing to do if it has just started. If it lasts, ask the gateway's operator whether this meter is admitted."
        }
        Some(StatusCode::ListRefused) => {
            "Nothing is sent under such a list. Ask the gateway's operator. Your policy protects you: do not loosen it \
             because someone asks you to."
        }
        Some(StatusCode::NotListed) => "Ask the gateway's operator whether this meter is admitted to the cluster.",
        Some(StatusCode::LedgerExhausted) => "Nothing to do: it resumes as soon as earlier readings are 24 hours old.",
        Some(StatusCode::ClockDoubtful) => "Check this machine's time source, and restart the meter.",
        Some(StatusCode::RecordLost) => "Nothing to do: it has enrolled again, and the next list will name it.",
        Some(StatusCode::RequestRefused) => "Nothing was revealed. Tell the gateway's operator if it keeps happening.",
        Some(StatusCode::Equivocation) => {
            "The gateway contradicted itself and the meter has kept the proof. Tell your community."
        }
        Some(StatusCode::NotAsked) => {
            "Nothing to do: the gateway was away, and the meter has sent its enrolment again."
        }
    }
}

fn certificate(standing: &Standing) -> String {
    let (to, from) = (utc(standing.certificate_to), utc(standing.renewable_from));
    match standing.renews_itself {
        true => format!("valid until {to}; it renews itself from {from} on"),
        false => format!("valid until {to}; the authority can renew it from {from}"),
    }
}

/// Says what the authority's register shows.
fn register(finding: &Finding) -> String {
    match finding {
        Finding::Agrees { meters } => {
            format!("fine: it names your meter and everybody in the list, and has {meters} meters in this cluster")
        }
        Finding::WithoutUs => "your certificate is not in it. Ask your community's authority".to_owned(),
        Finding::Unnamed { certificates } => format!(
            "{certificates} certificates in the list are not in it: somebody may have invented meters. Ask your community's authority"
        ),
        Finding::TooMany { listed, registered } => format!(
            "the list has {listed} homes, and it has {registered}: somebody may have invented meters. Ask your community's authority"
        ),
        Finding::ChangedItsPast { evidence } => format!(
            "it has changed its past, and the meter has kept the proof in {}. Tell your community",
            evidence.display()
        ),
    }
}

/// Writes millionths as a decimal.
pub fn micro(millionths: u64) -> String {
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use dream_protocol::ids::{ClusterId, MeterId};
    use dream_protocol::policy::{PolicyError, Profile};
    use dream_protocol::time::Timestamp;

    use super::*;
    use crate::shared::Shared;
    use crate::standing::{ClusterLoad, Totals};

    /// How a meter stands on an ordinary day.
    pub(crate) fn ordinary() -> Standing {
        Standing {
            meter: MeterId::new("m-0007").unwrap(),
            cluster: ClusterId::new("riverside").unwrap(),
            profile: Profile::Community,
            one_authority: false,
            stage: Stage::Connected,
            list: Some(ListTerms {
                epoch: 1_794_900_000,
                members: 25,
                max_missing: 2,
                max_malicious: 3,
                slot_seconds: 600,
                epsilon: (1, 1),
                day_micro_rho: 0,
                range: (0, 9000),
                from: 1_794_901_200,
                to: 1_795_500_000,
            }),
            sent_today: 41,
            spent_micro: 143_500_000,
            budget_micro: 160_000_000,
            load: Some(ClusterLoad {
                end: "2026-11-17T07:10:00Z".to_owned(),
                load_watts: Some(14_250),
                band95_watts: Some(29_800.4),
            }),
            load_refused: false,
            last_refusal: None,
            source: SourceState::Fine,
            certificate_to: 1_826_000_000,
            renewable_from: 1_815_500_000,
            renews_itself: true,
            listed: [].into(),
            register: Some(Finding::Agrees { meters: 25 }),
            totals: Totals::default(),
            shared: Shared { since: 20_700, days: 74, micro_rho: 127_476_618, micro_epsilon: 12_500_000 },
        }
    }

    #[test]
    fn an_ordinary_day_in_words() {
        insta::assert_snapshot!(text(&ordinary()));
    }

    #[test]
    fn whatever_keeps_it_from_taking_part_is_said() {
        let quiet = |stage| Standing { stage, list: None, load: None, source: SourceState::NotAsked, ..ordinary() };
        let refused =
            (Timestamp::from_secs(1_794_900_000), Refusal::Policy(PolicyError::TooFewMembers { least: 23, found: 12 }));
        let dead = SourceState::NoReading("the source sent nothing in this slot".to_owned());
        let cases = [
            quiet(Stage::WaitingForClock),
            quiet(Stage::Silent { until: 1_794_960_000 }),
            quiet(Stage::Connecting { trouble: None }),
            quiet(Stage::Connecting { trouble: Some("connection refused".to_owned()) }),
            Standing { last_refusal: Some(refused), load_refused: true, ..quiet(Stage::Connected) },
            Standing { source: dead, one_authority: true, ..ordinary() },
        ];
        assert!(cases.iter().all(|standing| !standing.takes_part()));
        insta::assert_snapshot!(cases.iter().map(text).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn whatever_is_wrong_with_the_register_is_said() {
        let findings = [
            Finding::WithoutUs,
            Finding::Unnamed { certificates: 2 },
            Finding::TooMany { listed: 25, registered: 23 },
            Finding::ChangedItsPast { evidence: "state/register-evidence-1794900000.json".into() },
        ];
        insta::assert_snapshot!(findings.iter().map(|finding| register(finding) + "\n").collect::<String>());
    }

    #[test]
    fn millionths_are_written_exactly() {
        for (millionths, text) in
            [(0, "0"), (1_000_000, "1"), (1_500_000, "1.5"), (1, "0.000001"), (160_000_000, "160")]
        {
            assert_eq!(micro(millionths), text);
        }
    }
}
