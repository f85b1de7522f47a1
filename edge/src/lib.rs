//! What programs share at their edge: [`config`] reads a configuration file and says what is wrong with it, [`database`] opens a
//! redb file only after every page of it was checked, [`private`] looks who else can read a file, and [`shell`] generates man pages
//! and completions. [`HomeKind`] is what configurations, plans and studies call a cluster's homes.

pub mod config;
pub mod database;
mod home_kind;
#[cfg(feature = "issuer")]
pub mod issuer;
pub mod private;
pub mod shell;

pub use home_kind::HomeKind;
