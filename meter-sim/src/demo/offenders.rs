//! What the demo's gateway says about members that spoil slots, for the terminal: it is on the page as well.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
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
        let Ok(answer) = get(http, "/api/v1/clusters").await else { continue };
        let body = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(&[][..], |end| &answer[end + 4..]);
        let Ok(Clusters { clusters }) = serde_json::from_slice(body) else { continue };
        let found = clusters.into_iter().map(|cluster| (cluster.id, cluster.offenders)).collect();
        news.send_if_modified(|known| std::mem::replace(known, found) != *known);
    }
}

/// Returns the gateway's whole answer to a GET, with its headers.
pub(super) async fn get(http: SocketAddr, path: &str) -> io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect(http).await?;
    connection.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await?;
    Ok(answer)
}
