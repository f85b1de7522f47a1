//! The parsers of what meters and their bridges say. They must not panic, and must read alike in whatever pieces bytes come.

use dream_sources::modbus::registers::{NumberType, WordOrder};
use dream_sources::modbus::sunspec::Model;
use dream_sources::mqtt::preset::{Preset, Reader};
use dream_sources::p1::{frames, telegram};
use dream_sources::{Unit, ciphered, dlms, lines, name_foreign, recognise_bytes, recognise_message, sml, tic};

/// Cuts bytes into P1 telegrams and reads them.
pub fn p1(data: &[u8]) {
    let found = |pieces: usize| {
        let (mut frames, mut found) = (frames::Frames::default(), Vec::new());
        for piece in data.chunks(pieces) {
            frames.push(piece);
            found.extend(std::iter::from_fn(|| frames.next_frame()));
        }
        found
    };
    let whole = found(data.len().max(1));
    // The limit of a telegram's length depends on when it is looked at.
    if data.len() < 4096 {
        assert_eq!(whole, found(7));
    }
    for frame in whole {
        let strict = telegram::parse(&frame, telegram::Checksum::Check);
        let lax = telegram::parse(&frame, telegram::Checksum::Ignore);
        if let Ok(strict) = strict {
            assert_eq!(lax.as_ref(), Ok(&strict));
        }
    }
    recognise_bytes(data);
}

/// Cuts bytes into SML files and reads them.
pub fn sml(data: &[u8]) {
    let mut frames = sml::Frames::default();
    frames.push(data);
    while let Some(frame) = frames.next_frame() {
        for crc in [sml::Crc::X25, sml::Crc::Kermit] {
            assert!(sml::parse(&frame, crc).is_err() || sml::crc_of(&frame) == Some(crc));
        }
    }
    // Checksums are hard to guess: the file inside is tried too, behind right ones.
    for crc in [sml::Crc::X25, sml::Crc::Kermit] {
        drop(sml::parse(&sml::framed(data, crc), crc));
    }
}

/// Cuts bytes into frames of HDLC and reads what they push, in clear and encrypted.
pub fn dlms(data: &[u8]) {
    let keys = ciphered::Keys::known();
    let found = |pieces: usize| {
        let (mut frames, mut found) = (dlms::Frames::default(), Vec::new());
        for piece in data.chunks(pieces) {
            frames.push(piece);
            found.extend(std::iter::from_fn(|| frames.next_frame()));
        }
        found
    };
    let whole = found(data.len().max(1));
    assert_eq!(whole, found(7));
    // Checksums and tags are hard to guess: the message inside is tried too, behind right ones.
    let clear = dlms::parse(data, Some(&keys));
    let sealed = keys.seal([1; 8], 1, data);
    if data.first().is_some_and(|first| *first == 0x0f) {
        assert_eq!(dlms::parse(&sealed, Some(&keys)), clear);
    }
    if data.len() < 2000 {
        let (mut frames, frame) = (dlms::Frames::default(), dlms::framed(data));
        frames.push(&frame);
        assert_eq!(frames.next_frame(), Some(Ok(data.to_vec())));
    }
    name_foreign(data);
}

/// Cuts bytes into ciphered messages and opens them.
pub fn ciphered(data: &[u8]) {
    let keys = ciphered::Keys::known();
    let mut frames = ciphered::Frames::default();
    frames.push(data);
    while let Some(frame) = frames.next_frame() {
        drop(keys.open(&frame));
    }
    if data.len() < 4096 {
        assert_eq!(keys.open(&keys.seal([1; 8], 1, data)).as_deref(), Ok(data));
    }
}

/// Cuts bytes into frames of a French meter and reads them.
pub fn tic(data: &[u8]) {
    let found = |pieces: usize| {
        let (mut frames, mut found) = (tic::Frames::default(), Vec::new());
        for piece in data.chunks(pieces) {
            frames.push(piece);
            found.extend(std::iter::from_fn(|| frames.next_frame()));
        }
        found
    };
    let whole = found(data.len().max(1));
    // The limit of a frame's length depends on when it is looked at.
    if data.len() < 4096 {
        assert_eq!(whole, found(7));
    }
    for frame in whole {
        if let Ok(values) = tic::parse(&frame) {
            assert!(values.import.is_some() && values.power.is_none());
        }
    }
    drop(tic::parse(data));
}

/// Reads a message as every preset would, on each of its topics; the first byte is the preset's number.
pub fn mqtt_message(data: &[u8]) {
    let Some((first, payload)) = data.split_first() else { return };
    let preset = Preset::ALL[usize::from(*first) % Preset::ALL.len()];
    let mut reader = Reader::new(preset, "device");
    for topic in reader.topics() {
        drop(reader.take(&topic, payload));
        recognise_message(&topic, payload);
    }
}

/// Reads a line of text.
pub fn line(data: &[u8]) {
    let units = lines::Units { power: Unit::KiloW, energy: Unit::WMin };
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(lines::Line::Sample(values, _)) = lines::parse(text, units)
    {
        assert!(!values.is_empty());
    }
}

/// Reads registers as every type of number, and as the block of a SunSpec meter.
pub fn modbus_registers(data: &[u8]) {
    let words: Vec<u16> = data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    for number in [
        NumberType::Int16,
        NumberType::Uint16,
        NumberType::Int32,
        NumberType::Uint32,
        NumberType::Int64,
        NumberType::Uint64,
        NumberType::Float32,
        NumberType::Float64,
    ] {
        for order in [WordOrder::BigEndian, WordOrder::LittleEndian] {
            assert_eq!(
                number.read(&words, order).is_none() && words.len() >= 4,
                words.len() >= 4 && is_no_number(number, &words, order)
            );
        }
    }
    Model::WholeNumbers.values(&words);
    Model::Floats.values(&words);
}

/// Whether registers hold a float that is none, or beyond what any meter shows.
fn is_no_number(number: NumberType, words: &[u16], order: WordOrder) -> bool {
    let word = |at: usize| u64::from(words[at]);
    let joined = |words: &[usize]| words.iter().fold(0, |bits, at| (bits << 16) | word(*at));
    let value = match (number, order) {
        (NumberType::Float32, WordOrder::BigEndian) => f64::from(f32::from_bits(joined(&[0, 1]) as u32)),
        (NumberType::Float32, WordOrder::LittleEndian) => f64::from(f32::from_bits(joined(&[1, 0]) as u32)),
        (NumberType::Float64, WordOrder::BigEndian) => f64::from_bits(joined(&[0, 1, 2, 3])),
        (NumberType::Float64, WordOrder::LittleEndian) => f64::from_bits(joined(&[3, 2, 1, 0])),
        _ => return false,
    };
    !value.is_finite() || value.abs() > 1e12
}
