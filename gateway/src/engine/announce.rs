//! What other consumers on the broker get: the last aggregate of each cluster, and Home Assistant's discovery of it.

use dream_protocol::ids::ClusterId;
use dream_protocol::topic::GatewayChannel;
use serde::Serialize;
use serde_json::json;

use crate::board::energy::{EnergyView, PeriodsJson};
use crate::board::slot_json::SlotJson;
use crate::history::ClosedSlot;

/// A retained message: its topic and payload.
pub type Retained = (String, Vec<u8>);

/// Returns the JSON message with the aggregate of a closed slot and the energy so far of its hour, day and month.
pub fn aggregate(cluster: &ClusterId, closed: &ClosedSlot, energy: Option<&EnergyView>) -> Retained {
    #[derive(Serialize)]
    struct Aggregate<'a> {
        cluster: &'a str,
        #[serde(flatten)]
        slot: SlotJson,
        energy: PeriodsJson,
    }
    let energy = energy.map(PeriodsJson::of_last_slot).unwrap_or_default();
    let message = Aggregate { cluster: cluster.as_str(), slot: SlotJson::from(closed), energy };
    let json = serde_json::to_vec(&message).expect("a slot can be written as JSON");
    (GatewayChannel::Aggregate.topic(cluster), json)
}

/// A sensor of a cluster's device in Home Assistant.
struct Sensor {
    /// What follows the cluster's name in topics, and in ids.
    suffix: &'static str,
    id: &'static str,
    name: &'static str,
    value: &'static str,
    /// What is shown beside the value; without, everything that is published.
    attributes: Option<&'static str>,
    quantity: Quantity,
}

/// What a sensor measures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Power,
    /// Counted from a moment that the template tells.
    EnergySince(&'static str),
}

/// The noisy sum of the last slot, what the filter makes of all so far, and the energy of the day of the last slot. That is a
/// `total` and not `total_increasing`: noise may make it fall.
const SENSORS: [Sensor; 3] = [
    Sensor {
        suffix: "",
        id: "_load",
        name: "Load",
        value: "{{ value_json.load_watts }}",
        attributes: None,
        quantity: Quantity::Power,
    },
    Sensor {
        suffix: "_filtered",
        id: "_load_filtered",
        name: "Filtered load",
        value: "{{ value_json.load_filtered_watts }}",
        attributes: Some("{{ {'band95_watts': value_json.band95_filtered_watts, 'end': value_json.end} | tojson }}"),
        quantity: Quantity::Power,
    },
    Sensor {
        suffix: "_energy",
        id: "_energy",
        name: "Energy today",
        value: "{{ value_json.energy.day.energy_watt_hours }}",
        attributes: Some("{{ value_json.energy.day | tojson }}"),
        quantity: Quantity::EnergySince("{{ value_json.energy.day.start }}"),
    },
];

/// Returns the messages that make a cluster appear in Home Assistant: one device with two power sensors and one of energy.
pub fn discovery(prefix: &str, cluster: &ClusterId, slot_seconds: u64, status_topic: &str) -> Vec<Retained> {
    let aggregate = GatewayChannel::Aggregate.topic(cluster);
    let config = |sensor: &Sensor| {
        let mut config = json!({
            "name": sensor.name,
            "unique_id": format!("dream_{cluster}{}", sensor.id),
            "state_topic": aggregate,
            "value_template": sensor.value,
            "json_attributes_topic": aggregate,
            "availability_topic": status_topic,
            "payload_available": "online",
            "payload_not_available": "offline",
            "device": {
                "identifiers": [format!("dream_{cluster}")],
                "name": format!("Cluster {cluster}"),
                "manufacturer": "DREAM gateway",
                "sw_version": env!("CARGO_PKG_VERSION"),
            },
            "origin": { "name": "DREAM gateway", "sw_version": env!("CARGO_PKG_VERSION") },
        });
        match sensor.quantity {
            Quantity::Power => {
                config["unit_of_measurement"] = "W".into();
                config["device_class"] = "power".into();
                config["state_class"] = "measurement".into();
                config["expire_after"] = (3 * slot_seconds).into();
            }
            // What has been used so far is no less true when it is old.
            Quantity::EnergySince(reset) => {
                config["unit_of_measurement"] = "Wh".into();
                config["device_class"] = "energy".into();
                config["state_class"] = "total".into();
                config["last_reset_value_template"] = reset.into();
            }
        }
        if let Some(template) = sensor.attributes {
            config["json_attributes_template"] = template.into();
        }
        (discovery_topic(prefix, cluster, sensor), config.to_string().into_bytes())
    };
    SENSORS.iter().map(config).collect()
}

/// Returns the messages that remove the sensors again.
pub fn discovery_removal(prefix: &str, cluster: &ClusterId) -> Vec<Retained> {
    SENSORS.iter().map(|sensor| (discovery_topic(prefix, cluster, sensor), Vec::new())).collect()
}

fn discovery_topic(prefix: &str, cluster: &ClusterId, sensor: &Sensor) -> String {
    format!("{prefix}/sensor/dream_{cluster}{}/config", sensor.suffix)
}
