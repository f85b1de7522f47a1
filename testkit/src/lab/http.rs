//! One question on a connection of its own.

use std::io::Error;
use std::net::SocketAddr;
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
    let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
    let agent: ureq::Agent = config.max_redirects(0).proxy(None).max_idle_connections(0).build().into();
    let mut request = ureq::http::Request::builder().method(method).uri(format!("http://{to}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = match body {
        "" => agent.run(request.body(()).map_err(Error::other)?),
        body => agent.run(request.body(body).map_err(Error::other)?),
    };
    let mut answer = answer.map_err(ureq::Error::into_io)?;
    let text = |value: &ureq::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = answer.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = answer.body_mut().with_config().read_to_vec().map_err(ureq::Error::into_io)?;
    Ok(Answer { status: answer.status().as_u16(), headers, body })
}
