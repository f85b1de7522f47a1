//! What known bridges publish: topics, units, signs, and how they say that they are alive.

use crate::mapping::{Field, Groups, Mapping, Named as NamedNumbers, Other, Overlay, Quantity, Trouble};
use crate::names::Wanted;
use crate::pointer::Pointer;
use crate::sample::Values;
use crate::slot_mean::Liveness;
use crate::units::{Sign, Unit};

/// A bridge that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preset {
    Tasmota,
    TasmotaSml,
    ShellyGen1,
    ShellyGen2,
    Zigbee2mqtt,
    Esphome,
    DsmrReader,
    Vzlogger,
    Evcc,
    HomeassistantStatestream,
    Amsleser,
}

/// Reads the messages of a bridge without a connection, as a preset says: for looking at what it would report.
#[derive(Debug)]
pub struct Reader {
    mapping: Mapping,
    overlay: Overlay,
}

impl Reader {
    pub fn new(preset: Preset, device: &str) -> Self {
        let mapping = preset.bridge(device).mapping;
        Self { overlay: Overlay::new(mapping.clone(), None), mapping }
    }

    /// The topics that carry something.
    pub fn topics(&self) -> Vec<String> {
        self.mapping.topics()
    }

    /// Takes in a message, and returns what is known after it.
    pub fn take(&mut self, topic: &str, message: &[u8]) -> Result<Values, String> {
        match self.overlay.take(topic, message, 0) {
            Ok(_) => Ok(self.overlay.values(0)),
            Err(Trouble::Lost(why) | Trouble::Refused(why)) => Err(why),
        }
    }
}

/// Where a number is, as far as the configuration says it.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) topic: String,
    pub(super) pointer: Option<Pointer>,
    pub(super) unit: Option<Unit>,
}

/// Where a bridge says whether it is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Availability {
    pub(crate) topic: String,
    pub(crate) online: String,
    pub(crate) offline: String,
}

/// A preset with the name of the device filled in.
#[derive(Debug, Clone)]
pub(crate) struct Bridge {
    pub(crate) mapping: Mapping,
    pub(crate) availability: Option<Availability>,
    pub(crate) liveness: Liveness,
}

impl Preset {
    pub const ALL: [Self; 11] = [
        Self::Tasmota,
        Self::TasmotaSml,
        Self::ShellyGen1,
        Self::ShellyGen2,
        Self::Zigbee2mqtt,
        Self::Esphome,
        Self::DsmrReader,
        Self::Vzlogger,
        Self::Evcc,
        Self::HomeassistantStatestream,
        Self::Amsleser,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Tasmota => "tasmota",
            Self::TasmotaSml => "tasmota-sml",
            Self::ShellyGen1 => "shelly-gen1",
            Self::ShellyGen2 => "shelly-gen2",
            Self::Zigbee2mqtt => "zigbee2mqtt",
            Self::Esphome => "esphome",
            Self::DsmrReader => "dsmr-reader",
            Self::Vzlogger => "vzlogger",
            Self::Evcc => "evcc",
            Self::HomeassistantStatestream => "homeassistant-statestream",
            Self::Amsleser => "amsleser",
        }
    }

    /// What the preset was tried with, in words.
    pub(crate) const fn tried(self) -> &'static str {
        match self {
            Self::TasmotaSml => "the names of the scripts in Tasmota's documentation",
            Self::Vzlogger | Self::HomeassistantStatestream => "messages as their documentation shows them",
            Self::Amsleser => "the names of its documentation; no capture",
            Self::Tasmota
            | Self::ShellyGen1
            | Self::ShellyGen2
            | Self::Zigbee2mqtt
            | Self::Esphome
            | Self::DsmrReader
            | Self::Evcc => "messages that makers and owners show",
        }
    }

    /// The name of the device if the configuration has none; `None` where it must be given.
    pub(crate) const fn default_device(self) -> Option<&'static str> {
        match self {
            Self::Tasmota
            | Self::TasmotaSml
            | Self::ShellyGen1
            | Self::ShellyGen2
            | Self::Zigbee2mqtt
            | Self::Esphome => None,
            Self::DsmrReader => Some("dsmr"),
            Self::Vzlogger => Some("vzlogger"),
            Self::Evcc => Some("evcc"),
            Self::HomeassistantStatestream => Some("homeassistant"),
            Self::Amsleser => Some("amsleser"),
        }
    }

    /// Whether sensors have names of the owner's choice, so that the configuration has to say which is which.
    pub(crate) const fn needs_fields(self) -> bool {
        matches!(self, Self::Vzlogger | Self::HomeassistantStatestream)
    }

    pub(crate) fn bridge(self, device: &str) -> Bridge {
        match self {
            Self::Tasmota => Bridge {
                mapping: Mapping {
                    named: by_name(tasmota_topic(device), Groups::Only("ENERGY")),
                    import_only: true,
                    ..Mapping::default()
                },
                ..tasmota(device)
            },
            Self::TasmotaSml => Bridge {
                mapping: Mapping {
                    named: by_name(tasmota_topic(device), Groups::Any),
                    zero_is_unread: true,
                    ..Mapping::default()
                },
                ..tasmota(device)
            },
            Self::ShellyGen1 => {
                let phases = |name: &str, unit| {
                    (0..3).map(|phase| bare(format!("shellies/{device}/emeter/{phase}/{name}"), unit)).collect()
                };
                Bridge {
                    mapping: Mapping {
                        power: vec![phases("power", Unit::W)],
                        import: vec![phases("total", Unit::Wh)],
                        export: vec![phases("total_returned", Unit::Wh)],
                        ..Mapping::default()
                    },
                    availability: availability(format!("shellies/{device}/online"), "true", "false"),
                    liveness: every(30),
                }
            }
            Self::ShellyGen2 => {
                // A component has a topic of its own, and is a member of notifications, which carry only what changed.
                let at = |component: &str, name: &str, unit| {
                    let notified = format!("/params/{component}/{name}");
                    [
                        vec![json(format!("{device}/status/{component}"), &format!("/{name}"), unit)],
                        vec![json(format!("{device}/events/rpc"), &notified, unit)],
                    ]
                };
                let three_or_one =
                    |three: [Vec<Field>; 2], one: [Vec<Field>; 2]| three.into_iter().chain(one).collect();
                // A meter of single phases has a component for each of its clamps.
                let others = ["em:1", "em1:1", "em1:2", "em1:3"].into_iter().flat_map(|name| {
                    let other = |topic: String, pointer: Option<String>| {
                        let pointer = pointer.and_then(|pointer| Pointer::parse(&pointer));
                        Other { topic, pointer, name: name.to_owned() }
                    };
                    [
                        other(format!("{device}/status/{name}"), None),
                        other(format!("{device}/events/rpc"), Some(format!("/params/{name}"))),
                    ]
                });
                Bridge {
                    mapping: Mapping {
                        power: three_or_one(at("em:0", "total_act_power", Unit::W), at("em1:0", "act_power", Unit::W)),
                        import: three_or_one(
                            at("emdata:0", "total_act", Unit::Wh),
                            at("em1data:0", "total_act_energy", Unit::Wh),
                        ),
                        export: three_or_one(
                            at("emdata:0", "total_act_ret", Unit::Wh),
                            at("em1data:0", "total_act_ret_energy", Unit::Wh),
                        ),
                        others: others.collect(),
                        ..Mapping::default()
                    },
                    availability: availability(format!("{device}/online"), "true", "false"),
                    liveness: Liveness::OnChange,
                }
            }
            Self::Zigbee2mqtt => Bridge {
                mapping: Mapping {
                    named: by_name(format!("zigbee2mqtt/{device}"), Groups::Root),
                    ..Mapping::default()
                },
                availability: availability(format!("zigbee2mqtt/{device}/availability"), "online", "offline"),
                liveness: Liveness::OnChange,
            },
            Self::Esphome => {
                let at = |sensor: &str, unit| bare(format!("{device}/sensor/{sensor}/state"), unit);
                let tariffs = |name: &str| (1..3).map(|n| at(&format!("{name}_tariff_{n}"), Unit::KiloWh)).collect();
                Bridge {
                    mapping: Mapping {
                        power: vec![vec![at("power_consumed", Unit::KiloW), export(at("power_produced", Unit::KiloW))]],
                        import: vec![tariffs("energy_consumed")],
                        export: vec![tariffs("energy_produced")],
                        ..Mapping::default()
                    },
                    availability: availability(format!("{device}/status"), "online", "offline"),
                    liveness: every(60),
                }
            }
            Self::DsmrReader => {
                let at = |name: &str, unit| bare(format!("{device}/reading/electricity_{name}"), unit);
                let tariffs = |name: &str| (1..3).map(|n| at(&format!("{name}_{n}"), Unit::KiloWh)).collect();
                Bridge {
                    mapping: Mapping {
                        power: vec![vec![
                            at("currently_delivered", Unit::KiloW),
                            export(at("currently_returned", Unit::KiloW)),
                        ]],
                        import: vec![tariffs("delivered")],
                        export: vec![tariffs("returned")],
                        ..Mapping::default()
                    },
                    availability: None,
                    liveness: every(10),
                }
            }
            Self::Vzlogger => Bridge { mapping: Mapping::default(), availability: None, liveness: every(60) },
            Self::Evcc => Bridge {
                mapping: Mapping {
                    power: one(bare(format!("{device}/site/grid/power"), Unit::W)),
                    ..Mapping::default()
                },
                availability: availability(format!("{device}/status"), "online", "offline"),
                liveness: Liveness::OnChange,
            },
            Self::HomeassistantStatestream => Bridge {
                mapping: Mapping::default(),
                availability: availability("homeassistant/status".to_owned(), "online", "offline"),
                liveness: Liveness::OnChange,
            },
            Self::Amsleser => {
                let at = |pointer, unit| json(device.to_owned(), pointer, unit);
                Bridge {
                    mapping: Mapping {
                        // The short list of a meter has only what is taken; what is fed in comes with the next one.
                        power: vec![vec![at("/data/P", Unit::W), export(at("/data/PO", Unit::W))]],
                        import: one(at("/data/tPI", Unit::KiloWh)),
                        export: one(at("/data/tPO", Unit::KiloWh)),
                        ..Mapping::default()
                    },
                    availability: None,
                    liveness: every(10),
                }
            }
        }
    }

    /// Fills in what a field of the configuration leaves to the preset: a sensor's or channel's name becomes its topic.
    pub(super) fn complete(self, device: &str, mut field: Named, is_power: bool) -> Named {
        let is_name = !field.topic.contains('/');
        match self {
            Self::Esphome => {
                if is_name {
                    field.topic = format!("{device}/sensor/{}/state", field.topic);
                }
            }
            Self::HomeassistantStatestream => {
                if is_name {
                    field.topic = format!("{device}/sensor/{}/state", field.topic);
                }
            }
            Self::Vzlogger => {
                if is_name {
                    field.topic = format!("{device}/data/{}/raw", field.topic);
                }
                field.pointer = field.pointer.or_else(|| Pointer::parse("/value"));
                field.unit.get_or_insert(if is_power { Unit::W } else { Unit::Wh });
            }
            Self::Tasmota | Self::TasmotaSml => {
                if field.topic.is_empty() {
                    field.topic = tasmota_topic(device);
                }
            }
            Self::Zigbee2mqtt => {
                if field.topic.is_empty() {
                    field.topic = format!("zigbee2mqtt/{device}");
                }
            }
            Self::Amsleser => {
                if field.topic.is_empty() {
                    device.clone_into(&mut field.topic);
                }
            }
            Self::ShellyGen1 | Self::ShellyGen2 | Self::DsmrReader | Self::Evcc => {}
        }
        field
    }
}

/// What both kinds of Tasmota share. It speaks every `TelePeriod`, which is 300 s unless set.
fn tasmota(device: &str) -> Bridge {
    Bridge {
        mapping: Mapping::default(),
        availability: availability(format!("tele/{device}/LWT"), "Online", "Offline"),
        liveness: every(300),
    }
}

fn tasmota_topic(device: &str) -> String {
    format!("tele/{device}/SENSOR")
}

const fn every(seconds: u64) -> Liveness {
    Liveness::Every { interval_millis: seconds * 1000 }
}

#[expect(clippy::unnecessary_wraps, reason = "it stands where a bridge without it has `None`")]
fn availability(topic: String, online: &str, offline: &str) -> Option<Availability> {
    Some(Availability { topic, online: online.to_owned(), offline: offline.to_owned() })
}

#[expect(clippy::unnecessary_wraps, reason = "it stands where a bridge without it has `None`")]
const fn by_name(topic: String, groups: Groups) -> Option<NamedNumbers> {
    Some(NamedNumbers { topic, groups, wanted: Wanted::ALL })
}

fn one(field: Field) -> Quantity {
    vec![vec![field]]
}

fn bare(topic: String, unit: Unit) -> Field {
    Field { topic, pointer: None, unit, sign: Sign::Import }
}

fn json(topic: String, pointer: &str, unit: Unit) -> Field {
    Field { pointer: Pointer::parse(pointer), ..bare(topic, unit) }
}

fn export(field: Field) -> Field {
    Field { sign: Sign::Export, ..field }
}
