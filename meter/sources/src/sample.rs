//! What a source yields: samples of a home's meter, and whether the source is alive.

use std::fmt;

use dream_protocol::time::Timestamp;

use crate::mapping::Trouble;

/// Below this, in milliwatts, a home feeds in: less is what a clamp shows at rest.
const FEEDS_IN: i64 = -10_000;

/// What a meter showed at one moment. At least one of the three is there.
///
/// `Debug` shows no number: a home's load never reaches a log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub at: Timestamp,
    /// Energy taken from the grid since the meter was new, over all tariffs, in thousandths of a watt-hour.
    pub import: Option<i64>,
    /// Energy fed into the grid since the meter was new, over all tariffs, in thousandths of a watt-hour.
    pub export: Option<i64>,
    /// Power in milliwatts, positive when the home takes from the grid.
    pub power: Option<i64>,
    /// The step of the counters as they are written, in thousandths of a watt-hour: 1000 for `007881.115*kWh`.
    pub step: Option<i64>,
}

/// What a meter showed, before anybody looked at a clock.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub struct Values {
    pub import: Option<i64>,
    pub export: Option<i64>,
    pub power: Option<i64>,
    pub step: Option<i64>,
}

impl Values {
    pub const fn is_empty(&self) -> bool {
        self.import.is_none() && self.export.is_none() && self.power.is_none()
    }

    pub const fn at(self, at: Timestamp) -> Sample {
        Sample { at, import: self.import, export: self.export, power: self.power, step: self.step }
    }

    /// What a source says behind which nothing can feed in, if that is so: its counter of export is then always zero.
    pub(crate) fn import_only(mut self, is_so: bool) -> Result<Self, Trouble> {
        if !is_so || self.import.is_none() || self.export.is_some() {
            return Ok(self);
        }
        if self.power.is_some_and(|power| power < FEEDS_IN) {
            let problem =
                "the power is negative, although `import_only` says that nothing feeds in; without it the power counts";
            return Err(Trouble::Refused(problem.to_owned()));
        }
        self.export = Some(0);
        Ok(self)
    }

    /// The same meter, mounted or wired the other way round: what was import is export.
    #[must_use]
    pub fn inverted(self) -> Self {
        Self { import: self.export, export: self.import, power: self.power.map(|power| -power), ..self }
    }
}

/// The finer of two steps, of which one may be unknown.
pub(crate) fn finer(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}

/// What happens at a source, in the order in which it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The source answers. It says nothing about values yet.
    Connected {
        at: Timestamp,
    },
    Sample(Sample),
    /// The source is gone, or says itself that its meter is; until the next sample nothing is known.
    Lost {
        at: Timestamp,
        why: String,
    },
    /// Something came that cannot be read. It counts as if it had not come.
    Garbled {
        at: Timestamp,
        why: String,
    },
    /// The source shows that its samples are not the whole of the home, or contradict themselves: those before are void too.
    Refused {
        at: Timestamp,
        why: String,
    },
    /// The wall clock was set: what was sampled before cannot be placed in time any more.
    ClockStepped {
        at: Timestamp,
    },
}

impl Event {
    pub const fn at(&self) -> Timestamp {
        match self {
            Self::Connected { at }
            | Self::Lost { at, .. }
            | Self::Garbled { at, .. }
            | Self::Refused { at, .. }
            | Self::ClockStepped { at } => *at,
            Self::Sample(sample) => sample.at,
        }
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample").field("at", &self.at).finish_non_exhaustive()
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").finish_non_exhaustive()
    }
}
