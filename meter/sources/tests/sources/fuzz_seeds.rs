//! What the fuzz targets of the parsers start from. With `DREAM_FUZZ_CORPUS=<folder>` they are written there, a folder for each.

use std::path::Path;

use dream_sources::mqtt::preset::{Preset, Reader};
use dream_sources::sml;

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
    let seeds: [(&str, Vec<Vec<u8>>); 5] = [
        ("p1", vec![TELEGRAM.as_bytes().to_vec(), TELEGRAM.replace("!", "!1234").into_bytes()]),
        ("sml", vec![message.clone(), sml::framed(&message, sml::Crc::X25)]),
        ("mqtt_message", messages),
        ("line", vec![b"power=230 import=7881.115 export=0 at=1700000000.5".to_vec(), b"lost no cable".to_vec()]),
        ("modbus_registers", vec![vec![0; 74], vec![0x45, 0xf6, 0x48, 0xec, 0, 0, 0, 7]]),
    ];
    for (target, seeds) in &seeds {
        assert!(seeds.len() >= 2, "{target}");
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

/// The message with its checksum, which is CRC-16/X-25.
fn sml_message() -> Vec<u8> {
    let sum = SML.iter().fold(0xffffu16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x8408 } else { crc >> 1 })
    });
    [SML, &[0x63], &(!sum).to_le_bytes(), &[0]].concat()
}
