//! `dream-meter probe`: listens to a meter, recognises what it speaks, and shows on this terminal what it says. Sends nothing.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use dream_edge::mqtt::{self, BrokerUrl, Connection, Names};
use dream_sources::{Event, Port, Proposal, Sample, SlotMean, Source, SystemClock, recognise_message};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::BadInput;
use crate::broker::{Access, HOME};
use crate::config::{Broker, ConfigError, edit};
use crate::files::{self, FileError};

/// How long to wait for a sample: some meters speak every ten seconds, and telegrams may be broken.
const PATIENCE: Duration = Duration::from_secs(45);

/// How long to listen for other bridges once one is recognised.
const OTHERS: Duration = Duration::from_secs(5);

/// How long to listen for bridges on a broker: Tasmota publishes every five minutes by default.
const LONG_PATIENCE: Duration = Duration::from_secs(310);

/// Listen to your meter, detect what it speaks and show its readings; sends nothing
///
/// Readings appear on this terminal and go nowhere else. With --write, the detected source is added to a configuration.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("place").required(true).args(["serial", "tcp", "mqtt", "http", "modbus", "lines", "source"]))]
#[command(after_help = "Examples:
  dream-meter probe --serial /dev/ttyUSB0
  dream-meter probe --tcp p1-bridge.lan:23 --write meter.toml
  dream-meter probe --mqtt mqtt://homeassistant.lan --username me --password-file password
  dream-meter probe --source 'kind = \"lines\"
interval_seconds = 10' < my-readings")]
pub(super) struct ProbeArgs {
    #[command(flatten)]
    pub(super) at: Place,
    /// The device, topic or sensor to read if the broker has several
    #[arg(long, value_name = "NAME", requires = "mqtt")]
    pub(super) device: Option<String>,
    /// The user name for the home's broker
    #[arg(long, value_name = "NAME", requires = "mqtt")]
    pub(super) username: Option<String>,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE", requires = "username")]
    pub(super) password_file: Option<PathBuf>,
    /// Add the detected source to this configuration
    #[arg(long, value_name = "FILE")]
    pub(super) write: Option<PathBuf>,
    /// How many samples to wait for
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=1000))]
    pub(super) samples: u64,
}

/// Where the meter is.
#[derive(Debug, Clone, Default, Args)]
#[group(multiple = false)]
pub(super) struct Place {
    /// A serial port: the cable to a P1 port, or an optical head
    #[arg(long, value_name = "DEVICE")]
    serial: Option<PathBuf>,
    /// A network bridge that forwards the meter's data
    #[arg(long, value_name = "HOST:PORT")]
    tcp: Option<String>,
    /// The home's broker, for a bridge that publishes there: `mqtt://HOST[:1883]`
    #[arg(long, value_name = "URL")]
    mqtt: Option<String>,
    /// A device on the local network that answers with JSON, such as HomeWizard's
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// A meter that speaks Modbus over TCP
    #[arg(long, value_name = "HOST:PORT")]
    modbus: Option<String>,
    /// A file that grows by one sample per line
    #[arg(long, value_name = "FILE")]
    lines: Option<PathBuf>,
    /// A source in TOML, as in the section `[source]` of a configuration
    #[arg(long, value_name = "TOML")]
    source: Option<String>,
}

impl Place {
    pub(super) fn of_cable(device: &Path) -> Self {
        Self { serial: Some(device.to_owned()), ..Self::default() }
    }

    /// Whether it says anything.
    pub(super) fn is_named(&self) -> bool {
        self.port().is_some() || self.mqtt.is_some() || !self.candidates().is_empty()
    }

    /// Returns the port to listen to, if the meter sends by itself.
    fn port(&self) -> Option<Port> {
        let serial = self.serial.clone().map(Port::Serial);
        serial.or_else(|| self.tcp.clone().map(Port::Tcp))
    }

    /// Returns the ways to read a meter there, the likeliest first, each as `[source]` has it.
    fn candidates(&self) -> Vec<String> {
        let at = |kind: &str, key: &str, value: &str| format!("kind = \"{kind}\"\n{key} = {}\n", quoted(value));
        if let Some(url) = &self.http {
            return vec![at("http", "url", url) + "preset = \"homewizard\"\n"];
        }
        if let Some(address) = &self.modbus {
            let preset = |name: &str| at("modbus", "tcp", address) + &format!("preset = \"{name}\"\n");
            // One that answers as SunSpec is; an Eastron answers as any of them.
            return ["sunspec", "eastron-sdm630", "eastron-sdm120"].map(preset).to_vec();
        }
        if let Some(file) = &self.lines {
            return vec![at("lines", "path", &file.display().to_string()) + "interval_seconds = 10\n"];
        }
        let own = self.source.iter().map(|text| format!("{}\n", text.trim_end()));
        own.collect()
    }
}

/// Reads a source as `[source]` has it.
fn source(text: &str) -> Result<Source, ConfigError> {
    Source::parse("[source]", text)
}

/// Returns the kind and the preset of a source.
fn kind(text: &str) -> String {
    let keys = text.lines().filter_map(|line| line.split_once(" = "));
    let names = keys.filter(|(key, _)| ["kind", "preset"].contains(key)).map(|(_, name)| name.trim_matches('"'));
    names.collect::<Vec<_>>().join(" ")
}

/// What the settings of the broker that is probed are called.
const PROBED: Names = Names { url: "--mqtt", login: "--username, --password-file", ..HOME };

/// Listens until bridges are recognised, and a little longer for others beside them.
async fn gather_proposals(mut connection: Connection, device: Option<&str>) -> anyhow::Result<Vec<Proposal>> {
    let mut found: Vec<Proposal> = Vec::new();
    let mut session = None;
    let mut until = Instant::now() + LONG_PATIENCE;
    while let Ok(Some(event)) = timeout_at(until, connection.next()).await {
        match event {
            mqtt::Event::Connected(connected) => {
                connected.subscribe(vec!["#".to_owned()], 0);
                session = Some(connected);
            }
            mqtt::Event::Messages(messages) => {
                for message in messages {
                    if let Some(session) = &session {
                        session.acknowledge(message.receipt);
                    }
                    let topic = String::from_utf8_lossy(&message.topic);
                    let Some(proposal) = recognise_message(&topic, &message.payload) else { continue };
                    let wanted = device.is_none_or(|device| proposal.names.iter().any(|name| name == device));
                    // Several topics of one device lead to one source.
                    if wanted && found.iter().all(|known| known.config != proposal.config) {
                        until = until.min(Instant::now() + OTHERS);
                        found.push(proposal);
                    }
                }
            }
            mqtt::Event::Lost(trouble) => anyhow::bail!("the home's broker cannot be reached: {trouble}"),
            mqtt::Event::Refused { .. } => anyhow::bail!("the home's broker does not let this user read everything"),
            mqtt::Event::Subscribed { .. } => {}
        }
    }
    anyhow::ensure!(
        !found.is_empty(),
        "recognised no meter on the home's broker; docs/meter-sources.md lists every source"
    );
    Ok(found)
}

/// Names the options that choose among sources: by device, or by topic where one device has several.
fn choices(found: &[Proposal]) -> String {
    let is_alone = |name: &String| found.iter().filter(|other| other.names.contains(name)).count() == 1;
    let choice = |proposal: &Proposal| {
        let name = proposal.names.iter().find(|name| is_alone(name)).or_else(|| proposal.names.first());
        format!("\n  --device {}   {}", quoted(name.map_or("", String::as_str)), proposal.what)
    };
    found.iter().map(choice).collect()
}

/// Listens to a port until a meter is recognised; returns it as `[source]` has it.
async fn recognise_port(port: &Port, out: &mut impl Write) -> anyhow::Result<String> {
    let mut written = Ok(());
    let tell = |speed: &str| {
        if written.is_ok() {
            written = writeln!(out, "Listening at {speed} ...").and_then(|()| out.flush());
        }
    };
    let found = port.sniff(tell).await;
    written?;
    let proposal = found.map_err(anyhow::Error::msg)?;
    writeln!(out, "This is {}.", proposal.what)?;
    Ok(with_reached(&proposal.config, &port.setting()))
}

/// Puts how a source is reached behind its kind, which comes first in every configuration.
fn with_reached(config: &str, reached: &str) -> String {
    let (first, rest) = config.split_once('\n').unwrap_or((config, ""));
    format!("{first}\n{reached}{rest}")
}

/// Writes a string as TOML does.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl ProbeArgs {
    pub(super) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        super::runtime()?.block_on(self.probe(out))
    }

    async fn probe(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let texts = match (&self.at.mqtt, self.at.port()) {
            (Some(url), _) => vec![self.recognise_bridge(url, out).await?],
            (None, Some(port)) => vec![recognise_port(&port, out).await?],
            (None, None) => self.at.candidates(),
        };
        let mut troubles = String::new();
        for text in texts {
            let source = source(&text)?;
            writeln!(out, "Listening for {} ...", kind(&text))?;
            out.flush()?;
            match self.listen(source, out).await? {
                Ok(()) => return self.write(&text, out),
                Err(why) => troubles += &format!("\n  {}: {why}", kind(&text)),
            }
        }
        anyhow::bail!("nothing was recognised:{troubles}")
    }

    /// Listens to everything on the home's broker until a bridge is recognised by what it says; returns it as `[source]` has it.
    async fn recognise_bridge(&self, url: &str, out: &mut impl Write) -> anyhow::Result<String> {
        let login = self.username.clone().map(|name| (name, self.password_file.clone()));
        let Some(broker) = BrokerUrl::parse(url).filter(|url| !url.tls) else {
            return Err(
                BadInput("--mqtt: use mqtt://HOST[:1883]; for TLS, write the source with --source".to_owned()).into()
            );
        };
        let access = Access::new(&Broker { names: PROBED, urls: vec![broker], ca: None, login }, None)?;
        let connection = access.connect("dream-meter-probe".to_owned(), None);
        writeln!(out, "Listening to everything on {url} ...")?;
        out.flush()?;
        let found = gather_proposals(connection, self.device.as_deref()).await?;
        let mut reached = format!("broker = {}\n", quoted(url));
        if let Some(name) = &self.username {
            reached += &format!("username = {}\n", quoted(name));
        }
        if let Some(file) = &self.password_file {
            reached += &format!("password_file = {}\n", quoted(&file.display().to_string()));
        }
        let [one] = &found[..] else {
            return Err(BadInput(format!("found several devices; choose one of them:{}", choices(&found))).into());
        };
        writeln!(out, "This is {}.", one.what)?;
        Ok(with_reached(&one.config, &reached))
    }

    /// Shows the samples of a source; returns why there were none, if so.
    async fn listen(&self, source: Source, out: &mut impl Write) -> anyhow::Result<Result<(), String>> {
        let mut mean = SlotMean::new(source.cadence());
        let (sender, mut events) = mpsc::channel(16);
        let running = tokio::spawn(source.run(Arc::new(SystemClock), sender));
        let patience = if self.at.mqtt.is_some() { LONG_PATIENCE } else { PATIENCE };
        let mut until = Instant::now() + patience;
        let mut seen: Vec<Sample> = Vec::new();
        let mut is_connected = false;
        let mut why = format!("no sample came in {} seconds", patience.as_secs());
        while (seen.len() as u64) < self.samples {
            let Ok(Some(event)) = timeout_at(until, events.recv()).await else { break };
            mean.push(&event);
            match event {
                Event::Sample(sample) => {
                    if seen.is_empty() {
                        writeln!(out, "Recognised. What follows is shown here and sent nowhere.")?;
                    }
                    writeln!(out, "  {}", shown(&sample))?;
                    seen.push(sample);
                    until = Instant::now() + patience;
                }
                // What cannot be opened is not there, and a device that is asked has other ways to be asked.
                Event::Lost { why: lost, .. } if seen.is_empty() && (!is_connected || self.at.modbus.is_some()) => {
                    why = lost;
                    break;
                }
                Event::Refused { why: refused, .. } => {
                    why = refused;
                    break;
                }
                Event::Lost { why: trouble, .. } | Event::Garbled { why: trouble, .. } => {
                    writeln!(out, "  not read: {trouble}")?;
                    why = trouble;
                }
                Event::Connected { .. } => is_connected = true,
                Event::ClockStepped { .. } => {}
            }
            out.flush()?;
        }
        running.abort();
        let [first, .., last] = seen.as_slice() else { return Ok(Err(why)) };
        let seconds = last.at.millis_since(first.at) / 1000;
        match mean.mean(first.at, last.at) {
            Ok(watts) => writeln!(
                out,
                "Over these {seconds} s the mean is {watts} W: a slot would report this, blurred and masked."
            )?,
            Err(why) => writeln!(out, "Over these {seconds} s there is no reading: {why}.")?,
        }
        Ok(Ok(()))
    }

    fn write(&self, source: &str, out: &mut impl Write) -> anyhow::Result<()> {
        let section = format!("[source]\n{source}");
        let Some(path) = &self.write else {
            writeln!(out, "For your configuration (--write FILE adds it):\n\n{section}")?;
            return Ok(());
        };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(FileError::Read { path: path.clone(), error }.into()),
        };
        let text = edit::add(&text, &section)
            .map_err(|error| BadInput(error.to_string()))
            .context(path.display().to_string())?;
        files::replace(path, text.as_bytes())?;
        writeln!(out, "Added the source to {}.", path.display())?;
        Ok(())
    }
}

/// Writes a sample for the owner's eyes.
fn shown(sample: &Sample) -> String {
    let power = sample.power.map(|milliwatts| format!("{} W", decimal(milliwatts, 1)));
    let energy =
        |name: &str, counter: Option<i64>| counter.map(|milli| format!("{name} {} kWh", decimal(milli / 1000, 3)));
    let parts = [power, energy("import", sample.import), energy("export", sample.export)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Writes thousandths as a decimal with so many places.
fn decimal(thousandths: i64, places: usize) -> String {
    let sign = if thousandths < 0 { "-" } else { "" };
    let (whole, rest) = (thousandths.unsigned_abs() / 1000, thousandths.unsigned_abs() % 1000);
    let rest = format!("{rest:03}");
    format!("{sign}{whole}.{}", &rest[..places])
}

#[cfg(test)]
mod tests {
    use dream_protocol::time::Timestamp;
    use dream_sources::Values;

    use super::*;

    #[test]
    fn a_sample_is_shown_in_the_units_of_a_meter() {
        let values =
            Values { import: Some(7_881_115_000), export: Some(0), power: Some(-412_090), ..Values::default() };
        let sample = values.at(Timestamp::from_secs(0));
        assert_eq!(shown(&sample), "-412.0 W, import 7881.115 kWh, export 0.000 kWh");
    }

    #[test]
    fn every_place_gives_sources_that_can_be_parsed() {
        let none = Place::default;
        let places = [
            (Place { serial: Some("/dev/ttyUSB0".into()), ..none() }, 0),
            (Place { tcp: Some("bridge:23".into()), ..none() }, 0),
            (Place { http: Some("http://p1.lan".into()), ..none() }, 1),
            (Place { modbus: Some("rail:502".into()), ..none() }, 3),
            (Place { lines: Some("a \"b\"".into()), ..none() }, 1),
            (none(), 0),
        ];
        for (place, expected) in places {
            let candidates = place.candidates();
            assert_eq!(candidates.len(), expected, "{place:?}");
            candidates.iter().for_each(|text| drop(source(text).unwrap()));
        }
    }
}
