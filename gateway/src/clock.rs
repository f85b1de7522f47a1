//! The wall clock as an argument, how instants are written, and the operator's time zone.

mod zone;

pub use dream_edge::clock::{Clock, Standing, SteadyClock, SystemClock};
pub(crate) use dream_edge::time::calendar;
pub use dream_edge::time::rfc3339;
pub use zone::{Period, Zone};
