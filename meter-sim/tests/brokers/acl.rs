//! What the shipped configurations keep meters from, on real brokers. A denied message does not fail at its sender, so that
//! every check looks at the receiving side: nothing arrives, and what the same client sends next on a topic of its own does.
//! That the whole protocol works with the same files is shown by `interop`.

use std::time::Duration;

use dream_testkit::lab::brokers::{Broker, BrokerKind};
use dream_testkit::lab::client::{Answer, connect_once, leave_will, publish_once, subscribe_once};
use dream_testkit::lab::patiently;
use dream_testkit::lab::watcher::Watcher;
use rumqttc::{MqttOptions, QoS};

use super::trial::{CLUSTER, GATEWAY, Party, Trial};

/// What nobody but the gateway may do, or nobody at all.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// A meter reads no readings, reveals, enrolments or statuses of meters, and no aggregates.
    ReadingsAreTheGateways,
    /// An observer reads results, and nothing of a meter's; it publishes nothing.
    ObserversOnlyObserve,
    /// A meter publishes on its own topics only.
    NobodySpeaksForAMeter,
    /// A meter publishes no list, no request, no retry, no aggregate, and nothing else of a gateway's.
    NobodySpeaksForTheGateway,
    /// Nor does it as a last will.
    WillsAreMessages,
    /// A meter that calls itself by the gateway's client id does not get what waits for the gateway, and the gateway does.
    SessionsBelongToTheirOwners,
    /// Nor does the gateway lose its connection to such a meter.
    NobodyDisconnectsAnother,
    /// No certificate, or one of another authority: no connection.
    StrangersStayOut,
}

impl Rule {
    const ALL: [Self; 8] = [
        Self::ReadingsAreTheGateways,
        Self::ObserversOnlyObserve,
        Self::NobodySpeaksForAMeter,
        Self::NobodySpeaksForTheGateway,
        Self::WillsAreMessages,
        Self::SessionsBelongToTheirOwners,
        Self::NobodyDisconnectsAnother,
        Self::StrangersStayOut,
    ];

    /// As `broker-config/README.md` has it.
    fn is_kept_by(self, kind: BrokerKind) -> bool {
        match (kind, self) {
            (BrokerKind::Rumqttd, _) | (BrokerKind::RabbitMq | BrokerKind::Nats, Self::NobodyDisconnectsAnother) => {
                false
            }
            (BrokerKind::Mosquitto | BrokerKind::RabbitMq | BrokerKind::Nats, _) => true,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mosquitto_keeps_the_rules() {
    Scene::new(BrokerKind::Mosquitto).check_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rabbitmq_keeps_the_rules() {
    Scene::new(BrokerKind::RabbitMq).check_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_keeps_the_rules() {
    Scene::new(BrokerKind::Nats).check_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rumqttd_keeps_none_of_the_rules() {
    Scene::new(BrokerKind::Rumqttd).check_all().await;
}

struct Scene {
    trial: Trial,
    broker: Broker,
}

impl Scene {
    fn new(kind: BrokerKind) -> Self {
        let trial = Trial::new(3);
        Self { broker: Broker::start(kind, &trial.clients()), trial }
    }

    async fn check_all(&self) {
        for rule in Rule::ALL {
            let held = match rule {
                Rule::ReadingsAreTheGateways => self.readings_are_the_gateways().await,
                Rule::ObserversOnlyObserve => self.observers_only_observe().await,
                Rule::NobodySpeaksForAMeter => self.nobody_speaks_for_a_meter().await,
                Rule::NobodySpeaksForTheGateway => self.nobody_speaks_for_the_gateway().await,
                Rule::WillsAreMessages => self.wills_are_messages().await,
                Rule::SessionsBelongToTheirOwners => self.sessions_belong_to_their_owners().await,
                Rule::NobodyDisconnectsAnother => self.nobody_disconnects_another().await,
                Rule::StrangersStayOut => self.strangers_stay_out().await,
            };
            assert_eq!(held, rule.is_kept_by(self.broker.kind), "{rule:?} on {}", self.broker.kind);
        }
    }

    /// How a party connects by its own name.
    fn options(&self, who: &Party) -> MqttOptions {
        self.trial.options(&self.broker, who)
    }

    /// How a party connects by the gateway's name.
    fn as_gateway(&self, who: &Party) -> MqttOptions {
        self.trial.options_as(&self.broker, Some(who), &client_id())
    }

    /// The certificate that somebody has got hold of.
    fn attacker(&self) -> &Party {
        self.trial.spare()
    }

    fn victim(&self) -> &Party {
        &self.trial.meters[0]
    }

    async fn says(&self, who: &Party, topic: &str, payload: &str, retain: bool) -> Answer {
        publish_once(self.options(who), topic, payload.as_bytes(), retain).await
    }

    /// The gateway listens to all that it may.
    async fn gateway(&self) -> Watcher {
        let meters = CHANNELS.map(|channel| topic(&format!("{channel}/+")));
        let lists = ["membership", "membership/full"].map(topic);
        let filters: Vec<&str> = meters.iter().chain(&lists).map(String::as_str).collect();
        Watcher::start(self.as_gateway(&self.trial.gateway), &filters).await
    }

    async fn meter(&self, who: &Party, channels: &[&str]) -> Watcher {
        let filters: Vec<String> = channels.iter().map(|channel| topic(channel)).collect();
        let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
        Watcher::start(self.options(who), &filters).await
    }

    async fn readings_are_the_gateways(&self) -> bool {
        let (attacker, victim) = (self.attacker(), self.victim());
        let own = CHANNELS.map(|channel| topic(&format!("{channel}/{}", victim.name)));
        let any = CHANNELS.map(|channel| topic(&format!("{channel}/+")));
        let aggregate = topic("aggregate");
        let wide = ["#", "dream/#", "dream/v1/#", "dream/v1/gateway/#", "dream/v1/+/+/+", "+/+/+/+/+"];
        // Below which NATS hands out messages.
        let inner: &[&str] = if self.broker.kind == BrokerKind::Nats { &["$MQTT/#", "$MQTT/sub/#"] } else { &[] };
        let mut filters: Vec<&str> = own.iter().chain(&any).chain([&aggregate]).map(String::as_str).collect();
        filters.extend(wide.iter().chain(inner));
        for filter in filters {
            // Whatever the answer: if it was granted, it is in the session that the listener below has.
            subscribe_once(self.options(attacker), filter, QoS::AtLeastOnce).await;
        }
        // With QoS 0 NATS reads what it hands to others, if it lets anyone.
        for filter in inner {
            subscribe_once(self.options(attacker), filter, QoS::AtMostOnce).await;
        }
        let mut gateway = self.gateway().await;
        let mut spy = self.meter(attacker, &TO_METERS).await;
        for (number, topic) in own.iter().enumerate() {
            self.says(victim, topic, &format!("secret {number}"), false).await;
            gateway.wait_until_seen(topic, format!("secret {number}").as_bytes()).await;
        }
        gateway.publish(&aggregate, b"a sum", false);
        gateway.publish(DISCOVERY, b"a sensor", false);
        // Requests come after all that, and do arrive.
        gateway.publish(&topic("recovery"), b"a request", false);
        spy.wait_until_seen(&topic("recovery"), b"a request").await;
        let allowed = TO_METERS.map(topic);
        let held = spy.seen().iter().all(|message| allowed.contains(&message.topic) || message.topic == status());
        gateway.leave().await;
        spy.leave().await;
        held
    }

    async fn observers_only_observe(&self) -> bool {
        let (observer, victim) = (&self.trial.observer, self.victim());
        let (reading, aggregate) = (topic(&format!("reading/{}", victim.name)), topic("aggregate"));
        for filter in [reading.as_str(), "dream/v1/#", "dream/v1/+/+/+"] {
            subscribe_once(self.options(observer), filter, QoS::AtLeastOnce).await;
        }
        let mut gateway = self.gateway().await;
        for topic in [reading.clone(), topic("membership"), topic("membership/full")] {
            self.says(observer, &topic, "forged", false).await;
        }
        let mut spy = Watcher::start(self.options(observer), &["dream/v1/+/aggregate"]).await;
        self.says(victim, &reading, "secret", false).await;
        gateway.wait_until_seen(&reading, b"secret").await;
        gateway.publish(&aggregate, b"a later sum", false);
        spy.wait_until_seen(&aggregate, b"a later sum").await;
        let silent = gateway.seen().iter().all(|message| message.payload != b"forged");
        let deaf = spy.seen().iter().all(|message| message.payload != b"secret");
        gateway.leave().await;
        spy.leave().await;
        silent && deaf
    }

    async fn nobody_speaks_for_a_meter(&self) -> bool {
        let (attacker, victim) = (self.attacker(), self.victim());
        let mut gateway = self.gateway().await;
        for channel in CHANNELS {
            self.says(attacker, &topic(&format!("{channel}/{}", victim.name)), "forged", false).await;
        }
        for channel in CHANNELS {
            let own = topic(&format!("{channel}/{}", attacker.name));
            assert_eq!(self.says(attacker, &own, "genuine", false).await, Answer::Granted);
            gateway.wait_until_seen(&own, b"genuine").await;
        }
        let held = gateway.seen().iter().all(|message| message.payload != b"forged");
        gateway.leave().await;
        held
    }

    async fn nobody_speaks_for_the_gateway(&self) -> bool {
        let attacker = self.attacker();
        let mut gateway = self.gateway().await;
        let mut meter = {
            let said = TO_METERS.map(topic);
            let filters: Vec<&str> = said.iter().map(String::as_str).chain(["dream/v1/gateway/+/status"]).collect();
            Watcher::start(self.options(self.victim()), &filters).await
        };
        let observed = [topic("aggregate"), status(), DISCOVERY.to_owned()];
        let mut observer = {
            let filters = ["dream/v1/+/aggregate", "dream/v1/gateway/+/status", "homeassistant/sensor/+/config"];
            Watcher::start(self.options(&self.trial.observer), &filters).await
        };
        for (topic, retain) in gateways_topics() {
            self.says(attacker, &topic, "forged", retain).await;
        }
        let own = topic(&format!("reading/{}", attacker.name));
        assert_eq!(self.says(attacker, &own, "genuine", false).await, Answer::Granted);
        gateway.wait_until_seen(&own, b"genuine").await;
        for (topic, retain) in gateways_topics() {
            gateway.publish(&topic, b"the gateway's", retain);
        }
        for list in ["membership", "membership/full"] {
            gateway.wait_until_seen(&topic(list), b"the gateway's").await;
        }
        for topic in TO_METERS.map(topic).into_iter().chain([status()]) {
            meter.wait_until_seen(&topic, b"the gateway's").await;
        }
        for topic in &observed {
            observer.wait_until_seen(topic, b"the gateway's").await;
        }
        // What is kept is the gateway's too.
        let mut late = self.meter(&self.trial.meters[1], &["membership", "membership/full"]).await;
        for list in ["membership", "membership/full"] {
            late.wait_until_seen(&topic(list), b"the gateway's").await;
        }
        let mut held = true;
        for listener in [&mut gateway, &mut meter, &mut observer, &mut late] {
            held &= listener.seen().iter().all(|message| message.payload != b"forged");
        }
        for listener in [gateway, meter, observer, late] {
            listener.leave().await;
        }
        held
    }

    async fn wills_are_messages(&self) -> bool {
        let (attacker, victim) = (self.attacker(), self.victim());
        let mut gateway = self.gateway().await;
        for topic in [topic("membership"), topic("membership/full"), topic(&format!("reading/{}", victim.name))] {
            leave_will(self.options(attacker), &topic, b"forged will").await;
        }
        // Its own will is carried out.
        let own = topic(&format!("status/{}", attacker.name));
        assert_eq!(leave_will(self.options(attacker), &own, b"own will").await, Answer::Granted);
        gateway.wait_until_seen(&own, b"own will").await;
        let held = gateway.seen().iter().all(|message| message.payload != b"forged will");
        gateway.leave().await;
        held
    }

    async fn sessions_belong_to_their_owners(&self) -> bool {
        let (attacker, victim) = (self.attacker(), self.victim());
        let mut gateway = self.gateway().await;
        gateway.publish(&topic("membership/full"), b"a list", true);
        // When the list is back it is kept.
        gateway.wait_until_seen(&topic("membership/full"), b"a list").await;
        gateway.leave().await;
        let reading = topic(&format!("reading/{}", victim.name));
        assert_eq!(self.says(victim, &reading, "waits", false).await, Answer::Granted);
        let stolen = match Watcher::attempt(self.as_gateway(attacker), &[&topic("membership/full")]).await {
            Err(_) => false,
            Ok(mut thief) => {
                while !thief.has_seen(&topic("membership/full"), b"a list") && !thief.has_seen(&reading, b"waits") {
                    thief.next().await;
                }
                // What waited may come after what was kept.
                tokio::time::sleep(Duration::from_secs(2)).await;
                let stolen = thief.has_seen(&reading, b"waits");
                thief.leave().await;
                stolen
            }
        };
        if stolen {
            return false;
        }
        let mut gateway = self.gateway().await;
        gateway.wait_until_seen(&reading, b"waits").await;
        gateway.leave().await;
        true
    }

    async fn nobody_disconnects_another(&self) -> bool {
        let (attacker, victim) = (self.attacker(), self.victim());
        let mut gateway = self.gateway().await;
        // Whatever the answer: it may come after the harm is done.
        connect_once(self.as_gateway(attacker)).await;
        for _ in 0..50 {
            if gateway.losses() > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let held = gateway.losses() == 0;
        let reading = topic(&format!("reading/{}", victim.name));
        // It comes back, though maybe without its session.
        patiently("the gateway to be back", async {
            while !gateway.has_seen(&reading, b"after all") {
                assert_eq!(self.says(victim, &reading, "after all", false).await, Answer::Granted);
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        })
        .await;
        gateway.leave().await;
        held
    }

    async fn strangers_stay_out(&self) -> bool {
        for party in [&self.trial.gateway, self.attacker(), &self.trial.observer] {
            let answer = connect_once(self.options(party)).await;
            assert_eq!(answer, Answer::Granted, "{}", party.name);
        }
        let mut answers = vec![connect_once(self.trial.options_as(&self.broker, None, &self.attacker().name)).await];
        for party in self.trial.foreigners() {
            answers.push(connect_once(self.options(&party)).await);
        }
        answers.iter().all(|answer| *answer == Answer::Disconnected)
    }
}

const CHANNELS: [&str; 4] = ["enrol", "reading", "reveal", "status"];
/// What a gateway says to meters of a cluster, who may read all of it.
const TO_METERS: [&str; 4] = ["membership", "membership/full", "recovery", "retry"];
const DISCOVERY: &str = "homeassistant/sensor/dream_riverside/config";

fn topic(below: &str) -> String {
    format!("dream/v1/{CLUSTER}/{below}")
}

fn client_id() -> String {
    format!("{GATEWAY}-0")
}

fn status() -> String {
    format!("dream/v1/gateway/{}/status", client_id())
}

/// With whether they are retained.
fn gateways_topics() -> [(String, bool); 7] {
    [
        (topic("membership"), true),
        (topic("membership/full"), true),
        (topic("recovery"), false),
        (topic("retry"), false),
        (topic("aggregate"), true),
        (status(), true),
        (DISCOVERY.to_owned(), true),
    ]
}
