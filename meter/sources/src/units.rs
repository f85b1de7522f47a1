//! Units and signs, as a configuration writes them.

use crate::decimal;

/// A unit of power or energy. Which of them a quantity may have is checked with the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    W,
    KiloW,
    Wh,
    KiloWh,
    MegaWh,
    /// What Shelly's first generation counts in.
    WMin,
}

impl Unit {
    pub const ALL: [Self; 6] = [Self::W, Self::KiloW, Self::Wh, Self::KiloWh, Self::MegaWh, Self::WMin];

    pub const fn is_power(self) -> bool {
        match self {
            Self::W | Self::KiloW => true,
            Self::Wh | Self::KiloWh | Self::MegaWh | Self::WMin => false,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::W => "W",
            Self::KiloW => "kW",
            Self::Wh => "Wh",
            Self::KiloWh => "kWh",
            Self::MegaWh => "MWh",
            Self::WMin => "W*min",
        }
    }

    /// Reads a decimal in this unit, as milliwatts or thousandths of a watt-hour.
    pub fn read(self, text: &str) -> Option<i64> {
        match self {
            Self::W | Self::Wh => decimal::thousandths(text, 0),
            Self::KiloW | Self::KiloWh => decimal::thousandths(text, 3),
            Self::MegaWh => decimal::thousandths(text, 6),
            // To the thousandth of a watt-minute first, which leaves nothing visible to rounding.
            Self::WMin => i64::try_from(decimal::rounded(i128::from(decimal::thousandths(text, 3)?), 60_000)).ok(),
        }
    }

    /// The step of a counter as it is written in this unit; `None` for one that is no decimal fraction of a watt-hour.
    pub fn step(self, text: &str) -> Option<i64> {
        match self {
            Self::Wh => Some(decimal::step(text, 0)),
            Self::KiloWh => Some(decimal::step(text, 3)),
            Self::MegaWh => Some(decimal::step(text, 6)),
            Self::W | Self::KiloW | Self::WMin => None,
        }
    }
}

/// Which way a quantity counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Positive when the home takes from the grid.
    #[default]
    Import,
    /// Positive when the home feeds into the grid.
    Export,
}

impl Sign {
    pub const fn apply(self, value: i64) -> i64 {
        match self {
            Self::Import => value,
            Self::Export => -value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_into_the_same_two() {
        assert_eq!(Unit::W.read("120.11"), Some(120_110));
        assert_eq!(Unit::KiloW.read("0.412"), Some(412_000));
        assert_eq!(Unit::Wh.read("3670225"), Some(3_670_225_000));
        assert_eq!(Unit::KiloWh.read("3670.2250"), Some(3_670_225_000));
        assert_eq!(Unit::MegaWh.read("3.6702250"), Some(3_670_225_000));
        assert_eq!(Unit::WMin.read("60"), Some(1_000));
        assert_eq!(Unit::WMin.read("59.97"), Some(1_000));
        assert_eq!(Unit::WMin.read("-90"), Some(-1_500));
    }
}
