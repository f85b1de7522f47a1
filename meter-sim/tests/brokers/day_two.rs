//! The procedures of `docs/day-two.md`: its commands, exactly as they stand there, beside a real broker.

mod page;
mod site;

use std::collections::BTreeSet;

use dream_protocol::membership::MembershipList;

use page::Page;
use site::Site;

const METERS: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

#[test]
fn meters_are_added_replaced_moved_and_removed() {
    let mut site = Site::new();
    site.decodes("riverside", METERS, |_| true);
    site.follow("Add a meter");
    site.decodes("riverside", [1, 2, 3, 4, 5, 6, 7, 8, 1001], |_| true);
    site.follow("Replace a meter");
    site.decodes("riverside", [2, 3, 4, 5, 6, 7, 8, 1001, 1002], |_| true);
    site.follow("Move a meter to another cluster");
    site.decodes("riverside", [3, 4, 5, 6, 7, 8, 1001, 1002], |_| true);
    site.decodes("old-town", [2, 9, 10, 11, 12, 13, 14, 15, 16], |_| true);
    site.follow("Remove a meter");
    site.decodes("riverside", [4, 5, 6, 7, 8, 1001, 1002], |_| true);
    site.all_sums_were_right();
}

#[test]
fn clusters_are_renamed_and_split() {
    let mut site = Site::new();
    site.decodes("riverside", METERS, |_| true);
    site.follow("Rename a cluster");
    site.decodes("harbour", METERS, |_| true);
    let exported = std::fs::read_to_string(site.file("riverside.csv")).unwrap();
    assert!(exported.contains(",decoded,"), "{exported}");
    site.follow("Split a cluster");
    site.decodes("harbour", [1, 3, 5, 7], |_| true);
    site.decodes("quay", [2, 4, 6, 8], |_| true);
    site.all_sums_were_right();
}

#[test]
fn a_gateway_moves_to_another_host_and_another_broker() {
    let mut site = Site::new();
    let before = site.decodes("riverside", METERS, |_| true);
    let [old, new] = &site.blocks("Move the gateway to another host")[..] else { panic!("one block for each host") };
    assert_eq!((old.host.as_str(), new.host.as_str()), ("old host", "new host"));
    site.run(&old.commands);
    site.go_to_a_new_host(&["dream.tar.gz"]);
    site.run(&new.commands);
    let after = site.decodes("riverside", METERS, |_| true);
    assert_eq!(after.epoch(), before.epoch(), "the list is the one that it brought along");
    assert!(site.decoded_slots("riverside") > 1, "what was stored came along");

    site.return_to_the_meters_host();
    site.start_a_new_broker();
    site.follow("Move to another broker");
    site.decodes("riverside", METERS, |_| true);
    site.all_sums_were_right();
}

#[test]
fn certificates_and_the_authorities_are_changed() {
    let mut site = Site::new();
    site.decodes("riverside", METERS, |_| true);
    let [meters, gateway] = &site.blocks("Renew certificates of meters")[..] else {
        panic!("meters, then the gateway")
    };
    let before = site.accepted_enrolments();
    site.run(&meters.commands);
    site.wait_for_enrolments(before, METERS.len());
    site.decodes("riverside", METERS, |_| true);
    site.run(&gateway.commands);

    let [trust, issue, remove] = &site.blocks("Change the authority of meters")[..] else { panic!("three steps") };
    site.run(&trust.commands);
    site.decodes("riverside", METERS, |_| true);
    let before = site.accepted_enrolments();
    site.run(&issue.commands);
    site.wait_for_enrolments(before, 2 * METERS.len());
    let issued: Vec<_> =
        METERS.iter().map(|meter| site.certificate(&format!("meters/riverside/m-{meter:04}"))).collect();
    site.run(&remove.commands);
    // Verified with what the directory has now: the new authority alone.
    site.decodes("riverside", METERS, |list| issued.iter().all(|certificate| carries(list, certificate)));

    let [trust, issue, remove] = &site.blocks("Change the authority of the gateway")[..] else { panic!("three steps") };
    site.run(&trust.commands);
    site.decodes("riverside", METERS, |_| true);
    site.run(&issue.commands);
    let gateway = site.certificate("gateway");
    site.decodes("riverside", METERS, |_| true);
    site.run(&remove.commands);
    site.decodes("riverside", METERS, |list| carries(list, &gateway));
    site.decodes("old-town", [9, 10, 11, 12, 13, 14, 15, 16], |list| carries(list, &gateway));
    site.all_sums_were_right();
}

#[test]
fn a_back_up_is_restored() {
    let mut site = Site::new();
    site.decodes("riverside", METERS, |_| true);
    site.follow("Back up the store");
    let kept = site.decoded_slots("riverside");
    assert!(kept > 0);
    // Lists and slots that the copy does not know.
    site.follow("Add a meter");
    let grown = [1, 2, 3, 4, 5, 6, 7, 8, 1001];
    let later = site.decodes("riverside", grown, |_| true);
    site.follow("Restore a back-up");
    let restored = site.decodes("riverside", grown, |list| list.epoch() > later.epoch());
    assert!(restored.epoch() > later.epoch());
    site.all_sums_were_right();
}

#[test]
fn every_procedure_of_the_page_is_run_by_a_test() {
    let tests = include_str!("day_two.rs");
    for title in Page::read().titles() {
        assert!(tests.contains(&format!("(\"{title}\")")), "no test runs `{title}`");
    }
}

/// Whether a certificate is in a list.
fn carries(list: &MembershipList, certificate: &[u8]) -> bool {
    list.bytes().windows(certificate.len()).any(|part| part == certificate)
}

/// The ids of meters with these numbers.
fn ids(numbers: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
    numbers.into_iter().map(|number| format!("m-{number:04}")).collect()
}
