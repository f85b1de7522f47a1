//! A source of any kind: checked once, then run for as long as somebody listens.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dream_edge::backoff::Backoff;
use dream_edge::clock::Clock;
use dream_edge::config::{ConfigError, Section, Variables, read_text};
use tokio::sync::mpsc;

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
pub struct Source(Reader);

#[derive(Debug, Clone)]
enum Reader {
    Telegrams(Telegrams),
    Mqtt(Mqtt),
    Modbus(Modbus),
    Http(Http),
    Lines(Lines),
}

impl Source {
    /// Reads the section `[source]` of a configuration, where mistakes are noted.
    pub fn read(section: &Section<'_>) -> Option<Self> {
        type Read = fn(&Section<'_>) -> Option<Reader>;
        let kinds: [(&str, Read); 8] = [
            ("p1", |section| Telegrams::p1(section).map(Reader::Telegrams)),
            ("sml", |section| Telegrams::sml(section).map(Reader::Telegrams)),
            ("dlms", |section| Telegrams::dlms(section).map(Reader::Telegrams)),
            ("tic", |section| Telegrams::tic(section).map(Reader::Telegrams)),
            ("mqtt", |section| Mqtt::read(section).map(Reader::Mqtt)),
            ("modbus", |section| Modbus::read(section).map(Reader::Modbus)),
            ("http", |section| Http::read(section).map(Reader::Http)),
            ("lines", |section| Lines::read(section).map(Reader::Lines)),
        ];
        let Some(read) = section.key("kind").required("\"p1\"").one_of(&kinds) else {
            // Which keys there are depends on it.
            section.accept_any_key();
            return None;
        };
        read(section).map(Self)
    }

    /// Reads the keys of a `[source]` without its heading; errors show `name` in place of a file.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let (source, report) = read_text(Path::new(name), text, &Variables::default(), Self::read);
        report.finish(source.flatten())
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
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
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
                backoff.reset();
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }
}
