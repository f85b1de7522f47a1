//! Every derivation and its label, so that domain separation can be reviewed on one screen (`protocol.md 3`).
//!
//! Fields are joined with their lengths: each is prefixed with its length in two bytes, and every integer is big-endian.

use alloc::vec::Vec;

use aes::Aes128Enc;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::ids::{ClusterId, MeterId};
use crate::keys::{DrawKey, ListHash, MacKey, PairKey, SelfKey, SharedSecret, StreamKey};
use crate::time::Slot;

const PAIR: &[u8] = b"dream/1 pair";
const GATEWAY: &[u8] = b"dream/1 gateway";
const SECRET: &[u8] = b"dream/1 secret";
const SELF: &[u8] = b"dream/1 self";
const DRAW: &[u8] = b"dream/1 draw";
const COMMITTEE: &[u8] = b"dream/1 committee";

const MASK_BLOCK: u8 = 1;
const SELECT_BLOCK: u8 = 2;
const STREAM_BLOCK: u8 = 3;
const DEAL_UP_BLOCK: u8 = 4;
const DEAL_DOWN_BLOCK: u8 = 5;

/// K_ij, the same on both sides.
pub fn pair_key(list: &ListHash, shared: &SharedSecret, cluster: &ClusterId, a: &MeterId, b: &MeterId) -> PairKey {
    let (first, second) = if a < b { (a, b) } else { (b, a) };
    let mut key = Zeroizing::new([0; 16]);
    expand(list, shared, [PAIR, bytes(cluster.as_str()), bytes(first.as_str()), bytes(second.as_str())], &mut *key);
    PairKey::from_bytes(*key)
}

/// S_i and A_i, the same on both sides.
pub fn gateway_keys(
    list: &ListHash,
    shared: &SharedSecret,
    cluster: &ClusterId,
    meter: &MeterId,
) -> (StreamKey, MacKey) {
    let mut both = Zeroizing::new([0; 48]);
    expand(list, shared, [GATEWAY, bytes(cluster.as_str()), bytes(meter.as_str())], &mut *both);
    let stream = core::array::from_fn(|i| both[i]);
    let mac = core::array::from_fn(|i| both[16 + i]);
    (StreamKey::from_bytes(stream), MacKey::from_bytes(mac))
}

/// K'_i: what a member adds for the gateway alone, modulo 2^64.
pub fn stream(key: &StreamKey, slot: Slot, attempt: u8) -> u64 {
    halves(&stream_block(key, slot, attempt))[0]
}

/// The whole block whose start is K'_i modulo 2^64, and which modulo p is K'_i in the committee scheme.
pub fn stream_block(key: &StreamKey, slot: Slot, attempt: u8) -> [u8; 16] {
    // AES-CTR's first block of keystream is the encryption of its initial block.
    let mut keystream = block(STREAM_BLOCK, attempt, slot.0).into();
    key.schedule().encrypt_block(&mut keystream);
    keystream.into()
}

/// The block that a holder deals to itself, P(i,i) before it is reduced.
pub fn own_deal(key: &SelfKey, list: &ListHash, slot: Slot, attempt: u8) -> [u8; 16] {
    let tag = hmac(key.expose(), [SELF, &list.0, &slot.0.to_be_bytes(), &[attempt]]);
    core::array::from_fn(|i| tag[i])
}

/// The AES input whose output a member deals to a holder; `up` if the member sorts before the holder.
pub fn deal_block(up: bool, slot: Slot, attempt: u8) -> [u8; 16] {
    block(if up { DEAL_UP_BLOCK } else { DEAL_DOWN_BLOCK }, attempt, slot.0)
}

/// The draw value that an authority gives a meter, if it derives them.
pub fn draw_value(key: &DrawKey, meter: &MeterId) -> [u8; 16] {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.expose()).expect("any length is a key");
    for field in [DRAW, bytes(meter.as_str())] {
        mac.update(&length(field));
        mac.update(field);
    }
    let tag = mac.finalize().into_bytes();
    core::array::from_fn(|i| tag[i])
}

/// Sigma: the number that is drawn for a meter, by its draw value, on a day.
pub fn sigma(value: &[u8; 16], day: u64) -> u64 {
    let mut hash = Sha256::new();
    let fields: [&[u8]; 3] = [COMMITTEE, value, &day.to_be_bytes()];
    for field in fields {
        hash.update(length(field));
        hash.update(field);
    }
    let hash = hash.finalize();
    u64::from_be_bytes(core::array::from_fn(|i| hash[i]))
}

/// C_i: what a member adds for nobody, until it reveals it.
///
/// Local to the meter. Hashing `noisy` in means that a device whose random source or state fails still never publishes
/// two ciphertexts whose difference is a difference of readings; `fresh` means that a later theft of K_self opens no old
/// slot.
pub fn secret(key: &SelfKey, list: &ListHash, slot: Slot, attempt: u8, noisy: i64, fresh: &[u8; 16]) -> u64 {
    let fields = [SECRET, &list.0, &slot.0.to_be_bytes(), &[attempt], &noisy.to_be_bytes(), fresh];
    let tag = hmac(key.expose(), fields);
    u64::from_be_bytes(core::array::from_fn(|i| tag[i]))
}

/// The AES input whose output masks the two slots `2 * counter` and `2 * counter + 1`.
pub(crate) fn mask_block(attempt: u8, counter: u64) -> [u8; 16] {
    block(MASK_BLOCK, attempt, counter)
}

/// The AES input whose output decides whether two members are partners in this slot and attempt.
pub(crate) fn select_block(attempt: u8, slot: Slot) -> [u8; 16] {
    block(SELECT_BLOCK, attempt, slot.0)
}

/// The two halves of a block, as numbers.
pub(crate) fn halves(block: &[u8; 16]) -> [u64; 2] {
    let (halves, _) = block.as_chunks::<8>();
    [u64::from_be_bytes(halves[0]), u64::from_be_bytes(halves[1])]
}

/// One AES block under a pair's key.
pub(crate) fn encrypt(key: &PairKey, block: [u8; 16]) -> [u8; 16] {
    let mut block = block.into();
    Aes128Enc::new(key.expose().into()).encrypt_block(&mut block);
    block.into()
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// HMAC-SHA256 over fields with their lengths.
fn hmac<const FIELDS: usize>(key: &[u8], fields: [&[u8]; FIELDS]) -> Zeroizing<[u8; 32]> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    for field in fields {
        mac.update(&length(field));
        mac.update(field);
    }
    Zeroizing::new(mac.finalize().into_bytes().into())
}

fn block(tag: u8, attempt: u8, counter: u64) -> [u8; 16] {
    let mut block = [0; 16];
    block[0] = tag;
    block[1] = attempt;
    block[8..].copy_from_slice(&counter.to_be_bytes());
    block
}

fn expand<const FIELDS: usize>(list: &ListHash, shared: &SharedSecret, info: [&[u8]; FIELDS], out: &mut [u8]) {
    let lengths = info.map(length);
    let joined: Vec<&[u8]> =
        lengths.iter().map(<[u8; 2]>::as_slice).zip(info).flat_map(|(len, field)| [len, field]).collect();
    Hkdf::<Sha256>::new(Some(&list.0), &shared.0)
        .expand_multi_info(&joined, out)
        .expect("at most 48 bytes, and HKDF-SHA256 gives 8,160");
}

fn length(field: &[u8]) -> [u8; 2] {
    u16::try_from(field.len()).expect("labels, ids and hashes are short").to_be_bytes()
}

fn bytes(text: &str) -> &[u8] {
    text.as_bytes()
}

#[cfg(test)]
mod tests {
    use aes::cipher::{KeyIvInit, StreamCipher};
    use ctr::Ctr128BE;

    use super::*;

    #[test]
    fn the_stream_is_that_of_aes_ctr() {
        let key = StreamKey::from_bytes([9; 16]);
        let mut cipher = Ctr128BE::<Aes128Enc>::new(key.expose().into(), &block(3, 1, 2_980_000).into());
        let mut keystream = [0; 8];
        cipher.apply_keystream(&mut keystream);
        assert_eq!(stream(&key, Slot(2_980_000), 1), u64::from_be_bytes(keystream));
    }
}
