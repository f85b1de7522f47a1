//! A source of any kind: checked once, then run for as long as somebody listens.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::clock::Clock;
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
pub struct Source(Reader);

#[derive(Debug)]
enum Reader {
    Telegrams(Telegrams),
    Mqtt(Mqtt),
    Modbus(Modbus),
    Http(Http),
    Lines(Lines),
}

impl Source {
    /// Checks a configuration; the error names the key, what is wrong with it and what is allowed.
    pub fn new(config: SourceConfig) -> Result<Self, ConfigError> {
        Ok(Self(match config {
            SourceConfig::P1(config) => Reader::Telegrams(Telegrams::p1(config)?),
            SourceConfig::Sml(config) => Reader::Telegrams(Telegrams::sml(config)?),
            SourceConfig::Mqtt(config) => Reader::Mqtt(Mqtt::new(&config)?),
            SourceConfig::Modbus(config) => Reader::Modbus(Modbus::new(config)?),
            SourceConfig::Http(config) => Reader::Http(Http::new(config)?),
            SourceConfig::Lines(config) => Reader::Lines(Lines::new(config)?),
        }))
    }

    /// Says when the source speaks, which [`SlotMean`](crate::SlotMean) needs to know.
    pub const fn cadence(&self) -> Cadence {
        match &self.0 {
            Reader::Telegrams(telegrams) => telegrams.cadence(),
            Reader::Mqtt(mqtt) => mqtt.cadence(),
            Reader::Modbus(modbus) => modbus.cadence(),
            Reader::Http(http) => http.cadence(),
            Reader::Lines(lines) => lines.cadence(),
        }
    }

    /// Connects, yields what happens, and connects again when the source is lost. Returns when nobody listens any more, or
    /// when there will never be more, as at the end of standard input.
    pub async fn run(mut self, clock: Arc<dyn Clock>, events: mpsc::Sender<Event>) {
        let mut outlet = Outlet::new(clock, events);
        let mut wait = RETRY.0;
        loop {
            let stop = match &mut self.0 {
                Reader::Telegrams(telegrams) => telegrams.session(&mut outlet).await,
                Reader::Mqtt(mqtt) => mqtt.session(&mut outlet).await,
                Reader::Modbus(modbus) => modbus.session(&mut outlet).await,
                Reader::Http(http) => http.session(&mut outlet).await,
                Reader::Lines(lines) => lines.session(&mut outlet).await,
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
                wait = RETRY.0;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY.1);
        }
    }
}
