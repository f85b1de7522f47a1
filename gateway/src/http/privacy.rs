//! What a cluster's parameters promise to its homes, in words.

use dream_protocol::time::Timestamp;

use super::html::{Html, html};
use super::words;
use crate::board::{ClusterView, ListView};

/// Paragraphs about the list in force.
pub(super) fn privacy(view: &ClusterView, now: Timestamp) -> Html {
    let Some(list) = &view.list else {
        return html("<p>There is no membership list yet, so nothing has been agreed with any meter.</p>", &[]);
    };
    let today = words::epsilon(view.spent.at(now));
    html("{}{}", &[&cost(list, &today), &tolerance(list)])
}

fn cost(list: &ListView, today: &str) -> Html {
    let params = &list.params;
    let terms = params.terms();
    html(
        "<p>Every attempt at a slot costs each meter that takes part <strong>ε = {}</strong>; a slot has at most {} \
         attempts. The slots of today have cost <strong>ε = {}</strong> so far. The smaller ε is, the less a sum tells \
         about any one home.</p><p>A reading counts between {} and {}. To hide it, noise of scale λ = {} is in every \
         sum.</p>",
        &[
            &words::epsilon(params.charge_micro_epsilon()),
            &params.attempts(),
            &today,
            &words::watts(terms.lo as f64),
            &words::watts(terms.hi as f64),
            &words::watts(params.noise_scale().as_f64()),
        ],
    )
}

fn tolerance(list: &ListView) -> Html {
    let params = &list.params;
    html(
        "<p>The meters add the noise themselves, in shares: those of {} honest meters make up all of it. So the promise \
         holds while up to {} of the {} members are silent and up to {} work together against the others, with this \
         gateway or without it.</p>",
        &[
            &words::count(params.honest()),
            &words::count(params.max_missing()),
            &words::count(params.members()),
            &words::count(params.max_malicious()),
        ],
    )
}
