//! A source of any kind: checked once, then run for as long as somebody listens.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dream_edge::config::{ConfigError, Section, Variables, read_text};
use tokio::sync::mpsc;

use crate::clock::Clock;
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
#[derive(Debug, Clone)]
pub struct Source {
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Telegrams(Telegrams),
    Mqtt(Mqtt),
    Modbus(Modbus),
    Http(Http),
    Lines(Lines),
}

impl Source {
    /// Reads the section `[source]` of a configuration, where mistakes are noted.
    pub fn read(section: &Section<'_>) -> Option<Self> {
        type Read = fn(&Section<'_>) -> Option<Kind>;
        let kinds: [(&str, Read); 6] = [
            ("p1", |section| Telegrams::p1(section).map(Kind::Telegrams)),
            ("sml", |section| Telegrams::sml(section).map(Kind::Telegrams)),
            ("mqtt", |section| Mqtt::read(section).map(Kind::Mqtt)),
            ("modbus", |section| Modbus::read(section).map(Kind::Modbus)),
            ("http", |section| Http::read(section).map(Kind::Http)),
            ("lines", |section| Lines::read(section).map(Kind::Lines)),
        ];
        let Some(read) = section.key("kind").required("\"p1\"").one_of(&kinds) else {
            // Which keys there are depends on it.
            section.accept_any_key();
            return None;
        };
        Some(Self { kind: read(section)? })
    }

    /// Reads the keys of a `[source]` that stand by themselves; `name` is told in place of a file.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let (source, report) = read_text(Path::new(name), text, &Variables::default(), Self::read);
        report.finish(source.flatten())
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
        let mut wait = RETRY.0;
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
                wait = RETRY.0;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY.1);
        }
    }
}
