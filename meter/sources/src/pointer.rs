//! JSON pointers (RFC 6901), in which `*` stands for any one member.

use serde_json::Value;

/// Where in a JSON document a number is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer(Vec<String>);

/// A `*` that more than one member fits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ambiguous;

impl Pointer {
    /// Reads `/SML/Power_curr` or `/*/Power_curr`; `None` if it does not begin with `/`. `~1` stands for `/` and `~0` for `~`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let steps = text.strip_prefix('/')?.split('/');
        Some(Self(steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect()))
    }

    /// Reads one of a configuration.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        Self::parse(text).ok_or("not a JSON pointer; it begins with `/`, such as \"/ENERGY/Power\"")
    }

    /// The pointer as a configuration writes it.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
    }

    /// Returns what is there, or `None`.
    pub(crate) fn find<'v>(&self, document: &'v Value) -> Result<Option<&'v Value>, Ambiguous> {
        find(document, &self.0)
    }
}

fn find<'v>(document: &'v Value, steps: &[String]) -> Result<Option<&'v Value>, Ambiguous> {
    let Some((step, rest)) = steps.split_first() else { return Ok(Some(document)) };
    match document {
        Value::Object(members) if step == "*" => {
            let mut found = None;
            for member in members.values() {
                if let Some(value) = find(member, rest)?
                    && found.replace(value).is_some()
                {
                    return Err(Ambiguous);
                }
            }
            Ok(found)
        }
        Value::Object(members) => members.get(step).map_or(Ok(None), |member| find(member, rest)),
        Value::Array(items) => {
            let item = step.parse::<usize>().ok().and_then(|index| items.get(index));
            item.map_or(Ok(None), |item| find(item, rest))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pointer_finds_members_items_and_any_member() {
        let document = json!({"Time": "now", "SML": {"Power_curr": 110, "a/b": [1, {"~": 2}]}, "": {"x": 3}});
        let find = |text: &str| Pointer::parse(text).unwrap().find(&document).map(|found| found.cloned());
        assert_eq!(find("/SML/Power_curr"), Ok(Some(json!(110))));
        assert_eq!(find("/*/Power_curr"), Ok(Some(json!(110))));
        assert_eq!(find("/SML/a~1b/1/~0"), Ok(Some(json!(2))));
        assert_eq!(find("//x"), Ok(Some(json!(3))));
        assert_eq!(find("/SML/power"), Ok(None));
        assert_eq!(find("/Time/x"), Ok(None));
        assert_eq!(Pointer::parse("SML"), None);
        assert_eq!(Pointer::parse("/SML/a~1b/1/~0").map(|pointer| pointer.text()).as_deref(), Some("/SML/a~1b/1/~0"));
    }

    #[test]
    fn two_members_that_fit_are_not_chosen_between() {
        let document = json!({"A": {"Power": 1}, "B": {"Power": 2}});
        assert_eq!(Pointer::parse("/*/Power").unwrap().find(&document), Err(Ambiguous));
    }
}
