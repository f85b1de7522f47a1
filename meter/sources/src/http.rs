//! `http`: devices on the local network that are asked for a JSON document.
//!
//! Without TLS: these devices have no certificate that anybody could check.

use std::time::Duration;

use dream_edge::http::{self, Limits};
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{ConfigError, HttpConfig, HttpFieldConfig, HttpPreset, counter_step, interval_millis};
use crate::link::host_and_port;
use crate::mapping::{Field, Mapping, Overlay, Quantity};
use crate::mqtt::{pointer, unit};
use crate::outlet::{Outlet, Stop};
use crate::pointer::Pointer;
use crate::slot_mean::{Cadence, Liveness};
use crate::units::{Sign, Unit};

/// How long an answer may take; documents of devices are small.
const LIMITS: Limits = Limits { patience: Duration::from_secs(10), body_bytes: 256 << 10 };

#[derive(Debug)]
pub(crate) struct Http {
    /// `HOST:PORT`
    address: String,
    url: String,
    mapping: Mapping,
    cadence: Cadence,
    every: Duration,
}

impl Http {
    pub(crate) fn new(config: HttpConfig) -> Result<Self, ConfigError> {
        let (host, path) = split(&config.url, config.preset)?;
        let address = if has_port(&host) { host.clone() } else { format!("{host}:80") };
        let address = host_and_port("url", address)?;
        let mut mapping = config.preset.map(mapping_of).unwrap_or_default();
        for (key, place, fields) in [
            ("power", &mut mapping.power, config.power),
            ("import", &mut mapping.import, config.import),
            ("export", &mut mapping.export, config.export),
        ] {
            if let Some(fields) = fields {
                *place = quantity(key, fields)?;
            }
        }
        mapping.import_only = config.import_only.unwrap_or(mapping.import_only);
        if mapping.topics().is_empty() {
            let problem = "is missing: name a preset (\"homewizard\"), or give [[source.power]] or [[source.import]] and [[source.export]] with pointer and unit";
            return Err(ConfigError::new("power", problem));
        }
        let interval_millis = interval_millis(config.interval_seconds)?;
        let cadence = Cadence {
            liveness: Liveness::Every { interval_millis },
            counter_step: counter_step(config.counter_step_wh)?,
        };
        let url = format!("http://{address}{path}");
        Ok(Self { address, url, mapping, cadence, every: Duration::from_millis(interval_millis) })
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
            let carried =
                overlay.take("", &document, 0).map_err(|problem| Stop::Lost(format!("the answer: {problem}")))?;
            if !carried {
                return Err(Stop::Lost("the answer has none of the values that are looked for".to_owned()));
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
            Ok((status, _)) => Err(format!("{}: the answer has the status {status} and not 200", self.address)),
            Err(problem) => Err(format!("{}: {problem}", self.address)),
        }
    }
}

/// Splits a URL into host and path. A preset knows the path.
fn split(url: &str, preset: Option<HttpPreset>) -> Result<(String, String), ConfigError> {
    let problem = || {
        ConfigError::new(
            "url",
            "must be \"http://HOST[:PORT]/PATH\", without a login; https is not supported on a local network without names",
        )
    };
    let rest = url.strip_prefix("http://").ok_or_else(problem)?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let printable = url.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || host.contains('@') || !printable {
        return Err(problem());
    }
    let path = match (path, preset) {
        ("" | "/", Some(HttpPreset::Homewizard)) => "/api/v1/data",
        ("", None) => "/",
        (path, _) => path,
    };
    Ok((host.to_owned(), path.to_owned()))
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'))
}

fn mapping_of(preset: HttpPreset) -> Mapping {
    match preset {
        HttpPreset::Homewizard => {
            let counter = |direction: &str| {
                let tariff = |n: u8| field(&format!("/total_power_{direction}_t{n}_kwh"), Unit::KiloWh);
                // Belgian meters and older firmware have no total.
                vec![vec![field(&format!("/total_power_{direction}_kwh"), Unit::KiloWh)], vec![tariff(1), tariff(2)]]
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
    Field { topic: String::new(), pointer: Pointer::parse(text), unit, sign: Sign::Import, direction: None }
}

fn quantity(key: &str, fields: Vec<HttpFieldConfig>) -> Result<Quantity, ConfigError> {
    let fields = fields.into_iter().map(|config| {
        let pointer = pointer(&format!("{key}.pointer"), &config.pointer)?;
        Ok(Field { pointer: Some(pointer), sign: config.sign, ..field("/", unit(key, config.unit)?) })
    });
    let way: Vec<Field> = fields.collect::<Result<_, ConfigError>>()?;
    Ok(if way.is_empty() { Vec::new() } else { vec![way] })
}
