//! The energy of a cluster so far: today, this month, this hour.

use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::words;
use crate::clock::Period;
use crate::serve::board::ClusterView;
use crate::serve::energy::{EnergyJson, EnergyView};
use crate::store::Rollup;

/// Shows a tile for each period, with its band and how much of it is not measured.
pub(super) fn energy_panel(view: &ClusterView, now: Timestamp) -> Markup {
    const PERIODS: [(Period, &str); 3] =
        [(Period::Day, "Today"), (Period::Month, "This month"), (Period::Hour, "This hour")];
    let energy = view.energy.as_ref();
    let running = |wanted| {
        let found = energy.and_then(|energy| energy.running(now).find(|(period, _)| *period == wanted));
        found.map(|(_, rollup)| rollup)
    };
    html! {
        dl.tiles {
            @for (period, name) in PERIODS {
                div.tile id={ "energy-" (crate::serve::energy::label(period)) } {
                    dt { (name) }
                    @match (energy, running(period)) {
                        (Some(energy), Some(rollup)) => (tile(energy, &rollup, now)),
                        _ => dd { "–" span.note { "no slot has closed yet" } },
                    }
                }
            }
        }
        details.explain {
            summary #energy-explained { "How this energy is counted" }
            p {
                "Energy is that of all members: each slot\u{2019}s sum, scaled to the members that were silent. The noise of slots is \
                 independent, so the band of a day is far narrower than that of its slots together. Where a slot gave no sum, the \
                 filter\u{2019}s expectation fills it in; time without a slot is missing, and in no energy. Days and months begin \
                 in the time zone of the gateway\u{2019}s configuration; hours and times here are in UTC. Because of the noise, \
                 energy may fall."
            }
        }
    }
}

fn tile(energy: &EnergyView, rollup: &Rollup, now: Timestamp) -> Markup {
    let json = EnergyJson::new(rollup, energy.extent);
    let (value, band, unit) = words::energy(json.energy_watt_hours, json.band95_energy_watt_hours);
    let since = rollup.start.max(energy.extent.begun);
    html! {
        dd {
            (value) " " span.within { "± " (band) } " " (unit)
            span.note {
                (words::period(since, rollup.end.min(energy.extent.until), now))
                (share(json.filled_seconds, &json, "filled in")) (share(json.missing_seconds, &json, "missing"))
            }
        }
    }
}

/// Returns what share of the time something was, if any.
fn share(seconds: u64, json: &EnergyJson, what: &str) -> Markup {
    let all = json.measured_seconds + json.filled_seconds + json.missing_seconds;
    let [seconds, all] = [seconds, all].map(|seconds| usize::try_from(seconds).unwrap_or(usize::MAX));
    html! { @if seconds > 0 { ", " (words::percent(seconds, all)) " " (what) } }
}
