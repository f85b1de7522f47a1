//! `mqtt`: bridges that publish on the home's own broker.
//!
//! This connection is never the one to the community's broker, not even on the same host: what is read here is clear.

mod broker;
pub mod preset;

use dream_edge::config::Section;
use dream_edge::mqtt::{Event, Message};

use crate::config::{
    check_directions, counter_step, interval_millis, nothing_to_read, replace, required_unit, sign, unit,
};
use crate::mapping::{Field, Mapping, Overlay, Trouble};
use crate::outlet::{Outlet, Stop};
use crate::pointer::Pointer;
use crate::slot_mean::{Cadence, INTERVALS_HELD, Liveness};
use broker::HomeBroker;
use preset::{Availability, Bridge, Named, Preset};

#[derive(Debug, Clone)]
pub(crate) struct Mqtt {
    broker: HomeBroker,
    mapping: Mapping,
    availability: Option<Availability>,
    cadence: Cadence,
}

impl Mqtt {
    pub(crate) fn read(section: &Section<'_>) -> Option<Self> {
        let broker = HomeBroker::read(section);
        let preset = section.key("preset").one_of(&Preset::ALL.map(|preset| (preset.name(), preset)));
        let device = device(section, preset);
        let bridge = preset.map(|preset| preset.bridge(&device));
        // Without a preset, `speaks` and the interval are the owner's to say.
        let nothing = || Bridge { mapping: Mapping::default(), availability: None, liveness: Liveness::OnChange };
        let Bridge { mut mapping, availability, liveness } = bridge.unwrap_or_else(nothing);
        let is_any = replace(section, &mut mapping, |item, is_power| field(item, is_power, preset, &device));
        let import_only = section.key("import_only").flag();
        mapping.import_only = import_only.unwrap_or(mapping.import_only);
        if mapping.named.is_none() {
            let [power, import, export] =
                [&mapping.power, &mapping.import, &mapping.export].map(|quantity| !quantity.is_empty());
            check_directions(section, power, import, export, mapping.import_only);
        }
        match preset {
            Some(preset) if preset.needs_fields() && !is_any => section.wrong(
                "preset",
                format!(
                    "with {:?} you choose the sensors; add [[source.power]], [[source.import]] or [[source.export]]",
                    preset.name()
                ),
            ),
            None if !is_any && !section.has("preset") => nothing_to_read(section, "topic and unit"),
            Some(_) | None => {}
        }
        let availability = match section.optional("availability") {
            Some(said) => self::availability(&said),
            None => availability,
        };
        let liveness = liveness_of(section, liveness);
        let is_known = preset.is_some() || !section.has("preset");
        if liveness == Some(Liveness::OnChange) && availability.is_none() && is_known {
            let problem = "name the topic on which a bridge that publishes only on change reports online";
            section.missing("availability", problem);
        }
        let counter_step = counter_step(section);
        Some(Self { broker: broker?, mapping, availability, cadence: Cadence { liveness: liveness?, counter_step } })
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
                    let problem =
                        format!("{}: the broker refuses `{filter}`; check this user's permissions", self.broker);
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
                return outlet.lost(format!("{topic} reports offline")).await;
            }
            Some(Some(true)) => !std::mem::replace(&mut self.is_online, true),
            Some(None) => false,
            // Of what a broker has kept nobody knows how old it is; a bridge that speaks only on change has not changed since.
            None if message.retained && mqtt.cadence.liveness != Liveness::OnChange => false,
            None => match self.overlay.take(&topic, &message.payload, now) {
                Ok(carried) => carried,
                Err(Trouble::Lost(problem)) => {
                    self.overlay.clear();
                    return outlet.lost(problem).await;
                }
                Err(Trouble::Refused(problem)) => {
                    self.overlay.clear();
                    return outlet.refused(problem).await;
                }
            },
        };
        match (carried, self.is_online, &mqtt.availability) {
            (true, true, _) => outlet.sample(self.overlay.values(now)).await,
            (true, false, Some(availability)) if !std::mem::replace(&mut self.has_told, true) => {
                let topic = &availability.topic;
                outlet.lost(format!("{topic} has not reported online yet; enable that in the bridge")).await
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

/// Reads the name of the device in its topics.
fn device(section: &Section<'_>, preset: Option<Preset>) -> String {
    let written = section.key("device").text();
    let Some(preset) = preset else {
        if written.is_some() && !section.has("preset") {
            section.wrong("device", "has no meaning without `preset`; leave it out, or name a preset");
        }
        return String::new();
    };
    let device = written.unwrap_or_else(|| preset.default_device().unwrap_or_default().to_owned());
    let has_levels = matches!(preset, Preset::Zigbee2mqtt | Preset::ShellyGen2 | Preset::Esphome | Preset::Amsleser);
    if device.is_empty() || device.contains(['#', '+', '/']) && !has_levels {
        let name = preset.name();
        section.wrong(
            "device",
            format!("the preset {name:?} needs the device's name in its topics, without `+`, `#` and `/`"),
        );
    }
    device
}

fn availability(section: &Section<'_>) -> Option<Availability> {
    let topic = section.key("topic").required("\"bridge/online\"").parsed(whole_topic);
    let word = |key, usual: &str| section.key(key).text().unwrap_or_else(|| usual.to_owned());
    let (online, offline) = (word("online", "online"), word("offline", "offline"));
    Some(Availability { topic: topic?, online, offline })
}

/// When the bridge speaks: what the configuration says goes before what the preset says.
fn liveness_of(section: &Section<'_>, of_preset: Liveness) -> Option<Liveness> {
    let is_on_change = section.key("speaks").one_of(&[("periodic", false), ("on-change", true)]);
    match (is_on_change, interval_millis(section)) {
        (Some(true), Some(_)) => {
            section.wrong("interval_seconds", "has no meaning with `speaks = \"on-change\"`; leave one of them out");
            None
        }
        (Some(true), None) => Some(Liveness::OnChange),
        (Some(false) | None, Some(interval_millis)) => Some(Liveness::Every { interval_millis }),
        (None, None) if section.has("preset") => Some(of_preset),
        (Some(false) | None, None) => {
            let problem = "say how often the bridge publishes at least, or set speaks = \"on-change\" and the topic on which it \
                               reports online (`availability`)";
            section.missing("interval_seconds", problem);
            None
        }
    }
}

/// Reads where a number is published; a preset completes it.
fn field(section: &Section<'_>, is_power: bool, preset: Option<Preset>, device: &str) -> Option<Field> {
    let named = Named {
        topic: section.key("topic").text().unwrap_or_default(),
        pointer: section.key("pointer").parsed(Pointer::read),
        unit: unit(section, "unit", is_power),
    };
    let named = match preset {
        Some(preset) => preset.complete(device, named, is_power),
        None => named,
    };
    let topic = whole_topic(&named.topic);
    if let Err(problem) = topic {
        section.wrong("topic", format!("{:?}: {problem}", named.topic));
    }
    let (unit, sign) = (required_unit(section, named.unit, is_power), sign(section, "sign"));
    Some(Field { topic: topic.ok()?, pointer: named.pointer, unit: unit?, sign })
}

fn whole_topic(topic: &str) -> Result<String, &'static str> {
    let is_whole = !topic.is_empty() && !topic.contains(['#', '+', '\0']);
    is_whole.then(|| topic.to_owned()).ok_or("not one whole topic, without wildcards")
}
