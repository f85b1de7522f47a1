//! Why there is no reading, in words.

use std::fmt;

use super::LEAST_COVERAGE;

/// Why a slot has no reading.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoReading {
    /// Nothing was sampled; with why the source was lost, if it said so.
    Silent { lost: Option<String> },
    /// Something was, for less than [`LEAST_COVERAGE`] of the slot.
    Patchy { percent: u64, lost: Option<String> },
    /// There are only counters, and one step of them is too much for a slot of this length.
    CoarseCounter { step_watt_hours: i64 },
    /// There are only counters, and they were set or went back within the slot.
    CounterSet,
    /// There is a counter of one direction, and neither the other nor power.
    OneCounter,
    /// Counter and power cannot both be of this home.
    Disagreement,
    /// The wall clock was set within the slot.
    ClockStepped,
}

impl fmt::Display for NoReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let because = |f: &mut fmt::Formatter<'_>, lost: &Option<String>| match lost {
            Some(why) => write!(f, ": {why}"),
            None => Ok(()),
        };
        match self {
            Self::Silent { lost } => {
                f.write_str("the source sent nothing in this slot")?;
                because(f, lost)
            }
            Self::Patchy { percent, lost } => {
                write!(f, "the source covered {percent} % of this slot, and {LEAST_COVERAGE} % is needed")?;
                because(f, lost)
            }
            Self::CoarseCounter { step_watt_hours } => write!(
                f,
                "the source has no power, and its counter moves in steps of {step_watt_hours} Wh, too coarse for this slot; \
                 a German meter shows power and finer steps once it is unlocked with its PIN"
            ),
            Self::CounterSet => f.write_str(
                "the source has no power, and its counter was reset within this slot, as after a change of meters",
            ),
            Self::OneCounter => f.write_str(
                "the source has one counter and no power, so that nobody knows what went the other way; add the power or the \
                 other counter, or set `import_only = true` if nothing behind the meter can feed in",
            ),
            Self::Disagreement => f.write_str(
                "the source's counter and its power disagree by far more than their resolution; compare both with the display \
                 of the meter, and leave the wrong one out with `power = []`, or `import = []` and `export = []`",
            ),
            Self::ClockStepped => f.write_str("this machine's clock was set within this slot"),
        }
    }
}

impl std::error::Error for NoReading {}
