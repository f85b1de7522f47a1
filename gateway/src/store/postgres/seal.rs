//! Sealing: XChaCha20-Poly1305, whose nonces are long enough to be random.
//!
//! Counted nonces would repeat when a database is restored, or after a fail-over that forgot commits. What is sealed is bound to its row.
//! The first key seals and every key opens, so that a key is replaced by naming a new one before it.

use chacha20poly1305::aead::AeadInOut as _;
use chacha20poly1305::{KeyInit as _, Tag, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::StoreError;
use crate::config;
use crate::config::secrets::{self, SecretError};

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// Where something sealed is kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    Record { cluster: &'a str, kind: &'a str, name: &'a [u8] },
    SlotEntries { cluster: &'a str, slot: i64, fence: i64, number: i64 },
}

impl Place<'_> {
    fn cluster(&self) -> &str {
        match self {
            Self::Record { cluster, .. } | Self::SlotEntries { cluster, .. } => cluster,
        }
    }

    const fn what(&self) -> &'static str {
        match self {
            Self::Record { .. } => "a record",
            Self::SlotEntries { .. } => "an entry of an open slot",
        }
    }

    /// Returns the place in bytes; no two places have the same, because no name of a cluster or a kind has a zero in it.
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Record { cluster, kind, name } => {
                [b"records\0", cluster.as_bytes(), b"\0", kind.as_bytes(), b"\0", *name].concat()
            }
            Self::SlotEntries { cluster, slot, fence, number } => {
                let numbers = [slot, fence, number].map(|number| number.to_be_bytes()).concat();
                [b"slot_entries\0", cluster.as_bytes(), b"\0", numbers.as_slice()].concat()
            }
        }
    }
}

/// The keys.
pub(super) struct Sealer {
    keys: Vec<Key>,
}

struct Key {
    seals: XChaCha20Poly1305,
    names: Hmac<Sha256>,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").finish_non_exhaustive()
    }
}

impl Sealer {
    pub(super) fn load(config: &config::Postgres) -> Result<Self, SecretError> {
        let keys = config.keys.iter().map(|path| secrets::store_key(path));
        Ok(Self::new(&keys.collect::<Result<Vec<_>, _>>()?))
    }

    fn new(secrets: &[Zeroizing<[u8; 32]>]) -> Self {
        let derived = |secret: &[u8; 32], label: &[u8]| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
            mac.update(label);
            Zeroizing::new(<[u8; 32]>::from(mac.finalize().into_bytes()))
        };
        let key = |secret: &Zeroizing<[u8; 32]>| Key {
            seals: XChaCha20Poly1305::new((&*derived(secret, b"dream gateway store 1: seal")).into()),
            names: Hmac::new_from_slice(&*derived(secret, b"dream gateway store 1: name"))
                .expect("HMAC takes a key of any length"),
        };
        Self { keys: secrets.iter().map(key).collect() }
    }

    pub(super) fn seal(&self, place: Place<'_>, bytes: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let first = self.keys.first().expect("the configuration asks for a key");
        let mut sealed = [&nonce, bytes].concat();
        let tag = first
            .seals
            .encrypt_inout_detached(&nonce.into(), &place.bytes(), (&mut sealed[NONCE_BYTES..]).into())
            .expect("a record is shorter than the cipher's limit");
        sealed.extend(tag);
        sealed
    }

    pub(super) fn open(&self, place: Place<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, StoreError> {
        let wrong = || StoreError::Sealed { cluster: place.cluster().to_owned(), what: place.what() };
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or_else(wrong)?;
        let (sealed, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or_else(wrong)?;
        let (nonce, tag, place) = (XNonce::from(*nonce), Tag::from(*tag), place.bytes());
        let open = |key: &Key| {
            let mut bytes = Zeroizing::new(sealed.to_vec());
            key.seals.decrypt_inout_detached(&nonce, &place, bytes.as_mut_slice().into(), &tag).ok()?;
            Some(bytes)
        };
        self.keys.iter().find_map(open).ok_or_else(wrong)
    }

    /// Returns names under which a meter's enrolment may be kept, which say nothing without the keys: the one to use, and those of
    /// earlier keys.
    pub(super) fn names(&self, cluster: &str, meter: &str) -> impl Iterator<Item = Vec<u8>> {
        self.keys.iter().map(move |key| {
            let mut mac = key.names.clone();
            mac.update(cluster.as_bytes());
            mac.update(&[0]);
            mac.update(meter.as_bytes());
            mac.finalize().into_bytes()[..16].to_vec()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Sealer {
        Sealer::new(&bytes.iter().map(|byte| Zeroizing::new([*byte; 32])).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_sealed_is_opened_at_its_place_alone() {
        let sealer = keys(&[1]);
        let place = Place::Record { cluster: "north", kind: "list", name: b"7" };
        let sealed = sealer.seal(place, b"keys of members");
        assert_eq!(sealer.open(place, &sealed).unwrap().as_slice(), b"keys of members");
        for other in [
            Place::Record { cluster: "nort", kind: "list", name: b"7" },
            Place::Record { cluster: "north", kind: "lists", name: b"7" },
            Place::Record { cluster: "north", kind: "list", name: b"8" },
            Place::SlotEntries { cluster: "north", slot: 7, fence: 1, number: 1 },
        ] {
            assert!(matches!(sealer.open(other, &sealed), Err(StoreError::Sealed { .. })), "{other:?}");
        }
        let mut damaged = sealed.clone();
        damaged[30] ^= 1;
        assert!(sealer.open(place, &damaged).is_err() && sealer.open(place, &sealed[..10]).is_err());
        assert_ne!(sealer.seal(place, b"keys of members"), sealed, "nonces are random");
    }

    #[test]
    fn a_new_key_goes_first_and_the_earlier_one_still_opens() {
        let place = Place::SlotEntries { cluster: "north", slot: 7, fence: 1, number: 1 };
        let (before, during, after) = (keys(&[1]), keys(&[2, 1]), keys(&[2]));
        let old = before.seal(place, b"readings");
        assert!(during.open(place, &old).is_ok() && after.open(place, &old).is_err());
        assert!(after.open(place, &during.seal(place, b"readings")).is_ok());
        let names = |sealer: &Sealer| sealer.names("north", "m-1").collect::<Vec<_>>();
        assert_eq!(names(&during), [names(&after), names(&before)].concat());
        assert_ne!(names(&before), before.names("nort", "hm-1").collect::<Vec<_>>());
    }
}
