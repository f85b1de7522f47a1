//! A headless Chromium, driven through chromedriver with the few WebDriver commands that the tests need.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::request;

/// How long anything may take: generous, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running browser with one open page.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    /// Kept, because chromedriver would not survive to write where nobody can read.
    _output: BufReader<ChildStdout>,
    address: SocketAddr,
    session: String,
    /// Removed when the browser is gone.
    profile: tempfile::TempDir,
}

impl Browser {
    /// Starts chromedriver, and a browser through it.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("TMPDIR", profile.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut driver = driver.unwrap_or_else(|error| {
            panic!("chromedriver cannot be started ({error}); install the packages `chromium` and `chromium-driver`")
        });
        let mut output = BufReader::new(driver.stdout.take().unwrap());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, announced_port(&mut output)));
        let mut browser = Self { driver, _output: output, address, session: String::new(), profile };
        browser.session = browser.open();
        browser
    }

    fn open(&self) -> String {
        let profile = format!("--user-data-dir={}", self.profile.path().join("profile").display());
        let arguments =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", &profile];
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let value = self.command("POST", "/session", &capabilities);
        value["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("chromium does not start; is the package `chromium` installed? {value}"))
            .to_owned()
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let answer = request(self.address, method, path, &[("Content-Type", "application/json")], &body).unwrap();
        answer.json()["value"].take()
    }

    fn in_session(&self, method: &str, path: &str, body: &Value) -> Value {
        let value = self.command(method, &format!("/session/{}{path}", self.session), body);
        assert!(value.get("error").is_none(), "{path}: {value}");
        value
    }

    /// Opens a page.
    pub fn go(&self, url: &str) {
        self.in_session("POST", "/url", &json!({ "url": url }));
    }

    /// Runs a script, and returns what it returns.
    pub fn run(&self, script: &str) -> Value {
        self.in_session("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Returns the value of an expression as text.
    pub fn text(&self, expression: &str) -> String {
        self.run(&format!("return String({expression})")).as_str().unwrap().to_owned()
    }

    /// Presses and releases a key.
    pub fn press(&self, key: &str) {
        let strokes = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let actions = json!({ "actions": [{ "type": "key", "id": "keys", "actions": strokes }] });
        self.in_session("POST", "/actions", &actions);
    }

    /// Moves the mouse to a place on the screen.
    pub fn hover(&self, x: i64, y: i64) {
        let steps = json!([{ "type": "pointerMove", "duration": 0, "x": x, "y": y }]);
        self.point("mouse", &steps);
    }

    /// Taps on a place on the screen with a finger.
    pub fn tap(&self, x: i64, y: i64) {
        let to = json!({ "type": "pointerMove", "duration": 0, "x": x, "y": y });
        let (down, up) = (json!({ "type": "pointerDown", "button": 0 }), json!({ "type": "pointerUp", "button": 0 }));
        self.point("touch", &json!([to, down, up]));
    }

    fn point(&self, kind: &str, steps: &Value) {
        let pointer = json!({ "type": "pointer", "id": kind, "parameters": { "pointerType": kind }, "actions": steps });
        self.in_session("POST", "/actions", &json!({ "actions": [pointer] }));
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.in_session("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Sets the size of the screen: unlike a window, it may have any width.
    pub fn resize(&self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Sets the preferred colour scheme.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Returns a picture of the page as PNG, in base64.
    pub fn picture(&self) -> String {
        let shot = self.devtools("Page.captureScreenshot", &json!({ "captureBeyondViewport": true }));
        shot["data"].as_str().unwrap().to_owned()
    }

    /// Returns the errors on the console since the last call.
    pub fn console_errors(&self) -> Vec<Value> {
        let log = self.in_session("POST", "/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().cloned().unwrap_or_default();
        entries.into_iter().filter(|entry| entry["level"] != "INFO" && entry["level"] != "DEBUG").collect()
    }

    /// Waits until an expression holds.
    pub fn wait_for(&self, expression: &str) {
        self.until(expression, |it| it.run(&format!("return Boolean({expression})")) == true);
    }

    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < PATIENCE, "still waiting: {what}");
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Browser {
    /// Chromium first: killed before it, chromedriver would leave it behind.
    fn drop(&mut self) {
        if !self.session.is_empty() {
            drop(request(self.address, "DELETE", &format!("/session/{}", self.session), &[], ""));
        }
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}

/// The port that chromedriver has taken, from the line that says so.
fn announced_port(output: &mut impl BufRead) -> u16 {
    let mut said = String::new();
    for line in output.lines().map_while(Result::ok) {
        let port = line.split_once("started successfully on port ").map(|(_, rest)| rest.trim_end_matches('.').parse());
        if let Some(port) = port {
            return port.unwrap();
        }
        said.push_str(&line);
    }
    panic!("chromedriver has not started: {said}")
}
