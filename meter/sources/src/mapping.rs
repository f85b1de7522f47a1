//! From messages and documents to samples: which number is where, in which unit and with which sign, and how messages that
//! each carry a part are put together.

use serde_json::Value;

use crate::pointer::{Ambiguous, Pointer};
use crate::sample::{Values, finer};
use crate::units::{Sign, Unit};

/// Where one number is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// The topic that carries it; empty where there is only one document.
    pub(crate) topic: String,
    /// Its place in a JSON document; without it, the message is the number.
    pub(crate) pointer: Option<Pointer>,
    pub(crate) unit: Unit,
    pub(crate) sign: Sign,
    /// Where the direction is said apart, and which word there means export.
    pub(crate) direction: Option<(Pointer, &'static str)>,
}

/// A quantity: the sum of some numbers, in one of several ways. The first way counts of which everything is known.
pub(crate) type Quantity = Vec<Vec<Field>>;

/// Which numbers a sample is made of.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) power: Quantity,
    pub(crate) import: Quantity,
    pub(crate) export: Quantity,
    /// Whether there is nothing that could feed in, so that the counter of export is always zero.
    pub(crate) import_only: bool,
    /// Whether an import of exactly zero only says that a bridge has not read its meter yet.
    pub(crate) zero_is_unread: bool,
}

impl Mapping {
    fn fields(&self) -> impl Iterator<Item = &Field> {
        [&self.power, &self.import, &self.export].into_iter().flatten().flatten()
    }

    /// The topics that carry something, each once.
    pub(crate) fn topics(&self) -> Vec<String> {
        let mut topics: Vec<_> = self.fields().map(|field| field.topic.clone()).collect();
        topics.sort();
        topics.dedup();
        topics
    }
}

/// The numbers as they were last seen.
#[derive(Debug)]
pub(crate) struct Overlay {
    mapping: Mapping,
    /// In the order of [`Mapping::fields`].
    seen: Vec<Option<Seen>>,
    /// How long a number is good for, in milliseconds.
    good_for: Option<u64>,
}

#[derive(Clone, Copy)]
struct Seen {
    value: i64,
    step: Option<i64>,
    at: u64,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").finish_non_exhaustive()
    }
}

impl Overlay {
    pub(crate) fn new(mapping: Mapping, good_for: Option<u64>) -> Self {
        let seen = vec![None; mapping.fields().count()];
        Self { mapping, seen, good_for }
    }

    /// Forgets what was seen.
    pub(crate) fn clear(&mut self) {
        self.seen.fill(None);
    }

    /// Takes in a message; returns whether it carried anything. The error says what in it is no number, and not what it is.
    pub(crate) fn take(&mut self, topic: &str, message: &[u8], now: u64) -> Result<bool, String> {
        let mut document = None;
        let mut carried = false;
        let imports = self.mapping.import.concat();
        for (field, seen) in self.mapping.fields().zip(&mut self.seen).filter(|(field, _)| field.topic == topic) {
            let found = match &field.pointer {
                None => Some(std::str::from_utf8(message).unwrap_or_default().trim().to_owned()),
                Some(pointer) => {
                    let document = match &document {
                        Some(document) => document,
                        None => document.insert(
                            serde_json::from_slice::<Value>(message).map_err(|_| format!("{topic} is not JSON"))?,
                        ),
                    };
                    match number(document, pointer) {
                        Ok(found) => found.map(|number| match direction(document, field) {
                            Sign::Import => number,
                            Sign::Export => negated(&number),
                        }),
                        Err(Ambiguous) => return Err(several(topic)),
                    }
                }
            };
            let Some(found) = found else { continue };
            let value = field.unit.read(&found).ok_or_else(|| no_number(topic))?;
            if self.mapping.zero_is_unread && value == 0 && imports.contains(field) {
                return Err("the bridge has not read its meter yet".to_owned());
            }
            *seen = Some(Seen { value: field.sign.apply(value), step: field.unit.step(&found), at: now });
            carried = true;
        }
        Ok(carried)
    }

    /// What is known now.
    pub(crate) fn values(&self, now: u64) -> Values {
        let mut seen = self.seen.iter();
        let (mut power, mut import, mut export) = (None, None, None);
        let mut step = None;
        for (quantity, sum) in [
            (&self.mapping.power, &mut power),
            (&self.mapping.import, &mut import),
            (&self.mapping.export, &mut export),
        ] {
            for way in quantity {
                let parts: Vec<_> =
                    seen.by_ref().take(way.len()).map(|seen| seen.filter(|seen| self.is_good(*seen, now))).collect();
                let parts: Option<Vec<_>> = parts.into_iter().collect();
                if let Some(parts) = parts.filter(|parts| !parts.is_empty() && sum.is_none()) {
                    *sum = Some(parts.iter().fold(0, |sum: i64, part| sum.saturating_add(part.value)));
                    step = parts.iter().fold(step, |step, part| finer(step, part.step));
                }
            }
        }
        if self.mapping.import_only && import.is_some() {
            export = Some(0);
        }
        Values { import, export, power, step }
    }

    fn is_good(&self, seen: Seen, now: u64) -> bool {
        self.good_for.is_none_or(|good_for| now.saturating_sub(seen.at) <= good_for)
    }
}

/// The number at a place, as it is written: shortest, and without digits that a float does not have.
fn number(document: &Value, pointer: &Pointer) -> Result<Option<String>, Ambiguous> {
    Ok(pointer.find(document)?.map(|value| match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_owned(),
        // None of these is a number, and the text that stands for them is none either.
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }))
}

fn direction(document: &Value, field: &Field) -> Sign {
    let said = field.direction.as_ref().and_then(|(pointer, export)| {
        let said = pointer.find(document).ok().flatten()?.as_str()?;
        Some(said.eq_ignore_ascii_case(export))
    });
    if said == Some(true) { Sign::Export } else { Sign::Import }
}

/// Turns the sign of a number as text; what already has a minus keeps it.
fn negated(number: &str) -> String {
    if number.starts_with('-') { number.to_owned() } else { format!("-{number}") }
}

fn no_number(topic: &str) -> String {
    if topic.is_empty() { "a value is not a number".to_owned() } else { format!("{topic} is not a number") }
}

fn several(topic: &str) -> String {
    format!("{topic} has several matching groups; name the right one with `pointer`")
}
