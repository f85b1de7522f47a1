//! An invitation: one line with all that a home needs to join, which the authority makes and the owner pastes.
//!
//! It has no spaces and nothing that a shell reads in its own way, and people can read what is in it. Fingerprints make what is
//! fetched later what the authority meant; the check at the end finds a line that was cut or retyped.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use dream_edge::mqtt::BrokerUrl;
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_protocol::policy::Profile;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::est::EnrolUrl;

/// What begins every line: the version of its form.
const VERSION: &str = "dream1";

/// How many parts a line has, with the version and the check.
const PARTS: usize = 14;

/// How many characters of its hash end a line.
const CHECK: usize = 6;

/// Why a line is no invitation.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum InvitationError {
    #[error("an invitation begins with `{VERSION},`; copy the whole line that the authority sent")]
    Unknown,
    #[error(
        "the invitation is not whole: it was cut or changed on its way. Copy it again, from `{VERSION}` to its end"
    )]
    Cut,
    #[error("the invitation has an unusable {what} ({why}); ask the authority for another one")]
    Part { what: &'static str, why: String },
}

/// SHA-256 of a certificate's DER: what `openssl x509 -fingerprint -sha256` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    pub fn of(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0))
    }
}

impl FromStr for Fingerprint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let bytes = BASE64.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or("use the 43 characters of the invitation: SHA-256 in base64url")
    }
}

/// What whoever has it may enrol with, once.
pub struct Secret(Zeroizing<[u8; 16]>);

impl Secret {
    pub fn new() -> Self {
        Self(Zeroizing::new(rand::random()))
    }

    /// Reads it as HTTP and the line have it.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(BASE64.decode(text).ok()?);
        Some(Self(Zeroizing::new(bytes.as_slice().try_into().ok()?)))
    }

    pub fn expose(&self) -> Zeroizing<String> {
        Zeroizing::new(BASE64.encode(*self.0))
    }

    /// Returns what the authority keeps of it: nobody can enrol with that.
    pub fn hash(&self) -> String {
        hexadecimal(&Sha256::digest(*self.0))
    }
}

impl Default for Secret {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

/// Everything that a home needs to join.
#[derive(Debug)]
pub struct Invitation {
    pub meter: MeterId,
    pub cluster: ClusterId,
    /// What the community proposes that the owner allows.
    pub profile: Profile,
    pub gateways: Vec<GatewayId>,
    pub broker: BrokerUrl,
    /// Where to enrol, and the certificate that answers there.
    pub enrol: EnrolUrl,
    pub server: Fingerprint,
    pub meter_authorities: Vec<Fingerprint>,
    pub gateway_authorities: Vec<Fingerprint>,
    /// Who certifies the broker, if not those who certify the gateway.
    pub broker_authorities: Vec<Fingerprint>,
    /// In Unix seconds.
    pub expires: u64,
    pub secret: Secret,
}

impl Invitation {
    /// Returns the line. It holds the secret: only for the owner's eyes.
    pub fn line(&self) -> Zeroizing<String> {
        let parts = [
            VERSION.to_owned(),
            self.meter.to_string(),
            self.cluster.to_string(),
            self.profile.to_string(),
            joined(&self.gateways),
            self.broker.to_string(),
            self.enrol.to_string(),
            self.server.to_string(),
            joined(&self.meter_authorities),
            joined(&self.gateway_authorities),
            joined(&self.broker_authorities),
            self.expires.to_string(),
            self.secret.expose().to_string(),
        ];
        let text = Zeroizing::new(parts.join(","));
        Zeroizing::new(format!("{},{}", *text, check(&text)))
    }
}

impl FromStr for Invitation {
    type Err = InvitationError;

    fn from_str(line: &str) -> Result<Self, InvitationError> {
        let line = line.trim();
        if !line.starts_with(&format!("{VERSION},")) {
            return Err(InvitationError::Unknown);
        }
        let (text, end) = line.rsplit_once(',').ok_or(InvitationError::Cut)?;
        if end != check(text) {
            return Err(InvitationError::Cut);
        }
        let parts: Vec<&str> = line.split(',').collect();
        let [
            _,
            meter,
            cluster,
            profile,
            gateways,
            broker,
            enrol,
            server,
            meters,
            of_gateways,
            of_broker,
            expires,
            secret,
            _,
        ] = <[&str; PARTS]>::try_from(parts).map_err(|_| InvitationError::Cut)?;
        let part = |what, why: String| InvitationError::Part { what, why };
        let gateways: Result<Vec<_>, _> = gateways.split('+').map(GatewayId::new).collect();
        let known = |what, text: &str| fingerprints(text).ok_or_else(|| part(what, "no SHA-256".to_owned()));
        Ok(Self {
            meter: MeterId::new(meter).map_err(|error| part("name of the meter", error.to_string()))?,
            cluster: ClusterId::new(cluster).map_err(|error| part("name of the cluster", error.to_string()))?,
            profile: profile.parse().map_err(|_| part("profile", profile.to_owned()))?,
            gateways: gateways.map_err(|error| part("name of a gateway", error.to_string()))?,
            broker: BrokerUrl::parse(broker).ok_or_else(|| part("address of the broker", broker.to_owned()))?,
            enrol: enrol.parse().map_err(|why| part("address to enrol at", why))?,
            server: known("fingerprint of the server", server)?[..]
                .first()
                .copied()
                .ok_or_else(|| part("fingerprint of the server", "none".to_owned()))?,
            meter_authorities: known("fingerprint of the meters' authority", meters)?,
            gateway_authorities: known("fingerprint of the gateway's authority", of_gateways)?,
            broker_authorities: known("fingerprint of the broker's authority", of_broker)?,
            expires: expires.parse().map_err(|_| part("end", expires.to_owned()))?,
            secret: Secret::parse(secret).ok_or_else(|| part("secret", "not 16 bytes".to_owned()))?,
        })
    }
}

fn joined(all: &[impl fmt::Display]) -> String {
    if all.is_empty() {
        return "-".to_owned();
    }
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}

fn fingerprints(text: &str) -> Option<Vec<Fingerprint>> {
    if text == "-" {
        return Some(Vec::new());
    }
    text.split('+').map(|one| one.parse().ok()).collect()
}

fn check(text: &str) -> String {
    BASE64.encode(Sha256::digest(text))[..CHECK].to_owned()
}

/// Writes bytes as digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation() -> Invitation {
        Invitation {
            meter: MeterId::new("m-0007").unwrap(),
            cluster: ClusterId::new("riverside").unwrap(),
            profile: Profile::Community,
            gateways: vec![GatewayId::new("gw-1").unwrap(), GatewayId::new("gw-2").unwrap()],
            broker: BrokerUrl::parse("mqtts://broker.example").unwrap(),
            enrol: "https://authority.example:8445".parse().unwrap(),
            server: Fingerprint::of(b"server"),
            meter_authorities: vec![Fingerprint::of(b"meters")],
            gateway_authorities: vec![Fingerprint::of(b"gateways"), Fingerprint::of(b"others")],
            broker_authorities: Vec::new(),
            expires: 1_800_000_000,
            secret: Secret::parse("AAECAwQFBgcICQoLDA0ODw").unwrap(),
        }
    }

    #[test]
    fn a_line_says_all_again() {
        let line = invitation().line();
        insta::assert_snapshot!(&*line);
        let read: Invitation = format!("  {}\n", *line).parse().unwrap();
        assert_eq!(read.line(), line);
        assert_eq!(read.secret.hash(), invitation().secret.hash());
        assert!(!format!("{read:?}").contains("AAECAwQF"), "a secret is printed");
    }

    #[test]
    fn a_line_that_was_cut_or_changed_anywhere_is_refused() {
        let line = invitation().line();
        for end in 0..line.len() {
            line[..end].parse::<Invitation>().unwrap_err();
        }
        for at in 0..line.len() {
            let mut changed = line.as_bytes().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            String::from_utf8(changed).unwrap().parse::<Invitation>().unwrap_err();
        }
        assert_eq!("hello".parse::<Invitation>().unwrap_err(), InvitationError::Unknown);
    }

    #[test]
    fn what_a_line_holds_is_checked_although_its_check_is_right() {
        let line = invitation().line();
        let (text, _) = line.rsplit_once(',').unwrap();
        for (old, new) in [
            ("m-0007", "M 7"),
            ("community", "lax"),
            ("gw-1+gw-2", ""),
            ("mqtts://broker.example:8883", "http://x"),
            ("https://authority.example:8445", "http://authority.example"),
            ("1800000000", "soon"),
            ("AAECAwQFBgcICQoLDA0ODw", "AAEC"),
        ] {
            assert!(text.contains(old), "{old}");
            let text = text.replace(old, new);
            let error = format!("{text},{}", check(&text)).parse::<Invitation>().unwrap_err();
            assert!(matches!(error, InvitationError::Part { .. }), "{new}: {error}");
        }
    }
}
