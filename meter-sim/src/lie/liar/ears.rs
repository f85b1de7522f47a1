//! What the liar hears: messages from the broker, and what becomes of its own in the meters.

use std::time::Duration;

use anyhow::bail;
use dream_protocol::ids::MeterId;
use dream_protocol::topic::{MeterChannel, Topic};
use dream_protocol::wire::{Mac0, MaskedReading, Message as _, Reveal};
use tokio::time::Instant;

use super::Liar;
use crate::lie::crowd::News;
use crate::lie::link::Event;

impl Liar {
    /// Processes what comes until `so` holds; returns whether it did within this time.
    pub(super) async fn until(&mut self, patience: Duration, so: impl Fn(&Self) -> bool) -> anyhow::Result<bool> {
        let deadline = Instant::now() + patience;
        while !so(self) {
            tokio::select! {
                event = self.incoming.recv() => self.take(event)?,
                news = self.news.recv() => self.hear(news)?,
                () = tokio::time::sleep_until(deadline) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn take(&mut self, event: Option<Event>) -> anyhow::Result<()> {
        match event {
            Some(Event::Subscribed) => self.connected += 1,
            Some(Event::Message { topic, payload }) => drop(self.note(&topic, payload)),
            Some(Event::Lost(error)) => bail!("the broker at {} cannot be used: {error}", self.gateway.link),
            None => bail!("the connection to the broker has ended"),
        }
        Ok(())
    }

    fn hear(&mut self, news: Option<News>) -> anyhow::Result<()> {
        match news {
            Some(News::Connected) => self.connected += 1,
            Some(News::Reacted(reaction)) => {
                let of_message = self.reactions.entry(reaction.message).or_default();
                // The broker may deliver twice; what counts is what a message did the first time.
                of_message.entry(reaction.meter).or_insert(reaction);
            }
            Some(News::Lost(error)) => bail!("a meter cannot use the broker: {error}"),
            None => bail!("the meters have ended"),
        }
        Ok(())
    }

    /// Keeps what a meter sent. Anything else is none of its business.
    fn note(&mut self, topic: &str, payload: Vec<u8>) -> Option<()> {
        let Ok(Topic::Meter { channel, meter, .. }) = Topic::parse(topic) else { return None };
        let meter = MeterId::new(meter).ok()?;
        match channel {
            MeterChannel::Enrol => drop(self.enrolments.insert(meter, payload)),
            MeterChannel::Reading => {
                let reading = MaskedReading::decode(Mac0::decode(&payload).ok()?.payload()).ok()?;
                self.readings.entry(reading.slot).or_default().insert(meter, reading);
            }
            MeterChannel::Reveal => {
                let reveal = Reveal::decode(Mac0::decode(&payload).ok()?.payload()).ok()?;
                self.reveals.entry(reveal.slot).or_default().entry(meter).or_insert(reveal);
            }
            MeterChannel::Status => {}
        }
        Some(())
    }
}
