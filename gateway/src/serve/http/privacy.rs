//! What a cluster's parameters promise to its homes, in words.

use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::words;
use crate::serve::board::{ClusterView, ListView};

/// Returns paragraphs about the list in force.
pub(super) fn privacy(view: &ClusterView, now: Timestamp) -> Markup {
    let Some(list) = &view.list else {
        return html! { p { "There is no membership list yet, so nothing has been agreed with any meter." } };
    };
    html! { (cost(list, &words::epsilon(view.spent.at(now)))) (tolerance(list)) }
}

fn cost(list: &ListView, today: &str) -> Markup {
    let params = &list.params;
    let terms = params.terms();
    html! {
        p {
            "Every attempt at a slot costs each meter that takes part "
            strong { "ε = " (words::epsilon(params.charge_micro_epsilon())) }
            "; a slot has at most " (params.attempts()) " attempts. The slots of today have cost "
            strong { "ε = " (today) }
            " so far. The smaller ε is, the less a sum tells about any one home."
        }
        p {
            "A reading counts between " (words::watts(terms.lo as f64)) " and " (words::watts(terms.hi as f64))
            ". To hide it, noise of scale λ = " (words::watts(params.noise_scale().as_f64())) " is in every sum."
        }
    }
}

fn tolerance(list: &ListView) -> Markup {
    let params = &list.params;
    html! {
        p {
            "The meters add the noise themselves, in shares: those of " (words::count(params.honest()))
            " honest meters make up all of it. So the promise holds while up to " (words::count(params.max_missing()))
            " of the " (words::count(params.members())) " members are silent and up to "
            (words::count(params.max_malicious()))
            " work together against the others, with this gateway or without it."
        }
    }
}
