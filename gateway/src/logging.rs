//! Logs: as text for people or JSON for machines, on stderr, with a level that can change while running.

use dream_edge::logging::has_colours;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{Registry, fmt, reload};

use crate::config::{Log, LogFormat};

/// Changes the level of a running gateway.
#[derive(Debug, Clone)]
pub struct Level(reload::Handle<Targets, Registry>);

impl Level {
    pub fn set(&self, level: &str) {
        if let Err(error) = self.0.reload(filter(level)) {
            tracing::error!(%error, "the log level could not be changed");
        }
    }
}

/// Starts logging.
pub fn start(log: &Log) -> Result<Level, TryInitError> {
    let (filter, handle) = reload::Layer::new(filter(&log.level));
    let registry = tracing_subscriber::registry().with(filter);
    match log.format {
        LogFormat::Text => {
            let ansi = has_colours(&std::io::stderr());
            registry.with(fmt::layer().with_writer(std::io::stderr).with_ansi(ansi).with_target(false)).try_init()?;
        }
        LogFormat::Json => registry.with(fmt::layer().json().with_writer(std::io::stderr)).try_init()?,
    }
    Ok(Level(handle))
}

/// Our own crates at the level, which the configuration has checked; libraries say only what is wrong.
fn filter(level: &str) -> Targets {
    let level = level.parse().unwrap_or(LevelFilter::INFO);
    Targets::new()
        .with_default(LevelFilter::WARN)
        .with_targets(["dream_gateway", "dream_protocol", "dream_edge"].map(|ours| (ours, level)))
}
