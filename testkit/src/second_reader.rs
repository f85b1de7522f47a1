//! What x509-parser reads in a certificate that the protocol accepts: it must be the same.

use std::collections::BTreeSet;

use dream_protocol::certificate::{Certificate, Subject};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;
use x509_parser::time::ASN1Time;

/// Reads a certificate twice; returns whether the protocol takes it for one, whoever issued it.
///
/// # Panics
///
/// If the protocol accepts it and x509-parser reads something else, or nothing.
pub fn assert_readers_agree(der: &[u8]) -> bool {
    let Ok(ours) = Certificate::unverified(der) else { return false };
    let (rest, theirs) = X509Certificate::from_der(der).expect("x509-parser refuses what the protocol accepts");
    assert!(rest.is_empty(), "x509-parser stops before the end");
    let key = theirs.public_key();
    assert_eq!(key.algorithm.algorithm.to_id_string(), "1.3.101.112");
    assert_eq!(key.subject_public_key.data.as_ref(), ours.key().0);
    let seconds = |time: ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    let validity = theirs.validity();
    assert_eq!((seconds(validity.not_before), seconds(validity.not_after)), (ours.not_before(), ours.not_after()));

    let (id, role) = match ours.subject() {
        Subject::Meter(id) => (id.as_str(), "meter"),
        Subject::Gateway(id) => (id.as_str(), "gateway"),
    };
    let common: Vec<_> = theirs.subject().iter_common_name().map(|name| name.attr_value().data).collect();
    assert_eq!(common, [id.as_bytes()]);
    let cluster = ours.cluster().map(|certified| {
        let size = certified.size.map_or_else(String::new, |size| format!(":{size}"));
        format!("urn:dream:cluster:{}{size}", certified.id)
    });
    let draw = ours.draw().map(|draw| draw.urn());
    let expected: BTreeSet<_> = [Some(format!("urn:dream:{role}:{id}")), cluster, draw].into_iter().flatten().collect();
    let names = theirs.subject_alternative_name().unwrap().expect("names").value.general_names.iter();
    let uris = names.filter_map(|name| if let GeneralName::URI(uri) = name { Some((*uri).to_owned()) } else { None });
    assert_eq!(uris.filter(|uri| uri.starts_with("urn:dream:")).collect::<BTreeSet<_>>(), expected);
    assert!(!theirs.is_ca());
    true
}
