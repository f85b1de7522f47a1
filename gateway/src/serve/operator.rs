//! The operator's address (`http.operator_listen`): the only place where members are named.
//!
//! Names are kept apart from the [board](super::board): what shows the board cannot show a meter.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, RwLock};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use dream_protocol::ids::ClusterId;
use tokio::net::TcpListener;

use super::holders::{self, HolderJson};
use super::offenders::{self, OffenderJson};

/// The members of a cluster that the operator should know of.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Who spoils slots.
    pub offenders: Vec<OffenderJson>,
    /// Which holders vanished, or were at odds with others.
    pub holders: Vec<HolderJson>,
}

/// Members by cluster: the driver writes it, and only the operator's address shows it.
#[derive(Debug, Default)]
pub struct NamedMembers(RwLock<BTreeMap<ClusterId, Names>>);

impl NamedMembers {
    /// Replaces the members of these clusters.
    pub fn set(&self, names: impl IntoIterator<Item = (ClusterId, Names)>) {
        self.0.write().expect("nobody panics while writing").extend(names);
    }

    /// Forgets a cluster that is no longer served.
    pub fn remove(&self, cluster: &ClusterId) {
        self.0.write().expect("nobody panics while writing").remove(cluster);
    }

    /// Returns who spoils slots, by cluster and meter.
    pub fn offenders(&self) -> Vec<OffenderJson> {
        self.all(|names| &names.offenders)
    }

    /// Returns which holders vanished or were at odds with others, by cluster and meter.
    pub fn holders(&self) -> Vec<HolderJson> {
        self.all(|names| &names.holders)
    }

    fn all<T: Clone>(&self, of: impl Fn(&Names) -> &Vec<T>) -> Vec<T> {
        self.0.read().expect("nobody panics while writing").values().flat_map(of).cloned().collect()
    }
}

/// Returns the router of the operator's address.
pub fn router(members: Arc<NamedMembers>) -> axum::Router {
    type Named = State<Arc<NamedMembers>>;
    axum::Router::new()
        .route(offenders::PATH, get(async |State(members): Named| Json(members.offenders())))
        .route(holders::PATH, get(async |State(members): Named| Json(members.holders())))
        .fallback(not_found)
        .layer(axum::middleware::map_response(never_stored))
        .with_state(members)
}

/// Serves the operator's address.
pub async fn serve(listener: TcpListener, members: Arc<NamedMembers>) -> io::Result<()> {
    axum::serve(listener, router(members)).await
}

async fn not_found() -> Response {
    let paths = format!("{} and {}", offenders::PATH, holders::PATH);
    (StatusCode::NOT_FOUND, format!("this address has only {paths}; everything else is on `http.listen`\n"))
        .into_response()
}

async fn never_stored(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
