//! The vectors' JSON, whose bytes and large numbers are hex.

use alloc::format;
use alloc::vec::Vec;

use dream_embedded::files;
pub(crate) use serde_json::Value;

/// Reads a file of `protocol/tests/vectors`; the emulator runs in the repository's root.
pub(crate) fn vectors(name: &str) -> Value {
    let text = files::read(&format!("protocol/tests/vectors/{name}.json"));
    serde_json::from_slice(&text).expect("a file of vectors is JSON")
}

pub(crate) fn each(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

pub(crate) fn small<T: TryFrom<u64>>(value: &Value) -> T {
    T::try_from(number(value)).ok().expect("a small number")
}

pub(crate) fn signed(value: &Value) -> i64 {
    value.as_i64().expect("a whole number")
}

pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).expect("hex");
    text(value).as_bytes().as_chunks::<2>().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

pub(crate) fn array<const N: usize>(value: &Value) -> [u8; N] {
    bytes(value).try_into().expect("bytes of a fixed length")
}

/// A number modulo 2^64 or 2^61 - 1.
pub(crate) fn word(value: &Value) -> u64 {
    u64::from_be_bytes(array(value))
}

pub(crate) fn yes(value: &Value) -> bool {
    text(value) == "yes"
}
