//! How often slots are tried again: never so often that honest members run out of ledger.

use dream_protocol::cluster::Record;
use dream_protocol::policy::{Floors, Profile};
use dream_testkit::plain_cluster::{Conduct, PlainCluster};

use super::config;

/// What a meter's ledger allows in 24 hours, in attempts.
const LEDGER: u64 = 160;

/// Slots of a day.
const DAY: usize = 144;

/// A cluster of meters with the default policy, but for how many members they ask for, in which some take turns not to reveal.
fn in_turn(members: usize, share: (u32, u32), least: u16, colluders: usize) -> PlainCluster {
    let mut config = config(members, share);
    config.floors = Floors { members: least, ..Profile::Strict.floors() };
    config.roster.min_members = least;
    let mut conducts = vec![Conduct::Honest; members];
    conducts[..colluders].fill(Conduct::SilentInTurn);
    PlainCluster::new(config, conducts, 1)
}

/// The attempts of each slot of some days, and whether it decoded.
fn days(cluster: &mut PlainCluster, days: usize) -> Vec<(u64, bool)> {
    let slots = (0..days * DAY).map(|_| cluster.next_slot());
    slots.map(|closed| (closed.outcome.attempts.into(), closed.check())).collect()
}

/// The most attempts in any 24 hours.
fn most_attempts(slots: &[(u64, bool)]) -> u64 {
    slots.windows(DAY).map(|day| day.iter().map(|(attempts, _)| attempts).sum()).max().unwrap()
}

#[test]
fn members_that_are_silent_in_turn_use_up_nobodys_ledger_and_cost_a_slot_each_at_most() {
    for (members, share, colluders, least) in
        [(50, (1, 10), 10, 40), (100, (1, 10), 10, 50), (100, (1, 5), 10, 50), (200, (1, 10), 20, 50)]
    {
        let slots = days(&mut in_turn(members, share, least, colluders), 2);
        let lost: Vec<usize> =
            slots.chunks(DAY).map(|day| day.iter().filter(|(_, decoded)| !decoded).count()).collect();
        said(members, share, most_attempts(&slots), &lost);
        assert!(most_attempts(&slots) <= LEDGER, "{members} {share:?}: {}", most_attempts(&slots));
        assert!(lost.iter().all(|&lost| lost <= colluders), "{members} {share:?}: {lost:?} of 144 a day");
    }
}

#[test]
fn where_nobody_can_be_left_out_of_lists_slots_are_lost_and_no_ledger_runs_out() {
    // M = 5: no more than five of the ten can be left out of a sum, and no list may be shorter.
    let slots = days(&mut in_turn(50, (1, 10), 50, 10), 2);
    assert!(most_attempts(&slots) <= LEDGER, "{}", most_attempts(&slots));
    let slots = days(&mut in_turn(50, (1, 5), 50, 10), 2);
    assert!(most_attempts(&slots) <= LEDGER, "{}", most_attempts(&slots));
    let lost = slots.iter().filter(|(_, decoded)| !decoded).count();
    assert!(lost <= 20, "M = 10, all are left out in the end: {lost} lost in two days");
}

#[test]
fn what_was_spent_on_retries_outlasts_restarts() {
    let mut cluster = in_turn(50, (1, 10), 50, 10);
    let config = cluster.gateway.config.clone();
    let attempts = (0..DAY).map(|slot| {
        if slot % 16 == 5 {
            cluster.restart(config.clone());
        }
        u64::from(cluster.next_slot().outcome.attempts)
    });
    assert_eq!(attempts.sum::<u64>(), 158, "14 of the 16 attempts to spare");
}

#[test]
fn a_damaged_record_of_retries_is_refused() {
    let mut cluster = in_turn(50, (1, 10), 50, 10);
    (0..3).for_each(|_| drop(cluster.next_slot()));
    let records = cluster.gateway.records();
    let record = records.iter().find(|record| matches!(record, Record::Retries(_))).unwrap();
    let bytes = record.encode();
    assert_eq!(*Record::decode(&bytes).unwrap().encode(), *bytes);
    for cut in 0..bytes.len() {
        assert!(Record::decode(&bytes[..cut]).is_err(), "cut after {cut} bytes");
    }
    for (what, bytes) in [
        ("a start without a cost", &[0x82, 12, 0x81, 0][..]),
        ("endless", &[0x82, 12, 0x9a, 0xff, 0xff, 0xff, 0xfe]),
        ("out of order", &[0x82, 12, 0x84, 2, 1, 1, 1]),
        ("far away", &[0x82, 12, 0x82, 0x1b, 0xff, 0, 0, 0, 0, 0, 0, 0, 1]),
    ] {
        assert!(Record::decode(bytes).is_err(), "{what}");
    }
}

#[expect(clippy::print_stdout, reason = "what the runs came to, for whoever runs the test with --no-capture")]
fn said(members: usize, share: (u32, u32), most: u64, lost: &[usize]) {
    println!(
        "{members} members, {}/{} missing: {most} attempts in 24 hours at most, lost by day {lost:?}",
        share.0, share.1
    );
}
