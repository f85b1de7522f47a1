//! Objects that the API tells, as lines of CSV: a column for each field, in the order of the JSON.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// A row with the name of the cluster or group that it is of.
#[derive(Debug, Serialize)]
pub struct NamedRow<'a, R> {
    #[serde(flatten)]
    of: BTreeMap<&'static str, &'a str>,
    #[serde(flatten)]
    row: &'a R,
}

impl<'a, R: Serialize> NamedRow<'a, R> {
    /// Makes a row of, say, the `cluster` of this name.
    pub fn new(kind: &'static str, name: &'a str, row: &'a R) -> Self {
        Self { of: BTreeMap::from([(kind, name)]), row }
    }

    /// Writes the names of the fields, which are those of any row of this type.
    pub fn write_header(&self, out: &mut impl io::Write) -> io::Result<()> {
        self.write(|(name, _)| name, out)
    }

    /// Writes the fields. Nothing needs quotes: ids, times and words have neither commas nor any.
    pub fn write_line(&self, out: &mut impl io::Write) -> io::Result<()> {
        self.write(|(_, value)| cell(&value), out)
    }

    fn write(&self, part: impl Fn((String, Value)) -> String, out: &mut impl io::Write) -> io::Result<()> {
        let Fields(fields) = serde_json::from_slice(&serde_json::to_vec(self)?)?;
        writeln!(out, "{}", fields.into_iter().map(part).collect::<Vec<_>>().join(","))
    }
}

/// Empty where there is nothing to tell.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        Value::Number(_) | Value::Bool(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// The fields of an object, in their order.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = object.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_fields_in_their_order_and_nothing_where_there_is_none() {
        #[derive(Default, Serialize)]
        struct Row {
            watts: i64,
            band: Option<u64>,
            #[serde(flatten)]
            inner: Inner,
        }
        #[derive(Default, Serialize)]
        struct Inner {
            epsilon: f64,
            end: String,
        }
        let inner = Inner { epsilon: 1.0, end: "2026-01-31T12:00:00Z".to_owned() };
        let row = Row { watts: -3, band: None, inner };
        let named = NamedRow::new("cluster", "north", &row);
        let mut file = Vec::new();
        named.write_header(&mut file).unwrap();
        named.write_line(&mut file).unwrap();
        let file = String::from_utf8(file).unwrap();
        assert_eq!(file, "cluster,watts,band,epsilon,end\nnorth,-3,,1,2026-01-31T12:00:00Z\n");
    }
}
