//! A run under observation: what the gateway publishes, slot by slot, beside the right answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::Duration;

use dream_protocol::ids::ClusterId;
use dream_protocol::time::Slot;
use dream_protocol::topic::GatewayChannel;
use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS, SubscribeFilter};

use crate::fleet::Running;
use crate::verdict::{Aggregate, Row};
use crate::view::View;

/// Watches the aggregates of running clusters until each has closed `slots`, or `stop` is done.
pub async fn observe(
    options: MqttOptions,
    clusters: &[Running],
    slots: Option<usize>,
    view: &mut View,
    stop: impl Future<Output = ()>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let watching = async {
        let mut seen: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        let (client, mut eventloop) = AsyncClient::builder(options).unbounded().build();
        let filter =
            |cluster: &ClusterId| SubscribeFilter::new(GatewayChannel::Aggregate.topic(cluster), QoS::AtLeastOnce);
        let filters: Vec<_> = clusters.iter().map(|running| filter(&running.cluster)).collect();
        loop {
            match eventloop.poll().await {
                Ok(Event::Incoming(Packet::ConnAck(_))) => drop(client.try_subscribe_many(filters.clone())),
                // What was retained before this run is not of this run.
                Ok(Event::Incoming(Packet::Publish(publish))) if !publish.retain => {
                    let Ok(aggregate) = serde_json::from_slice::<Aggregate>(&publish.payload) else { continue };
                    if !seen.entry(aggregate.cluster.clone()).or_default().insert(aggregate.slot) {
                        continue;
                    }
                    let row = beside_the_truth(aggregate, clusters);
                    view.row(&row);
                    rows.push(row);
                    let enough =
                        |wanted| seen.len() == clusters.len() && seen.values().all(|slots| slots.len() >= wanted);
                    if slots.is_some_and(enough) {
                        return;
                    }
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        }
    };
    tokio::select! { () = watching => {}, () = stop => {} }
    rows
}

fn beside_the_truth(aggregate: Aggregate, clusters: &[Running]) -> Row {
    let running = clusters.iter().find(|running| running.cluster.as_str() == aggregate.cluster);
    let expected = running.and_then(|running| {
        running.oracle.lock().unwrap_or_else(PoisonError::into_inner).expected(Slot(aggregate.slot))
    });
    Row { aggregate, expected }
}
