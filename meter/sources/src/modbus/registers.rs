//! Numbers in Modbus registers.

use crate::units::{Sign, Unit};

/// How a number is kept in registers of sixteen bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberType {
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Float32,
    Float64,
}

/// Which register of a number comes first.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum WordOrder {
    #[default]
    BigEndian,
    LittleEndian,
}

/// Which of a device's tables a register is in.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Function code 3.
    #[default]
    Holding,
    /// Function code 4.
    Input,
}

/// Where a number is and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    pub table: Table,
    pub address: u16,
    pub number: NumberType,
    pub order: WordOrder,
    /// The number counts times ten to the power of this.
    pub exponent: i32,
    pub unit: Unit,
    pub sign: Sign,
}

impl NumberType {
    /// How many registers it takes.
    pub const fn words(self) -> u16 {
        match self {
            Self::Int16 | Self::Uint16 => 1,
            Self::Int32 | Self::Uint32 | Self::Float32 => 2,
            Self::Int64 | Self::Uint64 | Self::Float64 => 4,
        }
    }

    /// Reads registers as a decimal; `None` for what is no number, and for too few registers.
    pub fn read(self, words: &[u16], order: WordOrder) -> Option<String> {
        let words = words.get(..usize::from(self.words()))?;
        let big_endian: Vec<u8> = match order {
            WordOrder::BigEndian => words.iter().flat_map(|word| word.to_be_bytes()).collect(),
            WordOrder::LittleEndian => words.iter().rev().flat_map(|word| word.to_be_bytes()).collect(),
        };
        let bytes = big_endian.as_slice();
        match self {
            Self::Int16 => Some(i16::from_be_bytes(bytes.try_into().ok()?).to_string()),
            Self::Uint16 => Some(u16::from_be_bytes(bytes.try_into().ok()?).to_string()),
            Self::Int32 => Some(i32::from_be_bytes(bytes.try_into().ok()?).to_string()),
            Self::Uint32 => Some(u32::from_be_bytes(bytes.try_into().ok()?).to_string()),
            Self::Int64 => Some(i64::from_be_bytes(bytes.try_into().ok()?).to_string()),
            Self::Uint64 => Some(u64::from_be_bytes(bytes.try_into().ok()?).to_string()),
            Self::Float32 => {
                let value = f32::from_be_bytes(bytes.try_into().ok()?);
                places(f64::from(value), 24)
            }
            Self::Float64 => places(f64::from_be_bytes(bytes.try_into().ok()?), 53),
        }
    }
}

impl Register {
    /// Reads the number, in milliwatts or thousandths of a watt-hour, and its step.
    pub fn value(&self, words: &[u16]) -> Option<(i64, Option<i64>)> {
        let number = format!("{}e{}", self.number.read(words, self.order)?, self.exponent);
        Some((self.sign.apply(self.unit.read(&number)?), self.unit.step(&number)))
    }
}

/// Adds numbers, of which all must be there; the coarsest step counts.
pub(crate) fn sum(values: impl IntoIterator<Item = Option<(i64, Option<i64>)>>) -> Option<(i64, Option<i64>)> {
    values.into_iter().try_fold((0i64, None), |(sum, step), value| {
        let (value, its_step) = value?;
        Some((sum.saturating_add(value), step.max(its_step)))
    })
}

/// Writes a float with as many places as it has: what follows them is noise of the representation, which would make a
/// counter look finer than it is.
fn places(value: f64, bits: i32) -> Option<String> {
    if !value.is_finite() || value.abs() > 1e12 {
        return None;
    }
    let places = (0..9u8).rev().find(|places| {
        let step = 10f64.powi(-i32::from(*places));
        step >= value.abs() * 2f64.powi(1 - bits)
    });
    Some(format!("{value:.*}", usize::from(places.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(value: f32) -> [u16; 2] {
        let [a, b, c, d] = value.to_be_bytes();
        [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
    }

    #[test]
    fn numbers_are_read_in_every_type_and_order() {
        let big = |number: NumberType, words: &[u16]| number.read(words, WordOrder::BigEndian).unwrap();
        assert_eq!(big(NumberType::Int16, &[0xffff]), "-1");
        assert_eq!(big(NumberType::Uint16, &[0xffff]), "65535");
        assert_eq!(big(NumberType::Int32, &[0xffff, 0xfffe]), "-2");
        assert_eq!(big(NumberType::Uint32, &[1, 0]), "65536");
        assert_eq!(big(NumberType::Int64, &[0, 0, 0, 7]), "7");
        assert_eq!(big(NumberType::Uint64, &[0, 0, 1, 0]), "65536");
        assert_eq!(big(NumberType::Float64, &[0x40aa, 0x5999, 0x9999, 0x999a]), "3372.80000000");
        assert_eq!(NumberType::Uint32.read(&[0, 1], WordOrder::LittleEndian).unwrap(), "65536");
        assert_eq!(NumberType::Uint32.read(&[0], WordOrder::BigEndian), None);
    }

    #[test]
    fn a_float_has_no_more_places_than_it_can_keep() {
        let read = |value: f32| NumberType::Float32.read(&float(value), WordOrder::BigEndian);
        assert_eq!(read(7881.115).as_deref(), Some("7881.115"));
        assert_eq!(read(20000.5).as_deref(), Some("20000.50"));
        assert_eq!(read(-230.25).as_deref(), Some("-230.2500"));
        assert_eq!(read(0.0).as_deref(), Some("0.00000000"));
        assert_eq!([read(f32::NAN), read(f32::INFINITY), read(1e30)], [None, None, None]);
    }

    #[test]
    fn a_register_has_a_unit_a_sign_and_an_exponent() {
        let register = Register {
            table: Table::Holding,
            address: 0,
            number: NumberType::Int16,
            order: WordOrder::BigEndian,
            exponent: -1,
            unit: Unit::KiloWh,
            sign: Sign::Export,
        };
        assert_eq!(register.value(&[1234]), Some((-123_400_000, Some(100_000))));
    }
}
