//! What the gateway serves over HTTP: the API without a socket, and the page in a real browser.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(unreachable_pub, reason = "a test has no outside")]

mod access;
mod api;
mod charts;
mod energy;
mod fixture;
mod groups;
mod openapi;
mod page;
mod pages;
mod scenery;
