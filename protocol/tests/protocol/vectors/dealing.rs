//! `dealing.json`: the numbers of the committee scheme, from the keys to the sum's secret.

use std::sync::Arc;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use dream_protocol::certificate::DrawKey;
use dream_protocol::derive;
use dream_protocol::ids::MeterId;
use dream_protocol::keys::{ListHash, PairKey, SelfKey, StreamKey};
use dream_protocol::scheme::committee::dealing::Dealer;
use dream_protocol::scheme::committee::decoding::{Undecodable, decode};
use dream_protocol::scheme::committee::field::Element;
use dream_protocol::scheme::committee::member::Member;
use dream_protocol::scheme::committee::{Committee, choose, threshold};
use dream_protocol::time::Slot;
use sha2::{Digest, Sha256};

use super::json::{Json, hex, list, object, word};
use super::keys::bytes;

const SLOT: Slot = Slot(2_980_000);
const FAR: Slot = Slot((1 << 40) - 1);

pub(crate) fn dealing() -> Json {
    let at = [(SLOT, 0), (SLOT, 1), (SLOT.plus(1), 0), (FAR, 254)];
    object! {
        "comment": "protocol.md 3 and 4a: numbers modulo p = 2^61 - 1. blocks: P(i,l) under K_il, up if the member sorts before \
                    the holder. own: P(i,i). stream: K'. draws: sigma of a certificate's signature on a day, and whether it makes \
                    a holder. dealings: what a member deals to the holders 1 to K, its C and corrections. decodings: answers \
                    at points, of which as many as needed give the secret if none is wrong. choices is informative: what our \
                    gateway takes, where the draw of the willing member i is the first 8 bytes of SHA-256 of `willing i`.",
        "blocks": list(at.iter().flat_map(|at| [(*at, true), (*at, false)]), |((slot, attempt), up)| block(slot, attempt, up)),
        "own": list(at, |(slot, attempt)| own(slot, attempt)),
        "stream": list(at, |(slot, attempt)| stream(slot, attempt)),
        "draws": draws(),
        "dealings": dealings(),
        "decodings": decodings(),
        "choices": choices(),
    }
}

fn element(value: Element) -> Json {
    word(value.to_canonical())
}

/// One number that follows from a label.
fn number(label: &str) -> Element {
    Element::from_block(std::array::from_fn(|i| bytes(label)[i]))
}

/// P(i,l), by its definition.
pub(crate) fn deal(key: &[u8; 16], up: bool, slot: Slot, attempt: u8) -> Element {
    let mut block = derive::deal_block(up, slot, attempt).into();
    Aes128::new(key.into()).encrypt_block(&mut block);
    Element::from_block(block.into())
}

/// What a member deals to a single holder: a committee of one, in which C is that number.
fn only(seat: Option<(PairKey, bool)>, list: ListHash, slot: Slot, attempt: u8) -> Element {
    let self_key = Arc::new(SelfKey::from_bytes(bytes("self key")));
    Member::new([seat], Arc::new(Dealer::new(1, 1)), self_key, list).deal(slot, attempt).secret()
}

fn block(slot: Slot, attempt: u8, up: bool) -> Json {
    let key: [u8; 16] = std::array::from_fn(|i| bytes("pair key")[i]);
    let dealt = only(Some((PairKey::from_bytes(key), up)), ListHash(bytes("list of north")), slot, attempt);
    assert_eq!(dealt, deal(&key, up, slot, attempt));
    object! {
        "pair_key": hex(key),
        "up": if up { "yes" } else { "no" },
        "slot": slot.0,
        "attempt": attempt,
        "block": hex(derive::deal_block(up, slot, attempt)),
        "dealt": element(dealt),
    }
}

fn own(slot: Slot, attempt: u8) -> Json {
    let hash = ListHash(bytes("list of north"));
    let dealt = only(None, hash, slot, attempt);
    let output = derive::own_deal(&SelfKey::from_bytes(bytes("self key")), &hash, slot, attempt);
    assert_eq!(dealt, Element::from_block(output));
    object! {
        "self_key": hex(bytes("self key")),
        "list_hash": hex(hash.0),
        "slot": slot.0,
        "attempt": attempt,
        "hmac": hex(output),
        "dealt": element(dealt),
    }
}

fn stream(slot: Slot, attempt: u8) -> Json {
    let key: [u8; 16] = std::array::from_fn(|i| bytes("stream key")[i]);
    let keystream = derive::stream_block(&StreamKey::from_bytes(key), slot, attempt);
    object! {
        "stream_key": hex(key),
        "slot": slot.0,
        "attempt": attempt,
        "keystream": hex(keystream),
        "stream": element(Element::from_block(keystream)),
    }
}

/// Draw values on two days, and how many holders are wanted of how many members: k just above and just below what is drawn.
fn draws() -> Json {
    let key = DrawKey::from_bytes(bytes("draw key"));
    let meters = ["m-0001", "m-0002", "home-00", "a"].map(|id| MeterId::new(id).unwrap());
    let members = 10_000u64;
    let around = |sigma: u64| {
        // The least k whose threshold is above the draw, and the one before it.
        let least = u64::try_from((u128::from(sigma) * u128::from(members)) >> 64).unwrap() + 1;
        [least - 1, least, 160]
    };
    let mut each = Vec::new();
    for (meter, day) in meters.iter().flat_map(|meter| [(meter, 20_693), (meter, 20_694)]) {
        let draw = key.value(meter);
        let sigma = draw.sigma(day);
        let ks = around(sigma).into_iter().filter(|k| (1..members).contains(k));
        each.extend(ks.map(|k| (meter, draw, day, sigma, k)));
    }
    list(each, |(meter, draw, day, sigma, k)| {
        let limit = threshold(k, members).unwrap();
        object! {
            "draw_key": hex(key.expose()),
            "meter": meter.as_str(),
            "draw": hex(draw.0),
            "urn": draw.urn(),
            "day": day,
            "sigma": word(sigma),
            "k": k,
            "members": members,
            "threshold": word(limit),
            "holder": if sigma < limit { "yes" } else { "no" },
        }
    })
}

fn dealings() -> Json {
    let random = |holders: usize, needed: usize| {
        let dealt = (1..=holders).map(|holder| number(&format!("{holders} {needed}: dealt to {holder}"))).collect();
        (needed, dealt)
    };
    let small = |values: &[i64]| values.iter().map(|value| Element::from_signed(*value)).collect::<Vec<_>>();
    let cases = [
        (3, small(&[5, 11, 21, 35])),
        (3, small(&[5, 11, 21, 0, -1])),
        (1, small(&[7, 8, -9])),
        (4, small(&[-1, -1, -1, -1])),
        random(1, 1),
        random(5, 5),
        random(10, 8),
        random(12, 9),
        random(30, 23),
        random(160, 129),
        random(256, 192),
    ];
    list(cases, |(needed, dealt)| {
        let dealing = Dealer::new(dealt.len(), needed).deal(&dealt);
        let small = Dealer::small(dealt.len(), needed).deal(&dealt);
        assert_eq!((dealing.secret(), dealing.corrections()), (small.secret(), small.corrections()));
        object! {
            "needed": needed as u64,
            "dealt": list(&dealt, |value| element(*value)),
            "secret": element(dealing.secret()),
            "corrections": list(dealing.corrections(), |value| element(*value)),
        }
    })
}

/// What a decoding is called, q, the answers, and which of them are made wrong.
type DecodingCase = (&'static str, usize, Vec<(u16, Element)>, &'static [u16]);

fn decodings() -> Json {
    let cases: [DecodingCase; 15] = [
        ("all answers, as many as needed", 6, answers(6, 1..=6), &[]),
        ("any six of eight", 6, answers(6, [8, 3, 1, 7, 2, 5]), &[]),
        ("all eight of eight", 6, answers(6, 1..=8), &[]),
        ("one of eight wrong", 6, answers(6, 1..=8), &[4]),
        ("the first of eight wrong", 6, answers(6, 1..=8), &[1]),
        ("one vanished of twelve, and one wrong", 9, answers(9, (1..=12).filter(|x| *x != 5)), &[11]),
        ("a constant", 1, answers(1, 1..=5), &[2, 3]),
        ("points far apart", 4, answers(4, [256, 1, 100, 17, 200, 33]), &[100]),
        ("155 of 160, and 13 wrong", 129, answers(129, (1..=160).filter(|x| x % 32 != 0)), &WRONG[..13]),
        ("160 of 160, and 15 wrong", 129, answers(129, 1..=160), &WRONG),
        ("five answers of six", 6, answers(6, 1..=5), &[]),
        ("no answers", 6, Vec::new(), &[]),
        ("two of eight wrong", 6, answers(6, 1..=8), &[4, 7]),
        ("one of seven wrong", 6, answers(6, 1..=7), &[2]),
        ("16 of 160 wrong", 129, answers(129, 1..=160), &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 160]),
    ];
    list(cases, |(name, needed, mut answers, wrong)| {
        for (point, value) in answers.iter_mut().filter(|(point, _)| wrong.contains(point)) {
            *value += number(&format!("wrong at {point}"));
        }
        let decoded = decode(needed, &answers);
        if let Ok(decoded) = &decoded {
            assert_eq!(decoded.secret, coefficient(needed, 0), "{name}");
            assert_eq!(decoded.wrong, wrong, "{name}");
        }
        object! {
            "name": name,
            "needed": needed as u64,
            "answers": list(&answers, |(point, value)| object! { "point": u64::from(*point), "value": element(*value) }),
            "secret": decoded.as_ref().map_or(Json::Null, |decoded| element(decoded.secret)),
            "wrong": list(decoded.iter().flat_map(|decoded| &decoded.wrong), |point| u64::from(*point).into()),
            "refusal": match decoded {
                Ok(_) => Json::Null,
                Err(Undecodable::TooFew { .. }) => "too_few".into(),
                Err(Undecodable::TooManyWrong { .. }) => "too_many_wrong".into(),
                Err(Undecodable::Points) => panic!("{name}"),
            },
        }
    })
}

/// Wrong points of 160.
const WRONG: [u16; 15] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 131, 137, 139, 149, 159];

/// Coefficients of the polynomials, by their number.
fn coefficient(needed: usize, power: usize) -> Element {
    number(&format!("{needed}: coefficient {power}"))
}

fn answers(needed: usize, points: impl IntoIterator<Item = u16>) -> Vec<(u16, Element)> {
    let value = |x: u16| {
        let powers = (0..needed).rev();
        powers.fold(Element::ZERO, |value, power| value * Element::from(x) + coefficient(needed, power))
    };
    points.into_iter().map(|x| (x, value(x))).collect()
}

/// N, T and how many are willing.
const CHOICES: [(u16, u16, usize); 14] = [
    (10, 1, 10),
    (14, 2, 12),
    (23, 3, 23),
    (30, 3, 30),
    (50, 10, 50),
    (100, 10, 100),
    (100, 10, 60),
    (200, 20, 200),
    (201, 21, 201),
    (1000, 100, 1000),
    (1000, 100, 900),
    (1000, 100, 300),
    (100, 10, 20),
    (300, 60, 300),
];

fn choices() -> Json {
    list(CHOICES, |(members, malicious, willing)| {
        let draw = |index: usize| {
            let hash = Sha256::digest(format!("willing {index}"));
            u64::from_be_bytes(std::array::from_fn(|i| hash[i]))
        };
        let draws: Vec<Option<u64>> = (0..willing).map(|index| Some(draw(index))).collect();
        let chosen = choose(members, malicious, &draws, true).ok();
        let Committee { drawn, needed, holders } =
            chosen.map_or(Committee { drawn: 0, needed: 0, holders: 0 }, |choice| choice.committee);
        object! {
            "members": members,
            "max_malicious": malicious,
            "willing": willing as u64,
            "k": drawn,
            "holders": holders,
            "f": chosen.map_or(0, |choice| choice.colluding),
            "quorum": needed,
            "refusal": if chosen.is_some() { Json::Null } else { "no_committee".into() },
        }
    })
}
