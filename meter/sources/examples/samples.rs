//! Prints samples as lines of JSON: of a file of telegrams, or of a source as it runs. The tests in `tests/foreign` compare
//! them with what other people's parsers and devices say.
//!
//!     samples p1 FILE            samples sml FILE [kermit]            samples run CONFIG.toml COUNT

#![expect(clippy::print_stdout, reason = "printing samples is what it is for")]

use std::error::Error;
use std::sync::Arc;

use dream_sources::p1::{frames, telegram};
use dream_sources::{Event, Source, SystemClock, Values, sml};
use tokio::sync::mpsc;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["p1", file] => {
            let mut telegrams = frames::Frames::default();
            telegrams.push(&std::fs::read(file)?);
            while let Some(frame) = telegrams.next_frame() {
                print(telegram::parse(&frame, telegram::Checksum::Check).map(|telegram| telegram.values));
            }
        }
        ["sml", file] => print_sml(file, sml::Crc::X25)?,
        ["sml", file, "kermit"] => print_sml(file, sml::Crc::Kermit)?,
        ["run", config, count] => {
            run(Source::parse(config, &std::fs::read_to_string(config)?)?, count.parse()?)?;
        }
        _ => return Err("samples p1 FILE | sml FILE [kermit] | run CONFIG.toml COUNT".into()),
    }
    Ok(())
}

fn print_sml(file: &str, crc: sml::Crc) -> Result<(), Box<dyn Error>> {
    let mut frames = sml::Frames::default();
    frames.push(&std::fs::read(file)?);
    while let Some(frame) = frames.next_frame() {
        print(sml::parse(&frame, crc));
    }
    Ok(())
}

/// Runs a source until it has yielded so many samples.
#[tokio::main(flavor = "current_thread")]
async fn run(source: Source, count: usize) -> Result<(), Box<dyn Error>> {
    let (sender, mut events) = mpsc::channel(16);
    tokio::spawn(source.run(Arc::new(SystemClock), sender));
    let mut printed = 0;
    while printed < count {
        match events.recv().await.ok_or("the source has ended")? {
            Event::Sample(sample) => {
                let (import, export, power, step) = (sample.import, sample.export, sample.power, sample.step);
                print(Ok::<_, String>(Values { import, export, power, step }));
                printed += 1;
            }
            Event::Lost { why, .. } | Event::Garbled { why, .. } | Event::Refused { why, .. } => print(Err(why)),
            Event::Connected { .. } => println!("{}", serde_json::json!({ "connected": true })),
            Event::ClockStepped { .. } => {}
        }
    }
    Ok(())
}

fn print(values: Result<Values, impl ToString>) {
    let line = match values {
        Ok(Values { import, export, power, step }) => {
            serde_json::json!({ "import": import, "export": export, "power": power, "step": step })
        }
        Err(error) => serde_json::json!({ "error": error.to_string() }),
    };
    println!("{line}");
}
