//! The page in a real browser.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "support/browser.rs"]
mod browser;
#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/http.rs"]
mod http;
#[path = "support/outcomes.rs"]
mod outcomes;
#[path = "support/scenery.rs"]
mod scenery;

use browser::Browser;
use gateway::Gateway;

#[test]
#[ignore = "writes pictures for people to look at, into $DREAM_SHOTS"]
fn pictures() {
    let (gateway, browser) = open();
    let directory = std::path::PathBuf::from(std::env::var_os("DREAM_SHOTS").expect("DREAM_SHOTS names a directory"));
    std::fs::create_dir_all(&directory).unwrap();
    for (name, path) in [("overview", "/"), ("cluster", "/clusters/altstadt"), ("week", "/clusters/oststadt?range=7d")]
    {
        for width in [320, 1440] {
            for scheme in ["light", "dark"] {
                browser.prefer(scheme);
                browser.resize(width, 900);
                browser.go(&format!("http://{}{path}", gateway.address));
                browser.wait_for("document.getElementById('news').textContent.startsWith('Live')");
                let height = browser.run("return document.documentElement.scrollHeight").as_u64().unwrap();
                browser.resize(width, u32::try_from(height).unwrap());
                let picture = decode_base64(&browser.picture());
                std::fs::write(directory.join(format!("{name}-{width}-{scheme}.png")), picture).unwrap();
            }
        }
    }
}

fn open() -> (Gateway, Browser) {
    let gateway = Gateway::start();
    scenery::fill(&gateway);
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
