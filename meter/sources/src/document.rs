//! JSON documents of bridges, in which no name may occur twice.
//!
//! Some scripts give the counters of import and export the same name. A parser that keeps the last of them, as `serde_json`
//! does, would take one for the other.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Why a document cannot be used. No value of it appears here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DocumentError {
    NotJson,
    Twice(String),
}

/// Reads a document.
pub(crate) fn parse(text: &[u8]) -> Result<Value, DocumentError> {
    let mut twice = None;
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let document = Unique(&mut twice).deserialize(&mut deserializer);
    let document = document.and_then(|document| deserializer.end().map(|()| document));
    document.map_err(|_| twice.map_or(DocumentError::NotJson, DocumentError::Twice))
}

/// Reads a value, and notes the first name that occurs twice in one object.
struct Unique<'t>(&'t mut Option<String>);

impl<'de> DeserializeSeed<'de> for Unique<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Unique(self.0))?;
            if object.insert(name.clone(), value).is_some() {
                *self.0 = Some(name);
                return Err(A::Error::custom("a name occurs twice"));
            }
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Unique(self.0))? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_read_as_it_is() {
        let text = br#" {"a":[1,-2,3.25,"x",null,true],"b":{"a":{}}} "#;
        assert_eq!(parse(text), Ok(json!({"a": [1, -2, 3.25, "x", null, true], "b": {"a": {}}})));
        for text in [&b"{"[..], b"", b"{} x", b"nan"] {
            assert_eq!(parse(text), Err(DocumentError::NotJson));
        }
    }

    #[test]
    fn a_name_that_occurs_twice_is_not_chosen_between() {
        assert_eq!(parse(br#"{"SML":{"energy":5702,"energy":85}}"#), Err(DocumentError::Twice("energy".to_owned())));
        assert!(parse(br#"{"A":{"energy":5702},"B":{"energy":85}}"#).is_ok());
    }
}
