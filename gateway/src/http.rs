//! What the gateway serves over HTTP: metrics and health.

use crate::board::{Board, History};
use crate::readiness::Readiness;
use axum::extract::State;
use axum::routing::get;
use dream_protocol::time::Timestamp;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use tokio::net::TcpListener;
#[derive(Clone)]
pub struct Service {
    pub board: Arc<Board>,
    pub history: Arc<dyn History>,
    pub readiness: Arc<Readiness>,
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    pub gateway: String,
    pub clock: fn() -> Timestamp,
}
impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}
pub async fn serve(
    listener: TcpListener,
    service: Service,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let app = axum::Router::new()
        .route("/metrics", get(|State(s): State<Service>| async move { (s.metrics)() }))
        .route("/readyz", get(|State(s): State<Service>| async move { format!("{:?}", s.readiness.awaited()) }))
        .with_state(service);
    axum::serve(listener, app).with_graceful_shutdown(shutdown).await
}
