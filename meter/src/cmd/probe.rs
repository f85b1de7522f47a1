//! `dream-meter probe`: listens to a meter, recognises what it speaks, and shows on this terminal what it says. Sends nothing.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dream_sources::{Event, Sample, SlotMean, Source, SourceConfig, SystemClock};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::BadInput;
use crate::config::edit;
use crate::files::{self, FileError};

/// How long one way to read a meter is tried: some speak every ten seconds, and a serial line has two speeds.
const PATIENCE: Duration = Duration::from_secs(25);

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
    /// A file that a sample a line is added to
    #[arg(long, value_name = "FILE")]
    lines: Option<PathBuf>,
    /// A source as `[source]` of a configuration has it, in TOML
    #[arg(long, value_name = "TOML")]
    source: Option<String>,
}

impl Place {
    /// Returns the ways to read a meter there, the likeliest first, each as `[source]` has it.
    fn candidates(&self) -> Vec<String> {
        let at = |kind: &str, key: &str, value: &str| format!("kind = \"{kind}\"\n{key} = {}\n", quoted(value));
        if let Some(device) = &self.serial {
            let device = device.display().to_string();
            return ["p1", "sml"].map(|kind| at(kind, "serial", &device)).to_vec();
        }
        if let Some(address) = &self.tcp {
            return ["p1", "sml"].map(|kind| at(kind, "tcp", address)).to_vec();
        }
        if let Some(file) = &self.lines {
            return vec![at("lines", "path", &file.display().to_string()) + "interval_seconds = 10\n"];
        }
        let own = self.source.iter().map(|text| format!("{}\n", text.trim_end()));
        own.collect()
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
        let mut troubles = String::new();
        for text in self.at.candidates() {
            let config: SourceConfig = toml::from_str(&text).map_err(|error| BadInput(error.message().to_owned()))?;
            let source = Source::new(config).map_err(|error| BadInput(error.to_string()))?;
            let kind = text.lines().next().unwrap_or_default().trim_start_matches("kind = ").to_owned();
            writeln!(out, "Listening for {kind} ...")?;
            out.flush()?;
            match self.listen(source, out).await? {
                Ok(()) => return self.write(&text, out),
                Err(why) => troubles += &format!("\n  {kind}: {why}"),
            }
        }
        anyhow::bail!("nothing was recognised:{troubles}")
    }

    /// Shows the samples of a source; returns why there were none, if so.
    async fn listen(&self, source: Source, out: &mut impl Write) -> anyhow::Result<Result<(), String>> {
        let mut mean = SlotMean::new(source.cadence());
        let (sender, mut events) = mpsc::channel(16);
        let running = tokio::spawn(source.run(Arc::new(SystemClock), sender));
        let mut seen: Vec<Sample> = Vec::new();
        let mut why = format!("nothing came in {} seconds", PATIENCE.as_secs());
        while (seen.len() as u64) < self.samples {
            let Ok(Some(event)) = timeout(PATIENCE, events.recv()).await else { break };
            mean.push(&event);
            match event {
                Event::Sample(sample) => {
                    if seen.is_empty() {
                        writeln!(out, "Recognised. What follows is shown here and sent nowhere.")?;
                    }
                    writeln!(out, "  {}", shown(&sample))?;
                    out.flush()?;
                    seen.push(sample);
                }
                Event::Lost { why: lost, .. } if seen.is_empty() => {
                    why = lost;
                    break;
                }
                Event::Lost { why, .. } => writeln!(out, "  lost: {why}")?,
                Event::Connected { .. } | Event::ClockStepped { .. } => {}
            }
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
        let values = Values { import: Some(7_881_115_000), export: Some(0), power: Some(-412_090), ..Values::default() };
        let sample = values.at(Timestamp::from_secs(0));
        assert_eq!(shown(&sample), "-412.0 W, import 7881.115 kWh, export 0.000 kWh");
    }

    #[test]
    fn every_place_gives_sources_that_can_be_parsed() {
        let none = || Place { serial: None, tcp: None, lines: None, source: None };
        let place = Place { lines: Some("a \"b\"".into()), ..none() };
        let [text] = &place.candidates()[..] else { panic!("one way to read lines") };
        toml::from_str::<SourceConfig>(text).unwrap();
        assert!(none().candidates().is_empty());
    }
}
