//! Keys: one type per purpose, erased when dropped, never printed.

use core::fmt;

use aes::Aes128Enc;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use hmac::{Hmac, KeyInit};
use rand_core::CryptoRng;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Prints a secret type's name and nothing of its content.
macro_rules! redacted {
    ($($name:ident),+) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )+};
}

/// Declares a symmetric key. Neither `Clone`, `PartialEq` nor `Serialize`: copying, comparing or storing it is deliberate.
macro_rules! symmetric_key {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Zeroize, ZeroizeOnDrop)]
        pub struct $name([u8; $len]);

        impl $name {
            pub const fn from_bytes(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }

            /// The bytes, for a record or a known-answer test.
            pub const fn expose(&self) -> &[u8; $len] {
                &self.0
            }
        }

        redacted!($name);
    };
}

symmetric_key!(
    /// K_ij: the key two members share, from which their masks come.
    PairKey,
    16
);
symmetric_key!(
    /// What an authority of meters makes draw values with; the authority that follows it takes it over.
    DrawKey,
    32
);
symmetric_key!(
    /// K_self: known to the meter alone, hidden in every C.
    SelfKey,
    32
);

/// Declares a key that is used again and again, and so is kept with its schedule run.
macro_rules! scheduled_key {
    ($(#[$doc:meta])* $name:ident, $len:literal, $schedule:ty) => {
        $(#[$doc])*
        pub struct $name {
            raw: Zeroizing<[u8; $len]>,
            schedule: $schedule,
        }

        impl $name {
            pub fn from_bytes(bytes: [u8; $len]) -> Self {
                let schedule = KeyInit::new_from_slice(&bytes).expect("a key of the right length");
                Self { raw: Zeroizing::new(bytes), schedule }
            }

            /// The bytes, for a known-answer test.
            pub fn expose(&self) -> &[u8; $len] {
                &self.raw
            }

            pub(crate) const fn schedule(&self) -> &$schedule {
                &self.schedule
            }
        }

        redacted!($name);
    };
}

scheduled_key!(
    /// S_i: the key a member shares with the gateway, from which its stream K' comes.
    StreamKey,
    16,
    Aes128Enc
);
scheduled_key!(
    /// A_i: the key that authenticates a member's readings and reveals to the gateway.
    MacKey,
    32,
    Hmac<Sha256>
);

impl SelfKey {
    pub fn generate(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        Self(random(rng))
    }
}

/// SHA-256 of a membership list's payload (LH): names the list and salts every key derived under it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListHash(pub [u8; 32]);

impl ListHash {
    /// What the first list of a cluster names as its previous one.
    pub const NONE: Self = Self([0; 32]);

    /// The part that readings and reveals carry.
    pub fn prefix(&self) -> [u8; 8] {
        prefix(&self.0)
    }
}

impl fmt::Debug for ListHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The first eight bytes of a hash.
pub(crate) fn prefix(hash: &[u8; 32]) -> [u8; 8] {
    core::array::from_fn(|i| hash[i])
}

/// The Ed25519 key of a meter's or gateway's certificate.
#[derive(ZeroizeOnDrop)]
pub struct IdentityKey(SigningKey);

impl IdentityKey {
    /// From the 32-byte private key of RFC 8032.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    pub fn public(&self) -> IdentityPublic {
        IdentityPublic(self.0.verifying_key().to_bytes())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

/// An Ed25519 public key, compressed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentityPublic(pub [u8; 32]);

impl IdentityPublic {
    /// Whether this is the canonical encoding of a point that is not of small order. Verification refuses any other
    /// key, since libraries do not agree on them.
    pub(crate) fn is_sound(&self) -> bool {
        let y = core::array::from_fn(|i| if i == 31 { self.0[i] & 0x7f } else { self.0[i] });
        AgreementPublic(y).canonical() == y && VerifyingKey::from_bytes(&self.0).is_ok_and(|key| !key.is_weak())
    }

    /// Strict verification (RFC 8032 without the cofactor): keys and nonces of small order are refused, so that all
    /// verifiers agree.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        VerifyingKey::from_bytes(&self.0)
            .is_ok_and(|key| key.verify_strict(message, &Signature::from_bytes(signature)).is_ok())
    }
}

impl fmt::Debug for IdentityPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&ListHash(self.0), f)
    }
}

/// A private X25519 key: a meter's, one per enrolment, or the gateway's, one per epoch.
#[derive(ZeroizeOnDrop)]
pub struct AgreementSecret(StaticSecret);

impl AgreementSecret {
    pub fn generate(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        Self::from_bytes(random(rng))
    }

    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(StaticSecret::from(bytes))
    }

    /// The bytes, for a record or a known-answer test.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    pub fn public(&self) -> AgreementPublic {
        AgreementPublic(PublicKey::from(&self.0).to_bytes())
    }

    /// X25519; `None` if the result is not contributory, that is, the same for every private key.
    pub fn agree(&self, theirs: &AgreementPublic) -> Option<SharedSecret> {
        let shared = self.0.diffie_hellman(&PublicKey::from(theirs.0));
        shared.was_contributory().then(|| SharedSecret(shared.to_bytes()))
    }
}

/// The result of X25519. It depends on the two keys alone, so it may be kept across lists.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SharedSecret(pub(crate) [u8; 32]);

redacted!(IdentityKey, AgreementSecret, SharedSecret);

/// A public X25519 key as it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgreementPublic(pub [u8; 32]);

/// 2^255 - 19, little-endian.
const FIELD_PRIME: [u8; 32] = {
    let mut p = [0xff; 32];
    p[0] = 0xed;
    p[31] = 0x7f;
    p
};

/// The canonical u-coordinates of points of small order: 0, 1, p - 1 and the two of order 8.
const LOW_ORDER: [[u8; 32]; 5] = [
    [0; 32],
    {
        let mut one = [0; 32];
        one[0] = 1;
        one
    },
    {
        let mut minus_one = FIELD_PRIME;
        minus_one[0] = 0xec;
        minus_one
    },
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda, 0x09,
        0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04, 0x44,
        0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
    ],
];

impl AgreementPublic {
    /// The u-coordinate that X25519 sees: bit 255 masked, reduced modulo p. Keys with equal canonical form are one key.
    pub fn canonical(&self) -> [u8; 32] {
        let mut u = self.0;
        u[31] &= 0x7f;
        // u < 2^255 = p + 19, so one subtraction reduces it, and it is needed only when all bytes above the first are p's.
        if u[1..] == FIELD_PRIME[1..] && u[0] >= FIELD_PRIME[0] {
            let low = u[0] - FIELD_PRIME[0];
            u = [0; 32];
            u[0] = low;
        }
        u
    }

    /// Whether every X25519 result with this key is the same.
    pub fn is_low_order(&self) -> bool {
        LOW_ORDER.contains(&self.canonical())
    }
}

/// Compares authentication tags in constant time.
pub(crate) fn tags_equal(ours: &[u8], theirs: &[u8]) -> bool {
    ours.ct_eq(theirs).into()
}

pub(crate) fn random<const N: usize>(rng: &mut (impl CryptoRng + ?Sized)) -> [u8; N] {
    let mut bytes = [0; N];
    rng.fill_bytes(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_order_keys_are_those_with_a_non_contributory_result() {
        let secret = AgreementSecret::from_bytes([7; 32]);
        for point in LOW_ORDER {
            for top_bit in [0, 0x80] {
                let mut bytes = point;
                bytes[31] |= top_bit;
                let key = AgreementPublic(bytes);
                assert!(key.is_low_order());
                assert!(secret.agree(&key).is_none());
            }
        }
        let honest = AgreementSecret::from_bytes([9; 32]).public();
        assert!(!honest.is_low_order());
        assert_eq!(secret.agree(&honest).unwrap().0, {
            let other = AgreementSecret::from_bytes([9; 32]);
            other.agree(&secret.public()).unwrap().0
        });
    }

    #[test]
    fn an_identity_key_is_a_canonical_point_of_large_order() {
        let sound = |bytes: [u8; 32]| IdentityPublic(bytes).is_sound();
        let small = |y: u8| std::array::from_fn(|i| if i == 0 { y } else { 0 });
        assert!(sound(IdentityKey::from_seed(&[1; 32]).public().0));
        // y = 0 and y = 1 have small order; y = 2 is on no point; y = 3 is, but may not be written as p + 3.
        assert!(!sound(small(0)) && !sound(small(1)) && !sound(small(2)) && sound(small(3)));
        let mut p_plus_three = FIELD_PRIME;
        p_plus_three[0] += 3;
        assert!(VerifyingKey::from_bytes(&p_plus_three).is_ok() && !sound(p_plus_three));
        // The points of order 8, and -1 of order 2.
        let eight = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a";
        let eight = std::array::from_fn(|i| u8::from_str_radix(&eight[2 * i..2 * i + 2], 16).unwrap());
        assert!(!sound(eight) && !sound(LOW_ORDER[2]));
    }

    #[test]
    fn twins_of_a_key_have_one_canonical_form() {
        let mut twin = AgreementSecret::from_bytes([3; 32]).public();
        let canonical = twin.canonical();
        twin.0[31] |= 0x80;
        assert_eq!(twin.canonical(), canonical);

        let mut p_plus_nine = FIELD_PRIME;
        p_plus_nine[0] += 9;
        let mut nine = [0; 32];
        nine[0] = 9;
        assert_eq!(AgreementPublic(p_plus_nine).canonical(), nine);
        assert!(AgreementPublic(FIELD_PRIME).is_low_order());
    }

    #[test]
    fn secrets_do_not_print() {
        let printed = format!("{:?} {:?}", SelfKey::from_bytes([0xab; 32]), AgreementSecret::from_bytes([0xab; 32]));
        assert_eq!(printed, "SelfKey { .. } AgreementSecret { .. }");
    }
}
