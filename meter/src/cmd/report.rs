//! `dream-meter report`: what somebody who helps needs to know, without readings and without keys.

use std::fmt::Write as _;
use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use dream_edge::clock::{Clock as _, SystemClock};

use super::{ConfigArgs, check_config, status};
use crate::clock::{Synchronised, utc, wall};
use crate::config::Config;
use crate::files;
use crate::records::Records;

/// Write a report for whoever helps you: no reading, no key, no password
///
/// It names your meter, your cluster and the addresses in the configuration. Read it before you send it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  dream-meter report --out report.txt")]
pub(super) struct ReportArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Where it goes, instead of this terminal
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl ReportArgs {
    pub(super) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let text = self.text();
        match &self.out {
            None => out.write_all(text.as_bytes())?,
            Some(path) => {
                files::replace(path, text.as_bytes())?;
                writeln!(out, "Wrote {}. Read it before you send it.", path.display())?;
            }
        }
        Ok(())
    }

    /// Only what is named here is in it: nothing is copied as a whole from a file.
    fn text(&self) -> String {
        let mut text = String::new();
        let mut say =
            |heading: &str, words: &str| writeln!(text, "{heading}: {words}").expect("a String takes everything");
        say("dream-meter", env!("CARGO_PKG_VERSION"));
        say("Time", &utc(wall().as_secs()));
        say("System", &first_line("/proc/version"));
        say("Machine", &first_line("/proc/device-tree/model"));
        say("Configuration", &file(&self.config.config));
        let config = match self.config.load() {
            Ok(config) => config,
            Err(error) => {
                say("Problem", &error.to_string());
                return text;
            }
        };
        for (name, words) in files_of(&config) {
            say(name, &words);
        }
        say("Free space of the records", &free_space(&config.state));
        let mut time = Synchronised::new(&config.time);
        let right = time.is_confirmed(SystemClock.both());
        say("Clock", if right { "synchronised" } else { "not synchronised" });
        match config.load_identity() {
            Err(error) => say("Problem", &error.to_string()),
            Ok(identity) => {
                check_config::told(&config, &identity).iter().for_each(|(heading, words)| say(heading, words));
                check_config::warnings(&config, &identity).iter().for_each(|warning| say("Warning", warning));
            }
        }
        match status::ask(config.http, "/status") {
            Err(error) => say("Status", &error.to_string()),
            Ok(told) => {
                for line in String::from_utf8_lossy(&told).lines() {
                    let (heading, words) = line.split_once(": ").unwrap_or((line, ""));
                    // Why a source gives no reading may be in the words of a device, and so with its values.
                    let harmless =
                        if heading == "Source" { words.split(": ").next().unwrap_or_default() } else { words };
                    say(heading, harmless);
                }
            }
        }
        text
    }
}

fn files_of(config: &Config) -> Vec<(&'static str, String)> {
    vec![
        ("Key", file(&config.identity.key)),
        ("Certificate's file", file(&config.identity.certificate)),
        ("Records' file", file(&Records::file(&config.state))),
        ("Records' key", file(&Records::key_file(&config.state))),
        ("Witness", file(&config.witness)),
    ]
}

/// Says how large a file is, whose and since when; nothing of what is in it.
fn file(path: &Path) -> String {
    let shown = path.display();
    match std::fs::metadata(path) {
        Err(error) => format!("{shown}: {error}"),
        Ok(found) => {
            let since = u64::try_from(found.mtime()).map_or_else(|_| "before 1970".to_owned(), utc);
            format!("{shown}, {} bytes, mode {:o}, changed {since}", found.len(), found.mode() & 0o7777)
        }
    }
}

fn free_space(folder: &Path) -> String {
    match rustix::fs::statvfs(folder) {
        Err(error) => format!("{}: {error}", folder.display()),
        Ok(found) => {
            format!("{} MB, {} files", found.f_bavail.saturating_mul(found.f_frsize) / 1_000_000, found.f_favail)
        }
    }
}

fn first_line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").trim_end_matches('\0').to_owned()
}
