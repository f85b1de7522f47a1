//! CBOR written item by item, so that any item can be wrong.

use coset::cbor::value::Value;
use coset::cbor::{from_reader, into_writer};

pub(crate) fn uint(value: u64) -> Vec<u8> {
    head(0, value)
}

pub(crate) fn negative(value: i64) -> Vec<u8> {
    head(1, (!value).cast_unsigned())
}

pub(crate) fn bytes(value: &[u8]) -> Vec<u8> {
    [head(2, value.len() as u64), value.to_vec()].concat()
}

pub(crate) fn text(value: &str) -> Vec<u8> {
    [head(3, value.len() as u64), value.as_bytes().to_vec()].concat()
}

pub(crate) fn array(items: &[Vec<u8>]) -> Vec<u8> {
    [head(4, items.len() as u64), items.concat()].concat()
}

/// An array or a byte string of indefinite length around whole items.
pub(crate) fn indefinite(major: u8, items: &[Vec<u8>]) -> Vec<u8> {
    [vec![major << 5 | 31], items.concat(), vec![0xff]].concat()
}

/// A head in eight bytes, whatever its argument.
pub(crate) fn long_head(major: u8, argument: u64) -> Vec<u8> {
    [vec![major << 5 | 27], argument.to_be_bytes().to_vec()].concat()
}

/// The items of a sound array, whole.
pub(crate) fn fields(array: &[u8]) -> Vec<Vec<u8>> {
    let value: Value = from_reader(array).unwrap();
    let encoded = |item: &Value| {
        let mut bytes = Vec::new();
        into_writer(item, &mut bytes).unwrap();
        bytes
    };
    value.into_array().unwrap().iter().map(encoded).collect()
}

fn head(major: u8, argument: u64) -> Vec<u8> {
    let be = argument.to_be_bytes();
    let (info, width) = match argument {
        0..=0x17 => return vec![major << 5 | be[7]],
        0x18..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    [vec![major << 5 | info], be[8 - width..].to_vec()].concat()
}
