//! What charts show, read from a real browser and compared with what the API tells.

use dream_protocol::noise::{Confidence, Scale, Spread};
use dream_protocol::time::Timestamp;
use dream_testkit::lab::browser::Browser;
use dream_testkit::lab::http;
use dream_testkit::outcomes::Slotted;
use serde_json::Value;

use crate::fixture::{Gateway, LAST_SLOT, NOW, closed, feeding_in, listed, slot_of};
use crate::page::open;

const RIGHT: &str = "\u{E014}";
const LEFT: &str = "\u{E012}";
const ESCAPE: &str = "\u{E00C}";

/// The data beside the chart of the page that is open.
fn data(browser: &Browser) -> Value {
    browser.run("return JSON.parse(document.querySelector('#load-chart script').textContent)")
}

fn column(data: &Value, name: &str) -> Vec<Option<f64>> {
    data[name].as_array().unwrap().iter().map(Value::as_f64).collect()
}

/// The slots that the API tells for the range of a chart.
fn told(gateway: &Gateway, cluster: &str, data: &Value) -> Vec<Value> {
    let second = |name: &str| data[name].as_f64().unwrap();
    let path = format!("/api/v1/clusters/{cluster}/slots?from={}&to={}&limit=100000", second("from"), second("to"));
    http::get(gateway.address, &path).unwrap().json()["slots"].as_array().unwrap().clone()
}

fn go(gateway: &Gateway, browser: &Browser, page: &str) {
    browser.go(&format!("http://{}/clusters/{page}", gateway.address));
    browser.wait_for("document.getElementById('news').textContent.startsWith('Live')");
}

fn unix(text: &Value) -> f64 {
    let instant: jiff::Timestamp = text.as_str().unwrap().parse().unwrap();
    instant.as_millisecond() as f64 / 1000.0
}

#[test]
fn a_chart_shows_every_slot_that_the_api_tells_for_its_range() {
    let (gateway, browser) = open();
    for (cluster, range) in [("altstadt", "1h"), ("harbour-7", "6h"), ("oststadt", "24h")] {
        go(&gateway, &browser, &format!("{cluster}?range={range}"));
        let data = data(&browser);
        assert_eq!(data["slots_per_point"], 1, "{range}");
        let slots = told(&gateway, cluster, &data);
        let (decoded, failed): (Vec<_>, Vec<_>) = slots.iter().partition(|slot| slot["outcome"] == "decoded");
        let starts: Vec<_> = decoded.iter().map(|slot| Some(unix(&slot["start"]))).collect();
        assert_eq!(column(&data, "start"), starts, "{range}");
        for name in ["load_watts", "band95_watts", "load_filtered_watts", "band95_filtered_watts"] {
            let expected: Vec<_> = decoded.iter().map(|slot| slot[name].as_f64()).collect();
            assert_eq!(column(&data, name), expected, "{name} in {range}");
        }
        // The API rounds these to whole watts.
        for name in ["load_estimated_watts", "band95_estimated_watts"] {
            for (shown, slot) in column(&data, name).into_iter().zip(&decoded) {
                assert!((shown.unwrap() - slot[name].as_f64().unwrap()).abs() <= 0.55, "{name} in {range}");
            }
        }
        let failures: u64 = data["failures"].as_array().unwrap().iter().map(|it| it["slots"].as_u64().unwrap()).sum();
        assert_eq!(usize::try_from(failures).unwrap(), failed.len(), "{range}");
        let drawn = browser.run(
            "return [...document.querySelectorAll('#load-chart polyline.load')]\
             .map(line => line.getAttribute('points').split(' ').length)",
        );
        let drawn: u64 = drawn.as_array().unwrap().iter().map(|points| points.as_u64().unwrap()).sum();
        assert!(drawn >= u64::try_from(decoded.len()).unwrap(), "{drawn} points are drawn in {range}");
    }
}

#[test]
fn the_points_of_a_long_range_are_means_in_the_bands_of_means() {
    let (gateway, browser) = open();
    go(&gateway, &browser, "altstadt?range=7d");
    let data = data(&browser);
    assert_eq!(data["slots_per_point"], 4);
    let slots = told(&gateway, "altstadt", &data);
    let decoded: Vec<_> = slots.iter().filter(|slot| slot["outcome"] == "decoded").collect();
    let [starts, ends, counts] = ["start", "end", "slots"].map(|name| column(&data, name));
    let [loads, bands] = ["load_watts", "band95_watts"].map(|name| column(&data, name));
    let mut covered = 0;
    for at in 0..starts.len() {
        let (start, end) = (starts[at].unwrap(), ends[at].unwrap());
        let within: Vec<_> =
            decoded.iter().filter(|slot| start <= unix(&slot["start"]) && unix(&slot["end"]) <= end).collect();
        let number = |slot: &Value, name: &str| slot[name].as_f64().unwrap();
        let count = within.len() as f64;
        assert_eq!(counts[at], Some(count));
        let mean = within.iter().map(|slot| number(slot, "load_watts")).sum::<f64>() / count;
        assert!((loads[at].unwrap() - mean).abs() < 0.1);
        // The noise of several slots is that of as many times the shares.
        let shares: u64 = within.iter().map(|slot| slot["responders"].as_u64().unwrap()).sum();
        let honest = within[0]["honest"].as_u64().unwrap();
        let spread = Spread::new(Scale::new(9000, 1), u32::try_from(honest).unwrap(), u32::try_from(shares).unwrap());
        let exact = spread.half_width(Confidence::P95) as f64 / count;
        let shown = bands[at].unwrap();
        assert!((shown / exact - 1.0).abs() < 0.005, "{shown}, not {exact}, for {count} slots");
        let single = number(within[0], "band95_watts");
        assert!(count < 2.0 || shown < 0.75 * single, "narrower than that of a slot: {shown}, {single}");
        covered += within.len();
    }
    assert_eq!(covered, decoded.len(), "every slot is in one point");
}

#[test]
fn a_range_is_as_long_as_it_says_unless_there_is_less() {
    let (gateway, browser) = open();
    let young = listed("young", 100);
    for slot in LAST_SLOT - 2..=LAST_SLOT {
        gateway.fixture.close(&young, closed(slot_of(100, slot).decoded(40_000, 95)));
    }
    let week = 7.0 * 86_400.0;
    let oldest = (LAST_SLOT - 7 * 144) as f64 * 600.0;
    let now = NOW.as_secs() as f64;
    for (range, begins) in
        [("1h", now - 3600.0), ("6h", now - 6.0 * 3600.0), ("24h", now - 86_400.0), ("7d", now - week), ("all", oldest)]
    {
        go(&gateway, &browser, &format!("altstadt?range={range}"));
        assert_eq!(browser.text("document.querySelector('.choice [aria-current]').id"), format!("range-{range}"));
        let long = data(&browser);
        assert_eq!((long["from"].as_f64(), long["to"].as_f64()), (Some(begins), Some(now)), "{range}");
        go(&gateway, &browser, &format!("young?range={range}"));
        let first = (LAST_SLOT - 2) as f64 * 600.0;
        assert_eq!(data(&browser)["from"].as_f64(), Some(first.max(begins)), "{range} fits what there is");
        assert_eq!(column(&data(&browser), "start").len(), 3, "{range}");
    }
    // One that was silent for a while has less in the range, and the gap shows.
    gateway.fixture.set_clock(Timestamp::from_secs(NOW.as_secs() + 3 * 86_400));
    go(&gateway, &browser, "altstadt?range=7d");
    assert_eq!(data(&browser)["from"].as_f64(), Some(now + 3.0 * 86_400.0 - week));
}

#[test]
fn a_chart_of_homes_that_feed_in_has_its_zero_inside_and_every_band_whole() {
    let (gateway, browser) = open();
    let view = feeding_in("sunny", 300);
    // From 60 kW at night to -336 kW at noon, with a slot of nearly nothing between.
    for slot in LAST_SLOT - 143..=LAST_SLOT {
        let sun = 36u64.saturating_sub(72u64.abs_diff(slot % 144)).cast_signed();
        let watts = if slot % 144 == 40 { -3 } else { 60_000 - 11_000 * sun };
        let outcome = Slotted { noise_scale: 16_000, ..slot_of(300, slot) }.decoded(watts, 300);
        gateway.fixture.close(&view, closed(outcome));
    }
    go(&gateway, &browser, "sunny?range=24h");
    let data = data(&browser);
    let slots = told(&gateway, "sunny", &data);
    for name in ["load_watts", "load_estimated_watts", "load_filtered_watts"] {
        let expected: Vec<_> = slots.iter().map(|slot| slot[name].as_f64()).collect();
        assert_eq!(column(&data, name), expected, "{name}");
        assert!(expected.iter().flatten().any(|watts| *watts < -300_000.0), "{name}");
    }
    let (low, high) = (data["low"].as_f64().unwrap(), data["high"].as_f64().unwrap());
    for (load, band) in column(&data, "load_watts").into_iter().zip(column(&data, "band95_watts")) {
        let (load, band) = (load.unwrap(), band.unwrap());
        assert!(low <= load - band && load + band <= high, "{load} ± {band} is not within {low} to {high}");
    }
    let inside = browser.run(
        "const places = [...document.querySelectorAll('#load-chart polygon, #load-chart polyline')]\
         .flatMap(line => line.getAttribute('points').split(' ').map(place => Number(place.split(',')[1]))); \
         return [Math.min(...places) >= 0, Math.max(...places) <= 480, places.length > 700]",
    );
    assert_eq!(inside, serde_json::json!([true, true, true]));
    // The line of 0 is between the lowest and the highest, where its value is.
    let zero = browser.text("document.querySelector('#load-chart .grid.zero').getAttribute('y1')");
    let share: f64 = zero.trim_end_matches('%').parse().unwrap();
    assert!((share - 100.0 * high / (high - low)).abs() < 0.01 && (5.0..95.0).contains(&share), "{zero}");
    assert_eq!(browser.text("document.querySelectorAll('#load-chart text.y')[0].textContent"), "\u{2212}400\u{a0}kW");
    // What is 0 after rounding has no sign, and what is fed in has one.
    browser.run("document.getElementById('load-chart').focus()");
    let at = slots.iter().position(|slot| slot["load_watts"] == -3).unwrap();
    for _ in 0..slots.len() - at {
        browser.press(LEFT);
    }
    assert!(tip(&browser).unwrap().contains("Plain sum 0.0 ± "), "{:?}", tip(&browser));
    let headline = browser.text("document.querySelector('#state').textContent");
    let last = slots.last().unwrap()["load_filtered_watts"].as_f64().unwrap();
    assert!(last < -100_000.0 && headline.contains(&format!("\u{2212}{:.1}", last / -1000.0)), "{headline}");
    assert!(headline.contains("Its homes feed in more than they draw"), "{headline}");
    assert!(browser.text("document.querySelector('#recent').textContent").contains('\u{2212}'));
    // A positive range keeps its foot at 0 or at the lowest sum.
    go(&gateway, &browser, "altstadt?range=24h");
    assert_eq!(crate::charts::data(&browser)["low"], 0.0);
    assert_eq!(browser.console_errors(), Vec::<Value>::new());
}

/// The middle of a point on the screen.
fn place(browser: &Browser, point: usize) -> (i64, i64) {
    let script = format!(
        "const data = JSON.parse(document.querySelector('#load-chart script').textContent); \
         const area = document.querySelector('#load-chart .area').getBoundingClientRect(); \
         const share = ((data.start[{point}] + data.end[{point}]) / 2 - data.from) / (data.to - data.from); \
         return [Math.round(area.left + share * area.width), Math.round(area.top + area.height / 2)]"
    );
    let place = browser.run(&script);
    (place[0].as_i64().unwrap(), place[1].as_i64().unwrap())
}

fn tip(browser: &Browser) -> Option<String> {
    let script = "const tip = document.querySelector('#load-chart .tip'); \
                  return tip.hidden ? null : [...tip.children].map(line => line.textContent).join('; ')";
    browser.run(script).as_str().map(str::to_owned)
}

/// As the page writes loads of a few hundred kilowatts.
fn kilowatts(data: &Value, kind: &str, point: usize) -> String {
    let value = |name: String| column(data, &name)[point].unwrap() / 1e3;
    format!("{:.1} ± {:.1} kW", value(format!("load{kind}_watts")), value(format!("band95{kind}_watts")))
}

fn expected(data: &Value, point: usize, when: &str) -> String {
    let [filtered, sum, estimate] = ["_filtered", "", "_estimated"].map(|kind| kilowatts(data, kind, point));
    format!("{when}; Filtered {filtered}; Plain sum {sum}; Estimate for all {estimate}")
}

#[test]
fn pointing_at_a_chart_tells_the_values_there() {
    let (gateway, browser) = open();
    go(&gateway, &browser, "altstadt?range=6h");
    browser.run("document.getElementById('load-chart').scrollIntoView({ block: 'center' })");
    assert_eq!(tip(&browser), None);
    let data = data(&browser);
    let last = column(&data, "start").len() - 1;
    let (x, y) = place(&browser, last);
    browser.hover(x, y);
    browser.wait_for("!document.querySelector('#load-chart .tip').hidden");
    assert_eq!(tip(&browser), Some(expected(&data, last, "14:30–14:40")));
    let (x, y) = place(&browser, 0);
    browser.hover(x, y);
    assert!(tip(&browser).unwrap().ends_with(&kilowatts(&data, "_estimated", 0)));
    browser.hover(5, 5);
    assert_eq!(tip(&browser), None, "no tip elsewhere");
    let (x, y) = place(&browser, 1);
    browser.tap(x, y);
    browser.wait_for("!document.querySelector('#load-chart .tip').hidden");
    assert!(tip(&browser).unwrap().contains(&kilowatts(&data, "_filtered", 1)), "{:?}", tip(&browser));
    assert_eq!(browser.console_errors(), Vec::<Value>::new());
}

#[test]
fn arrow_keys_tell_the_values_too_and_an_update_keeps_the_place() {
    let (gateway, browser) = open();
    go(&gateway, &browser, "altstadt?range=1h");
    browser.run("document.getElementById('load-chart').focus()");
    let shown = data(&browser);
    let last = column(&shown, "start").len() - 1;
    browser.press(RIGHT);
    assert_eq!(tip(&browser), Some(expected(&shown, last, "14:30–14:40")), "the newest first");
    browser.press(LEFT);
    let before = expected(&shown, last - 1, "14:20–14:30");
    assert_eq!(tip(&browser), Some(before.clone()));
    crate::page::close_next(&gateway, 777_000);
    browser.wait_for("document.getElementById('recent').textContent.includes('777.0')");
    assert_eq!((tip(&browser), browser.text("document.activeElement.id")), (Some(before), "load-chart".to_owned()));
    browser.press(ESCAPE);
    assert_eq!(tip(&browser), None);
}

#[test]
fn a_slot_without_a_sum_says_why_and_a_mean_of_how_many_slots_it_is() {
    let (gateway, browser) = open();
    go(&gateway, &browser, "oststadt?range=24h");
    browser.run("document.getElementById('load-chart').focus()");
    browser.press(RIGHT);
    assert_eq!(tip(&browser).as_deref(), Some("14:30–14:40; No sum: Too many missing"));
    go(&gateway, &browser, "altstadt?range=7d");
    browser.run("document.getElementById('load-chart').focus()");
    browser.press(RIGHT);
    browser.press(LEFT);
    let told = tip(&browser).unwrap();
    assert!(told.contains(", mean of 4 slots; Filtered "), "{told}");
}

#[test]
fn on_a_phone_the_chart_comes_before_the_tiles_and_its_values_fit() {
    let (gateway, browser) = open();
    browser.resize(390, 844);
    go(&gateway, &browser, "altstadt");
    let top = |selector: &str| {
        browser
            .run(&format!("return document.querySelector({selector:?}).getBoundingClientRect().top"))
            .as_f64()
            .unwrap()
    };
    let order = [".figure", "#load-chart", "dl.tiles", "#outcomes", "#recent"].map(top);
    assert!(order.is_sorted(), "{order:?}");
    assert!(order[1] < 844.0, "the chart begins on the first screen");
    browser.run("document.getElementById('load-chart').scrollIntoView({ block: 'center' })");
    for point in [0, 70, 140] {
        let (x, y) = place(&browser, point);
        browser.tap(x, y);
        assert!(tip(&browser).is_some());
        let fits = "const tip = document.querySelector('.tip').getBoundingClientRect(); \
                    return tip.left >= 0 && tip.right <= innerWidth && document.documentElement.scrollWidth <= innerWidth";
        assert_eq!(browser.run(fits), true, "point {point}");
    }
}
