//! What programs share at their edge: [`database`] opens a redb file only after every page of it was checked, and [`private`]
//! looks who else can read a file.

pub mod database;
#[cfg(feature = "issuer")]
pub mod issuer;
pub mod private;
