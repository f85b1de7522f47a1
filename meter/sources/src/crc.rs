//! The checksums of meters: CRC-16 with reflected bits, in three variants.

/// DSMR's: CRC-16/ARC.
pub(crate) fn arc(bytes: &[u8]) -> u16 {
    crc16(bytes, 0xa001, 0)
}

/// SML's: CRC-16/X-25.
pub(crate) fn x25(bytes: &[u8]) -> u16 {
    !crc16(bytes, 0x8408, 0xffff)
}

/// That of some Holley meters instead: CRC-16/KERMIT.
pub(crate) fn kermit(bytes: &[u8]) -> u16 {
    crc16(bytes, 0x8408, 0)
}

fn crc16(bytes: &[u8], polynomial: u16, start: u16) -> u16 {
    bytes.iter().fold(start, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ polynomial } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    /// The check values of the catalogue of parametrised CRC algorithms.
    #[test]
    fn the_check_values_are_right() {
        let digits = b"123456789";
        assert_eq!([super::arc(digits), super::x25(digits), super::kermit(digits)], [0xbb3d, 0x906e, 0x2189]);
    }
}
