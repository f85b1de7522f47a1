//! What the demo's gateway says about members that spoil slots, for the terminal: it is on the page as well.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use dream_gateway::board::offenders::{OffenderJson, PATH};
use serde::Deserialize;
use tokio::sync::watch;

use crate::trial::Offenders;

/// How often the gateway is asked.
const INTERVAL: Duration = Duration::from_millis(500);

/// The gateway's answer: the fields that are needed here.
#[derive(Debug, Deserialize)]
struct Clusters {
    clusters: Vec<Cluster>,
}

#[derive(Debug, Deserialize)]
struct Cluster {
    id: String,
    offenders: Counts,
}

#[derive(Debug, Deserialize)]
struct Counts {
    searching: bool,
}

/// Asks the gateway again and again, until nobody wants to know any more: whether it searches, and as its operator
/// whom it leaves out.
pub(super) async fn ask(http: SocketAddr, operator: String, news: watch::Sender<BTreeMap<String, Offenders>>) {
    while !news.is_closed() {
        tokio::time::sleep(INTERVAL).await;
        let Some(clusters) = super::ask(http, "/api/v1/clusters", None).await else { continue };
        let Some(named) = super::ask(http, PATH, Some(&operator)).await else { continue };
        let Ok(Clusters { clusters }) = serde_json::from_slice(&clusters) else { continue };
        let Ok(named) = serde_json::from_slice::<Vec<OffenderJson>>(&named) else { continue };
        let known = clusters.into_iter().map(|Cluster { id, offenders: Counts { searching } }| {
            let left_out = named.iter().filter(|known| known.cluster == id && known.left_out_of_sums);
            let left_out: BTreeSet<String> = left_out.map(|known| known.meter.clone()).collect();
            (id, Offenders { left_out, searching })
        });
        news.send_replace(known.collect());
    }
}
