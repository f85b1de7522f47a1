//! Shows which part is being worked on, and how far a long one is: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Without a terminal, a line says when so many more per cent of a part are done.
const STEP: u32 = 20;

#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: bool,
    part: Mutex<(String, Instant)>,
    /// How many per cent of the part the last line told of.
    told: AtomicU32,
}

impl Progress {
    pub(crate) fn new(parts: usize) -> Self {
        let lines = !std::io::stderr().is_terminal();
        let bar = if lines { ProgressBar::hidden() } else { ProgressBar::new(parts as u64) };
        let style = ProgressStyle::with_template("{bar:24} {pos} of {len}  {msg} {elapsed}");
        bar.set_style(style.expect("a valid template"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, lines, part: Mutex::new((String::new(), Instant::now())), told: AtomicU32::new(0) }
    }

    pub(crate) fn begin(&self, part: String) {
        self.bar.set_message(part.clone());
        *self.part.lock().unwrap_or_else(PoisonError::into_inner) = (part, Instant::now());
        self.told.store(0, Ordering::Relaxed);
    }

    /// Says that so much of the part is done.
    pub(crate) fn percent(&self, percent: u32) {
        let (part, _) = &*self.part.lock().unwrap_or_else(PoisonError::into_inner);
        self.bar.set_message(format!("{part} {percent} %"));
        if percent < 100 && percent >= self.told.load(Ordering::Relaxed) + STEP {
            self.told.store(percent, Ordering::Relaxed);
            self.line(&format!("{part}: {percent} %"));
        }
    }

    pub(crate) fn end(&self) {
        let (part, begun) = &*self.part.lock().unwrap_or_else(PoisonError::into_inner);
        self.bar.inc(1);
        self.line(&format!("{part}: {:.1} s", begun.elapsed().as_secs_f64()));
    }

    #[expect(clippy::print_stderr, reason = "progress")]
    fn line(&self, text: &str) {
        if self.lines {
            eprintln!("{text}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
