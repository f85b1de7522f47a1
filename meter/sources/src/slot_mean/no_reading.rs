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
            Self::ClockStepped => f.write_str("this machine's clock was set within this slot"),
        }
    }
}

impl std::error::Error for NoReading {}
