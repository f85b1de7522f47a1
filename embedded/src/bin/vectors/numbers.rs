//! Keys, masks, what is dealt, messages, parameters, days.

use alloc::sync::Arc;
use alloc::vec::Vec;

use dream_protocol::certificate::{Draw, DrawKey};
use dream_protocol::code::Coded as _;
use dream_protocol::derive;
use dream_protocol::ids::{ClusterId, MeterId};
use dream_protocol::keys::{
    AgreementPublic, AgreementSecret, IdentityKey, ListHash, MacKey, PairKey, SelfKey, StreamKey,
};
use dream_protocol::member_set::MemberSet;
use dream_protocol::params::{Params, Terms};
use dream_protocol::scheme::Scheme;
use dream_protocol::scheme::committee::dealing::Dealer;
use dream_protocol::scheme::committee::field::Element;
use dream_protocol::scheme::committee::member::Member;
use dream_protocol::scheme::committee::{Committee, threshold};
use dream_protocol::scheme::pairwise::mask::Masks;
use dream_protocol::scheme::pairwise::partners;
use dream_protocol::simulation::DayAccount;
use dream_protocol::time::Slot;
use dream_protocol::wire::{
    Answer, DealtReading, EnrolmentStatement, FullList, ListHeader, Mac0, MaskedReading, Message, RecoveryMessage,
    Reveal, Sign1, Status,
};

use crate::Tally;
use crate::json::{Value, array, bytes, each, number, signed, small, text, vectors, word, yes};

fn cluster(value: &Value) -> ClusterId {
    ClusterId::new(text(value)).expect("a cluster's id")
}

fn meter(value: &Value) -> MeterId {
    MeterId::new(text(value)).expect("a meter's id")
}

pub(crate) fn key_schedule(tally: &mut Tally) {
    let file = vectors("key_schedule");
    for pair in each(&file["pairs"]) {
        let [own, other] = ["own", "other"].map(|of| {
            let secret = AgreementSecret::from_bytes(array(&pair[alloc::format!("{of}_agreement_private")]));
            let public = AgreementPublic(array(&pair[alloc::format!("{of}_agreement_public")]));
            tally.check(of, &secret.public(), &public);
            (secret, public, meter(&pair[alloc::format!("{of}_id")]))
        });
        let list = ListHash(array(&pair["list_hash"]));
        for (one, two) in [(&own, &other), (&other, &own)] {
            let shared = one.0.agree(&two.1).expect("contributory");
            let key = derive::pair_key(&list, &shared, &cluster(&pair["cluster"]), &one.2, &two.2);
            tally.check("pair_key", key.expose(), &array(&pair["pair_key"]));
        }
    }
    for entry in each(&file["gateway"]) {
        let own = AgreementSecret::from_bytes(array(&entry["agreement_private"]));
        let shared = own.agree(&AgreementPublic(array(&entry["gateway_agreement_public"]))).expect("contributory");
        let list = ListHash(array(&entry["list_hash"]));
        let (stream, mac) = derive::gateway_keys(&list, &shared, &cluster(&entry["cluster"]), &meter(&entry["id"]));
        tally.check("stream_key", stream.expose(), &array(&entry["stream_key"]));
        tally.check("mac_key", mac.expose(), &array(&entry["mac_key"]));
    }
    for key in each(&file["public_keys"]) {
        let public = AgreementPublic(array(&key["public"]));
        tally.check(text(&key["name"]), &public.canonical(), &array(&key["canonical"]));
        tally.check(text(&key["name"]), &public.is_low_order(), &yes(&key["small_order"]));
    }
}

pub(crate) fn masks(tally: &mut Tally) {
    let file = vectors("masks");
    for block in each(&file["blocks"]).iter().chain([&file["far_slot"]]) {
        // Of two members the second adds the mask as it is.
        let masks = Masks::new([Some(PairKey::from_bytes(array(&block["pair_key"]))), None].into(), None);
        tally.check("mask", &masks.sum(Slot(number(&block["slot"])), small(&block["attempt"])), &word(&block["mask"]));
    }
    for sums in each(&file["sums"]) {
        let members: u16 = 5;
        let partners = u128::from(number(&sums["w"]));
        let threshold = u64::try_from((partners << 64) / 4).ok().filter(|_| partners > 0);
        let missing = MemberSet::from_bytes(members, &bytes(&sums["missing"])).expect("a bitmap");
        let (slot, attempt) = (Slot(number(&sums["slot"])), small(&sums["attempt"]));
        for member in each(&sums["members"]) {
            let key = |key: &Value| (!key.is_null()).then(|| PairKey::from_bytes(array(key)));
            let masks = Masks::new(each(&member["pair_keys"]).iter().map(key).collect(), threshold);
            tally.check("sum", &masks.sum(slot, attempt), &word(&member["sum"]));
            tally.check("sum_over_missing", &masks.sum_over(&missing, slot, attempt), &word(&member["sum_over_missing"]));
        }
    }
}

pub(crate) fn stream_and_secret(tally: &mut Tally) {
    let file = vectors("stream_and_secret");
    for case in each(&file["stream"]) {
        let key = StreamKey::from_bytes(array(&case["stream_key"]));
        let stream = derive::stream(&key, Slot(number(&case["slot"])), small(&case["attempt"]));
        tally.check("stream", &stream, &word(&case["stream"]));
    }
    for case in each(&file["secret"]) {
        let (key, list) = (SelfKey::from_bytes(array(&case["self_key"])), ListHash(array(&case["list_hash"])));
        let (slot, attempt) = (Slot(number(&case["slot"])), small(&case["attempt"]));
        let secret = derive::secret(&key, &list, slot, attempt, word(&case["y"]).cast_signed(), &array(&case["r"]));
        tally.check("secret", &secret, &word(&case["secret"]));
    }
}

fn element(value: &Value) -> Element {
    Element::from_canonical(word(value)).expect("a number below the modulus")
}

pub(crate) fn dealing(tally: &mut Tally) {
    let file = vectors("dealing");
    // A committee of one, in which C is what is dealt.
    let only = |seat: Option<(PairKey, bool)>, self_key: [u8; 32], list: [u8; 32], slot: &Value, attempt: &Value| {
        let self_key = Arc::new(SelfKey::from_bytes(self_key));
        let member = Member::new([seat], Arc::new(Dealer::new(1, 1)), self_key, ListHash(list));
        member.deal(Slot(number(slot)), small(attempt)).secret()
    };
    for block in each(&file["blocks"]) {
        let seat = (PairKey::from_bytes(array(&block["pair_key"])), yes(&block["up"]));
        let dealt = only(Some(seat), [0; 32], [0; 32], &block["slot"], &block["attempt"]);
        tally.check("block", &dealt, &element(&block["dealt"]));
    }
    for own in each(&file["own"]) {
        let dealt = only(None, array(&own["self_key"]), array(&own["list_hash"]), &own["slot"], &own["attempt"]);
        tally.check("own", &dealt, &element(&own["dealt"]));
    }
    for stream in each(&file["stream"]) {
        let key = StreamKey::from_bytes(array(&stream["stream_key"]));
        let keystream = derive::stream_block(&key, Slot(number(&stream["slot"])), small(&stream["attempt"]));
        tally.check("keystream", &keystream, &array(&stream["keystream"]));
        tally.check("stream", &Element::from_block(keystream), &element(&stream["stream"]));
    }
    for draw in each(&file["draws"]) {
        let value = DrawKey::from_bytes(array(&draw["draw_key"])).value(&meter(&draw["meter"]));
        tally.check("draw", &value, &Draw(array(&draw["draw"])));
        tally.check("urn", &Draw::from_urn(text(&draw["urn"])).ok(), &Some(value));
        let (sigma, limit) = (value.sigma(number(&draw["day"])), threshold(number(&draw["k"]), number(&draw["members"])));
        tally.check("sigma", &sigma, &word(&draw["sigma"]));
        tally.check("threshold", &limit, &Some(word(&draw["threshold"])));
        tally.check("holder", &limit.is_some_and(|limit| sigma < limit), &yes(&draw["holder"]));
    }
    for case in each(&file["dealings"]) {
        let elements = |values: &Value| each(values).iter().map(element).collect::<Vec<_>>();
        let (dealt, needed) = (elements(&case["dealt"]), small(&case["needed"]));
        for dealer in [Dealer::new(dealt.len(), needed), Dealer::small(dealt.len(), needed)] {
            let dealing = dealer.deal(&dealt);
            tally.check("secret", &dealing.secret(), &element(&case["secret"]));
            tally.check("corrections", &dealing.corrections(), &elements(&case["corrections"]).as_slice());
        }
    }
}

pub(crate) fn messages(tally: &mut Tally) {
    for message in each(&vectors("messages")["messages"]) {
        let (name, topic) = (text(&message["message"]), text(&message["topic"]));
        let (payload, envelope) = (bytes(&message["payload"]), bytes(&message["envelope"]));
        let again = match name {
            "reading" => again::<MaskedReading>(&payload),
            "reveal" => again::<Reveal>(&payload),
            "enrolment" => again::<EnrolmentStatement>(&payload),
            "list header" => again::<ListHeader>(&payload),
            "status" => again::<Status>(&payload),
            "dealt reading" => again::<DealtReading>(&payload),
            "answer" => again::<Answer>(&payload),
            _ => RecoveryMessage::decode(&payload).ok().map(|message| match message {
                RecoveryMessage::Request(request) => request.payload(),
                RecoveryMessage::Retry(retry) => retry.payload(),
            }),
        };
        tally.check(name, &again.as_deref(), &Some(payload.as_slice()));
        let (inner, sound) = if message["mac_key"].is_null() {
            let read = Sign1::decode_any(&envelope).expect("an envelope");
            let key = IdentityKey::from_seed(&array(&message["identity_private"])).public();
            tally.check(name, &key.0, &array(&message["identity_public"]));
            (read.payload(), read.verifies(&key, topic) && !read.verifies(&key, "dream/v1/elsewhere"))
        } else {
            let read = Mac0::decode(&envelope).expect("an envelope");
            let key = MacKey::from_bytes(array(&message["mac_key"]));
            (read.payload(), read.verifies(&key, topic) && !read.verifies(&key, "dream/v1/elsewhere"))
        };
        tally.check(name, &inner, &payload.as_slice());
        tally.check(name, &sound, &true);
        if !message["full_list"].is_null() {
            let whole = bytes(&message["full_list"]);
            let list = FullList::decode(&whole).expect("a list");
            tally.check("full_list", &list.header, &envelope.as_slice());
            let expected: Vec<Vec<u8>> = each(&message["enrolments"]).iter().map(bytes).collect();
            tally.check("enrolments", &list.enrolments, &expected.iter().map(Vec::as_slice).collect());
        }
    }
}

/// Decodes a payload, and encodes it again.
fn again<'a, T: Message<'a>>(payload: &'a [u8]) -> Option<Vec<u8>> {
    T::decode(payload).ok().map(|message| message.payload())
}

fn terms(value: &Value) -> Terms {
    let of = |name: &str| number(&value[name]);
    let committee = Committee { drawn: of("partners"), needed: of("quorum"), holders: of("holders") };
    Terms {
        slot_seconds: of("slot_seconds"),
        reading_seconds: of("reading_seconds"),
        reveal_seconds: of("reveal_seconds"),
        scheme: match of("scheme") {
            0 => Scheme::Pairwise { partners: of("partners") },
            _ => Scheme::Committee(committee),
        },
        max_missing: of("max_missing"),
        max_malicious: of("max_malicious"),
        lo: signed(&value["lo"]),
        hi: signed(&value["hi"]),
        epsilon_numerator: of("epsilon_numerator"),
        epsilon_denominator: of("epsilon_denominator"),
        day_micro_rho: of("day_micro_rho"),
        attempts: of("attempts"),
    }
}

pub(crate) fn params(tally: &mut Tally) {
    let file = vectors("params");
    for case in each(&file["accepted"]) {
        let params = Params::new(small(&case["members"]), terms(&case["terms"])).expect("these terms are accepted");
        let optional = |value: &Value| (!value.is_null()).then(|| word(value));
        let scale = params.noise_scale();
        tally.check("n", &params.honest(), &small(&case["n"]));
        tally.check("sensitivity", &params.sensitivity(), &number(&case["sensitivity"]));
        let lambda = [scale.numerator(), scale.denominator()];
        tally.check("lambda", &lambda, &[0, 1].map(|at| number(&case["lambda"][at])));
        tally.check("charge", &params.charge_micro_epsilon(), &number(&case["charge_micro_epsilon"]));
        tally.check("plain day", &params.plain_day_micro_epsilon(), &number(&case["plain_day_micro_epsilon"]));
        tally.check("rms", &params.day_rms_watts(), &case["day_rms_watts"].as_u64());
        for (inside, outside) in [("least_plausible", -1), ("most_plausible", 1)] {
            let edge = signed(&case[inside]);
            let found = (params.is_plausible(edge), params.is_plausible(edge + outside));
            tally.check(inside, &found, &(true, false));
        }
        tally.check("threshold", &partners::threshold(&params), &optional(&case["threshold"]));
        if let Some(committee) = params.terms().scheme.committee() {
            let members = u64::from(params.members());
            let colluding = Committee::colluding(committee.drawn, members, params.terms().max_malicious);
            tally.check("f", &colluding, &case["f"].as_u64());
            tally.check("drawn_below", &threshold(committee.drawn, members), &optional(&case["drawn_below"]));
        }
    }
    for case in each(&file["refused"]) {
        let error = Params::new(small(&case["members"]), terms(&case["terms"])).expect_err("these terms are refused");
        tally.check(text(&case["refusal"]), &error.code(), &text(&case["refusal"]));
    }
    for case in each(&file["colluding"]) {
        let [drawn, members, malicious] = ["partners", "members", "max_malicious"].map(|name| number(&case[name]));
        tally.check("colluding", &Committee::colluding(drawn, members, malicious), &case["f"].as_u64());
    }
}

pub(crate) fn day(tally: &mut Tally) {
    for case in each(&vectors("day")["cases"]) {
        let mut account = DayAccount::default();
        for attempt in each(&case["attempts"]) {
            let terms = Terms {
                max_malicious: 10,
                lo: signed(&attempt["lo"]),
                hi: signed(&attempt["hi"]),
                epsilon_numerator: number(&attempt["epsilon"][0]),
                epsilon_denominator: number(&attempt["epsilon"][1]),
                day_micro_rho: number(&attempt["day_micro_rho"]),
                ..Terms::with_slots_of(number(&case["slot_seconds"]))
            };
            let params = Params::new(100, terms).expect("sound terms");
            let reported = account.report(&params, Slot(number(&attempt["slot"])), signed(&attempt["measured"]));
            tally.check(text(&case["name"]), &reported, &signed(&attempt["reported"]));
        }
    }
}
