//! What the demo's gateway says about members that spoil slots, for the terminal: it is on the page as well.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

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
    offenders: Offenders,
}

/// Asks the gateway again and again, until nobody wants to know any more.
pub(super) async fn ask(http: SocketAddr, news: watch::Sender<BTreeMap<String, Offenders>>) {
    while !news.is_closed() {
        tokio::time::sleep(INTERVAL).await;
        let Some(body) = super::ask(http, "/api/v1/clusters").await else { continue };
        let Ok(Clusters { clusters }) = serde_json::from_slice(&body) else { continue };
        let found = clusters.into_iter().map(|cluster| (cluster.id, cluster.offenders)).collect();
        news.send_if_modified(|known| std::mem::replace(known, found) != *known);
    }
}
