//! The operator's address (`http.operator_listen`): the only place where members are named.

use std::io;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::board::named::NamedMembers;
use crate::board::{holders, offenders};

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

/// How many clients may be connected at a time.
const CONNECTIONS: usize = 16;

/// Serves the operator's address.
pub async fn serve(listener: TcpListener, members: Arc<NamedMembers>) -> io::Result<()> {
    dream_edge::serve::serve(listener, router(members), CONNECTIONS, std::future::pending()).await
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
