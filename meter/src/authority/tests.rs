mod enrolment;

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use dream_protocol::keys::IdentityKey;

const NOW: Timestamp = Timestamp::from_secs(1_794_900_000);

fn id(name: &str) -> MeterId {
    MeterId::new(name).unwrap()
}

fn gateway() -> GatewayId {
    GatewayId::new("gw-1").unwrap()
}

fn grant(size: u64, days: u64) -> Grant {
    Grant { cluster: ClusterId::new("riverside").unwrap(), size, days }
}

fn days_later(days: u64) -> Timestamp {
    NOW.plus_secs(days * DAY_SECONDS)
}

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("authority")).unwrap();
        Self { folder }
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("authority")
    }

    fn init(&self) -> Authority {
        Authority::init(&self.directory(), "Riverside", &[gateway()], None, 3650, NOW).unwrap()
    }

    /// Returns a request of a meter with a new key, and the key.
    fn request(&self, name: &str) -> (Request, IdentityKey) {
        let key = self.folder.path().join(format!("{name}-{:x}.key", rand::random::<u32>()));
        let seed = files::create_key(&key).unwrap();
        let path = key.with_extension("csr");
        write_request(&path, &id(name), &seed).unwrap();
        (Request::read(&path).unwrap(), IdentityKey::from_seed(&seed))
    }
}

#[test]
fn what_it_issues_is_what_the_protocol_accepts() {
    let desk = Desk::new();
    desk.init();
    let mut authority = Authority::open(&desk.directory()).unwrap();
    let (request, key) = desk.request("m-0001");
    let path = authority.sign(&id("m-0001"), None, &request, &grant(25, 365), false, NOW).unwrap().path.clone();
    let authorities = crate::identity::authorities(&[desk.directory().join("authority.pem")], &[], false).unwrap();
    let checked = authorities.verify_meter(&files::certificates(&path).unwrap()[0]).unwrap();
    assert_eq!((checked.meter().unwrap(), checked.key()), (&id("m-0001"), &key.public()));
    let cluster = checked.cluster().unwrap();
    assert_eq!((cluster.id.as_str(), cluster.size), ("riverside", Some(25)));
    assert_eq!(checked.not_after(), days_later(365).as_secs());
    assert_eq!(Authority::open(&desk.directory()).unwrap().issued().len(), 1, "the register is what it issued");
}

#[test]
fn keys_are_for_their_owner_alone() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let key = desk.directory().join("authority.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = authority.sign(&id("m-1"), None, &desk.request("m-1").0, &grant(25, 365), false, NOW).unwrap_err();
    assert!(matches!(refused, AuthorityError::File(FileError::Open { mode: 0o644, .. })), "{refused}");
    Authority::init(&desk.directory(), "Riverside", &[gateway()], None, 3650, NOW).unwrap_err();
}

#[test]
fn it_refuses_to_sit_beside_a_gateway() {
    for name in ["authority/gateway.key", "gateway.key", "gateway.toml"] {
        let desk = Desk::new();
        fs::write(desk.folder.path().join(name), "").unwrap();
        let refused = Authority::init(&desk.directory(), "Riverside", &[gateway()], None, 3650, NOW).unwrap_err();
        assert!(matches!(refused, AuthorityError::BesideGateway { .. }), "{name}: {refused}");
    }
    let desk = Desk::new();
    let identities = dream_testkit::lab::identities::Identities::default();
    identities.write(desk.folder.path(), "renamed", &identities.gateway("gw-1"));
    let refused = Authority::init(&desk.directory(), "Riverside", &[gateway()], None, 3650, NOW).unwrap_err();
    assert!(refused.to_string().contains("see those homes"), "{refused}");
}

#[test]
fn a_request_of_another_name_or_of_a_gateways_is_refused() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let (request, _) = desk.request("gw-1");
    let other = authority.sign(&id("m-1"), None, &request, &grant(25, 365), false, NOW).unwrap_err();
    assert!(matches!(other, AuthorityError::OtherName { .. }), "{other}");
    let reserved = authority.sign(&id("gw-1"), None, &request, &grant(25, 365), false, NOW).unwrap_err();
    assert!(matches!(reserved, AuthorityError::Reserved { .. }), "{reserved}");
    fs::write(desk.directory().join("reserved"), "gw-1\n gw-2 \n").unwrap();
    let added = authority.sign(&id("gw-2"), None, &desk.request("gw-2").0, &grant(25, 365), false, NOW).unwrap_err();
    assert!(matches!(added, AuthorityError::Reserved { .. }), "{added}");
    fs::remove_file(desk.directory().join("reserved")).unwrap();
    let unknown = authority.sign(&id("m-1"), None, &desk.request("m-1").0, &grant(25, 365), false, NOW).unwrap_err();
    assert!(matches!(unknown, AuthorityError::NoReserved { .. }), "{unknown}");
    assert!(authority.issued().is_empty());
}

#[test]
fn a_meter_is_drawn_by_one_value_for_ever() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let sign = |authority: &mut Authority, name: &str, formerly: Option<&str>, replace: bool, at: Timestamp| {
        let formerly = formerly.map(id);
        let request = desk.request(name).0;
        let issued = authority.sign(&id(name), formerly.as_ref(), &request, &grant(25, 30), replace, at).unwrap();
        issued.certificate.draw().unwrap()
    };
    let first = sign(&mut authority, "m-1", None, false, NOW);
    assert_eq!(authority.renew(&id("m-1"), None, 30, days_later(21)).unwrap().certificate.draw(), Some(first));
    assert_eq!(sign(&mut authority, "m-1", None, false, days_later(60)), first, "another key");
    assert_eq!(sign(&mut authority, "m-2", Some("m-1"), false, days_later(61)), first, "another name");
    let mut authority = Authority::open(&desk.directory()).unwrap();
    assert_eq!(sign(&mut authority, "m-2", None, true, days_later(62)), first, "which is remembered");
    assert_ne!(sign(&mut authority, "m-3", None, false, days_later(62)), first);

    // The next authority, with the key for draws of this one.
    let next = desk.folder.path().join("next");
    let before = desk.directory();
    let mut next = Authority::init(&next, "Riverside II", &[gateway()], Some(&before), 3650, NOW).unwrap();
    assert_eq!(sign(&mut next, "m-1", None, false, days_later(63)), first);
    assert_eq!(sign(&mut next, "m-2", Some("m-1"), false, days_later(63)), first);
    let nothing = desk.folder.path().join("nothing");
    Authority::init(&desk.folder.path().join("third"), "III", &[gateway()], Some(&nothing), 3650, NOW).unwrap_err();
    assert!(!desk.folder.path().join("third/authority.key").exists());

    fs::remove_file(before.join("draw.key")).unwrap();
    let lost = authority.sign(&id("m-4"), None, &desk.request("m-4").0, &grant(25, 30), false, NOW).unwrap_err();
    assert!(matches!(lost, AuthorityError::NoDrawKey { .. }), "{lost}");
}

#[test]
fn a_meter_has_one_certificate_and_two_around_a_renewal() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let (first, _) = desk.request("m-1");
    authority.sign(&id("m-1"), None, &first, &grant(25, 30), false, NOW).unwrap();
    let again = authority.sign(&id("m-1"), None, &first, &grant(25, 30), false, NOW).unwrap_err();
    assert!(matches!(again, AuthorityError::Certified { .. }), "{again}");
    let (lost, _) = desk.request("m-1");
    authority.sign(&id("m-1"), None, &lost, &grant(25, 30), true, NOW).unwrap();
    let third = authority.sign(&id("m-1"), None, &lost, &grant(25, 30), true, NOW).unwrap_err();
    assert!(matches!(third, AuthorityError::TwoValid { .. }), "{third}");
    let renewed = authority.renew(&id("m-1"), None, 30, days_later(25)).unwrap_err();
    assert!(matches!(renewed, AuthorityError::TwoValid { .. }), "{renewed}");
    authority.sign(&id("m-1"), None, &lost, &grant(25, 30), false, days_later(31)).unwrap();
}

#[test]
fn a_certificate_is_renewed_in_its_last_third_and_keeps_its_key() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let (request, key) = desk.request("m-1");
    authority.sign(&id("m-1"), None, &request, &grant(25, 30), false, NOW).unwrap();
    let early = authority.renew(&id("m-1"), None, 30, days_later(19)).unwrap_err();
    assert!(matches!(early, AuthorityError::TooEarly { .. }), "{early}");
    let renewed = authority.renew(&id("m-1"), Some(30), 30, days_later(21)).unwrap();
    assert_eq!(*renewed.certificate.key(), key.public());
    assert_eq!(renewed.certificate.cluster().unwrap().size, Some(30));
    let twice = authority.renew(&id("m-1"), None, 30, days_later(22)).unwrap_err();
    assert!(matches!(twice, AuthorityError::TwoValid { .. }), "{twice}");
    authority.renew(&id("m-1"), None, 30, days_later(45)).unwrap();
    let over = authority.renew(&id("m-2"), None, 30, NOW).unwrap_err();
    assert!(matches!(over, AuthorityError::NothingToRenew(_)), "{over}");
}

#[test]
fn no_more_meters_are_certified_than_the_cluster_has() {
    let desk = Desk::new();
    let mut authority = desk.init();
    for meter in ["m-1", "m-2"] {
        authority.sign(&id(meter), None, &desk.request(meter).0, &grant(2, 365), false, NOW).unwrap();
    }
    let full = authority.sign(&id("m-3"), None, &desk.request("m-3").0, &grant(2, 365), false, NOW).unwrap_err();
    assert!(matches!(full, AuthorityError::Full { found: 3, size: 2, .. }), "{full}");
    authority.sign(&id("m-3"), None, &desk.request("m-3").0, &grant(3, 365), false, NOW).unwrap();
    for size in [0, 10_001] {
        let wrong =
            authority.sign(&id("m-4"), None, &desk.request("m-4").0, &grant(size, 365), false, NOW).unwrap_err();
        assert!(matches!(wrong, AuthorityError::Size(_)), "{wrong}");
    }
    let long = authority.sign(&id("m-4"), None, &desk.request("m-4").0, &grant(9, 3651), false, NOW).unwrap_err();
    assert!(matches!(long, AuthorityError::Days(3651)), "{long}");
}

#[test]
fn a_request_that_was_changed_is_refused() {
    let desk = Desk::new();
    let key = desk.folder.path().join("m.key");
    let seed = files::create_key(&key).unwrap();
    let path = desk.folder.path().join("m.csr");
    write_request(&path, &id("m-1"), &seed).unwrap();
    let der = CertificateSigningRequestBytes::read(&path);
    let at = der.windows(3).position(|window| window == b"m-1").unwrap();
    let mut changed = der;
    changed[at + 2] = b'2';
    fs::write(&path, files::encode("CERTIFICATE REQUEST", &changed)).unwrap();
    assert!(matches!(Request::read(&path), Err(RequestError::Broken { .. })));
    fs::write(&path, "hello").unwrap();
    assert!(matches!(Request::read(&path), Err(RequestError::NoPem { .. })));
}

struct CertificateSigningRequestBytes;

impl CertificateSigningRequestBytes {
    fn read(path: &Path) -> Vec<u8> {
        use rustls::pki_types::CertificateSigningRequestDer;
        use rustls::pki_types::pem::PemObject as _;
        CertificateSigningRequestDer::from_pem_slice(&fs::read(path).unwrap()).unwrap().to_vec()
    }
}
