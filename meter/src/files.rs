//! The files of a meter and of a community's authority.

pub use dream_edge::files::*;
