//! Numbers as people read them.

use std::fmt;

/// A count with its thousands set apart.
pub(super) struct Grouped(pub(super) u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// A number that is large enough to be shown without places, or else with one.
pub(super) struct Rounded(pub(super) f64);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format!("{:.0}", self.0).parse() {
            Ok(whole) if self.0 >= 100.0 => Grouped(whole).fmt(f),
            _ => write!(f, "{:.1}", self.0),
        }
    }
}

/// A probability in per cent, or as a power of ten if it is small.
pub(super) struct Probability(pub(super) f64);

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.0;
        match percent {
            ..=0.0 => f.write_str("0 %"),
            ..0.01 => write!(f, "{:.0e}", self.0),
            ..1.0 => write!(f, "{percent:.2} %"),
            ..99.95 => write!(f, "{} %", format!("{percent:.1}").trim_end_matches(".0")),
            _ => f.write_str("100 %"),
        }
    }
}

/// Per cent with two digits that count, or more.
pub(super) struct Percent(pub(super) f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ..0.095 => write!(f, "{:.3} %", self.0),
            ..0.95 => write!(f, "{:.2} %", self.0),
            ..9.95 => write!(f, "{:.1} %", self.0),
            _ => write!(f, "{:.0} %", self.0),
        }
    }
}

/// A length of time in the unit that suits it, as in "slots of 10 minutes".
pub(super) struct Length(pub(super) u64);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            3600 => f.write_str("an hour"),
            60 => f.write_str("a minute"),
            86_400 => f.write_str("a day"),
            hours if hours.is_multiple_of(3600) => write!(f, "{} hours", hours / 3600),
            minutes if minutes.is_multiple_of(60) => write!(f, "{} minutes", minutes / 60),
            seconds => write!(f, "{seconds} seconds"),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "watts and bytes of a report, below 2^53")]
pub(super) fn real(count: u64) -> f64 {
    count as f64
}
