//! The live view: one line a slot, and on a terminal a line below that shows that something happens.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget};

use crate::verdict::Row;

/// How slots are shown.
#[derive(Debug)]
pub struct View {
    waiting: ProgressBar,
    headed: bool,
    quiet: bool,
}

impl View {
    /// For people; `quiet` shows nothing, for machines.
    pub fn new(quiet: bool, waiting_for: &str) -> Self {
        let shown = std::io::stderr().is_terminal() && !quiet;
        let waiting = ProgressBar::with_draw_target(
            None,
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() },
        );
        waiting.set_message(waiting_for.to_owned());
        waiting.enable_steady_tick(Duration::from_millis(200));
        Self { waiting, headed: false, quiet }
    }

    pub fn row(&mut self, row: &Row) {
        if self.quiet {
            return;
        }
        if !std::mem::replace(&mut self.headed, true) {
            self.line(&format!(
                "{:<12} {:>12} {:>11} {:>11} {:>10} {:>10} {:>9}  outcome",
                "cluster", "slot", "true sum", "published", "off by", "95 % band", "answered"
            ));
        }
        self.waiting.set_message("waiting for the next slot");
        let aggregate = &row.aggregate;
        self.line(&format!(
            "{:<12} {:>12} {:>11} {:>11} {:>10} {:>10} {:>9}  {}",
            aggregate.cluster,
            aggregate.slot,
            watts(row.expected.map(|expected| expected.truth)),
            watts(aggregate.load_watts),
            watts(row.error()),
            aggregate.band95_watts.map_or_else(|| "-".to_owned(), |band| format!("+-{band} W")),
            format!("{}/{}", aggregate.responders, aggregate.members),
            outcome(aggregate.outcome.as_str(), aggregate.attempts),
        ));
    }

    fn line(&self, text: &str) {
        self.waiting.suspend(|| writeln!(std::io::stdout(), "{text}").ok());
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.waiting.finish_and_clear();
    }
}

fn watts(value: Option<i64>) -> String {
    value.map_or_else(|| "-".to_owned(), |watts| format!("{watts} W"))
}

fn outcome(word: &str, attempts: u8) -> String {
    match attempts {
        0 | 1 => word.replace('_', " "),
        attempts => format!("{}, attempt {attempts}", word.replace('_', " ")),
    }
}
