//! The table of sources in the documentation, made from what the code does.

use crate::mapping::{Field, Groups, Mapping, Quantity};
use crate::mqtt::preset::Preset;
use crate::slot_mean::{INTERVALS_HELD, LEAST_COVERAGE, Liveness};

/// A source that is not a bridge on a broker: kind and preset, what is read, how often unless set otherwise, and what it was
/// tried with.
const SOURCES: [(&str, &str, u64, &str); 10] = [
    ("p1", "1.8.x, 2.8.x, 1.7.0, 2.7.0, 16.7.0", 10, CAPTURES),
    ("p1 with `key_file`", "the same", 10, "telegrams encrypted here; no capture could be had with its key"),
    ("sml", "1.8.x, 2.8.x, 16.7.0, 1.7.0, 2.7.0", 10, CAPTURES),
    (
        "dlms",
        "1.7.0 and 2.7.0 in one list; 1.8.0, 2.8.0 if they have a unit",
        10,
        "captures of Aidon and Kaifa, and the content of a Kamstrup's",
    ),
    ("dlms with `key_file`", "the same", 10, "messages encrypted here; no capture could be had with its key"),
    (
        "tic",
        "EAST, EAIT, or the counters of a contract; no power: it is in VA",
        10,
        "captures of both forms, without EAIT",
    ),
    ("modbus, Eastron presets", "input registers 0x34 or 0x0c, 0x48, 0x4a", 10, SIMULATED),
    ("modbus, `sunspec`", "W, TotWhImp, TotWhExp of models 201 to 204 and 211 to 214", 10, SIMULATED),
    ("http, `homewizard`", "`active_power_w`, `total_power_import_…`, `total_power_export_…` (API v1)", 10, MESSAGES),
    ("lines", "`power=`, `import=`, `export=`", 10, "files"),
];

const CAPTURES: &str = "captures of meters";
const MESSAGES: &str = "messages that makers and owners show";
const SIMULATED: &str = "devices simulated by other software";

/// Writes the table.
pub fn table() -> String {
    let mut table =
        "| Source | Reads | Speaks | A sample is good for | Mean of a slot | Tried with |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for (source, reads, seconds, tried) in SOURCES {
        let liveness = Liveness::Every { interval_millis: seconds * 1000 };
        table += &row(source, reads, liveness, None, tried);
    }
    for preset in Preset::ALL {
        let device = preset.default_device().unwrap_or("DEVICE");
        let bridge = preset.bridge(device);
        let online = bridge.availability.map(|availability| availability.topic);
        let reads = if preset.needs_fields() { "what you name".to_owned() } else { reads(&bridge.mapping) };
        table +=
            &row(&format!("mqtt, `{}`", preset.name()), &reads, bridge.liveness, online.as_deref(), preset.tried());
    }
    table += &format!(
        "\nA slot has a reading if samples cover {LEAST_COVERAGE} % of it. What passed between two samples of counters within the slot is \
         covered, however long that took.\n"
    );
    table
}

fn row(source: &str, reads: &str, liveness: Liveness, online: Option<&str>, tried: &str) -> String {
    let (speaks, good_for, mean) = match liveness {
        Liveness::Every { interval_millis } => {
            let seconds = interval_millis / 1000;
            let good_for = format!("{} s", seconds * INTERVALS_HELD);
            (format!("every {seconds} s, unless set"), good_for, "counters, else power")
        }
        Liveness::OnChange => {
            let online = online.map_or_else(String::new, |online| format!(", and reports online on `{online}`"));
            (format!("on change{online}"), "until it is lost".to_owned(), "power, else counters")
        }
    };
    format!("| {source} | {reads} | {speaks} | {good_for} | {mean} | {tried} |\n")
}

/// What a mapping reads, in words.
fn reads(mapping: &Mapping) -> String {
    if let Some(named) = &mapping.named {
        let place = match named.groups {
            Groups::Root => String::new(),
            Groups::Only(group) => format!(", in `{group}`"),
            Groups::Any => ", in any one group".to_owned(),
        };
        let only = if mapping.import_only { "; without an export counter, import only" } else { "" };
        return format!("numbers in `{}`{place}, by their names{only}", named.topic);
    }
    let quantities = [("power", &mapping.power), ("import", &mapping.import), ("export", &mapping.export)];
    let there = quantities.into_iter().filter(|(_, quantity)| !quantity.is_empty());
    let said: Vec<_> = there.map(|(name, quantity)| format!("{name}: {}", places(quantity))).collect();
    let mut refused: Vec<_> = mapping.others.iter().map(|other| format!("`{}`", other.name)).collect();
    refused.dedup();
    let refused = if refused.is_empty() { String::new() } else { format!("; refused beside {}", refused.join(", ")) };
    format!("{}{refused}", said.join("; "))
}

/// The numbers of the first way to a quantity, and whether there are other ways.
fn places(quantity: &Quantity) -> String {
    let fields: Vec<_> = quantity.iter().take(1).flatten().collect();
    let place = |field: &Field| {
        let pointer = field.pointer.as_ref().map_or_else(String::new, |pointer| format!(" `{}`", pointer.text()));
        format!("`{}`{pointer}", field.topic)
    };
    let others = if quantity.len() > 1 { ", or elsewhere" } else { "" };
    match fields[..] {
        [] => String::new(),
        [one] => place(one) + others,
        [one, less] if less.sign != one.sign => format!("{} less {}{others}", place(one), place(less)),
        [one, .., last] => format!("{} to {}, added{others}", place(one), place(last)),
    }
}
