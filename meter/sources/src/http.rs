//! `http`: devices on the local network that are asked for a JSON document.
//!
//! One GET on one connection, HTTP/1.1 without TLS: these devices have no certificate that anybody could check.

use std::time::Duration;

use dream_edge::config::Section;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::config::{cadence, nothing_to_read, replace, required_unit, sign, unit};
use crate::link::{connect, host_and_port};
use crate::mapping::{Field, Mapping, Overlay};
use crate::outlet::{Outlet, Stop};
use crate::pointer::Pointer;
use crate::slot_mean::Cadence;
use crate::units::{Sign, Unit};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Documents of devices are small.
const LARGEST: u64 = 256 << 10;

/// A device that is known by name.
#[derive(Debug, Clone, Copy)]
enum Preset {
    Homewizard,
}

#[derive(Debug, Clone)]
pub(crate) struct Http {
    /// `HOST:PORT`
    address: String,
    request: String,
    mapping: Mapping,
    cadence: Cadence,
    every: Duration,
}

impl Http {
    pub(crate) fn read(section: &Section<'_>) -> Option<Self> {
        let preset = section.key("preset").one_of(&[("homewizard", Preset::Homewizard)]);
        let reached = section.key("url").required("\"http://192.168.1.30\"").parsed(|url| reached(url, preset));
        let mut mapping = preset.map(mapping_of).unwrap_or_default();
        let is_any = replace(section, &mut mapping, field_of);
        let import_only = section.key("import_only").flag();
        mapping.import_only = import_only.unwrap_or(mapping.import_only);
        if mapping.topics().is_empty() && !is_any && !section.has("preset") {
            nothing_to_read(section, "pointer and unit");
        }
        let (cadence, interval_millis) = cadence(section);
        let (address, host, path) = reached?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\nUser-Agent: dream-meter\r\nConnection: close\r\n\r\n"
        );
        Some(Self { address, request, mapping, cadence, every: Duration::from_millis(interval_millis) })
    }

    pub(crate) const fn cadence(&self) -> Cadence {
        self.cadence
    }

    pub(crate) async fn session(&mut self, outlet: &mut Outlet) -> Stop {
        self.ask_again_and_again(outlet).await.err().unwrap_or(Stop::Closed)
    }

    /// Asks until something is wrong, which it always returns.
    async fn ask_again_and_again(&self, outlet: &mut Outlet) -> Result<(), Stop> {
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_first = true;
        loop {
            ticks.tick().await;
            let document = self.ask().await.map_err(Stop::Lost)?;
            if std::mem::take(&mut is_first) {
                outlet.connected().await?;
            }
            let mut overlay = Overlay::new(self.mapping.clone(), None);
            let carried =
                overlay.take("", &document, 0).map_err(|problem| Stop::Lost(format!("the answer: {problem}")))?;
            if !carried {
                return Err(Stop::Lost("the answer has none of the values that are looked for".to_owned()));
            }
            outlet.sample(overlay.values(0)).await?;
        }
    }

    async fn ask(&self) -> Result<Vec<u8>, String> {
        let exchange = async {
            let mut stream = connect(&self.address).await?;
            stream.write_all(self.request.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.take(LARGEST).read_to_end(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = match timeout(PATIENCE, exchange).await {
            Ok(answer) => answer.map_err(|error| error.to_string())?,
            Err(_) => return Err(format!("{}: no answer within {} s", self.address, PATIENCE.as_secs())),
        };
        body(&answer).map_err(|problem| format!("{}: {problem}", self.address))
    }
}

/// Takes the document out of an answer to a request that asked for the end of the connection.
pub fn body(answer: &[u8]) -> Result<Vec<u8>, String> {
    let end =
        answer.windows(4).position(|window| window == b"\r\n\r\n").ok_or("the answer is not HTTP, or was cut short")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let rest = &answer[end + 4..];
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        return Err(format!("the answer has the status {:?} and not 200", status.chars().take(3).collect::<String>()));
    }
    let header = |name: &str| {
        let value =
            head.lines().find_map(|line| line.split_once(':').filter(|(key, _)| key.eq_ignore_ascii_case(name)));
        value.map(|(_, value)| value.trim().to_ascii_lowercase())
    };
    if header("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
        return unchunked(rest).ok_or_else(|| "the answer was cut short".to_owned());
    }
    match header("content-length").map(|length| length.parse::<usize>()) {
        Some(Ok(length)) => rest.get(..length).map(<[u8]>::to_vec).ok_or_else(|| "the answer was cut short".to_owned()),
        Some(Err(_)) => Err("the answer's length is no number".to_owned()),
        None => Ok(rest.to_vec()),
    }
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut document = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(document);
        }
        document.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size.checked_add(2)?..)?;
    }
}

/// Splits a URL into an address, the host as it is written and a path, which a preset knows.
fn reached(url: &str, preset: Option<Preset>) -> Result<(String, String, String), &'static str> {
    const PROBLEM: &str =
        "not an address; use http://HOST[:PORT]/PATH, without a login (https needs a name and a certificate)";
    let rest = url.strip_prefix("http://").ok_or(PROBLEM)?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let printable = url.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || host.contains('@') || !printable {
        return Err(PROBLEM);
    }
    let path = match (path, preset) {
        ("" | "/", Some(Preset::Homewizard)) => "/api/v1/data",
        ("", None) => "/",
        (path, _) => path,
    };
    let address = if has_port(host) { host.to_owned() } else { format!("{host}:80") };
    Ok((host_and_port(&address)?, host.to_owned(), path.to_owned()))
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'))
}

fn mapping_of(preset: Preset) -> Mapping {
    match preset {
        Preset::Homewizard => {
            let counter = |direction: &str| {
                let tariff = |n: u8| field(&format!("/total_power_{direction}_t{n}_kwh"), Unit::KiloWh);
                // Belgian meters and older firmware have no total.
                vec![vec![field(&format!("/total_power_{direction}_kwh"), Unit::KiloWh)], vec![tariff(1), tariff(2)]]
            };
            Mapping {
                power: vec![vec![field("/active_power_w", Unit::W)]],
                import: counter("import"),
                export: counter("export"),
                ..Mapping::default()
            }
        }
    }
}

fn field(text: &str, unit: Unit) -> Field {
    Field { topic: String::new(), pointer: Pointer::parse(text), unit, sign: Sign::Import, direction: None }
}

fn field_of(section: &Section<'_>, is_power: bool) -> Option<Field> {
    let pointer = section.key("pointer").required("\"/active_power_w\"").parsed(Pointer::read);
    let unit = required_unit(section, unit(section, "unit", is_power), is_power);
    let sign = sign(section, "sign");
    Some(Field { pointer: Some(pointer?), sign, ..field("/", unit?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_taken_out_of_an_answer() {
        let taken = |answer: &str| body(answer.as_bytes()).map(|body| String::from_utf8(body).unwrap());
        assert_eq!(taken("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}\r\n").as_deref(), Ok("{}"));
        assert_eq!(taken("HTTP/1.0 200 OK\r\n\r\n{}").as_deref(), Ok("{}"));
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\n{\"\r\n3\r\na\":\r\n2\r\n1}\r\n0\r\n\r\n";
        assert_eq!(taken(chunked).as_deref(), Ok("{\"a\":1}"));
    }

    #[test]
    fn an_answer_that_is_none_is_refused() {
        for (answer, problem) in [
            ("nonsense", "not HTTP"),
            ("HTTP/1.1 403 Forbidden\r\n\r\n", "status \"403\""),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "cut short"),
            ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}", "no number"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nx", "cut short"),
        ] {
            let found = body(answer.as_bytes()).unwrap_err();
            assert!(found.contains(problem), "{answer}: {found}");
        }
    }
}
