//! The energy of a cluster or a group so far: today, this month, this hour.

use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::group_api::GroupEnergyJson;
use super::words;
use crate::board::ClusterView;
use crate::board::energy::EnergyJson;
use crate::board::group::GroupView;
use crate::clock::Period;

/// Shows a tile for each period of a cluster, with its band and how much of it is not measured.
pub(super) fn energy_panel(view: &ClusterView, now: Timestamp) -> Markup {
    let energy = view.energy.as_ref();
    panel(|wanted| {
        let energy = energy?;
        let (_, rollup) = energy.running(now).find(|(period, _)| *period == wanted)?;
        let json = EnergyJson::new(&rollup, energy.extent);
        let since = rollup.start.max(energy.extent.begun);
        Some(tile(&json, &words::period(since, rollup.end.min(energy.extent.until), now)))
    })
}

/// Shows the same of a group, with how many of its clusters are in it.
pub(super) fn group_energy(view: &GroupView, now: Timestamp) -> Markup {
    let energy = view.energy(now);
    panel(|wanted| {
        let (_, period) = energy.iter().find(|(period, _)| *period == wanted)?;
        let GroupEnergyJson { energy, clusters, in_sum } = GroupEnergyJson::from(period);
        let when = words::period(period.total.first, period.total.last, now);
        let partial = (in_sum < clusters).then(|| format!(", {in_sum} of {clusters} clusters"));
        Some(tile(&energy, &html! { (when) @if let Some(partial) = partial { (partial) } }))
    })
}

fn panel(tile: impl Fn(Period) -> Option<Markup>) -> Markup {
    const PERIODS: [(Period, &str); 3] =
        [(Period::Day, "Today"), (Period::Month, "This month"), (Period::Hour, "This hour")];
    html! {
        dl.tiles {
            @for (period, name) in PERIODS {
                div.tile id={ "energy-" (crate::board::energy::label(period)) } {
                    dt { (name) }
                    @match tile(period) {
                        Some(tile) => (tile),
                        None => dd { "–" span.note { "no slot has closed yet" } },
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

fn tile(json: &EnergyJson, when: &Markup) -> Markup {
    let (value, band, unit) = words::energy(json.energy_watt_hours, json.band95_energy_watt_hours);
    html! {
        dd {
            (value) " " span.within { "± " (band) } " " (unit)
            span.note {
                (when) (share(json.filled_seconds, json, "filled in")) (share(json.missing_seconds, json, "missing"))
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
