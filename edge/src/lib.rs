//! What programs share at their edge: [`config`] reads a configuration file and says what is wrong with it, [`database`] opens a redb file only after every page of it was checked, and [`private`]
//! looks who else can read a file.

pub mod config;
pub mod database;
pub mod private;
