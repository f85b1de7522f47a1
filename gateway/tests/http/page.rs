//! The page in a real browser.

use dream_testkit::lab::browser::Browser;

use dream_gateway::history::{ClosedSlot, FilteredLoad};

use crate::fixture::Gateway;
use crate::{fixture, scenery};

/// W3C's code for the key.
const TAB: &str = "\u{E004}";

#[test]
fn the_overview_shows_every_cluster_and_the_console_stays_silent() {
    let (gateway, browser) = open();
    let names = browser.text("[...document.querySelectorAll('.card h2')].map(name => name.textContent).join()");
    assert_eq!(names, scenery::CLUSTERS.join(","));
    let tiles = browser.text("[...document.querySelectorAll('.amount')].map(amount => amount.textContent).join()");
    assert_eq!(tiles, "4,1,1,2");
    assert_eq!(browser.text("document.querySelectorAll('.card svg .best').length > 5"), "true");
    for id in scenery::CLUSTERS {
        browser.go(&format!("http://{}/clusters/{id}", gateway.address));
        assert_eq!(browser.text("document.querySelector('h1').textContent"), id);
        assert_eq!(browser.text("document.querySelectorAll('svg.chart[role=img] > title').length"), "1");
    }
    assert_eq!(browser.console_errors(), Vec::<serde_json::Value>::new());
}

#[test]
fn a_closed_slot_appears_by_itself_and_focus_and_scrolling_stay() {
    let (gateway, browser) = open();
    browser.resize(320, 600);
    browser.run("document.getElementById('to-harbour-7').focus(); scrollTo(0, 700)");
    let before = browser.text("scrollY");
    close_next(&gateway, 777_000);
    browser.wait_for("document.getElementById('clusters').textContent.includes('775.5')");
    assert_eq!(browser.text("document.activeElement.id"), "to-harbour-7");
    assert_eq!(browser.text("scrollY"), before);
    browser.wait_for("document.getElementById('news').textContent.startsWith('Live, updated')");
    assert_eq!(browser.text("document.getElementById('news').getAttribute('role')"), "status");
    assert_eq!(browser.console_errors(), Vec::<serde_json::Value>::new());
}

#[test]
fn the_page_of_a_cluster_follows_too_within_its_range() {
    let (gateway, browser) = open();
    browser.go(&format!("http://{}/clusters/altstadt?range=6h", gateway.address));
    browser.run("document.getElementById('range-6h').focus()");
    close_next(&gateway, 777_000);
    browser.wait_for("document.getElementById('recent').textContent.includes('777.0')");
    assert_eq!(browser.text("document.activeElement.id"), "range-6h");
    assert_eq!(browser.text("document.querySelector('.choice [aria-current]').id"), "range-6h");
    assert_eq!(
        browser.text("document.querySelectorAll('#recent tbody tr')[0].cells[4].textContent"),
        "775.5 ± 12.3 kW"
    );
}

#[test]
fn the_best_number_is_the_headline_and_the_page_says_why() {
    let (gateway, browser) = open();
    let text = |selector: &str| browser.text(&format!("document.querySelector({selector:?}).textContent"));
    let last = gateway.fixture.board.cluster("altstadt").unwrap().last_decoded.unwrap();
    let (filtered, sum) = (last.filtered.unwrap(), last.estimate().unwrap());
    assert!(filtered.band95 < sum.band95, "the filter has warmed up");
    let kilowatts = |watts: i64, band: u64| format!("{:.1} ± {:.1} kW", watts as f64 / 1e3, band as f64 / 1e3);
    let (best, second) = (kilowatts(filtered.watts, filtered.band95), kilowatts(sum.watts, sum.band95));
    assert_eq!(text(".card .figure"), best);
    let why =
        format!("The better number: the band of the slot\u{2019}s own sum, scaled to all members, is wider: {second}");
    assert_eq!(text(".card .second"), why);
    browser.go(&format!("http://{}/clusters/altstadt", gateway.address));
    assert_eq!(text("#state .figure"), best);
    assert_eq!(text("#state .what"), "Load of all 640 members, filtered, slot to 14:40");
    assert_eq!(text("#state .second"), why);
    // A filter that has seen one sum knows no more than that, and the page says so.
    let young = ClosedSlot { filtered: Some(FilteredLoad { band95: 2 * sum.band95, ..filtered }), ..last };
    gateway.fixture.close(&fixture::listed("young", 640), young);
    browser.go(&format!("http://{}/clusters/young", gateway.address));
    assert_eq!(text("#state .figure"), kilowatts(filtered.watts, 2 * sum.band95));
    let why = text("#state .second");
    assert!(why.starts_with("Still the better number") && why.contains(&second), "{why}");
}

#[test]
fn a_load_of_before_is_never_the_headline_and_says_how_old_it_is() {
    let (gateway, browser) = open();
    let text = |selector: &str| browser.text(&format!("document.querySelector({selector:?})?.textContent"));
    let colour =
        |selector: &str| browser.text(&format!("getComputedStyle(document.querySelector({selector:?})).color"));
    assert!(text("#card-riverside .stale").ends_with("kW, 2 h 43 min old"), "{}", text("#card-riverside .stale"));
    assert_eq!(colour("#card-riverside .stale"), colour("#card-riverside .within"), "greyed");
    for (id, age) in [("riverside", "2 h 43 min"), ("oststadt", "43 min")] {
        browser.go(&format!("http://{}/clusters/{id}", gateway.address));
        assert_eq!((text("#state .figure").as_str(), text("#state .age")), ("No load now", format!("{age} old")));
        assert!(text("#state .stale").starts_with("Last known "));
        let figures = text("#figures");
        assert!(!figures.contains("Plain sum") && !figures.contains("Estimate"), "{figures}");
    }
    // A page that is open ages, too.
    browser.go(&format!("http://{}/clusters/altstadt", gateway.address));
    assert!(text("#state .figure strong").parse::<f64>().is_ok());
    gateway.fixture.set_clock(fixture::NOW.plus_secs(2 * 600));
    gateway.fixture.board.show([fixture::waiting("mill-lane")]);
    browser.wait_for("document.querySelector('#state .age')?.textContent === '23 min old'");
    assert_eq!(text("#state .figure"), "No load now");
}

#[test]
fn the_lines_of_a_chart_are_told_apart_without_colour() {
    let (gateway, browser) = open();
    browser.go(&format!("http://{}/clusters/altstadt", gateway.address));
    let style = |class: &str, property: &str| {
        browser.text(&format!("getComputedStyle(document.querySelector('.chart .{class}')).{property}"))
    };
    assert_eq!(["load", "filtered"].map(|class| style(class, "strokeDasharray")), ["4px, 2.5px", "none"]);
    let legend = browser.text("[...document.querySelectorAll('.legend li')].map(key => key.textContent).join('; ')");
    assert_eq!(legend, "Filtered load of all members; Plain sum of those who answered; Slot without a sum");
}

#[test]
fn a_gateway_that_is_gone_is_announced_and_so_is_its_return() {
    let (gateway, browser) = open();
    let address = gateway.address;
    gateway.kill();
    browser.wait_for("!document.getElementById('lost').hidden");
    let again = Gateway::start_at(address);
    scenery::fill(&again.fixture);
    browser.wait_for("document.getElementById('lost').hidden");
    browser.wait_for("document.querySelectorAll('.card').length === 8");
}

#[test]
fn the_filter_narrows_the_cards_and_survives_an_update() {
    let (gateway, browser) = open();
    browser.run(
        "const box = document.getElementById('filter-text'); box.focus(); box.value = 'STALLED'; \
         box.dispatchEvent(new Event('input'))",
    );
    let shown = "[...document.querySelectorAll('.card:not([hidden]) h2')].map(name => name.textContent).join()";
    assert_eq!(browser.text(shown), "riverside");
    close_next(&gateway, 777_000);
    browser.wait_for("document.getElementById('clusters').textContent.includes('775.5')");
    assert_eq!(browser.text(shown), "riverside");
    assert_eq!(browser.text("document.activeElement.value"), "STALLED");
}

#[test]
fn nothing_scrolls_sideways_on_a_small_screen_and_text_is_readable_in_the_dark_and_in_the_light() {
    let (gateway, browser) = open();
    gateway.fixture.board.show([fixture::waiting(&"long".repeat(16))]);
    gateway.fixture.group(&"group".repeat(12), &[&"long".repeat(16)], &[]);
    gateway.fixture.group("far-away", &["elsewhere"], &[]);
    let paths = [
        "/",
        "/clusters/oststadt",
        "/clusters/altstadt?range=7d",
        "/clusters/mill-lane",
        "/clusters/oststadt/slots",
        "/clusters/oststadt/lists",
        "/groups/region",
        "/groups/far-away",
        "/gateway",
        "/nothing",
    ];
    for path in paths {
        for (width, scheme) in [(320, "light"), (390, "dark"), (1440, "light"), (1440, "dark")] {
            browser.resize(width, 900);
            browser.prefer(scheme);
            browser.go(&format!("http://{}{path}", gateway.address));
            let place = format!("{path} at {width} px, {scheme}");
            assert_eq!(browser.text("document.documentElement.scrollWidth <= innerWidth"), "true", "{place}");
            let cut =
                "[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth).length";
            assert!(width > 390 || browser.text(cut) == "0", "a table scrolls sideways: {place}");
            let faint = browser.run(include_str!("contrast.js"));
            assert_eq!(faint, serde_json::json!([]), "{place}");
        }
    }
}

#[test]
fn the_keyboard_reaches_the_skip_link_first_and_then_every_link_with_a_visible_focus() {
    let (gateway, browser) = open();
    browser.press(TAB);
    assert_eq!(browser.text("document.activeElement.className"), "skip");
    assert_eq!(browser.text("document.activeElement.getBoundingClientRect().top >= 0"), "true");
    for path in ["/", "/clusters/altstadt", "/clusters/altstadt/slots", "/clusters/altstadt/lists", "/gateway"] {
        browser.go(&format!("http://{}{path}", gateway.address));
        browser.wait_for("document.getElementById('news').textContent.startsWith('Live')");
        let reachable = "[...document.querySelectorAll('a[href], input, summary, [tabindex=\"0\"]')]";
        let expected = browser.run(&format!("return {reachable}.length")).as_u64().unwrap();
        for place in 0..expected {
            browser.press(TAB);
            let reached = browser.text(&format!("{reachable}.indexOf(document.activeElement)"));
            assert_eq!(reached, place.to_string(), "{path}");
            let seen = browser.run(
                "const at = document.activeElement, outline = (of) => getComputedStyle(at, of).outlineStyle; \
                 return outline() !== 'none' || outline('::after') !== 'none'",
            );
            assert_eq!(seen, true, "{path}: no focus to see at link {place}");
        }
    }
}

#[test]
fn the_page_has_landmarks_headers_of_tables_and_names_of_charts() {
    let (gateway, browser) = open();
    browser.go(&format!("http://{}/clusters/altstadt", gateway.address));
    let count = |selector: &str| browser.text(&format!("document.querySelectorAll({selector:?}).length"));
    for (selector, expected) in [("header", "1"), ("main", "1"), ("footer", "1"), ("h1", "1"), ("th:not([scope])", "0")]
    {
        assert_eq!(count(selector), expected, "{selector}");
    }
    let twice =
        "[...document.querySelectorAll('[id]')].map(it => it.id).filter((id, at, all) => all.indexOf(id) !== at)";
    for path in ["/", "/clusters/altstadt", "/clusters/altstadt/slots", "/clusters/altstadt/lists", "/gateway"] {
        browser.go(&format!("http://{}{path}", gateway.address));
        assert_eq!(browser.text(&format!("{twice}.join()")), "", "{path}: ids that are there twice");
        assert_eq!(count("svg:not([role=img]):not(svg svg)"), "0", "{path}");
    }
}

/// Closes the next slot of the first cluster with a load that is easy to find.
pub fn close_next(gateway: &Gateway, watts: i64) {
    let view = gateway.fixture.board.cluster("altstadt").unwrap();
    gateway.fixture.set_clock(fixture::NOW.plus_secs(600));
    gateway.fixture.close(&view, fixture::closed(fixture::slot_of(640, fixture::LAST_SLOT + 1).decoded(watts, 630)));
}

/// For people to look at: `target/tmp/pictures`.
#[test]
fn pictures_can_be_taken() {
    let (gateway, browser) = open();
    scenery::fill_year(&gateway.fixture, "station-road");
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    std::fs::create_dir_all(&directory).unwrap();
    let pages = [
        ("overview", "/"),
        ("cluster", "/clusters/altstadt"),
        ("week", "/clusters/oststadt?range=7d"),
        ("month", "/clusters/station-road?range=30d"),
        ("year", "/clusters/station-road?range=1y"),
        ("slots", "/clusters/oststadt/slots"),
        ("lists", "/clusters/altstadt/lists"),
        ("gateway", "/gateway"),
    ];
    for (name, path) in pages {
        for width in [390, 1280] {
            for scheme in ["light", "dark"] {
                browser.prefer(scheme);
                browser.resize(width, 900);
                browser.go(&format!("http://{}{path}", gateway.address));
                browser.wait_for("document.getElementById('news').textContent.startsWith('Live')");
                let height = browser.run("return document.documentElement.scrollHeight").as_u64().unwrap();
                browser.resize(width, u32::try_from(height).unwrap());
                let picture = decode_base64(&browser.picture());
                assert!(picture.starts_with(b"\x89PNG"), "{name} at {width} px");
                std::fs::write(directory.join(format!("{name}-{width}-{scheme}.png")), picture).unwrap();
            }
        }
    }
}

pub fn open() -> (Gateway, Browser) {
    let gateway = Gateway::start();
    scenery::fill(&gateway.fixture);
    let browser = Browser::start();
    browser.resize(1440, 900);
    browser.go(&format!("http://{}/", gateway.address));
    (gateway, browser)
}

fn decode_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = text.bytes().filter_map(|byte| DIGITS.iter().position(|&digit| digit == byte));
    let values: Vec<u32> = values.map(|value| u32::try_from(value).unwrap()).collect();
    let group = |group: &[u32]| {
        let bits = group.iter().fold(0, |bits, value| bits << 6 | value) << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    values.chunks(4).flat_map(group).collect()
}
