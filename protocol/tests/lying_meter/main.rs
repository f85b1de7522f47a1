//! Members that lie to an honest gateway, one test per lie: nothing wrong is decoded, and the rule that refuses is named.

#[path = "../support/mod.rs"]
mod support;
