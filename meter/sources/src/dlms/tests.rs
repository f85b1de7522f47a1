use super::*;

/// The short list of a Kaifa meter, as it came from its port: what is taken, and nothing of what is fed in.
const KAIFA_SHORT: &str = "7EA027010201105A87E6E7000F40000000090C07E60102070E2512FF80000002010600001015F5FF7E";

/// The long list of a Swedish Aidon meter, as it came from its port.
const AIDON: &str = "7EA2434108831385EBE6E7000F4000000000011B0202090600000100 00FF090C07E50C0A05103900FF8000FF020309060100010700FF06000007E5\
    02020F00161B020309060100020700FF060000000002020F00161B020309060100030700FF060000000002020F00161D020309060100040700FF060000024802020F00161D\
    0203090601001F0700FF10000902020FFF1621020309060100330700FF10002502020FFF1621020309060100470700FF10002E02020FFF1621020309060100200700FF1208E3\
    02020FFF1623020309060100340700FF1208D802020FFF1623020309060100480700FF1208DF02020FFF1623020309060100150700FF06000000D502020F00161B\
    020309060100160700FF060000000002020F00161B020309060100170700FF060000000002020F00161D020309060100180700FF060000003602020F00161D\
    020309060100290700FF060000030C02020F00161B0203090601002A0700FF060000000002020F00161B0203090601002B0700FF060000012102020F00161D\
    0203090601002C0700FF060000000002020F00161D0203090601003D0700FF06000003F902020F00161B0203090601003E0700FF060000000002020F00161B\
    0203090601003F0700FF060000000002020F00161D020309060100400700FF06000000E902020F00161D020309060100010800FF0603C25A6402020F00161E\
    020309060100020800FF060000000002020F00161E020309060100030800FF0600045D0602020F001620020309060100040800FF0600B49D8902020F0016201C907E";

/// The content of a Kaifa's long list and of a Kamstrup's hourly one, with other serial numbers.
const KAIFA: &str = "E6E7000F40000000090C07E703160303 1C32FF800000020D09074B464D5F303031091030303030303030303030303030303030\
    09084D413330344833450600 0008DD06000000000600000000 06000002D00600001BAF0600001AF006 0000106E060000093F0600000000060000093F";
const KAMSTRUP: &str = "E6E7000F000000000C07E50B1904170037FF80000002230A0E4B616D73747275705F563030303109060101000005FF0A10\
    3030303030303030303030303030303009060101600101FF0A12303030303030303030303030303030303030\
    09060101010700FF06000004DF09060101020700FF060000000009060101030700FF060000000009060101040700FF06000001A1\
    090601011F0700FF06000000BD09060101330700FF060000014709060101470700FF060000008009060101200700FF1200EC\
    09060101340700FF1200EC09060101480700FF1200EC09060001010000FF090C07E50B1904170037FF800000\
    09060101010800FF060082F4B809060101020800FF060006EDC309060101030800FF0600003BDF09060101040800FF0600168B3E";

pub(super) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn found(stream: &[u8], size: usize) -> Vec<Result<Vec<u8>, DlmsError>> {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for piece in stream.chunks(size) {
        frames.push(piece);
        found.extend(std::iter::from_fn(|| frames.next_frame()));
    }
    found
}

type Numbers = (Option<i64>, Option<i64>, Option<i64>);

fn numbers(message: &[u8], keys: Option<&Keys>) -> Result<Numbers, DlmsError> {
    parse(message, keys).map(|values| (values.import, values.export, values.power))
}

#[test]
fn lists_with_both_directions_are_read() {
    let aidon = found(&bytes(AIDON), 7).pop().expect("a frame").expect("sound");
    assert_eq!(numbers(&aidon, None), Ok((Some(63_068_772_000), Some(0), Some(2_021_000))));
    assert_eq!(numbers(&bytes(KAIFA), None), Ok((None, None, Some(2_269_000))));
    // Its counters have no unit, and are in tens of watt-hours in one country and in watt-hours in another.
    assert_eq!(numbers(&bytes(KAMSTRUP), None), Ok((None, None, Some(1_247_000))));
    let exports = KAIFA.replace("08DD06000000000600000000", "000006000004D20600000000");
    assert_eq!(numbers(&bytes(&exports), None), Ok((None, None, Some(-1_234_000))));
}

#[test]
fn a_list_without_export_says_nothing() {
    let short = found(&bytes(KAIFA_SHORT), 100).pop().expect("a frame").expect("sound");
    assert_eq!(numbers(&short, None), Ok((None, None, None)));
    let aidon = "0F4000000000 0101 0203 09060100010700FF 06000007E5 0202 0F00 161B";
    assert_eq!(numbers(&bytes(aidon), None), Ok((None, None, None)));
}

#[test]
fn frames_are_found_in_whatever_pieces_they_come() {
    let (kaifa, aidon) = (bytes(KAIFA_SHORT), bytes(AIDON));
    // Noise, a frame that loses its end, two that share a flag, and one that was changed on the way.
    let mut changed = aidon.clone();
    changed[40] ^= 1;
    let stream = [&[0x7e, 0x7e, 0xa1, 9][..], &aidon[..300], &kaifa, &aidon[1..], &changed, &kaifa].concat();
    for size in [1, 3, 64, stream.len()] {
        let found = found(&stream, size);
        let sound: Vec<_> = found.iter().filter_map(|frame| frame.as_ref().ok().map(Vec::len)).collect();
        assert_eq!(sound.last(), Some(&29), "in pieces of {size}");
        assert!(found.contains(&Err(DlmsError::Checksum)), "in pieces of {size}");
    }
}

#[test]
fn segments_are_put_together() {
    let message = bytes(KAMSTRUP);
    let (one, other) = message.split_at(100);
    let mut first = framed(one);
    let length = first.len();
    first[1] |= 0x08;
    let sum = crc::x25(&first[1..length - 3]).to_le_bytes();
    first[length - 3..length - 1].copy_from_slice(&sum);
    let stream = [first, framed(other)].concat();
    assert_eq!(found(&stream, 50), [Ok(message)]);
}

#[test]
fn an_encrypted_message_is_opened_with_its_key() {
    let keys = Keys::known();
    let clear = bytes(KAMSTRUP);
    let sealed = [&clear[..3], &keys.seal(*b"KAMMETER", 1, &clear[3..])].concat();
    assert_eq!(numbers(&sealed, Some(&keys)), numbers(&clear, None));
    assert_eq!(numbers(&sealed, None), Err(CipherError::NoKey.into()));
}

#[test]
fn what_is_not_read_is_named() {
    assert_eq!(numbers(&bytes("E6E700C401"), None), Err(DlmsError::Kind(0xc4)));
    // Objects apart from their values: a class, a code, an attribute.
    let objects = "0F00000000 00 0202 0101 0204 120003 09060100010700FF 0F02 120000 06000007E5";
    assert_eq!(numbers(&bytes(objects), None), Err(DlmsError::Objects));
    assert_eq!(numbers(&bytes("0F00000000 00 0202 06"), None), Err(DlmsError::Values));
    let twice = "0F00000000 00 0204 09060100010700FF 0600000001 09060100010700FF 0600000002";
    assert_eq!(numbers(&bytes(twice), None), Err(DlmsError::Twice("1.7.0".to_owned())));
}
