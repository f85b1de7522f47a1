//! Recognises a source by what it says, and proposes a configuration for it.

use serde_json::Value;

use crate::ciphered;
use crate::dlms;
use crate::mapping::by_name;
use crate::mqtt::preset::Preset;
use crate::p1;
use crate::pointer::Pointer;
use crate::sml;
use crate::tic;

/// A source that was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// What it is, in words.
    pub what: String,
    /// The lines of `[source]` beside those that say how it is reached.
    pub config: String,
    /// By what an owner chooses it among several: its device, its topic or its sensor.
    pub names: Vec<String>,
}

impl Proposal {
    fn of_kind(kind: &str, what: String) -> Self {
        Self { what, config: format!("kind = \"{kind}\"\n"), names: Vec::new() }
    }
}

/// Recognises the telegrams of a serial port or a bridge, once a whole one is among the bytes.
pub fn recognise_bytes(bytes: &[u8]) -> Option<Proposal> {
    recognise_p1(bytes)
        .or_else(|| recognise_sml(bytes))
        .or_else(|| recognise_dlms(bytes))
        .or_else(|| recognise_tic(bytes))
}

/// Says what bytes are of which nothing was recognised, and what to do about it.
pub fn name_foreign(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing came".to_owned();
    }
    let encrypted = "telegrams that the meter encrypts; ask the grid operator for the key, put its 32 digits into a file for you alone \
                     (`chmod 600`), and write the source with `key_file`";
    if let Some(message) =
        all(ciphered::Frames::default(), |frames| frames.push(bytes), ciphered::Frames::next_frame).pop()
        && message.len() > 30
    {
        return encrypted.to_owned();
    }
    let telegrams = all(p1::frames::Frames::default(), |frames| frames.push(bytes), p1::frames::Frames::next_frame);
    let mut problems =
        telegrams.iter().filter_map(|frame| p1::telegram::parse(frame, p1::telegram::Checksum::Check).err());
    if let Some(problem) = problems.next_back() {
        return format!("telegrams of a P1 port that cannot be read: {problem}");
    }
    let files = all(sml::Frames::default(), |frames| frames.push(bytes), sml::Frames::next_frame);
    let mut problems = files.iter().filter_map(|frame| sml::parse(frame, sml::crc_of(frame).unwrap_or_default()).err());
    if let Some(problem) = problems.next_back() {
        return format!("SML that cannot be read: {problem}");
    }
    let messages = all(dlms::Frames::default(), |frames| frames.push(bytes), dlms::Frames::next_frame);
    let mut problems = messages.into_iter().map(|message| message.and_then(|message| dlms::parse(&message, None)));
    match problems.next_back() {
        Some(Err(problem)) => return format!("DLMS over HDLC that cannot be read: {problem}"),
        Some(Ok(_)) => return "DLMS over HDLC, in a list without the power of both directions".to_owned(),
        None => {}
    }
    let frames = all(tic::Frames::default(), |frames| frames.push(bytes), tic::Frames::next_frame);
    if let Some(problem) = frames.iter().filter_map(|frame| tic::parse(frame).err()).next_back() {
        return format!("the customer output of a French meter that cannot be read: {problem}");
    }
    if is_mbus(bytes) {
        return "M-Bus frames, which are not read; a bridge that speaks MQTT can (amsleser.no, ESPHome)".to_owned();
    }
    let count = bytes.len();
    if bytes.iter().all(|byte| matches!(byte & 0x7f, b'\t' | b'\n' | b'\r' | b' '..=b'~')) {
        let lines = if bytes.contains(&b'\n') {
            "in lines, but no telegram from `/` to `!`"
        } else {
            "without the end of a line"
        };
        return format!("{count} bytes of text, {lines}");
    }
    format!("{count} bytes of no known format; the speed may be another, or the signal inverted")
}

/// Everything that a kind of frames finds.
fn all<F, T>(mut frames: F, push: impl FnOnce(&mut F), next: impl Fn(&mut F) -> Option<T>) -> Vec<T> {
    push(&mut frames);
    std::iter::from_fn(|| next(&mut frames)).collect()
}

/// Whether there is a long frame of M-Bus: its length twice between two marks, and a third at its end.
fn is_mbus(bytes: &[u8]) -> bool {
    bytes.windows(4).enumerate().any(|(at, head)| match head {
        [0x68, length, twice, 0x68] if length == twice => bytes.get(at + usize::from(*length) + 5) == Some(&0x16),
        _ => false,
    })
}

fn recognise_p1(bytes: &[u8]) -> Option<Proposal> {
    let telegrams = all(p1::frames::Frames::default(), |frames| frames.push(bytes), p1::frames::Frames::next_frame);
    let mut sound = telegrams.iter().filter_map(|frame| p1::telegram::parse(frame, p1::telegram::Checksum::Check).ok());
    let telegram = sound.next()?;
    let checksum = if telegram.has_checksum { "with a checksum" } else { "without a checksum" };
    let name: String = telegram.identification.chars().filter(|name| !name.is_control()).take(40).collect();
    Some(Proposal::of_kind("p1", format!("a meter that sends OBIS lines {checksum}, {name:?}")))
}

fn recognise_sml(bytes: &[u8]) -> Option<Proposal> {
    let files = all(sml::Frames::default(), |frames| frames.push(bytes), sml::Frames::next_frame);
    files.iter().find_map(|frame| {
        let crc = sml::crc_of(frame)?;
        let values = sml::parse(frame, crc).ok()?;
        let (unusual, setting) = match crc {
            sml::Crc::X25 => ("", String::new()),
            sml::Crc::Kermit => (", with an unusual checksum", format!("crc = \"{}\"\n", crc.name())),
        };
        let locked = if values.power.is_none() && values.step >= Some(1_000_000) {
            "; it shows whole kWh and no power until it is unlocked with its PIN"
        } else {
            ""
        };
        let mut proposal = Proposal::of_kind("sml", format!("a meter that sends SML{unusual}{locked}"));
        proposal.config += &setting;
        Some(proposal)
    })
}

fn recognise_dlms(bytes: &[u8]) -> Option<Proposal> {
    let messages = all(dlms::Frames::default(), |frames| frames.push(bytes), dlms::Frames::next_frame);
    let mut sound = messages.into_iter().filter_map(|message| dlms::parse(&message.ok()?, None).ok());
    sound.next().map(|_| Proposal::of_kind("dlms", "a meter that sends DLMS over HDLC".to_owned()))
}

fn recognise_tic(bytes: &[u8]) -> Option<Proposal> {
    let frames = all(tic::Frames::default(), |frames| frames.push(bytes), tic::Frames::next_frame);
    let values = frames.iter().find_map(|frame| tic::parse(frame).ok())?;
    let mut proposal = Proposal::of_kind("tic", "the customer output of a French meter".to_owned());
    if values.export.is_none() {
        proposal.what += ", which does not say what is fed in";
        proposal.config += "import_only = true # if nothing behind the meter can feed in\n";
    }
    Some(proposal)
}

/// Recognises a message of a bridge.
pub fn recognise_message(topic: &str, payload: &[u8]) -> Option<Proposal> {
    let document: Option<Value> = serde_json::from_slice(payload).ok();
    let has = |pointer: &str| {
        let pointer = Pointer::parse(pointer);
        pointer.zip(document.as_ref()).is_some_and(|(pointer, document)| pointer.find(document) != Ok(None))
    };
    // A message that would be refused is recognised too: its owner is then told why.
    let speaks = |preset: Preset, device: &str| {
        let named = preset.bridge(device).mapping.named;
        named.zip(document.as_ref()).is_some_and(|(named, document)| by_name(document, &named) != Ok(None))
    };
    let levels: Vec<&str> = topic.split('/').collect();
    let (preset, device) = match levels[..] {
        ["tele", device, "SENSOR"] if speaks(Preset::Tasmota, device) => (Preset::Tasmota, device),
        ["tele", device, "SENSOR"] if speaks(Preset::TasmotaSml, device) => (Preset::TasmotaSml, device),
        ["shellies", device, "emeter", _, "power"] => (Preset::ShellyGen1, device),
        [device, "status", "em:0" | "em1:0"] => (Preset::ShellyGen2, device),
        [device, "events", "rpc"] if has("/params/em:0") || has("/params/em1:0") => (Preset::ShellyGen2, device),
        ["zigbee2mqtt", device] if speaks(Preset::Zigbee2mqtt, device) => (Preset::Zigbee2mqtt, device),
        [device, "reading", "electricity_currently_delivered"] => (Preset::DsmrReader, device),
        [device, "data", _, "raw" | "agg"] if has("/value") => (Preset::Vzlogger, device),
        [device, "site", "grid", "power"] => (Preset::Evcc, device),
        ["homeassistant", "sensor", name, "state"] if name.contains("power") => {
            (Preset::HomeassistantStatestream, "homeassistant")
        }
        _ if has("/data/P") && has("/data/PO") => (Preset::Amsleser, topic),
        [device, "sensor", "power_consumed", "state"] => (Preset::Esphome, device),
        _ => return None,
    };
    let name = preset.name();
    let mut config = format!("kind = \"mqtt\"\npreset = \"{name}\"\ndevice = {}\n", quoted(device));
    if preset.needs_fields() {
        config += &format!(
            "power = [{{ topic = {}, unit = \"W\" }}] # say which sensor is the grid's, and its unit\n",
            quoted(topic)
        );
    }
    let sensor = levels.get(levels.len().saturating_sub(2)).filter(|_| preset.needs_fields());
    let names = [device, topic].into_iter().chain(sensor.copied()).map(str::to_owned).collect();
    Some(Proposal { what: format!("{name}, on {}", quoted(topic)), config, names })
}

/// Recognises the answer of a device that was asked for `/api/v1/data`.
pub fn recognise_document(document: &[u8]) -> Option<Proposal> {
    let document: Value = serde_json::from_slice(document).ok()?;
    document.get("active_power_w").or_else(|| document.get("total_power_import_kwh"))?;
    let mut proposal = Proposal::of_kind("http", "a HomeWizard P1 meter".to_owned());
    proposal.config += "preset = \"homewizard\"\n";
    Some(proposal)
}

/// A string as TOML and JSON write it.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    /// Whether a proposal is a whole configuration, with the line that says how the source is reached.
    fn is_sound(proposal: &Proposal, reached: &str) {
        Source::parse("source", &format!("{reached}\n{}", proposal.config)).unwrap();
    }

    #[test]
    fn every_preset_is_recognised_by_a_message_and_the_proposal_is_sound() {
        let mut recognised = Vec::new();
        for (topic, payload, preset) in [
            ("tele/plug/SENSOR", r#"{"ENERGY":{"Power":1}}"#, Preset::Tasmota),
            ("tele/m \"1\"/SENSOR", r#"{"x":{"Power_curr":1}}"#, Preset::TasmotaSml),
            ("shellies/s/emeter/0/power", "1", Preset::ShellyGen1),
            ("s/status/em:0", "{}", Preset::ShellyGen2),
            ("s/events/rpc", r#"{"params":{"em:0":{}}}"#, Preset::ShellyGen2),
            ("zigbee2mqtt/plug", r#"{"power":1}"#, Preset::Zigbee2mqtt),
            ("p1/sensor/power_consumed/state", "1", Preset::Esphome),
            ("dsmr/reading/electricity_currently_delivered", "1", Preset::DsmrReader),
            ("vzlogger/data/chn0/raw", r#"{"timestamp":1,"value":1}"#, Preset::Vzlogger),
            ("evcc/site/grid/power", "1", Preset::Evcc),
            ("homeassistant/sensor/grid_power/state", "1", Preset::HomeassistantStatestream),
            ("amsleser", r#"{"data":{"P":1,"PO":0}}"#, Preset::Amsleser),
        ] {
            let proposal = recognise_message(topic, payload.as_bytes()).unwrap();
            assert!(proposal.config.contains(&format!("preset = \"{}\"", preset.name())), "{proposal:?}");
            is_sound(&proposal, "broker = 'mqtt://home'");
            recognised.push(preset);
        }
        recognised.sort();
        recognised.dedup();
        assert_eq!(recognised, Preset::ALL);
    }

    #[test]
    fn what_is_none_is_not_recognised() {
        for (topic, payload) in
            [("tele/x/SENSOR", "{}"), ("tele/x/SENSOR", "{"), ("a/b", "1"), ("zigbee2mqtt/x", r#"{"a":1}"#)]
        {
            assert_eq!(recognise_message(topic, payload.as_bytes()), None, "{topic}");
        }
        assert_eq!(recognise_bytes(b"/A\r\n1-0:1.7.0(1*kW)\r\n"), None);
        assert_eq!(recognise_document(b"{}"), None);
    }

    #[test]
    fn telegrams_and_documents_are_recognised() {
        let p1 = recognise_bytes(b"tail!\r\n/EST5\\M\r\n\r\n1-0:1.7.0(1*kW)\r\n!\r\n").unwrap();
        assert_eq!(p1.what, "a meter that sends OBIS lines without a checksum, \"/EST5\\\\M\"");
        is_sound(&p1, "serial = '/dev/ttyUSB0'");
        let tic = recognise_bytes(b"\x02\nEAST\t023591827\t4\r\x03").unwrap();
        is_sound(&tic, "serial = '/dev/ttyUSB0'");
        let list = [
            &[0x0f, 0, 0, 0, 0, 0, 2, 4, 9, 6, 1, 0, 1, 7, 0, 255, 0x12, 1, 0][..],
            &[9, 6, 1, 0, 2, 7, 0, 255, 0x12, 0, 0],
        ]
        .concat();
        is_sound(&recognise_bytes(&dlms::framed(&list)).unwrap(), "serial = '/dev/ttyUSB0'");
        let homewizard = recognise_document(br#"{"active_power_w":1}"#).unwrap();
        is_sound(&homewizard, "url = 'http://p1meter'");
    }

    #[test]
    fn what_is_foreign_is_named_with_what_to_do() {
        let mbus = [&[0x68, 5, 5, 0x68][..], &[0; 6], &[0x16]].concat();
        let sealed = ciphered::Keys::known().seal(*b"SAGgPORT", 1, b"/LUX5\r\n\r\n1-0:1.7.0(1*kW)\r\n!\r\n");
        let hdlc = dlms::framed(&[0xe6, 0xe7, 0, 0xc4, 1]);
        for (bytes, said) in [
            (&b""[..], "nothing came"),
            (&mbus, "M-Bus"),
            (&sealed, "key_file"),
            (&hdlc, "DLMS over HDLC that cannot be read: the message is no data notification"),
            (b"/A\n\n1-3:0.2.8(50)\n1-0:1.7.0(1*kW)\n!ABC\n", "the checksum has 3 digits"),
            (b"/A\n\n1-3:0.2.8(50)\n1-0:1.7.0(1*kW)\n!\n", "ends without the checksum"),
            (b"power is 5\nor so\n", "bytes of text, in lines, but no telegram"),
            (b"\x80\xff\x01\x00\x9c", "5 bytes of no known format; the speed may be another"),
        ] {
            assert_eq!(recognise_bytes(bytes), None);
            let found = name_foreign(bytes);
            assert!(found.contains(said), "{found}");
        }
    }
}
