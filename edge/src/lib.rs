//! What programs share at their edge: [`database`] opens a redb file only after every page of it was checked, and [`private`]
//! looks who else can read a file. [`HomeKind`] is what configurations, plans and studies call a cluster's homes.

pub mod database;
mod home_kind;
pub mod private;

pub use home_kind::HomeKind;
