//! A plan as text: three sentences and a table for people who decide, and the rest for those who want to know why.

use std::io::{Result, Write};

use super::numbers::Rounded;
use super::report::Plan;

/// Writes what can be quoted.
pub(super) fn write(plan: &Plan, out: &mut impl Write) -> Result<()> {
    if let Some(found) = &plan.found {
        writeln!(out, "{}\n", found.told)?;
    }
    let summary = &plan.summary;
    for (number, sentence) in (1..).zip([&summary.accuracy, &summary.privacy, &summary.robustness]) {
        paragraph(&format!("{number}. "), sentence, out)?;
    }
    let percent = |percent: f64| format!("{percent:.1} %");
    let (slot, day) = (&plan.error_when_all_answer, &plan.error_of_a_days_energy);
    writeln!(out, "\n{:<34}{:>10}{:>15}", "In per cent of the mean load", "mean error", "95 % within")?;
    let row = |out: &mut dyn Write, name: &str, mean: Option<f64>, band: Option<f64>| {
        let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
        writeln!(out, "  {name:<32}{:>10}{:>15}", cell(mean), cell(band))
    };
    row(out, "the sum of a slot", Some(slot.mean_percent), Some(slot.band95_percent))?;
    if let Some(filter) = plan.filter {
        row(out, "the filtered load, at most", Some(filter.filtered_percent), None)?;
    }
    if let Some(hour) = &plan.error_of_an_hours_mean {
        row(out, "the mean of an hour", None, Some(hour.band95_percent))?;
    }
    row(out, "the energy of a day", None, Some(day.band95_percent))?;
    row(out, "the energy of 30 days", None, Some(plan.error_of_a_months_energy.band95_percent))?;
    writeln!(out, "{}", plan.verdict.words())?;
    if !plan.meter_objections.is_empty() {
        writeln!(out, "WARNING: a meter with the {} policy REFUSES such a list:", plan.meter_policy)?;
        plan.meter_objections.iter().try_for_each(|objection| writeln!(out, "  - {objection}"))?;
    }
    Ok(())
}

/// Writes what the plan assumes, what to configure, what else to know, and every number by the name that it has in JSON.
pub(super) fn write_details(plan: &Plan, out: &mut impl Write) -> Result<()> {
    writeln!(out)?;
    paragraph("", &plan.summary.assumed, out)?;
    writeln!(out, "\nIn the gateway's configuration, for this cluster:")?;
    plan.configuration.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    writeln!(out)?;
    plan.notes.iter().try_for_each(|note| paragraph("- ", note, out))?;
    writeln!(out)?;
    let (json, mut is_told) = (serde_json::to_string_pretty(plan)?, false);
    for line in json.lines() {
        let text = line.trim().trim_end_matches(',');
        let (key, value) = text.split_once(": ").unwrap_or(("", text));
        if line.starts_with("  \"") {
            is_told = ["found", "summary", "configuration", "notes", "meter_objections"]
                .iter()
                .any(|told| key.contains(told));
        }
        let indent = line.len() - line.trim_start().len();
        let value = value.trim_matches(['"', '{', '[']);
        if is_told || text.trim_matches(['{', '}', '[', ']']).is_empty() || value == "null" {
            continue;
        }
        let key = key.trim_matches('"').replace('_', " ");
        // Floats as people read them; whole numbers as they are.
        let value = value.parse().ok().filter(|_| value.contains('.')).map_or_else(|| value.to_owned(), rounded);
        let line = format!("{:indent$}{key:<width$}{value}", "", indent = indent - 2, width = 46 - indent);
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn rounded(value: f64) -> String {
    match value {
        ..1e-3 => format!("{value:.0e}"),
        ..10.0 => format!("{value:.3}"),
        _ => Rounded(value).to_string(),
    }
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
