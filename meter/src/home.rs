//! Home Assistant on the home's own broker: whether the home takes part, what it has spent, and the load of the whole cluster.
//! Readings go nowhere from here.

use dream_edge::mqtt::{Event, Session};
use dream_protocol::ids::MeterId;
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::broker::Access;
use crate::clock::utc;
use crate::standing::Standing;
use crate::words::{advice, micro};

/// One entity of the meter's device.
struct Entity {
    /// Its key in the state, and the end of its ids.
    key: &'static str,
    component: &'static str,
    name: &'static str,
    icon: &'static str,
    unit: Option<&'static str>,
    device_class: Option<&'static str>,
}

const fn sensor(key: &'static str, name: &'static str, icon: &'static str) -> Entity {
    Entity { key, component: "sensor", name, icon, unit: None, device_class: None }
}

const ENTITIES: [Entity; 6] = [
    Entity { component: "binary_sensor", ..sensor("taking_part", "Taking part", "mdi:account-group") },
    sensor("readings_sent_today", "Readings sent today", "mdi:counter"),
    sensor("epsilon_today", "Epsilon today", "mdi:shield-half-full"),
    sensor("epsilon_budget", "Epsilon budget", "mdi:shield"),
    Entity {
        unit: Some("W"),
        device_class: Some("power"),
        ..sensor("cluster_load", "Load of the cluster", "mdi:home-group")
    },
    sensor("last_refusal", "Last refusal", "mdi:hand-back-left"),
];

/// Keeps Home Assistant informed until the process ends.
pub async fn inform(access: Access, prefix: String, mut standing: watch::Receiver<Standing>) {
    let meter = standing.borrow().meter.clone();
    // Another name than the one at the community's broker: the two may be the same, and would throw each other out.
    let client_id = format!("dream-meter-{meter}-home");
    let last_will = Some((availability_topic(&meter), "offline"));
    let mut connection = access.connect(client_id, last_will);
    let mut session: Option<Session> = None;
    let mut said = None;
    loop {
        tokio::select! {
            event = connection.next() => match event {
                Some(Event::Connected(connected)) => {
                    info!("connected to the home's broker");
                    for (topic, payload) in discovery(&prefix, &meter) {
                        connected.publish(topic, payload, true);
                    }
                    connected.publish(availability_topic(&meter), "online", true);
                    (session, said) = (Some(connected), None);
                }
                Some(Event::Lost(trouble)) => {
                    warn!(reason = %trouble, "no connection to the home's broker");
                    session = None;
                }
                Some(Event::Subscribed { .. } | Event::Refused { .. } | Event::Messages(_)) => {}
                None => return,
            },
            changed = standing.changed() => if changed.is_err() { return },
        }
        let now = state(&standing.borrow_and_update());
        if let Some(session) = session.as_ref().filter(|_| said.as_ref() != Some(&now)) {
            session.publish(state_topic(&meter), now.to_string().into_bytes(), true);
            said = Some(now);
        }
    }
}

/// Removes the entities, and what was retained of them.
pub fn remove(session: &Session, prefix: &str, meter: &MeterId) {
    for (topic, _) in discovery(prefix, meter) {
        session.publish(topic, Vec::new(), true);
    }
    for topic in [state_topic(meter), availability_topic(meter)] {
        session.publish(topic, Vec::new(), true);
    }
}

fn state_topic(meter: &MeterId) -> String {
    format!("dream-meter/{meter}/state")
}

fn availability_topic(meter: &MeterId) -> String {
    format!("dream-meter/{meter}/status")
}

/// What the entities show.
fn state(standing: &Standing) -> Value {
    let refusal = standing.last_refusal.as_ref();
    let budget = Some(standing.budget_micro).filter(|budget| *budget != u64::MAX).map(micro);
    json!({
        "taking_part": if standing.takes_part() { "ON" } else { "OFF" },
        "readings_sent_today": standing.sent_today,
        "epsilon_today": micro(standing.spent_micro),
        "epsilon_budget": budget,
        "cluster_load": standing.load.as_ref().and_then(|load| load.load_watts),
        // A state of Home Assistant has 255 characters at most; the attributes have the rest.
        "last_refusal": refusal.map_or_else(|| "none".to_owned(), |(at, _)| utc(at.as_secs())),
        "refused": refusal.map(|(_, refusal)| refusal.to_string()),
        "what_to_do": refusal.map(|(_, refusal)| advice(refusal)),
    })
}

/// Returns the retained messages that make the meter appear in Home Assistant.
fn discovery(prefix: &str, meter: &MeterId) -> Vec<(String, Vec<u8>)> {
    let config = |entity: &Entity| {
        let id = format!("dream_meter_{meter}_{}", entity.key);
        let mut config = json!({
            "name": entity.name,
            "unique_id": id,
            "icon": entity.icon,
            "state_topic": state_topic(meter),
            "value_template": format!("{{{{ value_json.{} }}}}", entity.key),
            "availability_topic": availability_topic(meter),
            "device": {
                "identifiers": [format!("dream_meter_{meter}")],
                "name": format!("DREAM meter {meter}"),
                "manufacturer": "DREAM",
                "sw_version": env!("CARGO_PKG_VERSION"),
            },
        });
        if let Some(unit) = entity.unit {
            config["unit_of_measurement"] = unit.into();
        }
        if let Some(class) = entity.device_class {
            config["device_class"] = class.into();
        }
        if entity.key == "last_refusal" {
            config["json_attributes_topic"] = state_topic(meter).into();
            let attributes = "{{ {'refused': value_json.refused, 'what_to_do': value_json.what_to_do} | tojson }}";
            config["json_attributes_template"] = attributes.into();
        }
        (format!("{prefix}/{}/{id}/config", entity.component), config.to_string().into_bytes())
    };
    ENTITIES.iter().map(config).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::tests::ordinary;

    #[test]
    fn every_entity_has_a_value_in_the_state() {
        let state = state(&ordinary());
        for entity in &ENTITIES {
            assert!(state.get(entity.key).is_some_and(|value| !value.is_null()), "{}", entity.key);
        }
        insta::assert_snapshot!(serde_json::to_string_pretty(&state).unwrap());
    }

    #[test]
    fn entities_are_discovered_under_the_prefix() {
        let messages = discovery("homeassistant", &ordinary().meter);
        let show = |(topic, payload): &(String, Vec<u8>)| format!("{topic}\n  {}\n", String::from_utf8_lossy(payload));
        insta::assert_snapshot!(messages.iter().map(show).collect::<String>());
    }
}
