//! What fuzz targets start from: the bytes of the test vectors, and a record of each kind. With `DREAM_FUZZ_CORPUS=<folder>`
//! they are written there, a folder for each target.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::properties::records;
use crate::vectors::read;

type Seeds = BTreeMap<&'static str, BTreeSet<Vec<u8>>>;

#[test]
fn every_decoder_has_seeds_and_they_can_be_written() {
    let seeds = seeds();
    for target in [
        "reading",
        "reveal",
        "recovery",
        "status",
        "enrolment",
        "list",
        "short_list",
        "dealt_reading",
        "answer",
        "certificate",
        "topic",
        "meter_record",
        "cluster_record",
        "machines",
    ] {
        assert!(seeds[target].len() >= 2, "{target}");
    }
    let Some(folder) = std::env::var_os("DREAM_FUZZ_CORPUS") else { return };
    // Tests run in their package's folder, and the path is meant from the workspace's.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    for (target, seeds) in seeds {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder).unwrap();
        for seed in seeds {
            std::fs::write(folder.join(hex::encode(&Sha256::digest(&seed)[..8])), seed).unwrap();
        }
    }
}

fn seeds() -> Seeds {
    let mut seeds = Seeds::new();
    let (pairwise, committee) = (file("broken.json"), file("committee_broken.json"));
    let cases = |file: &Value| file["cases"].as_array().unwrap().clone();
    for case in cases(&pairwise).iter().chain(&cases(&committee)) {
        let target = match case["judge"].as_str().unwrap() {
            "reading" => "reading",
            "reveal" => "reveal",
            "status" => "status",
            "enrolment" => "enrolment",
            "certificate" => "certificate",
            "list" => "list",
            "short list" => "short_list",
            "dealt reading" => "dealt_reading",
            "answer" | "early answer" => "answer",
            judge if judge.starts_with("recovery") => "recovery",
            other => panic!("{other}"),
        };
        add(&mut seeds, target, bytes(&case["bytes"]));
        if let Some(topic) = case["topic"].as_str() {
            add(&mut seeds, "topic", topic.into());
        }
    }
    for message in file("messages.json")["messages"].as_array().unwrap() {
        // The payload alone is a seed too: behind an envelope, a fuzzer seldom gets past the signature.
        let target = match message["kind"].as_u64().unwrap() {
            1 => "reading",
            2 | 7 => "recovery",
            3 => "reveal",
            4 => "enrolment",
            10 => "list",
            6 => "status",
            8 => "dealt_reading",
            9 => "answer",
            other => panic!("{other}"),
        };
        add(&mut seeds, target, bytes(&message["payload"]));
        add(&mut seeds, target, bytes(&message["envelope"]));
    }
    for (name, record) in records() {
        add(&mut seeds, if name.starts_with("meter") { "meter_record" } else { "cluster_record" }, record);
    }
    // Any bytes decide a run: these are long enough for different ones.
    for label in 0u8..8 {
        let run: Vec<u8> = (0u8..16).flat_map(|part| Sha256::digest([label, part])).collect();
        add(&mut seeds, "machines", run);
    }
    seeds
}

fn add(seeds: &mut Seeds, target: &'static str, seed: Vec<u8>) {
    seeds.entry(target).or_default().insert(seed);
}

fn file(name: &str) -> Value {
    serde_json::from_str(&read(name)).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}
