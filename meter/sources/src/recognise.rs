//! Recognises a source by what it says, and proposes a configuration for it.

use serde_json::Value;

use crate::mqtt::preset::Preset;
use crate::p1;
use crate::pointer::Pointer;
use crate::sml;

/// A source that was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// What it is, in words.
    pub what: String,
    /// The lines of `[source]` beside those that say how it is reached.
    pub config: String,
}

/// Recognises the telegrams of a serial port or a bridge, once a whole one is among the bytes.
pub fn recognise_bytes(bytes: &[u8]) -> Option<Proposal> {
    recognise_p1(bytes).or_else(|| recognise_sml(bytes))
}

fn recognise_p1(bytes: &[u8]) -> Option<Proposal> {
    let mut frames = p1::frames::Frames::default();
    frames.push(bytes);
    while let Some(frame) = frames.next_frame() {
        if let Ok(telegram) = p1::telegram::parse(&frame, p1::telegram::Checksum::Check) {
            let checksum = if telegram.has_checksum { "with a checksum" } else { "without a checksum" };
            let name: String = telegram.identification.chars().filter(|name| !name.is_control()).take(40).collect();
            return Some(Proposal {
                what: format!("a meter that sends OBIS lines {checksum}, {name:?}"),
                config: "kind = \"p1\"\n".to_owned(),
            });
        }
    }
    None
}

fn recognise_sml(bytes: &[u8]) -> Option<Proposal> {
    let mut frames = sml::Frames::default();
    frames.push(bytes);
    while let Some(frame) = frames.next_frame() {
        let Some(crc) = sml::crc_of(&frame) else { continue };
        let Ok(values) = sml::parse(&frame, crc) else { continue };
        let (unusual, setting) = match crc {
            sml::Crc::X25 => ("", String::new()),
            sml::Crc::Kermit => (", with an unusual checksum", format!("crc = \"{}\"\n", crc.name())),
        };
        let locked = if values.power.is_none() && values.step >= Some(1_000_000) {
            "; it shows whole kWh and no power until it is unlocked with its PIN"
        } else {
            ""
        };
        return Some(Proposal {
            what: format!("a meter that sends SML{unusual}{locked}"),
            config: format!("kind = \"sml\"\n{setting}"),
        });
    }
    None
}

/// Recognises a message of a bridge.
pub fn recognise_message(topic: &str, payload: &[u8]) -> Option<Proposal> {
    let document: Option<Value> = serde_json::from_slice(payload).ok();
    let has = |pointer: &str| {
        let pointer = Pointer::parse(pointer);
        pointer.zip(document.as_ref()).is_some_and(|(pointer, document)| pointer.find(document) != Ok(None))
    };
    let levels: Vec<&str> = topic.split('/').collect();
    let (preset, device) = match levels[..] {
        ["tele", device, "SENSOR"] if has("/ENERGY/Power") => (Preset::Tasmota, device),
        ["tele", device, "SENSOR"] if has("/*/Power_curr") || has("/*/Total_in") => (Preset::TasmotaSml, device),
        ["shellies", device, "emeter", _, "power"] => (Preset::ShellyGen1, device),
        [device, "status", "em:0" | "em1:0"] => (Preset::ShellyGen2, device),
        [device, "events", "rpc"] if has("/params/em:0") || has("/params/em1:0") => (Preset::ShellyGen2, device),
        ["zigbee2mqtt", device] if has("/power") => (Preset::Zigbee2mqtt, device),
        [device, "reading", "electricity_currently_delivered"] => (Preset::DsmrReader, device),
        [device, "data", _, "raw" | "agg"] if has("/value") => (Preset::Vzlogger, device),
        [device, "site", "grid", "power"] => (Preset::Evcc, device),
        ["homeassistant", "sensor", name, "state"] if name.contains("power") => {
            (Preset::HomeassistantStatestream, "homeassistant")
        }
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
    Some(Proposal { what: format!("{name}, on {}", quoted(topic)), config })
}

/// Recognises the answer of a device that was asked for `/api/v1/data`.
pub fn recognise_document(document: &[u8]) -> Option<Proposal> {
    let document: Value = serde_json::from_slice(document).ok()?;
    document.get("active_power_w").or_else(|| document.get("total_power_import_kwh"))?;
    Some(Proposal {
        what: "a HomeWizard P1 meter".to_owned(),
        config: "kind = \"http\"\npreset = \"homewizard\"\n".to_owned(),
    })
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
        let homewizard = recognise_document(br#"{"active_power_w":1}"#).unwrap();
        is_sound(&homewizard, "url = 'http://p1meter'");
    }
}
