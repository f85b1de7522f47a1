//! How commands reach a running gateway.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dream_edge::http::{self, Limits};

use super::BadInput;
use crate::config::{Config, Overrides};

/// What an answer may take.
const LIMITS: Limits = Limits { patience: Duration::from_secs(5), body_bytes: 16 << 20 };

/// Which gateway to ask.
#[derive(Debug, Args)]
pub(super) struct RunningGateway {
    /// The gateway's configuration file, for the address that it listens on
    #[arg(long, short, value_name = "FILE", env = "DREAM_CONFIG", required_unless_present = "url")]
    config: Option<PathBuf>,
    /// The gateway's address, instead of the one in a configuration
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

impl RunningGateway {
    /// Returns the address of the URL, or else the one that `listen` finds in the configuration, as this host reaches it.
    pub(super) fn address(
        &self,
        listen: impl FnOnce(&Config) -> anyhow::Result<SocketAddr>,
    ) -> anyhow::Result<SocketAddr> {
        if let Some(url) = &self.url {
            return Ok(resolve(url)?);
        }
        let path = self.config.as_ref().context("clap asks for --config or --url")?;
        Ok(reachable(listen(&Config::load(path, &Overrides::of_process(Some(0)))?)?))
    }
}

/// Returns the address that a URL names.
fn resolve(url: &str) -> Result<SocketAddr, BadInput> {
    let wrong = |why: &str| BadInput(format!("--url: `{url}` {why}; use http://HOST:PORT"));
    let host = url.strip_prefix("http://").ok_or_else(|| wrong("is not a gateway's address"))?.trim_end_matches('/');
    let mut found = host.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    found.next().ok_or_else(|| wrong("has no address"))
}

/// Returns where a listener on all interfaces is reached from the same host.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let host = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(host, listen.port())
}

/// Asks for a path; returns the answer's body.
pub(super) fn ask(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let url = format!("http://{address}{path}");
    let (status, body) =
        http::get(&url, LIMITS).map_err(|problem| anyhow::anyhow!("{url} does not answer: {problem}"))?;
    let body = String::from_utf8_lossy(&body).trim_end().to_owned();
    anyhow::ensure!(status == 200, "{url} answers {status}: {body}");
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_interfaces_is_asked_on_the_loopback() {
        for (listen, asked) in
            [("0.0.0.0:9464", "127.0.0.1:9464"), ("[::]:9464", "[::1]:9464"), ("10.0.0.1:80", "10.0.0.1:80")]
        {
            assert_eq!(reachable(listen.parse().unwrap()), asked.parse().unwrap());
        }
    }

    #[test]
    fn only_plain_addresses_are_urls() {
        assert_eq!(resolve("http://127.0.0.1:9464/").unwrap(), "127.0.0.1:9464".parse().unwrap());
        for url in ["127.0.0.1:9464", "https://127.0.0.1:9464", "http://127.0.0.1"] {
            resolve(url).unwrap_err();
        }
    }
}
