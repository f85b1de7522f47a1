//! `dream-meter probe` on the home's broker.

use std::time::Duration;

use dream_testkit::lab::command::{command, seen, succeed};
use dream_testkit::lab::mosquitto::Mosquitto;
use dream_testkit::lab::watcher::Watcher;

/// Publishes what bridges say, again and again, until it is dropped.
fn speak(bridge: Watcher, said: &'static [(&'static str, &'static str)]) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            said.iter().for_each(|(topic, payload)| bridge.publish(topic, payload.as_bytes(), false));
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bridge_is_recognised_by_what_it_says_and_added_to_the_configuration() {
    let broker = Mosquitto::start();
    let folder = tempfile::tempdir().unwrap();
    let bridge = Watcher::start(broker.access().options("bridge"), &["nothing"]).await;
    let speaking =
        speak(bridge, &[("tele/plug/SENSOR", "{\"ENERGY\":{\"Power\":412,\"Total\":7881.115}}"), ("lamp", "on")]);
    let mut probe = command(env!("CARGO_BIN_EXE_dream-meter"), folder.path());
    probe.args(["probe", "--mqtt", &broker.access().url(), "--samples", "2", "--write", "meter.toml"]);
    let said = tokio::task::spawn_blocking(move || succeed(&mut probe)).await.unwrap();
    assert!(said.contains("This is tasmota") && said.contains("412.0 W"), "{said}");
    let written = std::fs::read_to_string(folder.path().join("meter.toml")).unwrap();
    assert!(written.starts_with("[source]\nkind = \"mqtt\"\n") && written.contains("device = \"plug\""), "{written}");
    speaking.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_bridges_the_owner_has_to_name_one() {
    let broker = Mosquitto::start();
    let folder = tempfile::tempdir().unwrap();
    let bridge = Watcher::start(broker.access().options("bridge"), &["nothing"]).await;
    let both =
        &[("tele/plug/SENSOR", "{\"ENERGY\":{\"Power\":1}}"), ("tele/meter/SENSOR", "{\"ENERGY\":{\"Power\":2}}")];
    let speaking = speak(bridge, both);
    let mut probe = command(env!("CARGO_BIN_EXE_dream-meter"), folder.path());
    probe.args(["probe", "--mqtt", &broker.access().url()]);
    let said = tokio::task::spawn_blocking(move || seen(&mut probe)).await.unwrap();
    assert!(
        said.starts_with("exit code 2") && said.contains("--device") && said.contains("tele/meter/SENSOR"),
        "{said}"
    );
    speaking.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_phases_of_one_shelly_are_one_device_and_sensors_are_chosen_by_name() {
    let broker = Mosquitto::start();
    let folder = tempfile::tempdir().unwrap();
    let bridge = Watcher::start(broker.access().options("bridge"), &["nothing"]).await;
    let said = &[
        ("shellies/em3/emeter/0/power", "120.11"),
        ("shellies/em3/emeter/1/power", "-20.00"),
        ("shellies/em3/emeter/2/power", "0.39"),
        ("homeassistant/sensor/grid_power/state", "77"),
        ("homeassistant/sensor/solar_power/state", "900"),
        ("homeassistant/status", "online"),
    ];
    let speaking = speak(bridge, said);
    let probe = |device: Option<&'static str>| {
        let mut probe = command(env!("CARGO_BIN_EXE_dream-meter"), folder.path());
        probe.args(["probe", "--mqtt", &broker.access().url(), "--samples", "2"]);
        probe.args(device.into_iter().flat_map(|device| ["--device", device]));
        tokio::task::spawn_blocking(move || seen(&mut probe))
    };
    let several = probe(None).await.unwrap();
    assert_eq!(several.matches("--device").count(), 3, "{several}");
    let shelly = probe(Some("em3")).await.unwrap();
    assert!(shelly.contains("100.5 W") && shelly.contains("device = \"em3\""), "{shelly}");
    let sensor = probe(Some("grid_power")).await.unwrap();
    assert!(sensor.contains("77.0 W"), "{sensor}");
    speaking.abort();
}
