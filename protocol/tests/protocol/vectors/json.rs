//! JSON whose objects keep the order they are written in, so that a vector reads like the calculation it records.

use serde::ser::{Serialize, SerializeMap, Serializer};

#[derive(Debug, Clone)]
pub(crate) enum Json {
    Null,
    Number(serde_json::Number),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(&'static str, Self)>),
}

/// An object in the order of writing.
macro_rules! object {
    ($($key:literal: $value:expr),* $(,)?) => {
        $crate::vectors::json::Json::Object(vec![$(($key, $crate::vectors::json::Json::from($value))),*])
    };
}

pub(crate) use object;

/// Bytes.
pub(crate) fn hex(bytes: impl AsRef<[u8]>) -> Json {
    Json::Text(hex::encode(bytes))
}

/// A number modulo 2^64, as the eight bytes it is sent as.
pub(crate) fn word(value: u64) -> Json {
    hex(value.to_be_bytes())
}

pub(crate) fn list<T>(items: impl IntoIterator<Item = T>, each: impl FnMut(T) -> Json) -> Json {
    Json::List(items.into_iter().map(each).collect())
}

/// The file's text.
pub(crate) fn render(json: &Json) -> String {
    let mut text = serde_json::to_string_pretty(json).unwrap();
    text.push('\n');
    text
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => items.serialize(serializer),
            Self::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (key, value) in fields {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Self {
        Self::Number(number.into())
    }
}

impl From<u8> for Json {
    fn from(number: u8) -> Self {
        u64::from(number).into()
    }
}

impl From<u16> for Json {
    fn from(number: u16) -> Self {
        u64::from(number).into()
    }
}

impl From<Vec<Self>> for Json {
    fn from(items: Vec<Self>) -> Self {
        Self::List(items)
    }
}
