//! Known answers: the crate gives what the files under `vectors/` say. `DREAM_BLESS=1` rewrites them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

#[path = "support/vectors/mod.rs"]
mod files;

use files::broken::{self, Case};
use files::{blessing, check, cluster, keys, messages, numbers, read};

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
    for (case, made) in recorded.iter().zip(made) {
        let bytes = |value: &serde_json::Value| hex::decode(value.as_str().unwrap()).unwrap();
        let before = case["before"].as_array().map(|all| all.iter().map(bytes).collect());
        let topic = case["topic"].as_str().unwrap_or_default().to_owned();
        let case_read = Case { before: before.unwrap_or_default(), topic, bytes: bytes(&case["bytes"]), ..made };
        let (refusal, detail) = broken::judge(&scene, &case_read).unzip();
        assert_eq!(refusal.as_deref(), case["refusal"].as_str(), "{}", case_read.name);
        assert_eq!(detail.flatten().as_deref(), case["detail"].as_str(), "{}", case_read.name);
    }
}
