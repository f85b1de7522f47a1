//! The rights that a gateway needs at its broker, as topics of a cluster that does not exist: what is tried there, nobody acts upon.

use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::topic::{self, GatewayChannel, MeterChannel};

use super::announce;
use super::driver::connection::filters;

/// The cluster, the meter and the replica that are none.
pub const NOBODY: &str = "dream-doctor";

/// A right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// As rules name it.
    pub rule: String,
    pub act: Act,
}

/// What the gateway does with a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Reads by this filter; a message on the topic would come.
    Subscribe {
        filter: String,
        topic: String,
    },
    Publish {
        topic: String,
        retained: bool,
    },
}

/// Returns the rights of a gateway, which announces clusters to Home Assistant under the prefix if there is one.
pub fn needed(home_assistant: Option<&str>) -> Vec<Right> {
    let cluster = ClusterId::new(NOBODY).expect("the name of a cluster");
    let meter = MeterId::new(NOBODY).expect("the name of a meter");
    let replica = GatewayId::new(NOBODY).expect("the name of a gateway");
    let rule = |topic: &str| topic.replace(NOBODY, "+");
    let subscribe = filters(&cluster).into_iter().map(|filter| {
        let of_meters = MeterChannel::ALL.into_iter().find(|channel| channel.filter(&cluster) == filter);
        let topic = of_meters.map_or_else(|| filter.clone(), |channel| channel.topic(&cluster, &meter));
        Right { rule: rule(&filter), act: Act::Subscribe { filter, topic } }
    });
    let channels = GatewayChannel::ALL.into_iter().map(|channel| (channel.topic(&cluster), channel.is_retained()));
    let status = [(topic::gateway_status(&replica), true)];
    let sensors = home_assistant.into_iter().flat_map(|prefix| announce::discovery_removal(prefix, &cluster));
    let sensor = sensors.take(1).map(|(topic, _)| (topic, true));
    let publish = channels.chain(status).chain(sensor);
    let publish = publish.map(|(topic, retained)| Right {
        rule: topic.replace(&format!("dream_{NOBODY}"), "+").replace(NOBODY, "+"),
        act: Act::Publish { topic, retained },
    });
    subscribe.chain(publish).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rights_are_those_of_the_table_for_operators() {
        let page = include_str!("../../../docs/operations.md");
        let (_, table) = page.split_once("| Topic | Right |\n|---|---|\n").unwrap();
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        let mut granted: Vec<(String, &str)> = Vec::new();
        for row in rows {
            let (topics, right) = row.trim_matches('|').split_once('|').unwrap();
            for topic in topics.split('`').skip(1).step_by(2) {
                let topic = topic.replace("{id}-{ordinal}", "+");
                granted.extend(right.contains("subscribe").then(|| (topic.clone(), "subscribe")));
                granted.extend(right.contains("publish").then_some((topic, "publish")));
            }
        }
        let mut needed: Vec<(String, &str)> = needed(Some("homeassistant"))
            .into_iter()
            .map(|Right { rule, act }| match act {
                Act::Subscribe { .. } => (rule, "subscribe"),
                Act::Publish { .. } => (rule, "publish"),
            })
            .collect();
        granted.sort();
        needed.sort();
        assert_eq!(needed, granted);
    }
}
