//! Kinds of homes: what range of readings and what day of energy suit them. A cluster is of one kind, which is public and
//! never learned from readings.

use std::fmt;
use std::str::FromStr;

use dream_protocol::params::Terms;

/// A kind of home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HomeKind {
    Flat,
    #[default]
    House,
    /// Storage heaters, instantaneous water heaters, heat pumps.
    ElectricHeat,
    /// Homes that feed in.
    Pv,
}

impl HomeKind {
    pub const ALL: [Self; 4] = [Self::Flat, Self::House, Self::ElectricHeat, Self::Pv];

    /// The least and the greatest reading in watts.
    pub const fn range(self) -> (i64, i64) {
        match self {
            Self::Flat => (0, 4_000),
            Self::House => (0, 5_000),
            Self::ElectricHeat => (0, 15_000),
            Self::Pv => (-8_000, 8_000),
        }
    }

    /// The energy of a day that readings may tell, in watt-hours, whether it is drawn or fed in.
    pub const fn day_watt_hours(self) -> u64 {
        match self {
            Self::Flat => 15_000,
            Self::House => 30_000,
            Self::ElectricHeat => 100_000,
            Self::Pv => 40_000,
        }
    }

    /// Returns these terms with the range of the kind, and the E that its day of energy takes.
    #[must_use]
    pub const fn terms(self, terms: Terms) -> Terms {
        let (lo, hi) = self.range();
        Terms { lo, hi, ..terms }.with_day_watt_hours(self.day_watt_hours())
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::House => "house",
            Self::ElectricHeat => "electric-heat",
            Self::Pv => "pv",
        }
    }
}

impl FromStr for HomeKind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        named.ok_or("use flat, house, electric-heat or pv")
    }
}

impl fmt::Display for HomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use dream_protocol::params::Params;
    use dream_protocol::policy::Profile;

    use super::*;

    #[test]
    fn every_kind_has_a_name_and_a_day_that_strict_meters_accept() {
        for (kind, epsilon) in HomeKind::ALL.into_iter().zip([45, 72, 80, 30]) {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            let terms = kind.terms(Terms { max_malicious: 10, ..Terms::DEFAULT });
            assert_eq!(terms.day_micro_epsilon, epsilon * 1_000_000, "{kind}");
            let params = Params::new(50, terms).unwrap();
            assert_eq!(Profile::Strict.rules().objections(&params).next(), None, "{kind}");
        }
        assert_eq!("House".parse::<HomeKind>(), Err("use flat, house, electric-heat or pv"));
        assert_eq!(HomeKind::default().terms(Terms::DEFAULT), Terms::DEFAULT);
    }
}
