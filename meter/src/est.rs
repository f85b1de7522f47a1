//! Enrolment over Secure Transport (RFC 7030): what goes over the wire, for the authority and for meters.

mod client;

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use yasna::models::ObjectIdentifier;
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, Tag};

pub use client::{Answer, Client, EstError};

/// The paths that a client asks for.
pub const CA_CERTIFICATES: &str = "/.well-known/est/cacerts";
pub const ATTRIBUTES: &str = "/.well-known/est/csrattrs";
pub const ENROL: &str = "/.well-known/est/simpleenroll";
pub const REENROL: &str = "/.well-known/est/simplereenroll";

/// Beside the standard: the authorities of the other roles, and the register.
pub const GATEWAY_AUTHORITIES: &str = "/dream/v1/gateway-authorities.pem";
pub const BROKER_AUTHORITIES: &str = "/dream/v1/broker-ca.pem";
pub const REGISTER: &str = "/dream/v1/register";

/// The port of an address that names none.
const PORT: u16 = 8445;

/// Where to enrol: `https://HOST[:8445]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolUrl {
    pub host: String,
    pub port: u16,
}

impl FromStr for EnrolUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: use https://HOST[:{PORT}]");
        let rest = text.strip_prefix("https://").ok_or_else(wrong)?.trim_end_matches('/');
        let authority: axum::http::uri::Authority = rest.parse().map_err(|_| wrong())?;
        let host = authority.host();
        let allowed = |char: char| char.is_ascii_alphanumeric() || "-._:[]".contains(char);
        if host.is_empty() || !rest.chars().all(allowed) || (authority.port().is_none() && rest.len() > host.len()) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port: authority.port_u16().unwrap_or(PORT) })
    }
}

impl fmt::Display for EnrolUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}:{}", self.host, self.port)
    }
}

/// Returns certificates as EST carries them: a SignedData without signatures (RFC 5652, 5.1), in base64.
pub fn certificates(all: &[&[u8]]) -> String {
    let der = yasna::construct_der(|writer| {
        writer.write_sequence(|content| {
            content.next().write_oid(&oid(SIGNED_DATA));
            content.next().write_tagged(Tag::context(0), |signed| {
                signed.write_sequence(|signed| {
                    signed.next().write_u8(1);
                    signed.next().write_set(|_| {});
                    signed.next().write_sequence(|data| data.next().write_oid(&oid(DATA)));
                    signed.next().write_tagged_implicit(Tag::context(0), |found| {
                        found.write_set_of(|found| all.iter().for_each(|der| found.next().write_der(der)));
                    });
                    signed.next().write_set(|_| {});
                });
            });
        });
    });
    wrapped(&der)
}

/// Returns the certificates, in DER, that EST carried.
pub fn read_certificates(body: &[u8]) -> Option<Vec<Vec<u8>>> {
    let der = decode(body)?;
    let all = yasna::parse_der(&der, |reader| {
        reader.read_sequence(|content| {
            expect(&content.next().read_oid()?, SIGNED_DATA)?;
            content.next().read_tagged(Tag::context(0), |signed| {
                signed.read_sequence(|signed| {
                    signed.next().read_u8()?;
                    signed.next().read_der()?;
                    signed.next().read_der()?;
                    let mut all = Vec::new();
                    signed.next().read_tagged_implicit(Tag::context(0), |found| {
                        found.read_set_of(|found| {
                            all.push(found.read_der()?);
                            Ok(())
                        })
                    })?;
                    // Lists of revoked certificates may follow, and signatures, of which there are none.
                    while signed.read_optional(|rest| rest.read_der())?.is_some() {}
                    Ok(all)
                })
            })
        })
    });
    all.ok().filter(|all| !all.is_empty())
}

/// Writes a body as base64 in lines, as mail does.
pub fn wrapped(der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let lines = text.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line) + "\n");
    lines.collect()
}

/// Reads a body in base64, wherever its lines end.
pub fn decode(body: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(text).ok().filter(|der| !der.is_empty())
}

const SIGNED_DATA: &[u64] = &[1, 2, 840, 113549, 1, 7, 2];
const DATA: &[u64] = &[1, 2, 840, 113549, 1, 7, 1];

fn oid(numbers: &[u64]) -> ObjectIdentifier {
    ObjectIdentifier::from_slice(numbers)
}

fn expect(found: &ObjectIdentifier, numbers: &[u64]) -> ASN1Result<()> {
    if *found == oid(numbers) { Ok(()) } else { Err(ASN1Error::new(ASN1ErrorKind::Invalid)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something that is DER, and of any length.
    fn der(length: usize) -> Vec<u8> {
        yasna::construct_der(|writer| writer.write_sequence(|parts| parts.next().write_bytes(&vec![7; length])))
    }

    #[test]
    fn certificates_are_read_as_they_were_written() {
        for lengths in [&[1][..], &[300, 40], &[70_000]] {
            let all: Vec<Vec<u8>> = lengths.iter().map(|length| der(*length)).collect();
            let body = certificates(&all.iter().map(Vec::as_slice).collect::<Vec<_>>());
            assert!(body.lines().all(|line| line.len() <= 76));
            let mut read = read_certificates(body.as_bytes()).unwrap();
            read.sort_by_key(|der| all.iter().position(|other| other == der));
            assert_eq!(read, all);
        }
    }

    #[test]
    fn what_holds_no_certificate_is_refused() {
        let body = certificates(&[&der(40)]);
        let whole = decode(body.as_bytes()).unwrap();
        for end in 0..whole.len() {
            assert_eq!(read_certificates(wrapped(&whole[..end]).as_bytes()), None, "{end}");
        }
        for body in ["", "hello", "!!", "MAA=", certificates(&[]).as_str()] {
            assert_eq!(read_certificates(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn an_address_is_https_with_a_host_and_perhaps_a_port() {
        for (text, host, port) in [
            ("https://authority.example", "authority.example", 8445),
            ("https://authority.example:443/", "authority.example", 443),
            ("https://127.0.0.1:8445", "127.0.0.1", 8445),
            ("https://[::1]:1", "[::1]", 1),
        ] {
            let url: EnrolUrl = text.parse().unwrap();
            assert_eq!((url.host.as_str(), url.port), (host, port), "{text}");
            assert_eq!(url.to_string().parse::<EnrolUrl>().unwrap(), url);
        }
        for text in [
            "authority.example",
            "http://a",
            "https://",
            "https://a/b",
            "https://me:secret@a",
            "https://a:x",
            "https://a:",
        ] {
            text.parse::<EnrolUrl>().unwrap_err();
        }
    }
}
