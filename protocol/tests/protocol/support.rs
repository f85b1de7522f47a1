//! What these tests share beside the testkit: messages built byte by byte, a gateway that lies, and members that do.

pub(crate) mod algebra;
pub(crate) mod envelope;
pub(crate) mod insider;
pub(crate) mod liar;
pub(crate) mod messages;
pub(crate) mod raw;
pub(crate) mod world;

pub(crate) use dream_testkit::example::{
    SMALL, START, TERMS, at, cluster_config, cluster_id, enrol, meter_config, meter_name, policy,
};
pub(crate) use dream_testkit::{now, pki, rng};
