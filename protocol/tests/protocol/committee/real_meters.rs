//! Real meters whose gateway shows different requests to different holders: what opens is what the model of the whole view says,
//! and it is the sum of what was measured.

use std::collections::BTreeSet;

use dream_protocol::derive;
use dream_protocol::meter::{Key, Refusal};
use dream_protocol::policy::Policy;
use dream_protocol::scheme::Scheme;
use dream_protocol::scheme::committee::Committee;
use dream_protocol::simulation::Simulation;
use dream_protocol::time::Slot;
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::{Answer, DealtReading, Mac0, Message as _};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use super::space::{PRIME, Space, multiply};
use super::whole_view::Cluster;
use super::{leak, minus};
use crate::support::liar::{Draft, FIRST, Liar, NO_NOISE, on};
use crate::support::rng;
use crate::support::world::Packet;

/// N = 10, M = 2, T = 1; everybody is a holder, f = 2, and q = 7 is the least that is safe.
const MEMBERS: usize = 10;
const MISSING: usize = 2;
const NEEDED: usize = 7;

/// Which members a request to each holder names, bit by bit.
type Shown = Vec<(usize, usize)>;

#[test]
fn random_equivocations_open_nothing_but_one_whole_sum() {
    let mut meters = cluster(NO_NOISE);
    let mut random = rng(17);
    let mut opened = 0;
    for round in 0..300 {
        let shown = equivocation(&mut random);
        let open = play(&mut meters, FIRST.plus(round), &shown, &mut random);
        assert_eq!(leak(&open, &[1; MEMBERS], MEMBERS - MISSING), None, "round {round}: {shown:?}");
        opened += open.len();
    }
    assert!((100..300).contains(&opened), "the check is not vacuous: {opened} sums opened");
}

#[test]
fn a_reading_opens_if_holders_answer_twice() {
    let mut meters = cluster(Simulation { one_answer: false, ..NO_NOISE });
    let shown: Shown =
        [0, 1 << 3].into_iter().flat_map(|named| (0..MEMBERS).map(move |holder| (holder, named))).collect();
    let mut open = play(&mut meters, FIRST, &shown, &mut rng(18));
    assert_eq!(leak(&open, &[1; MEMBERS], MEMBERS - MISSING), Some("2 sums open".to_owned()));
    assert!(!open.insert((0..MEMBERS).map(|member| u64::from(member == 3)).collect()), "member 3 alone is among them");
}

#[test]
fn holders_that_are_asked_twice_answer_once() {
    let mut meters = cluster(NO_NOISE);
    let shown: Shown =
        [0, 1 << 3].into_iter().flat_map(|named| (0..MEMBERS).map(move |holder| (holder, named))).collect();
    let open = play(&mut meters, FIRST, &shown, &mut rng(18));
    assert_eq!(open.rows().collect::<Vec<_>>(), [[1; MEMBERS]]);
}

#[test]
fn a_late_request_for_an_earlier_attempt_is_refused_and_is_no_evidence() {
    let mut meters = cluster(NO_NOISE);
    let asked_at = meters.slot_end(FIRST).plus_secs(61);
    let (sent, refusals) = meters.tell(0, &meters.request(FIRST, 1, &[]), asked_at);
    assert_eq!((on(MeterChannel::Reveal, &sent).len(), refusals), (1, vec![]));
    // A gateway may name other members in each attempt: nothing here contradicts anything.
    let earlier = meters.request(FIRST, 0, &[3]);
    meters.refused(0, &earlier, asked_at.plus_secs(1), &Refusal::AlreadyAnswered);
    assert!(!meters.meters[0].store.keys().any(|key| matches!(key, Key::Evidence(_))), "it accuses nobody");
}

fn cluster(simulation: Simulation) -> Liar {
    let (needed, holders) = (NEEDED as u64, MEMBERS as u64);
    let generous = |policy: &mut Policy| {
        (policy.daily_micro_epsilon, policy.day_micro_epsilon) = (u64::MAX, u64::MAX);
    };
    let change = |draft: &mut Draft| {
        draft.to_slot = FIRST.plus(2999);
        draft.terms.day_micro_rho = 0;
        draft.terms.scheme = Scheme::Committee(Committee { drawn: 0, needed, holders });
    };
    Liar::with(MEMBERS, MISSING as u64, 1, generous, change, simulation)
}

/// Most holders are shown the same, some nothing, and some anything.
fn equivocation(random: &mut ChaCha20Rng) -> Shown {
    let truth = request(random);
    let shown = (0..MEMBERS).map(|holder| match random.next_u32() % 10 {
        0 => None,
        1 | 2 => Some((holder, request(random))),
        _ => Some((holder, truth)),
    });
    shown.collect::<Vec<_>>().into_iter().flatten().collect()
}

/// Names two members, one or none.
fn request(random: &mut ChaCha20Rng) -> usize {
    (0..MISSING).fold(0, |named, _| named | 1 << (random.next_u32() % 12)) & ((1 << MEMBERS) - 1)
}

/// Lets all members report a slot, and shows holders these requests. Returns what opens, after a check of every sum that does
/// against what was measured.
fn play(meters: &mut Liar, slot: Slot, shown: &[(usize, usize)], random: &mut ChaCha20Rng) -> Space {
    let model = Cluster {
        members: MEMBERS,
        holders: MEMBERS,
        q: NEEDED,
        colluders: BTreeSet::new(),
        missing: MISSING,
        twice: None,
    };
    let (mut view, mut watts) = (Space::default(), Vec::new());
    // What the meter sent stands behind what the model says that it is made of.
    let mut see = |mut row: Vec<u64>, value: u64| {
        row.push(value);
        view.insert(row);
    };
    for member in 0..MEMBERS {
        let measured = random.next_u32() % 5001;
        watts.push(u64::from(measured));
        let packet = meters.measure(member, slot, measured.into());
        let numbers = numbers_in(meters, member, &packet);
        let rows = model.reading(member);
        assert_eq!(rows.len(), numbers.len(), "one correction for each holder after the first q");
        rows.into_iter().zip(numbers).for_each(|(row, value)| see(row, value));
    }
    let asked_at = meters.slot_end(slot).plus_secs(61);
    for &(holder, named) in shown {
        let missing: Vec<u16> =
            (0u16..).zip(0..MEMBERS).filter(|(_, at)| named >> at & 1 == 1).map(|(member, _)| member).collect();
        let (sent, _) = meters.tell(holder, &meters.request(slot, 0, &missing), asked_at);
        for answer in on(MeterChannel::Reveal, &sent) {
            let answer = Answer::decode(Mac0::decode(&answer.payload).unwrap().payload()).unwrap();
            see(model.answer(holder, named), u64::from_be_bytes(answer.sum.to_be_bytes()));
        }
    }
    let mut open = Space::default();
    for sum in view.behind(MEMBERS * MEMBERS).rows() {
        let (times, value) = sum.split_at(MEMBERS);
        let truth = times.iter().zip(&watts).fold(0, |sum, (&times, &watts)| (sum + multiply(times, watts)) % PRIME);
        assert_eq!(truth, value[0], "the model is the machines'");
        open.insert(times.to_vec());
    }
    open
}

/// The numbers of a reading: the ciphertext without the gateway's stream, and the corrections.
fn numbers_in(meters: &Liar, member: usize, packet: &Packet) -> Vec<u64> {
    let envelope = Mac0::decode(&packet.payload).unwrap();
    let reading = DealtReading::decode(envelope.payload()).unwrap();
    let (stream, _) = meters.gateway_keys(member);
    let block = u128::from_be_bytes(derive::stream_block(&stream, reading.slot, reading.attempt));
    let stream = u64::try_from(block % u128::from(PRIME)).unwrap();
    let hidden = minus(u64::from_be_bytes(reading.ciphertext.to_be_bytes()), stream);
    let corrections = reading.corrections.as_chunks::<8>().0.iter().map(|bytes| u64::from_be_bytes(*bytes));
    [hidden].into_iter().chain(corrections).collect()
}
