//! What is known about why a cluster needs a look: from its slots, from what meters say, and from its list's terms.

use dream_protocol::aggregate::Failure;
use dream_protocol::params::Params;
use dream_protocol::policy::{PolicyError, Profile};
use dream_protocol::time::Timestamp;
use dream_protocol::wire::StatusCode;

use super::cluster_json::ClusterState;
use super::words;
use crate::board::evidence::EvidenceView;
use crate::board::offenders::OffenderCounts;
use crate::board::{ClusterView, ENDING_SECONDS, ListView, StatusCount, day_epsilon};

/// Something to look at, in a sentence without its full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) text: String,
    /// Whether it costs sums now; otherwise it is worth a look in time.
    pub(super) urgent: bool,
    /// Where there is more about it.
    pub(super) link: Option<String>,
}

/// Returns what is known, the most telling first; nothing for a cluster that does well.
pub(super) fn reasons(view: &ClusterView, now: Timestamp) -> Vec<Reason> {
    let urgent = |text: String| Reason { text, urgent: true, link: None };
    let in_time = |text: String| Reason { text, urgent: false, link: None };
    let mut found: Vec<Reason> = view.statuses.iter().map(|count| urgent(said(count, view, now))).collect();
    if found.is_empty() {
        found.extend(unheard_refusal(view, now).map(urgent));
    }
    found.extend(evidence(view));
    found.extend(last_slot(view, now).map(urgent));
    found.extend(offenders(&view.offenders));
    found.extend(holders(view, now).into_iter().map(in_time));
    found.extend(list_kept(view, now).map(in_time));
    found.extend(denied(view, now).map(in_time));
    if view.ending > 0 {
        let days = ENDING_SECONDS / 86_400;
        found.push(in_time(format!(
            "{} within {days} days, not renewed yet",
            counted(view.ending, "enrolment ends", "enrolments end")
        )));
    }
    found
}

/// Says what members say about a list, or about their silence.
fn said(count: &StatusCount, view: &ClusterView, now: Timestamp) -> String {
    let StatusCount { code, epoch, meters, of } = *count;
    let list = words::list(epoch, now);
    let who = format!("{} of {} meters", words::count(meters), words::count(of));
    let verb = |one: &'static str, many: &'static str| if meters == 1 { one } else { many };
    match code {
        StatusCode::ListRefused => {
            let lists = view.list.iter().chain(&view.next_list);
            let terms = lists.into_iter().find(|known| known.epoch == epoch).map(|known| known.params);
            let why = terms.map_or_else(String::new, |params| why_refused(&params, view.profile));
            format!("{who} {} the {list}{why}", verb("refuses", "refuse"))
        }
        StatusCode::NoList => {
            format!("{who} {} no list in force: the {list} did not reach them", verb("has", "have"))
        }
        StatusCode::NotListed => {
            format!("{who} {} not in the {list} with the certificate that is in use", verb("is", "are"))
        }
        StatusCode::LedgerExhausted => {
            format!(
                "{who} {} spent the privacy budget of 24 hours and will be silent until enough of it is free again",
                verb("has", "have")
            )
        }
        StatusCode::ClockDoubtful => {
            format!("{who} {} the clock, and will be silent until it is confirmed", verb("doubts", "doubt"))
        }
        StatusCode::RecordLost => {
            format!("{who} {} lost the keys of the {list}, and will be back with the next list", verb("has", "have"))
        }
        StatusCode::RequestRefused => format!("{who} {} this gateway\u{2019}s requests", verb("refuses", "refuse")),
        StatusCode::Equivocation => {
            format!("{who} {} shown that a gateway contradicted itself", verb("has", "have"))
        }
        StatusCode::NotAsked => {
            format!("{who} reported while the gateway was away; that slot is lost")
        }
    }
}

/// Says what members have proven against a gateway, the newest of it in full.
fn evidence(view: &ClusterView) -> Option<Reason> {
    let EvidenceView { gateway, contradiction, .. } = view.evidence.last()?;
    let more = match view.evidence.len() {
        1 => String::new(),
        several => {
            format!("; {}", counted(several - 1, "earlier contradiction is kept", "earlier contradictions are kept"))
        }
    };
    let text = format!("Members have proven that gateway {gateway} contradicted itself: {contradiction}{more}");
    Some(Reason { text, urgent: true, link: Some(format!("/api/v1/clusters/{}/evidence", view.cluster)) })
}

/// Says why a list is refused. A status does not tell the rule; the policy that they should have does, unless these meters
/// have another.
fn why_refused(params: &Params, profile: Profile) -> String {
    let broken: Vec<String> = objections(params, profile).iter().map(objection).collect();
    if broken.is_empty() {
        let policy = policy_name(profile);
        return format!(", which {policy} accepts: theirs is stricter, or names other gateways or authorities");
    }
    format!(": {}", broken.join(", and "))
}

/// Says, before anybody has, what the meters' policy makes of a list that gives no sums.
fn unheard_refusal(view: &ClusterView, now: Timestamp) -> Option<String> {
    let list = view.list.as_ref()?;
    let works = view.last.is_some_and(|closed| closed.outcome.epoch == list.epoch && closed.outcome.responders > 0);
    let broken: Vec<String> = objections(&list.params, view.profile).iter().map(objection).collect();
    let (policy, name) = (policy_name(view.profile), words::list(list.epoch, now));
    let told = format!("Meters with {policy} refuse the {name}: {}", broken.join(", and "));
    (!works && !broken.is_empty()).then_some(told)
}

/// Says what the last slot, or its absence, tells.
fn last_slot(view: &ClusterView, now: Timestamp) -> Option<String> {
    match ClusterState::of(view, now) {
        ClusterState::WaitingForMembers | ClusterState::WaitingForFirstSlot => None,
        ClusterState::CannotForm => view.cannot_form.as_ref().map(|reason| format!("No list can be formed: {reason}")),
        ClusterState::Stalled => {
            let since = view.last.map_or(view.since, |closed| closed.outcome.end.max(view.since));
            let every = words::duration(view.slot_seconds);
            Some(format!("No slot has closed since {}, although one should every {every}", words::instant(since, now)))
        }
        ClusterState::Running => {
            let outcome = view.last?.outcome;
            let (missing, members) = (words::count(outcome.missing()), words::count(outcome.members));
            let list = view.list.as_ref().filter(|list| list.epoch == outcome.epoch);
            Some(match outcome.result.err()? {
                // Those who refuse to take part say so.
                Failure::TooManyMissing if outcome.responders == 0 && view.statuses.is_empty() => {
                    "No meter is heard: check that the broker\u{2019}s permissions let this gateway read what meters \
                     send, and meters read what it sends"
                        .to_owned()
                }
                Failure::TooManyMissing => {
                    let most = list.map(|list| list.params.max_missing());
                    let most =
                        most.map_or_else(String::new, |most| format!("; the list tolerates {}", words::count(most)));
                    format!("{missing} of {members} meters were missing in the last slot{most}")
                }
                Failure::RevealMissing if list.is_some_and(has_committee) => too_few_holders(view, now),
                Failure::RevealMissing => "A meter sent its reading in the last slot, but not its reveal".to_owned(),
                Failure::UnmaskFailed => "No load for the last slot: a meter sent invalid data".to_owned(),
                Failure::Interrupted => "The gateway was away while the last slot was open".to_owned(),
            })
        }
    }
}

fn has_committee(list: &ListView) -> bool {
    list.params.terms().scheme.committee().is_some()
}

/// Says how far the answers of the last slot's holders fell short.
fn too_few_holders(view: &ClusterView, now: Timestamp) -> String {
    let counts = view.recent_holders(now).map(|holders| {
        let [answered, of, needed] = [holders.answered, holders.holders, holders.needed].map(words::count);
        format!(": {answered} of {of}, and {needed} are needed")
    });
    format!("Too few holders answered in the last slot{}", counts.unwrap_or_default())
}

/// Says what holders' answers tell, and why there are no holders. Only operators are told which.
fn holders(view: &ClusterView, now: Timestamp) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(holders) = view.recent_holders(now) {
        if holders.runs_low() && holders.answered >= holders.needed {
            let [spare, answered, of, needed] =
                [holders.spare(), holders.answered, holders.holders, holders.needed].map(words::count);
            found.push(format!(
                "Holders run low: {answered} of {of} answered and {needed} are needed, so {spare} more may drop out \
                 before slots give no sum; `dream-gateway holders` names those that did not answer"
            ));
        }
        if holders.wrong > 0 {
            let answers = counted(holders.wrong.into(), "holder\u{2019}s answer was", "holders\u{2019} answers were");
            found.push(format!(
                "{answers} wrong in the last slot: a holder, or a member that dealt to it, lies or has lost its keys"
            ));
        }
    }
    if let Some(reason) = &view.no_committee {
        found.push(format!("The list is pairwise, so a sum needs every member\u{2019}s answer: {reason}"));
    }
    found
}

/// Says why the list in force is not replaced, if no new one can be formed.
fn list_kept(view: &ClusterView, now: Timestamp) -> Option<String> {
    let (list, reason) = view.list.as_ref().zip(view.cannot_form.as_ref())?;
    let until = words::instant(list.params.slot_end(list.to_slot), now);
    Some(format!("No new list can be formed, and the last one ends at {until}: {reason}"))
}

/// Says how many members spoil slots, and what is done about it. Only operators are told which.
fn offenders(counts: &OffenderCounts) -> Vec<Reason> {
    let mut found = Vec::new();
    let mut note = |urgent: bool, text: String| found.push(Reason { text, urgent, link: None });
    if counts.cannot_be_found {
        let text = "Sum after sum fails: more members spoil them than can be found at this size. The search goes on; \
                    deny those you suspect, allow more to be missing (`max_missing`), or enrol more members";
        note(true, text.to_owned());
    } else if counts.left_out_to_search > 0 {
        let who = counted(counts.left_out_to_search, "member", "members");
        note(
            true,
            format!(
                "Several members spoil sums. To find them, lists leave out {who} for some slots, others each time; \
                 sums do not include them meanwhile"
            ),
        );
    } else if counts.searching {
        note(true, "A member spoils sums: groups of members are left out to find it".to_owned());
    }
    let left_out = counts.quarantined.max(counts.left_out_of_lists);
    if left_out > 0 {
        let who = counted(left_out, "member that spoiled slots is", "members that spoiled slots are");
        note(false, format!("{who} left out until a trial; `dream-gateway offenders` names them"));
    }
    found
}

fn denied(view: &ClusterView, now: Timestamp) -> Option<String> {
    let list = view.list.as_ref().filter(|_| view.denied > 0)?;
    let who = counted(view.denied, "denied meter is", "denied meters are");
    let until = view.next_list.as_ref().map_or_else(
        || "until the next list begins".to_owned(),
        |next| {
            format!(
                "until the {} begins at {}",
                words::list(next.epoch, now),
                words::instant(next.params.slot_start(next.from_slot), now)
            )
        },
    );
    let list = words::list(list.epoch, now);
    Some(format!("{who} still in the {list} {until}; sums leave them out as far as the list allows"))
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", words::count(count), if count == 1 { one } else { many })
}

/// Returns the rules of a policy that a list with these parameters breaks.
pub(super) fn objections(params: &Params, profile: Profile) -> Vec<PolicyError> {
    profile.rules().objections(params).collect()
}

/// Names the policy that meters have.
pub(super) const fn policy_name(profile: Profile) -> &'static str {
    match profile {
        Profile::Strict => "the default policy",
        Profile::Community => "the community policy",
        Profile::Trial => "the trial policy",
    }
}

/// Writes a broken rule in the words of the configuration.
pub(super) fn objection(broken: &PolicyError) -> String {
    match broken {
        PolicyError::SlotTooShort { least, found } => format!("slot_seconds {found} is below their minimum {least}"),
        PolicyError::Epsilon { most, found } => {
            format!("epsilon {} is above their maximum {}", fraction(*found), fraction(*most))
        }
        PolicyError::Attempts { most, found } => format!("attempts {found} is above their maximum {most}"),
        PolicyError::TooFewMembers { least, found } => {
            format!("{found} members are below their minimum {least}: more members are needed")
        }
        PolicyError::TooFewMalicious { least, found } => {
            format!("{found} malicious members allowed for are below their minimum {least}: `meter_policy` sets it")
        }
        PolicyError::Scheme { refused } => format!("scheme {refused} is refused by their policy"),
        PolicyError::PartialMasks { partners } => format!("partners {partners} is not their 0, which means all"),
        PolicyError::TooFewHonest { least, found } => {
            format!("{found} honest members are below their minimum {least}: more members are needed")
        }
        PolicyError::Range { outer, found } => {
            format!("range_watts [{}, {}] is not within their [{}, {}]", found.0, found.1, outer.0, outer.1)
        }
        PolicyError::NoiseScale { least, found } => {
            format!(
                "the noise scale {found} W is below their minimum {least} W: a wider range or a smaller epsilon is needed"
            )
        }
        PolicyError::DayEpsilon { most, found } => {
            let [found, most] = [found, most].map(|micro| fraction((*micro, 1_000_000)));
            format!("a day of epsilon {found}, slot by slot, is above their maximum {most}: `day_epsilon` bounds a day")
        }
        PolicyError::DayRho { most, found } => {
            let [rho, limit] = [found, most].map(|micro| fraction((*micro, 1_000_000)));
            let [day, allowed] = [found, most].map(|micro| day_epsilon::shown(day_epsilon::of_micro_rho(*micro)));
            format!(
                "a day of rho {rho} (epsilon {day}) is above their maximum {limit} (epsilon {allowed}): a smaller \
                 `day_epsilon` or `epsilon` is needed"
            )
        }
        PolicyError::Authorities
        | PolicyError::Gateway(_)
        | PolicyError::NoCertifiedSize { .. }
        | PolicyError::ShortList => broken.to_string(),
    }
}

fn fraction((numerator, denominator): (u64, u64)) -> String {
    (numerator as f64 / denominator as f64).to_string()
}
