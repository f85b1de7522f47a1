//! OBIS registers, which P1 and SML share: what a meter sends under which code, and what of it a sample is made of.

use crate::sample::{Values, finer};

/// The quantities of a telegram that a sample is made of, by the groups C, D and E of their OBIS codes.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    import: Counter,
    export: Counter,
    /// 1.7.0
    power_import: Option<i64>,
    /// 2.7.0
    power_export: Option<i64>,
    /// 16.7.0, signed
    power: Option<i64>,
    step: Option<i64>,
}

/// A counter over all tariffs, and its sum over those that are sent apart.
#[derive(Debug, Default)]
struct Counter {
    total: Option<i64>,
    tariffs: [Option<i64>; 4],
}

/// What a code stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    Energy,
    Power,
}

/// Which quantity a code stands for, if a sample is made of it. 15.7.0 is not: it has no sign.
pub(crate) const fn quantity(code: [u8; 3]) -> Option<Quantity> {
    match code {
        [1 | 2, 8, 0..=4] => Some(Quantity::Energy),
        [1 | 2 | 16, 7, 0] => Some(Quantity::Power),
        _ => None,
    }
}

impl Registers {
    /// Notes a register, in milliwatts or thousandths of a watt-hour; `false` if it was there already with another value.
    pub(crate) fn note(&mut self, code: [u8; 3], value: i64, step: Option<i64>) -> bool {
        let counter = match code[0] {
            1 => &mut self.import,
            _ => &mut self.export,
        };
        let place = match code {
            [1 | 2, 8, 0] => &mut counter.total,
            [1 | 2, 8, tariff @ 1..=4] => &mut counter.tariffs[usize::from(tariff) - 1],
            [1, 7, 0] => &mut self.power_import,
            [2, 7, 0] => &mut self.power_export,
            [16, 7, 0] => &mut self.power,
            _ => return true,
        };
        if code[1] == 8 {
            self.step = finer(self.step, step);
        }
        place.replace(value).is_none_or(|before| before == value)
    }

    pub(crate) fn values(&self) -> Values {
        let apart = match (self.power_import, self.power_export) {
            (None, None) => None,
            (import, export) => Some(import.unwrap_or(0) - export.unwrap_or(0)),
        };
        let (import, export) = (self.import.value(), self.export.value());
        Values { import, export, power: self.power.or(apart), step: self.step }
    }
}

impl Counter {
    /// The total, or the sum of the tariffs: which of them counts now makes no difference.
    fn value(&self) -> Option<i64> {
        self.total.or_else(|| self.tariffs.iter().flatten().copied().reduce(|sum, tariff| sum.saturating_add(tariff)))
    }
}
