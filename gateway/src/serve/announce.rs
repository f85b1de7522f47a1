//! What other consumers on the broker get: the last aggregate of each cluster, and Home Assistant's discovery of it.

use dream_protocol::ids::ClusterId;
use dream_protocol::topic::GatewayChannel;
use serde::Serialize;
use serde_json::json;

use crate::serve::slot_json::SlotJson;
use crate::store::ClosedSlot;

/// A retained message: its topic and payload.
pub type Retained = (String, Vec<u8>);

/// Returns the message that tells the aggregate of a closed slot, as JSON.
pub fn aggregate(cluster: &ClusterId, closed: &ClosedSlot) -> Retained {
    #[derive(Serialize)]
    struct Aggregate<'a> {
        cluster: &'a str,
        #[serde(flatten)]
        slot: SlotJson,
    }
    let message = Aggregate { cluster: cluster.as_str(), slot: SlotJson::from(closed) };
    let json = serde_json::to_vec(&message).expect("a slot can be written as JSON");
    (GatewayChannel::Aggregate.topic(cluster), json)
}

/// Returns the message that makes a cluster's load appear in Home Assistant as a power sensor.
pub fn discovery(prefix: &str, cluster: &ClusterId, slot_seconds: u64, status_topic: &str) -> Retained {
    let unique_id = format!("dream_{cluster}_load");
    let config = json!({
        "name": "Load",
        "unique_id": unique_id,
        "state_topic": GatewayChannel::Aggregate.topic(cluster),
        "value_template": "{{ value_json.load_watts }}",
        "json_attributes_topic": GatewayChannel::Aggregate.topic(cluster),
        "unit_of_measurement": "W",
        "device_class": "power",
        "state_class": "measurement",
        "expire_after": 3 * slot_seconds,
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
    (discovery_topic(prefix, cluster), config.to_string().into_bytes())
}

/// Returns the message that removes the sensor again.
pub fn discovery_removal(prefix: &str, cluster: &ClusterId) -> Retained {
    (discovery_topic(prefix, cluster), Vec::new())
}

fn discovery_topic(prefix: &str, cluster: &ClusterId) -> String {
    format!("{prefix}/sensor/dream_{cluster}/config")
}
