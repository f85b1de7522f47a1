//! `dream-gateway doctor`: looks at everything that a gateway depends on, and says what is wrong and what to do.

mod broker;
mod clock;
mod gateway;
mod store;

use std::io::Write;

use anyhow::bail;
use clap::Args;
use serde::Serialize;

use super::check_config::secret_mistakes;
use super::running::RunningGateway;
use super::{BadInput, ConfigArgs};
use crate::board::gateway_view::CERTIFICATE_ENDS_SOON_SECONDS;
use crate::clock::Clock;
use crate::config::certificates::{self, NamedCertificate};
use crate::config::secrets::SecretError;
use crate::config::{Config, Draft};
use broker::Visit;
use gateway::Heard;

/// Look at everything the gateway depends on, and say what is wrong
///
/// Broker, login and rights by topic; clock, disk, keys and certificates; and what the running gateway says of itself and of its clusters. Exits with 0
/// if nothing is wrong, 1 if something is, 2 if the configuration cannot be read. Nothing is changed.
///
/// While a gateway answers, the doctor does not log in at the broker: many brokers, ours among them, give every client of a certificate one name,
/// and would throw the gateway out. Use --log-in where the broker does not, or where that does not matter. What it publishes are empty messages of a
/// cluster `dream-doctor`, which nobody has.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway doctor --config /etc/dream/gateway.toml
  dream-gateway doctor --config /etc/dream/gateway.toml --token-file viewer.token --ntp ntp.example --json")]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Log in at the broker, and try every right, even while the gateway runs
    #[arg(long)]
    log_in: bool,
    /// Compare the clock with this time server
    #[arg(long, value_name = "HOST[:PORT]")]
    ntp: Option<String>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// What a look at one thing found.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    state: State,
    says: String,
    #[serde(rename = "do")]
    to_do: Option<String>,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// It cannot be seen from here.
    Unknown,
    /// It works, and is worth a look.
    Warning,
    Wrong,
}

impl Finding {
    fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, state: State::Ok, says: says.into(), to_do: None }
    }

    fn new(check: &'static str, state: State, says: impl Into<String>, to_do: impl Into<String>) -> Self {
        Self { check, state, says: says.into(), to_do: Some(to_do.into()) }
    }

    fn wrong(check: &'static str, says: impl Into<String>, to_do: impl Into<String>) -> Self {
        Self::new(check, State::Wrong, says, to_do)
    }
}

pub(super) fn run(args: &DoctorArgs, clock: &dyn Clock, out: &mut impl Write) -> anyhow::Result<()> {
    let path = args.gateway.config().ok_or_else(|| BadInput("--config: name the gateway's file".to_owned()))?;
    // Which replica this is makes no difference here.
    let Draft { config, files, report } = ConfigArgs { config: path.to_owned(), ordinal: Some(0) }.draft();
    let config = report.finish(config)?;
    let now = clock.now().as_secs();

    let mut findings = vec![Finding::ok("configuration", format!("{} can be read", path.display()))];
    findings.extend(secret_mistakes(&files, clock.now()).into_iter().filter_map(|error| secret(&error)));
    findings.extend(certificate_ends(&config, now));
    let heard = Heard::from(&args.gateway)?;
    let store = store::look(&config.store.place, heard.answers);
    let visit = if args.log_in || (heard.nobody_listens() && !store.in_use) { Visit::LogIn } else { Visit::Reach };
    findings.extend(broker::look(&config, visit, now)?);
    if visit == Visit::Reach {
        findings.extend(heard.traffic(&args.gateway)?);
    }
    findings.extend(store.findings);
    findings.push(clock::look(args.ntp.as_deref(), config.clock_skew_seconds, heard.clock_is_right()));
    findings.extend(heard.findings(&args.gateway)?);

    let wrong = findings.iter().filter(|finding| finding.state == State::Wrong).count();
    if args.json {
        writeln!(out, "{}", serde_json::json!({ "well": wrong == 0, "findings": findings }))?;
    } else {
        print(&findings, out)?;
    }
    match wrong {
        0 => Ok(()),
        1 => bail!("one thing is wrong"),
        more => bail!("{more} things are wrong"),
    }
}

fn print(findings: &[Finding], out: &mut impl Write) -> anyhow::Result<()> {
    for Finding { check, state, says, to_do } in findings {
        let word = match state {
            State::Ok => "ok",
            State::Unknown => "?",
            State::Warning => "warning",
            State::Wrong => "WRONG",
        };
        writeln!(out, "{word:<8} {check:<14} {says}")?;
        if let Some(to_do) = to_do {
            writeln!(out, "{:<23} -> {to_do}", "")?;
        }
    }
    Ok(())
}

/// Returns what is wrong with a key, certificate or password; ends of certificates are looked at by themselves.
fn secret(error: &SecretError) -> Option<Finding> {
    let is_period = matches!(error, SecretError::Period { .. });
    (!is_period)
        .then(|| Finding::wrong("files", error.to_string(), "correct the file, and reload or start the gateway"))
}

/// Says which certificates have ended or soon will, and otherwise which one is the first to.
fn certificate_ends(config: &Config, now: u64) -> Vec<Finding> {
    let http = config.http.tls.iter().flat_map(certificates::of_http);
    // Files that cannot be read are named by `secret_mistakes`.
    let all: Vec<NamedCertificate> = certificates::named(config).into_iter().chain(http).flatten().collect();
    let mut findings: Vec<Finding> = all.iter().filter_map(|certificate| end(certificate, now)).collect();
    let well = all.iter().filter(|certificate| end(certificate, now).is_none());
    if let Some(first) = well.min_by_key(|certificate| certificate.ends) {
        let others = if findings.is_empty() { "" } else { " of the others" };
        let says = format!("of {}, the first{others} to end is {}: {}", all.len(), first.key, first.end());
        findings.push(Finding::ok("certificates", says));
    }
    findings
}

/// Returns a finding if a certificate has ended, or will soon.
fn end(certificate: &NamedCertificate, now: u64) -> Option<Finding> {
    let NamedCertificate { key, subject, ends, .. } = certificate;
    let to_do = "renew it with the same key, replace the file, and `systemctl reload dream-gateway`";
    if *ends < now {
        let says = format!("{key} ({subject}) ended {}", certificate.end());
        return Some(Finding::wrong("certificates", says, to_do));
    }
    let is_soon = *ends < now + CERTIFICATE_ENDS_SOON_SECONDS;
    let says = || format!("{key} ({subject}) ends {}", certificate.end());
    is_soon.then(|| Finding::new("certificates", State::Warning, says(), to_do))
}
