//! `dream-gateway offenders`: asks a running gateway which members spoil slots.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;

use super::running::RunningGateway;
use crate::board::offenders::{OffenderJson, PATH};

/// Name the members that spoil slots
///
/// Asks the running gateway, which names meters only to the role `operator`: use the token of an operator. Days are whole days.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway offenders --config /etc/dream/gateway.toml --token-file /etc/dream/operator.token
  dream-gateway offenders --url https://gateway.example:9464 --ca ca.pem --token-file operator.token --json")]
pub(super) struct OffendersArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Print the gateway's answer as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &OffendersArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let body = args.gateway.ask(PATH)?;
    if args.json {
        return Ok(writeln!(out, "{body}")?);
    }
    let offenders: Vec<OffenderJson> = serde_json::from_str(&body).context("the answer is not a list of offenders")?;
    print(&offenders, out)
}

fn print(offenders: &[OffenderJson], out: &mut impl Write) -> anyhow::Result<()> {
    if offenders.is_empty() {
        return Ok(writeln!(out, "no member spoils slots")?);
    }
    writeln!(out, "{:<20} {:<24} {:<38} {:>7}  until", "cluster", "meter", "what it does", "slots")?;
    for offender in offenders {
        let what = match offender.offence.as_str() {
            "silent" => "sends readings, does not reveal",
            "spoils_sums" => "spoils sums",
            "suspected" => "suspected of spoiling sums",
            "at_odds" => "deals or answers wrongly",
            other => other,
        };
        let until = match (&offender.left_out_of_lists_until, offender.left_out_of_sums) {
            (Some(until), _) => format!("out of lists until {until}"),
            (None, true) => "out of sums until it passes a trial".to_owned(),
            (None, false) => format!("takes part; last offence {} days ago", offender.last_offence_days_ago),
        };
        let OffenderJson { cluster, meter, spoiled_slots, .. } = offender;
        writeln!(out, "{cluster:<20} {meter:<24} {what:<38} {spoiled_slots:>7}  {until}")?;
    }
    if offenders.iter().any(|offender| offender.offence == "suspected") {
        writeln!(
            out,
            "A suspicion is not proof: colluding members can frame another. Deny a meter (`members.deny`) only if \
             you know more."
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(offenders: &[OffenderJson]) -> String {
        let mut out = Vec::new();
        print(offenders, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_offender_is_a_line_that_says_what_it_does_and_until_when_it_is_left_out() {
        let silent = OffenderJson {
            cluster: "north".to_owned(),
            meter: "m-0001".to_owned(),
            offence: "silent".to_owned(),
            spoiled_slots: 3,
            first_offence_days_ago: 1,
            last_offence_days_ago: 0,
            left_out_of_sums: true,
            left_out_of_lists_until: None,
        };
        let suspected = OffenderJson {
            meter: "m-0002".to_owned(),
            offence: "suspected".to_owned(),
            left_out_of_sums: false,
            ..silent.clone()
        };
        let text = printed(&[silent, suspected]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("does not reveal") && lines[1].ends_with("out of sums until it passes a trial"));
        assert!(lines[2].contains("suspected of spoiling sums") && lines[2].ends_with("last offence 0 days ago"));
        assert!(lines[3].starts_with("A suspicion is not proof"));
        assert_eq!(printed(&[]), "no member spoils slots\n");
    }
}
