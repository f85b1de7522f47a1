//! Logs on stderr: for people, or for journald, which has the time already and wants to know the level.

use std::io::{Stderr, Write};

use dream_edge::logging::has_colours;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

/// Starts logging.
pub(crate) fn start(level: &str) -> Result<(), TryInitError> {
    let level = level.parse().unwrap_or(LevelFilter::INFO);
    let ours = ["dream_meter", "dream_sources", "dream_edge"].map(|ours| (ours, level));
    // Libraries say only what is wrong.
    let registry =
        tracing_subscriber::registry().with(Targets::new().with_default(LevelFilter::WARN).with_targets(ours));
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        let layer = fmt::layer().with_writer(Journal).without_time().with_level(false);
        registry.with(layer.with_ansi(false).with_target(false)).try_init()
    } else {
        let ansi = has_colours(&std::io::stderr());
        registry.with(fmt::layer().with_writer(std::io::stderr).with_ansi(ansi).with_target(false)).try_init()
    }
}

/// Writes each line with the priority of `sd-daemon(3)` before it.
struct Journal;

impl<'a> MakeWriter<'a> for Journal {
    type Writer = Stderr;

    fn make_writer(&'a self) -> Stderr {
        std::io::stderr()
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Stderr {
        let mut stderr = std::io::stderr();
        // A line without a priority is better than none.
        stderr.write_all(priority(*metadata.level()).as_bytes()).ok();
        stderr
    }
}

fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}
