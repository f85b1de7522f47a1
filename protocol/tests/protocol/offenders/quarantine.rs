//! Members that do not reveal: left out of the next attempt, then of the next slots, then of lists; and denied members.

use dream_protocol::cluster::{Notice, Offence, Record};
use dream_protocol::ids::MeterId;
use dream_protocol::meter;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Slot;
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::DecodeError;
use dream_testkit::node::MeterNode;
use dream_testkit::plain_cluster::Conduct;
use dream_testkit::virtual_cluster::VirtualCluster;

use super::{cluster, config, is_left_out_of_lists, is_quarantined, known, run};
use crate::support::pki::Pki;
use crate::support::{at, cluster_config, cluster_id, meter_config, meter_name, rng};

/// Midnight of 2026-08-30.
const MIDNIGHT: u64 = 20_695 * 86_400;

#[test]
fn a_member_that_never_reveals_costs_a_day_no_slot_and_little_budget() {
    let pki = Pki::new();
    let meter = |index| {
        let config = meter_config(&pki, &meter_name(index));
        MeterNode::new(config, Simulation::NOISELESS, rng(1000 + index as u64))
    };
    let meters: Vec<MeterNode> = (0..25).map(meter).collect();
    let mut cluster = VirtualCluster::new(cluster_config(&pki, 25), meters, at(MIDNIGHT - 1200), rng(1));
    cluster.withheld.insert(MeterChannel::Reveal.topic(&cluster_id(), &MeterId::new(&meter_name(7)).unwrap()));
    let watts = |meter: usize| 100 + 10 * i64::try_from(meter).unwrap();
    let mut decoded = 0;
    for _ in 0..144 {
        let outcome = cluster.next_outcome(|meter, _| Some(watts(meter)));
        let all_but_one: i64 = (0..25).filter(|&meter| meter != 7).map(watts).sum();
        decoded += u64::from(outcome.result.is_ok_and(|sum| sum.watts() == all_but_one));
    }
    assert_eq!(decoded, 144);
    // Two slots until it is in quarantine, and six trials: after 2, 4, 8, 16, 32 and 64 slots.
    let spent = |meter: &MeterNode| meter.meter.spent(at(MIDNIGHT + 86_399)) / 1_000_000;
    assert!(cluster.meters.iter().flatten().all(|meter| spent(meter) == 152), "every meter spends 152 of its 160");
    let ledgers = cluster.meters.iter().flatten().flat_map(|meter| &meter.notices);
    assert!(!ledgers.clone().any(|notice| notice.refusal() == Some(&meter::Refusal::LedgerExhausted)));
}

#[test]
fn quarantine_outlasts_a_restart_and_a_new_list() {
    let mut cluster = cluster(25, (1, 10), &[(4, Conduct::NeverReveals)], 1);
    assert_eq!((0..2).map(|_| cluster.next_slot().outcome.attempts).collect::<Vec<_>>(), [2, 2]);
    assert!(cluster.gateway.records().iter().any(|record| matches!(record, Record::Offenders(_))));
    let mut config = cluster.gateway.config.clone();
    // The members' numbers in the list change: it is the member that is left out, not its place.
    config.roster.deny = [MeterId::new(&meter_name(0)).unwrap()].into();
    cluster.restart(config);
    let closed: Vec<_> = (0..14).map(|_| cluster.next_slot()).collect();
    assert!(closed.iter().all(|slot| slot.check()));
    let lists: Vec<usize> = closed.iter().map(|slot| slot.members.len()).collect();
    assert_eq!((lists[0], lists[13]), (25, 24));
    // A trial in the third slot, and in the eighth.
    let attempts: Vec<u8> = closed.iter().map(|slot| slot.outcome.attempts).collect();
    assert_eq!(attempts, [1, 1, 2, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1]);
    assert!(closed.iter().all(|slot| slot.missing.contains(&4)));
}

#[test]
fn a_member_that_reveals_again_passes_its_trial_and_is_forgotten() {
    let mut cluster = cluster(25, (1, 10), &[(4, Conduct::RevealsLate)], 1);
    (0..2).for_each(|_| drop(cluster.next_slot()));
    assert_eq!(known(&cluster, 4).map(|known| (known.offence, known.failures)), Some((Offence::Silent, 2)));
    cluster.conducts[4] = Conduct::Honest;
    let missing: Vec<usize> = (0..4).map(|_| cluster.next_slot().missing.len()).collect();
    assert_eq!(missing, [1, 1, 0, 0]);
    assert!(!is_quarantined(&cluster, 4));
    assert!(cluster.notices.iter().any(|(_, notice)| matches!(notice, Notice::Released { .. })));
    (0..300).for_each(|_| drop(cluster.next_slot()));
    assert_eq!(known(&cluster, 4), None);
}

#[test]
fn a_member_that_fails_trial_after_trial_is_left_out_of_lists_for_one_day_then_two() {
    let mut cluster = cluster(40, (1, 10), &[(4, Conduct::NeverReveals)], 1);
    let members: Vec<bool> = (0..400).map(|_| cluster.next_slot().members.contains(&4)).collect();
    let slots_out = |(slot, notice): &(Slot, Notice)| {
        let Notice::LeftOutOfLists { until, .. } = notice else { return None };
        Some(until.as_secs() / 600 - slot.0 - 1)
    };
    let left_out: Vec<u64> = cluster.notices.iter().filter_map(slots_out).collect();
    assert_eq!(left_out, [144, 288], "one day, then two, in slots");
    // Lists follow within a few slots, and it comes back between the two.
    let changes: Vec<usize> = (1..400).filter(|&slot| members[slot] != members[slot - 1]).collect();
    assert_eq!(changes.len(), 3, "{changes:?}");
    assert!(changes[0] < 25 && changes[1] - changes[0] > 140 && changes[2] - changes[1] < 8, "{changes:?}");
}

#[test]
fn nobody_is_left_out_of_lists_if_meters_would_refuse_the_shorter_one() {
    // n = 20, and 19 without the member.
    let mut cluster = cluster(25, (1, 10), &[(4, Conduct::NeverReveals)], 1);
    let report = run(&mut cluster, 288, false);
    assert_eq!(report.decoded, 288);
    assert!(cluster.notices.iter().any(|(_, notice)| is_left_out_of_lists(notice, 4)), "it is wanted, but not done");
    assert_eq!(cluster.next_slot().members.len(), 25);
}

#[test]
fn half_of_those_who_may_be_missing_are_quarantined_at_most() {
    let silent: Vec<_> = [2, 3, 5, 7, 11, 13].map(|member| (member, Conduct::NeverReveals)).into();
    let mut cluster = cluster(40, (1, 5), &silent, 1);
    let first = cluster.next_slot();
    assert_eq!(
        (first.check(), first.outcome.attempts, first.missing.len()),
        (true, 2, 6),
        "M = 8: all six in the retry"
    );
    let attempts: Vec<u8> = (0..4).map(|_| cluster.next_slot().outcome.attempts).collect();
    assert_eq!(attempts, [2; 4], "two of them are in every first attempt");
}

#[test]
fn three_are_quarantined_together_where_that_is_more_than_half() {
    let silent: Vec<_> = [2, 3, 5].map(|member| (member, Conduct::NeverReveals)).into();
    let mut cluster = cluster(25, (1, 5), &silent, 1);
    (0..2).for_each(|_| drop(cluster.next_slot()));
    let next = cluster.next_slot();
    assert_eq!((next.outcome.attempts, next.missing.as_slice()), (1, &[2, 3, 5][..]), "M = 5");
}

#[test]
fn when_most_do_not_reveal_it_is_nobodys_fault() {
    let silent: Vec<_> = (0..13).map(|member| (member, Conduct::NeverReveals)).collect();
    let mut cluster = cluster(25, (1, 5), &silent, 1);
    (0..3).for_each(|_| drop(cluster.next_slot()));
    assert_eq!(cluster.gateway.cluster.offenders().count(), 0);
}

#[test]
fn a_denied_member_is_left_out_of_the_next_sum_and_of_a_list_within_two_slots() {
    let mut cluster = cluster(30, (1, 10), &[], 1);
    assert_eq!(cluster.next_slot().missing, [0; 0]);
    let mut denying = config(30, (1, 10));
    denying.roster.deny = [MeterId::new(&meter_name(9)).unwrap()].into();
    // No list is due for days otherwise.
    denying.roster.min_interval_seconds = 86_400;
    cluster.restart(denying);
    let closed: Vec<_> = (0..4).map(|_| cluster.next_slot()).collect();
    assert!(closed.iter().all(|slot| slot.check()));
    let left_out: Vec<_> = closed.iter().map(|slot| (slot.missing.clone(), slot.members.contains(&9))).collect();
    assert_eq!(left_out[0], (vec![9], true));
    assert_eq!(left_out[2..], [(vec![], false), (vec![], false)]);
}

#[test]
fn a_damaged_record_of_offenders_is_refused() {
    let mut cluster = cluster(25, (1, 10), &[(4, Conduct::NeverReveals), (6, Conduct::Nonsense)], 1);
    (0..9).for_each(|_| drop(cluster.next_slot()));
    let records = cluster.gateway.records();
    let record = records.iter().find(|record| matches!(record, Record::Offenders(_))).unwrap();
    let bytes = record.encode();
    assert_eq!(*Record::decode(&bytes).unwrap().encode(), *bytes);
    for cut in 0..bytes.len() {
        assert!(Record::decode(&bytes[..cut]).is_err(), "cut after {cut} bytes");
    }
    // 8, then an array that claims to have 2^32 - 1 offenders.
    let endless = Record::decode(&[0x86, 8, 0x9a, 0xff, 0xff, 0xff, 0xff, 0x80]);
    assert!(matches!(endless, Err(DecodeError::OutOfRange { field: "silent" })), "{endless:?}");
}
