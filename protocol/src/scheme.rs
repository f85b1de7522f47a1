//! The schemes by which a cluster's sum is opened: what they do not share with each other.

pub mod committee;
