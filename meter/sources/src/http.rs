//! `http`: devices on the local network that are asked for a JSON document.
//!
//! Without TLS: these devices have no certificate that anybody could check.

use std::time::Duration;

use dream_edge::config::Section;
use dream_edge::http::{self, Limits};
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{cadence, check_directions, nothing_to_read, replace, required_unit, sign, unit};
use crate::link::host_and_port;
use crate::mapping::{Field, Mapping, Overlay, Trouble};
use crate::outlet::{Outlet, Stop};
use crate::pointer::Pointer;
use crate::slot_mean::Cadence;
use crate::units::{Sign, Unit};

/// How long an answer may take; documents of devices are small.
const LIMITS: Limits = Limits { patience: Duration::from_secs(10), body_bytes: 256 << 10 };

/// A device that is known by name.
#[derive(Debug, Clone, Copy)]
enum Preset {
    Homewizard,
}

#[derive(Debug, Clone)]
pub(crate) struct Http {
    /// `HOST:PORT`
    address: String,
    url: String,
    mapping: Mapping,
    cadence: Cadence,
    every: Duration,
}

impl Http {
    pub(crate) fn read(section: &Section<'_>) -> Option<Self> {
        let preset = section.key("preset").one_of(&[("homewizard", Preset::Homewizard)]);
        let reached = section.key("url").required("\"http://192.168.1.30\"").parsed(|url| reached(url, preset));
        let mut mapping = preset.map(mapping_of).unwrap_or_default();
        let is_any = replace(section, &mut mapping, field_of);
        let import_only = section.key("import_only").flag();
        mapping.import_only = import_only.unwrap_or(mapping.import_only);
        let [power, import, export] =
            [&mapping.power, &mapping.import, &mapping.export].map(|quantity| !quantity.is_empty());
        check_directions(section, power, import, export, mapping.import_only);
        if mapping.topics().is_empty() && !is_any && !section.has("preset") {
            nothing_to_read(section, "pointer and unit");
        }
        let (cadence, interval_millis) = cadence(section);
        let (address, path) = reached?;
        let url = format!("http://{address}{path}");
        Some(Self { address, url, mapping, cadence, every: Duration::from_millis(interval_millis) })
    }

    pub(crate) const fn cadence(&self) -> Cadence {
        self.cadence
    }

    pub(crate) async fn session(&mut self, outlet: &mut Outlet) -> Stop {
        self.ask_again_and_again(outlet).await.err().unwrap_or(Stop::Closed)
    }

    /// Asks until something is wrong, which it always returns.
    async fn ask_again_and_again(&self, outlet: &mut Outlet) -> Result<(), Stop> {
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_first = true;
        loop {
            ticks.tick().await;
            let document = self.ask().await.map_err(Stop::Lost)?;
            if std::mem::take(&mut is_first) {
                outlet.connected().await?;
            }
            let mut overlay = Overlay::new(self.mapping.clone(), None);
            let carried = match overlay.take("", &document, 0) {
                Ok(carried) => carried,
                Err(Trouble::Lost(problem)) => return Err(Stop::Lost(format!("the answer: {problem}"))),
                Err(Trouble::Refused(problem)) => {
                    outlet.refused(format!("the answer: {problem}")).await?;
                    continue;
                }
            };
            if !carried {
                return Err(Stop::Lost("the answer has none of the configured values".to_owned()));
            }
            outlet.sample(overlay.values(0)).await?;
        }
    }

    async fn ask(&self) -> Result<Vec<u8>, String> {
        let url = self.url.clone();
        let answer =
            tokio::task::spawn_blocking(move || http::get(&url, LIMITS)).await.map_err(|error| error.to_string())?;
        match answer {
            Ok((200, document)) => Ok(document),
            Ok((status, _)) => Err(format!("{}: the answer has the status {status}, not 200", self.address)),
            Err(problem) => Err(format!("{}: {problem}", self.address)),
        }
    }
}

/// Splits a URL into an address, the host as it is written and a path, which a preset knows.
fn reached(url: &str, preset: Option<Preset>) -> Result<(String, String), &'static str> {
    const PROBLEM: &str =
        "not an address; use http://HOST[:PORT]/PATH, without a login (https needs a name and a certificate)";
    let rest = url.strip_prefix("http://").ok_or(PROBLEM)?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let printable = url.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || host.contains('@') || !printable {
        return Err(PROBLEM);
    }
    let path = match (path, preset) {
        ("" | "/", Some(Preset::Homewizard)) => "/api/v1/data",
        ("", None) => "/",
        (path, _) => path,
    };
    let address = if has_port(host) { host.to_owned() } else { format!("{host}:80") };
    Ok((host_and_port(&address)?, path.to_owned()))
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'))
}

fn mapping_of(preset: Preset) -> Mapping {
    match preset {
        Preset::Homewizard => {
            let counter = |direction: &str| {
                let tariff = |n: u8| field(&format!("/total_power_{direction}_t{n}_kwh"), Unit::KiloWh);
                // Belgian meters and older firmware have no total, and a meter has up to four tariffs.
                let total = vec![field(&format!("/total_power_{direction}_kwh"), Unit::KiloWh)];
                std::iter::once(total).chain((1..=4).rev().map(|tariffs| (1..=tariffs).map(tariff).collect())).collect()
            };
            Mapping {
                power: vec![vec![field("/active_power_w", Unit::W)]],
                import: counter("import"),
                export: counter("export"),
                ..Mapping::default()
            }
        }
    }
}

fn field(text: &str, unit: Unit) -> Field {
    Field { topic: String::new(), pointer: Pointer::parse(text), unit, sign: Sign::Import }
}

fn field_of(section: &Section<'_>, is_power: bool) -> Option<Field> {
    let pointer = section.key("pointer").required("\"/active_power_w\"").parsed(Pointer::read);
    let unit = required_unit(section, unit(section, "unit", is_power), is_power);
    let sign = sign(section, "sign");
    Some(Field { pointer: Some(pointer?), sign, ..field("/", unit?) })
}
