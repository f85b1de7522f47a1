//! The description of the API says what is answered, and nothing else.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use dream_gateway::board::ClusterView;
use dream_gateway::board::readiness::Latch;
use dream_testkit::lab::http::Answer;
use serde_json::Value;

use crate::api::filled;
use crate::fixture::{Asked, listed, proven, with_holders};

/// The description, and which of its fields were met in answers.
struct Description {
    document: Value,
    met: BTreeSet<String>,
}

impl Description {
    fn of(gateway: &Asked) -> Self {
        let answer = gateway.get("/api/v1/openapi.json");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        Self { document: answer.json(), met: BTreeSet::new() }
    }

    fn paths(&self) -> BTreeSet<String> {
        self.document["paths"].as_object().unwrap().keys().cloned().collect()
    }

    /// The names of a path's parameters in the query.
    fn parameters(&self, path: &str) -> Vec<&str> {
        let all = self.document["paths"][path]["get"]["parameters"].as_array();
        let query = all.into_iter().flatten().filter(|parameter| parameter["in"] == "query");
        query.map(|parameter| parameter["name"].as_str().unwrap()).collect()
    }

    /// Checks an answer: its status, its type, and its body if that is JSON.
    fn check(&mut self, path: &str, answer: &Answer) {
        let response = self.document["paths"][path]["get"]["responses"][answer.status.to_string()].clone();
        let kind = answer.header("content-type").unwrap().split(';').next().unwrap();
        let schema = &response["content"][kind]["schema"];
        assert!(schema.is_object(), "{path}: {} with {kind} is not described", answer.status);
        self.met.insert(format!("{path} {} {kind}", answer.status));
        if kind == "application/json" {
            self.check_value(schema, &answer.json(), path);
        }
    }

    fn check_value(&mut self, schema: &Value, value: &Value, at: &str) {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.strip_prefix("#/components/schemas/").unwrap();
            let schema = self.document["components"]["schemas"][name].clone();
            return self.check_value(&schema, value, name);
        }
        if let Some([schema, null]) = schema["oneOf"].as_array().map(Vec::as_slice) {
            assert_eq!(null["type"], "null", "{at}");
            if !value.is_null() {
                self.check_value(schema, value, at);
            }
            return;
        }
        let allowed = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
        assert!(allowed.iter().any(|kind| is_a(kind.as_str().unwrap(), value)), "{at} is {value}, not {allowed:?}");
        if let Some(words) = schema["enum"].as_array() {
            assert!(words.contains(value), "{at} is {value}, not one of {words:?}");
        }
        if let (Some(known), Some(fields)) = (schema["properties"].as_object(), value.as_object()) {
            let required = schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            required.for_each(|name| assert!(fields.contains_key(name), "{at}: {name} is missing"));
            for (name, value) in fields {
                let schema = known.get(name).unwrap_or_else(|| panic!("{at}.{name} is not described"));
                if !value.is_null() {
                    self.met.insert(format!("{at}.{name}"));
                }
                self.check_value(schema, value, &format!("{at}.{name}"));
            }
        }
        for item in value.as_array().into_iter().flatten() {
            self.check_value(&schema["items"], item, at);
        }
    }

    /// Everything that the description promises.
    fn promised(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for (name, schema) in self.document["components"]["schemas"].as_object().unwrap() {
            fields(name, schema, &mut all);
        }
        for (path, item) in self.document["paths"].as_object().unwrap() {
            for (status, response) in item["get"]["responses"].as_object().unwrap() {
                let kinds = response["content"].as_object().unwrap().keys();
                all.extend(kinds.map(|kind| format!("{path} {status} {kind}")));
            }
        }
        all
    }
}

fn fields(at: &str, schema: &Value, all: &mut BTreeSet<String>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        all.insert(format!("{at}.{name}"));
        fields(&format!("{at}.{name}"), schema, all);
    }
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    }
}

#[test]
fn every_path_for_programs_is_described_and_every_described_path_exists() {
    let routes = include_str!("../../src/http.rs").split(".route(\"").skip(1);
    let routes = routes.map(|rest| rest.split('"').next().unwrap());
    // Everything else is for people.
    let for_programs = |path: &&str| path.starts_with("/api/") || path.ends_with('z') || *path == "/metrics";
    let routes: BTreeSet<String> = routes.filter(for_programs).map(str::to_owned).collect();
    assert_eq!(Description::of(&filled()).paths(), routes);
}

#[test]
fn answers_have_the_fields_that_are_described_and_no_others_and_all_are_met() {
    let gateway = filled();
    let mut description = Description::of(&gateway);
    let (clusters, cluster) = ("/api/v1/clusters", "/api/v1/clusters/{id}");
    let history = "/api/v1/clusters/{id}/history";
    let (slots, membership) = ("/api/v1/clusters/{id}/slots", "/api/v1/clusters/{id}/membership");
    let group_history = "/api/v1/groups/{id}/history";
    let (groups, group, group_slots) = ("/api/v1/groups", "/api/v1/groups/{id}", "/api/v1/groups/{id}/slots");
    let (evidence, one) = ("/api/v1/clusters/{id}/evidence", "/api/v1/clusters/{id}/evidence/{number}");
    let asked = [
        (clusters, "/api/v1/clusters"),
        (clusters, "/api/v1/clusters?after=x"),
        (cluster, "/api/v1/clusters/north"),
        (cluster, "/api/v1/clusters/north?x=1"),
        (cluster, "/api/v1/clusters/nowhere"),
        (slots, "/api/v1/clusters/north/slots"),
        (slots, "/api/v1/clusters/north/slots?format=csv"),
        (slots, "/api/v1/clusters/north/slots?limit=0"),
        (slots, "/api/v1/clusters/nowhere/slots"),
        (history, "/api/v1/clusters/north/history"),
        (history, "/api/v1/clusters/north/history?step=hour&format=csv"),
        (history, "/api/v1/clusters/north/history?step=slot"),
        (history, "/api/v1/clusters/nowhere/history"),
        (membership, "/api/v1/clusters/north/membership"),
        (membership, "/api/v1/clusters/north/membership?x=1"),
        (membership, "/api/v1/clusters/waiting/membership"),
        (evidence, "/api/v1/clusters/north/evidence"),
        (evidence, "/api/v1/clusters/north/evidence?x=1"),
        (evidence, "/api/v1/clusters/nowhere/evidence"),
        (one, "/api/v1/clusters/north/evidence/1"),
        (one, "/api/v1/clusters/north/evidence/1?x=1"),
        (one, "/api/v1/clusters/north/evidence/2"),
        (groups, "/api/v1/groups"),
        (groups, "/api/v1/groups?x=1"),
        (group, "/api/v1/groups/region"),
        (group, "/api/v1/groups/region?x=1"),
        (group, "/api/v1/groups/nowhere"),
        (group_slots, "/api/v1/groups/region/slots"),
        (group_slots, "/api/v1/groups/region/slots?format=csv"),
        (group_slots, "/api/v1/groups/region/slots?limit=0"),
        (group_slots, "/api/v1/groups/nowhere/slots"),
        (group_history, "/api/v1/groups/region/history"),
        (group_history, "/api/v1/groups/region/history?step=hour&format=csv"),
        (group_history, "/api/v1/groups/region/history?step=year"),
        (group_history, "/api/v1/groups/nowhere/history"),
        ("/api/v1/openapi.json", "/api/v1/openapi.json"),
        ("/metrics", "/metrics"),
        ("/livez", "/livez"),
        ("/healthz", "/healthz"),
        ("/readyz", "/readyz"),
    ];
    let north = gateway.fixture.board.cluster("north").unwrap();
    let north = with_holders((*north).clone(), 98, 1);
    let pairwise = ClusterView { no_committee: Some("too few are willing".into()), ..listed("pairwise", 100) };
    gateway.fixture.group("region", &["north", "stalled"], &[]);
    gateway.fixture.board.show([ClusterView { evidence: proven(), ..north }, pairwise]);
    for (path, asked) in asked {
        description.check(path, &gateway.get(asked));
    }
    Latch::ALL.into_iter().for_each(|latch| gateway.fixture.readiness.set(latch));
    description.check("/readyz", &gateway.get("/readyz"));
    gateway.fixture.past.broken.store(true, Ordering::Relaxed);
    description.check(slots, &gateway.get("/api/v1/clusters/north/slots"));
    description.check(group_slots, &gateway.get("/api/v1/groups/region/slots"));
    description.check(group_history, &gateway.get("/api/v1/groups/region/history"));
    description.check(history, &gateway.get("/api/v1/clusters/north/history"));
    let missing: Vec<_> = description.promised().difference(&description.met).cloned().collect();
    assert_eq!(missing, Vec::<String>::new(), "described, and in no answer");
}

#[test]
fn the_parameters_that_are_described_are_those_that_are_allowed() {
    let gateway = filled();
    let description = Description::of(&gateway);
    gateway.fixture.group("north", &["north"], &[]);
    let asked = |path: &&String| ["/api/v1/clusters", "/api/v1/groups"].iter().any(|known| path.starts_with(known));
    for path in description.paths().iter().filter(asked) {
        let answer = gateway.get(&format!("{}?nonsense=1", path.replace("{id}", "north").replace("{number}", "1")));
        let allowed = description.parameters(path);
        let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
        assert_eq!(answer.json()["error"]["allowed"], allowed, "{path}");
    }
}
