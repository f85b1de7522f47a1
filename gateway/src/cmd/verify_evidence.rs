//! `dream-gateway verify-evidence`: whether two messages prove that a gateway contradicted itself.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use dream_protocol::evidence::{self, Verdict};
use dream_protocol::wire::EvidenceStatement;

use super::BadInput;
use super::decode::input;

const EXAMPLES: &str = "\
Examples:
  curl -O http://gateway.example:9464/api/v1/clusters/north/evidence/1
  dream-gateway verify-evidence 1 --gateway-authority gateway-authority.pem

Exit codes: 0 if it proves a contradiction, 1 if it does not, 2 if it cannot be read.";

/// Judge whether a gateway has contradicted itself
///
/// Needs nothing but the evidence, as a gateway or a meter keeps it, and the certificates of gateways' authorities: no
/// store, no configuration, no gateway. Evidence names no meter.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct VerifyEvidenceArgs {
    /// The file that holds the evidence; `-` is the standard input
    file: PathBuf,
    /// Certificates of authorities that are trusted to certify gateways, in PEM; may be given more than once
    #[arg(long, value_name = "PEM", required = true)]
    gateway_authority: Vec<PathBuf>,
}

pub(super) fn run(args: &VerifyEvidenceArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let unreadable = |reason: String| BadInput(format!("{}: {reason}", input::shown(&args.file)));
    let authorities = input::authorities(&[], &args.gateway_authority)?;
    let authorities = authorities.ok_or_else(|| BadInput("give --gateway-authority".to_owned()))?;
    let bytes = input::read(&args.file)?;
    let evidence = EvidenceStatement::decode(&bytes)
        .map_err(|error| unreadable(format!("it is no evidence, or damaged: {error}")))?;
    match evidence::judge(&evidence, &authorities) {
        Ok(Verdict { gateway, cluster, contradiction }) => {
            writeln!(out, "proven: gateway {gateway} contradicted itself in cluster {cluster}: {contradiction}")?;
            Ok(())
        }
        Err(error) => anyhow::bail!("the evidence proves nothing: {error}"),
    }
}
