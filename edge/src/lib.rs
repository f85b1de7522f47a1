//! What programs share at their edge: [`database`] opens a redb file only after every page of it was checked, [`private`]
//! looks who else can read a file, and [`shell`] generates man pages and completions.

pub mod database;
pub mod private;
pub mod shell;
