//! The URLs by which programs are told where their broker is.

use std::fmt;

/// Where a broker listens: `mqtt://HOST[:1883]`, or `mqtts://HOST[:8883]` for TLS. IPv6 addresses are in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerUrl {
    pub tls: bool,
    pub host: String,
    pub port: u16,
}

impl BrokerUrl {
    /// Reads a URL; `None` if it is not one of a broker. It has no place for a login.
    pub fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (tls, default_port) = match scheme {
            "mqtt" => (false, 1883),
            "mqtts" => (true, 8883),
            _ => return None,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|&port| port > 0)?),
            _ => (rest, default_port),
        };
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        let plain = !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ', '[', ']', '"', '\\']);
        (plain && (bracketed.is_some() || !host.contains(':'))).then(|| Self { tls, host: host.to_owned(), port })
    }

    /// Returns host and port.
    pub fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "mqtts" } else { "mqtt" };
        write!(f, "{scheme}://{}", self.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_what_is_none() {
        let found = |url: &str| BrokerUrl::parse(url).map(|url| url.to_string());
        assert_eq!(found("mqtt://broker").as_deref(), Some("mqtt://broker:1883"));
        assert_eq!(found("mqtts://broker/").as_deref(), Some("mqtts://broker:8883"));
        assert_eq!(found("mqtt://[::1]:7").as_deref(), Some("mqtt://[::1]:7"));
        assert_eq!(found("mqtts://[::1]").as_deref(), Some("mqtts://[::1]:8883"));
        for url in
            ["broker:1883", "http://broker", "mqtt://", "mqtt://a:0", "mqtt://a:b", "mqtt://me:pass@a", "mqtt://a/b"]
        {
            assert_eq!(found(url), None, "{url}");
        }
    }

    #[test]
    fn an_ipv6_address_without_brackets_is_not_taken_for_a_host_and_a_port() {
        assert_eq!(BrokerUrl::parse("mqtt://::1"), None);
        assert_eq!(BrokerUrl::parse("mqtts://fe80::1:8883"), None);
    }
}
