//! Incoming events: messages from the broker, and the meters' responses.

use std::time::Duration;

use anyhow::bail;
use dream_protocol::ids::MeterId;
use dream_protocol::topic::{MeterChannel, Topic};
use dream_protocol::wire::{Mac0, MaskedReading, Message as _, Reveal};
use tokio::time::Instant;

use super::DishonestGateway;
use crate::lie::link::Event;
use crate::lie::meters::MeterEvent;

impl DishonestGateway {
    /// Processes events until the condition holds. Returns whether it did within the timeout.
    pub(super) async fn until(&mut self, timeout: Duration, condition: impl Fn(&Self) -> bool) -> anyhow::Result<bool> {
        let deadline = Instant::now() + timeout;
        while !condition(self) {
            tokio::select! {
                event = self.incoming.recv() => self.on_event(event)?,
                event = self.meter_events.recv() => self.on_meter_event(event)?,
                () = tokio::time::sleep_until(deadline) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn on_event(&mut self, event: Option<Event>) -> anyhow::Result<()> {
        match event {
            Some(Event::Subscribed) => self.connected += 1,
            Some(Event::Message { topic, payload }) => drop(self.store(&topic, payload)),
            Some(Event::Lost(error)) => bail!("the connection to the broker at {} failed: {error}", self.gateway.link),
            None => bail!("the connection to the broker has ended"),
        }
        Ok(())
    }

    fn on_meter_event(&mut self, event: Option<MeterEvent>) -> anyhow::Result<()> {
        match event {
            Some(MeterEvent::Connected) => self.connected += 1,
            Some(MeterEvent::Reacted(reaction)) => {
                let of_message = self.reactions.entry(reaction.message).or_default();
                // The broker may deliver twice; what counts is what a message did the first time.
                of_message.entry(reaction.meter).or_insert(reaction);
            }
            Some(MeterEvent::Lost(error)) => bail!("a meter's connection to the broker failed: {error}"),
            None => bail!("the meters have ended"),
        }
        Ok(())
    }

    /// Stores what a meter sent, and ignores anything else.
    fn store(&mut self, topic: &str, payload: Vec<u8>) -> Option<()> {
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
