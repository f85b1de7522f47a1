//! What a list's terms mean, in words.

use dream_protocol::noise::{Confidence, Spread};
use dream_protocol::params::Params;
use dream_protocol::policy::Profile;
use dream_protocol::scheme::Scheme;
use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::reasons::{objection, objections, policy_name};
use super::words;
use crate::board::day_epsilon;
use crate::board::{ClusterView, ListView};

/// Returns paragraphs about what the list in force promises to its homes.
pub(super) fn privacy(view: &ClusterView, now: Timestamp) -> Markup {
    let Some(list) = &view.list else {
        return html! { p { "There is no membership list yet, so nothing has been agreed with any meter." } };
    };
    let params = &list.params;
    html! {
        p {
            "Every attempt at a slot costs each meter that takes part "
            strong { "ε = " (words::epsilon(params.charge_micro_epsilon())) }
            "; a slot is tried at most " (times(params.attempts())) ". Counted slot by slot, today has cost a meter that took part \
             in all of them "
            strong { "ε = " (words::epsilon(view.spent.at(now))) }
            " so far. The smaller ε is, the less a sum tells about any one home."
        }
        p { (day(params)) }
        p { (noise(params)) }
        p { (tolerance(params)) }
    }
}

/// Returns the terms of a list, one by one.
pub(super) fn terms(list: &ListView, profile: Profile, now: Timestamp) -> Markup {
    let params = &list.params;
    let terms = params.terms();
    let slots = list.to_slot.0 - list.from_slot.0 + 1;
    let (begins, ends) = (params.slot_start(list.from_slot), params.slot_end(list.to_slot));
    let spread = Spread::new(params.noise_scale(), params.honest().into(), params.members().into());
    let term = |name: &str, text: &Markup| html! { div { dt { (name) } dd { (text) } } };
    html! {
        dl.terms {
            (term("Time", &html! {
                (words::period(begins, ends, now)) ", " (words::count(slots)) " slots of " (words::duration(terms.slot_seconds))
            }))
            (term("Members", &html! { (words::count(params.members())) ". " (tolerance(params)) }))
            (term("Readings", &html! {
                "Readings are waited for until " (words::duration(terms.reading_seconds)) " after a slot ended, "
                @if terms.scheme.committee().is_some() { "answers of holders" } @else { "reveals" } " for another "
                (words::duration(terms.reveal_seconds)) "; a slot is tried at most " (times(params.attempts())) "."
            }))
            (term("Noise", &html! {
                (noise(params)) " When all answer, a slot\u{2019}s sum is within ± "
                (words::watts(spread.half_width(Confidence::P95) as f64)) " of the truth with 95 % confidence."
            }))
            (term("Privacy", &html! {
                "An attempt costs a meter ε = " (words::epsilon(params.charge_micro_epsilon())) "."
            }))
            (term("A day", &day(params)))
            (term(if terms.scheme.committee().is_some() { "Holders" } else { "Masks" }, &html! {
                @match terms.scheme {
                    Scheme::Pairwise { partners: 0 } => "Every member masks with every other.",
                    Scheme::Pairwise { partners } => {
                        "Every member masks with about " (words::count(partners)) " others."
                    }
                    Scheme::Committee(committee) => {
                        (words::count(committee.holders)) " members are holders, and any " (words::count(committee.needed))
                        " of them open a sum together: " (words::count(committee.spare())) " may drop out."
                    }
                }
            }))
            (term("Meters\u{2019} policy", &accepted(params, profile)))
        }
    }
}

/// What a list promises for all slots of a UTC day together.
fn day(params: &Params) -> Markup {
    let [day, month, year] = day_epsilon::PERIODS.map(|days| day_epsilon::shown(day_epsilon::at_delta(params, days)));
    html! {
        "All slots of a UTC day together cost a home at most " strong { "ε = " (day) }
        " except with a probability of one in a million, those of 30 days " (month) " and of a year " (year)
        "; without exception, a day costs at most " (day_epsilon::shown(day_epsilon::pure(params, 1))) ". "
        @match (day_epsilon::rho(params), params.day_rms_watts()) {
            (Some(rho), Some(rms)) => {
                "This holds whatever the home did (ρ = " (rho) " a day): its meter reports no more than readings with a \
                 root mean square of " (words::watts(rms as f64)) " over the day, and less of those that exceed it."
            }
            _ => { "Nothing but the number of its slots bounds a whole day." }
        }
    }
}

fn accepted(params: &Params, profile: Profile) -> Markup {
    let broken: Vec<String> = objections(params, profile).iter().map(objection).collect();
    let policy = policy_name(profile);
    html! {
        @if broken.is_empty() { "A meter with " (policy) " accepts these terms." }
        @else { strong.bad { "A meter with " (policy) " refuses these terms" } ": " (broken.join(", and ")) "." }
    }
}

fn times(count: u8) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

fn noise(params: &Params) -> Markup {
    let terms = params.terms();
    html! {
        "A reading counts between " (words::watts(terms.lo as f64)) " and " (words::watts(terms.hi as f64))
        ". To hide it, noise of scale λ = " (words::watts(params.noise_scale().as_f64())) " is in every sum."
    }
}

fn tolerance(params: &Params) -> Markup {
    html! {
        "The meters add the noise themselves, in shares: those of " (words::count(params.honest()))
        " honest meters make up all of it. So the promise holds while up to " (words::count(params.max_missing()))
        " of the " (words::count(params.members())) " members are silent and up to "
        (words::count(params.max_malicious()))
        " work together against the others, with this gateway or without it."
    }
}
