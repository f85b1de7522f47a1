//! How commands reach a running gateway.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dream_edge::files;
use dream_edge::http::{Limits, Question};
use dream_edge::tls;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use zeroize::Zeroizing;

use super::BadInput;
use crate::config::{Config, Overrides, secrets};

/// What an answer may take.
const LIMITS: Limits = Limits { patience: Duration::from_secs(5), body_bytes: 16 << 20 };

/// Which gateway to ask.
#[derive(Debug, Args)]
pub(super) struct RunningGateway {
    /// The gateway's configuration file, for the address that it listens on and its certificate
    #[arg(long, short, value_name = "FILE", env = "DREAM_CONFIG", required_unless_present = "url")]
    config: Option<PathBuf>,
    /// The gateway's address, instead of the one in a configuration
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The certificates that verify the gateway's, for an https:// address
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
    /// The file with a token, where the gateway asks for a login
    #[arg(long, value_name = "FILE", env = "DREAM_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

impl RunningGateway {
    /// Returns the configuration file, if one is named.
    pub(super) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Asks for a path; returns the body of an answer that is one.
    pub(super) fn ask(&self, path: &str) -> anyhow::Result<String> {
        let answer = self.answer(path)?;
        let body = answer.body().map_err(anyhow::Error::msg)?;
        Ok(body.to_owned())
    }

    /// Asks for a path; returns whatever comes of it.
    pub(super) fn answer(&self, path: &str) -> anyhow::Result<Answer> {
        let Place { address, tls } = self.place()?;
        let token = self.token_file.as_deref().map(token).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{address}{path}");
        let question = Question { address, path, token: token.as_ref().map(|token| token.as_str()), tls };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let told = runtime.block_on(question.ask(LIMITS));
        let told = told.map(|(status, body)| (status, String::from_utf8_lossy(&body).trim_end().to_owned()));
        Ok(Answer { url, told, has_token: token.is_some() })
    }

    /// Returns the place of the URL, or else the one of the configuration, as this host reaches it.
    fn place(&self) -> anyhow::Result<Place> {
        if let Some(url) = &self.url {
            return of_url(url, self.ca.as_deref());
        }
        let path = self.config.as_ref().context("clap asks for --config or --url")?;
        let http = Config::load(path, &Overrides::of_process(Some(0)))?.http;
        let address = reachable(http.listen);
        // Only the gateway has the key of its certificate, whatever name that is for.
        let client = http.tls.map(|tls| secrets::http_client(&tls.certificate)).transpose()?;
        Ok(Place { address, tls: client.map(|client| (client, ServerName::from(address.ip()))) })
    }
}

/// What came of a question.
#[derive(Debug)]
pub(super) struct Answer {
    url: String,
    /// The status and the body, or why there is none.
    pub(super) told: Result<(u16, String), String>,
    has_token: bool,
}

impl Answer {
    /// Returns the body of an answer with status 200; otherwise what is wrong.
    pub(super) fn body(&self) -> Result<&str, String> {
        let url = &self.url;
        match &self.told {
            Ok((200, body)) => Ok(body),
            Ok((401, body)) if !self.has_token => Err(format!(
                "{url} answers 401: {body}; name a file with a token in --token-file (`dream-gateway access token` makes one)"
            )),
            Ok((status, body)) => Err(format!("{url} answers {status}: {body}")),
            Err(problem) => Err(format!("{url} does not answer: {problem}")),
        }
    }
}

/// Where a gateway is.
#[derive(Debug)]
struct Place {
    address: SocketAddr,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// Returns the place that a URL names.
fn of_url(url: &str, ca: Option<&Path>) -> anyhow::Result<Place> {
    let wrong = |why: &str| BadInput(format!("--url: `{url}` {why}; use http://HOST:PORT or https://HOST:PORT"));
    let secure = url.strip_prefix("https://");
    let host = secure.or_else(|| url.strip_prefix("http://"));
    let host = host.ok_or_else(|| wrong("is not a gateway's address"))?.trim_end_matches('/');
    let mut found = host.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    let address = found.next().ok_or_else(|| wrong("has no address"))?;
    let tls = match (secure, ca) {
        (None, None) => None,
        (None, Some(_)) => return Err(BadInput("--ca has no effect on an http:// address; leave it out".into()).into()),
        (Some(_), None) => {
            return Err(
                BadInput("--url: https:// needs --ca, the certificates that verify the gateway's".into()).into()
            );
        }
        (Some(host), Some(ca)) => {
            let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']);
            let name = ServerName::try_from(name.to_owned()).map_err(|_| wrong("has no name of a host"))?;
            let roots = tls::roots(files::certificates(ca)?).with_context(|| format!("--ca: {}", ca.display()))?;
            Some((tls::client(roots, None)?, name))
        }
    };
    Ok(Place { address, tls })
}

/// Reads a token: the file's first line.
fn token(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    let line = files::password(&files::read(path)?);
    let wrong = || BadInput(format!("--token-file: {} does not hold a token in its first line", path.display()));
    let text = std::str::from_utf8(&line).map_err(|_| wrong())?.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong().into());
    }
    Ok(Zeroizing::new(text.to_owned()))
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
    fn only_addresses_of_gateways_are_urls() {
        let place = of_url("http://127.0.0.1:9464/", None).unwrap();
        assert_eq!((place.address, place.tls.is_none()), ("127.0.0.1:9464".parse().unwrap(), true));
        for url in ["127.0.0.1:9464", "https://127.0.0.1:9464", "http://127.0.0.1", "ftp://127.0.0.1:21"] {
            of_url(url, None).unwrap_err();
        }
        of_url("http://127.0.0.1:9464", Some(Path::new("ca.pem"))).unwrap_err();
    }

    #[test]
    fn a_token_is_one_line_of_a_file_and_never_repeated() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "dream_00ff\n").unwrap();
        assert_eq!(*token(file.path()).unwrap(), "dream_00ff");
        for text in ["", "\n", "s3cret and more\n", "s\u{e9}cret"] {
            std::fs::write(file.path(), text).unwrap();
            let told = token(file.path()).unwrap_err().to_string();
            assert!(!told.contains("cret"), "{told}");
        }
    }
}
