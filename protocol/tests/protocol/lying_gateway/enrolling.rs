//! A meter's own enrolments at the edges: expiring keys and certificates that a gateway may count on or wait for.

use dream_protocol::meter::{Input, MeterConfig, Notice, Refusal};
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Timestamp;
use dream_protocol::topic::MeterChannel;
use rcgen::date_time_ymd;

use crate::support::liar::{FIRST, LISTED, Liar, NO_NOISE, on};
use crate::support::pki::Pki;
use crate::support::world::MeterNode;
use crate::support::{START, at, meter_config, meter_name, rng};

/// Ticks at every deadline until `wall`; a handled deadline must move, or a device would never sleep again.
fn tick_until(node: &mut MeterNode, wall: Timestamp) {
    while let Some(due) = node.meter.deadline().filter(|due| *due <= wall) {
        node.handle(Input::Tick, due);
        let next = node.meter.deadline();
        assert!(next.is_none_or(|next| next > due), "{due:?} was handled, and {next:?} is next");
    }
}

fn enrolled(node: &MeterNode) -> usize {
    node.notices.iter().filter(|notice| matches!(notice, Notice::Enrolled { .. })).count()
}

#[test]
fn a_list_that_uses_a_key_to_its_last_second_lets_the_meter_sleep_after_it() {
    // The list's last slot ends with the enrolment; its keys are needed for one slot more.
    let mut meters = Liar::enrolled(5, |_| {}, NO_NOISE);
    let mut draft = meters.draft();
    draft.to_slot = dream_protocol::time::Slot((START + 35 * 86_400) / 600 - 1);
    meters.publish(&draft);
    let node = &mut meters.meters[0];
    tick_until(node, at(START + 36 * 86_400));
    assert_eq!(enrolled(node), 1, "renewed once");
}

#[test]
fn a_certificate_that_ends_ends_enrolling_without_haste() {
    // 35 days before its end, an enrolment reaches as far as the certificate: nothing is gained by another.
    let pki = Pki::new();
    let issued = pki.issue("m-0000", "meter", |params| params.not_after = date_time_ymd(2026, 10, 7));
    let config = MeterConfig { certificate: issued.der, ..meter_config(&pki, "m-0000") };
    let mut node = MeterNode::new(config, Simulation::default(), rng(1));
    node.handle(Input::Connected, at(START));
    tick_until(&mut node, at(START + 50 * 86_400));
    assert_eq!(enrolled(&node), 2, "the second one lasts as long as the certificate");
    assert!(!node.store.keys().any(|key| matches!(key, dream_protocol::meter::Key::Enrolment(_))), "all are erased");
}

#[test]
fn a_meter_with_a_new_certificate_enrols_with_it_at_once() {
    let mut meters = Liar::new(5, 1, 1);
    let renewed = meters.pki.issue_for(&meter_name(0), "meter", [4; 32], |_| {});
    let config = MeterConfig {
        identity: renewed.identity(),
        certificate: renewed.der.clone(),
        ..meter_config(&meters.pki, &meter_name(0))
    };
    meters.meters[0].restart(config, NO_NOISE);
    let sent = meters.meters[0].handle(Input::Connected, at(LISTED + 10));
    let enrolments = on(MeterChannel::Enrol, &sent);
    assert_eq!(enrolments.len(), 1, "the old enrolment speaks for another certificate");
    assert!(enrolments[0].payload.windows(renewed.der.len()).any(|part| part == renewed.der));
    // The list in force names the old one, and holds to its end.
    let sent = meters.try_measure(0, FIRST, 100);
    assert_eq!(on(MeterChannel::Reading, &sent).len(), 1);
    let next = meters.next_draft().sign(&meters.identity);
    let (_, refusals) = meters.tell(0, &next, meters.slot_end(FIRST).plus_secs(31));
    assert_eq!(refusals, [Refusal::NotListed]);
}
