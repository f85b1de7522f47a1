//! What is wrong with the broker, in one line that says what to do.

use std::fmt;
use std::io;
use std::time::Duration;

use rumqttc::{ConnectReturnCode, ConnectionError, StateError, TlsError};

use super::{BrokerUrl, Names};
use crate::serve::{OUT_OF_FILES, is_out_of_files};

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    cause: Cause,
    words: String,
}

/// What kind of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A key, certificate or password cannot be read.
    Secret,
    /// Nobody listens there.
    Refused,
    /// The name has no address.
    Name,
    /// The two sides do not trust each other, or one of them does not speak TLS.
    Tls,
    /// The broker does not want this client.
    NotAuthorised,
    /// The broker, or something between, hung up.
    Closed,
    /// No answer.
    Silent,
    Other,
}

impl Trouble {
    /// All labels, so that every series of a metric is there from the start.
    pub const LABELS: [&'static str; 8] =
        ["secret", "refused", "name", "tls", "not_authorised", "closed", "silent", "other"];

    pub fn new(cause: Cause, words: impl Into<String>) -> Self {
        Self { cause, words: words.into() }
    }

    /// Returns the label in metrics.
    pub const fn label(&self) -> &'static str {
        match self.cause {
            Cause::Secret => "secret",
            Cause::Refused => "refused",
            Cause::Name => "name",
            Cause::Tls => "tls",
            Cause::NotAuthorised => "not_authorised",
            Cause::Closed => "closed",
            Cause::Silent => "silent",
            Cause::Other => "other",
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// A connection that failed, and what is needed to say why.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) url: &'a BrokerUrl,
    pub(super) names: &'a Names,
    pub(super) client_id: &'a str,
    /// Whether a client's certificate was there to be shown.
    pub(super) has_certificate: bool,
    /// `None` if the broker never let the client in.
    pub(super) connected_for: Option<Duration>,
}

impl Attempt<'_> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "another crate's errors: those that an operator can act on have names"
    )]
    pub(super) fn explain(&self, error: ConnectionError) -> Trouble {
        let address = self.url.address();
        match error {
            ConnectionError::ConnectionRefused(code) => self.not_authorised(code),
            ConnectionError::NetworkTimeout | ConnectionError::FlushTimeout => self.silent(),
            ConnectionError::MqttState(StateError::AwaitPingResp) => self.silent(),
            ConnectionError::Tls(TlsError::Io(error)) | ConnectionError::Io(error) if is_out_of_files(&error) => {
                Trouble::new(Cause::Other, format!("cannot connect to {address}: {OUT_OF_FILES}"))
            }
            ConnectionError::Tls(TlsError::Io(error)) | ConnectionError::Io(error) => match classify(&error) {
                Cause::Refused => Trouble::new(
                    Cause::Refused,
                    format!(
                        "{address} refuses connections: check {}, and that the broker runs and listens there",
                        self.names.url
                    ),
                ),
                Cause::Name => {
                    let (host, url) = (&self.url.host, self.names.url);
                    Trouble::new(Cause::Name, format!("the name {host} in {url} has no address ({error})"))
                }
                Cause::Tls => self.tls(&error.to_string()),
                Cause::Silent => self.silent(),
                _ => self.closed(&error.to_string()),
            },
            ConnectionError::Tls(error) => self.tls(&error.to_string()),
            // TLS 1.3 brokers refuse a client's certificate only after the handshake.
            ConnectionError::MqttState(StateError::Io(error)) if classify(&error) == Cause::Tls => {
                self.tls(&error.to_string())
            }
            ConnectionError::MqttState(StateError::Io(error)) => self.closed(&error.to_string()),
            ConnectionError::MqttState(error @ StateError::ConnectionAborted) => self.closed(&error.to_string()),
            ConnectionError::MqttState(error @ StateError::Deserialization(_)) if self.connected_for.is_none() => {
                let text = error.to_string();
                let reason = text.rsplit_once("IO: ").map_or(text.as_str(), |(_, reason)| reason);
                // Otherwise what answered does not speak MQTT.
                if reason.contains(ALERT) { self.tls(reason) } else { self.closed(reason) }
            }
            error => Trouble::new(Cause::Other, format!("the connection to {address} failed: {error}")),
        }
    }

    fn silent(&self) -> Trouble {
        let words = format!("{} does not answer: check the network and {}", self.url.address(), self.names.url);
        Trouble::new(Cause::Silent, words)
    }

    fn not_authorised(&self, code: ConnectReturnCode) -> Trouble {
        let what = match code {
            ConnectReturnCode::BadUserNamePassword => "the user name or password is wrong",
            ConnectReturnCode::NotAuthorized => "not authorised",
            ConnectReturnCode::BadClientId => "the client id is refused",
            ConnectReturnCode::RefusedProtocolVersion => "MQTT 3.1.1 is refused",
            ConnectReturnCode::ServiceUnavailable => "the broker is not available",
            ConnectReturnCode::Success => "refused",
        };
        let (address, Names { client, login, certificate, .. }) = (self.url.address(), self.names);
        let or_certificate = certificate.map(|(certificate, _)| format!(" or {certificate}")).unwrap_or_default();
        Trouble::new(
            Cause::NotAuthorised,
            format!("{address} does not let {client} in: {what}; check {login}{or_certificate}, and the broker's log"),
        )
    }

    /// What the client's certificate is called.
    fn certificate(&self) -> &'static str {
        self.names.certificate.map_or("the client's certificate", |(certificate, _)| certificate)
    }

    /// Says what to do where the broker asks for a client's certificate.
    fn set_certificate(&self) -> String {
        self.names.certificate.map_or_else(
            || "use a port that asks for none".to_owned(),
            |(certificate, key)| format!("set {certificate} and {key}"),
        )
    }

    fn closed(&self, error: &str) -> Trouble {
        let (address, client_id, names) = (self.url.address(), self.client_id, self.names);
        let words = match self.connected_for {
            Some(connected_for) if connected_for.as_secs() < 10 => format!(
                "{address} closed the connection after {} s ({error}): {} connected as `{client_id}`, or with the same \
                 certificate? {}",
                connected_for.as_secs(),
                names.is_another,
                names.tell_apart,
            ),
            Some(_) => format!("{address} closed the connection ({error})"),
            None => format!("{address} hung up before answering ({error}): {}", self.hang_up_hint()),
        };
        Trouble::new(Cause::Closed, words)
    }

    /// Returns what to do about a connection that ends before the broker has answered.
    fn hang_up_hint(&self) -> String {
        let (Names { url, ca, .. }, certificate, set) = (self.names, self.certificate(), self.set_certificate());
        if !self.url.tls {
            format!("the port seems to expect TLS; use `mqtts://` in {url}, with {ca}, or the port without TLS")
        } else if !self.has_certificate {
            format!("the broker may ask for a client's certificate; {set}. Is the port the one for TLS?")
        } else {
            format!(
                "is the port the one for TLS, and does the broker trust the authority of {certificate}? Its log says more"
            )
        }
    }

    fn tls(&self, error: &str) -> Trouble {
        let words = format!("TLS with {} fails ({error}): {}", self.url.address(), self.tls_hint(error));
        Trouble::new(Cause::Tls, words)
    }

    /// Returns what to do about a handshake that fails, by what rustls says of it.
    fn tls_hint(&self, error: &str) -> String {
        let (Names { url, ca, .. }, certificate) = (self.names, self.certificate());
        let is = |signs: &[&str]| signs.iter().any(|sign| error.contains(sign));
        if is(&["CertificateRequired"]) {
            format!("the broker asks for a client's certificate; {}", self.set_certificate())
        } else if is(&["alert: UnknownCA", "alert: DecryptError", "alert: BadCertificate", "alert: CertificateUnknown"])
        {
            // A failed signature is another authority with the same name, as those of two trials have.
            format!(
                "the broker does not trust who issued {certificate}: does it come from another authority or trial? \
                 Use one that the broker trusts, or let its operator trust this one (mosquitto: `cafile`)"
            )
        } else if is(&["alert: CertificateExpired"]) {
            format!("{certificate} has expired, or this machine's and the broker's clocks differ; renew it")
        } else if is(&["UnknownIssuer", "BadSignature"]) {
            format!(
                "the broker's certificate was issued by no authority in {ca}: does it come from another authority or \
                 trial? Name the file with the authority that issued it"
            )
        } else if is(&["NotValidForName"]) {
            format!(
                "the broker's certificate is for another name; use a name in {url} that is in it, or issue it for this one"
            )
        } else if is(&["InvalidCertificate(Expired", "certificate expired"]) {
            "the broker's certificate has expired, or this machine's clock is wrong".to_owned()
        } else if is(&["InvalidContentType"]) {
            format!("the port does not speak TLS; use the broker's port for TLS, or `mqtt://` in {url}")
        } else {
            format!(
                "check {ca}, the name in the broker's certificate, {certificate}, and that the port is the one for TLS"
            )
        }
    }
}

/// How rustls begins when the broker has refused something, which TLS 1.3 lets it do after the handshake.
const ALERT: &str = "received fatal alert: ";

#[expect(clippy::wildcard_enum_match_arm, reason = "the standard library's kinds, of which few have a meaning here")]
fn classify(error: &io::Error) -> Cause {
    let text = error.to_string();
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Cause::Refused,
        io::ErrorKind::TimedOut => Cause::Silent,
        io::ErrorKind::InvalidData => Cause::Tls,
        _ if text.contains("lookup address") => Cause::Name,
        _ if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => Cause::Tls,
        _ => Cause::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_are_not_blamed_on_tls_or_the_broker() {
        let url = BrokerUrl::parse("mqtts://broker.example").unwrap();
        let names = Names {
            client: "the gateway",
            url: "`broker.url`",
            ca: "`broker.ca`",
            certificate: None,
            login: "`broker.username`",
            is_another: "is another gateway",
            tell_apart: "",
        };
        let attempt =
            Attempt { url: &url, names: &names, client_id: "gw-1-0", has_certificate: true, connected_for: None };
        let error = || io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
        for error in [ConnectionError::Io(error()), ConnectionError::Tls(TlsError::Io(error()))] {
            let trouble = attempt.explain(error);
            assert_eq!(
                (trouble.label(), trouble.to_string().as_str()),
                ("other", format!("cannot connect to broker.example:8883: {OUT_OF_FILES}").as_str())
            );
        }
    }
}
