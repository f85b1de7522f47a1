//! The page of a cluster or a group: its load over a chosen range, its energy, its figures, its recent slots, its downloads.

use axum::http::{StatusCode, Uri};
use axum::response::Response;
use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::chart::{Caption, chart, described};
use super::page::{self, choice, scroll, section};
use super::past::{CHART_POINTS, Past};
use super::query::{Id, MAX_LIMIT};
use super::range::Range;
use super::series::Series;
use super::subject::Subject;
use super::{Shared, blocking, words};
use crate::board::energy::{self, EnergyJson};
use crate::clock::{Period, rfc3339};
use crate::history::Step;

/// How many slots the table lists.
pub(super) const RECENT: usize = 12;

/// What the pages of clusters and of groups have of their own.
pub(super) trait LoadPage: Subject {
    /// How to read the figures.
    const EXPLAINED: &'static str;
    /// What else the reader of the chart should know.
    const CHART_NOTE: &'static str = "";

    /// Shows its name, how it is doing, and the way to other pages.
    fn heading(&self, shared: &Shared, now: Timestamp) -> Markup;

    /// Shows the best number there is, and what needs a look.
    fn state(&self, now: Timestamp) -> Markup;

    fn legend(series: &Series) -> Markup;

    /// Returns the running periods, each with when it was.
    fn energy(&self, now: Timestamp) -> Vec<(Period, EnergyJson, Markup)>;

    fn tiles(&self, now: Timestamp) -> Markup;

    /// Shows what is between the figures and the recent slots.
    fn inner_sections(&self, shared: &Shared, range: Range, past: &Past<Self>) -> Markup;

    /// Shows a row for each slot, in this order.
    fn slot_table(slots: &[Self::Slot], now: Timestamp) -> Markup;

    /// Shows a link to a page of all slots, if there is one.
    fn all_slots(&self) -> Markup {
        Markup::default()
    }

    /// Shows what goes before the downloads, if anything.
    fn before_downloads(&self, _now: Timestamp) -> Option<Markup> {
        None
    }

    /// Shows a link to the signed list, if there is one.
    fn signed_list(&self, _api: &str, _now: Timestamp) -> Markup {
        Markup::default()
    }
}

/// `GET /clusters/{id}`, and the same of groups.
pub(super) async fn show<T: LoadPage>(shared: Shared, Id(id): Id, uri: Uri) -> Response {
    // Before the view: a page may be newer than its version says, but not older.
    let version = shared.version();
    let Some(subject) = T::find(&shared, &id) else { return page::unknown::<T>(&shared, &id) };
    let range = match asked(&uri) {
        Ok(range) => range,
        Err(wrong) => return page::error(&shared, StatusCode::BAD_REQUEST, "No such range", &wrong),
    };
    blocking(move || match Past::read(shared.history(), &subject, range, shared.now(), CHART_POINTS) {
        Ok(past) => page::document(&shared, StatusCode::OK, &id, version, &render(&shared, &subject, range, &past)),
        Err(error) => page::no_past(&shared, &error),
    })
    .await
}

/// Returns the range that is asked for; a day, if none is.
fn asked(uri: &Uri) -> Result<Range, Markup> {
    let given = page::parameters(uri, &["range"])?;
    given.get("range").map_or(Ok(Range::DAY), |name| {
        let names = Range::ALL.map(|range| range.name).join(", ");
        Range::named(name).ok_or_else(|| html! { code { "range" } " is one of " (names) ", not " code { (name) } "." })
    })
}

fn render<T: LoadPage>(shared: &Shared, subject: &T, range: Range, past: &Past<T>) -> Markup {
    let (now, id) = (past.now, subject.id());
    let newest: Vec<T::Slot> = past.slots.iter().rev().take(RECENT).copied().collect();
    let ranges = Range::ALL.map(|it| {
        let href = format!("/{}s/{id}?range={}", T::KIND, it.name);
        (format!("range-{}", it.name), href, it.label, it == range)
    });
    let downloads =
        section("downloads", "Downloads", &html! {}, &html! { ul.links { (downloads(subject, range, past)) } });
    html! {
        (subject.heading(shared, now))
        section #state aria-label="Load now" data-live { (subject.state(now)) }
        (section("load", "Load", &choice("Range of the chart", &ranges), &load_chart(subject, range, past)))
        (section("energy", "Energy so far", &html! {}, &energy_panel(&subject.energy(now))))
        section #figures aria-label="Figures" data-live {
            dl.tiles { (subject.tiles(now)) }
            details.explain { summary #explained { "How to read these numbers" } p { (T::EXPLAINED) } }
        }
        (subject.inner_sections(shared, range, past))
        (section("recent", "Recent slots", &subject.all_slots(), &scroll("recent", &T::slot_table(&newest, now))))
        @match subject.before_downloads(now) {
            Some(before) => div.pair { (before) (downloads) },
            None => (downloads),
        }
    }
}

fn load_chart<T: LoadPage>(subject: &T, range: Range, past: &Past<T>) -> Markup {
    let series = &past.series;
    let period = series.step.map_or("slot", Step::as_str);
    let title = format!("Load of {} {}", subject.id(), range.words);
    html! {
        figure {
            (chart(series, &Caption { id: "load-chart", title, description: described(series) }))
            figcaption {
                ul.legend { (T::legend(series)) }
                p.note {
                    "Shaded are the 95 % bands. " (T::CHART_NOTE)
                    @match series.slots_per_point {
                        1 => { "Each point is one " (period) "." }
                        many => {
                            "Each point is the mean of up to " (words::count(many)) " " (period) "s, in the band of that mean."
                        }
                    }
                    @if let Some(cut) = past.cut { " Only the newest " (words::count(cut)) " " (period) "s are shown." }
                }
            }
        }
    }
}

/// Shows a tile for each period, with its band and how much of it is not measured.
fn energy_panel(energy: &[(Period, EnergyJson, Markup)]) -> Markup {
    const PERIODS: [(Period, &str); 3] =
        [(Period::Day, "Today"), (Period::Month, "This month"), (Period::Hour, "This hour")];
    html! {
        dl.tiles {
            @for (wanted, name) in PERIODS {
                div.tile id={ "energy-" (energy::label(wanted)) } {
                    dt { (name) }
                    @match energy.iter().find(|(period, ..)| *period == wanted) {
                        Some((_, json, when)) => dd {
                            (words::energy_within(json))
                            span.note {
                                (when) (share(json.filled_seconds, json, "filled in"))
                                (share(json.missing_seconds, json, "missing"))
                                @if json.cut_off_share.abs() >= 0.0005 {
                                    ", " (words::share(json.cut_off_share)) " estimated, because high readings are capped"
                                }
                            }
                        },
                        None => dd { "–" span.note { "no slot has closed yet" } },
                    }
                }
            }
        }
        details.explain {
            summary #energy-explained { "How this energy is counted" }
            p {
                "Energy is that of all members: each slot\u{2019}s sum, scaled to the members that were silent. The \
                 noise of slots is independent, so the band of a day is far narrower than that of its slots \
                 together. Where a slot gave no sum, the filter\u{2019}s expectation fills the gap; time without a \
                 slot is missing, and not counted. Days and months begin in the time zone of the gateway\u{2019}s \
                 configuration; hours and times here are in UTC. Because of the noise, energy may fall."
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

fn downloads<T: LoadPage>(subject: &T, range: Range, past: &Past<T>) -> Markup {
    const STEPS: [(Step, &str); 2] =
        [(Step::Hour, "Energy by the hour, of the last 7 days"), (Step::Day, "Energy by the day, of the last year")];
    let api = format!("/api/v1/{}s/{}", T::KIND, subject.id());
    // The end stays open: a reader who follows the link later gets what has closed by then.
    let slots = format!("from={}&limit={MAX_LIMIT}", rfc3339(past.from));
    html! {
        (subject.signed_list(&api, past.now))
        li { a #get-csv href={ (api) "/slots?format=csv&" (slots) } download { "Slots " (range.words) " as CSV" } }
        li { a #get-json href={ (api) "/slots?" (slots) } { "The same as JSON" } }
        @for (step, words) in STEPS {
            li {
                a id={ "get-" (step.as_str()) "s" } href={ (api) "/history?step=" (step.as_str()) "&format=csv" } download {
                    (words) ", as CSV"
                }
            }
        }
        li { a id={ "get-" (T::KIND) } href=(api) { "This " (T::KIND) " as JSON" } }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_of_seven_and_a_day_if_none_is_asked_for() {
        let of = |query: &str| asked(&format!("/clusters/x{query}").parse().unwrap()).ok();
        assert_eq!([of(""), of("?")], [Some(Range::DAY); 2]);
        assert_eq!(Range::ALL.map(|range| of(&format!("?range={}", range.name))), Range::ALL.map(Some));
        assert_eq!([of("?range=2y"), of("?rage=6h"), of("?range=")], [None; 3]);
    }
}
