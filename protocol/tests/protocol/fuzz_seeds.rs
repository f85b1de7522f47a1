//! What fuzz targets start from: the bytes of the test vectors, and a record of each kind. With `DREAM_FUZZ_CORPUS=<folder>`
//! they are written there, a folder for each target.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dream_protocol::wire::{EvidenceStatement, FullList, ShortList, Sign1};
use dream_testkit::simulation::insider;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::properties::records;
use crate::support::at;
use crate::support::cluster_id;
use crate::support::liar::{FIRST, LISTED, Liar};
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
        "header",
        "evidence",
        "dealt_reading",
        "answer",
        "certificate",
        "topic",
        "meter_record",
        "cluster_record",
        "machines",
        "insider",
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
    let lists: Vec<Vec<u8>> = ["list", "short_list"].iter().flat_map(|target| &seeds[target]).cloned().collect();
    for list in lists {
        let header = FullList::decode(&list).map(|list| list.header);
        if let Ok(header) = header.or_else(|_| ShortList::decode(&list).map(|list| list.header)) {
            add(&mut seeds, "header", header.to_vec());
            if let Ok((envelope, _)) = Sign1::decode_certified(header) {
                add(&mut seeds, "header", envelope.payload().to_vec());
            }
        }
    }
    for evidence in contradictions() {
        add(&mut seeds, "evidence", evidence.encode());
    }
    for said in insider::seeds() {
        add(&mut seeds, "insider", said);
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

/// Two requests, two retries and two headers that contradict each other.
fn contradictions() -> Vec<EvidenceStatement> {
    let gateway = Liar::new(10, 2, 1);
    let certificate = gateway.identity.der.clone();
    let pair = |certificate: &[u8], first: &[u8], second: &[u8]| {
        let (first, second) = (first.to_vec(), second.to_vec());
        EvidenceStatement { cluster: cluster_id(), certificate: certificate.to_vec(), first, second }
    };
    let requests = [&[1u16][..], &[1, 2]].map(|missing| gateway.request(FIRST, 0, missing).payload);
    let retries = [LISTED, LISTED + 1].map(|wall| gateway.retry(FIRST, 1, at(wall)).payload);
    let lists = [100, 101].map(|last| {
        let mut draft = gateway.draft();
        draft.to_slot = FIRST.plus(last);
        draft.sign(&gateway.identity).payload
    });
    let headers = [0, 1].map(|at| FullList::decode(&lists[at]).unwrap().header);
    vec![
        pair(&certificate, &requests[0], &requests[1]),
        pair(&certificate, &retries[0], &retries[1]),
        pair(&[], headers[0], headers[1]),
    ]
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
