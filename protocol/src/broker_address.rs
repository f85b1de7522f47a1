//! The URLs by which gateways and meters are told where their broker is.

/// Returns whether `mqtt://HOST[:1883]` or `mqtts://HOST[:8883]` means TLS, its host and its port. IPv6 addresses are in
/// brackets.
pub fn broker_address(url: &str) -> Option<(bool, String, u16)> {
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
    (plain && (bracketed.is_some() || !host.contains(':'))).then(|| (tls, host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_what_is_none() {
        let found = |url: &str| broker_address(url).map(|(tls, host, port)| format!("{tls} {host} {port}"));
        assert_eq!(found("mqtt://broker").as_deref(), Some("false broker 1883"));
        assert_eq!(found("mqtts://broker/").as_deref(), Some("true broker 8883"));
        assert_eq!(found("mqtt://[::1]:7").as_deref(), Some("false ::1 7"));
        assert_eq!(found("mqtts://[::1]").as_deref(), Some("true ::1 8883"));
        for url in
            ["broker:1883", "http://broker", "mqtt://", "mqtt://a:0", "mqtt://a:b", "mqtt://me:pass@a", "mqtt://a/b"]
        {
            assert_eq!(found(url), None, "{url}");
        }
    }

    #[test]
    fn an_ipv6_address_without_brackets_is_not_taken_for_a_host_and_a_port() {
        assert_eq!(broker_address("mqtt://::1"), None);
        assert_eq!(broker_address("mqtts://fe80::1:8883"), None);
    }
}
