//! Messages and certificates with one defect each: the meter refuses them by the rule on record, and accepts the sound ones.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;

use dream_protocol::code::Coded;
use dream_protocol::meter::{Input, Key};
use dream_protocol::time::{Slot, Timestamp};

use crate::Tally;
use crate::json::{Value, bytes, each, signed, text, vectors};
use crate::machine::{Cluster, Node, Records, START};

/// The first slot of all lists, and its end.
const SLOT: Slot = Slot(2_980_002);
const END: u64 = 2_980_003 * 600;

pub(crate) fn broken(tally: &mut Tally) {
    let cluster = Cluster::pairwise();
    let authorities = cluster.authorities();
    let mut first = cluster.enrolled(0);
    let enrolled = first.store.clone();
    let list = &cluster.file["list"];
    first.receive(text(&list["topic"]), &bytes(&list["full_list"]), at(START + 6));
    first.measure(SLOT, signed(&vectors("slot")["members"][0]["measured"]), at(END));
    for case in each(&vectors("broken")["cases"]) {
        let found = match text(&case["judge"]) {
            "certificate" => authorities.verify_meter(&bytes(&case["bytes"])).err().map(|error| reason(&error)),
            "list" => judge(&cluster, 0, &enrolled, case, at(START + 6)),
            "recovery" => judge(&cluster, 0, &first.store, case, at(END + 61)),
            // The gateway's business.
            _ => continue,
        };
        compare(tally, case, found);
    }
}

pub(crate) fn committee_broken(tally: &mut Tally) {
    const UNWILLING: usize = 3;
    const ELLIPTIC: usize = 8;
    let cluster = Cluster::committee();
    let slots = vectors("committee_slot");
    let reported = |index: usize| {
        let mut node = cluster.enrolled(index);
        let enrolled = node.store.clone();
        let every = &cluster.file["every"];
        node.receive(text(&every["topic"]), &bytes(&every["full_list"]), at(START + 6));
        node.measure(SLOT, signed(&slots["slots"][0]["members"][index]["measured"]), at(END));
        (enrolled, node.store)
    };
    let (holder_enrolled, holder) = reported(0);
    let (_, member) = reported(UNWILLING);
    let elliptic = cluster.enrolled(ELLIPTIC).store;
    let forgetful = {
        let mut node = Node::resume(cluster.config(0), holder.clone(), 5);
        node.handle(Input::Tick, at(END + 61));
        let request = &slots["slots"][0]["request"];
        node.receive(text(&request["topic"]), &bytes(&request["envelope"]), at(END + 61));
        node.store.retain(|key, _| !matches!(key, Key::Answer(_)));
        node.store
    };
    let drawn = &cluster.file["drawn"];
    let hasty_index = cluster.place(&drawn["holder_ids"][0]);
    let hasty = {
        let mut node = Node::resume(cluster.config(hasty_index), cluster.enrolled(hasty_index).store, 5);
        node.receive(text(&drawn["header_topic"]), &bytes(&drawn["short_list"]), at(START + 6));
        node.measure(SLOT, 230, at(END));
        node.store
    };
    for case in each(&vectors("committee_broken")["cases"]) {
        let judge = |index, records: &Records, now| judge(&cluster, index, records, case, at(now));
        let found = match text(&case["judge"]) {
            "recovery" => judge(0, &holder, END + 61),
            "recovery after the next slot" => judge(0, &holder, END + 601),
            "recovery without the record of an answer" => judge(0, &forgetful, END + 62),
            "recovery by a member" => judge(UNWILLING, &member, END + 61),
            "recovery with a short list" => judge(hasty_index, &hasty, END + 61),
            "list" => judge(0, &holder_enrolled, START + 6),
            "short list" => judge(ELLIPTIC, &elliptic, START + 6),
            // The gateway's business.
            _ => continue,
        };
        compare(tally, case, found);
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

/// Why a meter, as these records left it, refuses a message; `None` if it does not.
fn judge(cluster: &Cluster, index: usize, records: &Records, case: &Value, now: Timestamp) -> Option<String> {
    let mut node = Node::resume(cluster.config(index), records.clone(), 5);
    for before in case["before"].as_array().into_iter().flatten() {
        node.receive(text(&before["topic"]), &bytes(&before["bytes"]), now);
        if !node.refusals.is_empty() {
            return Some("what comes before is refused".to_owned());
        }
    }
    // What is due by then is sent before, so that what follows is an answer.
    node.handle(Input::Tick, now);
    let kept = kept(&node);
    node.receive(text(&case["topic"]), &bytes(&case["bytes"]), now);
    let refusal = node.refusals.pop()?;
    if self::kept(&node) != kept {
        return Some("something but evidence is written".to_owned());
    }
    Some(reason(&refusal))
}

/// What a refused message must not change.
fn kept(node: &Node) -> Records {
    let mut store = node.store.clone();
    store.retain(|key, _| !matches!(key, Key::Evidence(_) | Key::Account));
    store
}

/// An error as vectors name it: what exactly does not decode is not part of it.
fn reason(error: &dyn Coded) -> String {
    let path = error.code_path();
    match path.split_once("malformed/") {
        Some((outer, _)) => format!("{outer}malformed"),
        None => path,
    }
}

fn compare(tally: &mut Tally, case: &Value, found: Option<String>) {
    let expected = case["refusal"].as_str();
    let name = format!("{}: {found:?}, recorded is {expected:?}", text(&case["name"]));
    tally.check(&name, &found.as_deref(), &expected);
}
