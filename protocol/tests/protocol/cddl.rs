//! Real messages against `docs/protocol.cddl`, and wrong ones, which must not fit it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cddl::ast::CDDL;
use cddl::cddl_from_str;
use cddl::validator::Validator;
use cddl::validator::cbor::CBORValidator;
use cddl::validator::cbor_value::decode_cbor;
use coset::cbor::value::Value;
use coset::cbor::{from_reader, into_writer};

use crate::support::messages::{self, Sealed};
use crate::support::pki::Pki;

const DOCUMENT: &str = include_str!("../../../docs/protocol.cddl");

const ID: &str = "[a-z0-9][a-z0-9_-]{0,63}";

/// Integers that the grammar does not bound: times, and the number of partners (any from N-1 on means all).
const UNBOUNDED: [(&str, usize); 6] = [
    ("recovery-request", 5), // deadline
    ("enrolment", 4),
    ("enrolment", 5),
    ("enrolment", 6),
    ("list-header", 17), // w
    ("retry", 4),
];

#[test]
fn every_message_fits_its_own_rule() {
    let all = messages::all(&Pki::new());
    assert_eq!(all.len(), 9);
    for message in &all {
        assert_fits(message.rule, &message.envelope);
        assert_fits("message", &message.envelope);
        assert_fits(&payload_rule(message), &message.payload);
    }
}

#[test]
fn no_message_fits_the_rule_of_another() {
    let all = messages::all(&Pki::new());
    for message in &all {
        for other in all.iter().filter(|other| other.rule != message.rule) {
            assert!(!fits(other.rule, &message.envelope), "{} as {}", message.rule, other.rule);
        }
    }
}

#[test]
fn no_payload_fits_with_a_field_of_another_kind_length_type_or_range() {
    for message in messages::all(&Pki::new()) {
        let rule = payload_rule(&message);
        let fields = array(&message.payload);
        for at in 0..fields.len() {
            for (defect, wrong) in wrong_values(&message, at, &fields[at]) {
                let mut fields = fields.clone();
                fields[at] = wrong;
                assert!(!fits(&rule, &encode(&Value::Array(fields))), "{rule}, field {at}: {defect}");
            }
        }
        let more = [fields.clone(), vec![Value::from(0)]].concat();
        assert!(!fits(&rule, &encode(&Value::Array(more))), "{rule} with an extra field");
        let fewer = fields[..fields.len() - 1].to_vec();
        assert!(!fits(&rule, &encode(&Value::Array(fewer))), "{rule} without its last field");
    }
}

#[test]
fn no_envelope_fits_with_another_algorithm_header_payload_or_tag() {
    for message in messages::all(&Pki::new()) {
        let parts = array(&message.envelope);
        let certified = matches!(&parts[1], Value::Map(header) if !header.is_empty());
        let chain = Value::Map(vec![(Value::from(33), Value::Array(vec![Value::Bytes(vec![1])]))]);
        let other = Value::Map(vec![(Value::from(4), Value::Bytes(vec![1]))]);
        let wrong = [
            ("the other algorithm", 0, Value::Bytes(vec![0xa1, 0x01, 0x05])),
            ("no protected header", 0, Value::Bytes(vec![])),
            ("a protected header that is a map", 0, Value::Map(vec![])),
            ("an array of certificates", 1, chain),
            ("a key id", 1, other),
            ("the wrong presence of a certificate", 1, presence(!certified)),
            ("a payload that is an array", 2, Value::Array(vec![])),
            ("a detached payload", 2, Value::Null),
            ("a payload of another kind", 2, Value::Bytes(vec![0x81, 0x08])),
            ("a short tag", 3, Value::Bytes(vec![0; 7])),
            ("a long tag", 3, Value::Bytes(vec![0; 65])),
        ];
        for (defect, at, value) in wrong {
            let mut parts = parts.clone();
            parts[at] = value;
            let bytes = encode(&Value::Array(parts));
            assert!(!fits(message.rule, &bytes), "{}: {defect}", message.rule);
            assert!(!fits("message", &bytes), "{} as a message: {defect}", message.rule);
        }
        let more = [parts.clone(), vec![Value::Null]].concat();
        assert!(!fits(message.rule, &encode(&Value::Array(more))), "{} with a fifth part", message.rule);
    }
}

#[test]
fn a_list_of_none_and_a_list_with_a_broken_entry_do_not_fit() {
    let (_, list) = messages::membership_list(&Pki::new());
    assert_fits("full-list", &list);
    let fields = array(&list);
    let entries = fields[1].as_array().expect("the enrolments").clone();
    let mut broken = entries.clone();
    broken[3] = Value::Bytes(messages::status(&Pki::new()).envelope);
    for (defect, entries) in [("no member", vec![]), ("a status as an entry", broken)] {
        let mut fields = fields.clone();
        fields[1] = Value::Array(entries);
        assert!(!fits("full-list", &encode(&Value::Array(fields))), "{defect}");
    }
}

#[test]
fn a_short_list_fits_with_and_without_holders_and_not_with_a_broken_one() {
    let list = messages::short_list(&Pki::new());
    assert_fits("short-list", &list);
    let fields = array(&list);
    let with = |at: usize, value: Value| {
        let mut fields = fields.clone();
        fields[at] = value;
        encode(&Value::Array(fields))
    };
    let mut empty = fields.clone();
    (empty[1], empty[2]) = (Value::Array(vec![]), Value::Bytes(vec![]));
    assert_fits("short-list", &encode(&Value::Array(empty)));
    let status = Value::Bytes(messages::status(&Pki::new()).envelope);
    let holder = fields[1].as_array().expect("the holders")[0].clone();
    for (defect, bytes) in [
        ("a status as a holder", with(1, Value::Array(vec![status.clone()]))),
        ("a status as its header", with(0, status)),
        ("257 holders", with(1, Value::Array(vec![holder; 257]))),
        ("digests of more than 10,000 members", with(2, Value::Bytes(vec![1; 80_001]))),
        ("digests as an array", with(2, Value::Array(vec![]))),
        ("no digests", encode(&Value::Array(fields[..2].to_vec()))),
        ("a fourth part", encode(&Value::Array([fields.clone(), vec![Value::Null]].concat()))),
    ] {
        assert!(!fits("short-list", &bytes), "{defect}");
    }
    assert!(!fits("full-list", &list) && !fits("short-list", &messages::membership_list(&Pki::new()).1));
}

/// What must not stand in place of a field.
fn wrong_values(message: &Sealed, at: usize, value: &Value) -> Vec<(&'static str, Value)> {
    let mut wrong = vec![("null", Value::Null), ("a float", Value::Float(1.5))];
    if let Value::Bytes(bytes) = value {
        // Of the fields without a fixed length, one is a bitmap, one a list hash or nothing, one evidence or nothing, one has
        // 32 bytes for each authority, and one 8 for each correction, of which there may be none.
        let (short, long) = match (message.rule, at) {
            ("recovery-request", 4) => (Some(0), 1251),
            ("status", 2) => (Some(7), 9),
            ("status", 7) => (Some(1), 64),
            ("list-header", 7) => (Some(31), 513),
            ("dealt-reading", 5) => (None, 2041),
            _ => (Some(bytes.len() - 1), bytes.len() + 1),
        };
        wrong.extend(short.map(|short| ("too short", Value::Bytes(vec![1; short]))));
        wrong.push(("too long", Value::Bytes(vec![1; long])));
        wrong.push(("text", Value::Text("1".repeat(bytes.len()))));
    }
    if value.is_text() {
        wrong.extend(["", "North", "-north", "no/rth"].map(|text| ("no id", Value::from(text))));
        wrong.push(("too long an id", Value::Text("n".repeat(65))));
    }
    if value.is_integer() {
        // Not bytes: the validator wrongly takes a byte string for a number in a range.
        wrong.push(("text", Value::from("1")));
        if !UNBOUNDED.contains(&(message.rule, at)) {
            wrong.push(("too large", Value::from(1u64 << 40)));
        }
        if (message.rule, at) != ("list-header", 19) {
            wrong.push(("negative", Value::from(-1)));
        }
    }
    wrong
}

fn presence(certified: bool) -> Value {
    if certified { Value::Map(vec![(Value::from(33), Value::Bytes(vec![0x30]))]) } else { Value::Map(vec![]) }
}

fn payload_rule(message: &Sealed) -> String {
    format!("{}-payload", message.rule)
}

fn fits(rule: &str, bytes: &[u8]) -> bool {
    validate(rule, bytes).is_ok()
}

fn assert_fits(rule: &str, bytes: &[u8]) {
    if let Err(why) = validate(rule, bytes) {
        panic!("{rule}: {why}");
    }
}

/// Says why bytes do not fit a rule.
fn validate(rule: &str, bytes: &[u8]) -> Result<(), String> {
    let value = decode_cbor(bytes).map_err(|why| why.to_string())?;
    GRAMMARS.with_borrow_mut(|grammars| {
        let grammar = grammars.entry(rule.to_owned()).or_insert_with(|| parse(rule));
        CBORValidator::new(grammar, value, None).validate().map_err(|why| why.to_string())
    })
}

thread_local! {
    /// The grammar for each rule that it starts with. To parse it takes longer than to validate most messages.
    static GRAMMARS: RefCell<BTreeMap<String, CDDL<'static>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Parses the grammar. The validator starts at a document's first rule, and a `.regexp` covers the whole text (RFC 8610,
/// 3.8.3), which this validator must be told.
fn parse(rule: &str) -> CDDL<'static> {
    let anchored = DOCUMENT.replace(&format!("\"{ID}\""), &format!("\"^{ID}$\""));
    assert_ne!(anchored, DOCUMENT, "the grammar of ids is not where it was");
    let document: &'static str = format!("start = {rule}\n{anchored}").leak();
    cddl_from_str(document, true).unwrap()
}

fn array(bytes: &[u8]) -> Vec<Value> {
    from_reader::<Value, _>(bytes).unwrap().into_array().unwrap()
}

fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    into_writer(value, &mut bytes).unwrap();
    bytes
}
