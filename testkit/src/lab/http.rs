//! As much of HTTP/1.1 as a test needs to ask one question on a connection of its own.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server's answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns the first header of this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body, which must be text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns the body, which must be JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Asks for a path.
pub fn get(to: SocketAddr, path: &str) -> std::io::Result<Answer> {
    request(to, "GET", path, &[], "")
}

/// Sends a request, and returns its answer.
pub fn request(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let extra: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n{extra}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    read(&mut BufReader::new(stream), method == "HEAD")
}

/// Stops after the announced length: not every server closes the connection when it is asked to.
fn read(stream: &mut impl BufRead, without_body: bool) -> std::io::Result<Answer> {
    let mut lines = stream.by_ref().lines();
    let status_line = lines.next().ok_or(ErrorKind::UnexpectedEof)??;
    let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(ErrorKind::InvalidData)?;
    let mut headers = Vec::new();
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(ErrorKind::InvalidData)?;
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut answer = Answer { status, headers, body: Vec::new() };
    if without_body {
        return Ok(answer);
    }
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = read_chunks(stream)?;
        return Ok(answer);
    }
    match answer.header("content-length").map(|length| length.parse().unwrap()) {
        Some(length) => stream.take(length).read_to_end(&mut answer.body)?,
        None => stream.read_to_end(&mut answer.body)?,
    };
    Ok(answer)
}

fn read_chunks(stream: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16).map_err(|_| ErrorKind::InvalidData)?;
        if length == 0 {
            return Ok(body);
        }
        stream.take(length).read_to_end(&mut body)?;
        stream.read_exact(&mut [0; 2])?;
    }
}
