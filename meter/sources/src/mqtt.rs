//! `mqtt`: bridges that publish on the home's own broker.
//!
//! This connection is never the one to the community's broker, not even on the same host: what is read here is clear.

mod broker;
pub mod preset;

use dream_edge::mqtt::{Event, Message};

use crate::config::{
    ConfigError, FieldConfig, MqttConfig, Speaks, counter_step, interval_millis, unit_of_energy, unit_of_power,
};
use crate::mapping::{Field, Mapping, Overlay, Quantity};
use crate::outlet::{Outlet, Stop};
use crate::pointer::Pointer;
use crate::slot_mean::{Cadence, INTERVALS_HELD, Liveness};
use crate::units::Unit;
use broker::HomeBroker;
use preset::{Availability, Bridge, Preset};

#[derive(Debug)]
pub(crate) struct Mqtt {
    broker: HomeBroker,
    mapping: Mapping,
    availability: Option<Availability>,
    cadence: Cadence,
}

impl Mqtt {
    pub(crate) fn new(config: &MqttConfig) -> Result<Self, ConfigError> {
        let broker = HomeBroker::new(config)?;
        let Bridge { mut mapping, availability, liveness } = bridge(config)?;
        let complete = |field: FieldConfig, is_power: bool| match config.preset {
            Some(preset) => preset.complete(&device(config, preset), field, is_power),
            None => field,
        };
        for (key, quantity, fields) in [
            ("power", &mut mapping.power, &config.power),
            ("import", &mut mapping.import, &config.import),
            ("export", &mut mapping.export, &config.export),
        ] {
            if let Some(fields) = fields {
                let fields = fields.iter().cloned().map(|field| complete(field, key == "power"));
                *quantity = self::quantity(key, fields)?;
            }
        }
        mapping.import_only = config.import_only.unwrap_or(mapping.import_only);
        if mapping.topics().is_empty() {
            return Err(nothing_to_read(config.preset));
        }
        let availability = match &config.availability {
            Some(said) => Some(Availability {
                topic: filled("availability.topic", &said.topic)?,
                online: said.online.clone(),
                offline: said.offline.clone(),
            }),
            None => availability,
        };
        let liveness = liveness_of(config, liveness)?;
        if liveness == Liveness::OnChange && availability.is_none() {
            return Err(ConfigError::new(
                "availability",
                "is missing: of a bridge that speaks only on change, silence must be told from death by another topic",
            ));
        }
        let cadence = Cadence { liveness, counter_step: counter_step(config.counter_step_wh)? };
        Ok(Self { broker, mapping, availability, cadence })
    }

    pub(crate) const fn cadence(&self) -> Cadence {
        self.cadence
    }

    pub(crate) async fn session(&mut self, outlet: &mut Outlet) -> Stop {
        self.listen(outlet).await.err().unwrap_or(Stop::Closed)
    }

    /// Listens until something is wrong, which it always returns.
    async fn listen(&self, outlet: &mut Outlet) -> Result<(), Stop> {
        let mut connection = self.broker.client().start();
        let mut state = State::new(self);
        while let Some(event) = connection.next().await {
            match event {
                Event::Connected(session) => drop(session.subscribe(self.topics(), 0)),
                Event::Subscribed { .. } => outlet.connected().await?,
                Event::Refused { filter, .. } => {
                    let problem = format!("{}: it refuses `{filter}`; see the rights of this user", self.broker);
                    return Err(Stop::Lost(problem));
                }
                Event::Messages(messages) => {
                    for message in &messages {
                        state.take(self, message, outlet).await?;
                    }
                }
                // The source is connected again as a whole: what it said before is not to be believed.
                Event::Lost(trouble) => return Err(Stop::Lost(format!("{}: {trouble}", self.broker))),
            }
        }
        Ok(())
    }

    fn topics(&self) -> Vec<String> {
        let mut topics = self.mapping.topics();
        topics.extend(self.availability.iter().map(|availability| availability.topic.clone()));
        topics.dedup();
        topics
    }
}

/// What is known of a bridge on one connection.
struct State {
    overlay: Overlay,
    /// Whether the bridge has said that it is alive, or need not.
    is_online: bool,
    /// Whether the owner has been told that it did not.
    has_told: bool,
}

impl State {
    fn new(mqtt: &Mqtt) -> Self {
        let good_for = match mqtt.cadence.liveness {
            Liveness::Every { interval_millis } => Some(interval_millis.saturating_mul(INTERVALS_HELD)),
            Liveness::OnChange => None,
        };
        // A bridge that speaks by itself is alive when it does.
        let is_online = mqtt.cadence.liveness != Liveness::OnChange;
        Self { overlay: Overlay::new(mqtt.mapping.clone(), good_for), is_online, has_told: false }
    }

    async fn take(&mut self, mqtt: &Mqtt, message: &Message, outlet: &mut Outlet) -> Result<(), Stop> {
        let topic = String::from_utf8_lossy(&message.topic);
        let now = outlet.monotonic_millis();
        let said = mqtt.availability.as_ref().filter(|availability| availability.topic == *topic);
        let carried = match said.map(|availability| availability.read(&message.payload)) {
            Some(Some(false)) => {
                self.is_online = false;
                self.overlay.clear();
                return outlet.lost(format!("{topic} says that it is offline")).await;
            }
            Some(Some(true)) => !std::mem::replace(&mut self.is_online, true),
            Some(None) => false,
            // Of what a broker has kept nobody knows how old it is; a bridge that speaks only on change has not changed since.
            None if message.retained && mqtt.cadence.liveness != Liveness::OnChange => false,
            None => match self.overlay.take(&topic, &message.payload, now) {
                Ok(carried) => carried,
                Err(problem) => {
                    self.overlay.clear();
                    return outlet.lost(problem).await;
                }
            },
        };
        match (carried, self.is_online, &mqtt.availability) {
            (true, true, _) => outlet.sample(self.overlay.values(now)).await,
            (true, false, Some(availability)) if !std::mem::replace(&mut self.has_told, true) => {
                let topic = &availability.topic;
                outlet.lost(format!("{topic} has not said yet that it is alive; switch that on in the bridge")).await
            }
            (true | false, ..) => Ok(()),
        }
    }
}

impl Availability {
    /// Reads a word, or a JSON document with the word at `/state`.
    fn read(&self, message: &[u8]) -> Option<bool> {
        let text = String::from_utf8_lossy(message);
        let document: Option<serde_json::Value> = serde_json::from_slice(message).ok();
        let word =
            document.as_ref().and_then(|document| document.get("state")?.as_str()).unwrap_or_else(|| text.trim());
        if word.eq_ignore_ascii_case(&self.online) {
            Some(true)
        } else if word.eq_ignore_ascii_case(&self.offline) {
            Some(false)
        } else {
            None
        }
    }
}

fn device(config: &MqttConfig, preset: Preset) -> String {
    config.device.clone().unwrap_or_else(|| preset.default_device().unwrap_or_default().to_owned())
}

fn bridge(config: &MqttConfig) -> Result<Bridge, ConfigError> {
    let Some(preset) = config.preset else {
        if config.device.is_some() {
            return Err(ConfigError::new("device", "has no meaning without `preset`; leave it out, or name a preset"));
        }
        // Without a preset, `speaks` and the interval are the owner's to say.
        return Ok(Bridge { mapping: Mapping::default(), availability: None, liveness: Liveness::OnChange });
    };
    let device = device(config, preset);
    if device.is_empty()
        || device.contains(['#', '+', '/'])
            && !matches!(preset, Preset::Zigbee2mqtt | Preset::ShellyGen2 | Preset::Esphome)
    {
        let problem = format!(
            "must be the name that the device has in its topics, without `+`, `#` and `/`; the preset \"{}\" needs it",
            preset.name()
        );
        return Err(ConfigError::new("device", problem));
    }
    Ok(preset.bridge(&device))
}

/// When the bridge speaks: what the configuration says goes before what the preset says.
fn liveness_of(config: &MqttConfig, preset: Liveness) -> Result<Liveness, ConfigError> {
    let periodic = |seconds: u64| Ok(Liveness::Every { interval_millis: interval_millis(seconds)? });
    match (config.speaks, config.interval_seconds) {
        (Some(Speaks::OnChange), Some(_)) => {
            Err(ConfigError::new("interval_seconds", "has no meaning with `speaks = \"on-change\"`; leave one out"))
        }
        (Some(Speaks::OnChange), None) => Ok(Liveness::OnChange),
        (Some(Speaks::Periodic) | None, Some(seconds)) => periodic(seconds),
        (None, None) if config.preset.is_some() => Ok(preset),
        (Some(Speaks::Periodic) | None, None) => Err(ConfigError::new(
            "interval_seconds",
            "is missing: say how often the bridge speaks at least, or that it `speaks = \"on-change\"` and where it says that \
             it is alive (`availability`)",
        )),
    }
}

fn nothing_to_read(preset: Option<Preset>) -> ConfigError {
    let problem = match preset {
        Some(preset) if preset.needs_fields() => {
            format!("is missing: with \"{}\" you choose which sensor is what; give [[source.power]], [[source.import]] or [[source.export]]", preset.name())
        }
        Some(_) | None => "is missing: name a preset, or give [[source.power]] or [[source.import]] and [[source.export]] with topic and unit".to_owned(),
    };
    ConfigError::new("power", problem)
}

fn quantity(key: &str, fields: impl Iterator<Item = FieldConfig>) -> Result<Quantity, ConfigError> {
    let fields = fields.map(|field| {
        let pointer = field.pointer.as_deref().map(|text| pointer(&format!("{key}.pointer"), text)).transpose()?;
        let (topic, unit) = (filled(&format!("{key}.topic"), &field.topic)?, unit(key, field.unit)?);
        Ok(Field { topic, pointer, unit, sign: field.sign, direction: None })
    });
    let way: Vec<Field> = fields.collect::<Result<_, ConfigError>>()?;
    Ok(if way.is_empty() { Vec::new() } else { vec![way] })
}

/// Checks the unit of `power`, `import` or `export`.
pub(crate) fn unit(key: &str, unit: Option<Unit>) -> Result<Unit, ConfigError> {
    let name = format!("{key}.unit");
    match (unit, key) {
        (Some(unit), "power") => unit_of_power(&name, unit),
        (Some(unit), _) => unit_of_energy(&name, unit),
        (None, "power") => Err(ConfigError::new(name, "is missing: say \"W\" or \"kW\"")),
        (None, _) => Err(ConfigError::new(name, "is missing: say \"Wh\", \"kWh\", \"MWh\" or \"W*min\"")),
    }
}

pub(crate) fn pointer(key: &str, text: &str) -> Result<Pointer, ConfigError> {
    Pointer::parse(text).ok_or_else(|| {
        ConfigError::new(key, format!("is {text:?}; a JSON pointer begins with `/`, such as \"/ENERGY/Power\""))
    })
}

fn filled(key: &str, topic: &str) -> Result<String, ConfigError> {
    if topic.is_empty() || topic.contains(['#', '+', '\0']) {
        return Err(ConfigError::new(key, format!("is {topic:?}; it must be one whole topic, without wildcards")));
    }
    Ok(topic.to_owned())
}
