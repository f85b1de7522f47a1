//! The paper's scheme: pairs of members add masks that cancel in the sum (`protocol.md 4, 6`).

mod collector;
pub mod mask;
mod member;
pub mod partners;

pub(crate) use collector::Collector;
pub(crate) use member::Member;
