//! What holds for any input: decoders never panic and accept one encoding only, masks cancel, sums ignore order.

use std::fmt::Debug;
use std::sync::LazyLock;

use coset::cbor::value::Value;
use coset::cbor::{from_reader, into_writer};
use dream_protocol::certificate::{Anchors, Authorities};
use dream_protocol::enrolment::Enrolment;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{AgreementPublic, ListHash, PairKey};
use dream_protocol::member_set::MemberSet;
use dream_protocol::membership::MembershipList;
use dream_protocol::noise::{Confidence, Scale, Spread};
use dream_protocol::params::{Params, Terms};
use dream_protocol::scheme::Scheme;
use dream_protocol::scheme::committee::Committee;
use dream_protocol::scheme::committee::field::{Element, MODULUS};
use dream_protocol::scheme::pairwise::mask::Masks;
use dream_protocol::simulation::DayAccount;
use dream_protocol::time::Slot;
use dream_protocol::topic::{GatewayChannel, MeterChannel, Topic};
use dream_protocol::wire::{
    Answer, DealtReading, EnrolmentStatement, EvidenceStatement, FullList, ListHeader, ListStatement, Mac0,
    MaskedReading, Message, RecoveryMessage, RecoveryRequest, Retry, Reveal, ShortList, Sign1, Status, StatusCode,
};
use dream_protocol::{cluster, meter};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::pki::{Issued, Pki};
use crate::support::{cluster_id, messages, raw};

/// Genuine bytes of every kind: envelopes, payloads, certificates, records.
static GENUINE: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let pki = Pki::new();
    let sealed = messages::all(&pki);
    let envelopes = sealed.iter().map(|message| message.envelope.clone());
    let payloads = sealed.iter().map(|message| message.payload.clone());
    let certificates = [pki.meter("m-0000").der, pki.gateway("gw").der, pki.meter_authority().to_vec()];
    let lists = [messages::membership_list(&pki).1, messages::short_list(&pki)];
    envelopes
        .chain(payloads)
        .chain(certificates)
        .chain(lists)
        .chain(records().into_iter().map(|(_, bytes)| bytes))
        .collect()
});

static AUTHORITIES: LazyLock<Authorities> = LazyLock::new(|| Pki::new().authorities());

// ---- Any bytes ----------------------------------------------------------------------------------------------------------

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn no_bytes_make_a_decoder_panic_and_what_decodes_has_one_encoding(bytes in any_bytes()) {
        decodes_one_way::<MaskedReading>(&bytes)?;
        decodes_one_way::<RecoveryRequest>(&bytes)?;
        decodes_one_way::<Reveal>(&bytes)?;
        decodes_one_way::<EnrolmentStatement>(&bytes)?;
        decodes_one_way::<Status>(&bytes)?;
        decodes_one_way::<Retry>(&bytes)?;
        decodes_one_way::<ListHeader>(&bytes)?;
        decodes_one_way::<DealtReading<'_>>(&bytes)?;
        decodes_one_way::<Answer>(&bytes)?;
        if let Ok(list) = ShortList::decode(&bytes) {
            prop_assert_eq!(list.encode(), &bytes[..]);
        }
        if let Ok(list) = FullList::decode(&bytes) {
            prop_assert_eq!(list.encode(), &bytes[..]);
        }
        if let Ok(evidence) = EvidenceStatement::decode(&bytes) {
            prop_assert_eq!(evidence.encode(), &bytes[..]);
        }
        if let Ok(message) = RecoveryMessage::decode(&bytes) {
            let again = match message {
                RecoveryMessage::Request(request) => request.payload(),
                RecoveryMessage::Retry(retry) => retry.payload(),
            };
            prop_assert_eq!(again, &bytes[..]);
        }
        // But for an account of an earlier version, of kind 1, which is written anew.
        if let Ok(record) = meter::Record::decode(&bytes) && bytes[1] != 1 {
            prop_assert_eq!(&*record.encode(), &bytes);
        }
        if let Ok(record) = cluster::Record::decode(&bytes) {
            prop_assert_eq!(&*record.encode(), &bytes);
        }
    }

    #[test]
    fn an_envelope_that_decodes_is_in_deterministic_encoding(bytes in any_bytes()) {
        let decoded = [
            Mac0::decode(&bytes).is_ok(),
            Sign1::decode(&bytes).is_ok(),
            Sign1::decode_certified(&bytes).is_ok(),
        ];
        prop_assert!(decoded.iter().filter(|&&ok| ok).count() <= 1, "no bytes are two envelopes");
        if decoded.contains(&true) {
            let mut again = Vec::new();
            into_writer(&from_reader::<Value, _>(&bytes[..]).unwrap(), &mut again).unwrap();
            prop_assert_eq!(again, bytes);
        }
    }

    #[test]
    fn any_bytes_are_a_member_set_or_not_and_come_back(members in 0u16..70, bytes in vec(any::<u8>(), 0..10)) {
        if let Ok(set) = MemberSet::from_bytes(members, &bytes) {
            prop_assert_eq!(set.as_bytes(), &bytes[..]);
            prop_assert_eq!(usize::from(set.len()), set.iter().count());
            prop_assert_eq!(MemberSet::from_members(members, set.iter()), set);
        }
    }

    #[test]
    fn any_text_is_a_topic_or_not(
        text in prop_oneof![any::<String>(), "dream/v1(/(north|gateway|reading|enrol|membership|full|recovery|retry|m-1|\\+)?){0,5}"],
    ) {
        let again = Topic::parse(&text).ok().and_then(|topic| match topic {
            Topic::Meter { cluster, channel, meter } => {
                Some(channel.topic(&ClusterId::new(cluster).ok()?, &MeterId::new(meter).ok()?))
            }
            Topic::Gateway { cluster, channel } => Some(channel.topic(&ClusterId::new(cluster).ok()?)),
        });
        prop_assert!(again.is_none_or(|again| again == text));
    }

    #[test]
    fn every_topic_parses_back(cluster in id(), meter in id(), channel in 0..MeterChannel::ALL.len() + GatewayChannel::ALL.len()) {
        prop_assume!(cluster != "gateway");
        let (own, other) = (ClusterId::new(&cluster).unwrap(), MeterId::new(&meter).unwrap());
        let gateways = GatewayChannel::ALL;
        let (topic, expected) = match channel.checked_sub(MeterChannel::ALL.len()) {
            Some(at) => (gateways[at].topic(&own), Topic::Gateway { cluster: &cluster, channel: gateways[at] }),
            None => {
                let channel = MeterChannel::ALL[channel];
                (channel.topic(&own, &other), Topic::Meter { cluster: &cluster, channel, meter: &meter })
            }
        };
        prop_assert_eq!(Topic::parse(&topic), Ok(expected));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn no_bytes_make_a_verifier_panic_and_nothing_altered_verifies(bytes in any_bytes()) {
        let genuine = GENUINE.contains(&bytes);
        let cluster = cluster_id();
        prop_assert!(Enrolment::verify(&bytes, &cluster, &AUTHORITIES).is_err() || genuine);
        prop_assert!(MembershipList::verify(&bytes, &cluster, &AUTHORITIES).is_err() || genuine);
        prop_assert!(MembershipList::verify_short(&bytes, &cluster, &AUTHORITIES).is_err() || genuine);
        prop_assert!(AUTHORITIES.verify_meter(&bytes).is_err() || genuine);
        prop_assert!(AUTHORITIES.verify_gateway(&bytes).is_err() || genuine);
        // An authority's own certificate is configuration: it is only read.
        drop(Anchors::new([&bytes[..]]));
    }
}

// ---- Any message --------------------------------------------------------------------------------------------------------

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_message_decodes_to_itself(
        (list, hash, number, deadline) in (any::<[u8; 8]>(), any::<[u8; 32]>(), any::<u64>(), integer()),
        (slot, attempt) in (integer().prop_map(Slot), 1..255u8),
        (request, missing) in (any::<[u8; 8]>(), vec(any::<u8>(), 0..70)),
        (named, code) in (any::<Option<[u8; 8]>>(), 0..StatusCode::ALL.len()),
        (cluster, agreement, seq) in (id(), any::<[u8; 32]>(), integer()),
    ) {
        prop_assume!(cluster != "gateway");
        let cluster = ClusterId::new(&cluster).unwrap();
        let reading = MaskedReading { list, slot, attempt, ciphertext: number };
        prop_assert_eq!(MaskedReading::decode(&reading.payload()), Ok(reading));
        let reveal = Reveal { list, slot, attempt, revealed: number, request };
        prop_assert_eq!(Reveal::decode(&reveal.payload()), Ok(reveal));
        let corrections: Vec<u8> =
            missing.iter().flat_map(|byte| (number.rotate_left((*byte).into()) % MODULUS).to_be_bytes()).collect();
        let sum = Element::from_canonical(number % MODULUS).unwrap();
        let dealt = DealtReading { list, slot, attempt, ciphertext: sum, corrections: &corrections };
        let payload = dealt.payload();
        prop_assert_eq!(DealtReading::decode(&payload), Ok(dealt));
        let answer = Answer { list, slot, attempt, sum, request };
        prop_assert_eq!(Answer::decode(&answer.payload()), Ok(answer));
        let asked = RecoveryRequest { list: ListHash(hash), slot, attempt, missing, deadline };
        prop_assert_eq!(RecoveryMessage::decode(&asked.payload()), Ok(RecoveryMessage::Request(asked)));
        let retry = Retry { list: ListHash(hash), slot, attempt, deadline };
        prop_assert_eq!(RecoveryMessage::decode(&retry.payload()), Ok(RecoveryMessage::Retry(retry)));
        let code = StatusCode::ALL[code];
        let evidence = if code == StatusCode::Equivocation { vec![7] } else { Vec::new() };
        let status = Status { cluster: cluster.clone(), list: named, slot, code, newest_epoch: seq, least_malicious: 7, evidence };
        prop_assert_eq!(Status::decode(&status.payload()), Ok(status));
        let statement = EnrolmentStatement {
            cluster,
            certificate: hash,
            agreement: AgreementPublic(agreement),
            not_before: deadline,
            not_after: seq,
            seq: number,
            holds: number % 10_001,
        };
        prop_assert_eq!(EnrolmentStatement::decode(&statement.payload()), Ok(statement));
    }

    #[test]
    fn every_list_decodes_to_itself(
        (epoch, previous, gateway) in (integer(), any::<[u8; 32]>(), any::<[u8; 32]>()),
        (from_slot, to_slot) in (integer().prop_map(Slot), integer().prop_map(Slot)),
        (uints, lo, hi) in (proptest::array::uniform10(integer()), any::<i64>(), any::<i64>()),
        committee in proptest::option::of((integer(), integer())),
        entries in vec(vec(any::<u8>(), 0..300), 0..5),
    ) {
        let [slot_seconds, reading_seconds, reveal_seconds, missing, malicious, partners, en, ed, day, attempts] = uints;
        let terms = Terms {
            slot_seconds,
            reading_seconds,
            reveal_seconds,
            max_missing: missing,
            max_malicious: malicious,
            scheme: committee.map_or(Scheme::Pairwise { partners }, |(needed, holders)| {
                Scheme::Committee(Committee { drawn: partners, needed, holders })
            }),
            lo,
            hi,
            epsilon_numerator: en,
            epsilon_denominator: ed,
            day_micro_rho: day,
            attempts,
        };
        let list = ListStatement {
            cluster: cluster_id(),
            epoch,
            previous_epoch: epoch / 2,
            previous: ListHash(previous),
            gateway: AgreementPublic(gateway),
            meter_authorities: vec![previous],
            gateway_authority: gateway,
            from_slot,
            to_slot,
            terms,
            enrolments: entries.iter().map(Vec::as_slice).collect(),
            holders: Vec::new(),
        };
        let issued = Issued { der: vec![7; 300], seed: gateway };
        let sealed = list.seal((&issued.identity(), &issued.der), "dream/v1/north/membership");
        prop_assert_eq!(ListStatement::decode(&sealed), Ok(list));
        let header = FullList::decode(&sealed).unwrap().header;
        let (holders, digests) = (entries.iter().map(Vec::as_slice).collect(), &previous[..]);
        let short = ShortList { header, holders, digests };
        let bytes = short.encode();
        prop_assert_eq!(ShortList::header_of(&bytes).unwrap().1, FullList::header_of(&sealed).unwrap().1);
        prop_assert_eq!(ShortList::decode(&bytes), Ok(short));
    }
}

#[test]
fn every_record_comes_back_as_it_was_written() {
    for (name, bytes) in records() {
        let again = match name.split_once(' ') {
            Some(("meter", _)) => meter::Record::decode(&bytes).map(|record| record.encode()),
            _ => cluster::Record::decode(&bytes).map(|record| record.encode()),
        };
        assert_eq!(again.map(|again| again.to_vec()), Ok(bytes), "{name}");
    }
}

#[test]
fn records_that_were_never_written_are_refused() {
    let (cluster, bytes) = (raw::text("north"), raw::bytes(&[1; 32]));
    let with_days = |ledger: Vec<Vec<u8>>, hash: &[u8], days: Vec<Vec<u8>>| {
        let (t, since) = (raw::uint(12), raw::uint(7));
        let numbers = [raw::uint(7), raw::uint(8), raw::uint(9), raw::bytes(hash), t, since, raw::uint(0)];
        let rest = [raw::uint(600), raw::uint(1), raw::array(&ledger), raw::array(&days)];
        raw::array(&[&[raw::uint(7), cluster.clone()], &numbers[..], &rest].concat())
    };
    let account = |ledger, hash: &[u8]| with_days(ledger, hash, Vec::new());
    let day = |number: u64, reserved: u64, used: u64| {
        [raw::uint(number), raw::uint(5), raw::uint(reserved), raw::bytes(&used.to_be_bytes())]
    };
    let accounts = |days: &[[Vec<u8>; 4]]| with_days(Vec::new(), &[1; 32], days.concat());
    let whole = |reserved: u64| reserved << 20;
    for sound in [account(vec![], &[1; 32]), accounts(&[day(8, 72, whole(72)), day(9, 0, 0)])] {
        assert!(meter::Record::decode(&sound).is_ok());
    }
    for (defect, record) in [
        ("half a ledger entry", account(vec![raw::uint(1)], &[1; 32])),
        ("a ledger out of order", account([2, 0, 1, 0].map(raw::uint).to_vec(), &[1; 32])),
        ("a slot twice", account([1, 0, 1, 5].map(raw::uint).to_vec(), &[1; 32])),
        ("an epoch without a list", account(vec![], &[])),
        ("more used than is reserved", accounts(&[day(8, 72, whole(72) + 1)])),
        ("days out of order", accounts(&[day(9, 1, 0), day(8, 1, 0)])),
        ("one day twice", accounts(&[day(8, 1, 0), day(8, 2, 0)])),
        ("a day at the end of time", accounts(&[day(u64::MAX / 86_400, 1, 0)])),
        ("a day without its account", with_days(vec![], &[1; 32], day(8, 1, 0)[..3].to_vec())),
        ("too few fields", [&[0x8c], &account(vec![], &[1; 32])[1..]].concat()),
        (
            "a slot with a field too many",
            [&[0x86], &raw::array(&[raw::uint(4), raw::uint(1), bytes, raw::uint(0), raw::uint(0)])[1..]].concat(),
        ),
    ] {
        assert!(meter::Record::decode(&record).is_err(), "{defect}");
    }
    let list = |kind: u64, epoch: u64, of: u64| {
        let (list, key) = (raw::bytes(&list_of(of)), raw::bytes(&[7; 32]));
        let head = [kind, epoch, 17].map(raw::uint).to_vec();
        raw::array(&[head, if kind == 2 { vec![list, key, raw::uint(12), raw::uint(7)] } else { vec![list] }].concat())
    };
    for (t, since) in [(0, 7), (10_001, 7), (12, 1 << 62)] {
        let mut fields = raw::fields(&account(vec![], &[1; 32]));
        (fields[6], fields[7]) = (raw::uint(t), raw::uint(since));
        assert!(meter::Record::decode(&raw::array(&fields)).is_err(), "T {t} since {since}");
    }
    for (epoch, of) in [(9, 8), (8, 9), (10, 9), (u64::MAX, 9), (1 << 40, 1 << 40)] {
        assert!(meter::Record::decode(&list(3, epoch, of)).is_err(), "a list of epoch {of}, kept as {epoch}");
        let taken_over = epoch == 1 << 40;
        assert!(cluster::Record::decode(&list(2, epoch, of)).is_err() != taken_over, "{of}, kept as {epoch}");
    }
    let p = MODULUS.to_be_bytes();
    for (defect, name, at, value) in [
        ("a ciphertext of p", "cluster dealt reading", 4, raw::bytes(&p)),
        ("a correction of p", "cluster dealt reading", 5, raw::bytes(&p)),
        ("half a correction", "cluster dealt reading", 5, raw::bytes(&[1; 12])),
        ("a sum of p", "cluster answer", 4, raw::uint(MODULUS)),
    ] {
        let (_, good) = records().into_iter().find(|(known, _)| *known == name).unwrap();
        let mut fields = raw::fields(&good);
        fields[at] = value;
        assert!(cluster::Record::decode(&raw::array(&fields)).is_err(), "{defect}");
    }
    for (defect, at, value) in [
        ("a failure with a sum", 13, raw::uint(1)),
        ("a slot beyond any list's", 1, raw::uint(1 << 40)),
        ("a start after its end", 2, raw::uint(1_788_001_800_000)),
        ("an end at the end of time", 3, raw::uint(u64::MAX)),
        ("an end just before it", 3, raw::uint(u64::MAX - 1)),
        ("an epoch without a next", 4, raw::uint(u64::MAX)),
        ("an epsilon beyond any list's", 9, raw::uint(1_000_000_000_001)),
        ("a scale of zero", 10, raw::uint(0)),
        ("a scale beyond any list's", 10, raw::uint(1 << 60)),
        ("a scale that is not in lowest terms", 11, raw::uint(3000)),
        ("nobody honest", 6, raw::uint(0)),
        ("more responders than members", 7, raw::uint(101)),
        ("an unknown word", 12, raw::text("perhaps")),
    ] {
        let mut fields = outcome("reveal_missing", 0);
        fields[at] = value;
        assert!(cluster::Record::decode(&raw::array(&fields)).is_err(), "{defect}");
    }
}

/// While the accounts of days were of energy, lists said so, and meters wrote what a day had used of it.
#[test]
fn records_of_an_earlier_version_are_read_so_that_what_was_spent_stays_spent() {
    let (mut lists, mut accounts) = (0, 0);
    for (name, bytes) in records() {
        // Epsilon 1/2, account 2, and 1,722,657 millionths.
        let stated = [1, 2, 2, 0x1a, 0x00, 0x1a, 0x49, 0x21];
        if let Some(at) = bytes.windows(stated.len()).position(|window| window == stated) {
            let mut earlier = bytes.clone();
            earlier[at + 2] = 1;
            let read = if name.starts_with("meter") {
                meter::Record::decode(&earlier).map(|record| record.encode().to_vec())
            } else {
                cluster::Record::decode(&earlier).map(|record| record.encode().to_vec())
            };
            assert_eq!(read, Ok(earlier), "{name}");
            lists += 1;
        }
        if name == "meter account" {
            let mut fields = raw::fields(&bytes);
            fields[0] = raw::uint(1);
            let days = [raw::uint(8), raw::uint(5), raw::uint(72), raw::bytes(&[1; 16])];
            *fields.last_mut().unwrap() = raw::array(&days);
            let read = meter::Record::decode(&raw::array(&fields)).unwrap().encode();
            fields[0] = raw::uint(7);
            let days = [raw::uint(8), raw::uint(77), raw::uint(0), raw::bytes(&[0; 8])];
            *fields.last_mut().unwrap() = raw::array(&days);
            assert_eq!(*read, raw::array(&fields));
            accounts += 1;
        }
    }
    assert!(lists >= 3 && accounts == 1, "{lists} {accounts}");
}

/// Whatever decodes can be added to: numbers at their ends are refused, or the machines would overflow later.
#[test]
fn records_with_numbers_that_nothing_can_follow_are_refused() {
    let ends = [u64::MAX, u64::MAX - 1, 1 << 63];
    for (name, good) in records() {
        let (meters, fields) = (name.starts_with("meter"), raw::fields(&good));
        for (place, field) in fields.iter().enumerate().skip(1) {
            // Only unsigned numbers: their major type is 0.
            if field[0] >> 5 != 0 || FREE.contains(&(name, place)) {
                continue;
            }
            for end in ends {
                let mut changed = fields.clone();
                changed[place] = raw::uint(end);
                let bytes = raw::array(&changed);
                let refused = if meters {
                    meter::Record::decode(&bytes).is_err()
                } else {
                    cluster::Record::decode(&bytes).is_err()
                };
                assert!(refused, "{name}: field {place} is {end}");
            }
        }
    }
}

/// Numbers that may be anything: instants, which saturate, and masked values.
const FREE: [(&str, usize); 13] = [
    ("meter account", 2),
    ("meter account without a list", 2),
    ("meter list", 2),
    ("meter slot, sent", 7),
    ("meter slot, sent", 9),
    ("meter slot, dealt", 8),
    ("meter short list", 2),
    ("cluster list", 2),
    ("cluster list without a key", 2),
    ("cluster list that leaves an epoch out", 2),
    ("cluster reading", 4),
    ("cluster reveal", 4),
    // It bounds itself: only a decoded sum has to be one, and a failed one is 0.
    ("cluster outcome, failed", 13),
];

// ---- A day --------------------------------------------------------------------------------------------------------------

/// Lambdas below divide this.
const MULTIPLE: i128 = 64_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// What the proof of `protocol-proofs.md 5a` adds up: any two days of a home, under any lists.
    #[test]
    fn two_days_of_a_home_differ_by_no_more_than_twice_rho(
        lists in vec((any::<bool>(), 0usize..3, 1u64..=2, 200_000u64..2_000_000), 1..5),
        days in vec((0usize..8, -9000i64..9000, -9000i64..9000, any::<bool>()), 24),
    ) {
        let params = lists.iter().map(|&(signed, range, epsilon_denominator, day_micro_rho)| {
            let hi = [1000, 4000, 8000][range];
            let terms = Terms { max_malicious: 10, lo: if signed { -hi } else { 0 }, hi, epsilon_denominator, day_micro_rho, ..Terms::with_slots_of(3600) };
            Params::new(100, terms).unwrap()
        });
        let params: Vec<Params> = params.collect();
        let [mut one, mut other] = [DayAccount::default(), DayAccount::default()];
        // The first attempt binds the day.
        let rho = i128::from(params[days[0].0 % params.len()].terms().day_micro_rho);
        let mut apart = 0;
        for (slot, (list, watts, others, opposite)) in days.into_iter().enumerate() {
            let (params, slot) = (&params[list % params.len()], Slot(slot as u64));
            let others = if opposite { -watts } else { others };
            let lambda = i128::from(params.noise_scale().numerator());
            let moved = i128::from(one.report(params, slot, watts) - other.report(params, slot, others));
            apart += moved.pow(2) * (MULTIPLE / lambda).pow(2);
        }
        prop_assert!(apart * 1_000_000 <= 2 * rho * MULTIPLE.pow(2), "{apart}");
    }
}

// ---- Masks and bands ----------------------------------------------------------------------------------------------------

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn masks_of_all_members_cancel_no_matter_who_is_missing(
        members in 2u16..24,
        threshold in any::<Option<u64>>(),
        slot in integer().prop_map(Slot),
        attempt in any::<u8>(),
        absent in vec(any::<bool>(), 24),
        seed in any::<[u8; 14]>(),
    ) {
        let pair = |a: u16, b: u16| {
            let (low, high) = (a.min(b).to_be_bytes()[1], a.max(b).to_be_bytes()[1]);
            PairKey::from_bytes(std::array::from_fn(|i| match i { 0 => low, 1 => high, _ => seed[i - 2] }))
        };
        let missing = MemberSet::from_members(members, (0..members).filter(|&member| absent[usize::from(member)]));
        let mut sum = 0u64;
        for own in (0..members).filter(|&own| !missing.contains(own)) {
            let keys = (0..members).map(|other| (other != own).then(|| pair(own, other))).collect();
            let masks = Masks::new(keys, threshold);
            sum = sum.wrapping_add(masks.sum(slot, attempt)).wrapping_sub(masks.sum_over(&missing, slot, attempt));
            if attempt == 0 && slot.0 < u64::MAX - 2 {
                prop_assert_eq!(masks.batch(slot, 1).get(slot), Some(masks.sum(slot, 0)));
            }
        }
        prop_assert_eq!(sum, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bands_widen_with_confidence_and_with_responders(
        (numerator, denominator) in (1u64..1_000_000, 1u64..100),
        honest in 1u32..500,
        responders in 1u32..1000,
    ) {
        let spread = |responders| Spread::new(Scale::new(numerator, denominator), honest, responders);
        let widths = |responders| [Confidence::P95, Confidence::P99].map(|c| spread(responders).half_width(c));
        let (one, more) = (widths(responders), widths(responders + 1 + responders / 10));
        prop_assert!(one[0] <= one[1] && more[0] <= more[1], "{one:?} {more:?}");
        prop_assert!(one[0] <= more[0] && one[1] <= more[1], "{one:?} {more:?}");
        prop_assert!(spread(responders).coverage(one[0]) >= 0.95 - 1e-9);
    }
}

// ---- A gateway and real readings ----------------------------------------------------------------------------------------

mod driven {
    use dream_protocol::aggregate::Failure;
    use dream_protocol::time::Timestamp;

    use super::*;
    use crate::support::world::{Packet, World};

    const MEMBERS: usize = 10;

    /// Everyone's readings of the first slot, without noise: each reading is another power of two, so a sum names them.
    fn measured() -> (World, Vec<Packet>, Timestamp) {
        let mut world = World::new(MEMBERS);
        let slot = world.first_slot();
        let end = world.slot_end(slot);
        world.gateway.handle(cluster::Input::Tick, end);
        let readings = (0..MEMBERS).flat_map(|meter| world.measure(meter, slot, watts(meter))).collect();
        (world, readings, end)
    }

    fn watts(meter: usize) -> i64 {
        1 << meter
    }

    fn order() -> impl Strategy<Value = Vec<usize>> {
        // Everyone once and some twice.
        let twice = proptest::sample::subsequence((0..MEMBERS).collect::<Vec<_>>(), 0..=MEMBERS);
        twice.prop_flat_map(|twice| Just((0..MEMBERS).chain(twice).collect::<Vec<_>>()).prop_shuffle())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_order_of_arrival_never_changes_the_sum(
            readings_in in order(),
            reveals_in in order(),
            missing in proptest::sample::subsequence((0..MEMBERS).collect::<Vec<_>>(), 0..=2),
        ) {
            let (mut world, readings, end) = measured();
            let mut requests = Vec::new();
            for meter in readings_in.into_iter().filter(|meter| !missing.contains(meter)) {
                requests.extend(world.gateway.receive(&readings[meter], end.plus_secs(31)));
            }
            requests.extend(world.gateway.handle(cluster::Input::Tick, end.plus_secs(60)));
            let reveals: Vec<_> = (0..MEMBERS)
                .map(|meter| if missing.contains(&meter) { vec![] } else { world.deliver(meter, &requests[0], end.plus_secs(61)) })
                .collect();
            for meter in reveals_in {
                for packet in &reveals[meter] {
                    world.gateway.receive(packet, end.plus_secs(62));
                }
            }
            prop_assert_eq!(world.gateway.outcomes.len(), 1);
            let expected: i64 = (0..MEMBERS).filter(|meter| !missing.contains(meter)).map(watts).sum();
            prop_assert_eq!(world.gateway.outcomes[0].result.map(|sum| sum.watts()), Ok(expected));
        }

        #[test]
        fn with_too_many_missing_nothing_is_asked_and_nothing_released(
            readings_in in order(),
            missing in proptest::sample::subsequence((0..MEMBERS).collect::<Vec<_>>(), 3..=MEMBERS),
        ) {
            let (mut world, readings, end) = measured();
            for meter in readings_in.into_iter().filter(|meter| !missing.contains(meter)) {
                prop_assert_eq!(world.gateway.receive(&readings[meter], end.plus_secs(31)), vec![]);
            }
            prop_assert_eq!(world.gateway.handle(cluster::Input::Tick, end.plus_secs(60)), vec![]);
            prop_assert_eq!(world.gateway.outcomes.len(), 1);
            prop_assert_eq!(world.gateway.outcomes[0].result, Err(Failure::TooManyMissing));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4))]

        #[test]
        fn nothing_that_arrives_makes_a_machine_panic_or_changes_the_sum(
            noise in vec((0usize..10, any_bytes()), 200),
        ) {
            let (mut world, readings, end) = measured();
            let id = "m-0000";
            let topics = ["reading/", "reveal/", "enrol/", "status/"].map(|channel| format!("dream/v1/north/{channel}{id}"));
            let topics = [&topics[..], &["membership", "membership/full", "recovery", "retry", "aggregate", ""].map(|c| format!("dream/v1/north/{c}"))].concat();
            let packets: Vec<_> = noise
                .into_iter()
                .map(|(topic, payload)| Packet::new(topics[topic].clone(), payload))
                .filter(|packet| !GENUINE.contains(&packet.payload.to_vec()))
                .collect();
            let disturb = |world: &mut World, at: Timestamp| {
                for packet in &packets {
                    world.gateway.receive(packet, at);
                    world.deliver(0, packet, at);
                }
            };
            disturb(&mut world, end.plus_secs(31));
            let requests: Vec<_> =
                readings.iter().flat_map(|reading| world.gateway.receive(reading, end.plus_secs(32))).collect();
            disturb(&mut world, end.plus_secs(32));
            for meter in 0..MEMBERS {
                for packet in world.deliver(meter, &requests[0], end.plus_secs(33)) {
                    world.gateway.receive(&packet, end.plus_secs(33));
                }
            }
            let expected: i64 = (0..MEMBERS).map(watts).sum();
            prop_assert_eq!(world.gateway.outcomes[0].result.map(|sum| sum.watts()), Ok(expected));
        }
    }
}

// ---- Inputs -------------------------------------------------------------------------------------------------------------

/// Random bytes, or genuine ones with a few bytes changed, added or lost.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let altered = (any::<prop::sample::Index>(), vec(edit(), 0..4)).prop_map(|(which, edits)| {
        let mut bytes = which.get(&GENUINE).clone();
        for (kind, at, byte) in edits {
            let at = if bytes.is_empty() { 0 } else { at.index(bytes.len()) };
            match kind {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 if !bytes.is_empty() => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.insert(at, byte),
                3 => bytes.truncate(at),
                4 => bytes.push(byte),
                _ => {}
            }
        }
        bytes
    });
    prop_oneof![1 => vec(any::<u8>(), 0..200), 4 => altered]
}

/// Edits at the front are as likely as all others together: that is where the heads of arrays are.
fn edit() -> impl Strategy<Value = (u8, prop::sample::Index, u8)> {
    (0u8..6, any::<prop::sample::Index>(), any::<u8>())
}

/// Integers of every encoded length.
fn integer() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(number, shift)| number >> shift)
}

fn id() -> impl Strategy<Value = String> {
    "[a-z0-9][a-z0-9_-]{0,63}"
}

fn decodes_one_way<'a, T: Message<'a> + Debug>(bytes: &'a [u8]) -> Result<(), TestCaseError> {
    if let Ok(message) = T::decode(bytes) {
        prop_assert_eq!(message.payload(), bytes, "{:?}", message);
    }
    Ok(())
}

/// A record of every kind that either machine writes, built byte by byte.
pub(crate) fn records() -> Vec<(&'static str, Vec<u8>)> {
    let (hash, key, message) = (raw::bytes(&[0x1b; 32]), raw::bytes(&[0x77; 32]), raw::bytes(&[5; 40]));
    let of = |fields: &[&[Vec<u8>]]| raw::array(&fields.concat());
    let slot = |stage: &[Vec<u8>]| {
        let (number, retry) = (raw::uint(2_980_002), raw::bytes(&[8; 40]));
        of(&[&[raw::uint(4), number, hash.clone(), raw::negative(-17), retry], stage])
    };
    let ledger = raw::array(&[20_000, 0, 20_001, 144_000_000].map(raw::uint));
    let account = |epoch, list: &[u8], ledger: Vec<u8>| {
        let numbers = [raw::uint(1_788_000_000), raw::uint(3), raw::uint(epoch), raw::bytes(list)];
        let (t, since) = if epoch == 0 { (0, 0) } else { (12, 1_788_000_000) };
        let kept = [t, since, 1].map(raw::uint);
        let used = raw::bytes(&(3u64 << 20).to_be_bytes());
        let days = raw::array(&[raw::uint(20_694), raw::uint(5), raw::uint(72_000_000), used]);
        let rest = [raw::uint(1_788_000_600), raw::uint(1), ledger, days];
        of(&[&[raw::uint(7), raw::text("north")], &numbers, &kept, &rest])
    };
    let attempt = [raw::uint(2_980_002), raw::uint(1)];
    let list = raw::bytes(&list_of(9));
    vec![
        ("meter account", account(9, &[3; 32], ledger)),
        ("meter account without a list", account(0, &[], raw::array(&[]))),
        (
            "meter enrolment",
            of(&[&[raw::uint(2), message.clone()], &[7, 8, 9].map(raw::uint), &[key.clone(), key.clone()]]),
        ),
        ("meter list", of(&[&[3, 9, 1_788_000_000_123].map(raw::uint), std::slice::from_ref(&list)])),
        ("meter slot, held", slot(&[raw::uint(0)])),
        ("meter slot, sent", slot(&[raw::uint(1), raw::uint(0), raw::uint(u64::MAX), message.clone(), raw::uint(5)])),
        ("meter slot, dealt", slot(&[raw::uint(3), raw::uint(1), message.clone(), raw::uint(5)])),
        (
            "meter slot, answered",
            slot(&[raw::uint(2), raw::uint(254), message.clone(), message.clone(), message.clone()]),
        ),
        (
            "meter answer",
            of(&[&[6, 2_980_002].map(raw::uint), &[hash.clone(), raw::uint(1), message.clone(), message.clone()]]),
        ),
        ("meter short list", of(&[&[3, 9, 17].map(raw::uint), &[raw::bytes(&short_list_of(9))]])),
        ("meter evidence", of(&[&[5, 0].map(raw::uint), std::slice::from_ref(&message)])),
        ("cluster evidence", of(&[&[9, 0].map(raw::uint), std::slice::from_ref(&message)])),
        ("cluster enrolment", of(&[&[raw::uint(1), raw::text("m-0001"), message.clone()]])),
        ("cluster list", of(&[&[2, 9, 17].map(raw::uint), &[list.clone(), key], &[12, 17].map(raw::uint)])),
        (
            "cluster list without a key",
            of(&[&[2, 9, 17].map(raw::uint), &[list.clone(), raw::bytes(&[])], &[0, 0].map(raw::uint)]),
        ),
        (
            "cluster list that leaves an epoch out",
            of(&[&[2, 10, 17].map(raw::uint), &[list, raw::bytes(&[])], &[12, 17].map(raw::uint)]),
        ),
        ("cluster retry", of(&[&[raw::uint(3)], &attempt, std::slice::from_ref(&message)])),
        ("cluster reading", of(&[&[raw::uint(4)], &attempt, &[9999, u64::MAX].map(raw::uint)])),
        (
            "cluster dealt reading",
            of(&[
                &[raw::uint(10)],
                &attempt,
                &[raw::uint(9999), raw::bytes(&(MODULUS - 1).to_be_bytes()), raw::bytes(&[1; 16])],
            ]),
        ),
        ("cluster answer", of(&[&[raw::uint(11)], &attempt, &[9999, MODULUS - 1].map(raw::uint)])),
        ("cluster request", of(&[&[raw::uint(5)], &attempt, &[message]])),
        ("cluster reveal", of(&[&[raw::uint(6)], &attempt, &[0, 1].map(raw::uint)])),
        ("cluster outcome", raw::array(&outcome("decoded", -500))),
        ("cluster outcome, failed", raw::array(&outcome("too_many_missing", 0))),
    ]
}

/// A list without members that decodes, of an epoch.
fn list_of(epoch: u64) -> Vec<u8> {
    let gateway = Pki::new().gateway("gw");
    let statement = ListStatement {
        cluster: ClusterId::new("north").unwrap(),
        epoch,
        previous_epoch: 0,
        previous: ListHash([0; 32]),
        gateway: AgreementPublic([9; 32]),
        meter_authorities: vec![[1; 32]],
        gateway_authority: [2; 32],
        from_slot: Slot(1),
        to_slot: Slot(2),
        terms: Terms::DEFAULT,
        enrolments: Vec::new(),
        holders: Vec::new(),
    };
    statement.seal((&gateway.identity(), &gateway.der), "dream/v1/north/membership")
}

/// A short list without holders that decodes, of an epoch.
fn short_list_of(epoch: u64) -> Vec<u8> {
    let whole = list_of(epoch);
    ShortList { header: FullList::decode(&whole).unwrap().header, holders: Vec::new(), digests: &[] }.encode()
}

/// The fields of an outcome of 100 members.
fn outcome(word: &str, watts: i64) -> Vec<Vec<u8>> {
    let numbers = [7, 2_980_002, 1_788_001_200_000, 1_788_001_800_000, 9, 100, 80, 91, 2, 333_334, 27_000, 1];
    let watts = if watts < 0 { raw::negative(watts) } else { raw::uint(watts.unsigned_abs()) };
    [numbers.map(raw::uint).to_vec(), vec![raw::text(word), watts]].concat()
}
