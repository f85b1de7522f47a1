//! Kinds of homes: what range of readings and what root mean square of a day suit them. A cluster is of one kind, which is
//! public and never learned from readings.

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
            Self::Flat => (0, 5_000),
            Self::House => (0, 8_000),
            Self::ElectricHeat => (0, 15_000),
            Self::Pv => (-8_000, 8_000),
        }
    }

    /// The root mean square of a day's readings that meters have to be able to report, in watts: at most a hundredth of the
    /// energy of such homes is then cut off.
    pub const fn rms_watts(self) -> u64 {
        match self {
            Self::Flat => 1_200,
            Self::House => 1_750,
            Self::ElectricHeat => 7_200,
            Self::Pv => 2_650,
        }
    }

    /// The usual epsilon of an attempt, as a fraction: strict meters accept it, and the day that it makes in slots of ten
    /// minutes.
    pub const fn epsilon(self) -> (u64, u64) {
        match self {
            Self::Flat => (12, 25),
            Self::House | Self::Pv => (1, 2),
            Self::ElectricHeat => (6, 25),
        }
    }

    /// Returns these terms with the range of the kind, and the rho that its day takes.
    #[must_use]
    pub const fn terms(self, terms: Terms) -> Terms {
        let (lo, hi) = self.range();
        Terms { lo, hi, ..terms }.with_day_rms(self.rms_watts())
    }

    /// Returns these terms with all that is usual for the kind.
    #[must_use]
    pub const fn usual_terms(self, terms: Terms) -> Terms {
        let (epsilon_numerator, epsilon_denominator) = self.epsilon();
        self.terms(Terms { epsilon_numerator, epsilon_denominator, ..terms })
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
        for (kind, rho) in HomeKind::ALL.into_iter().zip([1_911_030, 1_722_657, 1_911_030, 1_975_079]) {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            let terms = kind.usual_terms(Terms { max_malicious: 10, ..Terms::DEFAULT });
            assert_eq!(terms.day_micro_rho, rho, "{kind}");
            let params = Params::new(50, terms).unwrap();
            assert_eq!(Profile::Strict.rules().objections(&params).next(), None, "{kind}");
        }
        assert_eq!("House".parse::<HomeKind>(), Err("use flat, house, electric-heat or pv"));
        assert_eq!(HomeKind::default().usual_terms(Terms::DEFAULT), Terms::DEFAULT);
    }
}
