//! What a meter is drawn by as a holder: a value that its authority drew once, and puts into every certificate of the meter.
//!
//! Were it anything that another certificate has another of, such as the authority's signature, a meter would have a draw for
//! each, and a committee more colluders than it allows for (`protocol.md 4a`).

use alloc::string::{String, ToString};
use core::fmt;

use super::CertificateError;
use crate::derive;
use crate::ids::MeterId;
use crate::keys::DrawKey;

pub(super) const DRAW_URN: &str = "urn:dream:draw:";

/// A meter's draw value: public, and the same in all of its certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw(pub [u8; 16]);

impl Draw {
    /// Reads `urn:dream:draw:<32 lowercase hexadecimal digits>`.
    pub fn from_urn(urn: &str) -> Result<Self, CertificateError> {
        let digits = urn.strip_prefix(DRAW_URN).filter(|digits| digits.len() == 32).ok_or(CertificateError::Draw)?;
        let mut value = [0; 16];
        for (at, digit) in digits.bytes().enumerate() {
            let nibble = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return Err(CertificateError::Draw),
            };
            value[at / 2] = value[at / 2] << 4 | nibble;
        }
        Ok(Self(value))
    }

    /// Returns the URI by which a certificate states the value.
    pub fn urn(&self) -> String {
        self.to_string()
    }

    /// Returns sigma, the number drawn for a day.
    pub fn sigma(&self, day: u64) -> u64 {
        derive::sigma(&self.0, day)
    }
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(DRAW_URN)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl DrawKey {
    /// Returns the value of a meter. An authority that takes over the key gives it the same one.
    pub fn value(&self, meter: &MeterId) -> Draw {
        Draw(derive::draw_value(self, meter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_one_form() {
        let draw = Draw(*b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xff");
        assert_eq!(draw.urn(), "urn:dream:draw:000102030405060708090a0b0c0d0eff");
        assert_eq!(Draw::from_urn(&draw.urn()), Ok(draw));
        for digits in ["", "0001020304050607", "000102030405060708090A0B0C0D0EFF", "000102030405060708090a0b0c0d0eff0"]
        {
            assert_eq!(Draw::from_urn(&format!("{DRAW_URN}{digits}")), Err(CertificateError::Draw), "{digits}");
        }
        assert_eq!(Draw::from_urn("urn:dream:drawn:000102030405060708090a0b0c0d0eff"), Err(CertificateError::Draw));
    }

    #[test]
    fn values_differ_by_meter_and_key_and_draws_by_day() {
        let (key, other) = (DrawKey::from_bytes([1; 32]), DrawKey::from_bytes([2; 32]));
        let [one, two] = ["m-1", "m-2"].map(|id| MeterId::new(id).unwrap());
        assert_eq!(key.value(&one), key.value(&one));
        assert_ne!(key.value(&one), key.value(&two));
        assert_ne!(key.value(&one), other.value(&one));
        assert_ne!(key.value(&one).sigma(20_000), key.value(&one).sigma(20_001));
    }
}
