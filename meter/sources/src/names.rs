//! What a number is, by its name, for bridges whose owners or makers choose the names: scripts of Tasmota, and zigbee2mqtt.
//!
//! A name is cut into words, and its words say which register of a meter it is: `Total_in`, `E_in`, `1_8_0` and
//! `export_total_kwh` are what an OBIS code is elsewhere. The rule is strict: where an object has more of a quantity than can be
//! put together (a phase without the others, a second counter, a list of channels), it is refused. A part of a home's load
//! never passes for the whole.

use serde_json::{Map, Value};

use crate::mapping::Trouble;
use crate::sample::{Values, finer};
use crate::units::Unit;

/// Which quantities are to be read by name; the others are the owner's to place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) power: bool,
    pub(crate) import: bool,
    pub(crate) export: bool,
}

impl Wanted {
    pub(crate) const ALL: Self = Self { power: true, import: true, export: true };

    const fn has(self, quantity: Quantity) -> bool {
        match quantity {
            Quantity::Power | Quantity::PowerIn | Quantity::PowerUsed | Quantity::PowerOut => self.power,
            Quantity::Import => self.import,
            Quantity::Export => self.export,
            Quantity::Delivered => self.import || self.export,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    /// Net.
    Power,
    /// What is taken, never negative.
    PowerIn,
    /// What is used: net, unless what is fed in is said apart.
    PowerUsed,
    PowerOut,
    Import,
    Export,
    /// A word that one half of the world uses for import and the other for export.
    Delivered,
}

/// Which part of a quantity a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Its name says that it is all of it.
    Total,
    /// Its name says nothing.
    Plain,
    /// From 0 to 2.
    Phase(usize),
    /// From 0 to 3.
    Tariff(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Meaning {
    quantity: Quantity,
    part: Part,
    unit: Unit,
    /// Whether the name has a word for its direction.
    says_direction: bool,
}

/// What a name says.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// Nothing that a sample is made of.
    Nothing,
    /// A power, or a counter: nobody knows.
    Unclear,
    Meaning(Meaning),
}

/// Reads the numbers of an object; `None` if it has none that a sample is made of. The error says what is in the way, and no
/// number.
pub(crate) fn read(object: &Map<String, Value>, wanted: Wanted) -> Result<Option<Values>, Trouble> {
    let mut parts: Vec<Number> = Vec::new();
    let refuse = |problem: String| Err(Trouble::Refused(problem));
    for (name, value) in object {
        let meaning = match said(name) {
            Said::Nothing => continue,
            Said::Unclear => return refuse(format!("`{name}` may be a power or a counter; {CHOOSE}")),
            Said::Meaning(meaning) if !wanted.has(meaning.quantity) => continue,
            Said::Meaning(meaning) => meaning,
        };
        let text = match value {
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.trim().to_owned(),
            Value::Array(_) => return refuse(format!("`{name}` has several channels; {CHOOSE}")),
            Value::Object(_) => continue,
            Value::Null | Value::Bool(_) => String::new(),
        };
        let number = meaning.unit.read(&text).ok_or_else(|| Trouble::Lost(format!("`{name}` is not a number")))?;
        let step = if meaning.unit.is_power() { None } else { meaning.unit.step(&text) };
        parts.push(Number { name: name.clone(), meaning, number, step });
    }
    if parts.is_empty() {
        return Ok(None);
    }
    let is_producing = object.get("energy_flow").and_then(Value::as_str) == Some("producing");
    let values = settle_import(&mut parts).and_then(|()| {
        let power = power(&parts)?.map(|power| if is_producing { -power.abs() } else { power });
        let (import, export) = (sum(&parts, Quantity::Import)?, sum(&parts, Quantity::Export)?);
        let step = parts.iter().fold(None, |step, part| finer(step, part.step));
        Ok(Values { import, export, power, step })
    });
    values.map(Some).map_err(Trouble::Refused)
}

/// What the owner can do about a name that is not clear.
const CHOOSE: &str = "say with `power`, `import` and `export` what is the grid's";

#[derive(Debug)]
struct Number {
    name: String,
    meaning: Meaning,
    number: i64,
    step: Option<i64>,
}

/// Takes a counter whose name has no direction for import, unless another says that it is, and `delivered` for the direction
/// that has no other counter.
fn settle_import(parts: &mut Vec<Number>) -> Result<(), String> {
    let is_import = |part: &Number| part.meaning.quantity == Quantity::Import;
    if parts.iter().any(|part| is_import(part) && part.meaning.says_direction) {
        parts.retain(|part| !is_import(part) || part.meaning.says_direction);
    }
    let has = |parts: &[Number], quantity| parts.iter().any(|part| part.meaning.quantity == quantity);
    let direction = match (has(parts, Quantity::Import), has(parts, Quantity::Export)) {
        (true, false) => Quantity::Export,
        (false, true) => Quantity::Import,
        (true, true) | (false, false) => {
            return match parts.iter().find(|part| part.meaning.quantity == Quantity::Delivered) {
                Some(part) => Err(format!("`{}` may be import or export; {CHOOSE}", part.name)),
                None => Ok(()),
            };
        }
    };
    let delivered = parts.iter_mut().filter(|part| part.meaning.quantity == Quantity::Delivered);
    delivered.for_each(|part| part.meaning.quantity = direction);
    Ok(())
}

/// The net power, if the object has all of it.
fn power(parts: &[Number]) -> Result<Option<i64>, String> {
    let [net, taken, used, fed] =
        [Quantity::Power, Quantity::PowerIn, Quantity::PowerUsed, Quantity::PowerOut].map(|part| sum(parts, part));
    Ok(match (net?, taken?, used?, fed?) {
        (Some(net), ..) => Some(net),
        (None, Some(taken), _, Some(fed)) | (None, None, Some(taken), Some(fed)) => Some(taken.saturating_sub(fed)),
        (None, None, Some(used), None) => Some(used),
        // What is taken, without what is fed in: whether there is any, only counters tell.
        (None, Some(_), _, None) | (None, None, None, _) => None,
    })
}

/// All of a quantity: its total, or the sum of its tariffs or phases.
fn sum(parts: &[Number], quantity: Quantity) -> Result<Option<i64>, String> {
    let of = |wanted: Part| {
        let mut found = parts.iter().filter(|part| part.meaning.quantity == quantity && part.meaning.part == wanted);
        let first = found.next();
        match first.zip(found.find(|other| Some(other.number) != first.map(|first| first.number))) {
            Some((one, other)) => {
                Err(format!("`{}` and `{}` say the same, and differ; {CHOOSE}", one.name, other.name))
            }
            None => Ok(first),
        }
    };
    let (total, plain) = (of(Part::Total)?, of(Part::Plain)?);
    let phases = [of(Part::Phase(0))?, of(Part::Phase(1))?, of(Part::Phase(2))?];
    let tariffs = [of(Part::Tariff(0))?, of(Part::Tariff(1))?, of(Part::Tariff(2))?, of(Part::Tariff(3))?];
    let number = |part: Option<&Number>| part.map_or(0, |part| part.number);
    let of_phases = phases.iter().fold(0i64, |sum, phase| sum.saturating_add(number(*phase)));
    match (total, plain, phases) {
        (Some(total), Some(plain), [None, None, None]) if total.number != plain.number => {
            Err(format!("`{}` and `{}` say the same, and differ; {CHOOSE}", total.name, plain.name))
        }
        (Some(total), ..) => Ok(Some(total.number)),
        (None, Some(plain), [None, None, None]) => Ok(Some(plain.number)),
        // The other phases are named, so what has no name is the first.
        (None, Some(plain), [None, Some(_), Some(_)]) => Ok(Some(plain.number.saturating_add(of_phases))),
        (None, Some(plain), [Some(first), _, Some(_)] | [Some(first), Some(_), _]) => {
            let from_sum = plain.number.abs_diff(of_phases);
            if from_sum <= 10_000 || from_sum < plain.number.abs_diff(first.number) {
                Ok(Some(plain.number))
            } else {
                Err(format!("`{}` is not the sum of its phases; {CHOOSE}", plain.name))
            }
        }
        // One phase of a meter that has only one.
        (None, Some(plain), [Some(first), None, None]) if plain.number.abs_diff(first.number) <= 10_000 => {
            Ok(Some(plain.number))
        }
        (None, None, [Some(_), Some(_), Some(_)]) => Ok(Some(of_phases)),
        (None, None, [None, None, None]) => {
            if let [Some(tariff), None, None, None] | [None, Some(tariff), None, None] = tariffs {
                return Err(format!("`{}` is one tariff, and the others are missing; {CHOOSE}", tariff.name));
            }
            let all = tariffs.iter().flatten().map(|tariff| tariff.number);
            Ok(all.reduce(|sum, tariff| sum.saturating_add(tariff)))
        }
        (None, _, phases) => {
            let name = phases.into_iter().flatten().next().map_or("", |phase| &phase.name);
            Err(format!("`{name}` is one phase, and the others are missing; {CHOOSE}"))
        }
    }
}

/// What a name with one of these words is, it is not what a home takes from the grid or feeds into it now.
#[rustfmt::skip]
const OTHER: &[&str] = &[
    "reactive", "reac", "react", "reative", "blind", "var", "kvar", "varh", "kvarh", "apparent", "aprt", "schein", "va", "kva", "factor",
    "pf", "cos", "angle", "volt", "volts", "voltage", "spannung", "amp", "amps", "ampere", "amperage", "strom", "freq", "frequency",
    "hz", "id", "number", "serial", "time", "date", "start", "temp", "temperature", "demand", "peak", "max", "min", "avg", "average",
    "limit", "setpoint", "threshold", "today", "yesterday", "daily", "daytotal", "week", "month", "monthly", "mo", "year", "season",
    "period", "reset", "gas", "water", "heat", "cost", "price", "solar", "pv", "battery", "akku", "batterie", "inverter", "wr", "heatpump", "hp",
    "wallbox", "ev", "yield", "ertrag", "load", "house", "outage", "count", "behavior", "behaviour", "on", "off", "mode", "type", "source",
    "status", "state", "alarm", "fault", "flow", "quality", "version", "calibration", "precision", "interval", "delay", "breaker", "prepayment",
];
const POWER: &[&str] = &["power", "pwr", "leistung", "wirkleistung", "momentanwirkleistung", "momentanleistung", "p"];
#[rustfmt::skip]
const ENERGY: &[&str] = &[
    "energy", "energie", "enrg", "nrg", "en", "e", "counter", "zaehler", "zähler", "zaehlerstand", "zählerstand", "stand", "wirkenergie", "wirk",
    "tariflos",
];
const TOTAL: &[&str] = &["total", "tot", "sum", "summ", "summe", "gesamt", "ges", "tariflos"];
const NOW: &[&str] =
    &["current", "curr", "cur", "actual", "act", "akt", "aktuell", "aktuelle", "momentan", "now", "instant"];
const TAKEN: &[&str] = &["in", "import", "imp", "imported", "forward", "pos"];
#[rustfmt::skip]
const USED: &[&str] = &[
    "consumed", "consumption", "verbrauch", "gesamtverbrauch", "verbraucht", "verb", "bezug", "netzbezug", "bezogen", "used", "use", "usage",
];
#[rustfmt::skip]
const FED: &[&str] = &[
    "out", "export", "exp", "exported", "neg", "einspeisung", "gesamteinspeisung", "einsp", "eingespeist", "feed", "feedin", "fed", "geliefert", "supply",
    "supplied", "returned", "return", "ret", "produced", "production", "generated", "generation", "erzeugung", "output", "reverse",
];
const DELIVERED: &[&str] = &["delivered", "delivery", "lieferung"];

fn said(name: &str) -> Said {
    let words = words(name);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some(code) = words.windows(3).find_map(obis_code) {
        return by_code(code, unit_of(&words));
    }
    let any = |list: &[&str]| words.iter().any(|word| list.contains(word));
    // `total_7d` is what was used in seven days.
    if any(OTHER) || words.windows(2).any(|pair| is_number(pair[0]) && pair[1] == "d") {
        return Said::Nothing;
    }
    let (phase, tariff) = (phase(&words), tariff(&words));
    let is_used = any(USED);
    let unit = unit_of(&words);
    // A `p` before a number is a phase.
    let is_power_word = words.iter().enumerate().any(|(at, word)| {
        let is_phase = *word == "p" && words.get(at + 1).is_some_and(|next| is_number(next));
        POWER.contains(word) && !is_phase
    });
    let is_power_word = is_power_word || is_used && any(NOW);
    let is_direction =
        any(&["import", "export", "imported", "exported", "bezug", "netzbezug", "einspeisung", "supply"]);
    let is_energy_word = any(ENERGY) || any(TOTAL) || is_used || is_direction || any(DELIVERED) || any(&["produced"]);
    let has_direction = any(TAKEN) || any(FED);
    let unit = match (unit, is_power_word, is_energy_word) {
        (Some(unit), ..) => unit,
        (None, true, _) if tariff.is_some() || any(TOTAL) && has_direction || any(ENERGY) => return Said::Unclear,
        (None, true, _) => Unit::W,
        (None, false, true) if any(NOW) => return Said::Nothing,
        (None, false, true) => Unit::KiloWh,
        (None, false, false) => return Said::Nothing,
    };
    let part = match (phase, tariff) {
        (Phases::One(phase), _) => Part::Phase(phase),
        (Phases::None, Some(Some(tariff))) => Part::Tariff(tariff),
        // A list of tariffs, or which of them counts.
        (Phases::None, Some(None)) => return Said::Nothing,
        (Phases::All, _) => Part::Total,
        (Phases::None, None) if any(TOTAL) => Part::Total,
        (Phases::None, None) => Part::Plain,
    };
    let quantity = match (unit.is_power(), any(FED), any(TAKEN)) {
        (_, false, false) if any(DELIVERED) && !unit.is_power() => Quantity::Delivered,
        // Fed in.
        (true, true, _) => Quantity::PowerOut,
        (false, true, _) => Quantity::Export,
        (true, false, true) => Quantity::PowerIn,
        (true, false, false) if is_used => Quantity::PowerUsed,
        (true, false, false) => Quantity::Power,
        (false, false, _) => Quantity::Import,
    };
    Said::Meaning(Meaning { quantity, part, unit, says_direction: is_used || has_direction })
}

/// Cuts a name into words and numbers, in small letters. A sign counts as a word at the end, as in `zaehler_a-`.
fn words(name: &str) -> Vec<String> {
    let name = name.replace("kWh", "kwh").replace("KWh", "kwh").replace("kW", "kw").replace("KW", "kw");
    let mut words: Vec<String> = Vec::new();
    let mut before: Option<char> = None;
    for letter in name.chars() {
        let goes_on = before.is_some_and(|before| {
            let is_camel = before.is_lowercase() && letter.is_uppercase();
            before.is_alphabetic() && letter.is_alphabetic() && !is_camel
                || before.is_ascii_digit() && letter.is_ascii_digit()
        });
        if letter.is_alphanumeric() {
            match words.last_mut().filter(|_| goes_on) {
                Some(word) => word.extend(letter.to_lowercase()),
                None => words.push(letter.to_lowercase().collect()),
            }
        }
        before = Some(letter);
    }
    if words.last().is_some_and(|word| word == "a") {
        match before {
            Some('+') => words.push("pos".to_owned()),
            Some('-') => words.push("neg".to_owned()),
            Some(_) | None => {}
        }
    }
    words
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// An OBIS code in a name, such as `1_8_0` or `16.7.0`.
fn obis_code(words: &[&str]) -> Option<[u8; 3]> {
    let [c, d, e] = words else { return None };
    let code = [c.parse().ok()?, d.parse().ok()?, e.parse().ok()?];
    matches!(code[1], 7 | 8).then_some(code)
}

fn by_code(code: [u8; 3], unit: Option<Unit>) -> Said {
    let (quantity, part) = match code {
        [1, 8, 0] => (Quantity::Import, Part::Total),
        [2, 8, 0] => (Quantity::Export, Part::Total),
        [1, 8, tariff @ 1..=4] => (Quantity::Import, Part::Tariff(usize::from(tariff) - 1)),
        [2, 8, tariff @ 1..=4] => (Quantity::Export, Part::Tariff(usize::from(tariff) - 1)),
        [16, 7, 0] => (Quantity::Power, Part::Total),
        [1, 7, 0] => (Quantity::PowerIn, Part::Total),
        [2, 7, 0] => (Quantity::PowerOut, Part::Total),
        [36, 7, 0] => (Quantity::Power, Part::Phase(0)),
        [56, 7, 0] => (Quantity::Power, Part::Phase(1)),
        [76, 7, 0] => (Quantity::Power, Part::Phase(2)),
        _ => return Said::Nothing,
    };
    let is_power = code[1] == 7;
    let usual = if is_power { Unit::W } else { Unit::KiloWh };
    let unit = unit.filter(|unit| unit.is_power() == is_power).unwrap_or(usual);
    Said::Meaning(Meaning { quantity, part, unit, says_direction: true })
}

fn unit_of(words: &[&str]) -> Option<Unit> {
    words.iter().find_map(|word| match *word {
        "w" | "watt" | "watts" => Some(Unit::W),
        "kw" => Some(Unit::KiloW),
        "wh" => Some(Unit::Wh),
        "kwh" => Some(Unit::KiloWh),
        "mwh" => Some(Unit::MegaWh),
        _ => None,
    })
}

enum Phases {
    None,
    One(usize),
    All,
}

/// The phase that a name has: `L1`, `p2`, `phase_b`, or a letter at its end.
fn phase(words: &[&str]) -> Phases {
    let numbered = words.windows(2).filter_map(|pair| match (pair[0], pair[1]) {
        ("l" | "p" | "ph" | "phase", "1" | "a") => Some(0),
        ("l" | "p" | "ph" | "phase", "2" | "b") => Some(1),
        ("l" | "p" | "ph" | "phase", "3" | "c") => Some(2),
        _ => None,
    });
    let mut numbered: Vec<usize> = numbered.collect();
    if let [.., _, last @ ("a" | "b" | "c")] = words
        && numbered.is_empty()
    {
        numbered.push(usize::from(last.as_bytes()[0] - b'a'));
    }
    numbered.sort_unstable();
    numbered.dedup();
    match numbered[..] {
        [] => Phases::None,
        [phase] => Phases::One(phase),
        _ => Phases::All,
    }
}

/// The tariff that a name has: `T1`, `tarif_2`, or the names of day and night. Without a number it is no counter of its own.
#[expect(clippy::option_option, reason = "no tariff, and a tariff without a number, are two things")]
fn tariff(words: &[&str]) -> Option<Option<usize>> {
    let at = words.iter().position(|word| ["t", "tarif", "tariff"].contains(word));
    if let Some(at) = at {
        let number = words.get(at + 1).and_then(|number| number.parse::<usize>().ok());
        // `T1-1` is the season before.
        let is_alone = words.get(at + 2).is_none_or(|next| !is_number(next));
        return Some(number.filter(|number| (1..=4).contains(number) && is_alone).map(|number| number - 1));
    }
    words.iter().find_map(|word| match *word {
        "ht" | "day" | "tag" => Some(Some(0)),
        "nt" | "night" | "nacht" => Some(Some(1)),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
