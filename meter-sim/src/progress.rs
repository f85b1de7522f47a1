//! One line that is written over, on a terminal only, once it takes long.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Nobody minds to wait that long in silence.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Progress {
    begun: Instant,
    watched: bool,
    done: AtomicUsize,
    of: usize,
    what: &'static str,
}

impl Progress {
    /// Of so many of these, in the plural.
    pub(crate) fn new(of: usize, what: &'static str) -> Self {
        Self { begun: Instant::now(), watched: std::io::stderr().is_terminal(), done: AtomicUsize::new(0), of, what }
    }

    /// One more is done.
    #[expect(clippy::print_stderr, reason = "progress is for whoever watches, not for the file")]
    pub(crate) fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if self.watched && done.is_multiple_of(64) && self.begun.elapsed() > PATIENCE {
            eprint!("\r{done} of {} {}", self.of, self.what);
        }
    }

    /// Leaves an empty line for what comes next.
    #[expect(clippy::print_stderr, reason = "progress is for whoever watches, not for the file")]
    pub(crate) fn end(&self) {
        if self.watched && self.begun.elapsed() > PATIENCE {
            eprint!("\r{:60}\r", "");
        }
    }
}
