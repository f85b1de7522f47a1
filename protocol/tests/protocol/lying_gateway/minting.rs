//! The operator that mints meters: the authority that certifies its gateway certifies meters that do not exist as well. Beside one
//! home they make a list that breaks no other rule, and whose sum is that home's reading.

use std::collections::BTreeMap;

use dream_protocol::certificate::{Anchors, Authorities, CertificateError, Role, SharedAuthority};
use dream_protocol::enrolment::{Enrolment, EnrolmentError};
use dream_protocol::ids::GatewayId;
use dream_protocol::membership::ListError;
use dream_protocol::meter::{Input, Key, MeterConfig, Notice, Refusal};
use dream_protocol::policy::{Policy, Profile};

use crate::support::liar::{Draft, FIRST, LISTED, Liar, NO_NOISE};
use crate::support::pki::Pki;
use crate::support::world::{MeterNode, Packet};
use crate::support::{START, at, cluster_id, enrol, meter_config, meter_name, rng};

/// A home, and how many meters the operator invents beside it.
struct Scheme {
    pki: Pki,
    profile: Profile,
    invented: usize,
    /// What every certificate says of the cluster, invented ones included.
    named: Option<&'static str>,
}

impl Scheme {
    fn strict() -> Self {
        Self { pki: Pki::new(), profile: Profile::Strict, invented: 49, named: None }
    }

    fn community() -> Self {
        let named = Some("urn:dream:cluster:north:23");
        Self { pki: Pki::new(), profile: Profile::Community, invented: 22, named }
    }

    fn home(&self, authorities: Authorities) -> MeterConfig {
        let config = meter_config(&self.pki, &meter_name(0));
        let certificate = self.named.map_or(config.certificate, |urn| self.pki.meter_named(&meter_name(0), urn).der);
        let policy = Policy::new(authorities, [GatewayId::new("gw").unwrap()]).with_profile(self.profile);
        let policy = Policy { day_micro_rho: u64::MAX, ..policy };
        MeterConfig { certificate, policy, ..config }
    }

    /// The home as it enrolled, and a list of it and the invented meters.
    fn enrolled(&self, authorities: Authorities) -> (MeterNode, Draft) {
        let mut home = MeterNode::new(self.home(authorities), NO_NOISE, rng(1));
        let sent = home.handle(Input::Connected, at(START));
        let mint = self.pki.swapped();
        let invented = (1..=self.invented).map(meter_name).map(|id| {
            let issued = self.named.map_or_else(|| mint.meter(&id), |urn| mint.meter_named(&id, urn));
            enrol(&id, &issued, |_| {})
        });
        let mut draft = Liar::enrolled(0, |_| {}, NO_NOISE).draft();
        draft.enrolments = std::iter::once(sent[0].payload.to_vec()).chain(invented).collect();
        draft.terms.max_malicious = self.profile.floors().malicious.into();
        (home, draft)
    }

    /// The list, with the operator's authority among those of meters.
    fn named_both(draft: &Draft) -> Draft {
        let mut both = draft.clone();
        both.meter_authorities.push(draft.gateway_authority);
        both.meter_authorities.sort_unstable();
        both
    }

    fn sign(&self, draft: &Draft) -> Packet {
        draft.sign(&self.pki.gateway("gw"))
    }
}

/// What was trusted before authorities had roles: either with everything.
fn without_roles(pki: &Pki) -> Authorities {
    let both = Anchors::new([pki.meter_authority(), pki.gateway_authority()]).unwrap();
    Authorities::shared(both.clone(), both)
}

#[test]
fn meters_that_the_gateways_authority_certified_are_no_meters() {
    for scheme in [Scheme::strict(), Scheme::community()] {
        let (mut home, draft) = scheme.enrolled(scheme.pki.authorities());
        home.receive(&scheme.sign(&draft), at(LISTED));
        let reason = EnrolmentError::Certificate(CertificateError::WrongAuthority { needed: Role::Meter });
        assert_eq!(home.refusals(), [Refusal::List(ListError::Enrolment { entry: 1, reason })]);
        home.receive(&scheme.sign(&Scheme::named_both(&draft)), at(LISTED));
        assert_eq!(home.refusals(), [Refusal::List(ListError::WrongAuthority { needed: Role::Meter })]);
        home.handle(Input::Measured { slot: FIRST, watts: 922 }, at((FIRST.0 + 1) * 600));
        assert_eq!(home.refusals(), [Refusal::NoList], "nothing is reported");
    }
}

#[test]
fn without_roles_the_home_would_report_under_such_a_list() {
    for scheme in [Scheme::strict(), Scheme::community()] {
        let (mut home, draft) = scheme.enrolled(without_roles(&scheme.pki));
        home.receive(&scheme.sign(&Scheme::named_both(&draft)), at(LISTED));
        assert!(home.notices.iter().any(|notice| matches!(notice, Notice::ListAccepted { .. })));
        assert_eq!(home.refusals(), []);
        let sent = home.handle(Input::Measured { slot: FIRST, watts: 922 }, at((FIRST.0 + 1) * 600));
        let deadline = home.deadline().expect("a reading is due");
        let sent = [sent, home.handle(Input::Tick, deadline)].concat();
        assert_eq!(home.refusals(), []);
        assert!(sent.iter().any(|packet| packet.about.is_some()), "a reading is published");
    }
}

#[test]
fn a_list_that_was_accepted_without_roles_is_dropped_from_the_records() {
    for scheme in [Scheme::strict(), Scheme::community()] {
        let (mut home, draft) = scheme.enrolled(without_roles(&scheme.pki));
        home.receive(&scheme.sign(&Scheme::named_both(&draft)), at(LISTED));
        let lists = |store: &BTreeMap<Key, Vec<u8>>| store.keys().filter(|key| matches!(key, Key::List(_))).count();
        assert_eq!(lists(&home.store), 1);
        let config = scheme.home(scheme.pki.authorities());
        let mut home = MeterNode::from_store(home.store, config, NO_NOISE, rng(2)).unwrap();
        home.handle(Input::Measured { slot: FIRST, watts: 922 }, at((FIRST.0 + 1) * 600));
        assert_eq!((home.refusals(), lists(&home.store)), (vec![Refusal::NoList], 0));
    }
}

#[test]
fn one_key_in_both_roles_is_refused_under_whatever_name() {
    let pki = Pki::new();
    let anchors = |der: &[u8]| Anchors::new([der]).unwrap();
    let (meters, gateways) = (anchors(pki.meter_authority()), anchors(pki.gateway_authority()));
    assert_eq!(Authorities::new(meters.clone(), meters.clone()), Err(SharedAuthority));
    assert!(Authorities::new(meters.clone(), gateways.clone()).is_ok());
    let both = Anchors::new([pki.meter_authority(), pki.gateway_authority()]).unwrap();
    assert_eq!(Authorities::new(both, gateways), Err(SharedAuthority));
    // The same key under another name.
    let renamed = Pki::with_key("an authority with nothing to hide", "test authority");
    assert_ne!(renamed.meter_authority(), pki.meter_authority());
    assert_eq!(Authorities::new(meters, anchors(renamed.meter_authority())), Err(SharedAuthority));
}

#[test]
fn a_certificate_counts_only_in_the_role_of_its_authority() {
    let pki = Pki::new();
    let (authorities, swapped) = (pki.authorities(), pki.swapped());
    let wrong = |needed: Role| Some(CertificateError::WrongAuthority { needed });
    assert_eq!(authorities.verify_meter(&swapped.meter("m-1").der).err(), wrong(Role::Meter));
    assert_eq!(authorities.verify_gateway(&swapped.gateway("gw").der).err(), wrong(Role::Gateway));
    assert_eq!(authorities.verify_meter(&pki.gateway("gw").der).err(), wrong(Role::Meter));
    assert_eq!(authorities.verify_gateway(&pki.meter("m-1").der).err(), wrong(Role::Gateway));
    let role = CertificateError::WrongRole { expected: Role::Meter, found: Role::Gateway };
    assert_eq!(authorities.verify_meter(&swapped.gateway("gw").der).err(), Some(role));
    assert!(authorities.verify_meter(&pki.meter("m-1").der).is_ok());
    assert!(authorities.verify_gateway(&pki.gateway("gw").der).is_ok());
    let text = CertificateError::WrongAuthority { needed: Role::Gateway }.to_string();
    assert_eq!(text, "issued by an authority that is trusted for meters, not for gateways");
}

#[test]
fn a_gateway_does_not_admit_minted_meters_either() {
    let pki = Pki::new();
    let minted = enrol("m-0001", &pki.swapped().meter("m-0001"), |_| {});
    let found = Enrolment::verify(&minted, &cluster_id(), &pki.authorities());
    assert_eq!(found.err(), Some(CertificateError::WrongAuthority { needed: Role::Meter }.into()));
}
