//! Whole slots, played by real meters with real noise: what they send is what is on record, byte for byte.

use alloc::format;

use dream_protocol::membership::MembershipList;
use dream_protocol::meter::Input;
use dream_protocol::time::{Slot, Timestamp};

use crate::Tally;
use crate::json::{Value, bytes, each, number, signed, text, vectors};
use crate::machine::{Cluster, Node, Packet, START};

fn enrolment_of(tally: &mut Tally, cluster: &Cluster, index: usize, node: &Node) {
    let expected = bytes(&cluster.members()[index]["enrolment"]["envelope"]);
    let sent = node.store.values().any(|record| record.windows(expected.len()).any(|part| part == expected));
    tally.check("enrolment", &sent, &true);
}

fn sent(tally: &mut Tally, name: &str, packets: &[Packet], expected: &Value) {
    let found = packets.iter().any(|packet| {
        packet.topic == text(&expected["topic"]) && *packet.payload == *bytes(&expected["envelope"]).as_slice()
    });
    tally.check(name, &(found && packets.len() == 1), &true);
}

/// A member with the list of a cluster, after the first slot's reading.
fn reported(tally: &mut Tally, cluster: &Cluster, list: &Value, slot: &Value, index: usize) -> (Node, Timestamp) {
    let mut node = cluster.enrolled(index);
    enrolment_of(tally, cluster, index, &node);
    let whole = bytes(&list["full_list"]);
    let answer = node.receive(text(&list["topic"]), &whole, Timestamp::from_secs(START + 6));
    tally.check("an accepted list needs no answer", &(answer.is_empty() && node.refusals.is_empty()), &true);
    let end = Timestamp::from_secs((number(&slot["slot"]) + 1) * 600);
    let member = &slot["members"][index];
    let packets = node.measure(Slot(number(&slot["slot"])), signed(&member["measured"]), end);
    if number(&slot["attempt"]) == 0 {
        sent(tally, &format!("reading of {}", text(&member["id"])), &packets, member);
    }
    (node, end)
}

fn list_is_sound(tally: &mut Tally, cluster: &Cluster, list: &Value) {
    let id = dream_protocol::ids::ClusterId::new(text(&cluster.file["cluster"])).expect("an id");
    let found = MembershipList::verify(&bytes(&list["full_list"]), &id, &cluster.authorities()).expect("a sound list");
    tally.check("list_hash", &found.hash().0.as_slice(), &bytes(&list["list_hash"]).as_slice());
    if !list["short_list"].is_null() {
        let short = MembershipList::verify_short(&bytes(&list["short_list"]), &id, &cluster.authorities());
        let short = short.expect("a sound short list");
        let drawn = short.as_ref().map(|short| short.hash().0);
        tally.check("short list", &drawn.is_none_or(|hash| hash == found.hash().0), &true);
        tally.check("shortened", &found.shortened(), &bytes(&list["short_list"]));
    }
}

pub(crate) fn slot(tally: &mut Tally) {
    let (cluster, slot) = (Cluster::pairwise(), vectors("slot"));
    list_is_sound(tally, &cluster, &cluster.file["list"]);
    for index in 0..cluster.members().len() {
        let (mut node, end) = reported(tally, &cluster, &cluster.file["list"], &slot, index);
        let id = &cluster.members()[index]["id"];
        let Some(reveal) = each(&slot["reveals"]).iter().find(|reveal| reveal["id"] == *id) else { continue };
        let request = &slot["request"];
        let answer = node.receive(text(&request["topic"]), &bytes(&request["envelope"]), end.plus_secs(61));
        sent(tally, &format!("reveal of {id}"), &answer, reveal);
    }
}

pub(crate) fn retry(tally: &mut Tally) {
    let (cluster, first, second) = (Cluster::pairwise(), vectors("slot"), vectors("retry"));
    for index in 0..cluster.members().len() {
        let (mut node, end) = reported(tally, &cluster, &cluster.file["list"], &second, index);
        let id = &cluster.members()[index]["id"];
        if each(&first["reveals"]).iter().any(|reveal| reveal["id"] == *id) {
            let request = &first["request"];
            node.receive(text(&request["topic"]), &bytes(&request["envelope"]), end.plus_secs(61));
        }
        let (retry, open) = (&second["retry"], end.plus_secs(91));
        node.receive(text(&retry["topic"]), &bytes(&retry["envelope"]), open);
        let again = node.handle(Input::Tick, open.plus_secs(30));
        sent(tally, &format!("second reading of {id}"), &again, &second["members"][index]);
        let Some(reveal) = each(&second["reveals"]).iter().find(|reveal| reveal["id"] == *id) else { continue };
        let request = &second["request"];
        let answer = node.receive(text(&request["topic"]), &bytes(&request["envelope"]), open.plus_secs(32));
        sent(tally, &format!("second reveal of {id}"), &answer, reveal);
    }
}

pub(crate) fn committee_slot(tally: &mut Tally) {
    let cluster = Cluster::committee();
    for list in ["every", "drawn"] {
        list_is_sound(tally, &cluster, &cluster.file[list]);
    }
    for slot in each(&vectors("committee_slot")["slots"]) {
        let list = &cluster.file[text(&slot["list"])];
        for index in 0..cluster.members().len() {
            let (mut node, end) = reported(tally, &cluster, list, slot, index);
            let id = &cluster.members()[index]["id"];
            // What a liar sends is not what a meter of ours would.
            let is_right = |answer: &&Value| answer["id"] == *id && answer["sum"] == answer["sent"];
            let Some(expected) = each(&slot["answers"]).iter().find(is_right) else { continue };
            let request = &slot["request"];
            let answer = node.receive(text(&request["topic"]), &bytes(&request["envelope"]), end.plus_secs(61));
            sent(tally, &format!("answer of {id}"), &answer, expected);
        }
    }
}
