//! Energy over HTTP: API, CSV, metrics and page tell the same numbers, and long ranges are drawn from hours and days.

use dream_protocol::time::Timestamp;
use dream_testkit::lab::prometheus::Samples;
use serde_json::{Value, json};

use crate::fixture::{Asked, LAST_SLOT, NOW, closed, listed, slot_of};

/// A cluster with so many days until now; every tenth slot gave no sum.
fn with_days(days: u64) -> Asked {
    let gateway = Asked::new();
    let mut north = listed("north", 100);
    for slot in LAST_SLOT - 144 * days + 1..=LAST_SLOT {
        let outcome = match slot % 10 {
            7 => slot_of(100, slot).failed("too_many_missing", 60),
            _ => slot_of(100, slot).decoded(54_000, 90),
        };
        gateway.fixture.close(&north, closed(outcome));
        north = (*gateway.fixture.board.cluster("north").unwrap()).clone();
    }
    gateway
}

fn chart(page: &str) -> Value {
    let json = page.split("<script type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(json).unwrap()
}

#[test]
fn api_csv_metrics_and_page_tell_the_same_energy() {
    let gateway = with_days(3);
    let energy = gateway.get("/api/v1/clusters/north").json()["energy"].clone();
    // It is 14:43 and the last slot ended at 14:40: 60 kW for all, and 50 kW where it was filled in.
    let day = &energy["day"];
    assert_eq!((&day["start"], &day["end"]), (&json!("2026-11-16T00:00:00Z"), &json!("2026-11-17T00:00:00Z")));
    let (measured, filled) = (day["measured_seconds"].as_i64().unwrap(), day["filled_seconds"].as_i64().unwrap());
    assert_eq!((measured + filled, &day["missing_seconds"]), ((14 * 60 + 40) * 60, &json!(0)));
    assert!((8..=9).contains(&(filled / 600)), "{day}");
    assert_eq!(day["energy_watt_hours"], (60_000 * measured + 50_000 * filled) / 3600);
    assert_eq!(energy["month"]["measured_seconds"].as_i64().unwrap() / 600, 3 * 144 - 43);
    assert_eq!(energy["hour"]["start"], "2026-11-16T14:00:00Z");

    let days = gateway.get("/api/v1/clusters/north/history").json();
    let last = days["periods"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(day.as_object().unwrap().iter().find(|(name, value)| last[name.as_str()] != **value), None, "{last}");
    let csv = gateway.get("/api/v1/clusters/north/history?step=day&format=csv");
    assert_eq!(csv.header("content-disposition"), Some("attachment; filename=\"north-days.csv\""));
    let row: Vec<_> = csv.text().lines().last().unwrap().split(',').collect();
    let column =
        |name: &str| row[csv.text().lines().next().unwrap().split(',').position(|column| column == name).unwrap()];
    assert_eq!(column("energy_watt_hours"), day["energy_watt_hours"].to_string());
    assert_eq!(column("band95_energy_watt_hours"), day["band95_energy_watt_hours"].to_string());

    let metrics = Samples::parse(gateway.get("/metrics").text());
    let gauge = |name: &str, more: &[(&str, &str)]| {
        let labels = [&[("cluster", "north"), ("period", "day")], more].concat();
        metrics.get(&format!("dream_cluster_energy_{name}"), &labels).unwrap()
    };
    assert!((gauge("joules", &[]) / 3600.0 - day["energy_watt_hours"].as_f64().unwrap()).abs() <= 0.5);
    let band = gauge("band_joules", &[("confidence", "0.95")]) / 3600.0;
    assert!((0.0..1.0).contains(&(day["band95_energy_watt_hours"].as_f64().unwrap() - band)));
    assert!((gauge("filled_ratio", &[]) - day["filled_share"].as_f64().unwrap()).abs() < 1e-4);
    assert_eq!(gauge("covered_ratio", &[]), 1.0);

    let page = gateway.get("/clusters/north");
    let shown = |period: &str, energy: &Value| {
        let tile = page.text().split(&format!("id=\"energy-{period}\"")).nth(1).unwrap().split("</dd>").next().unwrap();
        let [value, band] =
            ["energy_watt_hours", "band95_energy_watt_hours"].map(|name| energy[name].as_f64().unwrap());
        let (unit, name) = if value < 1e6 { (1e3, "kWh") } else { (1e6, "MWh") };
        let number = |places: usize| {
            format!("{:.places$} <span class=\"within\">± {:.places$}</span> {name}", value / unit, band / unit)
        };
        let number = number(if band / unit >= 1.0 { 1 } else { 2 });
        assert!(tile.contains(&number) && tile.contains("filled in"), "{number} is not in {tile}");
    };
    shown("day", day);
    shown("month", &energy["month"]);
}

#[test]
fn a_period_is_told_until_it_is_over_and_then_no_more() {
    let gateway = with_days(1);
    let running = |seconds: u64| {
        gateway.fixture.set_clock(Timestamp::from_secs(seconds));
        let energy = gateway.get("/api/v1/clusters/north").json()["energy"].clone();
        let told = ["hour", "day", "month"].map(|period| energy[period].is_object());
        let metrics = gateway.get("/metrics");
        assert_eq!(
            metrics.text().matches("dream_cluster_energy_joules{").count(),
            told.iter().filter(|it| **it).count()
        );
        told
    };
    let midnight = NOW.as_secs() / 86_400 * 86_400;
    assert_eq!(running(midnight + 15 * 3600 - 1), [true; 3]);
    assert_eq!(running(midnight + 15 * 3600), [false, true, true]);
    assert_eq!(running(midnight + 24 * 3600), [false, false, true]);
    assert!(gateway.get("/clusters/north").text().contains("no slot has closed yet"));
}

#[test]
fn long_ranges_are_drawn_from_hours_and_days_and_short_ones_from_slots() {
    let gateway = with_days(100);
    for (range, step, points) in
        [("24h", "slot", 129), ("7d", "slot", 200), ("30d", "hour", 240), ("1y", "day", 99), ("all", "day", 99)]
    {
        let page = gateway.get(&format!("/clusters/north?range={range}"));
        let data = chart(page.text());
        let found = data["start"].as_array().unwrap().len();
        assert_eq!(data["step"], step, "{range}");
        assert!((points..=302).contains(&found), "{range}: {found}");
        assert_eq!(page.text().contains("Mean load of all members"), step != "slot", "{range}");
        assert_eq!(page.text().contains("Filtered load of all members"), step != "day", "{range}: the mean is better");
        assert_eq!(data["load_filtered_watts"][3].is_null(), step == "day", "{range}");
        let loads = data["load_estimated_watts"].as_array().unwrap();
        assert!(loads.iter().all(|load| (57_000.0..=60_000.0).contains(&load.as_f64().unwrap())), "{range}: {loads:?}");
    }
    assert_eq!(gateway.get("/clusters/north?range=2y").status, 400);
}

#[test]
fn where_slots_are_gone_their_hours_are_drawn() {
    let gateway = with_days(5);
    let steps = |gateway: &Asked| {
        ["24h", "7d", "all"]
            .map(|range| chart(gateway.get(&format!("/clusters/north?range={range}")).text())["step"].clone())
    };
    assert_eq!(steps(&gateway), ["slot"; 3]);
    gateway.fixture.past.expire_slots(Timestamp::from_secs(NOW.as_secs() - 2 * 86_400));
    assert_eq!(steps(&gateway), ["slot", "hour", "hour"]);
}

#[test]
fn history_is_paged_from_its_newest_end() {
    let gateway = with_days(4);
    let answer = gateway.get("/api/v1/clusters/north/history?step=hour&limit=5");
    assert_eq!(answer.header("dream-truncated"), Some("true"));
    let hours = answer.json()["periods"].as_array().unwrap().clone();
    assert_eq!((hours.len(), &hours[4]["start"]), (5, &json!("2026-11-16T14:00:00Z")));
    let to = hours[0]["start"].as_str().unwrap();
    let before = gateway.get(&format!("/api/v1/clusters/north/history?step=hour&limit=1&to={to}")).json();
    assert_eq!(before["periods"][0]["end"], *to);
    let unknown = gateway.get("/api/v1/clusters/north/history?step=week");
    assert_eq!((unknown.status, &unknown.json()["error"]["parameter"]), (400, &json!("step")));
}
