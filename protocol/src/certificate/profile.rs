//! How a certificate's fields are read: where X.509 or a library leaves room, one way is chosen (`protocol.md 3`).

use x509_parser::asn1_rs::Tag;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension, X509Extension};
use x509_parser::oid_registry::{
    OID_SIG_ED25519, OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_EXTENDED_KEY_USAGE, OID_X509_EXT_KEY_USAGE,
    OID_X509_EXT_SUBJECT_ALT_NAME,
};
use x509_parser::prelude::FromDer;

use super::draw::{DRAW_URN, Draw};
use super::{CertificateError, CertifiedCluster, Subject};
use crate::ids::{ClusterId, GatewayId, MeterId};
use crate::keys::IdentityPublic;
use crate::params::MAX_MEMBERS;

pub(super) const METER_URN: &str = "urn:dream:meter:";
pub(super) const GATEWAY_URN: &str = "urn:dream:gateway:";
pub(super) const CLUSTER_URN: &str = "urn:dream:cluster:";
const ANY_URN: &str = "urn:dream:";

pub(super) fn parse(der: &[u8]) -> Result<X509Certificate<'_>, CertificateError> {
    match X509Certificate::from_der(der) {
        Ok(([], parsed)) if is_wrapped_in_der(der, &parsed) && are_extensions_in_der(&parsed) => Ok(parsed),
        Ok(_) | Err(_) => Err(CertificateError::Malformed),
    }
}

/// Whether what the authority's signature does not cover is the one DER encoding of it (RFC 5280, 4.1.1).
///
/// x509-parser also reads other tags and unused bits, by which anyone could change a certificate on its way.
fn is_wrapped_in_der(der: &[u8], parsed: &X509Certificate<'_>) -> bool {
    let signed = parsed.tbs_certificate.as_ref();
    let signature = parsed.signature_value.data.as_ref();
    let mut bit_string = der_head(0x03, signature.len() + 1);
    bit_string.push(0);
    let wrapper = || {
        let rest = der.strip_suffix(signature)?.strip_suffix(bit_string.as_slice())?;
        let at = rest.windows(signed.len()).position(|part| part == signed)?;
        Some((&rest[..at], &rest[at + signed.len()..]))
    };
    wrapper().is_some_and(|(head, algorithm)| {
        // The algorithm is stated twice, the first time under the signature.
        let stated = (1..=MAX_ALGORITHM).contains(&algorithm.len())
            && signed.windows(algorithm.len()).any(|part| part == algorithm);
        stated && head == der_head(0x30, der.len() - head.len())
    })
}

/// Whether the extensions are written as DER has it, in particular without a `critical` that is FALSE, the default.
fn are_extensions_in_der(parsed: &X509Certificate<'_>) -> bool {
    let extension = |extension: &X509Extension<'_>| {
        let critical: &[u8] = if extension.critical { &[0x01, 0x01, 0xff] } else { &[] };
        let oid = der_element(0x06, extension.oid.as_bytes());
        der_element(0x30, &[&oid, critical, &der_element(0x04, extension.value)].concat())
    };
    let all = parsed.extensions().iter().map(extension).collect::<Vec<_>>().concat();
    all.is_empty() || parsed.tbs_certificate.as_ref().ends_with(&der_element(0xa3, &der_element(0x30, &all)))
}

/// Whether an extension's content is one element, in the encoding that DER asks for where libraries take others.
fn is_der(extension: &X509Extension<'_>) -> bool {
    let value = extension.value;
    if extension.oid == OID_X509_EXT_KEY_USAGE {
        // A list of named bits ends with its last one that is set.
        let ends_with_a_bit = |unused: u8, last: u8| last != 0 && last.trailing_zeros() == u32::from(unused);
        return is_element(0x03, value) && matches!(value, [_, _, unused, .., last] if ends_with_a_bit(*unused, *last));
    }
    // A certificate that is not a CA's leaves everything out: `cA` is FALSE by default, and a path length is a CA's.
    is_element(0x30, value) && (extension.oid != OID_X509_EXT_BASIC_CONSTRAINTS || value == [0x30, 0])
}

/// Whether bytes are exactly one element of this tag, with a length in its shortest form.
fn is_element(tag: u8, bytes: &[u8]) -> bool {
    (2..=4).any(|head| bytes.len() >= head && bytes[..head] == der_head(tag, bytes.len() - head))
}

fn der_element(tag: u8, content: &[u8]) -> Vec<u8> {
    [&der_head(tag, content.len()), content].concat()
}

/// The longest AlgorithmIdentifier that is compared; those of every signature algorithm in use are shorter.
const MAX_ALGORITHM: usize = 80;

/// Tag and length of a DER element.
fn der_head(tag: u8, len: usize) -> Vec<u8> {
    let bytes = len.to_be_bytes();
    let significant = &bytes[bytes.iter().take_while(|&&byte| byte == 0).count()..];
    match significant {
        [] => vec![tag, 0],
        [short @ 0..=0x7f] => vec![tag, *short],
        long => [&[tag, 0x80 | u8::try_from(long.len()).expect("at most 8")], long].concat(),
    }
}

pub(super) fn subject_key(parsed: &X509Certificate<'_>) -> Result<IdentityPublic, CertificateError> {
    let info = parsed.public_key();
    let key = match info.subject_public_key.data.as_ref().try_into() {
        Ok(bytes) if info.algorithm.algorithm == OID_SIG_ED25519 => IdentityPublic(bytes),
        _ => return Err(CertificateError::NotEd25519),
    };
    if key.is_sound() { Ok(key) } else { Err(CertificateError::WeakKey) }
}

/// What a certificate's names say: who it speaks of, for which cluster, and what it is drawn by.
type Named = (Subject, Option<CertifiedCluster>, Option<Draw>);

pub(super) fn subject(parsed: &X509Certificate<'_>) -> Result<Named, CertificateError> {
    check_extensions(parsed)?;
    let common = common_name(parsed)?;
    let Names { role, cluster, draw } = dream_names(parsed)?;
    let matches = |id: &str| if id == common { Ok(()) } else { Err(CertificateError::NameMismatch) };
    if let Some(id) = role.strip_prefix(METER_URN) {
        matches(id)?;
        let cluster = cluster.map(certified_cluster).transpose()?;
        Ok((Subject::Meter(MeterId::new(id)?), cluster, draw.map(Draw::from_urn).transpose()?))
    } else if let Some(id) = role.strip_prefix(GATEWAY_URN) {
        matches(id)?;
        let subject = Subject::Gateway(GatewayId::new(id)?);
        // A gateway serves clusters, and belongs to none.
        match (cluster, draw) {
            (Some(_), _) => Err(CertificateError::Cluster),
            (None, Some(_)) => Err(CertificateError::Draw),
            (None, None) => Ok((subject, None, None)),
        }
    } else {
        Err(CertificateError::Name)
    }
}

/// The one common name. Of the string types that X.509 knows, two are read; an `_` is no PrintableString's.
fn common_name<'a>(parsed: &'a X509Certificate<'_>) -> Result<&'a str, CertificateError> {
    let mut names = parsed.subject().iter_common_name();
    let (Some(common), None) = (names.next(), names.next()) else {
        return Err(CertificateError::CommonName);
    };
    let text = std::str::from_utf8(common.attr_value().data).ok();
    let text = match common.attr_value().tag() {
        Tag::Utf8String => text,
        Tag::PrintableString => text.filter(|text| !text.contains('_')),
        _ => None,
    };
    text.ok_or(CertificateError::CommonName)
}

/// The name that says the role, and those that say the cluster and the draw value, if there are such.
struct Names<'a> {
    role: &'a str,
    cluster: Option<&'a str>,
    draw: Option<&'a str>,
}

fn dream_names<'a>(parsed: &'a X509Certificate<'_>) -> Result<Names<'a>, CertificateError> {
    let bad = |_| CertificateError::BadExtension(OID_X509_EXT_SUBJECT_ALT_NAME.to_id_string());
    let names = parsed.subject_alternative_name().map_err(bad)?.ok_or(CertificateError::Name)?;
    let ours = names.value.general_names.iter().filter_map(|name| {
        if let GeneralName::URI(uri) = name { Some(*uri).filter(|uri| uri.starts_with(ANY_URN)) } else { None }
    });
    let (clusters, others): (Vec<_>, Vec<_>) = ours.partition(|name| name.starts_with(CLUSTER_URN));
    let (draws, roles): (Vec<_>, Vec<_>) = others.into_iter().partition(|name| name.starts_with(DRAW_URN));
    let [role] = roles[..] else { return Err(CertificateError::Name) };
    let cluster = at_most_one(&clusters).ok_or(CertificateError::Cluster)?;
    Ok(Names { role, cluster, draw: at_most_one(&draws).ok_or(CertificateError::Draw)? })
}

fn at_most_one<'a>(names: &[&'a str]) -> Option<Option<&'a str>> {
    match names {
        [] => Some(None),
        [only] => Some(Some(only)),
        _ => None,
    }
}

/// Reads `urn:dream:cluster:<name>` or `urn:dream:cluster:<name>:<size>`.
fn certified_cluster(urn: &str) -> Result<CertifiedCluster, CertificateError> {
    let named = urn.strip_prefix(CLUSTER_URN).ok_or(CertificateError::Cluster)?;
    let (id, size) = match named.split_once(':') {
        Some((id, size)) => (id, Some(cluster_size(size).ok_or(CertificateError::Cluster)?)),
        None => (named, None),
    };
    Ok(CertifiedCluster { id: ClusterId::new(id).map_err(|_| CertificateError::Cluster)?, size })
}

/// A decimal from 1 to 10,000 without sign or leading zeros.
fn cluster_size(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|&size| plain && usize::from(size) <= MAX_MEMBERS)
}

/// Reads the extensions that decide something and refuses critical ones that nobody here understands.
fn check_extensions(parsed: &X509Certificate<'_>) -> Result<(), CertificateError> {
    let understood = [
        OID_X509_EXT_BASIC_CONSTRAINTS,
        OID_X509_EXT_KEY_USAGE,
        OID_X509_EXT_EXTENDED_KEY_USAGE,
        OID_X509_EXT_SUBJECT_ALT_NAME,
    ];
    for (at, extension) in parsed.extensions().iter().enumerate() {
        let id = &extension.oid;
        let named = || id.to_id_string();
        if !understood.contains(id) {
            if extension.critical {
                return Err(CertificateError::UnknownCriticalExtension(named()));
            }
            continue;
        }
        if parsed.extensions()[..at].iter().any(|earlier| earlier.oid == *id) {
            return Err(CertificateError::BadExtension(named()));
        }
        let content = extension.parsed_extension();
        if matches!(content, ParsedExtension::BasicConstraints(constraints) if constraints.ca) {
            return Err(CertificateError::IsAnAuthority);
        }
        if matches!(content, ParsedExtension::KeyUsage(usage) if !usage.digital_signature()) {
            return Err(CertificateError::KeyUsage);
        }
        let unread = matches!(content, ParsedExtension::ParseError { .. } | ParsedExtension::Unparsed);
        if unread || !is_der(extension) {
            return Err(CertificateError::BadExtension(named()));
        }
    }
    Ok(())
}
