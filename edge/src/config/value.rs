//! A key of a section, and the types that its value may have.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use toml::de::DeValue;

use super::{Place, Section};

/// A key that is declared; one of the functions that consume it reads its value.
#[must_use]
#[derive(Debug, Clone, Copy)]
pub struct Key<'s, 'r> {
    section: &'s Section<'r>,
    name: &'static str,
    is_overridable: bool,
    example: Option<&'static str>,
}

/// A value as it was found.
#[derive(Clone, Copy)]
enum Found<'v> {
    InFile(&'v DeValue<'v>),
    /// Text that stands for any type.
    InEnvironment(&'v str),
}

impl<'s, 'r> Key<'s, 'r> {
    pub(super) const fn new(section: &'s Section<'r>, name: &'static str) -> Self {
        Self { section, name, is_overridable: false, example: None }
    }

    /// Lets an environment variable replace it.
    pub const fn overridable(self) -> Self {
        Self { is_overridable: true, ..self }
    }

    /// Refuses a file without it; the example is a value as it is written.
    pub const fn required(self, example: &'static str) -> Self {
        Self { example: Some(example), ..self }
    }

    pub fn text(self) -> Option<String> {
        self.value(|found| self.as_text(found).map(Cow::into_owned))
    }

    /// A path, from the folder of the file.
    pub fn path(self) -> Option<PathBuf> {
        self.text().map(|path| self.section.resolve(path))
    }

    pub fn texts(self) -> Option<Vec<String>> {
        self.value(|found| {
            let items = match found {
                Found::InFile(DeValue::Array(items)) => items,
                Found::InFile(DeValue::String(text)) => {
                    return Err(format!("{text:?} is text; write a list: {} = [{text:?}]", self.name));
                }
                Found::InFile(other) => {
                    return Err(format!("{}; write a list, such as [\"a\", \"b\"]", what(self.name, other)));
                }
                Found::InEnvironment(text) => return Ok(text.split(',').map(|part| part.trim().to_owned()).collect()),
            };
            items.iter().map(|item| self.as_text(Found::InFile(item.get_ref())).map(Cow::into_owned)).collect()
        })
    }

    pub fn paths(self) -> Option<Vec<PathBuf>> {
        Some(self.texts()?.iter().map(|path| self.section.resolve(path)).collect())
    }

    pub fn flag(self) -> Option<bool> {
        self.value(|found| match found {
            Found::InFile(DeValue::Boolean(flag)) => Ok(*flag),
            Found::InEnvironment("true") => Ok(true),
            Found::InEnvironment("false") => Ok(false),
            Found::InFile(_) | Found::InEnvironment(_) => {
                Err(format!("{}; use true or false, without quotes", self.what(found)))
            }
        })
    }

    /// A whole number within bounds.
    pub fn number<T: TryFrom<i128> + PartialOrd + Display>(self, allowed: RangeInclusive<T>) -> Option<T> {
        self.value(|found| self.as_number(found, &allowed))
    }

    /// A list of whole numbers, of this length.
    pub fn numbers<const N: usize>(self) -> Option<[i64; N]> {
        self.value(|found| {
            let Found::InFile(DeValue::Array(items)) = found else {
                return Err(format!("{}; write a list of {N} whole numbers", self.what(found)));
            };
            let all = items.iter().map(|item| self.as_number(Found::InFile(item.get_ref()), &(i64::MIN..=i64::MAX)));
            let all = all.collect::<Result<Vec<i64>, String>>()?;
            let count = all.len();
            all.try_into().map_err(|_| format!("a list of {count}; write one of {N} whole numbers"))
        })
    }

    /// A decimal, with or without quotes, as it is written: nothing is rounded.
    pub fn decimal<T>(self, parse: impl Fn(&str) -> Option<T>, allowed: &str) -> Option<T> {
        self.value(|found| {
            let text = match found {
                Found::InEnvironment(text) => text.to_owned(),
                Found::InFile(DeValue::String(text)) => text.to_string(),
                // A float of up to 15 digits prints as it was written.
                Found::InFile(DeValue::Float(number)) => {
                    number.as_str().parse().map_or_else(|_| number.to_string(), |number: f64| number.to_string())
                }
                Found::InFile(DeValue::Integer(number)) => number.to_string(),
                Found::InFile(other) => return Err(format!("{}; {allowed}", what(self.name, other))),
            };
            let is_quoted = matches!(found, Found::InFile(DeValue::String(_)));
            let shown = || if is_quoted { self.shown(&text) } else { text.clone() };
            parse(&text).ok_or_else(|| format!("{} is not allowed; {allowed}", shown()))
        })
    }

    /// Text that means something; the error says what else it could be.
    pub fn parsed<T, E: Display>(self, parse: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        self.value(|found| {
            let text = self.as_text(found)?;
            parse(&text).map_err(|error| format!("{}: {error}", self.shown(&text)))
        })
    }

    /// One of some names.
    pub fn one_of<T: Copy>(self, names: &[(&str, T)]) -> Option<T> {
        self.value(|found| {
            let text = self.as_text(found)?;
            let named = names.iter().find(|(name, _)| *name == text);
            named.map(|(_, value)| *value).ok_or_else(|| {
                format!("{} is not allowed; {}", self.shown(&text), one_of(&text, names.iter().map(|(name, _)| *name)))
            })
        })
    }

    /// Reads the value here, and in the defaults as well, so that a mistake in them is found too. A mistake is noted.
    fn value<T>(self, read: impl Fn(Found<'_>) -> Result<T, String>) -> Option<T> {
        let Section { reader, defaults, .. } = self.section;
        let key = self.section.at(self.name);
        let taken = |written: String, place: Place, found: Found<'_>| {
            let known = (written.clone(), place.clone());
            reader.notes.borrow_mut().places.insert(key.clone(), known);
            read(found).map_err(|message| reader.wrong(written, place, message)).ok()
        };
        if self.is_overridable {
            let name = format!("{}{}", reader.variables.prefix, key.replace('.', "_").to_uppercase());
            reader.notes.borrow_mut().variables.push(name.clone());
            if let Some(text) = reader.variables.values.get(&name) {
                return taken(key.clone(), Place::Variable(name), Found::InEnvironment(text));
            }
        }
        let mut value = None;
        for Section { path, table, .. } in defaults.as_deref().into_iter().chain([self.section]) {
            let Some((at, found)) = table.and_then(|table| table.get_key_value(self.name)) else { continue };
            let place = reader.line(at.span().start);
            value = Some(taken(super::join(path, self.name), place, Found::InFile(found.get_ref())));
        }
        if let (None, Some(example)) = (&value, self.example) {
            self.section.missing(self.name, &format!("for example {} = {example}", self.name));
        }
        value.flatten()
    }

    fn as_text<'v>(&self, found: Found<'v>) -> Result<Cow<'v, str>, String> {
        match found {
            Found::InFile(DeValue::String(text)) => Ok(Cow::Borrowed(text)),
            Found::InEnvironment(text) => Ok(Cow::Borrowed(text)),
            Found::InFile(value) => match written(value) {
                Some(value) if !is_secret(self.name) => {
                    Err(format!("{}; write it in quotes: {} = \"{value}\"", self.what(found), self.name))
                }
                Some(_) => Err(format!("{}; write it in quotes", self.what(found))),
                None => Err(format!("{}; write one text in quotes", self.what(found))),
            },
        }
    }

    fn as_number<T: TryFrom<i128> + PartialOrd + Display>(
        &self,
        found: Found<'_>,
        allowed: &RangeInclusive<T>,
    ) -> Result<T, String> {
        let (least, most) = (allowed.start(), allowed.end());
        let number = match found {
            Found::InFile(DeValue::Integer(number)) => i128::from_str_radix(number.as_str(), number.radix()).ok(),
            Found::InEnvironment(text) => {
                Some(text.parse().map_err(|_| format!("{text:?} is not a whole number; use {least} to {most}"))?)
            }
            Found::InFile(DeValue::Float(number)) => {
                return Err(format!("{} is not a whole number; use {least} to {most}", number.as_str()));
            }
            Found::InFile(DeValue::String(text)) if text.parse::<i128>().is_ok() => {
                return Err(format!("{text:?} is text; write the number without quotes: {} = {text}", self.name));
            }
            Found::InFile(_) => return Err(format!("{}; use a whole number from {least} to {most}", self.what(found))),
        };
        let within = number.and_then(|number| T::try_from(number).ok()).filter(|number| allowed.contains(number));
        let shown = number.map_or_else(|| "the number".to_owned(), |number| number.to_string());
        within.ok_or_else(|| format!("{shown} is out of range; use {least} to {most}"))
    }

    fn what(&self, found: Found<'_>) -> String {
        match found {
            Found::InFile(value) => what(self.name, value),
            Found::InEnvironment(text) => format!("{} is text", self.shown(text)),
        }
    }

    fn shown(&self, text: &str) -> String {
        shown(self.name, text)
    }
}

/// Says what a value is.
pub(super) fn what(name: &str, value: &DeValue<'_>) -> String {
    let kind = match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    };
    match (value, written(value)) {
        (DeValue::String(text), _) => format!("{} is {kind}", shown(name, text)),
        (_, Some(value)) if !is_secret(name) => format!("{value} is {kind}"),
        (_, Some(_)) => format!("the value is {kind}"),
        (_, None) => format!("this is {kind}"),
    }
}

/// Returns a value that has no quotes and no parts, as it is written.
fn written(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Datetime(time) => Some(time.to_string()),
        DeValue::String(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Writes a text in quotes, unless it may hold a password: of a secret, or before the `@` of a URL.
fn shown(name: &str, text: &str) -> String {
    if is_secret(name) || text.contains('@') { "the value".to_owned() } else { format!("{text:?}") }
}

fn is_secret(name: &str) -> bool {
    ["password", "secret", "token"].iter().any(|word| name.contains(word))
}

/// Says which of some names may be meant, or else which there are.
pub fn one_of<'n>(text: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    if let Some(meant) = nearest(text, names.clone()) {
        return format!("did you mean {meant:?}?");
    }
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("use {} or {last}", others.join(", ")),
        Some(_) | None => format!("use {}", names.concat()),
    }
}

/// Returns the name that a text is a slip of: a third of its letters at most are wrong.
pub(super) fn nearest<'n>(text: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let slips = |name: &str| strsim::osa_distance(&text.to_lowercase(), name);
    let near = names.map(|name| (slips(name), name)).filter(|(slips, name)| 3 * slips <= name.len().max(text.len()));
    near.min_by_key(|(slips, _)| *slips).map(|(_, name)| name)
}

impl fmt::Debug for Found<'_> {
    /// Without the value, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InFile(_) => "InFile",
            Self::InEnvironment(_) => "InEnvironment",
        })
    }
}
