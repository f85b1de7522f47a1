//! What the study is asked to look at, beside the homes: the terms of a cluster, and the seeds of chance.

use std::str::FromStr;

use clap::Args;
use dream_edge::HomeKind;
use dream_protocol::noise::{Scale, day_micro_rho};

use super::accuracy::{Alpha, Noise, Range};
use super::dataset::Dataset;
use super::grouping::PAPERS_SIZE;
use dream_homes::args::whole;

/// Terms of a cluster; the defaults are the product's.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Settings {
    /// Clip readings to these watts, such as 0..9000 or -8000..8000 [default: 0..8000, the range of houses; -8000..8000
    /// where homes feed in]
    #[arg(long, value_name = "LO..HI", allow_hyphen_values = true)]
    range: Option<Range>,
    /// Homes in a cluster, where one size is used [default: 100]
    #[arg(long, value_name = "N", value_parser = whole::<u32, 10, 50_000>)]
    size: Option<u32>,
    /// Epsilon of a slot [default: 1]
    #[arg(long, value_name = "E")]
    epsilon: Option<Epsilon>,
    /// Epsilon of all slots of a day together, but for a probability of one in a million; sets a meter's account of the day,
    /// and the epsilon of a slot if that is not given [default: what the homes' kind needs]
    #[arg(long, value_name = "E", value_parser = day_epsilon)]
    day_epsilon: Option<u64>,
    /// Share of a cluster's members that may be silent or malicious [default: 0.2]
    #[arg(long, value_name = "A")]
    alpha: Option<Alpha>,
}

/// One of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    Range,
    Size,
    Epsilon,
    DayEpsilon,
    Alpha,
}

impl Settings {
    /// The settings that were asked for.
    pub(super) fn asked(&self) -> impl Iterator<Item = Setting> {
        [
            (Setting::Range, self.range.is_some()),
            (Setting::Size, self.size.is_some()),
            (Setting::Epsilon, self.epsilon.is_some()),
            (Setting::DayEpsilon, self.day_epsilon.is_some()),
            (Setting::Alpha, self.alpha.is_some()),
        ]
        .into_iter()
        .filter_map(|(setting, asked)| asked.then_some(setting))
    }

    /// The range that was asked for, or that of the kind that suits the homes.
    pub(super) fn range(&self, data: &Dataset) -> Range {
        let kind = if data.feed_in().is_some() { HomeKind::Pv } else { HomeKind::House };
        self.range.unwrap_or_else(|| Range::of(kind))
    }

    pub(super) fn asked_range(&self) -> Option<Range> {
        self.range
    }

    pub(super) fn size(&self) -> usize {
        self.asked_size().unwrap_or(PAPERS_SIZE)
    }

    pub(super) fn asked_size(&self) -> Option<usize> {
        self.size.map(|size| size as usize)
    }

    pub(super) fn epsilon(&self) -> Epsilon {
        self.epsilon.unwrap_or_default()
    }

    pub(super) fn asked_epsilon(&self) -> Option<Epsilon> {
        self.epsilon
    }

    /// The rho of the day's epsilon that was asked for, in millionths.
    pub(super) fn day_micro_rho(&self) -> Option<u64> {
        self.day_epsilon.map(day_micro_rho)
    }

    pub(super) fn alpha(&self) -> Alpha {
        self.alpha.unwrap_or(Alpha::PRODUCT)
    }

    /// The noise of sums that everybody's shares are in.
    pub(super) fn noise(&self) -> Noise {
        Noise::new(self.alpha(), self.epsilon())
    }

    /// The scale of the noise for this range.
    pub(super) fn scale(&self, range: Range) -> Scale {
        let Epsilon(epsilon) = self.epsilon();
        Scale::new(range.watts() * u64::from(Epsilon::ONE), epsilon.into())
    }
}

#[cfg(test)]
impl Settings {
    pub(super) fn with_alpha(alpha: &str) -> Self {
        Self { alpha: alpha.parse().ok(), ..Self::default() }
    }

    pub(super) fn asking(range: &str, epsilon: &str, day_epsilon: Option<&str>) -> Self {
        let day_epsilon = day_epsilon.and_then(|day| self::day_epsilon(day).ok());
        Self { range: range.parse().ok(), epsilon: epsilon.parse().ok(), day_epsilon, ..Self::default() }
    }
}

impl Setting {
    pub(super) fn flag(self) -> &'static str {
        match self {
            Self::Range => "--range",
            Self::Size => "--size",
            Self::Epsilon => "--epsilon",
            Self::DayEpsilon => "--day-epsilon",
            Self::Alpha => "--alpha",
        }
    }
}

/// The epsilon of a slot: from 0.0001 to 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epsilon(u32);

impl Epsilon {
    const ONE: u32 = 10_000;

    pub(super) fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE)
    }

    /// As a fraction in lowest terms.
    pub(super) fn fraction(self) -> (u64, u64) {
        let lowest = Scale::new(self.0.into(), Self::ONE.into());
        (lowest.numerator(), lowest.denominator())
    }
}

impl Default for Epsilon {
    fn default() -> Self {
        Self(Self::ONE)
    }
}

impl FromStr for Epsilon {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = parts_of_one(text, Self::ONE).filter(|epsilon| (1..=10 * Self::ONE).contains(epsilon));
        parts.map(Self).ok_or("use a number from 0.0001 to 10, with at most four decimals")
    }
}

/// Reads the epsilon of a day, from 0.01 to 10,000, in millionths.
fn day_epsilon(text: &str) -> Result<u64, &'static str> {
    let hundredths = parts_of_one(text, 100).filter(|epsilon| (1..=1_000_000).contains(epsilon));
    hundredths
        .map(|epsilon| 10_000 * u64::from(epsilon))
        .ok_or("use a number from 0.01 to 10000, with at most two decimals")
}

/// A decimal number in parts of one; none if it is below 0, or lies between two parts.
pub(super) fn parts_of_one(text: &str, one: u32) -> Option<u32> {
    let parts = text.parse::<f64>().ok()? * f64::from(one);
    let near = (parts - parts.round()).abs() < 1e-6 * parts.max(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    (near && (0.0..=f64::from(u32::MAX)).contains(&parts)).then(|| parts.round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_refused() {
        let epsilon = |text: &str| text.parse::<Epsilon>().map(Epsilon::fraction);
        assert_eq!(epsilon("1"), Ok((1, 1)));
        assert_eq!(epsilon("0.25"), Ok((1, 4)));
        assert_eq!(epsilon("2.5"), Ok((5, 2)));
        for wrong in ["0", "-1", "10.1", "0.00001", "0.12345", "one", "NaN", "inf"] {
            assert!(epsilon(wrong).is_err(), "{wrong}");
        }
        assert_eq!(day_epsilon("4"), Ok(4_000_000));
        assert!(["0", "0.001", "10001", "-4"].iter().all(|wrong| day_epsilon(wrong).is_err()));
    }

    #[test]
    fn half_the_epsilon_is_twice_the_scale() {
        let settings =
            Settings { epsilon: "0.5".parse().ok(), range: "-1000..3000".parse().ok(), ..Settings::default() };
        let range = settings.asked_range().unwrap();
        assert_eq!(settings.scale(range), Scale::new(8000, 1));
        assert_eq!(Settings::default().scale(range), Scale::new(4000, 1));
    }

    #[test]
    fn what_was_asked_for_is_known() {
        let flags = |settings: Settings| settings.asked().map(Setting::flag).collect::<Vec<_>>();
        assert!(flags(Settings::default()).is_empty());
        let some = Settings { size: Some(50), alpha: "0.3".parse().ok(), ..Settings::default() };
        assert_eq!(flags(some), ["--size", "--alpha"]);
    }
}
