//! What is wrong with the broker, in one line that says what to do.

use std::fmt;
use std::io;
use std::time::Duration;

use rumqttc::{ConnectReturnCode, ConnectionError, StateError, TlsError};

use crate::config::Broker;
use crate::config::secrets::SecretError;

/// Why there is no connection.
#[derive(Debug)]
pub enum Trouble {
    /// A key, certificate or password cannot be read.
    Secret(SecretError),
    /// Nobody listens there.
    Refused {
        address: String,
    },
    /// The name has no address.
    Name {
        host: String,
        error: String,
    },
    /// The two sides do not trust each other, or one of them does not speak TLS.
    Tls {
        address: String,
        error: String,
        hint: &'static str,
    },
    /// The broker does not want this client.
    NotAuthorised {
        address: String,
        code: ConnectReturnCode,
    },
    /// The broker, or something between, hung up.
    Closed {
        address: String,
        client_id: String,
        connected_for: Option<Duration>,
        hint: &'static str,
        error: String,
    },
    /// No answer.
    Silent {
        address: String,
    },
    Other {
        address: String,
        error: String,
    },
}

impl Trouble {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "another crate's errors: those that an operator can act on have names"
    )]
    pub(super) fn new(
        error: ConnectionError,
        broker: &Broker,
        client_id: &str,
        connected_for: Option<Duration>,
    ) -> Self {
        let address = broker.address();
        let closed = |error: String| Self::Closed {
            address: address.clone(),
            client_id: client_id.to_owned(),
            connected_for,
            hint: hang_up_hint(broker),
            error,
        };
        let tls = |error: String| Self::Tls { address: address.clone(), hint: tls_hint(&error), error };
        match error {
            ConnectionError::ConnectionRefused(code) => Self::NotAuthorised { address, code },
            ConnectionError::NetworkTimeout | ConnectionError::FlushTimeout => Self::Silent { address },
            ConnectionError::MqttState(StateError::AwaitPingResp) => Self::Silent { address },
            ConnectionError::Tls(TlsError::Io(error)) | ConnectionError::Io(error) => match classify(&error) {
                Cause::Refused => Self::Refused { address },
                Cause::Name => Self::Name { host: broker.host.clone(), error: error.to_string() },
                Cause::Tls => tls(error.to_string()),
                Cause::Silent => Self::Silent { address },
                Cause::Other => closed(error.to_string()),
            },
            ConnectionError::Tls(error) => tls(error.to_string()),
            ConnectionError::MqttState(StateError::Io(error)) => match classify(&error) {
                // TLS 1.3 brokers refuse a client's certificate only after the handshake.
                Cause::Tls => tls(error.to_string()),
                Cause::Refused | Cause::Name | Cause::Silent | Cause::Other => closed(error.to_string()),
            },
            ConnectionError::MqttState(error @ StateError::ConnectionAborted) => closed(error.to_string()),
            ConnectionError::MqttState(error @ StateError::Deserialization(_)) if connected_for.is_none() => {
                let text = error.to_string();
                let reason = text.rsplit_once("IO: ").map_or(text.as_str(), |(_, reason)| reason);
                // Otherwise what answered does not speak MQTT.
                if reason.contains(ALERT) { tls(reason.to_owned()) } else { closed(reason.to_owned()) }
            }
            error => Self::Other { address, error: error.to_string() },
        }
    }

    /// Returns the label in metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Secret(_) => "secret",
            Self::Refused { .. } => "refused",
            Self::Name { .. } => "name",
            Self::Tls { .. } => "tls",
            Self::NotAuthorised { .. } => "not_authorised",
            Self::Closed { .. } => "closed",
            Self::Silent { .. } => "silent",
            Self::Other { .. } => "other",
        }
    }

    /// All labels, so that every series is there from the start.
    pub const LABELS: [&'static str; 8] =
        ["secret", "refused", "name", "tls", "not_authorised", "closed", "silent", "other"];
}

enum Cause {
    Refused,
    Name,
    Tls,
    Silent,
    Other,
}

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

/// Returns what to do about a connection that ends before the broker has answered.
const fn hang_up_hint(broker: &Broker) -> &'static str {
    match &broker.tls {
        None => {
            "the port seems to expect TLS; use `mqtts://` in `broker.url`, with `broker.ca`, or the port without TLS"
        }
        Some(tls) if tls.client.is_none() => {
            "the broker may ask for a client's certificate; set `broker.client_certificate` and `broker.client_key`. Is the \
             port the one for TLS?"
        }
        Some(_) => {
            "is the port the one for TLS, and does the broker trust the authority of `broker.client_certificate`? Its log \
             says more"
        }
    }
}

/// How rustls begins when the broker has refused something, which TLS 1.3 lets it do after the handshake.
const ALERT: &str = "received fatal alert: ";

/// Returns what to do about a handshake that fails, by what rustls says of it.
fn tls_hint(error: &str) -> &'static str {
    let hints = [
        (
            "CertificateRequired",
            "the broker asks for a client's certificate; set `broker.client_certificate` and `broker.client_key`",
        ),
        ("alert: UnknownCA", STRANGER),
        // Another authority has the same name, as those of two trials have.
        ("alert: DecryptError", STRANGER),
        (
            "alert: CertificateExpired",
            "`broker.client_certificate` has ended, or this machine's and the broker's clocks differ; renew it",
        ),
        ("UnknownIssuer", STRANGE_BROKER),
        ("BadSignature", STRANGE_BROKER),
        (
            "NotValidForName",
            "the broker's certificate is for another name; use a name in `broker.url` that is in it, or issue it for this one",
        ),
        (
            "InvalidContentType",
            "the port does not speak TLS; use the broker's port for TLS, or `mqtt://` in `broker.url`",
        ),
    ];
    let general = "check `broker.ca`, the name in the broker's certificate, `broker.client_certificate`, and that the port is \
                   the one for TLS";
    hints.into_iter().find(|(sign, _)| error.contains(sign)).map_or(general, |(_, hint)| hint)
}

const STRANGER: &str = "the broker does not trust who issued `broker.client_certificate`: is it of another authority or trial? \
                        Use one that the broker trusts, or let it trust this one (mosquitto: `cafile`)";

const STRANGE_BROKER: &str = "the broker's certificate is of no authority in `broker.ca`: is it of another authority or trial? \
                              Name the file with the authority that issued it";

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(error) => error.fmt(f),
            Self::Refused { address } => {
                write!(
                    f,
                    "{address} refuses connections: check `broker.url`, and that the broker runs and listens there"
                )
            }
            Self::Name { host, error } => write!(f, "the name {host} in `broker.url` has no address ({error})"),
            Self::Tls { address, error, hint } => write!(f, "TLS with {address} fails ({error}): {hint}"),
            Self::NotAuthorised { address, code } => {
                let what = match code {
                    ConnectReturnCode::BadUserNamePassword => "the user name or password is wrong",
                    ConnectReturnCode::NotAuthorized => "not authorised",
                    ConnectReturnCode::BadClientId => "the client id is refused",
                    ConnectReturnCode::RefusedProtocolVersion => "MQTT 3.1.1 is refused",
                    ConnectReturnCode::ServiceUnavailable => "the broker is not available",
                    ConnectReturnCode::Success => "refused",
                };
                write!(
                    f,
                    "{address} does not let the gateway in: {what}; check `broker.username`, `broker.password_file` or \
                     `broker.client_certificate`, and the broker's log"
                )
            }
            Self::Closed { address, client_id, connected_for, hint, error } => match connected_for {
                Some(connected_for) if connected_for.as_secs() < 10 => write!(
                    f,
                    "{address} closed the connection after {} s ({error}): is another gateway connected as `{client_id}`, \
                     or with the same certificate? Stop it, or give one of them another `id` and certificate, or another \
                     `ordinal` if they are replicas",
                    connected_for.as_secs()
                ),
                Some(_) => write!(f, "{address} closed the connection ({error})"),
                None => write!(f, "{address} hung up before answering ({error}): {hint}"),
            },
            Self::Silent { address } => write!(f, "{address} does not answer: check the network and `broker.url`"),
            Self::Other { address, error } => write!(f, "the connection to {address} failed: {error}"),
        }
    }
}
