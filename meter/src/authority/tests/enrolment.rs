//! Requests over the network: invitations, renewals, a queue for a key elsewhere, and the register of all of it.

use super::*;
use crate::authority::register::{Checked, Kept, Register, RegisterError, meters_of, names};
use crate::invitation::{Secret, hexadecimal};
use crate::oversight::Evidence;

fn invited(name: &str) -> Invited {
    Invited {
        meter: id(name),
        cluster: ClusterId::new("riverside").unwrap(),
        size: 25,
        days: 90,
        replace: false,
        formerly: None,
        expires: days_later(14).as_secs(),
    }
}

/// Invites a meter; returns the hash of its secret.
fn invite(authority: &Authority, invited: &Invited, now: Timestamp) -> String {
    let hash = Secret::new().hash();
    authority.invite(&[(invited.clone(), hash.clone())], now).unwrap();
    hash
}

fn refuse_invitation(authority: &Authority, invited: Invited) -> AuthorityError {
    authority.invite(&[(invited, Secret::new().hash())], NOW).unwrap_err()
}

fn certificate(outcome: Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Certificate(der) => der,
        Outcome::Waiting => panic!("it waits"),
    }
}

fn refusal(outcome: Result<Outcome, AuthorityError>) -> InvitationRefused {
    match outcome {
        Err(AuthorityError::Invitation(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_invitation_is_for_one_key_and_a_repeated_request_gets_the_same_certificate() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let hash = invite(&authority, &invited("m-0001"), NOW);
    let (request, _) = desk.request("m-0001");
    let first = certificate(authority.enrol(&hash, "m-0001", &request, NOW).unwrap());
    // Again, later, after its end, and by a program that was started again.
    for days in [0, 3, 30] {
        let mut again = Authority::open(&desk.directory()).unwrap();
        assert_eq!(certificate(again.enrol(&hash, "m-0001", &request, days_later(days)).unwrap()), first);
    }
    assert_eq!(authority.issued().len(), 1);
    let (other, _) = desk.request("m-0001");
    assert_eq!(refusal(authority.enrol(&hash, "m-0001", &other, NOW)), InvitationRefused::Used);
    // When the certificate has ended, the invitation does not make another one.
    assert_eq!(refusal(authority.enrol(&hash, "m-0001", &request, days_later(100))), InvitationRefused::Used);
    assert_eq!(Authority::open(&desk.directory()).unwrap().issued().len(), 1);
}

#[test]
fn an_invitation_that_is_unknown_over_or_for_somebody_else_is_refused() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let (request, _) = desk.request("m-0001");
    let replaced = invite(&authority, &invited("m-0001"), NOW);
    let hash = invite(&authority, &invited("m-0001"), NOW);
    for unknown in [&replaced, &Secret::new().hash(), "../authority", ""] {
        assert_eq!(refusal(authority.enrol(unknown, "m-0001", &request, NOW)), InvitationRefused::Unknown);
    }
    let (other, _) = desk.request("m-0002");
    assert!(matches!(refusal(authority.enrol(&hash, "m-0002", &other, NOW)), InvitationRefused::OtherMeter { .. }));
    let named = authority.enrol(&hash, "m-0001", &other, NOW).unwrap_err();
    assert!(matches!(named, AuthorityError::OtherName { .. }), "{named}");
    let late = refusal(authority.enrol(&hash, "m-0001", &request, days_later(15)));
    assert!(matches!(late, InvitationRefused::Expired { .. }), "{late}");
    assert_eq!(authority.open_invitations(NOW).unwrap().len(), 1, "none of this used it up");
    certificate(authority.enrol(&hash, "m-0001", &request, NOW).unwrap());
    assert!(authority.open_invitations(NOW).unwrap().is_empty());
}

#[test]
fn the_rules_of_sign_hold_for_those_who_are_invited() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let small = Invited { size: 1, ..invited("m-0001") };
    let hash = invite(&authority, &small, NOW);
    let later = invite(&authority, &Invited { size: 1, ..invited("m-0002") }, NOW);
    certificate(authority.enrol(&hash, "m-0001", &desk.request("m-0001").0, NOW).unwrap());
    let (second, _) = desk.request("m-0002");
    let full = authority.enrol(&later, "m-0002", &second, NOW).unwrap_err();
    assert!(matches!(full, AuthorityError::Full { .. }), "{full}");
    assert_eq!(authority.open_invitations(NOW).unwrap().len(), 1, "a refusal uses up nothing");
    // A second key needs `replace`, and there is no third.
    let again = refuse_invitation(&authority, invited("m-0001"));
    assert!(matches!(again, AuthorityError::Certified { .. }), "{again}");
    let replacing = Invited { replace: true, ..invited("m-0001") };
    let hash = invite(&authority, &replacing, NOW);
    let (new_card, _) = desk.request("m-0001");
    let one = Certificate::unverified(&certificate(authority.enrol(&hash, "m-0001", &new_card, NOW).unwrap())).unwrap();
    assert_eq!(Some(one.draw()), authority.issued().first().map(|issued| issued.certificate.draw()));
    let third = refuse_invitation(&authority, replacing);
    assert!(matches!(third, AuthorityError::TwoValid { .. }), "{third}");
    let reserved = refuse_invitation(&authority, invited("gw-1"));
    assert!(matches!(reserved, AuthorityError::Reserved { .. }), "{reserved}");
}

#[test]
fn a_certificate_is_renewed_once_in_its_last_third_for_the_same_key() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let hash = invite(&authority, &invited("m-0001"), NOW);
    let (request, _) = desk.request("m-0001");
    let first = certificate(authority.enrol(&hash, "m-0001", &request, NOW).unwrap());
    let early = authority.reenrol(&first, &request, days_later(10)).unwrap_err();
    assert!(matches!(early, AuthorityError::TooEarly { .. }), "{early}");
    let (other_key, _) = desk.request("m-0001");
    let other = authority.reenrol(&first, &other_key, days_later(70)).unwrap_err();
    assert!(matches!(other, AuthorityError::OtherKey(_)), "{other}");
    let renewed = certificate(authority.reenrol(&first, &request, days_later(70)).unwrap());
    assert_ne!(renewed, first);
    for days in [70, 71, 80] {
        let again = certificate(authority.reenrol(&first, &request, days_later(days)).unwrap());
        assert_eq!(again, renewed, "repeated after {days} days");
    }
    assert_eq!(authority.issued().len(), 2);
    let of = |der: &[u8]| Certificate::unverified(der).unwrap();
    assert_eq!((of(&renewed).draw(), of(&renewed).key()), (of(&first).draw(), of(&first).key()));
    // Whom the authority denies is not renewed: that is how it revokes.
    fs::write(desk.directory().join("denied"), "m-0001\n").unwrap();
    let denied = authority.reenrol(&renewed, &request, days_later(140)).unwrap_err();
    assert!(matches!(denied, AuthorityError::Denied(_)), "{denied}");
}

#[test]
fn a_renewal_has_the_size_of_the_newest_certificate_of_its_cluster() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let hash = invite(&authority, &invited("m-0001"), NOW);
    let (request, _) = desk.request("m-0001");
    let first = certificate(authority.enrol(&hash, "m-0001", &request, NOW).unwrap());
    let grown = Invited { size: 31, expires: days_later(60).as_secs(), ..invited("m-0002") };
    let hash = invite(&authority, &grown, days_later(40));
    certificate(authority.enrol(&hash, "m-0002", &desk.request("m-0002").0, days_later(40)).unwrap());
    let renewed = certificate(authority.reenrol(&first, &request, days_later(70)).unwrap());
    let cluster = Certificate::unverified(&renewed).unwrap().cluster().cloned().unwrap();
    assert_eq!(cluster.size, Some(31));
}

/// An authority with its key on one machine, and its copy without on another that serves.
fn two_machines(desk: &Desk) -> (Authority, Authority) {
    let signs = desk.init();
    let online = desk.folder.path().join("online");
    fs::create_dir_all(online.join("issued")).unwrap();
    for name in ["authority.pem", "reserved"] {
        fs::copy(desk.directory().join(name), online.join(name)).unwrap();
    }
    (signs, Authority::open(&online).unwrap())
}

fn copy_invitations(desk: &Desk) {
    let (from, to) = (desk.directory().join("invitations"), desk.folder.path().join("online/invitations"));
    fs::create_dir_all(&to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_key_on_another_machine_signs_what_waits_by_its_own_invitations() {
    let desk = Desk::new();
    let (mut signs, mut online) = two_machines(&desk);
    assert!(signs.has_key() && !online.has_key());
    let hash = invite(&signs, &invited("m-0001"), NOW);
    copy_invitations(&desk);
    let (request, _) = desk.request("m-0001");
    for _ in 0..2 {
        assert!(matches!(online.enrol(&hash, "m-0001", &request, NOW).unwrap(), Outcome::Waiting));
    }
    assert_eq!(online.waiting(), 1);
    // Whoever breaks into this machine invents an invitation, and asks for a meter that nobody has invited.
    refuse_invitation(&online, invited("m-9999"));
    let (invented, folder) = (Secret::new().hash(), desk.folder.path().join("online/invitations"));
    let real = fs::read_to_string(folder.join(format!("{hash}.json"))).unwrap();
    fs::write(folder.join(format!("{invented}.json")), real.replace("m-0001", "m-9999")).unwrap();
    online.enrol(&invented, "m-9999", &desk.request("m-9999").0, NOW).unwrap();
    let queue = online.queue_folder();
    let signed = sign_queue(&mut signs, &queue, NOW).unwrap();
    let told: Vec<(String, bool)> =
        signed.iter().map(|signed| (signed.meter.to_string(), signed.refused.is_none())).collect();
    assert!(told.contains(&("m-0001".to_owned(), true)) && told.contains(&("m-9999".to_owned(), false)), "{told:?}");
    assert_eq!(signs.issued().len(), 1);
    let der = certificate(online.enrol(&hash, "m-0001", &request, NOW).unwrap());
    let refused = online.enrol(&invented, "m-9999", &desk.request("m-9999").0, NOW).unwrap_err();
    assert!(matches!(refused, AuthorityError::Invitation(InvitationRefused::Used)), "{refused}");
    assert_eq!(online.waiting(), 0);
    assert!(sign_queue(&mut signs, &queue, NOW).unwrap().iter().all(|signed| signed.meter != id("m-0001")));

    // The same for a renewal, which is due once.
    let early = online.reenrol(&der, &request, days_later(10)).unwrap_err();
    assert!(matches!(early, AuthorityError::TooEarly { .. }), "{early}");
    assert!(matches!(online.reenrol(&der, &request, days_later(70)).unwrap(), Outcome::Waiting));
    sign_queue(&mut signs, &queue, days_later(71)).unwrap();
    let renewed = certificate(online.reenrol(&der, &request, days_later(72)).unwrap());
    assert_eq!(certificate(online.reenrol(&der, &request, days_later(73)).unwrap()), renewed);
    sign_queue(&mut signs, &queue, days_later(74)).unwrap();
    assert_eq!(signs.issued().len(), 2, "nothing is signed twice");
}

#[test]
fn the_register_names_every_certificate_and_only_grows() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let cluster = "riverside";
    let mut seen: Option<Kept> = None;
    for (number, name) in ["m-0001", "m-0002", "m-0003"].into_iter().enumerate() {
        let hash = invite(&authority, &invited(name), NOW);
        let der = certificate(authority.enrol(&hash, name, &desk.request(name).0, NOW).unwrap());
        let register = authority.register().unwrap().unwrap();
        let entries = register.verify(&[authority.certificate()]).unwrap();
        assert_eq!(entries.len(), number + 1);
        assert!(names(&entries, &Fingerprint::of(&der)));
        assert_eq!(meters_of(&entries, cluster, NOW), number + 1);
        assert_eq!(meters_of(&entries, cluster, days_later(200)), 0);
        if let Some(kept) = &seen {
            assert_eq!(kept.grown(&register.since(number)), Some(register.clone()));
            assert_eq!(kept.compare(&register), Checked::Grown(register.clone()));
            assert_eq!(Kept(register.clone()).compare(&kept.0), Checked::Older);
        }
        seen = Some(Kept(register));
    }
    // A second certificate of a meter is no second meter.
    let (request, _) = desk.request("m-0001");
    let hash = invite(&authority, &Invited { replace: true, ..invited("m-0001") }, NOW);
    authority.enrol(&hash, "m-0001", &request, NOW).unwrap();
    let entries = authority.register().unwrap().unwrap().verify(&[authority.certificate()]).unwrap();
    assert_eq!((entries.len(), meters_of(&entries, cluster, NOW)), (4, 3));
}

#[test]
fn a_register_with_another_past_is_evidence_that_anybody_can_judge() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let hash = invite(&authority, &invited("m-0001"), NOW);
    authority.enrol(&hash, "m-0001", &desk.request("m-0001").0, NOW).unwrap();
    let kept = authority.register().unwrap().unwrap();
    // The authority forgets what it has issued, and begins anew.
    fs::remove_dir_all(desk.directory().join("issued")).unwrap();
    fs::create_dir(desk.directory().join("issued")).unwrap();
    fs::remove_file(desk.directory().join("register.json")).unwrap();
    let mut authority = Authority::open(&desk.directory()).unwrap();
    let hash = invite(&authority, &invited("m-0002"), NOW);
    authority.enrol(&hash, "m-0002", &desk.request("m-0002").0, days_later(1)).unwrap();
    let found = authority.register().unwrap().unwrap();
    assert_eq!(Kept(kept.clone()).grown(&found.since(1)), None);
    let contradiction = Kept(kept.clone()).compare(&found);
    assert!(matches!(contradiction, Checked::Contradiction { .. }), "{contradiction:?}");
    let judged = |kept: &Register, found: &Register| {
        Evidence { kept: kept.clone(), found: found.clone() }.judge(&[authority.certificate()])
    };
    assert!(judged(&kept, &found).unwrap().unwrap().contains("differ from entry 0 on"));
    assert_eq!(judged(&kept, &kept).unwrap(), None);
    // Nobody else can make evidence: every part of it is signed, or hashed by what is signed.
    let mut forged = found.clone();
    forged.lines[0] = forged.lines[0].replace("riverside", "upstream");
    assert_eq!(judged(&kept, &forged), Err(RegisterError::Chain));
    let mut forged = found.clone();
    forged.head.at += 1;
    assert_eq!(judged(&kept, &forged), Err(RegisterError::Signature));
    let mut forged = found;
    forged.head.signature = hexadecimal(&[7; 64]);
    assert_eq!(judged(&kept, &forged), Err(RegisterError::Signature));
}

#[test]
fn a_register_that_goes_back_is_evidence_unless_it_is_only_an_old_copy() {
    let desk = Desk::new();
    let mut authority = desk.init();
    let mut heads = Vec::new();
    for name in ["m-0001", "m-0002"] {
        let hash = invite(&authority, &invited(name), NOW);
        authority.enrol(&hash, name, &desk.request(name).0, NOW).unwrap();
        heads.push(authority.register().unwrap().unwrap());
    }
    let [short, long] = &heads[..] else { panic!() };
    assert_eq!(Kept(long.clone()).compare(short), Checked::Older);
    // A back-up that is restored, and signed again: it denies what it has issued.
    let last = &authority.issued().last().unwrap().path;
    fs::remove_file(last).unwrap();
    fs::write(desk.directory().join("register.json"), serde_json::to_vec(short).unwrap()).unwrap();
    let restored = Authority::open(&desk.directory()).unwrap();
    restored.publish(days_later(1)).unwrap();
    let found = restored.register().unwrap().unwrap();
    assert!(matches!(Kept(long.clone()).compare(&found), Checked::Contradiction { .. }));
}
