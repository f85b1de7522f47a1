//! Known answers: the crate gives what the files under `tests/vectors/` say. `DREAM_BLESS=1` rewrites them.

mod broken;
mod cluster;
mod credentials;
mod day;
mod json;
mod keys;
mod messages;
mod numbers;
mod scene;

use std::path::PathBuf;

use broken::Case;
use json::Json;

#[test]
fn the_key_schedule_is_as_recorded() {
    check("key_schedule.json", &keys::key_schedule());
}

#[test]
fn masks_are_as_recorded() {
    check("masks.json", &keys::masks());
}

#[test]
fn streams_and_secrets_are_as_recorded() {
    check("stream_and_secret.json", &keys::stream_and_secret());
}

#[test]
fn messages_are_as_recorded() {
    check("messages.json", &messages::messages());
}

#[test]
fn enrolments_and_membership_are_as_recorded() {
    check("membership.json", &cluster::membership());
}

#[test]
fn a_slot_with_a_missing_member_is_as_recorded() {
    check("slot.json", &cluster::slot());
}

#[test]
fn a_retry_is_as_recorded() {
    check("retry.json", &cluster::retry());
}

#[test]
fn noise_is_as_recorded() {
    check("noise.json", &numbers::noise());
}

#[test]
fn parameters_are_as_recorded() {
    check("params.json", &numbers::params());
}

#[test]
fn days_are_as_recorded() {
    check("day.json", &day::days());
}

/// Certificates are not made anew for this: the recorded bytes are judged.
#[test]
fn broken_messages_are_refused_as_recorded_and_sound_ones_are_not() {
    let (scene, made) = broken::cases();
    if blessing() {
        check("broken.json", &broken::json(&scene, &made));
        return;
    }
    let file: serde_json::Value = serde_json::from_str(&read("broken.json")).unwrap();
    let recorded = file["cases"].as_array().unwrap();
    let names: Vec<_> = recorded.iter().map(|case| case["name"].as_str().unwrap()).collect();
    assert_eq!(names, made.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), "bless it: DREAM_BLESS=1");
    let mut wrong = Vec::new();
    for (case, made) in recorded.iter().zip(made) {
        let bytes = |value: &serde_json::Value| hex::decode(value.as_str().unwrap()).unwrap();
        let before = case["before"].as_array().map(|all| all.iter().map(bytes).collect());
        let topic = case["topic"].as_str().unwrap_or_default().to_owned();
        let case_read = Case { before: before.unwrap_or_default(), topic, bytes: bytes(&case["bytes"]), ..made };
        let (refusal, detail) = broken::judge(&scene, &case_read).unzip();
        let found = (refusal.as_deref(), detail.flatten());
        let expected = (case["refusal"].as_str(), case["detail"].as_str().map(str::to_owned));
        if found != expected {
            wrong.push(format!("{}: {found:?}, recorded is {expected:?}", case_read.name));
        }
    }
    assert!(wrong.is_empty(), "{} cases are not judged as recorded:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether the files are to be rewritten.
fn blessing() -> bool {
    std::env::var_os("DREAM_BLESS").is_some()
}

pub(crate) fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_default()
}

/// Compares what the crate gives with a file, or rewrites the file.
fn check(name: &str, vector: &Json) {
    let text = json::render(vector);
    if blessing() {
        std::fs::write(path(name), text).unwrap();
        return;
    }
    let known = read(name);
    let differs = known.lines().zip(text.lines()).find(|(known, made)| known != made);
    if let Some((known, made)) = differs {
        panic!("{name} says\n{known}\nbut the crate gives\n{made}\nIf that is right, bless it: DREAM_BLESS=1");
    }
    assert_eq!(known.len(), text.len(), "{name} is not complete; bless it: DREAM_BLESS=1");
}

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "vectors", name].iter().collect()
}
