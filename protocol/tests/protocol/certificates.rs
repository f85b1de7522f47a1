//! The certificate profile (`protocol.md 3`), one violation at a time.

use dream_protocol::certificate::{
    Anchors, Authorities, Certificate, CertificateError, CertifiedCluster, Role, Subject,
};
use dream_protocol::ids::{ClusterId, IdError, MeterId};
use dream_testkit::second_reader::assert_readers_agree;
use rcgen::string::{BmpString, Ia5String, PrintableString, TeletexString, UniversalString};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose,
    IsCa, KeyUsagePurpose, SanType,
};

use crate::support::pki::Pki;

/// What becomes of a certificate of meter `m-1` with one change.
fn verify(change: impl FnOnce(&mut CertificateParams)) -> Result<Certificate, CertificateError> {
    let pki = Pki::new();
    pki.authorities().verify_meter(&pki.issue("m-1", "meter", change).der)
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

/// An empty extension with the last arc of an id of our own, or of a standard one.
fn extension(oid: &[u64], content: Vec<u8>, critical: bool) -> CustomExtension {
    let mut extension = CustomExtension::from_oid_content(oid, content);
    extension.set_criticality(critical);
    extension
}

#[test]
fn a_certificate_of_the_profile_says_who_somebody_is() {
    let pki = Pki::new();
    let certificate = verify(|_| {}).unwrap();
    assert_eq!(*certificate.subject(), Subject::Meter(MeterId::new("m-1").unwrap()));
    assert_eq!(*certificate.key(), pki.meter("m-1").identity().public());
    assert_eq!(certificate.gateway(), Err(CertificateError::WrongRole { expected: Role::Gateway, found: Role::Meter }));
    let gateway = pki.authorities().verify_gateway(&pki.gateway("gw").der).unwrap();
    assert_eq!(gateway.gateway().unwrap().as_str(), "gw");
    assert_eq!(gateway.meter(), Err(CertificateError::WrongRole { expected: Role::Meter, found: Role::Gateway }));
}

#[test]
fn what_the_profile_does_not_mention_is_allowed() {
    for change in [
        |params: &mut CertificateParams| params.key_usages.clear(),
        |params: &mut CertificateParams| params.key_usages.push(KeyUsagePurpose::KeyAgreement),
        |params: &mut CertificateParams| params.extended_key_usages.push(ExtendedKeyUsagePurpose::CodeSigning),
        |params: &mut CertificateParams| params.is_ca = IsCa::ExplicitNoCa,
        |params: &mut CertificateParams| params.subject_alt_names.push(uri("https://example.org/m-1")),
        |params: &mut CertificateParams| params.subject_alt_names.push(SanType::DnsName("m-1".try_into().unwrap())),
        |params: &mut CertificateParams| params.distinguished_name.push(DnType::OrganizationName, "DREAM"),
        |params: &mut CertificateParams| params.custom_extensions.push(extension(&[1, 3, 9999], vec![5, 0], false)),
    ] {
        assert!(verify(change).is_ok());
    }
}

#[test]
fn a_certificate_without_a_dream_name_is_refused() {
    assert_eq!(verify(|params| params.subject_alt_names.clear()), Err(CertificateError::Name));
    assert_eq!(verify(|params| params.subject_alt_names = vec![uri("urn:other:m-1")]), Err(CertificateError::Name));
    let dns = SanType::DnsName("m-1".try_into().unwrap());
    assert_eq!(verify(|params| params.subject_alt_names = vec![dns]), Err(CertificateError::Name));
}

#[test]
fn a_certificate_with_two_dream_names_is_refused() {
    for second in ["urn:dream:meter:m-1", "urn:dream:meter:m-2", "urn:dream:gateway:m-1", "urn:dream:other:m-1"] {
        let result = verify(|params| params.subject_alt_names.push(uri(second)));
        assert_eq!(result, Err(CertificateError::Name), "{second}");
    }
}

#[test]
fn a_dream_name_of_no_role_is_refused() {
    for name in ["urn:dream:m-1", "urn:dream:operator:m-1", "urn:dream:METER:m-1", "urn:dream:"] {
        let result = verify(|params| params.subject_alt_names = vec![uri(name)]);
        assert_eq!(result, Err(CertificateError::Name), "{name}");
    }
}

#[test]
fn a_meter_may_be_certified_for_one_cluster_and_its_size() {
    assert_eq!(verify(|_| {}).unwrap().cluster(), None);
    for (name, size) in [
        ("urn:dream:cluster:north", None),
        ("urn:dream:cluster:north:1", Some(1)),
        ("urn:dream:cluster:north:10000", Some(10_000)),
    ] {
        let certificate = verify(|params| params.subject_alt_names.push(uri(name))).unwrap();
        let expected = CertifiedCluster { id: ClusterId::new("north").unwrap(), size };
        assert_eq!(certificate.cluster(), Some(&expected), "{name}");
        let first = verify(|params| params.subject_alt_names.insert(0, uri(name))).unwrap();
        assert_eq!(first.cluster(), Some(&expected), "the order of names says nothing");
    }
}

#[test]
fn a_cluster_name_that_breaks_the_grammar_is_refused() {
    for name in [
        "urn:dream:cluster:",
        "urn:dream:cluster:North",
        "urn:dream:cluster:gateway",
        "urn:dream:cluster:north:",
        "urn:dream:cluster:north:0",
        "urn:dream:cluster:north:+1",
        "urn:dream:cluster:north:-1",
        "urn:dream:cluster:north:007",
        "urn:dream:cluster:north:1e3",
        "urn:dream:cluster:north:10001",
        "urn:dream:cluster:north:65636",
        "urn:dream:cluster:north:100:1",
        "urn:dream:cluster::100",
    ] {
        let result = verify(|params| params.subject_alt_names.push(uri(name)));
        assert_eq!(result, Err(CertificateError::Cluster), "{name}");
    }
    let twice = |params: &mut CertificateParams| {
        params.subject_alt_names.extend([uri("urn:dream:cluster:north"), uri("urn:dream:cluster:north")]);
    };
    assert_eq!(verify(twice), Err(CertificateError::Cluster));
    // A cluster is no role, and a name that only begins alike is none of ours.
    let alone = |params: &mut CertificateParams| params.subject_alt_names = vec![uri("urn:dream:cluster:north")];
    assert_eq!(verify(alone), Err(CertificateError::Name));
    let other = |params: &mut CertificateParams| params.subject_alt_names.push(uri("urn:dream:clusters:north"));
    assert_eq!(verify(other), Err(CertificateError::Name));
}

#[test]
fn a_gateway_is_certified_for_no_cluster() {
    let pki = Pki::new();
    let gateway =
        pki.issue("gw", "gateway", |params| params.subject_alt_names.push(uri("urn:dream:cluster:north:100")));
    assert_eq!(pki.authorities().verify_gateway(&gateway.der), Err(CertificateError::Cluster));
}

#[test]
fn a_common_name_is_a_utf8_or_a_printable_string() {
    let with = |value: DnValue| {
        verify(move |params| {
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, value);
        })
    };
    assert!(with(DnValue::Utf8String("m-1".to_owned())).is_ok());
    assert!(with(DnValue::PrintableString(PrintableString::try_from("m-1").unwrap())).is_ok());
    for other in [
        DnValue::Ia5String(Ia5String::try_from("m-1").unwrap()),
        DnValue::TeletexString(TeletexString::try_from("m-1").unwrap()),
        DnValue::BmpString(BmpString::try_from("m-1").unwrap()),
        DnValue::UniversalString(UniversalString::try_from("m-1").unwrap()),
    ] {
        assert_eq!(with(other.clone()), Err(CertificateError::CommonName), "{other:?}");
    }
}

#[test]
fn what_is_not_der_in_an_extension_is_refused() {
    let raw = |oid: &'static [u64], content: &'static [u8]| {
        verify(move |params| {
            params.key_usages.clear();
            params.custom_extensions.push(extension(oid, content.to_vec(), true));
        })
    };
    const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
    const CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
    assert!(raw(KEY_USAGE, &[3, 2, 7, 0x80]).is_ok() && raw(KEY_USAGE, &[3, 3, 7, 0x80, 0x80]).is_ok());
    assert!(raw(CONSTRAINTS, &[0x30, 0]).is_ok());
    for (oid, content) in [
        // A bit that is not set at the end of the list, an unused bit that is, more unused bits than there are.
        (KEY_USAGE, &[3, 2, 0, 0x80][..]),
        (KEY_USAGE, &[3, 3, 0, 0x80, 0]),
        (KEY_USAGE, &[3, 2, 7, 0x81]),
        (KEY_USAGE, &[3, 2, 7, 0x80, 0]),
        // `cA FALSE`, which is the default; a path length of somebody who issues nothing.
        (CONSTRAINTS, &[0x30, 3, 1, 1, 0]),
        (CONSTRAINTS, &[0x30, 3, 2, 1, 0]),
        (CONSTRAINTS, &[0x30, 0, 0]),
    ] {
        let named = if oid == KEY_USAGE { "2.5.29.15" } else { "2.5.29.19" };
        assert_eq!(raw(oid, content), Err(CertificateError::BadExtension(named.to_owned())), "{content:02x?}");
    }
}

#[test]
fn a_common_name_that_differs_is_refused() {
    for common in ["m-2", "M-1", "m-1 ", "urn:dream:meter:m-1"] {
        let result = verify(|params| params.distinguished_name.push(DnType::CommonName, common));
        assert_eq!(result, Err(CertificateError::NameMismatch), "{common}");
    }
}

#[test]
fn a_name_that_is_no_id_is_refused() {
    let pki = Pki::new();
    let longest = "a".repeat(65);
    for (id, error) in [
        ("M-1", IdError::Character { at: 0 }),
        ("a/b", IdError::Character { at: 1 }),
        ("a+", IdError::Character { at: 1 }),
        ("", IdError::Length { len: 0 }),
        (longest.as_str(), IdError::Length { len: 65 }),
    ] {
        let result = pki.authorities().verify_meter(&pki.meter(id).der);
        assert_eq!(result, Err(CertificateError::Id(error)), "{id}");
    }
}

#[test]
fn a_ca_is_nobodys_meter() {
    for constraints in [BasicConstraints::Unconstrained, BasicConstraints::Constrained(0)] {
        let result = verify(|params| params.is_ca = IsCa::Ca(constraints));
        assert_eq!(result, Err(CertificateError::IsAnAuthority));
    }
    // The authority's own certificate is refused already for what its key may be used for.
    let pki = Pki::new();
    assert_eq!(pki.authorities().verify_meter(pki.meter_authority()), Err(CertificateError::KeyUsage));
}

#[test]
fn a_key_usage_without_digital_signature_is_refused() {
    for usage in [KeyUsagePurpose::KeyAgreement, KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::CrlSign] {
        assert_eq!(verify(|params| params.key_usages = vec![usage]), Err(CertificateError::KeyUsage));
    }
}

#[test]
fn an_unknown_critical_extension_is_refused() {
    let result = verify(|params| params.custom_extensions.push(extension(&[1, 3, 9999], vec![5, 0], true)));
    assert_eq!(result, Err(CertificateError::UnknownCriticalExtension("1.3.9999".to_owned())));
    // Name constraints are known to the world, but not understood here.
    let result = verify(|params| params.custom_extensions.push(extension(&[2, 5, 29, 30], vec![0x30, 0], true)));
    assert_eq!(result, Err(CertificateError::UnknownCriticalExtension("2.5.29.30".to_owned())));
}

#[test]
fn a_malformed_or_repeated_extension_is_refused() {
    let key_usage = "2.5.29.15".to_owned();
    let malformed = |params: &mut CertificateParams| {
        params.key_usages.clear();
        params.custom_extensions.push(extension(&[2, 5, 29, 15], vec![0xff], false));
    };
    assert_eq!(verify(malformed), Err(CertificateError::BadExtension(key_usage.clone())));
    let twice = |params: &mut CertificateParams| {
        params.custom_extensions.push(extension(&[2, 5, 29, 15], vec![3, 2, 7, 0x80], false));
    };
    assert_eq!(verify(twice), Err(CertificateError::BadExtension(key_usage)));
}

#[test]
fn an_unknown_authority_is_refused() {
    let pki = Pki::new();
    let foreign = Pki::named("foreign").meter("m-1");
    assert_eq!(pki.authorities().verify_meter(&foreign.der), Err(CertificateError::UnknownAuthority));
    let none = Authorities::none();
    assert_eq!(none.verify_meter(&pki.meter("m-1").der), Err(CertificateError::UnknownAuthority));
}

#[test]
fn an_authority_of_the_same_name_with_another_key_is_refused() {
    let pki = Pki::new();
    let namesake = Pki::with_key("test authority", "another");
    assert_eq!(pki.authorities().verify_meter(&namesake.meter("m-1").der), Err(CertificateError::BadSignature));
    // While one key replaces the other, both count.
    let both = Anchors::new([pki.meter_authority(), namesake.meter_authority()]).unwrap();
    let both = Authorities::new(both, Anchors::none()).unwrap();
    assert!(both.verify_meter(&pki.meter("m-1").der).is_ok() && both.verify_meter(&namesake.meter("m-1").der).is_ok());
}

#[test]
fn an_authority_must_be_a_ca() {
    let pki = Pki::new();
    let meter = pki.meter("m-1").der;
    assert_eq!(Anchors::new([meter.as_slice()]).unwrap_err(), CertificateError::NotAnAuthority);
}

#[test]
fn what_is_not_one_certificate_is_refused() {
    let pki = Pki::new();
    let good = pki.meter("m-1").der;
    let longer = [good.as_slice(), &[0]].concat();
    let two = [good.as_slice(), &good].concat();
    for bad in [&[][..], &[0x30], &good[..good.len() - 1], &longer, &two] {
        assert_eq!(pki.authorities().verify_meter(bad), Err(CertificateError::Malformed));
    }
}

#[test]
fn no_bit_of_a_certificate_can_be_changed() {
    let pki = Pki::new();
    let good = pki.meter("m-1").der;
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut changed = good.clone();
            changed[at] ^= 1 << bit;
            assert!(pki.authorities().verify_meter(&changed).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn other_encodings_of_a_certificate_are_refused() {
    // The outer length in a longer form than needed, and in the indefinite form of BER.
    let pki = Pki::new();
    let good = pki.meter("m-1").der;
    let (head, content) = good.split_at(4);
    assert_eq!(head[..2], [0x30, 0x82]);
    let longer = [&[0x30, 0x83, 0x00, head[2], head[3]], content].concat();
    let indefinite = [&[0x30, 0x80], content, &[0, 0]].concat();
    for bad in [longer, indefinite] {
        assert_eq!(pki.authorities().verify_meter(&bad), Err(CertificateError::Malformed));
    }
}

#[test]
fn x509_parser_reads_the_same_in_every_vector_that_is_accepted() {
    let file: serde_json::Value = serde_json::from_str(&crate::vectors::read("broken.json")).unwrap();
    let cases = file["cases"].as_array().unwrap().iter().filter(|case| case["judge"] == "certificate");
    let ders: Vec<_> = cases.map(|case| hex::decode(case["bytes"].as_str().unwrap()).unwrap()).collect();
    let accepted = ders.iter().filter(|der| assert_readers_agree(der)).count();
    // Those that are refused for their issuer alone are read too.
    assert!(accepted >= 5 && accepted < ders.len(), "{accepted} of {}", ders.len());
}

#[test]
fn x509_parser_reads_the_same_in_whatever_one_byte_makes_of_a_certificate() {
    let pki = Pki::new();
    let good =
        pki.issue("m-1", "meter", |params| params.subject_alt_names.push(uri("urn:dream:cluster:north:100"))).der;
    let changed = (0..good.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte)));
    let accepted = changed.filter(|(at, byte)| {
        let mut changed = good.clone();
        changed[*at] = *byte;
        assert_readers_agree(&changed)
    });
    // Most of them in the key, the serial number and the signature, which nothing but the signature guards.
    assert!(accepted.count() > 10_000);
}
