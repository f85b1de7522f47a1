//! `dream-meter probe`: listens to a meter, recognises what it speaks, and shows on this terminal what it says. Sends nothing.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dream_sources::mqtt::preset::Preset;
use dream_sources::{Event, Sample, SlotMean, Source, SourceConfig, SystemClock};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::BadInput;
use crate::config::edit;
use crate::files::{self, FileError};

/// How long one way to read a meter is tried: some speak every ten seconds, and a serial line has two speeds.
const PATIENCE: Duration = Duration::from_secs(25);

/// How long bridges on a broker are listened to: Tasmota speaks every five minutes unless it is told otherwise.
const LONG_PATIENCE: Duration = Duration::from_secs(310);

/// Listen to your meter, recognise what it speaks and show it; sends nothing
///
/// Readings are shown on this terminal and go nowhere else. With --write, what was recognised is added to a configuration.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-meter probe --serial /dev/ttyUSB0
  dream-meter probe --tcp p1-bridge.lan:23 --write meter.toml
  dream-meter probe --source 'kind = \"lines\"
interval_seconds = 10' < my-readings")]
pub(super) struct ProbeArgs {
    #[command(flatten)]
    at: Place,
    /// The name of the device in its topics, for --mqtt
    #[arg(long, value_name = "NAME", requires = "mqtt")]
    device: Option<String>,
    /// Add what was recognised to this configuration
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// How many samples to wait for
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=1000))]
    samples: u64,
}

/// Where the meter is.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Place {
    /// A serial port: the cable to a P1 port, or an optical head
    #[arg(long, value_name = "DEVICE")]
    serial: Option<PathBuf>,
    /// A bridge that passes on what a meter says
    #[arg(long, value_name = "HOST:PORT")]
    tcp: Option<String>,
    /// The home's broker, for a bridge that publishes there: `mqtt://HOST[:1883]`, with --device
    #[arg(long, value_name = "URL")]
    mqtt: Option<String>,
    /// A device on the local network that answers with JSON, such as HomeWizard's
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// A meter that speaks Modbus over TCP
    #[arg(long, value_name = "HOST:PORT")]
    modbus: Option<String>,
    /// A file that a sample a line is added to
    #[arg(long, value_name = "FILE")]
    lines: Option<PathBuf>,
    /// A source as `[source]` of a configuration has it, in TOML
    #[arg(long, value_name = "TOML")]
    source: Option<String>,
}

impl Place {
    /// Returns the ways to read a meter there, the likeliest first, each as `[source]` has it.
    fn candidates(&self, device: Option<&str>) -> Vec<String> {
        let at = |kind: &str, key: &str, value: &str| format!("kind = \"{kind}\"\n{key} = {}\n", quoted(value));
        if let Some(device) = &self.serial {
            let device = device.display().to_string();
            return ["p1", "sml"].map(|kind| at(kind, "serial", &device)).to_vec();
        }
        if let Some(address) = &self.tcp {
            return ["p1", "sml"].map(|kind| at(kind, "tcp", address)).to_vec();
        }
        if let Some(url) = &self.http {
            return vec![at("http", "url", url) + "preset = \"homewizard\"\n"];
        }
        if let Some(address) = &self.modbus {
            let preset = |name: &str| at("modbus", "tcp", address) + &format!("preset = \"{name}\"\n");
            // One that answers as SunSpec is; an Eastron answers as any of them.
            return ["sunspec", "eastron-sdm630", "eastron-sdm120"].map(preset).to_vec();
        }
        if let Some(broker) = &self.mqtt {
            let device = device.map(|name| format!("device = {}\n", quoted(name))).unwrap_or_default();
            let preset =
                |preset: Preset| at("mqtt", "broker", broker) + &format!("preset = \"{}\"\n{device}", preset.name());
            return Preset::ALL.map(preset).to_vec();
        }
        if let Some(file) = &self.lines {
            return vec![at("lines", "path", &file.display().to_string()) + "interval_seconds = 10\n"];
        }
        let own = self.source.iter().map(|text| format!("{}\n", text.trim_end()));
        own.collect()
    }
}

/// One way to read a meter.
struct Candidate {
    /// As `[source]` has it.
    text: String,
    source: Source,
}

impl Candidate {
    /// The number tells apart those that listen on one broker at once.
    fn new(text: String, number: usize) -> Result<Self, String> {
        let mut config: SourceConfig = toml::from_str(&text).map_err(|error| error.message().to_owned())?;
        if let SourceConfig::Mqtt(config) = &mut config {
            config.client_id.get_or_insert_with(|| format!("dream-meter-probe-{number}"));
        }
        let source = Source::new(config).map_err(|error| error.to_string())?;
        Ok(Self { text, source })
    }

    /// Returns its kind and preset.
    fn kind(&self) -> String {
        let keys = self.text.lines().filter_map(|line| line.split_once(" = "));
        let names = keys.filter(|(key, _)| ["kind", "preset"].contains(key)).map(|(_, name)| name.trim_matches('"'));
        names.collect::<Vec<_>>().join(" ")
    }
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
        let mut candidates = Vec::new();
        let mut troubles = String::new();
        for text in self.at.candidates(self.device.as_deref()) {
            match Candidate::new(text, candidates.len()) {
                Ok(candidate) => candidates.push(candidate),
                // Some bridges need more than a name to be read.
                Err(why) if self.at.mqtt.is_some() => troubles += &format!("\n  {why}"),
                Err(why) => return Err(BadInput(why).into()),
            }
        }
        // A broker lets all of them listen at once; a port does not.
        let together = if self.at.mqtt.is_some() { candidates.len().max(1) } else { 1 };
        while !candidates.is_empty() {
            let group: Vec<Candidate> = candidates.drain(..together.min(candidates.len())).collect();
            let kinds: Vec<String> = group.iter().map(Candidate::kind).collect();
            let texts: Vec<String> = group.iter().map(|candidate| candidate.text.clone()).collect();
            writeln!(out, "Listening for {} ...", kinds.join(", "))?;
            out.flush()?;
            match self.listen(group, out).await? {
                Ok(recognised) => return self.write(&texts[recognised], out),
                Err(why) => troubles += &format!("\n  {}: {why}", kinds.join(", ")),
            }
        }
        anyhow::bail!("nothing was recognised:{troubles}")
    }

    /// Listens to a group of candidates at once, and shows the samples of the first that speaks. Returns which one that was, or
    /// why there was none.
    async fn listen(&self, group: Vec<Candidate>, out: &mut impl Write) -> anyhow::Result<Result<usize, String>> {
        let patience = if group.len() > 1 { LONG_PATIENCE } else { PATIENCE };
        let (sender, mut events) = mpsc::channel(16);
        let mut means = Vec::new();
        let mut running = JoinSet::new();
        for (number, candidate) in group.into_iter().enumerate() {
            means.push(SlotMean::new(candidate.source.cadence()));
            let (each, mut own) = mpsc::channel(4);
            let sender = sender.clone();
            running.spawn(candidate.source.run(Arc::new(SystemClock), each));
            running.spawn(async move {
                while let Some(event) = own.recv().await {
                    if sender.send((number, event)).await.is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut seen: Vec<Sample> = Vec::new();
        let mut speaking = None;
        let mut why = format!("nothing came in {} seconds", patience.as_secs());
        while (seen.len() as u64) < self.samples {
            let Ok(Some((number, event))) = timeout(patience, events.recv()).await else { break };
            if speaking.is_some_and(|speaking| speaking != number) {
                continue;
            }
            means[number].push(&event);
            match event {
                Event::Sample(sample) => {
                    if speaking.replace(number).is_none() {
                        writeln!(out, "Recognised. What follows is shown here and sent nowhere.")?;
                    }
                    writeln!(out, "  {}", shown(&sample))?;
                    out.flush()?;
                    seen.push(sample);
                }
                Event::Lost { why: lost, .. } if speaking.is_none() => {
                    why = lost;
                    if means.len() == 1 {
                        break;
                    }
                }
                Event::Lost { why, .. } => writeln!(out, "  lost: {why}")?,
                Event::Connected { .. } | Event::ClockStepped { .. } => {}
            }
        }
        let (Some(speaking), [first, .., last]) = (speaking, seen.as_slice()) else { return Ok(Err(why)) };
        let seconds = last.at.millis_since(first.at) / 1000;
        match means[speaking].mean(first.at, last.at) {
            Ok(watts) => writeln!(
                out,
                "Over these {seconds} s the mean is {watts} W: a slot would report this, blurred and masked."
            )?,
            Err(why) => writeln!(out, "Over these {seconds} s there is no reading: {why}.")?,
        }
        Ok(Ok(speaking))
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
        writeln!(out, "{} has the source now.", path.display())?;
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
        let none =
            || Place { serial: None, tcp: None, mqtt: None, http: None, modbus: None, lines: None, source: None };
        let places = [
            (Place { serial: Some("/dev/ttyUSB0".into()), ..none() }, 2),
            (Place { tcp: Some("bridge:23".into()), ..none() }, 2),
            (Place { mqtt: Some("mqtt://home".into()), ..none() }, 8),
            (Place { http: Some("http://p1.lan".into()), ..none() }, 1),
            (Place { modbus: Some("rail:502".into()), ..none() }, 3),
            (Place { lines: Some("a \"b\"".into()), ..none() }, 1),
            (none(), 0),
        ];
        for (place, expected) in places {
            let sound = place.candidates(Some("tele-1")).into_iter().map(|text| Candidate::new(text, 0));
            assert_eq!(sound.filter(Result::is_ok).count(), expected, "{place:?}");
        }
    }
}
