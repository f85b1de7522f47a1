//! Simulated homes and meters for DREAM.
//!
//! [`home`] is a stochastic model of what a household draws, minute by minute: who is at home and awake, which of 33
//! appliances run, which lamps burn. [`street`] holds many homes and simulates them on all cores. [`slots`] turns minutes
//! into the mean loads of slots, which is what a meter reports. [`source`] hides from the rest whether the loads come from
//! the model or from a file of one's own [`readings`]. [`trace`] is the command that writes them down, and
//! [`clustering`] says which home is in which cluster.
//!
//! [`provision`] makes the certificates of a trial, [`access`] and [`broker`] reach a broker or start one, and [`lie`] plays a
//! dishonest gateway against honest meters.
//!
//! [`fleet`] runs meters over MQTT, which misbehave as [`conduct`] says; an [oracle](dream_testkit::oracle) knows what they hid,
//! [`trial`] holds it against what the gateway publishes, [`view`] shows it and [`verdict`] says whether anything was wrong. [`run`] does so on a
//! broker of one's own, and [`demo`] is all of it on one machine, with the real gateway.
//!
//! Everything follows from a seed. Each home has random streams of its own, one a day, so that a home's load depends
//! neither on how many homes there are, nor on which days were asked for before, nor on the number of threads:
//!
//! ```
//! use dream_meter_sim::home::{Day, DayKind, Home, Month, Residents};
//! use dream_meter_sim::slots::SlotLength;
//!
//! let november = Month::new(11).expect("1 to 12");
//! let home = Home::new(2026, 7, Residents::between(1, 5).expect("1 to 5"));
//! let day = home.day(Day { number: 1, month: november, kind: DayKind::Weekday });
//!
//! let ten_minutes = SlotLength::new(600).expect("divides a day");
//! let watts: Vec<i64> = ten_minutes.means(&day.total());
//! assert_eq!(watts.len(), 144);
//! ```

pub mod access;
pub mod broker;
pub mod cli;
pub mod clock;
pub mod clustering;
pub mod conduct;
pub mod demo;
pub mod fleet;
pub mod home;
pub mod lie;
mod progress;
pub mod provision;
pub mod readings;
pub mod run;
pub mod slots;
pub mod source;
pub mod street;
pub mod study;
pub mod trace;
pub mod trial;
pub mod verdict;
pub mod view;
