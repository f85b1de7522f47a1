//! The paper's scheme: pairs of members add masks that cancel in the sum (`protocol.md 4, 6`).

#[cfg(feature = "gateway")]
mod collector;
pub mod mask;
mod member;
pub mod partners;

#[cfg(feature = "gateway")]
pub(crate) use collector::Collector;
pub(crate) use member::Member;
