//! A progress line on terminals, for work that takes longer than a second.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long the work takes before the line appears.
const DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Progress {
    begun: Instant,
    watched: bool,
    done: AtomicUsize,
    of: usize,
    what: &'static str,
}

impl Progress {
    /// Creates the progress of `of` items, which are named in the plural.
    pub(crate) fn new(of: usize, what: &'static str) -> Self {
        Self { begun: Instant::now(), watched: std::io::stderr().is_terminal(), done: AtomicUsize::new(0), of, what }
    }

    /// Counts one more item.
    #[expect(clippy::print_stderr, reason = "progress is for the person who watches, not for the file")]
    pub(crate) fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if self.watched && done.is_multiple_of(64) && self.begun.elapsed() > DELAY {
            eprint!("\r{done} of {} {}", self.of, self.what);
        }
    }

    /// Clears the line.
    #[expect(clippy::print_stderr, reason = "progress is for the person who watches, not for the file")]
    pub(crate) fn end(&self) {
        if self.watched && self.begun.elapsed() > DELAY {
            eprint!("\r{:60}\r", "");
        }
    }
}
