//! The URLs of a program's brokers.

use std::fmt;

use crate::config::{Key, Section};

/// What else a URL could be.
const NOT_A_BROKER: &str = "not a broker's address; use mqtt://HOST[:1883] or mqtts://HOST[:8883], and `username` and `password_file` \
                            for the login";

/// Where a broker listens: `mqtt://HOST[:1883]`, or `mqtts://HOST[:8883]` for TLS. IPv6 addresses are in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerUrl {
    pub tls: bool,
    pub host: String,
    pub port: u16,
}

impl BrokerUrl {
    /// Reads the key `url` of a section, or `urls` for the nodes of one broker cluster: at least one, and all with TLS or none.
    pub fn read(section: &Section<'_>, url: Key<'_, '_>) -> Option<Vec<Self>> {
        let parse = |url: &str| Self::parse(url).ok_or(NOT_A_BROKER);
        let several = section.key("urls").texts();
        let url = if section.has("urls") { url } else { url.required("\"mqtts://broker.example\"") };
        // A variable replaces whatever the file has.
        match (url.parsed(parse), several) {
            (Some(_), Some(_)) if section.has("url") => {
                section.wrong("urls", "is set beside `url`; use one of them");
                None
            }
            (Some(url), _) => Some(vec![url]),
            (None, None) => None,
            (None, Some(texts)) => {
                let urls = texts.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>();
                let urls = urls.map_err(|error| section.wrong("urls", format!("one of them is {error}"))).ok()?;
                let Some(first) = urls.first() else {
                    section.wrong("urls", "an empty list; name at least one broker");
                    return None;
                };
                if urls.iter().any(|url| url.tls != first.tls) {
                    section.wrong("urls", "mixes mqtt:// and mqtts://; use one of them for all");
                    return None;
                }
                Some(urls)
            }
        }
    }

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
    use std::path::Path;

    use super::*;
    use crate::config::{Variables, read_text};

    #[test]
    fn nodes_of_a_cluster_are_read_in_their_order_and_mistakes_in_them_are_named() {
        let found = |text: &str| {
            let (urls, report) = read_text(Path::new("a.toml"), text, &Variables::default(), |root| {
                BrokerUrl::read(root, root.key("url"))
            });
            let urls = report.finish(urls.flatten()).map_err(|error| error.to_string())?;
            Ok::<_, String>(urls.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(found("url = 'mqtt://a'"), Ok(vec!["mqtt://a:1883".to_owned()]));
        let two = vec!["mqtts://b:8883".to_owned(), "mqtts://a:1".to_owned()];
        assert_eq!(found("urls = ['mqtts://b', 'mqtts://a:1']"), Ok(two));
        for (text, problem) in [
            ("", "missing"),
            ("urls = []", "at least one"),
            ("url = 'mqtt://a'\nurls = ['mqtt://b']", "use one of them"),
            ("urls = ['mqtt://a', 'mqtts://b']", "use one of them for all"),
            ("urls = ['mqtt://me:secret@a']", "not a broker's address"),
        ] {
            let error = found(text).unwrap_err();
            assert!(error.contains(problem) && !error.contains("secret"), "{text}: {error}");
        }
    }

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
