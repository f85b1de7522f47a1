//! What programs share at their edge: [`database`] opens a redb file only after every page of it was checked.

pub mod database;
