//! A source of any kind: checked once, then run for as long as somebody listens.

use std::sync::Arc;
use std::time::Duration;

use dream_edge::backoff::Backoff;
use dream_edge::clock::Clock;
use tokio::sync::mpsc;

use crate::config::{ConfigError, SourceConfig};
use crate::http::Http;
use crate::lines::Lines;
use crate::modbus::Modbus;
use crate::mqtt::Mqtt;
use crate::outlet::{Outlet, Stop};
use crate::sample::Event;
use crate::slot_mean::Cadence;
use crate::telegrams::Telegrams;

/// How long to wait before a lost source is tried again: twice as long each time, from the first to the second.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A source whose configuration is sound.
#[derive(Debug)]
pub struct Source {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Telegrams(Telegrams),
    Mqtt(Mqtt),
    Modbus(Modbus),
    Http(Http),
    Lines(Lines),
}

impl Source {
    /// Checks a configuration; the error names the key, what is wrong with it and what is allowed.
    pub fn new(config: SourceConfig) -> Result<Self, ConfigError> {
        let kind = match config {
            SourceConfig::P1(config) => Kind::Telegrams(Telegrams::p1(config)?),
            SourceConfig::Sml(config) => Kind::Telegrams(Telegrams::sml(config)?),
            SourceConfig::Mqtt(config) => Kind::Mqtt(Mqtt::new(&config)?),
            SourceConfig::Modbus(config) => Kind::Modbus(Modbus::new(config)?),
            SourceConfig::Http(config) => Kind::Http(Http::new(config)?),
            SourceConfig::Lines(config) => Kind::Lines(Lines::new(config)?),
        };
        Ok(Self { kind })
    }

    /// Says when the source speaks, which [`SlotMean`](crate::SlotMean) needs to know.
    pub const fn cadence(&self) -> Cadence {
        match &self.kind {
            Kind::Telegrams(telegrams) => telegrams.cadence(),
            Kind::Mqtt(mqtt) => mqtt.cadence(),
            Kind::Modbus(modbus) => modbus.cadence(),
            Kind::Http(http) => http.cadence(),
            Kind::Lines(lines) => lines.cadence(),
        }
    }

    /// Connects, yields what happens, and connects again when the source is lost. Returns when nobody listens any more, or
    /// when there will never be more, as at the end of standard input.
    pub async fn run(mut self, clock: Arc<dyn Clock>, events: mpsc::Sender<Event>) {
        let mut outlet = Outlet::new(clock, events);
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        loop {
            let stop = match &mut self.kind {
                Kind::Telegrams(telegrams) => telegrams.session(&mut outlet).await,
                Kind::Mqtt(mqtt) => mqtt.session(&mut outlet).await,
                Kind::Modbus(modbus) => modbus.session(&mut outlet).await,
                Kind::Http(http) => http.session(&mut outlet).await,
                Kind::Lines(lines) => lines.session(&mut outlet).await,
            };
            let (why, ended) = match stop {
                Stop::Closed => return,
                Stop::Ended(why) => (why, true),
                Stop::Lost(why) => (why, false),
            };
            if outlet.lost(why).await.is_err() || ended {
                return;
            }
            if std::mem::take(&mut outlet.has_sampled) {
                backoff.reset();
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }
}
