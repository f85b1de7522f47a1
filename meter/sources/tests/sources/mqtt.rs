//! Bridges on a real Mosquitto, with messages as their makers and owners show them.

use dream_sources::Event;

use super::home::Home;
use super::run::{Running, mistake, numbers};

pub(crate) type Numbers = (Option<i64>, Option<i64>, Option<i64>);

pub(crate) type Messages = &'static [(&'static str, &'static str)];

/// A preset's configuration, the messages of a bridge, and what the last of them leads to.
pub(crate) const SEEN: &[(&str, Messages, Numbers)] = &[
    (
        "preset = 'tasmota-sml'\ndevice = 'meter'",
        &[("tele/meter/SENSOR", r#"{"Time":"2022-11-06T13:28:10","SML":{"Power_curr":110}}"#)],
        (None, None, Some(110_000)),
    ),
    (
        "preset = 'tasmota-sml'\ndevice = 'meter'",
        &[(
            "tele/meter/SENSOR",
            r#"{"Time":"2023-10-10T11:49:16","Power":{"Power_curr":-6,"Total_in":3670.2250,"Total_out":85.5679,"Meter_Number":"0a01"}}"#,
        )],
        (Some(3_670_225_000), Some(85_567_900), Some(-6_000)),
    ),
    (
        "preset = 'tasmota-sml'\ndevice = 'meter'",
        &[("tele/meter/SENSOR", r#"{"Time":"2023-10-10T11:49:16","":{"Power":12.5,"Total_in":1.5,"Total_out":0}}"#)],
        (Some(1_500_000), Some(0), Some(12_500)),
    ),
    (
        "preset = 'tasmota'\ndevice = 'plug'",
        &[(
            "tele/plug/SENSOR",
            r#"{"Time":"2024-01-14T18:03:15","ENERGY":{"TotalStartTime":"2024-01-14T18:02:42","Total":1066.000,"Yesterday":0.000,"Today":0.000,"Period":0.00,"Power":7.00,"ApparentPower":0.00,"ReactivePower":0.00,"Factor":0.00,"Voltage":227.7,"Current":0.000}}"#,
        )],
        (Some(1_066_000_000), Some(0), Some(7_000)),
    ),
    (
        "preset = 'tasmota'\ndevice = 'plug'",
        &[("tele/plug/SENSOR", r#"{"ENERGY":{"Total":100.512,"ExportActive":250.25,"Power":-1500}}"#)],
        (Some(100_512_000), Some(250_250_000), Some(-1_500_000)),
    ),
    (
        "preset = 'tasmota-sml'\ndevice = 'meter'",
        &[("tele/meter/SENSOR", r#"{"Time":"2023-10-10T11:49:16","MT681":{"Total_in":3670.2,"Power_cur":-800}}"#)],
        (Some(3_670_200_000), None, Some(-800_000)),
    ),
    (
        "preset = 'zigbee2mqtt'\ndevice = 'three'",
        &[
            ("zigbee2mqtt/three/availability", "online"),
            (
                "zigbee2mqtt/three",
                r#"{"ac_frequency":50,"current":0.5,"current_phase_b":1.7,"energy":10.5,"power":89,"power_factor":0.9,"power_phase_b":384,"power_phase_c":0,"produced_energy":0,"voltage":230}"#,
            ),
        ],
        (Some(10_500_000), Some(0), Some(473_000)),
    ),
    (
        "preset = 'zigbee2mqtt'\ndevice = 'changes'",
        &[
            ("zigbee2mqtt/changes/availability", "online"),
            ("zigbee2mqtt/changes", r#"{"power":89,"power_phase_b":384,"power_phase_c":0}"#),
            ("zigbee2mqtt/changes", r#"{"power":90}"#),
        ],
        (None, None, Some(474_000)),
    ),
    (
        "preset = 'shelly-gen2'\ndevice = 'shellypro3em-aa'",
        &[
            ("shellypro3em-aa/online", "true"),
            (
                "shellypro3em-aa/status/em:0",
                r#"{"id":0,"a_act_power":2403.7,"n_current":null,"total_act_power":3048.104,"total_aprt_power":3217.036}"#,
            ),
        ],
        (None, None, Some(3_048_104)),
    ),
    (
        "preset = 'shelly-gen1'\ndevice = 'shellyem3-68C63AFAF952'",
        &[
            ("shellies/shellyem3-68C63AFAF952/emeter/0/power", "120.11"),
            ("shellies/shellyem3-68C63AFAF952/emeter/1/power", "-20.00"),
            ("shellies/shellyem3-68C63AFAF952/emeter/2/power", "0.39"),
        ],
        (None, None, Some(100_500)),
    ),
    (
        "preset = 'zigbee2mqtt'\ndevice = 'Gniazdko Pralka'",
        &[
            ("zigbee2mqtt/Gniazdko Pralka/availability", r#"{"state":"online"}"#),
            (
                "zigbee2mqtt/Gniazdko Pralka",
                r#"{"current":11.12,"energy":10.48,"last_seen":"2021-06-28T19:38:12+02:00","linkquality":39,"power":2441,"state":"ON","voltage":223}"#,
            ),
        ],
        (Some(10_480_000), None, Some(2_441_000)),
    ),
    (
        "preset = 'zigbee2mqtt'\ndevice = 'clamp'",
        &[
            ("zigbee2mqtt/clamp/availability", "online"),
            ("zigbee2mqtt/clamp", r#"{"power":500,"energy_flow":"producing","energy":1,"produced_energy":2}"#),
        ],
        (Some(1_000_000), Some(2_000_000), Some(-500_000)),
    ),
    (
        "preset = 'esphome'\ndevice = 'p1reader'",
        &[("p1reader/sensor/power_consumed/state", "0.000"), ("p1reader/sensor/power_produced/state", "1.250")],
        (None, None, Some(-1_250_000)),
    ),
    (
        "preset = 'esphome'\ndevice = 'clamp'\npower = [{ topic = 'grid', unit = 'W' }]\nimport = []\nexport = []",
        &[("clamp/sensor/grid/state", "231.7")],
        (None, None, Some(231_700)),
    ),
    (
        "preset = 'dsmr-reader'",
        &[
            ("dsmr/reading/electricity_delivered_1", "1477.206"),
            ("dsmr/reading/electricity_delivered_2", "1992.399"),
            ("dsmr/reading/electricity_returned_1", "610.769"),
            ("dsmr/reading/electricity_returned_2", "357.748"),
            ("dsmr/reading/electricity_currently_delivered", "0.412"),
            ("dsmr/reading/electricity_currently_returned", "0.000"),
        ],
        (Some(3_469_605_000), Some(968_517_000), Some(412_000)),
    ),
    (
        "preset = 'vzlogger'\npower = [{ topic = 'chn1' }]\nimport = [{ topic = 'vzlogger/data/chn0/agg' }]",
        &[
            ("vzlogger/data/chn0/agg", r#"{ "timestamp": 1636369980000, "value": 38118.691500000001 }"#),
            ("vzlogger/data/chn1/raw", r#"{ "timestamp": 1636369980000, "value": -42 }"#),
        ],
        (Some(38_118_692), None, Some(-42_000)),
    ),
    (
        "preset = 'amsleser'",
        &[
            (
                "amsleser",
                r#"{"id":"a","up":1,"data":{"lv":"x","P":0,"Q":5,"PO":1500,"QO":0,"I1":6.5,"U1":230,"tPI":100.5,"tPO":7.25,"rtc":1},"realtime":{"h":1}}"#,
            ),
            ("amsleser", r#"{"id":"a","up":3,"data":{"P":20}}"#),
        ],
        (Some(100_500_000), Some(7_250_000), Some(-1_480_000)),
    ),
    (
        "preset = 'evcc'",
        &[("evcc/status", "online"), ("evcc/site/grid/power", "-1234.5")],
        (None, None, Some(-1_234_500)),
    ),
    (
        "preset = 'homeassistant-statestream'\npower = [{ topic = 'grid_power', unit = 'kW', sign = 'export' }]",
        &[("homeassistant/status", "online"), ("homeassistant/sensor/grid_power/state", "0.3")],
        (None, None, Some(-300_000)),
    ),
    (
        "interval_seconds = 10\npower = [{ topic = 'sensors/power/p1meter/actual_consumption', unit = 'W' }, \
         { topic = 'sensors/power/p1meter/actual_returndelivery', unit = 'W', sign = 'export' }]",
        &[("sensors/power/p1meter/actual_consumption", "313"), ("sensors/power/p1meter/actual_returndelivery", "0")],
        (None, None, Some(313_000)),
    ),
];

#[tokio::test]
async fn every_preset_reads_what_its_bridge_publishes() {
    let home = Home::start();
    for (config, messages, expected) in SEEN {
        let mut source = home.source(config);
        source.connected().await;
        for (topic, payload) in *messages {
            home.say(topic, payload);
        }
        // Samples of the first messages may know less.
        let mut found = numbers(&source.sample().await);
        while found != *expected {
            found = numbers(&source.sample().await);
        }
    }
}

#[tokio::test]
async fn a_shelly_that_tells_only_what_changed_is_put_together() {
    let home = Home::start();
    let mut source = home.source("preset = 'shelly-gen2'\ndevice = 's'");
    source.connected().await;
    home.say("s/online", "true");
    home.say(
        "s/events/rpc",
        r#"{"src":"s","method":"NotifyStatus","params":{"ts":1,"em:0":{"id":0,"total_act_power":10}}}"#,
    );
    assert_eq!(numbers(&source.sample().await), (None, None, Some(10_000)));
    home.say("s/events/rpc", r#"{"src":"s","method":"NotifyStatus","params":{"ts":2,"wifi":{"rssi":-60}}}"#);
    home.say(
        "s/events/rpc",
        r#"{"src":"s","method":"NotifyStatus","params":{"ts":3,"emdata:0":{"id":0,"total_act":5.25,"total_act_ret":1}}}"#,
    );
    assert_eq!(numbers(&source.sample().await), (Some(5_250), Some(1_000), Some(10_000)));
}

/// A preset's configuration, the messages of a bridge, and why the last of them is refused.
const REFUSED: &[(&str, Messages, &str)] = &[
    (
        "preset = 'shelly-gen2'\ndevice = 's'",
        &[("s/online", "true"), ("s/status/em1:0", r#"{"act_power":10}"#), ("s/status/em1:1", r#"{"act_power":700}"#)],
        "em1:1 is another channel",
    ),
    (
        "preset = 'shelly-gen2'\ndevice = 's'",
        &[("s/online", "true"), ("s/events/rpc", r#"{"params":{"em1:0":{"act_power":10},"em1:2":{"act_power":700}}}"#)],
        "em1:2 is another channel",
    ),
    (
        "preset = 'tasmota'\ndevice = 'p'",
        &[("tele/p/SENSOR", r#"{"ENERGY":{"Total":100.5,"Power":-1500}}"#)],
        "the power is negative, although `import_only`",
    ),
    (
        "preset = 'tasmota'\ndevice = 'p'",
        &[("tele/p/SENSOR", r#"{"ENERGY":{"Total":1,"Power":[5,7]}}"#)],
        "several channels",
    ),
    (
        "preset = 'tasmota-sml'\ndevice = 'p'",
        &[("tele/p/SENSOR", r#"{"DWSB122":{"energy":5702,"energy":85,"meter_id":"0a"}}"#)],
        "`energy` occurs twice",
    ),
    (
        "preset = 'zigbee2mqtt'\ndevice = 'z'",
        &[("zigbee2mqtt/z/availability", "online"), ("zigbee2mqtt/z", r#"{"power_a":5,"power_b":7}"#)],
        "is one phase, and the others are missing",
    ),
];

#[tokio::test]
async fn a_part_of_a_home_is_refused_and_never_reported() {
    let home = Home::start();
    for (config, messages, expected) in REFUSED {
        let mut source = home.source(config);
        source.connected().await;
        for (topic, payload) in *messages {
            home.say(topic, payload);
        }
        let why = source.refused().await;
        assert!(why.contains(expected), "{why}");
    }
    // A second channel is not forgotten when the first speaks again; an owner who names the grid's is not asked.
    let mut source = home.source("preset = 'shelly-gen2'\ndevice = 's'");
    source.connected().await;
    home.say("s/online", "true");
    home.say("s/status/em1:1", r#"{"act_power":700}"#);
    home.say("s/status/em1:0", r#"{"act_power":10}"#);
    assert_eq!(source.refused().await, source.refused().await);
    let mut source = home.source(
        "preset = 'shelly-gen2'\ndevice = 's'\npower = [{ topic = 's/status/em1:0', pointer = '/act_power', unit = 'W' }]",
    );
    source.connected().await;
    home.say("s/online", "true");
    home.say("s/status/em1:1", r#"{"act_power":700}"#);
    home.say("s/status/em1:0", r#"{"act_power":10}"#);
    assert_eq!(numbers(&source.sample().await), (None, None, Some(10_000)));
}

#[tokio::test]
async fn what_speaks_only_on_change_counts_while_it_says_that_it_is_alive() {
    let home = Home::start();
    home.keep("evcc/site/grid/power", "100").await;
    let mut source = home.source("preset = 'evcc'");
    source.connected().await;
    home.say("evcc/site/grid/power", "200");
    // Nothing counts before the bridge says that it is alive; then what it said before does.
    assert_eq!(source.lost().await, "evcc/status has not reported online yet; enable that in the bridge");
    home.say("evcc/status", "online");
    assert_eq!(numbers(&source.sample().await), (None, None, Some(200_000)));
    home.say("evcc/status", "offline");
    assert_eq!(source.lost().await, "evcc/status reports offline");
    home.say("evcc/status", "online");
    home.say("evcc/site/grid/power", "300");
    assert_eq!(numbers(&source.sample().await), (None, None, Some(300_000)));
}

#[tokio::test]
async fn what_a_broker_kept_of_a_periodic_bridge_is_too_old() {
    let home = Home::start();
    home.keep("dsmr/reading/electricity_currently_delivered", "9").await;
    home.keep("dsmr/reading/electricity_currently_returned", "0").await;
    let mut source = home.source("preset = 'dsmr-reader'");
    source.connected().await;
    home.say("dsmr/reading/electricity_currently_returned", "0.1");
    home.say("dsmr/reading/electricity_currently_delivered", "0.5");
    assert_eq!(numbers(&source.sample().await), (None, None, Some(400_000)));
}

#[tokio::test]
async fn a_message_without_a_number_ends_what_was_known() {
    let home = Home::start();
    let mut source = home.source("preset = 'homeassistant-statestream'\npower = [{ topic = 'p', unit = 'W' }]");
    source.connected().await;
    home.say("homeassistant/status", "online");
    home.say("homeassistant/sensor/p/state", "unavailable");
    assert_eq!(source.lost().await, "homeassistant/sensor/p/state is not a number");
    let mut source = home.source("preset = 'tasmota-sml'\ndevice = 'm'");
    source.connected().await;
    home.say("tele/m/SENSOR", r#"{"A":{"Power_curr":0,"Total_in":0,"Total_out":0}}"#);
    assert_eq!(source.lost().await, "the bridge has not read its meter yet");
    home.say("tele/m/SENSOR", r#"{"A":{"Power_curr":1},"B":{"Power_curr":2}}"#);
    assert!(source.refused().await.contains("several matching groups"));
    home.say("tele/m/SENSOR", "{");
    assert_eq!(source.lost().await, "tele/m/SENSOR is not JSON");
}

#[tokio::test]
async fn a_broker_that_was_restarted_is_subscribed_to_again() {
    let mut home = Home::start();
    let mut source = home.source("preset = 'tasmota'\ndevice = 'm'");
    source.connected().await;
    home.kill();
    assert!(source.lost().await.starts_with("the home broker "));
    home.restart();
    source.connected().await;
    home.say("tele/m/SENSOR", r#"{"ENERGY":{"Power":5,"Total":1.001}}"#);
    assert_eq!(numbers(&source.sample().await), (Some(1_001_000), Some(0), Some(5_000)));
}

#[tokio::test]
async fn a_login_is_read_from_a_file() {
    let home = Home::locked("home", "geheim");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "geheim\n").expect("written");
    let config = |path: &std::path::Path| {
        format!(
            "kind = 'mqtt'\nbroker = '{}'\nusername = 'home'\npassword_file = {path:?}\npreset = 'evcc'",
            home.url()
        )
    };
    let mut source = Running::start(&config(file.path()));
    assert!(matches!(source.next().await, Event::Connected { .. }));
    std::fs::write(file.path(), "falsch\n").expect("written");
    let mut source = Running::start(&config(file.path()));
    let why = source.lost().await;
    assert!(why.starts_with("the home broker ") && !why.contains("falsch"), "{why}");
}

#[test]
fn a_mistake_is_named_with_what_to_do() {
    let with = |lines: &str| mistake(&format!("kind = 'mqtt'\nbroker = 'mqtt://b'\n{lines}"));
    assert!(with("preset = 'tasmota'").contains("device: the preset \"tasmota\" needs the device's name"));
    assert_eq!(
        with("preset = 'shelly-gen3'\ndevice = 'x'"),
        "source:3: preset: \"shelly-gen3\" is not allowed; did you mean \"shelly-gen1\"?"
    );
    assert!(with("preset = 'vzlogger'").contains("preset: with \"vzlogger\" you choose the sensors"));
    assert!(with("speaks = 'on-change'").contains("nothing to read; name a `preset`"));
    let power = "power = [{ topic = 'a/b', unit = 'W' }]";
    assert!(with(power).contains("interval_seconds: missing; say how often"));
    assert!(with(&format!("speaks = 'on-change'\n{power}")).contains("availability: missing; name the topic"));
    assert!(with("interval_seconds = 9\npower = [{ topic = 'a/b' }]").contains("power.unit: missing; use W or kW"));
    assert!(with("interval_seconds = 9\npower = [{ topic = 'a/#', unit = 'W' }]").contains("without wildcards"));
    assert!(
        with("interval_seconds = 9\npower = [{ topic = 'a', unit = 'W', pointer = 'x' }]").contains("begins with `/`")
    );
    assert!(with("interval_seconds = 9\nimport = [{ topic = 'a', unit = 'W' }]").contains("use Wh, kWh, MWh or W*min"));
    let alone = with("interval_seconds = 9\nimport = [{ topic = 'a', unit = 'kWh' }]");
    assert!(alone.contains("set `import_only = true` if nothing behind the meter can feed in"), "{alone}");
    assert!(with("ca = 'x'\npreset = 'evcc'").contains("no effect with mqtt://"));
    let secret = mistake("kind = 'mqtt'\nbroker = 'mqtt://me:geheim@b'");
    assert!(secret.contains("password_file") && !secret.contains("geheim"), "{secret}");
}
