//! Someone who listens to everything and remembers it.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use super::PATIENCE;
use super::broker::Access;
use super::client::{Client, Event, Message};

pub struct Watcher {
    client: Client,
    events: UnboundedReceiver<Event>,
    seen: Vec<Message>,
}

impl Watcher {
    /// Listens on these filters from now on; the client's id must be its own.
    pub async fn start(access: &Access, id: &str, filters: &[&str]) -> Self {
        let filters: Vec<String> = filters.iter().map(|&filter| filter.to_owned()).collect();
        let (client, mut events) = Client::connect(access, id, &filters);
        while !matches!(next(&mut events).await, Event::Subscribed) {}
        Self { client, events, seen: Vec::new() }
    }

    pub fn publish(&self, topic: &str, payload: &[u8], retained: bool) {
        self.client.publish(topic, payload, retained);
    }

    /// Waits for a message that arrives from now on and is of this kind.
    pub async fn wait_for(&mut self, what: &str, mut wanted: impl FnMut(&Message) -> bool) -> Message {
        let found = async {
            loop {
                if let Event::Message(message) = next(&mut self.events).await {
                    self.seen.push(message.clone());
                    if wanted(&message) {
                        return message;
                    }
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("waited too long for {what}"))
    }

    /// Forgets nothing, but lets the next [`Watcher::wait_for`] begin now.
    pub fn catch_up(&mut self) -> &[Message] {
        while let Ok(event) = self.events.try_recv() {
            if let Event::Message(message) = event {
                self.seen.push(message);
            }
        }
        &self.seen
    }

    /// Listens for a while.
    pub async fn listen(&mut self, duration: Duration) -> &[Message] {
        tokio::time::sleep(duration).await;
        self.catch_up()
    }
}

async fn next(events: &mut UnboundedReceiver<Event>) -> Event {
    events.recv().await.expect("the client polls as long as the watcher lives")
}
