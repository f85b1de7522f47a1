//! SunSpec: a device lists its models, and a meter is one of those from 201 to 204 (whole numbers with scale factors) or from
//! 211 to 214 (floats).

use crate::decimal;
use crate::modbus::registers::{NumberType, WordOrder};
use crate::sample::Values;
use crate::units::Unit;

/// Where a list of models may begin.
pub(crate) const BASES: [u16; 3] = [40_000, 50_000, 0];

/// `SunS`, before the first model.
pub(crate) const MARK: [u16; 2] = [0x5375, 0x6e53];

/// The id after the last model.
pub(crate) const END: u16 = 0xffff;

/// A meter's model, by where its points are from the register of its id on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    WholeNumbers,
    Floats,
}

impl Model {
    pub const fn of(id: u16) -> Option<Self> {
        match id {
            201..=204 => Some(Self::WholeNumbers),
            211..=214 => Some(Self::Floats),
            _ => None,
        }
    }

    /// The first point and how many registers to read from it.
    pub(crate) const fn block(self) -> (u16, u16) {
        match self {
            Self::WholeNumbers => (18, 37),
            Self::Floats => (28, 42),
        }
    }

    /// Reads a block of registers. What a device does not implement is left out.
    pub fn values(self, block: &[u16]) -> Values {
        match self {
            Self::WholeNumbers => {
                let power = whole(block.get(0..1), NumberType::Int16).filter(|_| block.first() != Some(&0x8000));
                let counter = |at: usize| whole(block.get(at..at + 2), NumberType::Uint32);
                let (of_power, of_energy) = (scale_factor(block.get(4)), scale_factor(block.get(36)));
                let scaled = |number: Option<String>, factor: Option<i32>| decimal::thousandths(&number?, factor?);
                Values {
                    power: scaled(power, of_power),
                    export: scaled(counter(20), of_energy),
                    import: scaled(counter(28), of_energy),
                    step: of_energy.map(|factor| decimal::step("0", factor)),
                }
            }
            Self::Floats => {
                let number = |at: usize| whole(block.get(at..at + 2), NumberType::Float32);
                let read = |at: usize, unit: Unit| unit.read(&number(at)?);
                Values {
                    power: read(0, Unit::W),
                    export: read(32, Unit::Wh),
                    import: read(40, Unit::Wh),
                    step: [32, 40].into_iter().filter_map(|at| Unit::Wh.step(&number(at)?)).max(),
                }
            }
        }
    }
}

fn whole(words: Option<&[u16]>, number: NumberType) -> Option<String> {
    number.read(words?, WordOrder::BigEndian)
}

/// A power of ten from -10 to 10; 0x8000 means not implemented.
fn scale_factor(word: Option<&u16>) -> Option<i32> {
    word.map(|word| i32::from(word.cast_signed())).filter(|factor| (-10..=10).contains(factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_scale_factors() {
        let mut block = [0u16; 37];
        (block[0], block[4]) = ((-1234i16).cast_unsigned(), (-1i16).cast_unsigned());
        (block[20], block[21], block[28], block[29], block[36]) = (0, 777, 1, 0, 1);
        let values = Model::WholeNumbers.values(&block);
        assert_eq!(values.power, Some(-123_400));
        assert_eq!((values.import, values.export, values.step), (Some(655_360_000), Some(7_770_000), Some(10_000)));
    }

    #[test]
    fn what_is_not_implemented_is_left_out() {
        let mut block = [0u16; 37];
        (block[0], block[4], block[36]) = (0x8000, 0, 0x8000);
        assert!(Model::WholeNumbers.values(&block).is_empty());
        let mut block = [0u16; 42];
        (block[0], block[32], block[40]) = (0x7fc0, 0x7fc0, 0x7fc0);
        assert!(Model::Floats.values(&block).is_empty());
        assert!(Model::Floats.values(&[]).is_empty());
    }
}
