//! A client that remembers everything it hears.

use rumqttc::MqttOptions;
use tokio::sync::mpsc::UnboundedReceiver;

use super::client::{Answer, Client, Event, Message};
use super::patiently;

/// A client that listens until it is dropped, and remembers all messages.
#[derive(Debug)]
pub struct Watcher {
    client: Client,
    events: UnboundedReceiver<Event>,
    seen: Vec<Message>,
    losses: usize,
}

impl Watcher {
    /// Listens on these filters; returns when the broker has granted them. The client's id must be its own.
    pub async fn start(options: MqttOptions, filters: &[&str]) -> Self {
        let mut watcher = Self::begin(options, filters);
        while watcher.answer().await != Answer::Granted {}
        watcher
    }

    /// Does the same for a client that may not be let in; returns the broker's first answer if it is a refusal.
    pub async fn attempt(options: MqttOptions, filters: &[&str]) -> Result<Self, Answer> {
        let mut watcher = Self::begin(options, filters);
        match watcher.answer().await {
            Answer::Granted => Ok(watcher),
            answer @ (Answer::Refused | Answer::Disconnected) => Err(answer),
        }
    }

    fn begin(options: MqttOptions, filters: &[&str]) -> Self {
        let filters: Vec<String> = filters.iter().map(|&filter| filter.to_owned()).collect();
        let (client, events) = Client::connect(options, &filters);
        Self { client, events, seen: Vec::new(), losses: 0 }
    }

    /// Waits for the broker's next answer to the subscriptions.
    async fn answer(&mut self) -> Answer {
        loop {
            let event = patiently("an answer to a subscription", self.events.recv()).await;
            match event.expect("the client polls as long as the watcher lives") {
                Event::Subscriptions(answer) => return answer,
                Event::Message(message) => self.seen.push(message),
            }
        }
    }

    /// Publishes with QoS 1.
    pub fn publish(&self, topic: &str, payload: &[u8], retain: bool) {
        self.client.publish(topic, payload, retain);
    }

    /// Waits for the next message.
    pub async fn next(&mut self) -> Message {
        self.wait_for("a message", |_| true).await
    }

    /// Waits for a message that was not looked at before and that fulfils a condition.
    pub async fn wait_for(&mut self, what: &str, mut wanted: impl FnMut(&Message) -> bool) -> Message {
        patiently(what, async {
            loop {
                let event = self.events.recv().await;
                let Some(message) = self.note(event.expect("the client polls as long as the watcher lives")) else {
                    continue;
                };
                if wanted(message) {
                    return message.clone();
                }
            }
        })
        .await
    }

    /// Returns all messages so far; the next [`Watcher::wait_for`] looks at later ones.
    pub fn seen(&mut self) -> &[Message] {
        while let Ok(event) = self.events.try_recv() {
            self.note(event);
        }
        &self.seen
    }

    /// Whether this payload has arrived on this topic by now.
    pub fn has_seen(&mut self, topic: &str, payload: &[u8]) -> bool {
        self.seen().iter().any(|message| message.topic == topic && message.payload == payload)
    }

    /// Waits until this payload has arrived on this topic.
    pub async fn wait_until_seen(&mut self, topic: &str, payload: &[u8]) {
        if !self.has_seen(topic, payload) {
            let what = format!("`{}` on {topic}", String::from_utf8_lossy(payload));
            self.wait_for(&what, |message| message.topic == topic && message.payload == payload).await;
        }
    }

    /// Returns how often the connection was lost or could not be made.
    pub fn losses(&mut self) -> usize {
        self.seen();
        self.losses
    }

    /// Disconnects, and leaves the session behind.
    pub async fn leave(self) {
        self.client.leave().await;
    }

    fn note(&mut self, event: Event) -> Option<&Message> {
        match event {
            Event::Message(message) => {
                self.seen.push(message);
                self.seen.last()
            }
            Event::Subscriptions(answer) => {
                self.losses += usize::from(answer == Answer::Disconnected);
                None
            }
        }
    }
}
