//! `dream-meter authority judge`: whether an authority has changed its past, for anybody who has its certificate.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::super::BadInput;
use crate::files;
use crate::oversight::Evidence;

/// Judge evidence that a meter has kept against an authority
///
/// A meter that sees a register with another past than before keeps both in `register-evidence-*.json`, in the directory of its records. Needs nothing but
/// the authority's certificate.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  dream-meter authority judge register-evidence-1794900000.json --meter-authority meter-authorities.pem")]
pub(crate) struct JudgeArgs {
    /// The evidence, as a meter keeps it
    evidence: PathBuf,
    /// The certificate of the authority that it is against
    #[arg(long, value_name = "FILE", required = true)]
    meter_authority: Vec<PathBuf>,
}

impl JudgeArgs {
    pub(super) fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let wrong = |why: String| BadInput(format!("{}: {why}", self.evidence.display()));
        let evidence: Evidence =
            serde_json::from_slice(&files::read(&self.evidence)?).map_err(|error| wrong(error.to_string()))?;
        let mut authorities = Vec::new();
        for path in &self.meter_authority {
            authorities.extend(files::certificates(path)?);
        }
        match evidence.judge(&authorities).map_err(|error| wrong(error.to_string()))? {
            Some(words) => writeln!(out, "The evidence is good: {words}.")?,
            None => return Err(wrong("these two registers may stand beside each other".to_owned()).into()),
        }
        Ok(())
    }
}
