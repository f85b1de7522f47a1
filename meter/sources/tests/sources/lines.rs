//! A file that grows.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use dream_protocol::time::Timestamp;
use dream_sources::Event;
use tempfile::TempDir;

use super::run::{Running, mistake, numbers};

fn append(path: &Path, text: &str) {
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).expect("the temporary directory is writable");
}

#[tokio::test]
async fn a_file_that_grows_is_followed_and_begun_anew_when_it_is_replaced() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("samples");
    append(&path, "1\n");
    let mut source = Running::start(&format!("kind = 'lines'\npath = {path:?}\ninterval_seconds = 10"));
    source.connected().await;
    append(&path, "power=2 import=3.5");
    append(&path, " export=1\n");
    let sample = source.sample().await;
    assert_eq!(numbers(&sample), (Some(3_500_000), Some(1_000_000), Some(2_000)));
    assert_eq!(sample.at, Timestamp::from_millis(1_700_000_000_000));

    append(&path, "nonsense\n");
    assert_eq!(source.lost().await, "line 2: power is not a number");
    append(&path, "power=5 at=1700000123.5\n");
    assert_eq!(source.sample().await.at, Timestamp::from_millis(1_700_000_123_500));

    let fresh = directory.path().join("fresh");
    append(&fresh, "7\n");
    fs::rename(&fresh, &path).unwrap();
    assert!(source.lost().await.contains("replaced"));
    assert_eq!(numbers(&source.sample().await), (None, None, Some(7_000)));
}

#[tokio::test]
async fn a_clock_that_is_set_is_told_before_the_next_sample() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("samples");
    append(&path, "1\n");
    let mut source = Running::start(&format!("kind = 'lines'\npath = {path:?}\nfrom = 'start'\ninterval_seconds = 10"));
    source.sample().await;
    source.clock.wall.fetch_add(11_000, Ordering::SeqCst);
    source.clock.monotonic.fetch_add(10_000, Ordering::SeqCst);
    append(&path, "2\n");
    assert!(matches!(source.next().await, Event::Sample(_)), "a second is no step");
    source.clock.wall.fetch_add(3_600_000, Ordering::SeqCst);
    append(&path, "3\n");
    assert!(matches!(source.next().await, Event::ClockStepped { .. }));
    assert!(matches!(source.next().await, Event::Sample(_)));
}

#[test]
fn a_mistake_is_named_with_what_is_allowed() {
    let with = |line: &str| mistake(&format!("kind = 'lines'\ninterval_seconds = 10\n{line}"));
    assert_eq!(with("power_unit = 'kWh'"), "source:3: power_unit: \"kWh\" is not allowed; use W or kW");
    assert_eq!(
        with("energy_unit = 'joule'"),
        "source:3: energy_unit: \"joule\" is not allowed; use Wh, kWh, MWh or W*min"
    );
    assert_eq!(with("paht = '/x'"), "source:3: unknown key `paht`; did you mean `path`?");
    let interval = mistake("kind = 'lines'\ninterval_seconds = 0");
    assert_eq!(interval, "source:2: interval_seconds: 0 is out of range; use 1 to 3600");
}
