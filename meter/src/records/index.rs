//! What there is: a key for each entry, and numbers beside the entries. It is sealed as a whole.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::seal::Secret;
use super::{Number, Place};

/// How many bytes a number and a key take.
const NUMBER_BYTES: usize = 1 + 8;
const KEY_BYTES: usize = 1 + 8 + 32;

#[derive(Clone, Default)]
pub(super) struct Index {
    pub(super) numbers: BTreeMap<Number, u64>,
    /// By where the entry is.
    pub(super) keys: BTreeMap<Place, Secret>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("places", &self.keys.keys()).finish_non_exhaustive()
    }
}

impl Index {
    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let length = 1 + NUMBER_BYTES * self.numbers.len() + KEY_BYTES * self.keys.len();
        // Never grown: what it leaves behind would not be erased.
        let mut bytes = Zeroizing::new(Vec::with_capacity(length));
        bytes.push(u8::try_from(self.numbers.len()).expect("there are few numbers"));
        for (number, value) in &self.numbers {
            bytes.push(*number as u8);
            bytes.extend(value.to_be_bytes());
        }
        for ((kind, number), key) in &self.keys {
            bytes.push(*kind);
            bytes.extend(number.to_be_bytes());
            bytes.extend(key.as_slice());
        }
        bytes
    }

    /// Returns nothing if the bytes are no index of this version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.split_first()?;
        let (numbers, keys) = rest.split_at_checked(NUMBER_BYTES * usize::from(*numbers))?;
        let mut index = Self::default();
        for bytes in numbers.chunks_exact(NUMBER_BYTES) {
            let (id, value) = bytes.split_first()?;
            let number = Number::ALL.into_iter().find(|number| *number as u8 == *id)?;
            index.numbers.insert(number, u64::from_be_bytes(value.try_into().ok()?));
        }
        for bytes in keys.chunks(KEY_BYTES) {
            let (kind, rest) = bytes.split_first()?;
            let (number, key) = rest.split_first_chunk::<8>()?;
            index.keys.insert((*kind, u64::from_be_bytes(*number)), Secret::new(key.try_into().ok()?));
        }
        Some(index)
    }
}
