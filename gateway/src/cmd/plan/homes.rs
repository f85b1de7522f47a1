//! What homes of a kind are like: what a plan assumes by default.
//!
//! The numbers are those of simulated homes over a year, five weekdays to two days of a weekend: docs/operations.md says how they
//! were measured.

use dream_edge::HomeKind;

/// Homes of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Homes {
    /// What a home draws on average, in watts; where homes feed in, the mean size of their cluster's load over its size.
    pub(super) mean_watts: u32,
    pub(super) one: &'static str,
    pub(super) many: &'static str,
}

impl Homes {
    pub(super) const fn of(kind: HomeKind) -> Self {
        let (mean_watts, one, many) = match kind {
            HomeKind::Flat => (390, "flat", "flats"),
            HomeKind::House => (480, "house", "houses"),
            HomeKind::ElectricHeat => (2100, "home with electric heating", "homes with electric heating"),
            HomeKind::Pv => (440, "home with panels", "homes with panels"),
        };
        Self { mean_watts, one, many }
    }
}
