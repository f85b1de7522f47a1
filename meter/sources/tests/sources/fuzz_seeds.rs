//! What the fuzz targets of the parsers start from. With `DREAM_FUZZ_CORPUS=<folder>` they are written there, a folder for each.

use std::path::Path;

use dream_sources::mqtt::preset::{Preset, Reader};
use dream_sources::{ciphered, dlms, name_foreign, recognise_bytes, sml, tic};

use super::mqtt::SEEN;
use super::telegrams::TELEGRAM;

/// A message of SML with one entry, the counter of export at 5702 kWh.
const SML: &[u8] = b"\x76\x05\x01\x02\x03\x04\x62\x00\x62\x00\x72\x63\x07\x01\x77\x01\x05\x0a\x01\x02\x03\x01\x01\x71\
                     \x77\x07\x01\x00\x02\x08\x00\xff\x01\x01\x62\x1e\x52\x03\x56\x00\x00\x00\x16\x46\x01\x01\x01";

#[test]
fn every_parser_has_seeds_that_it_reads() {
    let message = sml_message();
    assert!(sml::parse(&sml::framed(&message, sml::Crc::X25), sml::Crc::X25).is_ok());
    let mut messages = Vec::new();
    for (number, preset) in (0u8..).zip(Preset::ALL) {
        let named = format!("preset = '{}'", preset.name());
        let seen = SEEN.iter().filter(|(config, ..)| config.contains(&named)).flat_map(|(_, messages, _)| *messages);
        let mut reader = Reader::new(preset, "device");
        for (_, payload) in seen {
            for topic in reader.topics() {
                reader.take(&topic, payload.as_bytes()).ok();
            }
            messages.push([&[number], payload.as_bytes()].concat());
        }
    }
    let (list, sealed) = dlms_messages();
    let seeds: [(&str, Vec<Vec<u8>>); 8] = [
        ("p1", vec![TELEGRAM.as_bytes().to_vec(), TELEGRAM.replace("!", "!1234").into_bytes()]),
        ("sml", vec![message.clone(), sml::framed(&message, sml::Crc::X25)]),
        ("dlms", vec![list.clone(), dlms::framed(&list), sealed.clone()]),
        ("ciphered", vec![sealed.clone(), [&sealed[..], &sealed].concat()]),
        (
            "tic",
            vec![
                b"\x02\nEAST\t023591827\t4\r\x03".to_vec(),
                b"\x02\nHCHC 094939439 8\r\nHCHP 127970334 7\r\x03".to_vec(),
            ],
        ),
        ("mqtt_message", messages),
        ("line", vec![b"power=230 import=7881.115 export=0 at=1700000000.5".to_vec(), b"lost no cable".to_vec()]),
        ("modbus_registers", vec![vec![0; 74], vec![0x45, 0xf6, 0x48, 0xec, 0, 0, 0, 7]]),
    ];
    for (target, seeds) in &seeds {
        assert!(seeds.len() >= 2, "{target}");
    }
    for (target, seeds) in &seeds {
        seeds.iter().for_each(|seed| read_changed(target, seed));
    }
    let Some(folder) = std::env::var_os("DREAM_FUZZ_CORPUS") else { return };
    // Tests run in their package's folder, and the path is meant from the workspace's.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    for (target, seeds) in seeds {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (number, seed) in seeds.into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed).expect("written");
        }
    }
}

/// Reads a seed with bytes changed, cut out and doubled, a thousand times, as the fuzz targets do for hours: nothing may panic.
fn read_changed(target: &str, seed: &[u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap_or(0) % below.max(1)
    };
    for _ in 0..1000 {
        let mut changed = seed.to_vec();
        for _ in 0..=random(4) {
            let at = random(changed.len());
            match random(3) {
                0 if !changed.is_empty() => changed[at] = u8::try_from(random(256)).unwrap_or(0),
                1 => drop(changed.drain(at..(at + random(8)).min(changed.len()))),
                _ => changed.extend_from_within(at..),
            }
        }
        recognise_bytes(&changed);
        name_foreign(&changed);
        match target {
            "sml" => drop(sml::parse(&sml::framed(&changed, sml::Crc::Kermit), sml::Crc::Kermit)),
            "dlms" => drop(dlms::parse(&changed, Some(&ciphered::Keys::known()))),
            "tic" => drop(tic::parse(&changed)),
            "mqtt_message" => {
                let preset = Preset::ALL[usize::from(seed[0])];
                let mut reader = Reader::new(preset, "device");
                reader.topics().iter().for_each(|topic| drop(reader.take(topic, changed.get(1..).unwrap_or_default())));
            }
            _ => {}
        }
    }
}

/// What a meter pushes, in clear and encrypted: power of both directions, with scalers and units.
fn dlms_messages() -> (Vec<u8>, Vec<u8>) {
    let register = |c: u8, watts: u8| [2, 3, 9, 6, 1, 0, c, 7, 0, 255, 0x12, 0, watts, 2, 2, 0x0f, 0, 0x16, 27];
    let list = [&[0x0f, 0, 0, 0, 0, 0, 1, 2][..], &register(1, 7), &register(2, 0)].concat();
    assert!(dlms::parse(&list, None).is_ok_and(|values| values.power == Some(7_000)));
    let sealed = ciphered::Keys::known().seal(*b"SAGgPORT", 1, &list);
    (list, sealed)
}

/// The message with its checksum, which is CRC-16/X-25.
fn sml_message() -> Vec<u8> {
    let sum = SML.iter().fold(0xffffu16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x8408 } else { crc >> 1 })
    });
    [SML, &[0x63], &(!sum).to_le_bytes(), &[0]].concat()
}
