//! How sums are opened, how often that fails, and what it risks.

use std::io::{Result, Write};

use super::super::numbers::{Grouped, Probability};
use super::super::report::Plan;
use super::super::scheme::CommitteePlan;

/// Writes the part about the scheme.
pub(super) fn write(plan: &Plan, out: &mut impl Write) -> Result<()> {
    writeln!(out, "\nHow sums are opened: {}", plan.opening.scheme)?;
    match &plan.opening.committee {
        Some(committee) => holders(committee, out)?,
        None => pairs(plan, out)?,
    }
    losses(plan, out)?;
    writeln!(out, "  What it risks:")?;
    match &plan.opening.committee {
        Some(CommitteePlan { colluding, needed, .. }) => {
            writeln!(
                out,
                "  - a cliff: while at most {colluding} holders collude (f), nothing but whole sums opens; {needed} that"
            )?;
            writeln!(out, "    collude or are stolen open every reading, also old ones that somebody kept")
        }
        None => {
            writeln!(
                out,
                "  - no cliff: beyond {} colluding members the noise gets thinner step by step, and a",
                plan.max_malicious
            )?;
            writeln!(out, "    single reading opens only if nearly all others collude")
        }
    }
}

fn holders(committee: &CommitteePlan, out: &mut impl Write) -> Result<()> {
    let CommitteePlan { willing, drawn, holders, holders_between: (least, most), needed, may_vanish, colluding } =
        *committee;
    let who = match drawn {
        0 => "holders (K): every member that is willing".to_owned(),
        _ => format!("holders (K), drawn of {} willing: {least} to {most} in 99 of 100 lists", Grouped(willing.into())),
    };
    writeln!(out, "  holders      {holders:>6}  {who}")?;
    writeln!(out, "  must answer  {needed:>6}  of them (q)")?;
    writeln!(out, "  may vanish   {may_vanish:>6}  between a reading and the answer")?;
    writeln!(out, "  may collude  {colluding:>6}  (f), before single readings open")
}

fn pairs(plan: &Plan, out: &mut impl Write) -> Result<()> {
    if let Some(reason) = &plan.opening.no_committee {
        writeln!(out, "  NOTE: no committee can be formed: {reason}")?;
    }
    writeln!(out, "  Everybody who sent a reading must answer in the second round, or the attempt is lost.")
}

fn losses(plan: &Plan, out: &mut impl Write) -> Result<()> {
    let opening = &plan.opening;
    let loss = Probability(opening.loss);
    writeln!(out, "  If {loss} of the members are lost between the rounds (--loss):")?;
    if opening.committee.is_some() {
        writeln!(out, "  - a slot fails with a probability of {}", Probability(opening.slot_fails))?;
        return writeln!(
            out,
            "  - with the pairwise scheme an attempt would fail with {}",
            Probability(opening.pairwise_attempt_fails)
        );
    }
    writeln!(out, "  - an attempt fails with a probability of {}", Probability(opening.attempt_fails))?;
    match plan.attempts {
        1 => Ok(()),
        attempts => {
            writeln!(
                out,
                "  - all {attempts} attempts do with {}, each at its own epsilon",
                Probability(opening.slot_fails)
            )
        }
    }
}
