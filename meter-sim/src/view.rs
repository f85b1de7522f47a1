//! The live view: one line per slot, and on a terminal a status line below.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::time::Slot;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::trial::Offenders;
use crate::verdict::{Row, Verdict, kilowatts};
use dream_fleet::Status;
use dream_fleet::liar::{Begun, Lie};

/// How slots are shown.
#[derive(Debug)]
pub struct View {
    bar: ProgressBar,
    style: Style,
    headed: bool,
    /// Messages that were shown already.
    said: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// One JSON object a line.
    Machine,
    /// Lines, and below them one that changes.
    Terminal,
    /// Only lines.
    Lines,
}

impl View {
    /// Creates a view that prints lines for people, or JSON.
    pub fn new(json: bool) -> Self {
        let style = match (json, std::io::stderr().is_terminal()) {
            (true, _) => Style::Machine,
            (false, true) => Style::Terminal,
            (false, false) => Style::Lines,
        };
        let target = if style == Style::Terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_style(ProgressStyle::default_spinner());
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, style, headed: false, said: BTreeSet::new() }
    }

    /// Shows the status of the meters, and each refusal and each connection error once.
    pub fn status(&mut self, clusters: &[(&ClusterId, Status)]) {
        for (cluster, status) in clusters {
            status.refusals.keys().for_each(|rule| self.say(&format!("{cluster}: meters refuse: {rule}")));
            if let Some(trouble) = status.trouble.as_ref().filter(|_| status.connected() < status.connections) {
                self.trouble(trouble);
            }
        }
        let settled = || clusters.iter().all(|(_, status)| status.is_settled());
        match self.style {
            Style::Terminal => self.bar.set_message(doing(clusters)),
            // Only what all have come to: lines stay.
            Style::Lines if !self.headed && settled() => self.say(&doing(clusters)),
            Style::Lines | Style::Machine => {}
        }
    }

    /// Tells when a meter begins to lie, and when the gateway has found it, each once; notes in which slot that was.
    pub fn liars(
        &mut self,
        cluster: &ClusterId,
        status: &Status,
        known: &Offenders,
        found: &mut BTreeMap<MeterId, Slot>,
    ) {
        for (number, begun) in (1..).zip(&status.lies) {
            self.say(&format!("{cluster}: {} {}", ordinal(number), begins(begun.lie)));
        }
        if known.searching && !status.lies.is_empty() {
            self.say(&format!(
                "{cluster}: the gateway sees that a member makes sums invalid, and excludes one group at a time to \
                 find it"
            ));
        }
        found.retain(|meter, _| known.left_out.contains(meter.as_str()));
        let Some((slot, ..)) = status.slot else { return };
        for (number, Begun { meter, since, .. }) in (1..).zip(&status.lies) {
            if !known.left_out.contains(meter.as_str()) || found.contains_key(meter) {
                continue;
            }
            found.insert(meter.clone(), slot);
            let after = slot.0.saturating_sub(since.0).max(1);
            let slots = if after == 1 { "1 slot".to_owned() } else { format!("{after} slots") };
            self.say(&format!(
                "{cluster}: {} is found after {slots}, and excluded from sums from now on, except for a retest now \
                 and then",
                ordinal(number)
            ));
        }
    }

    /// Shows a connection error, once for every reason.
    pub fn trouble(&mut self, reason: &str) {
        self.say(&format!("the broker: {reason}; trying again"));
    }

    pub fn row(&mut self, row: &Row) {
        if self.style == Style::Machine {
            return self.json(row);
        }
        if !std::mem::replace(&mut self.headed, true) {
            self.line(&format!(
                "{:<12} {:<14} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9} {:>10}  outcome",
                "cluster",
                "slot from, UTC",
                "in sum",
                "true sum",
                "published",
                "95 % band",
                "true, all",
                "filtered",
                "95 % band"
            ));
        }
        let aggregate = &row.aggregate;
        self.line(&format!(
            "{:<12} {:<14} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9} {:>10}  {}",
            aggregate.cluster,
            time_of_day(&aggregate.start),
            format!("{}/{}", aggregate.responders, aggregate.members),
            watts(row.expected.map(|expected| expected.truth)),
            watts(aggregate.load_watts),
            band(aggregate.band95_watts),
            row.truth_of_all().map_or_else(|| "-".to_owned(), kilowatts),
            watts(aggregate.load_filtered_watts),
            band(aggregate.band95_filtered_watts),
            outcome(aggregate.outcome.as_str(), aggregate.attempts),
        ));
    }

    pub fn verdict(&mut self, verdict: &Verdict) {
        match self.style {
            Style::Machine => self.json(verdict),
            Style::Terminal | Style::Lines => self.line(&format!("\n{verdict}")),
        }
    }

    /// Shows a message once; on standard error if the output is JSON.
    pub fn say(&mut self, text: &str) {
        if !self.said.insert(text.to_owned()) {
            return;
        }
        match self.style {
            Style::Machine => drop(writeln!(std::io::stderr(), "{text}")),
            Style::Terminal | Style::Lines => self.line(text),
        }
    }

    fn json(&self, what: &impl serde::Serialize) {
        self.line(&serde_json::to_string(what).expect("numbers and texts"));
    }

    fn line(&self, text: &str) {
        self.bar.suspend(|| writeln!(std::io::stdout(), "{text}").ok());
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Names a liar by its number.
fn ordinal(number: usize) -> String {
    if number == 1 { "a dishonest meter".to_owned() } else { format!("dishonest meter {number}") }
}

/// Says how a meter lies from now on.
fn begins(lie: Lie) -> &'static str {
    match lie {
        Lie::NeverReveals => "from now on sends readings but does not help to unmask, so that sums stay closed",
        Lie::SpoilsSums => {
            "from now on sends invalid data, so that no sum with it can be decoded; nobody can see who does it"
        }
    }
}

/// Returns the status of all clusters in one line.
fn doing(clusters: &[(&ClusterId, Status)]) -> String {
    let statuses = || clusters.iter().map(|(_, status)| status);
    let total = |count: fn(&Status) -> usize| statuses().map(count).sum::<usize>();
    let meters = total(|status| status.meters);
    let (connected, connections) = (total(Status::connected), total(|status| status.connections));
    if connected < connections {
        return format!("{connected} of {connections} connections are up");
    }
    if let Some((slot, ..)) = statuses().filter_map(|status| status.slot).max() {
        let newest = statuses().filter_map(|status| status.slot).filter(|(at, ..)| *at == slot);
        let (reported, answered) =
            newest.fold((0, 0), |(reported, answered), (_, some, more)| (reported + some, answered + more));
        let opening = match total(|status| status.holders) {
            0 => format!("{answered} have helped to unmask"),
            holders => format!("{answered} of {holders} holders have answered"),
        };
        return format!("slot {slot}: {reported} of {meters} meters have reported, {opening}");
    }
    if statuses().any(|status| status.busy) {
        let whom = if total(|status| status.holders) > 0 { "the holders" } else { "every other" };
        return format!("{meters} meters agree on keys, each with {whom} of its cluster");
    }
    match total(|status| status.list.map_or(0, |(_, accepted)| accepted)) {
        0 => format!("{meters} meters enrol and wait for the gateway's list of them"),
        accepted => {
            format!(
                "{accepted} of {meters} meters have accepted the gateway's list; the first sum follows when a slot has ended"
            )
        }
    }
}

fn watts(value: Option<i64>) -> String {
    value.map_or_else(|| "-".to_owned(), |watts| kilowatts(watts as f64))
}

fn band(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |band| format!("+-{}", kilowatts(band as f64)))
}

/// Month, day and time of an instant in RFC 3339; seconds only where there are some.
fn time_of_day(at: &str) -> String {
    let part = |range| at.get(range).unwrap_or_default();
    let seconds = Some(part(16..19)).filter(|seconds| *seconds != ":00").unwrap_or_default();
    format!("{} {}{seconds}", part(5..10), part(11..16))
}

fn outcome(word: &str, attempts: u8) -> String {
    match attempts {
        0 | 1 => word.replace('_', " "),
        attempts => format!("{}, attempt {attempts}", word.replace('_', " ")),
    }
}
