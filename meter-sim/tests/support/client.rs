//! MQTT clients of tests: someone who listens and remembers, and someone who says one thing and goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dream_meter_sim::access::Access;
use rumqttc::{
    AsyncClient, Event, EventLoop, LastWill, Outgoing, Packet, PublishOptions, QoS, SubscribeFilter,
    SubscribeReasonCode,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub topic: String,
    pub payload: String,
    /// Whether the broker had kept it.
    pub retained: bool,
}

/// What came of asking a broker for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Granted,
    /// In so many words.
    Refused,
    /// The connection ended instead.
    Disconnected,
}

/// A client with a session that outlives it, which listens until it is dropped.
pub struct Listener {
    client: AsyncClient,
    messages: UnboundedReceiver<Message>,
    seen: Vec<Message>,
    losses: Arc<AtomicUsize>,
    polling: JoinHandle<()>,
}

impl Listener {
    /// Returns when the broker has granted these filters.
    pub async fn start(access: &Access, id: &str, filters: &[&str]) -> Self {
        let (listener, mut answers) = Self::begin(access, id, filters);
        patiently(&format!("{id} to subscribe"), async { while answers.recv().await.unwrap() != Answer::Granted {} })
            .await;
        listener
    }

    /// The same for someone who may not be let in.
    pub async fn attempt(access: &Access, id: &str, filters: &[&str]) -> Result<Self, Answer> {
        let (listener, mut answers) = Self::begin(access, id, filters);
        match patiently(&format!("{id} to be let in or not"), answers.recv()).await.unwrap() {
            Answer::Granted => Ok(listener),
            answer @ (Answer::Refused | Answer::Disconnected) => Err(answer),
        }
    }

    fn begin(access: &Access, id: &str, filters: &[&str]) -> (Self, UnboundedReceiver<Answer>) {
        let (client, eventloop) = persistent(access, id);
        let (sender, messages) = unbounded_channel();
        let (answer, answers) = unbounded_channel();
        let filters: Vec<String> = filters.iter().map(|&filter| filter.to_owned()).collect();
        let losses = Arc::<AtomicUsize>::default();
        let polling = tokio::spawn(listen(client.clone(), eventloop, filters, sender, answer, losses.clone()));
        (Self { client, messages, seen: Vec::new(), losses, polling }, answers)
    }

    /// Publishes with QoS 1, through this connection.
    pub fn publish(&self, topic: &str, payload: &str, retain: bool) {
        let options = PublishOptions::new(QoS::AtLeastOnce).retain(retain);
        self.client.try_publish(topic, payload.to_owned(), options).unwrap();
    }

    /// Waits for this payload on this topic.
    pub async fn wait_for(&mut self, topic: &str, payload: &str) {
        while !self.has_seen(topic, payload) {
            let message = patiently(&format!("`{payload}` on {topic}"), self.messages.recv()).await;
            self.seen.push(message.unwrap());
        }
    }

    /// Whether it has arrived by now.
    pub fn has_seen(&mut self, topic: &str, payload: &str) -> bool {
        self.seen().iter().any(|message| message.topic == topic && message.payload == payload)
    }

    /// All that has arrived by now.
    pub fn seen(&mut self) -> &[Message] {
        while let Ok(message) = self.messages.try_recv() {
            self.seen.push(message);
        }
        &self.seen
    }

    /// The next message.
    pub async fn next(&mut self) -> Message {
        let message = patiently("a message", self.messages.recv()).await.unwrap();
        self.seen.push(message.clone());
        message
    }

    /// How often it was without a connection.
    pub fn losses(&self) -> usize {
        self.losses.load(Ordering::Relaxed)
    }

    /// Goes, and leaves its session behind.
    pub async fn leave(self) {
        self.client.try_disconnect().unwrap();
        // The task ends when the packet is written.
        let mut polling = self.polling;
        patiently("the connection to end", &mut polling).await.ok();
    }
}

async fn listen(
    client: AsyncClient,
    mut eventloop: EventLoop,
    filters: Vec<String>,
    messages: UnboundedSender<Message>,
    answers: UnboundedSender<Answer>,
    losses: Arc<AtomicUsize>,
) {
    while !messages.is_closed() {
        match eventloop.poll().await {
            Ok(Event::Incoming(Packet::ConnAck(_))) if filters.is_empty() => {
                answers.send(Answer::Granted).ok();
            }
            Ok(Event::Incoming(Packet::ConnAck(_))) => {
                let filters = filters.iter().map(|filter| SubscribeFilter::new(filter.clone(), QoS::AtLeastOnce));
                client.try_subscribe_many(filters).unwrap();
            }
            Ok(Event::Incoming(Packet::SubAck(answer))) => drop(answers.send(judge(&answer.return_codes))),
            Ok(Event::Incoming(Packet::Publish(publish))) => drop(messages.send(Message {
                topic: String::from_utf8_lossy(&publish.topic).into_owned(),
                payload: String::from_utf8_lossy(&publish.payload).into_owned(),
                retained: publish.retain,
            })),
            Ok(Event::Outgoing(Outgoing::Disconnect)) => return,
            Ok(Event::Incoming(_) | Event::Outgoing(_)) => {}
            Err(_) => {
                losses.fetch_add(1, Ordering::Relaxed);
                answers.send(Answer::Disconnected).ok();
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Asks for a filter in a session that outlives this, and goes.
pub async fn ask_for(access: &Access, id: &str, filter: &str, qos: QoS) -> Answer {
    let (client, mut eventloop) = persistent(access, id);
    let mut answer = Answer::Disconnected;
    patiently("an answer", async {
        loop {
            match eventloop.poll().await {
                Ok(Event::Incoming(Packet::ConnAck(_))) => {
                    client.try_subscribe(filter, qos).unwrap();
                }
                Ok(Event::Incoming(Packet::SubAck(codes))) => {
                    answer = judge(&codes.return_codes);
                    client.try_disconnect().unwrap();
                }
                Ok(Event::Outgoing(Outgoing::Disconnect)) | Err(_) => return answer,
                Ok(Event::Incoming(_) | Event::Outgoing(_)) => {}
            }
        }
    })
    .await
}

/// Publishes one message with QoS 1 and waits until the broker has dealt with it.
pub async fn say(access: &Access, id: &str, topic: &str, payload: &str, retain: bool) -> Answer {
    let (client, mut eventloop) = AsyncClient::builder(access.options(id)).unbounded().build();
    let mut answer = Answer::Disconnected;
    patiently("an answer", async {
        loop {
            match eventloop.poll().await {
                Ok(Event::Incoming(Packet::ConnAck(_))) => {
                    let options = PublishOptions::new(QoS::AtLeastOnce).retain(retain);
                    client.try_publish(topic, payload.to_owned(), options).unwrap();
                }
                Ok(Event::Incoming(Packet::PubAck(_))) => {
                    answer = Answer::Granted;
                    client.try_disconnect().unwrap();
                }
                Ok(Event::Outgoing(Outgoing::Disconnect)) | Err(_) => return answer,
                Ok(Event::Incoming(_) | Event::Outgoing(_)) => {}
            }
        }
    })
    .await
}

/// Connects with a last will and is cut off.
pub async fn die(access: &Access, id: &str, topic: &str, payload: &str) -> Answer {
    let mut options = access.options(id);
    options.set_last_will(LastWill::new(topic, payload.to_owned(), QoS::AtLeastOnce, false));
    connect(options).await
}

/// Whether a client is let in.
pub async fn knock(access: &Access, id: &str) -> Answer {
    connect(access.options(id)).await
}

/// Connects once; the connection is cut when this returns.
async fn connect(options: rumqttc::MqttOptions) -> Answer {
    let (_client, mut eventloop) = AsyncClient::builder(options).unbounded().build();
    patiently("an answer", async {
        loop {
            match eventloop.poll().await {
                Ok(Event::Incoming(Packet::ConnAck(_))) => return Answer::Granted,
                Ok(Event::Incoming(_) | Event::Outgoing(_)) => {}
                Err(_) => return Answer::Disconnected,
            }
        }
    })
    .await
}

fn persistent(access: &Access, id: &str) -> (AsyncClient, EventLoop) {
    let mut options = access.options(id);
    options.set_clean_session(false);
    AsyncClient::builder(options).unbounded().build()
}

fn judge(codes: &[SubscribeReasonCode]) -> Answer {
    if codes.contains(&SubscribeReasonCode::Failure) { Answer::Refused } else { Answer::Granted }
}

/// Waits, but not for ever.
pub async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}
