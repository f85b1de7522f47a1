//! A small HTTP client: one request, one connection.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "a helper of tests, of which each uses a part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// A header by its name in lower case; the first of them.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub fn get(to: SocketAddr, path: &str) -> Answer {
    request(to, "GET", path, &[], "").unwrap()
}

pub fn request(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(to)?;
    let extra: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n{extra}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(parse(&bytes))
}

fn parse(bytes: &[u8]) -> Answer {
    let split = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer has a head");
    let head = std::str::from_utf8(&bytes[..split]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap().parse().unwrap();
    let header = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_lowercase(), value.trim().to_owned())
    };
    Answer { status, headers: lines.map(header).collect(), body: bytes[split + 4..].to_vec() }
}
