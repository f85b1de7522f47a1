//! What the gateway answers over HTTP, byte for byte where it matters.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use dream_gateway::board::readiness::Latch;
use dream_gateway::board::{Board, ClusterView};
use dream_gateway::engine::announce;
use dream_gateway::history::{ClosedSlot, FilteredLoad};
use dream_gateway::metrics::Metrics;
use serde_json::{Value, json};

use dream_protocol::ids::ClusterId;
use dream_testkit::lab::http;
use dream_testkit::lab::prometheus::Samples;
use dream_testkit::outcomes::Slotted;

use crate::fixture::{Asked, Fixture, Gateway, LAST_SLOT, METER, NOW, closed, listed, proven, slot_of, waiting};

/// Clusters in every state; `north` has three slots, of which the middle one failed.
fn fill(fixture: &Fixture) {
    let mut north = listed("north", 100);
    for outcome in [
        slot_of(100, LAST_SLOT - 2).decoded(50_000, 100),
        slot_of(100, LAST_SLOT - 1).failed("reveal_missing", 95),
        slot_of(100, LAST_SLOT).decoded(45_000, 90),
    ] {
        fixture.close(&north, closed(outcome));
        north = (*fixture.board.cluster("north").unwrap()).clone();
    }
    let mut stalled = listed("stalled", 100);
    stalled.since = dream_protocol::time::Timestamp::from_secs(NOW.as_secs() - 86_400);
    let mut broken = waiting("broken");
    broken.cannot_form = Some("max_missing leaves no honest member".into());
    fixture.board.show([stalled, broken, waiting("waiting"), listed("fresh", 100)]);
}

pub(crate) fn filled() -> Asked {
    let gateway = Asked::new();
    fill(&gateway.fixture);
    gateway
}

#[test]
fn every_answer_carries_the_security_headers() {
    let gateway = filled();
    let paths = [
        "/",
        "/clusters/north",
        "/clusters/nowhere",
        "/clusters/north/slots",
        "/clusters/north/lists",
        "/gateway",
        "/nothing",
        "/api/v1/clusters",
        "/api/v1/clusters/nowhere",
        "/api/v1/clusters/north/slots?format=csv",
        "/assets/page.js",
        "/metrics",
        "/livez",
        "/readyz",
    ];
    for path in paths {
        let answer = gateway.get(path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{path}: {policy}");
        assert!(policy.ends_with("base-uri 'none'; form-action 'none'; frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
        let cached = if path.starts_with("/assets/") { "no-cache" } else { "no-store" };
        assert_eq!(answer.header("cache-control"), Some(cached), "{path}");
    }
}

#[test]
fn a_filtered_load_is_told_with_its_band_until_it_is_old_and_not_after_a_failed_slot() {
    let told = |last: ClosedSlot, seconds| {
        let board = Board::default();
        board.show([ClusterView { last: Some(last), last_decoded: Some(last), ..waiting("north") }]);
        let text = Metrics::new(&[]).render(&board, last.outcome.end.plus_secs(seconds));
        let about = |line: &&str| line.contains("load_filtered") && !line.starts_with('#');
        text.lines().filter(about).map(str::to_owned).collect::<Vec<_>>()
    };
    let load = Some(FilteredLoad { watts: -1234, band95: 567 });
    let decoded = ClosedSlot { filtered: load, ..ClosedSlot::from(slot_of(100, 7).decoded(-1000, 95)) };
    let both = [
        r#"dream_cluster_load_filtered_band_watts{cluster="north",confidence="0.95"} 567"#,
        r#"dream_cluster_load_filtered_watts{cluster="north"} -1234"#,
    ];
    assert_eq!(told(decoded, 60), both);
    assert_eq!(told(decoded, 2 * 600), both);
    assert_eq!(told(decoded, 2 * 600 + 1), [""; 0]);
    assert_eq!(told(ClosedSlot::from(slot_of(100, 8).failed("reveal_missing", 95)), 60), [""; 0]);
}

#[test]
fn a_demonstration_says_on_every_page_that_it_is_one() {
    let paths = ["/", "/clusters/north", "/nothing"];
    for path in paths {
        assert!(!filled().get(path).text().contains("id=\"notice\""), "{path}");
    }
    let gateway = Asked::with_notice("Some slots were <filled> in.");
    for path in paths {
        let page = gateway.get(path).text().to_owned();
        let notice = page.split("id=\"notice\"").nth(1).unwrap_or_else(|| panic!("{page}"));
        assert!(notice.contains(">16 Nov, 14:43</time> UTC. Some slots were &lt;filled&gt; in.</p>"), "{notice}");
    }
}

#[test]
fn a_slot_of_no_list_says_so() {
    let gateway = filled();
    for slot in [LAST_SLOT - 4, LAST_SLOT - 3] {
        let outcome = Slotted { epoch: 0, ..slot_of(100, slot) }.decoded(50_000, 97);
        gateway.fixture.past.add(&ClusterId::new("north").unwrap(), closed(outcome));
    }
    let page = gateway.get("/clusters/north").text().to_owned();
    assert_eq!(page.matches("data-name=\"List\">none</td>").count(), 2, "{page}");
}

#[test]
fn metrics_are_prometheus_text() {
    let answer = Asked::new().get("/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("# TYPE dream_build_info gauge\ndream_build_info{version="), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
}

/// With 97 of 100 members, 905 W scale to 932.99 W, and no band stays whole either. The noise is so small that the page
/// shows single watts.
#[test]
fn everybody_is_told_the_same_estimate_of_a_slot() {
    let gateway = Asked::new();
    let outcome = Slotted { noise_scale: 7, ..slot_of(100, LAST_SLOT) }.decoded(905, 97);
    let slot = closed(outcome);
    gateway.fixture.close(&listed("north", 100), slot);

    let api = gateway.get("/api/v1/clusters/north").json()["last"].clone();
    let told =
        ["load_estimated_watts", "band95_estimated_watts", "band99_estimated_watts"].map(|name| api[name].clone());
    let [load, band95, band99] = told.each_ref().map(|watts| watts.as_i64().unwrap());
    assert_eq!(load, 933);
    assert!(band95 > api["band95_watts"].as_i64().unwrap() && band99 > band95, "{api}");

    let csv = gateway.get("/api/v1/clusters/north/slots?format=csv");
    let row: Vec<_> = csv.text().lines().nth(1).unwrap().split(',').collect();
    let header = csv.text().lines().next().unwrap();
    let first = header.split(',').position(|name| name == "load_estimated_watts").unwrap();
    assert_eq!(row[first..first + 3], [load, band95, band99].map(|watts| watts.to_string()));

    let (_, message) = announce::aggregate(&ClusterId::new("north").unwrap(), &slot, None);
    let message: Value = serde_json::from_slice(&message).unwrap();
    assert_eq!(api.as_object().unwrap().iter().find(|(name, value)| message[name.as_str()] != **value), None);

    let metrics = Samples::parse(gateway.get("/metrics").text());
    let band = |confidence| {
        let labels = [("cluster", "north"), ("confidence", confidence)];
        metrics.get("dream_cluster_load_estimated_band_watts", &labels)
    };
    let gauges =
        [metrics.get("dream_cluster_load_estimated_watts", &[("cluster", "north")]), band("0.95"), band("0.99")];
    assert_eq!(gauges, [load, band95, band99].map(|watts| Some(watts as f64)));

    let shown = format!("{load}.0 <span class=\"within\">± {band95}.0</span> W");
    assert!(gateway.get("/clusters/north").text().contains(&shown), "the page does not show {shown}");
}

#[test]
fn the_gateway_lives_before_it_is_ready_and_names_what_it_waits_for() {
    let gateway = Asked::new();
    assert_eq!(gateway.get("/livez").text(), "ok\n");
    let ready = || {
        let answer = gateway.get("/readyz");
        (answer.status, answer.text().to_owned())
    };
    let waiting = "not ready, waiting for: store replayed, store writable, broker subscribed, clock right\n";
    assert_eq!(ready(), (503, waiting.into()));
    gateway.fixture.readiness.set(Latch::ClockRight);
    gateway.fixture.readiness.set(Latch::StoreReplayed);
    gateway.fixture.readiness.set(Latch::StoreWritable);
    assert_eq!(ready(), (503, "not ready, waiting for: broker subscribed\n".into()));
    gateway.fixture.readiness.set(Latch::BrokerSubscribed);
    assert_eq!(ready(), (200, "ready\n".into()));
    gateway.fixture.readiness.unset(Latch::BrokerSubscribed);
    assert_eq!(ready().0, 503);
}

#[test]
fn a_last_slot_in_the_future_hides_no_stall() {
    let gateway = Asked::new();
    Latch::ALL.into_iter().for_each(|latch| gateway.fixture.readiness.set(latch));
    let mut carried = listed("north", 100);
    carried.since = dream_protocol::time::Timestamp::from_secs(NOW.as_secs() - 86_400);
    let outcome = Slotted::new(NOW.as_secs() / 600 + 6).failed("too_many_missing", 0);
    carried.last = Some(closed(outcome));
    assert!(carried.is_stalled(NOW));
    gateway.fixture.board.show([carried.clone()]);
    let answer = gateway.get("/readyz");
    assert_eq!((answer.status, answer.text()), (503, "not ready, waiting for: slots closing in time\n"));
    // One that closes slots is enough: a cluster whose members are away is no reason to restart the gateway.
    gateway.fixture.board.show([carried, listed("fresh", 100)]);
    assert_eq!(gateway.get("/readyz").status, 200);
}

#[test]
fn a_cluster_is_told_with_its_parameters_and_its_last_slot() {
    let gateway = filled();
    let north = gateway.get("/api/v1/clusters/north").json();
    insta::assert_snapshot!(serde_json::to_string_pretty(&north).unwrap());
}

#[test]
fn all_clusters_are_told_in_order_with_their_states() {
    let gateway = filled();
    let answer = gateway.get("/api/v1/clusters");
    let body = answer.json();
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!((&body["gateway"], &body["version"]), (&json!("gw-1-0"), &json!(4)));
    assert_eq!(body["now"], "2026-11-16T14:43:20Z");
    let state = |cluster: &Value| format!("{} {}", cluster["id"], cluster["state"]).replace('"', "");
    let states: Vec<_> = body["clusters"].as_array().unwrap().iter().map(state).collect();
    let expected = [
        "broken cannot_form",
        "fresh waiting_for_first_slot",
        "north running",
        "stalled stalled",
        "waiting waiting_for_members",
    ];
    assert_eq!(states, expected);
}

#[test]
fn a_client_that_has_the_newest_version_waits_for_the_next() {
    let gateway = filled();
    let asked = gateway.begin("/api/v1/clusters?after=4");
    gateway.sleep(Duration::from_secs(5));
    assert!(!asked.is_finished(), "nothing has changed yet");
    gateway.fixture.board.show([waiting("another")]);
    let body = gateway.wait(asked).json();
    assert_eq!((&body["version"], body["clusters"].as_array().unwrap().len()), (&json!(5), 6));
}

#[test]
fn any_other_version_is_answered_at_once_also_one_of_an_earlier_life() {
    let gateway = filled();
    for after in ["0", "3", "9999"] {
        assert_eq!(gateway.get(&format!("/api/v1/clusters?after={after}")).json()["version"], 4);
    }
}

#[test]
fn a_gateway_that_ends_keeps_nobody_waiting() {
    let mut gateway = Gateway::start();
    fill(&gateway.fixture);
    let get = |address: SocketAddr, path: &str| http::get(address, path).unwrap();
    let address = gateway.address;
    let waiter = thread::spawn(move || get(address, "/api/v1/clusters?after=4").status);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(get(address, "/livez").status, 200);
    assert!(!waiter.is_finished(), "nothing has changed yet");
    gateway.begin_stop();
    assert_eq!(waiter.join().unwrap(), 200);
}

#[test]
fn slots_are_told_oldest_first_within_range_and_limit() {
    let gateway = filled();
    let slots = |query: &str| {
        let body = gateway.get(&format!("/api/v1/clusters/north/slots{query}")).json();
        let numbers: Vec<_> =
            body["slots"].as_array().unwrap().iter().map(|slot| slot["slot"].as_u64().unwrap()).collect();
        (numbers, body["truncated"].as_bool().unwrap())
    };
    let [a, b, c] = [LAST_SLOT - 2, LAST_SLOT - 1, LAST_SLOT];
    assert_eq!(slots(""), (vec![a, b, c], false));
    assert_eq!(slots("?limit=2"), (vec![b, c], true));
    assert_eq!(slots("?limit=3"), (vec![a, b, c], false));
    // The slots end at 14:20, 14:30 and 14:40.
    assert_eq!(slots("?from=2026-11-16T14:30:00Z"), (vec![b, c], false));
    assert_eq!(slots("?from=2026-11-16T15:25:00%2B01:00&to=2026-11-16T14:40:00Z"), (vec![b], false));
    assert_eq!(slots("?from=0&to=1794839400"), (vec![a], false));
}

#[test]
fn slots_come_as_csv_by_parameter_or_header() {
    let gateway = filled();
    let path = "/api/v1/clusters/north/slots";
    let answer = gateway.get(&format!("{path}?format=csv&limit=2"));
    assert_eq!(answer.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"north-slots.csv\""));
    assert_eq!(answer.header("dream-truncated"), Some("true"));
    insta::assert_snapshot!(answer.text());
    let accepting = gateway.request("GET", path, &[("Accept", "text/csv")]);
    assert!(accepting.text().starts_with(answer.text().lines().next().unwrap()));
    assert_eq!(accepting.header("vary"), Some("accept"));
}

#[test]
fn the_membership_list_is_served_as_it_was_published() {
    let gateway = filled();
    let answer = gateway.get("/api/v1/clusters/north/membership");
    assert_eq!(answer.text(), format!("a signed list with {METER}"));
    assert_eq!(answer.header("content-type"), Some("application/cbor"));
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"north-1794238800.cbor\""));
}

#[test]
fn evidence_is_counted_from_one_and_served_as_it_came() {
    let gateway = filled();
    assert_eq!(gateway.get("/api/v1/clusters/north/evidence").json(), serde_json::json!([]));
    assert!(gateway.get("/api/v1/clusters/north/evidence/1").text().contains("none is kept"));
    gateway.fixture.board.show([ClusterView { evidence: proven(), ..listed("north", 100) }]);
    let shows = format!("two different requests for attempt 0 of slot {LAST_SLOT}");
    let expected = serde_json::json!([{ "number": 1, "gateway": "gw", "shows": shows }]);
    assert_eq!(gateway.get("/api/v1/clusters/north/evidence").json(), expected);
    let answer = gateway.get("/api/v1/clusters/north/evidence/1");
    assert_eq!(answer.text(), "two messages");
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"north-evidence-1.cbor\""));
    assert!(gateway.get("/api/v1/clusters/north/evidence/0").text().contains("numbers 1 to 1 are kept"));
}

#[test]
fn no_meter_is_named_anywhere_else() {
    let gateway = filled();
    let paths = [
        "/",
        "/clusters/north",
        "/clusters/north?range=7d",
        "/clusters/north/slots",
        "/clusters/north/lists",
        "/gateway",
        "/api/v1/clusters",
        "/api/v1/clusters/north",
        "/api/v1/clusters/north/slots",
        "/api/v1/clusters/north/slots?format=csv",
        "/metrics",
    ];
    for path in paths {
        assert!(!gateway.get(path).text().contains("meter-0"), "{path}");
    }
}

#[test]
fn every_mistake_is_named_with_what_is_allowed() {
    let gateway = filled();
    let told = |path: &str| {
        let answer = gateway.get(path);
        format!("{path}\n  {} {}", answer.status, answer.json()["error"])
    };
    let mistakes = [
        "/api/v1/clusters?after=x",
        "/api/v1/clusters?afer=1",
        "/api/v1/clusters/nowhere",
        "/api/v1/clusters/%3Cscript%3E/slots",
        "/api/v1/clusters/nowhere/membership",
        "/api/v1/clusters/waiting/membership",
        "/api/v1/clusters/north?x=1",
        "/api/v1/clusters/north/slots?from=yesterday",
        "/api/v1/clusters/north/slots?to=2026-13-01T00:00:00Z",
        "/api/v1/clusters/north/slots?from=20&to=10",
        "/api/v1/clusters/north/slots?limit=0",
        "/api/v1/clusters/north/slots?limit=100001",
        "/api/v1/clusters/north/slots?limit=-1",
        "/api/v1/clusters/north/slots?format=xml",
        "/api/v1/clusters/%FF",
        "/api/v1/meters",
        "/assets/secret.txt",
    ];
    insta::assert_snapshot!(mistakes.map(told).join("\n"));
}

#[test]
fn only_reading_is_allowed() {
    let gateway = filled();
    for method in ["POST", "PUT", "DELETE"] {
        let answer = gateway.request(method, "/api/v1/clusters", &[]);
        assert_eq!((answer.status, &answer.json()["error"]["allowed"]), (405, &json!("GET, HEAD")));
    }
    let head = gateway.request("HEAD", "/", &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn a_store_that_cannot_be_read_is_told_and_the_overview_still_shows_the_board() {
    let gateway = filled();
    gateway.fixture.past.broken.store(true, Ordering::Relaxed);
    let slots = gateway.get("/api/v1/clusters/north/slots");
    assert_eq!(slots.status, 500);
    assert_eq!(slots.json()["error"]["message"], "the store cannot be read: the disk is gone");
    assert_eq!(gateway.get("/clusters/north").status, 500);
    let overview = gateway.get("/");
    assert_eq!(overview.status, 200);
    assert!(
        overview.text().contains("No chart: the store cannot be read")
            && overview.text().contains("Load of all 100 members")
    );
    gateway.fixture.past.broken.store(false, Ordering::Relaxed);
    assert!(gateway.get("/").text().contains("id=\"spark-north-title\""), "a failure is not remembered");
}

#[test]
fn pages_of_nothing_are_pages_and_escape_what_they_were_asked_for() {
    let gateway = filled();
    for (path, status) in [("/nothing", 404), ("/clusters/%3Cb%3E", 404), ("/clusters/north?range=%3Cb%3E", 400)] {
        let answer = gateway.get(path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (status, Some("text/html; charset=utf-8")),
            "{path}"
        );
        assert!(!answer.text().contains("<b>"), "{path}");
    }
}

#[test]
fn assets_are_cached_for_ever_under_the_version_that_the_page_names() {
    let gateway = Asked::new();
    let page = gateway.get("/");
    for (name, kind) in [("page.css", "text/css"), ("page.js", "text/javascript"), ("icon.svg", "image/svg+xml")] {
        let at = page.text().find(&format!("/assets/{name}?v=")).unwrap();
        let path = page.text()[at..].split('"').next().unwrap();
        let answer = gateway.get(path);
        assert_eq!(answer.status, 200);
        assert!(answer.header("content-type").unwrap().starts_with(kind));
        assert_eq!(answer.header("cache-control"), Some("public, max-age=31536000, immutable"));
        let tag = answer.header("etag").unwrap();
        let again = gateway.request("GET", path, &[("If-None-Match", tag)]);
        assert_eq!((again.status, again.body.len()), (304, 0));
    }
}

#[test]
fn a_page_brings_no_style_and_no_script_of_its_own_and_asks_nobody_else() {
    let gateway = filled();
    for path in ["/", "/clusters/north", "/clusters/waiting"] {
        let page = gateway.get(path);
        let text = page.text();
        for foreign in ["style=", "<style", "onclick", "onload", "http://", "https://", "//"] {
            assert!(!text.contains(foreign), "{foreign} in {path}");
        }
        assert_eq!(text.matches("<script src=").count(), 1, "{path}");
        let data = text.matches("<script type=\"application/json\">").count();
        assert_eq!(text.matches("<script").count(), 1 + data, "{path}: only data besides");
    }
}

#[test]
fn a_thousand_clusters_fit_one_page() {
    let gateway = Asked::new();
    gateway.fixture.board.show((0..1000).map(|number| listed(&format!("cluster-{number:03}"), 100)));
    for number in 0..1000 {
        let view = gateway.fixture.board.cluster(&format!("cluster-{number:03}")).unwrap();
        for slot in LAST_SLOT - 143..=LAST_SLOT {
            gateway.fixture.past.add(&view.cluster, closed(slot_of(100, slot).decoded(50_000, 95)));
        }
        gateway.fixture.close(&view, closed(slot_of(100, LAST_SLOT).decoded(50_000, 95)));
    }
    let page = gateway.get("/");
    assert_eq!(page.text().matches("<li id=\"card-").count(), 1000);
    assert!(page.body.len() < 6_000_000, "{} bytes", page.body.len());
}
