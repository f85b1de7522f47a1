//! The files of a meter and of a community's authority.

use rcgen::KeyPair;

pub use dream_edge::files::*;

/// Returns the key that signs certificates and requests for them.
pub fn key_pair(seed: &Seed) -> KeyPair {
    KeyPair::try_from(pkcs8(seed).as_slice()).expect("any 32 bytes are an Ed25519 key")
}
