//! A small HTTP client: one request, one connection.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "a helper of tests, of which each uses a part")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
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
    read(&mut BufReader::new(stream))
}

/// Stops after the announced length: not every server closes the connection when it is asked to.
fn read(stream: &mut impl BufRead) -> std::io::Result<Answer> {
    let mut lines = stream.by_ref().lines();
    let status_line = lines.next().ok_or(ErrorKind::UnexpectedEof)??;
    let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(ErrorKind::InvalidData)?;
    let mut headers = Vec::new();
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(ErrorKind::InvalidData)?;
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut answer = Answer { status, headers, body: Vec::new() };
    match answer.header("content-length").map(|length| length.parse().unwrap()) {
        Some(length) => stream.take(length).read_to_end(&mut answer.body)?,
        None => stream.read_to_end(&mut answer.body)?,
    };
    Ok(answer)
}
