//! Lists that are sound by themselves but shown to half of the meters, or padded with members that never speak.

use std::collections::BTreeSet;

use dream_protocol::aggregate::Failure;
use dream_protocol::cluster::{self, Rejection};
use dream_protocol::keys::AgreementSecret;
use dream_protocol::membership::MembershipList;
use dream_protocol::meter::{Input, Refusal};
use dream_protocol::topic::MeterChannel;

use crate::support::algebra::{View, openings};
use crate::support::liar::{Draft, FIRST, LISTED, Liar, NO_NOISE, on};
use crate::support::world::{Packet, World, sign_list};
use crate::support::{at, cluster_id, enrol};

#[test]
fn two_lists_to_two_halves_open_nothing_whatever_is_asked() {
    let mut meters = Liar::enrolled(10, |_| {}, NO_NOISE);
    let mut draft = meters.draft();
    draft.terms.max_missing = 2;
    let other = Draft { to_slot: draft.to_slot.plus(1), ..draft.clone() };
    let lists = [draft, other].map(|draft| {
        let packet = draft.sign(&meters.identity);
        MembershipList::verify(&packet.payload, &cluster_id(), &meters.pki.authorities()).unwrap()
    });
    let half_of = |meter: usize| usize::from(meter >= 5);
    for meter in 0..10 {
        meters.meters[meter].handle(Input::List(lists[half_of(meter)].clone()), at(LISTED));
        assert_eq!(meters.meters[meter].refusals(), []);
    }
    // Ask everyone honestly, with an empty S; and every half to leave out two of the other.
    for (round, named) in [[vec![], vec![]], [vec![5, 6], vec![0, 1]]].into_iter().enumerate() {
        let slot = FIRST.plus(round as u64);
        let mut sum = 0u64;
        let mut views = [Vec::new(), Vec::new()];
        for meter in 0..10 {
            let half = half_of(meter);
            meters.list = Some(lists[half].clone());
            let reading = meters.measure(meter, slot, 100);
            let request = meters.request(slot, 0, &named[half]);
            let (sent, refusals) = meters.tell(meter, &request, meters.slot_end(slot).plus_secs(61));
            assert_eq!(refusals, []);
            sum = sum.wrapping_add(meters.open(meter, &reading, sent.first()));
            let told = Some(named[half].iter().copied().collect());
            views[half].push(View { meter: u16::try_from(meter).unwrap(), told });
            // The other half's request is none of its business.
            meters.list = Some(lists[1 - half].clone());
            let crossed = meters.request(slot, 0, &[]);
            let (sent, refusals) = meters.tell(meter, &crossed, meters.slot_end(slot).plus_secs(62));
            assert_eq!((on(MeterChannel::Reveal, &sent), refusals), (vec![], vec![Refusal::OtherList]));
        }
        assert!(!lists[0].params().is_plausible(sum.cast_signed()), "the halves' masks do not cancel");
        // LH salts every key, so the halves share no mask: each has to open by itself, and has too few meters for it.
        let everyone: BTreeSet<u16> = (0..10).collect();
        for half in views {
            assert_eq!(openings(&half, &everyone), []);
        }
    }
}

#[test]
fn an_honest_gateway_that_finds_half_of_its_cluster_under_another_list_asks_nothing() {
    let mut world = World::new(10);
    let other_list = {
        let statement = dream_protocol::wire::ListStatement {
            cluster: cluster_id(),
            epoch: world.list.epoch() + 1,
            previous_epoch: world.list.epoch(),
            previous: *world.list.hash(),
            meter_authorities: world.list.meter_authorities().to_vec(),
            gateway_authority: *world.list.gateway_authority(),
            gateway: AgreementSecret::from_bytes([3; 32]).public(),
            from_slot: world.list.from_slot(),
            to_slot: world.list.to_slot(),
            terms: *world.list.params().terms(),
            enrolments: world.list.members().iter().map(|member| member.bytes()).collect(),
            holders: Vec::new(),
        };
        sign_list(&world.pki, &statement)
    };
    for meter in 5..10 {
        world.deliver(meter, &other_list, at(LISTED + 1));
        assert_eq!(world.meters[meter].refusals(), []);
    }
    let slot = world.first_slot();
    let end = world.slot_end(slot);
    world.gateway.handle(cluster::Input::Tick, end);
    for meter in 0..10 {
        for reading in world.measure(meter, slot, 100) {
            world.gateway.receive(&reading, end.plus_secs(31));
        }
    }
    assert_eq!(world.gateway.rejections, vec![Rejection::OtherList; 5]);
    assert_eq!(world.gateway.tick_until(end.plus_secs(61)), [], "no request");
    assert_eq!(world.gateway.outcomes[0].result, Err(Failure::TooManyMissing));
}

/// A list of ten meters and three idle members, whose certificates the gateway got hold of; M = 2.
fn padded() -> Liar {
    let mut meters = Liar::enrolled(10, |_| {}, NO_NOISE);
    let mut draft = meters.draft();
    (draft.terms.max_missing, draft.terms.max_malicious) = (2, 2);
    for id in ["z-0", "z-1", "z-2"] {
        draft.enrolments.push(enrol(id, &meters.pki.meter(id), |_| {}));
    }
    meters.publish(&draft);
    meters
}

#[test]
fn padding_the_list_with_idle_members_never_opens_anything() {
    let mut meters = padded();
    let everyone: BTreeSet<u16> = (0..13).collect();
    for (round, named) in [vec![], vec![10], vec![10, 11], vec![11, 12]].into_iter().enumerate() {
        let slot = FIRST.plus(round as u64);
        let asked_at = meters.slot_end(slot).plus_secs(61);
        let (mut sum, mut views) = (0u64, Vec::new());
        for meter in 0..10 {
            let reading = meters.measure(meter, slot, 100);
            let too_many = meters.request(slot, 0, &[10, 11, 12]);
            meters.refused(meter, &too_many, asked_at, &Refusal::TooManyMissing { most: 2, found: 3 });
            let (sent, refusals) = meters.tell(meter, &meters.request(slot, 0, &named), asked_at);
            assert_eq!(refusals, []);
            sum = sum.wrapping_add(meters.open(meter, &reading, sent.first()));
            let told = Some(named.iter().copied().collect());
            views.push(View { meter: u16::try_from(meter).unwrap(), told });
        }
        assert!(!meters.list().params().is_plausible(sum.cast_signed()));
        assert_eq!(openings(&views, &everyone), []);
    }
}

#[test]
fn an_honest_gateway_with_more_idle_members_than_tolerated_asks_nothing() {
    // Thirteen enrol, three of them fall silent: M = 2.
    let mut world = World::new(13);
    let slot = world.first_slot();
    let end = world.slot_end(slot);
    world.gateway.handle(cluster::Input::Tick, end);
    let readings: Vec<Packet> = (0..10).flat_map(|meter| world.measure(meter, slot, 100)).collect();
    for reading in &readings {
        world.gateway.receive(reading, end.plus_secs(31));
    }
    assert_eq!(world.gateway.tick_until(end.plus_secs(61)), []);
    assert_eq!(world.gateway.outcomes[0].result, Err(Failure::TooManyMissing));
    assert_eq!(world.gateway.outcomes[0].responders, 10);
}
