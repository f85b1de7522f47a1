//! The page's style, script and icon, from the binary itself.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::extract::{Path, RawQuery};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::error::ApiError;

struct Asset {
    name: &'static str,
    kind: &'static str,
    body: &'static str,
}

const ASSETS: [Asset; 3] = [
    Asset { name: "page.css", kind: "text/css; charset=utf-8", body: include_str!("assets/page.css") },
    Asset { name: "page.js", kind: "text/javascript; charset=utf-8", body: include_str!("assets/page.js") },
    Asset { name: "icon.svg", kind: "image/svg+xml", body: include_str!("assets/icon.svg") },
];

/// One version for all: it changes whenever any of them does.
pub(super) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    ASSETS.iter().for_each(|asset| hash.update(asset.body));
    hash.finalize().iter().take(8).fold(String::new(), |mut version, byte| {
        write!(version, "{byte:02x}").expect("a String takes everything");
        version
    })
});

/// `GET /assets/{name}`: forever under its version, as the page asks for it; otherwise to be checked each time.
pub(super) async fn asset(Path(name): Path<String>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return ApiError::unknown_path(&format!("/assets/{name}")).into_response();
    };
    let tag = format!("\"{}\"", *VERSION);
    let versioned = query.is_some_and(|query| query == format!("v={}", *VERSION));
    let cache = if versioned { "public, max-age=31536000, immutable" } else { "no-cache" };
    let known = headers.get(IF_NONE_MATCH).is_some_and(|sent| *sent == *tag);
    let cached = [(ETAG, tag.as_str()), (CACHE_CONTROL, cache)];
    if known {
        return (StatusCode::NOT_MODIFIED, cached).into_response();
    }
    (cached, [(CONTENT_TYPE, asset.kind)], asset.body).into_response()
}
