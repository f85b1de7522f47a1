//! How a certificate's fields are read: where X.509 or a library leaves room, one way is chosen (`protocol.md 3`).

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::str;

use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Decode as _, Tag, Tagged as _};

use super::draw::{DRAW_URN, Draw};
use super::fields::{self, Extension, Fields, oid};
use super::{CertificateError, CertifiedCluster, Subject};
use crate::ids::{ClusterId, GatewayId, MeterId};
use crate::keys::IdentityPublic;
use crate::params::MAX_MEMBERS;

pub(super) const METER_URN: &str = "urn:dream:meter:";
pub(super) const GATEWAY_URN: &str = "urn:dream:gateway:";
pub(super) const CLUSTER_URN: &str = "urn:dream:cluster:";
const ANY_URN: &str = "urn:dream:";

/// Whether an extension's content is one element, in the encoding that DER asks for where libraries take others.
fn is_der(extension: &Extension<'_>) -> bool {
    let value = extension.value;
    if extension.oid == oid::KEY_USAGE {
        // A list of named bits ends with its last one that is set.
        let ends_with_a_bit = |unused: u8, last: u8| last != 0 && last.trailing_zeros() == u32::from(unused);
        return is_element(0x03, value) && matches!(value, [_, _, unused, .., last] if ends_with_a_bit(*unused, *last));
    }
    // A certificate that is not a CA's leaves everything out: `cA` is FALSE by default, and a path length is a CA's.
    is_element(0x30, value) && (extension.oid != oid::BASIC_CONSTRAINTS || value == [0x30, 0])
}

/// Whether bytes are exactly one element of this tag. `der` takes no length but in its shortest form.
fn is_element(tag: u8, bytes: &[u8]) -> bool {
    bytes.first() == Some(&tag) && AnyRef::from_der(bytes).is_ok()
}

/// Returns an object identifier as people write it.
fn dotted(oid: &[u8]) -> String {
    ObjectIdentifier::from_bytes(oid).map_or_else(|_| "with an unusual id".to_string(), |oid| oid.to_string())
}

pub(super) fn subject_key(read: &Fields<'_>) -> Result<IdentityPublic, CertificateError> {
    let (algorithm, bytes) = read.key()?;
    let key = match bytes.try_into() {
        Ok(bytes) if algorithm.is_ed25519() => IdentityPublic(bytes),
        _ => return Err(CertificateError::NotEd25519),
    };
    if key.is_sound() { Ok(key) } else { Err(CertificateError::WeakKey) }
}

/// What a certificate's names say: who it speaks of, for which cluster, and what it is drawn by.
type Named = (Subject, Option<CertifiedCluster>, Option<Draw>);

pub(super) fn subject(read: &Fields<'_>) -> Result<Named, CertificateError> {
    check_extensions(read)?;
    let common = common_name(read)?;
    let Names { role, cluster, draw } = dream_names(read)?;
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
fn common_name<'a>(read: &Fields<'a>) -> Result<&'a str, CertificateError> {
    let [common] = read.common_names[..] else { return Err(CertificateError::CommonName) };
    let text = str::from_utf8(common.value()).ok();
    let text = match common.tag() {
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

fn dream_names<'a>(read: &Fields<'a>) -> Result<Names<'a>, CertificateError> {
    let names = read.extensions.iter().find(|extension| extension.oid == oid::SUBJECT_ALT_NAME);
    let uris = fields::uris(names.ok_or(CertificateError::Name)?.value).unwrap_or_default();
    let ours = uris.into_iter().filter(|uri| uri.starts_with(ANY_URN));
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
fn check_extensions(read: &Fields<'_>) -> Result<(), CertificateError> {
    for (at, extension) in read.extensions.iter().enumerate() {
        let bad = || CertificateError::BadExtension(dotted(extension.oid));
        let repeated = || read.extensions[..at].iter().any(|earlier| earlier.oid == extension.oid);
        let well_formed = match extension.oid {
            oid::BASIC_CONSTRAINTS | oid::KEY_USAGE | oid::EXTENDED_KEY_USAGE | oid::SUBJECT_ALT_NAME if repeated() => {
                return Err(bad());
            }
            oid::BASIC_CONSTRAINTS => match fields::is_authority(extension.value) {
                Some(true) => return Err(CertificateError::IsAnAuthority),
                constraints => constraints.is_some(),
            },
            oid::KEY_USAGE => match fields::allows_signatures(extension.value) {
                Some(false) => return Err(CertificateError::KeyUsage),
                usage => usage.is_some(),
            },
            oid::EXTENDED_KEY_USAGE => fields::is_list_of_purposes(extension.value),
            oid::SUBJECT_ALT_NAME => fields::uris(extension.value).is_some(),
            _ if extension.critical => return Err(CertificateError::UnknownCriticalExtension(dotted(extension.oid))),
            _ => continue,
        };
        if !well_formed || !is_der(extension) {
            return Err(bad());
        }
    }
    Ok(())
}
