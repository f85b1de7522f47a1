//! `dream-gateway holders`: asks a running gateway which committee holders drop out.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;

use super::running::RunningGateway;
use crate::board::holders::{HolderJson, PATH};

/// Name committee holders that drop out
///
/// Asks the running gateway, which names meters only to the role `operator`: use the token of an operator. Slots are those of today
/// and yesterday (UTC), since the gateway started.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway holders --config /etc/dream/gateway.toml --token-file /etc/dream/operator.token
  dream-gateway holders --url https://gateway.example:9464 --ca ca.pem --token-file operator.token --json")]
pub(super) struct HoldersArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Print the gateway's answer as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &HoldersArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let body = args.gateway.ask(PATH)?;
    if args.json {
        return Ok(writeln!(out, "{body}")?);
    }
    let mut holders: Vec<HolderJson> = serde_json::from_str(&body).context("the answer is not a list of holders")?;
    holders.sort_by_key(|holder| (holder.cluster.clone(), u32::MAX - holder.vanished_slots - holder.wrong_slots));
    print(&holders, out)
}

/// Prints holders, those that dropped out most often first.
fn print(holders: &[HolderJson], out: &mut impl Write) -> anyhow::Result<()> {
    if holders.is_empty() {
        return Ok(writeln!(out, "every holder answered, or no cluster has a committee")?);
    }
    writeln!(out, "{:<20} {:<24} {:>9} {:>7} {:>9}", "cluster", "meter", "vanished", "wrong", "of slots")?;
    for HolderJson { cluster, meter, vanished_slots, wrong_slots, of_slots } in holders {
        writeln!(out, "{cluster:<20} {meter:<24} {vanished_slots:>9} {wrong_slots:>7} {of_slots:>9}")?;
    }
    if holders.iter().any(|holder| holder.wrong_slots > 0) {
        writeln!(
            out,
            "A wrong answer proves nothing: a member that deals wrongly to a holder makes its answer wrong."
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(holders: &[HolderJson]) -> String {
        let mut out = Vec::new();
        print(holders, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_holder_is_a_line_and_a_wrong_answer_is_no_proof() {
        let of = |meter: &str, vanished_slots, wrong_slots| HolderJson {
            cluster: "north".to_owned(),
            meter: meter.to_owned(),
            vanished_slots,
            wrong_slots,
            of_slots: 144,
        };
        let text = printed(&[of("m-0001", 12, 0)]);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("m-0001") && text.ends_with("     12       0       144\n"), "{text}");
        assert!(printed(&[of("m-0001", 0, 1)]).contains("proves nothing"));
        assert!(printed(&[]).starts_with("every holder answered"));
    }
}
