//! A plan as text, for people who decide.

use std::fmt;
use std::io::{Result, Write};

use super::cost::{AesBlocks, CERTIFICATE_BYTES, ClusterTraffic, ID_CHARACTERS, MessageSize};
use super::error::{Deviation, HourMean, USEFUL_PERCENT, Verdict};
use super::numbers::{Bytes, Grouped, Micro, Rounded, real};
use super::report::{DailyEpsilon, Plan};
use crate::board::day_epsilon;

mod opening;

/// Writes the whole plan.
pub(super) fn write(plan: &Plan, out: &mut impl Write) -> Result<()> {
    summary(plan, out)?;
    configuration(plan, out)?;
    head(plan, out)?;
    error(plan, out)?;
    verdict(plan, out)?;
    opening::write(plan, out)?;
    privacy(plan, out)?;
    policy(plan, out)?;
    traffic(plan, out)?;
    aes(plan, out)
}

/// Writes what can be quoted.
fn summary(plan: &Plan, out: &mut impl Write) -> Result<()> {
    if let Some(found) = &plan.found {
        writeln!(out, "{}\n", found.told)?;
    }
    let summary = &plan.summary;
    for (number, sentence) in (1..).zip([&summary.accuracy, &summary.privacy, &summary.robustness]) {
        paragraph(&format!("{number}. "), sentence, out)?;
    }
    writeln!(out)?;
    paragraph("", &summary.assumed, out)?;
    if !plan.meter_objections.is_empty() {
        writeln!(out, "WARNING: meters with the {} policy refuse such a list; why is below.", plan.meter_policy)?;
    }
    Ok(())
}

/// Writes a text in lines of readable length.
fn paragraph(start: &str, text: &str, out: &mut impl Write) -> Result<()> {
    const WIDTH: usize = 100;
    // A number and its sign stay together.
    let text = text.replace(" %", "\u{a0}%");
    let mut line = start.to_owned();
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{}", line.replace('\u{a0}', " "))?;
            line = " ".repeat(start.len());
        } else if line.len() > start.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{}", line.replace('\u{a0}', " "))
}

fn configuration(plan: &Plan, out: &mut impl Write) -> Result<()> {
    writeln!(out, "\nIn the gateway's configuration, for this cluster:")?;
    plan.configuration.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    writeln!(out)
}

fn head(plan: &Plan, out: &mut impl Write) -> Result<()> {
    let (lo, hi) = plan.range_watts;
    let epsilon = Micro(plan.micro_epsilon_per_attempt);
    writeln!(out, "A cluster of {} members, slots of {} s", Grouped(plan.members.into()), plan.slot_seconds)?;
    writeln!(out, "Readings of {lo}..{hi} W, epsilon {epsilon} an attempt, attempts a slot: {}", plan.attempts)?;
    writeln!(out, "\nWho may fail")?;
    writeln!(out, "  silent       {:>6}  members (M); if more are, the slot gives no sum", plan.max_missing)?;
    writeln!(out, "  malicious    {:>6}  members (T) that may collude with the gateway", plan.max_malicious)?;
    writeln!(
        out,
        "  honest       {:>6}  shares (n) that make up the whole noise",
        Grouped(plan.honest.into()).to_string()
    )?;
    if plan.members < 50 && 5 * u32::from(plan.max_malicious) < plan.members.into() {
        writeln!(out, "  With fewer than 50 members, --max-malicious 0.2 or more is recommended.")?;
    }
    Ok(())
}

fn error(plan: &Plan, out: &mut impl Write) -> Result<()> {
    let (all, few) = (&plan.error_when_all_answer, &plan.error_when_most_are_silent);
    writeln!(out, "\nHow far the sum of a slot is off, in W and in % of the cluster's mean load")?;
    let heads = [all, few].map(|deviation| format!("{} answer", Grouped(deviation.responders.into())));
    writeln!(out, "  {:<12}{:>20}{:>24}", "", heads[0], heads[1])?;
    type Column = fn(&Deviation) -> (f64, f64);
    let rows: [(&str, Column); 3] = [
        ("mean error", |deviation| (deviation.mean_watts, deviation.mean_percent)),
        ("95 % within", |deviation| (real(deviation.band95_watts), deviation.band95_percent)),
        ("99 % within", |deviation| (real(deviation.band99_watts), deviation.band99_percent)),
    ];
    for (name, column) in rows {
        let cells = [all, few].map(|deviation| WattsAndPercent(column(deviation)).to_string());
        writeln!(out, "  {name:<12}{:>20}{:>24}", cells[0], cells[1])?;
    }
    writeln!(
        out,
        "  Noise scale (lambda) {} W, mean load {} W. The load of silent members is missing besides.",
        Rounded(plan.noise_scale_watts),
        Grouped(plan.mean_load_watts)
    )
}

fn verdict(plan: &Plan, out: &mut impl Write) -> Result<()> {
    let percent = plan.error_when_all_answer.band95_percent;
    match plan.verdict {
        Verdict::Useful => return writeln!(out, "  Useful: single slots can be read."),
        Verdict::Coarse => writeln!(out, "  COARSE: the shape of a day shows, but a single slot says little.")?,
        Verdict::TooNoisy => writeln!(out, "  WARNING: too small to be useful, the noise hides the load of a slot.")?,
    }
    writeln!(out, "  For a 95 % band of {USEFUL_PERCENT} %:")?;
    let members = real(plan.members.into()) * percent / USEFUL_PERCENT;
    if members <= 10_000.0 {
        writeln!(out, "  - more members: about {}; this costs no privacy", Rounded(members))?;
    } else {
        writeln!(out, "  - more members would help, but about {} are more than a list can have", Rounded(members))?;
    }
    if let Some(HourMean { slots, band95_percent }) = plan.error_of_an_hours_mean {
        writeln!(out, "  - or look at means over time: of an hour, {slots} slots, it is {band95_percent:.1} %")?;
    }
    writeln!(
        out,
        "  - or a larger epsilon or a smaller range: the band shrinks in proportion, but privacy is lost or"
    )?;
    writeln!(out, "    readings are clipped, and meters must be told to accept it")?;
    writeln!(out, "  - longer slots spend less epsilon a day, which leaves room for a larger one in each")
}

fn privacy(plan: &Plan, out: &mut impl Write) -> Result<()> {
    let daily = &plan.epsilon_per_day;
    writeln!(out, "\nEpsilon a meter spends a day, in {} slots", Grouped(daily.slots))?;
    match daily.energy_watt_hours {
        Some(energy) => {
            let (reserved, whole) = (Micro(daily.micro_epsilon_reserved).to_string(), real(energy) / 1000.0);
            writeln!(out, "  together     {reserved:>10}  all slots of a UTC day (E), for {whole} kWh of a home")?;
            writeln!(out, "  Slot by slot, as the budget counts them:")?;
        }
        None => writeln!(out, "  Nothing bounds a day but the number of its slots: no E is stated.")?,
    }
    writeln!(out, "  {:<11}{:>11}{:>21}", "", "added up", "but for one in 10^6")?;
    let rows = [
        ("at best", daily.micro_epsilon_one_attempt_each, daily.epsilon_one_attempt_each_at_delta, "one attempt each"),
        ("at worst", daily.micro_epsilon_all_attempts, daily.epsilon_all_attempts_at_delta, "every attempt used"),
    ];
    for (name, added_up, at_delta, when) in rows {
        let (added_up, at_delta) = (Micro(added_up).to_string(), day_epsilon::shown(at_delta));
        writeln!(out, "  {name:<11}{added_up:>11}{at_delta:>21}  {when}")?;
    }
    budget(daily, out)
}

fn budget(daily: &DailyEpsilon, out: &mut impl Write) -> Result<()> {
    let (budget, paid) = (Micro(daily.budget_micro_epsilon), daily.attempts_within_budget);
    if daily.micro_epsilon_all_attempts <= daily.budget_micro_epsilon {
        writeln!(out, "  A meter's budget of {budget} a day always suffices.")
    } else if let Some(retries) = paid.checked_sub(daily.slots) {
        writeln!(out, "  A meter's budget of {budget} a day pays for {} retries.", Grouped(retries))
    } else {
        let silent = Grouped(daily.slots - paid);
        writeln!(out, "  WARNING: a meter's budget of {budget} a day is spent before the day is over: it would be")?;
        writeln!(out, "  silent for {silent} slots of every 24 hours. Use longer slots or a smaller epsilon.")
    }
}

fn policy(plan: &Plan, out: &mut impl Write) -> Result<()> {
    let policy = plan.meter_policy;
    if plan.meter_objections.is_empty() {
        return writeln!(out, "\nA meter with the {policy} policy accepts such a list.");
    }
    writeln!(out, "\nWARNING: a meter with the {policy} policy REFUSES such a list:")?;
    plan.meter_objections.iter().try_for_each(|objection| writeln!(out, "  - {objection}"))
}

fn traffic(plan: &Plan, out: &mut impl Write) -> Result<()> {
    let bytes = &plan.bytes;
    writeln!(out, "\nBytes for each meter      message   with MQTT")?;
    let drawn = plan.opening.committee.is_some_and(|committee| committee.drawn > 0);
    let reading = ("sends a reading", &bytes.reading, "each attempt");
    let rows: [(&str, &MessageSize, &str); 5] = match (plan.opening.committee, drawn) {
        (None, _) => [
            reading,
            ("sends a reveal", &bytes.answer, "each attempt"),
            ("gets a request", &bytes.request, "each attempt; repeated while reveals are missing"),
            ("gets a list", &bytes.list, "whenever the members or their keys change"),
            ("and its header", &bytes.short_list, "with it, on a topic of its own"),
        ],
        (Some(_), false) => [
            reading,
            ("sends an answer", &bytes.answer, "holders only"),
            ("gets a request", &bytes.request, "holders only; repeated while too few answers are in"),
            ("gets a list", &bytes.list, "whenever the members or their keys change"),
            ("and its header", &bytes.short_list, "with it, on a topic of its own"),
        ],
        (Some(_), true) => [
            reading,
            ("sends an answer", &bytes.answer, "holders only"),
            ("gets a request", &bytes.request, "holders only; repeated while too few answers are in"),
            ("gets a short list", &bytes.short_list, "whenever the members or their keys change"),
            ("gets a whole list", &bytes.list, "holders only, with it"),
        ],
    };
    for (name, packet, when) in rows {
        let [message, with_mqtt] = [packet.message, packet.with_mqtt].map(|count| Grouped(count).to_string());
        writeln!(out, "  {name:<20}{message:>11}{with_mqtt:>12}  {when}")?;
    }
    let slots = Grouped(bytes.slots_per_list);
    writeln!(out, "  a slot              {:>23}  one attempt", Grouped(bytes.per_slot).to_string())?;
    if let Some(holder) = bytes.per_slot_of_holder {
        writeln!(out, "  a holder's slot     {:>23}  one attempt", Grouped(holder).to_string())?;
    }
    writeln!(
        out,
        "  and its list        {:>23}  if one serves for {slots} slots, the longest it can",
        Rounded(bytes.list_per_slot).to_string()
    )?;
    writeln!(
        out,
        "  Ids of {ID_CHARACTERS} characters, certificates of {CERTIFICATE_BYTES} bytes; without TLS and TCP."
    )?;
    let ClusterTraffic { messages_per_slot, bytes_per_slot, bytes_per_list } = bytes.cluster;
    writeln!(
        out,
        "  All members together: {} messages and {} a slot, and {} for each list.",
        Grouped(messages_per_slot),
        Bytes(bytes_per_slot),
        Bytes(bytes_per_list)
    )
}

fn aes(plan: &Plan, out: &mut impl Write) -> Result<()> {
    writeln!(out, "\nAES-128 blocks for each meter")?;
    match plan.aes_blocks {
        AesBlocks::Pairwise { masks, selection, stream, per_slot, reveal_at_most, retry_at_most } => {
            let selection =
                if selection > 0 { format!(" + {} to select partners", Grouped(selection)) } else { String::new() };
            let parts = format!("{masks} masks, two slots a block{selection} + {stream} stream");
            writeln!(out, "  a slot       {per_slot:>10}  {parts}")?;
            let reveal = Grouped(reveal_at_most).to_string();
            writeln!(out, "  a reveal     {reveal:>10}  at most, when {} are silent", plan.max_missing)?;
            writeln!(out, "  a retry      {:>10}  at most", Grouped(retry_at_most).to_string())?;
        }
        AesBlocks::Committee { dealing, stream, per_slot, answer_at_most } => {
            let parts = format!("{dealing} dealt to the holders + {stream} stream; a retry costs the same");
            writeln!(out, "  a slot       {:>10}  {parts}", Grouped(per_slot).to_string())?;
            writeln!(out, "  an answer    {:>10}  at most, by a holder", Grouped(answer_at_most).to_string())?;
            writeln!(out, "  Besides, a member computes a polynomial over the holders: additions only.")?;
        }
    }
    writeln!(out, "  Not counted: key schedules, HMAC, and the random numbers of the noise.")
}

/// Watts and per cent.
struct WattsAndPercent((f64, f64));

impl fmt::Display for WattsAndPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (watts, percent) = self.0;
        write!(f, "{} W {:>7}", Rounded(watts), format!("{percent:.1} %"))
    }
}
