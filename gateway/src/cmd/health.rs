//! `dream-gateway health`: asks a running gateway how it is, for images without a shell.

use std::io::{BufRead as _, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use crate::cmd::BadInput;
use crate::config::{Config, Overrides};

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ask a running gateway whether it is ready
///
/// Exits with 0 if the gateway answers that it is: the store can be written and the broker has confirmed the subscriptions. With
/// --live it is enough that the process answers.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dream-gateway health --config /etc/dream/gateway.toml
  dream-gateway health --url http://127.0.0.1:9464 --live")]
pub(super) struct HealthArgs {
    /// The gateway's configuration file, for its `http.listen`
    #[arg(long, short, value_name = "FILE", env = "DREAM_CONFIG", required_unless_present = "url")]
    config: Option<PathBuf>,
    /// The gateway's address, instead of the one in a configuration
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Ask only whether it runs
    #[arg(long)]
    live: bool,
}

pub(super) fn run(args: &HealthArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let address = args.address()?;
    let path = if args.live { "/livez" } else { "/readyz" };
    let (status, body) = ask(address, path).with_context(|| format!("http://{address}{path} does not answer"))?;
    anyhow::ensure!(status == 200, "http://{address}{path} answers {status}: {body}");
    Ok(writeln!(out, "{body}")?)
}

impl HealthArgs {
    fn address(&self) -> anyhow::Result<SocketAddr> {
        if let Some(url) = &self.url {
            return Ok(resolve(url)?);
        }
        let path = self.config.as_ref().context("clap asks for --config or --url")?;
        Ok(reachable(Config::load(path, &Overrides::of_process(Some(0)))?.http))
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

/// Returns the status and the body, which is one line.
fn ask(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut lines = BufReader::new(stream).lines();
    let head = lines.next().context("nothing came back")??;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("the answer is not HTTP")?;
    let body = lines.skip_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).nth(1);
    Ok((status, body.transpose()?.unwrap_or_default()))
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
