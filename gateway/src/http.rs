//! What the gateway serves over HTTP: the page, the API, metrics and health. Read only, and nothing about a single meter
//! but the signed membership lists, and to operators which members spoil slots or drop out.
//!
//! Everything comes in through [`Service`]. Each request is let in by [`Access`], and a handler sees what its sender may see.

pub mod access;
mod api;
mod assets;
mod chart;
mod chart_data;
mod cluster_json;
mod cluster_page;
mod error;
mod gateway_page;
mod group_json;
mod group_page;
mod group_tree;
mod headline;
mod lists_page;
mod load_page;
mod overview;
mod page;
mod past;
mod query;
mod range;
mod reasons;
mod series;
mod shared;
mod slots_page;
mod status;
mod subject;
mod terms;
mod turns;
mod words;

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use dream_edge::serve::Tls;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::board::group::GroupView;
use crate::board::named::NamedMembers;
use crate::board::readiness::{Latch, Readiness};
use crate::board::running::Running;
use crate::board::{Board, ClusterView, holders, offenders, running};
use crate::clock::Clock;
use crate::history::History;
use access::{Access, Need};
use shared::{Common, Shared};

pub use cluster_json::{ClusterJson, ClusterState, HoldersJson, ListJson, ReasonJson};
pub use group_json::{GroupEnergyJson, GroupJson, GroupPeriodJson, GroupSlotJson};

/// What is served.
#[derive(Clone)]
pub struct Service {
    pub board: Arc<Board>,
    /// Members by name, for operators.
    pub members: Arc<NamedMembers>,
    /// The configuration in force, for operators.
    pub running: Arc<Running>,
    pub access: Arc<Access>,
    pub history: Arc<dyn History>,
    pub readiness: Arc<Readiness>,
    /// Returns what Prometheus scrapes.
    pub scrape: Arc<dyn Fn() -> String + Send + Sync>,
    /// The name of this replica, such as `gw-1-0`.
    pub gateway: String,
    pub clock: Arc<dyn Clock>,
    /// What every page begins with: a demonstration says here that it is one.
    pub notice: Option<String>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

/// Returns a router with every path, without a listener.
pub fn router(service: Service) -> axum::Router {
    routes(service, watch::Sender::new(false))
}

/// How many clients may be connected at a time, so that there are files left for the store and the broker.
const CONNECTIONS: usize = 512;

/// Serves until `shutdown` is done: then answers the clients that wait for news, and ends when every answer is out.
pub async fn serve(
    listener: TcpListener,
    service: Service,
    tls: Option<Tls>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let closing = watch::Sender::new(false);
    let closed = closing.clone();
    let stop = async move {
        shutdown.await;
        closed.send_replace(true);
    };
    dream_edge::serve::serve(listener, routes(service, closing), CONNECTIONS, tls, stop).await
}

fn routes(service: Service, closing: watch::Sender<bool>) -> axum::Router {
    let access = service.access.clone();
    // A wrong method is no way around a login either.
    let guarded = |routes: axum::Router<Arc<Common>>, need: Need| {
        let admit = middleware::from_fn_with_state((access.clone(), need), access::admit);
        routes.method_not_allowed_fallback(error::method_not_allowed).layer(admit)
    };
    let pages = axum::Router::new()
        .route("/", get(overview::overview))
        .route("/clusters/{id}", get(load_page::show::<Arc<ClusterView>>))
        .route("/clusters/{id}/slots", get(slots_page::slots))
        .route("/clusters/{id}/lists", get(lists_page::lists))
        .route("/groups/{id}", get(load_page::show::<GroupView>))
        .route("/gateway", get(gateway_page::gateway))
        .route("/assets/{name}", get(assets::asset))
        .route("/api/v1/clusters", get(api::clusters))
        .route("/api/v1/clusters/{id}", get(api::one::<Arc<ClusterView>>))
        .route("/api/v1/clusters/{id}/slots", get(api::slots::<Arc<ClusterView>>))
        .route("/api/v1/clusters/{id}/history", get(api::history::<Arc<ClusterView>>))
        .route("/api/v1/clusters/{id}/membership", get(api::membership))
        .route("/api/v1/clusters/{id}/evidence", get(api::evidence))
        .route("/api/v1/clusters/{id}/evidence/{number}", get(api::evidence_bytes))
        .route("/api/v1/groups", get(api::groups))
        .route("/api/v1/groups/{id}", get(api::one::<GroupView>))
        .route("/api/v1/groups/{id}/slots", get(api::slots::<GroupView>))
        .route("/api/v1/groups/{id}/history", get(api::history::<GroupView>))
        .route("/api/v1/openapi.json", get(openapi))
        .fallback(page::not_found);
    let operator = axum::Router::new()
        .route(offenders::PATH, get(api::offenders))
        .route(holders::PATH, get(api::holders))
        .route(running::PATH, get(api::configuration));
    let metrics = axum::Router::new().route("/metrics", get(metrics));
    let health = axum::Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz));
    guarded(pages, Need::Pages)
        .merge(guarded(operator, Need::Operator))
        .merge(guarded(metrics, Need::Metrics))
        .merge(guarded(health, Need::Health))
        .layer(middleware::map_response(with_headers))
        .with_state(Arc::new(Common::new(service, closing)))
}

/// Runs what reads the store where it keeps nobody waiting.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    // A large answer takes tens of megabytes: few at a time.
    static FEW: Semaphore = Semaphore::const_new(4);
    let one = FEW.acquire().await.expect("it is never closed");
    let work = move || {
        // Held until the work is done: a client that hangs up does not end it.
        let _one = one;
        work()
    };
    tokio::task::spawn_blocking(work).await.expect("work that was started is neither cancelled nor panics")
}

async fn metrics(shared: Shared) -> Response {
    let text = shared.scrape();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// A description of everything here that is for programs (OpenAPI 3.1).
const OPENAPI: &str = include_str!("http/openapi.json");

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], OPENAPI).into_response()
}

async fn readyz(shared: Shared) -> Response {
    let mut awaited: Vec<_> = shared.readiness().awaited().into_iter().map(Latch::as_str).collect();
    if shared.is_stalled() {
        awaited.push("slots closing in time");
    }
    if awaited.is_empty() {
        return "ready\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready, waiting for: {}\n", awaited.join(", "))).into_response()
}

/// On every answer. Scripts and styles come only from here, and nothing may frame the page.
const HEADERS: [(HeaderName, &str); 3] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
];

async fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_that_nobody_waits_for_any_more_is_still_one_of_the_few() {
        static AT_WORK: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        for _ in 0..20 {
            let work = blocking(|| {
                MOST.fetch_max(AT_WORK.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(500));
                AT_WORK.fetch_sub(1, Ordering::SeqCst);
            });
            tokio::time::timeout(Duration::from_millis(10), work).await.ok();
        }
        assert!(MOST.load(Ordering::SeqCst) <= 4);
    }
}
