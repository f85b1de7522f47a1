//! Simulated homes for DREAM.
//!
//! [`home`] is a stochastic model of what a household draws, minute by minute: who is at home and awake, which of 33
//! appliances run, which lamps burn. [`street`] holds many homes and simulates them on all cores. [`slots`] turns minutes
//! into the mean loads of slots, which is what a meter reports. [`source`] hides from the rest whether the loads come from
//! the model or from a file of one's own [`readings`], and [`clustering`] says which home is in which cluster.
//!
//! Everything follows from a seed. Each home has random streams of its own, one a day, so that a home's load depends
//! neither on how many homes there are, nor on which days were asked for before, nor on the number of threads:
//!
//! ```
//! use dream_homes::home::{Calendar, Home, Month, Residents};
//! use dream_homes::slots::SlotLength;
//!
//! let november = Month::new(11).expect("1 to 12");
//! let home = Home::new(2026, 7, Residents::between(1, 5).expect("1 to 5"));
//! let day = home.day(Calendar::Of(november).day(1));
//!
//! let ten_minutes = SlotLength::new(600).expect("divides a day");
//! let watts: Vec<i64> = ten_minutes.means(&day.total());
//! assert_eq!(watts.len(), 144);
//! ```

pub mod args;
pub mod clustering;
pub mod home;
pub mod readings;
pub mod slots;
pub mod source;
pub mod street;
