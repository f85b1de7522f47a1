//! `meter-sim study`: what error and what privacy one gets, on simulated homes or on data of one's own, beside the paper's
//! figures and tables.
//!
//! Each part is a module that turns the [`dataset`] into a [`section`]: prose, tables and figures.

pub mod dataset;
pub mod section;
