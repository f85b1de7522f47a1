//! Sums of clusters: what the API, the metrics and the pages tell of a group, and when they say that it is a part.

use std::collections::BTreeSet;

use dream_gateway::board::ClusterView;
use dream_gateway::history::{ClosedSlot, FilteredLoad};
use dream_protocol::time::Timestamp;
use dream_testkit::lab::prometheus::Samples;
use serde_json::{Value, json};

use crate::fixture::{Asked, LAST_SLOT, NOW, closed, listed, slot_of};
use crate::pages::{read, says};

/// Closes a slot of a cluster.
fn close(gateway: &Asked, id: &str, closed: ClosedSlot) {
    let view = gateway.fixture.board.cluster(id).map_or_else(|| listed(id, 100), |view| ClusterView::clone(&view));
    gateway.fixture.close(&view, closed);
}

fn decoded(slot: u64, watts: i64, responders: u16) -> ClosedSlot {
    closed(slot_of(100, slot).decoded(watts, responders))
}

fn failed(slot: u64) -> ClosedSlot {
    closed(slot_of(100, slot).failed("too_many_missing", 60))
}

/// Two feeders of a substation, and a cluster that this replica does not serve; `hill` fails in the slot before the last.
fn gateway() -> Asked {
    let gateway = Asked::new();
    gateway.fixture.make_ready();
    for (slot, hill) in [(LAST_SLOT - 1, failed(LAST_SLOT - 1)), (LAST_SLOT, decoded(LAST_SLOT, 30_000, 75))] {
        close(&gateway, "north", decoded(slot, 50_000, 100));
        close(&gateway, "south", decoded(slot, -20_000, 80));
        close(&gateway, "hill", hill);
    }
    gateway.fixture.group("feeder-1", &["north", "south"], &[]);
    gateway.fixture.group("feeder-2", &["hill"], &[]);
    gateway.fixture.group("substation", &[], &["feeder-1", "feeder-2"]);
    gateway.fixture.group("region", &["far-away"], &["substation"]);
    gateway
}

fn numbers(slot: &Value, names: &[&str]) -> Vec<i64> {
    names.iter().map(|name| slot[name].as_i64().unwrap_or_else(|| panic!("{name} in {slot}"))).collect()
}

#[test]
fn a_group_is_the_sum_of_what_its_clusters_tell() {
    let gateway = gateway();
    let of = |path: &str| gateway.get(path).json();
    let clusters = ["north", "south", "hill"].map(|id| of(&format!("/api/v1/clusters/{id}"))["last"].clone());
    let group = of("/api/v1/groups/substation");
    assert_eq!(
        (&group["of"], &group["clusters"], &group["clusters_served"]),
        (&json!(["feeder-1", "feeder-2"]), &json!(3), &json!(3))
    );
    let added = ["load_watts", "load_estimated_watts", "load_filtered_watts", "members", "responders"];
    let expected: Vec<i64> =
        added.iter().map(|name| clusters.iter().map(|slot| slot[name].as_i64().unwrap()).sum()).collect();
    assert_eq!(numbers(&group["last"], &added), expected);
    assert_eq!(numbers(&group["last"], &["clusters", "in_sum"]), [3, 3]);
    // In quadrature, within what sums of few noises differ from that: the tails of three are lighter than those of one.
    for band in
        ["band95_watts", "band99_watts", "band95_estimated_watts", "band99_estimated_watts", "band95_filtered_watts"]
    {
        let bands = clusters.iter().map(|slot| slot[band].as_f64().unwrap());
        let quadrature = bands.map(|band| band * band).sum::<f64>().sqrt();
        let found = group["last"][band].as_f64().unwrap();
        assert!((0.85..=1.0005).contains(&(found / quadrature)), "{band}: {found}, {quadrature}");
    }
    assert_eq!(group["last"]["end"], of("/api/v1/clusters/north")["last"]["end"]);
    let ids: Vec<_> =
        of("/api/v1/groups")["groups"].as_array().unwrap().iter().map(|group| group["id"].clone()).collect();
    assert_eq!(ids, ["feeder-1", "feeder-2", "region", "substation"]);
}

#[test]
fn a_group_of_one_cluster_tells_what_the_cluster_tells() {
    let gateway = gateway();
    let (group, cluster) = (gateway.get("/api/v1/groups/feeder-2").json(), gateway.get("/api/v1/clusters/hill").json());
    for name in [
        "start",
        "end",
        "load_watts",
        "band95_watts",
        "band99_watts",
        "load_estimated_watts",
        "band95_estimated_watts",
        "band99_estimated_watts",
        "load_filtered_watts",
        "band95_filtered_watts",
        "members",
        "responders",
    ] {
        assert_eq!(group["last"][name], cluster["last"][name], "{name}");
    }
}

#[test]
fn past_slots_are_added_up_and_tell_how_many_clusters_are_in_them() {
    let gateway = gateway();
    let told = gateway.get("/api/v1/groups/substation/slots").json();
    let slots = told["slots"].as_array().unwrap();
    assert_eq!(slots.len(), 2);
    // The plain sum without the cluster that failed.
    assert_eq!(numbers(&slots[0], &["clusters", "in_sum", "load_watts", "members"]), [3, 2, 30_000, 200]);
    assert_eq!(numbers(&slots[1], &["clusters", "in_sum", "load_watts", "members"]), [3, 3, 60_000, 300]);
    assert_eq!(slots[1], gateway.get("/api/v1/groups/substation").json()["last"]);
    let newest = gateway.get("/api/v1/groups/substation/slots?limit=1");
    assert_eq!(newest.header("dream-truncated"), Some("true"));
    assert_eq!(newest.json()["slots"].as_array().unwrap(), &slots[1..]);

    // The one cluster of it that failed has a slot and no load.
    let alone = gateway.get("/api/v1/groups/feeder-2/slots").json();
    assert_eq!((&alone["slots"][0]["in_sum"], &alone["slots"][0]["load_estimated_watts"]), (&json!(0), &Value::Null));

    let csv = gateway.get("/api/v1/groups/substation/slots?format=csv");
    assert_eq!(csv.header("content-disposition"), Some("attachment; filename=\"substation-slots.csv\""));
    let mut lines = csv.text().lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let fields: BTreeSet<&str> = slots[0].as_object().unwrap().keys().map(String::as_str).chain(["group"]).collect();
    assert_eq!(columns.iter().copied().collect::<BTreeSet<_>>(), fields);
    for (line, slot) in lines.zip(slots) {
        for (column, cell) in columns.iter().zip(line.split(',')).skip(1) {
            assert_eq!(cell, slot[column].to_string().trim_matches('"'), "{column}");
        }
    }
}

#[test]
fn a_group_waits_for_clusters_that_have_yet_to_close_a_slot_but_not_for_those_that_fail() {
    let gateway = gateway();
    let last = || {
        let last = gateway.get("/api/v1/groups/substation").json()["last"].clone();
        (numbers(&last, &["in_sum", "load_watts"]), last["end"].as_str().unwrap().to_owned())
    };
    let (whole, before) = last();
    assert_eq!(whole, [3, 60_000]);
    gateway.fixture.set_clock(Timestamp::from_secs(NOW.as_secs() + 600));
    close(&gateway, "north", decoded(LAST_SLOT + 1, 51_000, 100));
    close(&gateway, "hill", failed(LAST_SLOT + 1));
    assert_eq!(last(), (vec![3, 60_000], before.clone()), "one has not closed the slot");
    close(&gateway, "south", decoded(LAST_SLOT + 1, -21_000, 80));
    let (partial, end) = last();
    assert_eq!(partial, [2, 30_000], "all have closed it, and one failed");
    assert!(end > before);
    // Two slots on, the one that closes nothing is waited for no longer.
    gateway.fixture.set_clock(Timestamp::from_secs(NOW.as_secs() + 1800));
    for slot in [LAST_SLOT + 2, LAST_SLOT + 3] {
        close(&gateway, "north", decoded(slot, 52_000, 100));
        close(&gateway, "hill", decoded(slot, 8000, 75));
    }
    assert_eq!(last().0, [2, 60_000]);
    gateway.fixture.set_clock(Timestamp::from_secs(NOW.as_secs() + 6 * 600));
    assert_eq!(gateway.get("/api/v1/groups/substation").json()["last"], Value::Null, "too old to stand for now");
}

#[test]
fn metrics_of_a_group_are_those_of_its_api_and_say_when_it_is_a_part() {
    let gateway = gateway();
    let samples = Samples::parse(gateway.get("/metrics").text());
    for group in ["feeder-1", "feeder-2", "substation", "region"] {
        let told = gateway.get(&format!("/api/v1/groups/{group}")).json();
        let of = |name: &str| samples.get(&format!("dream_group_{name}"), &[("group", group)]);
        let band = |name: &str, confidence: &str| {
            samples.get(&format!("dream_group_{name}"), &[("group", group), ("confidence", confidence)])
        };
        let last = |name: &str| told["last"][name].as_f64();
        assert_eq!(of("load_watts"), last("load_watts"));
        assert_eq!(of("load_estimated_watts"), last("load_estimated_watts"));
        assert_eq!(of("load_filtered_watts"), last("load_filtered_watts"));
        assert_eq!(band("load_band_watts", "0.95"), last("band95_watts"));
        assert_eq!(band("load_band_watts", "0.99"), last("band99_watts"));
        assert_eq!(band("load_estimated_band_watts", "0.95"), last("band95_estimated_watts"));
        assert_eq!(band("load_estimated_band_watts", "0.99"), last("band99_estimated_watts"));
        assert_eq!(band("load_filtered_band_watts", "0.95"), last("band95_filtered_watts"));
        assert_eq!(of("clusters"), told["clusters"].as_f64());
        assert_eq!(of("clusters_in_sum"), last("in_sum"));
        assert_eq!(of("clusters_filled"), last("filled"));
    }
    let region = [("group", "region")];
    let counts = ["dream_group_clusters", "dream_group_clusters_in_sum"].map(|name| samples.get(name, &region));
    assert_eq!(counts, [Some(4.0), Some(3.0)], "one cluster is served elsewhere");

    gateway.fixture.set_clock(Timestamp::from_secs(NOW.as_secs() + 6 * 600));
    let samples = Samples::parse(gateway.get("/metrics").text());
    assert_eq!(samples.get("dream_group_load_watts", &region), None, "an old load must not look like a new one");
    assert_eq!(samples.get("dream_group_clusters_in_sum", &region), Some(0.0));
}

#[test]
fn the_overview_shows_groups_as_a_tree() {
    let gateway = gateway();
    let page = read(&gateway, "/");
    let places = [
        "Groups",
        "region",
        "substation",
        "feeder-1",
        "north",
        "south",
        "feeder-2",
        "hill",
        "far-away",
        "Filter clusters",
    ];
    let tree = &page[page.find(" Groups ").unwrap()..];
    let found: Vec<usize> =
        places.iter().map(|name| tree.find(name).unwrap_or_else(|| panic!("{name} in {tree}"))).collect();
    assert!(found.is_sorted(), "{found:?} in {tree}");
    says(tree, "All 3 clusters");
    says(tree, "3 of 4 clusters 3 of 4 clusters are served here");
    says(tree, "far-away – – served by another replica");
    // Nothing of it without groups.
    let without = Asked::new();
    close(&without, "north", decoded(LAST_SLOT, 50_000, 100));
    assert!(!without.get("/").text().contains("groups-heading"));
}

#[test]
fn a_group_of_very_many_clusters_names_some_of_them_in_the_overview() {
    let gateway = Asked::new();
    let names: Vec<String> = (0..30).map(|number| format!("c-{number:02}")).collect();
    for name in &names {
        close(&gateway, name, decoded(LAST_SLOT, 50_000, 100));
    }
    let clusters: Vec<&str> = names.iter().map(String::as_str).collect();
    gateway.fixture.group("town", &clusters, &[]);
    let (overview, page) = (read(&gateway, "/"), read(&gateway, "/groups/town"));
    says(&overview, "and 18 more clusters");
    says(&overview, "All 30 clusters");
    assert!(!page.contains("more clusters"), "{page}");
    says(&page, "c-29");
}

#[test]
fn the_page_of_a_group_tells_its_load_and_what_is_not_in_it() {
    let gateway = gateway();
    let page = read(&gateway, "/groups/substation");
    says(&page, "Load of all members of all 3 clusters, filtered, slot to 14:40");
    says(&page, "own sum, scaled to all members, is wider: 65.0 ± ");
    says(&page, "costs no home any further privacy");
    assert!(!page.contains("Without a sum"), "{page}");
    assert!(gateway.get("/groups/substation").text().contains("href=\"/groups/region\""), "the way up");
    let slots = gateway.get("/groups/substation").text().matches("of 3</td>").count();
    assert_eq!(slots, 2, "recent slots");

    says(&read(&gateway, "/groups/region"), "one of several replicas: 3 of 4 clusters are served here");
    close(&gateway, "hill", failed(LAST_SLOT));
    let page = read(&gateway, "/groups/substation");
    says(&page, "Load of all members of 2 of 3 clusters");
    says(&page, "Without a sum of their own: hill.");

    assert_eq!(gateway.get("/groups/nowhere").status, 404);
    assert_eq!(gateway.get("/groups/north").status, 404, "a cluster is no group");
    assert_eq!(gateway.get("/groups/substation?range=2y").status, 400);
    assert_eq!(gateway.get("/api/v1/groups/nowhere").status, 404);
}

/// A chart's data.
fn chart(gateway: &Asked, path: &str) -> Value {
    let page = gateway.get(path);
    let (_, rest) = page.text().split_once("<script type=\"application/json\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_chart_of_a_group_says_where_clusters_are_missing_and_draws_no_line_into_a_part() {
    let gateway = Asked::new();
    for slot in LAST_SLOT - 9..=LAST_SLOT {
        close(&gateway, "north", decoded(slot, 50_000, 100));
        let missing = slot == LAST_SLOT - 4;
        close(&gateway, "south", if missing { failed(slot) } else { decoded(slot, 40_000, 80) });
    }
    gateway.fixture.group("town", &["north", "south"], &[]);
    let data = chart(&gateway, "/groups/town");
    let partial: Vec<&Value> = data["clusters"].as_array().unwrap().iter().filter(|it| !it.is_null()).collect();
    assert_eq!((data["clusters"].as_array().unwrap().len(), partial), (10, vec![&json!("1 of 2 clusters")]));
    assert_eq!(data["unfiltered"], "_estimated");
    assert_eq!(data["load_estimated_watts"][0], 100_000.0);
    let page = gateway.get("/groups/town");
    assert_eq!(page.text().matches("<polyline class=\"load\"").count(), 3, "before, the part, and after");
    assert_eq!(page.text().matches("<rect class=\"failure\"").count(), 1);
    // A cluster's own chart says nothing of the kind.
    let own = chart(&gateway, "/clusters/north");
    assert_eq!(
        (&own["unfiltered"], own["clusters"].as_array().unwrap().iter().all(Value::is_null)),
        (&json!(""), true)
    );
}

#[test]
fn a_group_with_a_cluster_that_has_no_filtered_load_counts_its_estimate() {
    let gateway = Asked::new();
    close(&gateway, "north", ClosedSlot { filtered: None, ..decoded(LAST_SLOT, 50_000, 80) });
    let filtered = Some(FilteredLoad { watts: 30_000, band95: 1000 });
    close(&gateway, "south", ClosedSlot { filtered, ..decoded(LAST_SLOT, 40_000, 100) });
    gateway.fixture.group("town", &["north", "south"], &[]);
    let last = gateway.get("/api/v1/groups/town").json()["last"].clone();
    assert_eq!(numbers(&last, &["load_filtered_watts"]), [62_500 + 30_000]);
    let north = gateway.get("/api/v1/clusters/north").json()["last"]["band95_estimated_watts"].as_f64().unwrap();
    assert!(last["band95_filtered_watts"].as_f64().unwrap() > north, "{last}");
}

/// The numbers of a period of several clusters.
const ENERGY: [&str; 4] = ["energy_watt_hours", "measured_seconds", "filled_seconds", "missing_seconds"];

#[test]
fn the_energy_of_a_group_is_that_of_its_clusters_and_bands_add_in_quadrature() {
    let gateway = gateway();
    let of = |path: &str| gateway.get(path).json();
    let clusters = ["north", "south", "hill"].map(|id| of(&format!("/api/v1/clusters/{id}"))["energy"].clone());
    let group = of("/api/v1/groups/substation")["energy"].clone();
    let samples = Samples::parse(gateway.get("/metrics").text());
    for period in ["hour", "day", "month"] {
        for name in ENERGY {
            let sum: i64 = clusters.iter().map(|energy| energy[period][name].as_i64().unwrap()).sum();
            // Each is rounded to whole watt-hours by itself.
            let slack = if name == "energy_watt_hours" { 2 } else { 0 };
            let found = group[period][name].as_i64().unwrap();
            assert!((found - sum).abs() <= slack, "{name} of the {period}: {found}, {sum}");
        }
        let bands = clusters.iter().map(|energy| energy[period]["band95_energy_watt_hours"].as_f64().unwrap());
        let quadrature = bands.map(|band| band * band).sum::<f64>().sqrt();
        let found = group[period]["band95_energy_watt_hours"].as_f64().unwrap();
        assert!((0.93..=1.001).contains(&(found / quadrature)), "{period}: {found}, {quadrature}");
        assert_eq!(numbers(&group[period], &["clusters", "in_sum"]), [3, 3]);

        let labels = [("group", "substation"), ("period", period)];
        let joules = |name: &str, labels: &[(&str, &str)]| samples.get(name, labels).unwrap() / 3600.0;
        let told = group[period]["energy_watt_hours"].as_f64().unwrap();
        assert!((joules("dream_group_energy_joules", &labels) - told).abs() <= 0.5);
        let band = joules("dream_group_energy_band_joules", &[&labels[..], &[("confidence", "0.95")]].concat());
        assert!((found - 1.0..=found).contains(&band), "{band}, {found}");
        assert_eq!(samples.get("dream_group_energy_clusters_in_sum", &labels), Some(3.0));
    }
    let region = of("/api/v1/groups/region")["energy"]["day"].clone();
    assert_eq!(numbers(&region, &["clusters", "in_sum"]), [4, 3], "one is served elsewhere");
}

#[test]
fn hours_and_days_of_a_group_are_sums_of_those_of_its_clusters() {
    let gateway = Asked::new();
    // From yesterday on; one of them began this morning.
    for slot in LAST_SLOT - 200..=LAST_SLOT {
        close(&gateway, "north", decoded(slot, 50_000, 100));
        if slot > LAST_SLOT - 40 {
            close(&gateway, "south", decoded(slot, 40_000, 80));
        }
    }
    gateway.fixture.group("town", &["north", "south"], &[]);
    for step in ["hour", "day"] {
        let rows = |of: &str| gateway.get(&format!("/api/v1/{of}/history?step={step}")).json()["periods"].clone();
        let (group, north, south) = (rows("groups/town"), rows("clusters/north"), rows("clusters/south"));
        let (group, south) = (group.as_array().unwrap(), south.as_array().unwrap());
        assert_eq!(group.len(), north.as_array().unwrap().len());
        for (period, one) in group.iter().zip(north.as_array().unwrap()) {
            let other = south.iter().find(|row| row["start"] == period["start"]);
            assert_eq!(period["in_sum"].as_u64(), Some(1 + u64::from(other.is_some())));
            for name in ENERGY.iter().chain(&["load_estimated_watts", "load_filtered_watts"]) {
                let of = |row: &Value| row[*name].as_i64().unwrap();
                let sum = of(one) + other.map_or(0, of);
                assert!((of(period) - sum).abs() <= 1, "{name}: {period} {sum}");
            }
        }
        assert!(group.iter().any(|period| period["in_sum"] == 1) && group.iter().any(|period| period["in_sum"] == 2));
        let csv = gateway.get(&format!("/api/v1/groups/town/history?step={step}&format=csv"));
        let columns: Vec<&str> = csv.text().lines().next().unwrap().split(',').collect();
        for (line, period) in csv.text().lines().skip(1).zip(group) {
            for (column, cell) in columns.iter().zip(line.split(',')).skip(1) {
                let told =
                    period[*column].as_f64().map_or_else(|| period[*column].to_string(), |number| number.to_string());
                assert_eq!(cell, told.trim_matches('"'), "{column}");
            }
        }
        let newest = gateway.get(&format!("/api/v1/groups/town/history?step={step}&limit=1"));
        assert_eq!(newest.header("dream-truncated"), Some("true"));
        assert_eq!(newest.json()["periods"].as_array().unwrap(), &group[group.len() - 1..]);
    }
}

#[test]
fn a_long_chart_of_a_group_is_drawn_from_hours_and_still_says_where_clusters_are_missing() {
    let gateway = Asked::new();
    for slot in LAST_SLOT - 12 * 144..=LAST_SLOT {
        close(&gateway, "north", decoded(slot, 50_000, 100));
        if slot > LAST_SLOT - 6 * 144 {
            close(&gateway, "south", decoded(slot, 40_000, 80));
        }
    }
    gateway.fixture.group("town", &["north", "south"], &[]);
    let data = chart(&gateway, "/groups/town?range=30d");
    let column = |name: &str| data[name].as_array().unwrap().clone();
    let (partial, whole): (Vec<_>, Vec<_>) = column("clusters")
        .into_iter()
        .zip(column("load_estimated_watts"))
        .partition(|(clusters, _)| !clusters.is_null());
    assert!(partial.len() > 100 && whole.len() > 100, "{} {}", partial.len(), whole.len());
    // From the hour in which the other began.
    assert!(partial.iter().all(|(_, watts)| watts == 50_000.0) && whole.iter().all(|(_, watts)| watts == 100_000.0));
    says(&read(&gateway, "/groups/town?range=30d"), "Estimate of each hour alone");
    says(&read(&gateway, "/groups/town"), "Estimate of each slot alone");
}

#[test]
fn the_pages_tell_the_energy_of_groups() {
    let gateway = gateway();
    let page = read(&gateway, "/groups/region");
    says(&page, "Energy so far Today 23.3 ± ");
    says(&page, ", 3 of 4 clusters");
    says(&page, "Energy by the day, of the last year, as CSV");
    says(&read(&gateway, "/"), "Energy today");
}

#[test]
fn a_cluster_that_gives_no_sum_is_filled_in_and_everybody_is_told() {
    let gateway = gateway();
    let predicted = Some(FilteredLoad { watts: 31_000, band95: 9000 });
    close(&gateway, "hill", ClosedSlot { predicted, ..failed(LAST_SLOT) });
    let last = gateway.get("/api/v1/groups/substation").json()["last"].clone();
    assert_eq!(numbers(&last, &["clusters", "in_sum", "filled", "load_watts", "members"]), [3, 2, 1, 30_000, 200]);
    assert_eq!(numbers(&last, &["load_estimated_watts"]), [50_000 - 25_000 + 31_000]);
    let samples = Samples::parse(gateway.get("/metrics").text());
    let of = |name: &str| samples.get(&format!("dream_group_{name}"), &[("group", "substation")]);
    assert_eq!((of("clusters_in_sum"), of("clusters_filled")), (Some(2.0), Some(1.0)));
    let page = read(&gateway, "/groups/substation");
    says(&page, "All 3 clusters, 1 filled in");
    says(&page, "Without a sum of their own: hill.");
    let data = chart(&gateway, "/groups/substation");
    assert_eq!(
        data["clusters"],
        json!(["2 of 3 clusters", null]),
        "only what is neither measured nor filled in is missing"
    );
    // The cluster itself has no load, whatever its filter expected.
    let hill = gateway.get("/api/v1/clusters/hill").json()["last"].clone();
    assert_eq!((&hill["load_filtered_watts"], &hill["load_estimated_watts"]), (&Value::Null, &Value::Null));
}
