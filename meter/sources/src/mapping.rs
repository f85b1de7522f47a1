//! From messages and documents to samples: which number is where, in which unit and with which sign, and how messages that
//! each carry a part are put together.

use serde_json::Value;

use crate::document::{self, DocumentError};
use crate::names::{self, Wanted};
use crate::pointer::{Ambiguous, Pointer};
use crate::sample::{Values, finer};
use crate::units::{Sign, Unit};

/// Why a message is not used. No number of it appears here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The meter behind the bridge is gone.
    Lost(String),
    /// What comes is not the whole of the home, or contradicts itself.
    Refused(String),
}

impl Trouble {
    /// The same, with where it was found.
    fn at(self, topic: &str) -> Self {
        let named = |problem: String| if topic.is_empty() { problem } else { format!("{topic}: {problem}") };
        match self {
            Self::Lost(problem) => Self::Lost(named(problem)),
            Self::Refused(problem) => Self::Refused(named(problem)),
        }
    }
}

/// Where one number is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// The topic that carries it; empty where there is only one document.
    pub(crate) topic: String,
    /// Its place in a JSON document; without it, the message is the number.
    pub(crate) pointer: Option<Pointer>,
    pub(crate) unit: Unit,
    pub(crate) sign: Sign,
}

/// A document whose numbers are known by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) topic: String,
    pub(crate) groups: Groups,
    pub(crate) wanted: Wanted,
}

/// Where in a document the names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Groups {
    /// In the document itself.
    Root,
    /// In the member of this name.
    Only(&'static str),
    /// In any one of its members.
    Any,
}

/// A channel that a bridge has beside those that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Other {
    pub(crate) topic: String,
    pub(crate) pointer: Option<Pointer>,
    pub(crate) name: String,
}

/// A quantity: the sum of some numbers, in one of several ways. The first way counts of which everything is known.
pub(crate) type Quantity = Vec<Vec<Field>>;

/// Which numbers a sample is made of.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) power: Quantity,
    pub(crate) import: Quantity,
    pub(crate) export: Quantity,
    pub(crate) named: Option<Named>,
    /// What shows that the numbers are not all.
    pub(crate) others: Vec<Other>,
    /// Whether there is nothing that could feed in, so that the counter of export is always zero.
    pub(crate) import_only: bool,
    /// Whether an import of exactly zero only says that a bridge has not read its meter yet.
    pub(crate) zero_is_unread: bool,
}

impl Mapping {
    fn fields(&self) -> impl Iterator<Item = &Field> {
        [&self.power, &self.import, &self.export].into_iter().flatten().flatten()
    }

    /// Whether the messages of a topic are documents.
    fn reads_json(&self, topic: &str) -> bool {
        let pointers = self.fields().map(|field| (&field.topic, &field.pointer));
        let pointers = pointers.chain(self.others.iter().map(|other| (&other.topic, &other.pointer)));
        let mut pointers = pointers.filter(|(_, pointer)| pointer.is_some()).map(|(topic, _)| topic);
        pointers.any(|with| with == topic) || self.named.iter().any(|named| named.topic == topic)
    }

    /// The topics that carry something, each once.
    pub(crate) fn topics(&self) -> Vec<String> {
        let mut topics: Vec<_> = self.fields().map(|field| field.topic.clone()).collect();
        topics.extend(self.named.iter().map(|named| named.topic.clone()));
        topics.extend(self.others.iter().map(|other| other.topic.clone()));
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
    /// What names said, and when.
    named: Option<(Values, u64)>,
    members: Members,
    /// How long a number is good for, in milliseconds.
    good_for: Option<u64>,
    /// Once there is another channel, there always is.
    refused: Option<Trouble>,
}

/// The document of a bridge that may leave out what has not changed.
#[derive(Default)]
struct Members(Value);

impl Members {
    /// Returns a document together with the members that it had before, where it has no groups.
    fn with(&mut self, document: Value, groups: Groups) -> &Value {
        match (&mut self.0, document) {
            (Value::Object(before), Value::Object(now)) if groups == Groups::Root => before.extend(now),
            (before, now) => *before = now,
        }
        &self.0
    }
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members").finish_non_exhaustive()
    }
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
        Self { mapping, seen, named: None, members: Members::default(), good_for, refused: None }
    }

    /// Forgets what was seen.
    pub(crate) fn clear(&mut self) {
        self.seen.fill(None);
        self.named = None;
        self.members = Members::default();
    }

    /// Takes in a message; returns whether it carried anything. The error says what in it is no number, and not what it is.
    pub(crate) fn take(&mut self, topic: &str, message: &[u8], now: u64) -> Result<bool, Trouble> {
        let document = if self.mapping.reads_json(topic) { Some(parse(topic, message)?) } else { None };
        for other in self.mapping.others.iter().filter(|other| other.topic == topic) {
            let found = other.pointer.as_ref().zip(document.as_ref());
            let is_there = found.is_none_or(|(pointer, document)| pointer.find(document) != Ok(None));
            if is_there && self.refused.is_none() {
                let name = &other.name;
                let problem =
                    format!("{name} is another channel; say with `power`, `import` and `export` which are the grid's");
                self.refused = Some(Trouble::Refused(problem));
            }
        }
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let mut carried = false;
        for (field, seen) in self.mapping.fields().zip(&mut self.seen).filter(|(field, _)| field.topic == topic) {
            let found = match field.pointer.as_ref().zip(document.as_ref()) {
                None => Some(std::str::from_utf8(message).unwrap_or_default().trim().to_owned()),
                Some((pointer, document)) => number(document, pointer).map_err(|Ambiguous| several(topic))?,
            };
            let Some(found) = found else { continue };
            let value = field.unit.read(&found).ok_or_else(|| no_number(topic))?;
            *seen = Some(Seen { value: field.sign.apply(value), step: field.unit.step(&found), at: now });
            carried = true;
        }
        if let Some((named, document)) = self.mapping.named.as_ref().zip(document)
            && named.topic == topic
            && let Some(values) =
                by_name(self.members.with(document, named.groups), named).map_err(|trouble| trouble.at(topic))?
        {
            if self.mapping.zero_is_unread && values.import == Some(0) {
                return Err(Trouble::Lost("the bridge has not read its meter yet".to_owned()));
            }
            self.named = Some((values, now));
            carried = true;
        }
        self.seen_now(now).import_only(self.mapping.import_only).map_err(|trouble| trouble.at(topic))?;
        Ok(carried)
    }

    /// What is known now.
    pub(crate) fn values(&self, now: u64) -> Values {
        // What contradicts itself was not taken in.
        self.seen_now(now).import_only(self.mapping.import_only).unwrap_or_default()
    }

    fn seen_now(&self, now: u64) -> Values {
        let mut seen = self.seen.iter();
        let mut values = match self.named {
            Some((values, at)) if self.is_good(at, now) => values,
            Some(_) | None => Values::default(),
        };
        for (quantity, sum) in [
            (&self.mapping.power, &mut values.power),
            (&self.mapping.import, &mut values.import),
            (&self.mapping.export, &mut values.export),
        ] {
            for way in quantity {
                let parts: Vec<_> =
                    seen.by_ref().take(way.len()).map(|seen| seen.filter(|seen| self.is_good(seen.at, now))).collect();
                let parts: Option<Vec<_>> = parts.into_iter().collect();
                if let Some(parts) = parts.filter(|parts| !parts.is_empty() && sum.is_none()) {
                    *sum = Some(parts.iter().fold(0, |sum: i64, part| sum.saturating_add(part.value)));
                    values.step = parts.iter().fold(values.step, |step, part| finer(step, part.step));
                }
            }
        }
        values
    }

    fn is_good(&self, at: u64, now: u64) -> bool {
        self.good_for.is_none_or(|good_for| now.saturating_sub(at) <= good_for)
    }
}

pub(crate) fn parse(topic: &str, message: &[u8]) -> Result<Value, Trouble> {
    document::parse(message).map_err(|error| match error {
        DocumentError::NotJson => Trouble::Lost(format!("{} is not JSON", name(topic))),
        DocumentError::Twice(twice) => {
            let problem = format!("`{twice}` occurs twice; give each of them a name of its own in the bridge");
            Trouble::Refused(problem).at(topic)
        }
    })
}

/// What the numbers of a document say by their names, in the one group that says anything.
pub(crate) fn by_name(document: &Value, named: &Named) -> Result<Option<Values>, Trouble> {
    let read = |group: &Value| group.as_object().map_or(Ok(None), |group| names::read(group, named.wanted));
    match named.groups {
        Groups::Root => read(document),
        Groups::Only(name) => document.get(name).map_or(Ok(None), read),
        Groups::Any => {
            let mut found = None;
            for group in document.as_object().into_iter().flat_map(|document| document.values()) {
                if let Some(values) = read(group)?
                    && found.replace(values).is_some()
                {
                    return Err(several(""));
                }
            }
            Ok(found)
        }
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

/// A topic as a problem names it; a device that is asked has only one document.
fn name(topic: &str) -> &str {
    if topic.is_empty() { "it" } else { topic }
}

fn no_number(topic: &str) -> Trouble {
    Trouble::Lost(if topic.is_empty() {
        "a value is not a number".to_owned()
    } else {
        format!("{topic} is not a number")
    })
}

fn several(topic: &str) -> Trouble {
    Trouble::Refused("has several matching groups; name the right one with `pointer`".to_owned()).at(topic)
}
