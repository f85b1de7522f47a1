//! `key_schedule.json`, `masks.json`, `stream_and_secret.json`: from X25519 keys to the numbers that hide a reading.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use dream_protocol::derive;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementPublic, AgreementSecret, ListHash, PairKey, SelfKey, StreamKey};
use dream_protocol::member_set::MemberSet;
use dream_protocol::params::{Params, Terms};
use dream_protocol::scheme::Scheme;
use dream_protocol::scheme::pairwise::mask::Masks;
use dream_protocol::scheme::pairwise::partners;
use dream_protocol::time::Slot;
use sha2::{Digest, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};

use super::json::{Json, hex, list, object, word};
use crate::support::TERMS;

/// Bytes that look random and follow from a label.
pub(crate) fn bytes(label: &str) -> [u8; 32] {
    Sha256::digest(label).into()
}

pub(crate) fn key_schedule() -> Json {
    let pairs = [("north", "m-0001", "m-0002"), ("north", "m-0002", "m-0001"), ("a", "ab", "a"), ("ab", "b", "a0")];
    object! {
        "comment": "protocol.md 3: X25519, then HKDF-SHA256 salted with LH. K_ij is the same from both ends; the length \
                    before each field keeps (\"a\", \"ab\") and (\"ab\", \"b\") apart.",
        "pairs": list(pairs, |(cluster, own, other)| pair(cluster, own, other)),
        "gateway": list(pairs, |(cluster, own, _)| with_gateway(cluster, own)),
        "public_keys": list(public_keys(), |(name, key)| public_key(name, key)),
    }
}

fn pair(cluster: &str, own: &str, other: &str) -> Json {
    let list = ListHash(bytes(&format!("list of {cluster}")));
    let [secret, theirs] = [own, other].map(|id| bytes(&format!("agreement of {id}")));
    let secret_key = AgreementSecret::from_bytes(secret);
    let their_public = AgreementSecret::from_bytes(theirs).public();
    let [own_id, other_id] = [own, other].map(|id| MeterId::new(id).unwrap());
    let shared = secret_key.agree(&their_public).unwrap();
    let key = derive::pair_key(&list, &shared, &ClusterId::new(cluster).unwrap(), &own_id, &other_id);
    object! {
        "cluster": cluster,
        "list_hash": hex(list.0),
        "own_id": own,
        "own_agreement_private": hex(secret),
        "own_agreement_public": hex(secret_key.public().0),
        "other_id": other,
        "other_agreement_private": hex(theirs),
        "other_agreement_public": hex(their_public.0),
        "x25519": hex(x25519(secret, their_public)),
        "pair_key": hex(key.expose()),
    }
}

fn with_gateway(cluster: &str, own: &str) -> Json {
    let list = ListHash(bytes(&format!("list of {cluster}")));
    let [secret, theirs] = [bytes(&format!("agreement of {own}")), bytes("agreement of the gateway")];
    let their_public = AgreementSecret::from_bytes(theirs).public();
    let shared = AgreementSecret::from_bytes(secret).agree(&their_public).unwrap();
    let (stream, mac) =
        derive::gateway_keys(&list, &shared, &ClusterId::new(cluster).unwrap(), &MeterId::new(own).unwrap());
    object! {
        "cluster": cluster,
        "list_hash": hex(list.0),
        "id": own,
        "agreement_private": hex(secret),
        "gateway_agreement_private": hex(theirs),
        "gateway_agreement_public": hex(their_public.0),
        "x25519": hex(x25519(secret, their_public)),
        "stream_key": hex(stream.expose()),
        "mac_key": hex(mac.expose()),
    }
}

/// The result itself, which the crate does not show.
pub(crate) fn x25519(secret: [u8; 32], theirs: AgreementPublic) -> [u8; 32] {
    StaticSecret::from(secret).diffie_hellman(&PublicKey::from(theirs.0)).to_bytes()
}

/// Keys that X25519 takes for another one, and those it must not be used with.
fn public_keys() -> Vec<(&'static str, [u8; 32])> {
    let honest = AgreementSecret::from_bytes(bytes("agreement of m-0001")).public().0;
    let p = prime();
    let order_8 = [
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    ]
    .map(|text| <[u8; 32]>::try_from(hex::decode(text).unwrap()).unwrap());
    let minus_one = {
        let mut key = p;
        key[0] -= 1;
        key
    };
    vec![
        ("an honest key", honest),
        ("its twin with bit 255", with_bit(honest)),
        ("nine, the base point", plus([0; 32], 9)),
        ("p + 9, its twin", plus(p, 9)),
        ("p + 9 with bit 255", with_bit(plus(p, 9))),
        ("p + 18, the largest of 255 bits", plus(p, 18)),
        ("zero", [0; 32]),
        ("zero with bit 255", with_bit([0; 32])),
        ("one", plus([0; 32], 1)),
        ("one with bit 255", with_bit(plus([0; 32], 1))),
        ("order 8, first", order_8[0]),
        ("order 8, first, with bit 255", with_bit(order_8[0])),
        ("order 8, second", order_8[1]),
        ("order 8, second, with bit 255", with_bit(order_8[1])),
        ("p - 1", minus_one),
        ("p - 1 with bit 255", with_bit(minus_one)),
        ("p", p),
        ("p with bit 255", with_bit(p)),
        ("p + 1", plus(p, 1)),
        ("p + 1 with bit 255", with_bit(plus(p, 1))),
    ]
}

// Functions, not closures: rustc 1.95 miscompiles closures that change a parameter of their own (see `tests/canary.rs`).

/// Returns the key with bit 255 set, which X25519 ignores.
fn with_bit(mut key: [u8; 32]) -> [u8; 32] {
    key[31] |= 0x80;
    key
}

/// Returns the key plus a small number that does not carry.
fn plus(mut key: [u8; 32], more: u8) -> [u8; 32] {
    key[0] += more;
    key
}

/// 2^255 - 19, little-endian.
fn prime() -> [u8; 32] {
    let mut p = [0xff; 32];
    p[0] = 0xed;
    p[31] = 0x7f;
    p
}

fn public_key(name: &str, bytes: [u8; 32]) -> Json {
    let key = AgreementPublic(bytes);
    object! {
        "name": name,
        "public": hex(bytes),
        "canonical": hex(key.canonical()),
        "small_order": if key.is_low_order() { "yes" } else { "no" },
    }
}

pub(crate) fn masks() -> Json {
    let slots = [2_980_002, 2_980_003];
    object! {
        "comment": "protocol.md 3, 4 and 6: masks of one pair, then their signed sums over five members with every other \
                    member as partner (w = 0), and over those members with partners drawn by selection (w = 2).",
        "blocks": list([(0, 0), (0, 1), (1, 0), (1, 1)], |(slot, attempt)| pair_blocks(slots[slot], attempt)),
        "far_slot": pair_blocks((1 << 40) - 1, 254),
        "thresholds": list([(5, 2), (100, 47), (101, 50), (300, 58), (10_000, 500), (100, 0), (100, 99)], threshold_of),
        "sums": list(
            [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 2), (1, 1, 2)],
            |(slot, attempt, partners)| sums(slots[slot], attempt, partners),
        ),
    }
}

fn pair_blocks(slot: u64, attempt: u8) -> Json {
    let key = pair_key(0, 1);
    // Of two members the second adds the mask as it is.
    let mask = Masks::new(vec![Some(pair_key(0, 1)), None], None).sum(Slot(slot), attempt);
    object! {
        "pair_key": hex(key.expose()),
        "slot": slot,
        "attempt": attempt,
        "mask": word(mask),
        "selection": word(selection(&key, slot, attempt)),
    }
}

/// u_ij, computed here: the crate compares it at once and never shows it.
fn selection(key: &PairKey, slot: u64, attempt: u8) -> u64 {
    let mut block = [0; 16];
    block[..2].copy_from_slice(&[2, attempt]);
    block[8..].copy_from_slice(&slot.to_be_bytes());
    let mut block = block.into();
    Aes128::new(key.expose().into()).encrypt_block(&mut block);
    u64::from_be_bytes(block[..8].try_into().unwrap())
}

fn threshold_of((members, partners): (u64, u64)) -> Json {
    object! {
        "members": members,
        "w": partners,
        "threshold": threshold(members, partners).map_or(Json::Null, word),
    }
}

/// The threshold by the specification; where parameters with so few partners are accepted, the crate must agree.
fn threshold(members: u64, partners: u64) -> Option<u64> {
    let others = u128::from(members - 1);
    let expected = u64::try_from((u128::from(partners) << 64) / others).ok().filter(|_| partners > 0);
    let tenth = members / 10;
    let terms = Terms {
        max_missing: tenth,
        max_malicious: members.div_ceil(10),
        scheme: Scheme::Pairwise { partners },
        ..TERMS
    };
    if let Ok(params) = Params::new(usize::try_from(members).unwrap(), terms) {
        assert_eq!(partners::threshold(&params), expected);
    }
    expected
}

fn sums(slot: u64, attempt: u8, partners: u64) -> Json {
    const MEMBERS: u16 = 5;
    let threshold = threshold(MEMBERS.into(), partners);
    let missing = MemberSet::from_members(MEMBERS, [1, 3]);
    let member = |own: u16| {
        let keys = (0..MEMBERS).map(|other| (other != own).then(|| pair_key(own, other))).collect();
        let masks = Masks::new(keys, threshold);
        object! {
            "pair_keys": list(0..MEMBERS, |other| {
                if other == own { Json::Null } else { hex(pair_key(own, other).expose()) }
            }),
            "sum": word(masks.sum(Slot(slot), attempt)),
            "sum_over_missing": word(masks.sum_over(&missing, Slot(slot), attempt)),
        }
    };
    object! {
        "slot": slot,
        "attempt": attempt,
        "w": partners,
        "missing": hex(missing.as_bytes()),
        "members": list(0..MEMBERS, member),
    }
}

fn pair_key(a: u16, b: u16) -> PairKey {
    let label = format!("pair of {} and {}", a.min(b), a.max(b));
    PairKey::from_bytes(std::array::from_fn(|i| bytes(&label)[i]))
}

pub(crate) fn stream_and_secret() -> Json {
    let cases =
        [(2_980_002, 0, 4711), (2_980_003, 0, 4711), (2_980_002, 1, 4711), (2_980_002, 0, -1), (0, 254, i64::MIN)];
    object! {
        "comment": "protocol.md 3: K' from S, which the gateway recomputes, and C, which nobody else does: a meter may make \
                    its C in another way that keeps what section 3 promises.",
        "stream": list(cases, |(slot, attempt, _)| {
            let key = std::array::from_fn(|i| bytes("stream")[i]);
            object! {
                "stream_key": hex(key),
                "slot": slot,
                "attempt": attempt,
                "stream": word(derive::stream(&StreamKey::from_bytes(key), Slot(slot), attempt)),
            }
        }),
        "secret": list(cases, |(slot, attempt, noisy)| {
            let (key, list) = (bytes("self"), ListHash(bytes("list of north")));
            let fresh = std::array::from_fn(|i| bytes("fresh")[i]);
            let secret = derive::secret(&SelfKey::from_bytes(key), &list, Slot(slot), attempt, noisy, &fresh);
            object! {
                "self_key": hex(key),
                "list_hash": hex(list.0),
                "slot": slot,
                "attempt": attempt,
                "y": word(noisy.cast_unsigned()),
                "r": hex(fresh),
                "secret": word(secret),
            }
        }),
    }
}
