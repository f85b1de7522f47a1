//! The clocks of this machine, and whether its wall clock is right.

mod synchronised;

pub use dream_edge::clock::wall;
pub use dream_edge::time::utc;
pub use synchronised::{Synchronised, SystemTimeSource, TimeSource};
