use super::*;

/// An entry of a list: code, unit, scaler, and a value of eight signed bytes.
fn entry(code: [u8; 3], unit: u8, scaler: i8, value: i64) -> Vec<u8> {
    let mut entry = vec![0x77, 0x07, 1, 0, code[0], code[1], code[2], 0xff, 0x01, 0x01, 0x62, unit];
    entry.extend([0x52, scaler.to_be_bytes()[0], 0x59]);
    entry.extend(value.to_be_bytes());
    entry.push(0x01);
    entry
}

/// A file of one message with these entries, and the checksums of `crc`.
fn frame(entries: &[Vec<u8>], crc: Crc) -> Vec<u8> {
    let mut message = vec![0x76, 0x05, 1, 2, 3, 4, 0x62, 0, 0x62, 0, 0x72, 0x63, 0x07, 0x01, 0x77, 0x01];
    message.extend([0x05, 0x0a, 0x01, 0x1b, 0x1b, 0x01, 0x01]); // a server id; then no list name, no time
    assert!(entries.len() < 16);
    message.push(0x70 | u8::try_from(entries.len()).unwrap());
    entries.iter().for_each(|entry| message.extend(entry));
    message.extend([0x01, 0x01]);
    let sum = crc.of(&message);
    message.push(0x63);
    message.extend(sum);
    message.push(0);
    framed(&message, crc)
}

fn typical() -> Vec<Vec<u8>> {
    vec![
        entry([1, 8, 0], 30, -1, 54_301_577),
        entry([2, 8, 0], 30, -1, 262_445_726),
        entry([16, 7, 0], 27, -2, -29_912),
    ]
}

#[test]
fn counters_and_signed_power_are_read_with_their_scalers() {
    let expected =
        Values { import: Some(5_430_157_700), export: Some(26_244_572_600), power: Some(-299_120), step: Some(100) };
    assert_eq!(parse(&frame(&typical(), Crc::X25), Crc::X25), Ok(expected));
}

#[test]
fn another_checksum_is_read_only_if_the_configuration_says_so() {
    let kermit = frame(&typical(), Crc::Kermit);
    assert_eq!(parse(&kermit, Crc::X25), Err(SmlError::OtherCrc("kermit")));
    assert_eq!(parse(&kermit, Crc::Kermit), parse(&frame(&typical(), Crc::X25), Crc::X25));
    assert_eq!(parse(&frame(&typical(), Crc::X25), Crc::Kermit), Err(SmlError::OtherCrc("x25")));
}

#[test]
fn a_bit_that_flipped_is_noticed() {
    let sound = frame(&typical(), Crc::X25);
    for at in 8..sound.len() {
        let mut broken = sound.clone();
        broken[at] ^= 0x10;
        assert_eq!(parse(&broken, Crc::X25), Err(SmlError::Checksum), "byte {at}");
    }
}

#[test]
fn a_locked_meter_counts_whole_kilowatt_hours_and_shows_no_power() {
    let locked = frame(&[entry([1, 8, 0], 30, 3, 25_688)], Crc::X25);
    let expected = Values { import: Some(25_688_000_000), export: None, power: None, step: Some(1_000_000) };
    assert_eq!(parse(&locked, Crc::X25), Ok(expected));
}

#[test]
fn tariffs_are_added_where_there_is_no_total_and_power_without_a_sign_is_left_out() {
    let entries = [
        entry([1, 8, 1], 30, -1, 147_981_129),
        entry([1, 8, 2], 30, -1, 20_124),
        entry([15, 7, 0], 27, -1, 1_371),
        entry([1, 7, 0], 30, -1, 77), // a power in watt-hours: nonsense
    ];
    let values = parse(&frame(&entries, Crc::X25), Crc::X25).unwrap();
    assert_eq!((values.import, values.power), (Some(14_800_125_300), None));
    assert_eq!(parse(&frame(&[], Crc::X25), Crc::X25), Err(SmlError::Nothing));
}

#[test]
fn frames_are_found_in_whatever_pieces_they_come() {
    let (one, other) = (frame(&typical(), Crc::X25), frame(&[entry([16, 7, 0], 27, 0, 5)], Crc::X25));
    // Noise, a frame that loses its end, and two whole ones.
    let stream = [&[0x1b, 0x1b, 7][..], &one[..40], &other, &one].concat();
    for size in [1, 3, 7, 64, stream.len()] {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for chunk in stream.chunks(size) {
            frames.push(chunk);
            found.extend(std::iter::from_fn(|| frames.next_frame()));
        }
        assert_eq!(found, [other.clone(), one.clone()], "in pieces of {size}");
    }
}

#[test]
fn escape_sequences_within_a_file_are_doubled_on_the_way() {
    let frame = frame(&[entry([1, 8, 0], 30, 0, 0x1b1b_1b1b)], Crc::X25);
    assert_eq!(find(&frame[8..], &[0x1b; 8]), find(&frame[8..], &ESCAPE));
    let mut frames = Frames::default();
    frames.push(&frame);
    let found = frames.next_frame().unwrap();
    assert_eq!(parse(&found, Crc::X25).unwrap().import, Some(0x1b1b_1b1b * 1000));
}

#[test]
fn a_meter_is_recognised_with_its_checksum_and_its_lock() {
    let recognised = |entries: &[Vec<u8>], crc| crate::recognise_bytes(&frame(entries, crc)).unwrap();
    assert_eq!(recognised(&typical(), Crc::X25).config, "kind = \"sml\"\n");
    assert_eq!(recognised(&typical(), Crc::Kermit).config, "kind = \"sml\"\ncrc = \"kermit\"\n");
    assert!(recognised(&[entry([1, 8, 0], 30, 3, 25_688)], Crc::X25).what.contains("PIN"));
}

#[test]
fn a_length_beyond_every_number_is_no_message() {
    for length in [&[0x8f; 15][..], &[0x8f; 16], &[0x81, 0x80]] {
        let file = [&[0x76], length, &[0x0f]].concat();
        assert!(matches!(parse(&framed(&file, Crc::Kermit), Crc::Kermit), Err(SmlError::File(_))), "{length:x?}");
    }
}
