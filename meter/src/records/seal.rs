//! Sealing: ChaCha20-Poly1305 (RFC 8439) under a key that seals once, so that the nonce can be zero.
//!
//! What is sealed is bound to the place where it is kept, and its length tells next to nothing: a reading of 300 W takes one byte
//! more than one of 200 W.

use chacha20poly1305::aead::AeadInOut as _;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit as _, Nonce, Tag};
use zeroize::Zeroizing;

/// A key.
pub(super) type Secret = Zeroizing<[u8; 32]>;

/// Lengths are multiples of this, after up to as much was added.
const BLOCK: usize = 512;
const LENGTH_BYTES: usize = 4;
const TAG_BYTES: usize = 16;

/// Seals bytes under a key that has sealed nothing and will seal nothing else.
pub(super) fn seal(key: &Secret, place: &[u8], bytes: &[u8]) -> Vec<u8> {
    let extra = usize::from(rand::random::<u16>()) % BLOCK;
    let padded = (LENGTH_BYTES + bytes.len() + extra).next_multiple_of(BLOCK);
    let length = u32::try_from(bytes.len()).expect("no record has four gigabytes");
    let mut sealed = Vec::with_capacity(padded + TAG_BYTES);
    sealed.extend(length.to_be_bytes());
    sealed.extend(bytes);
    sealed.resize(padded, 0);
    let cipher = ChaCha20Poly1305::new((&**key).into());
    let tag = cipher
        .encrypt_inout_detached(&Nonce::default(), place, sealed.as_mut_slice().into())
        .expect("a record is shorter than the cipher's limit");
    sealed.extend(tag);
    sealed
}

/// Returns what was sealed under this key for this place, or nothing if a bit of it is another.
pub(super) fn open(key: &Secret, place: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (bytes, tag) = sealed.split_last_chunk::<TAG_BYTES>()?;
    let mut bytes = Zeroizing::new(bytes.to_vec());
    let cipher = ChaCha20Poly1305::new((&**key).into());
    let buffer = bytes.as_mut_slice().into();
    cipher.decrypt_inout_detached(&Nonce::default(), place, buffer, &Tag::from(*tag)).ok()?;
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    let found = rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    Some(Zeroizing::new(found.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_by_its_key_at_its_place_alone() {
        let (key, other) = (Secret::new([1; 32]), Secret::new([2; 32]));
        for length in [0, 1, 100, BLOCK, 3 * BLOCK] {
            let bytes = vec![7; length];
            let sealed = seal(&key, b"here", &bytes);
            assert_eq!(sealed.len() % BLOCK, TAG_BYTES);
            assert_eq!(open(&key, b"here", &sealed).unwrap().as_slice(), bytes);
            assert_eq!(open(&key, b"there", &sealed), None);
            assert_eq!(open(&other, b"here", &sealed), None);
            assert_eq!(open(&key, b"here", &sealed[..sealed.len() - 1]), None);
        }
        assert_eq!(open(&key, b"here", &[]), None);
    }
}
