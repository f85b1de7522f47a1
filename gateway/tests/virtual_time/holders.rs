//! Committees: holders that vanish are counted for everybody, and named to the operator alone.

use dream_gateway::board::holders::{HolderJson, PATH};
use dream_protocol::simulation::Simulation;
use dream_protocol::topic::MeterChannel;
use dream_protocol::wire::ShortList;
use dream_testkit::lab::aggregates::assert_exact;
use dream_testkit::lab::fleet::{Fate, Outgoing};

use crate::world::gateway::Gateway;
use crate::world::log::Log;
use crate::world::{World, eventually};

/// All of them are holders, and nine must answer.
const METERS: usize = 12;

/// Members whose answers never arrive.
fn without_answers(vanished: &'static [usize]) -> impl FnMut(&Outgoing<'_>) -> Fate {
    move |outgoing| {
        let lost = vanished.contains(&outgoing.meter) && outgoing.channel == MeterChannel::Reveal;
        if lost { Fate::Lost } else { Fate::Sent }
    }
}

async fn in_committee(world: &World) -> Gateway {
    Gateway::ready(world, World::settings().cluster_with("north", METERS, "scheme = \"committee\"\n")).await
}

#[tokio::test(start_paused = true)]
async fn holders_that_vanish_cost_no_slot_and_are_named_to_the_operator_alone() {
    let log = Log::capture();
    let world = World::new();
    let gateway = in_committee(&world).await;
    let fleet = world.faulty_fleet("north", METERS, without_answers(&[2, 5, 7]));
    let slots = gateway.decode_more("north", 3).await;
    for slot in slots.values() {
        assert_exact(slot, &fleet);
        assert_eq!((slot.attempts, slot.missing), (1, 0), "{slot:?}");
    }
    eventually("the holders are counted", async || {
        gateway.metric("dream_cluster_holders_answered", "north").await == Some(9.0)
    })
    .await;
    for (gauge, value) in [("holders", 12.0), ("holders_needed", 9.0), ("holders_spare", 0.0), ("holders_wrong", 0.0)] {
        assert_eq!(gateway.metric(&format!("dream_cluster_{gauge}"), "north").await, Some(value), "{gauge}");
    }
    let samples = gateway.metrics().await;
    let counted = |answer| samples.get("dream_holder_answers_total", &[("cluster", "north"), ("answer", answer)]);
    let [right, wrong, none] = ["right", "wrong", "none"].map(|answer| counted(answer).unwrap());
    assert!(
        none >= 3.0 && 3.0 * none >= right - 0.5 && right >= 3.0 * none - 0.5 && wrong < 0.5,
        "{right} {wrong} {none}"
    );

    let cluster: serde_json::Value = serde_json::from_str(gateway.get("/api/v1/clusters/north").await.text()).unwrap();
    assert_eq!((&cluster["list"]["scheme"], &cluster["holders"]["vanished"]), (&"committee".into(), &3.into()));
    let page = gateway.get("/clusters/north").await;
    assert!(page.text().contains("Holders run low: 9 of 12 answered and 9 are needed"), "{}", page.text());
    assert!(log.without_details().contains("barely enough holders answered"));

    for path in ["/", "/clusters/north", "/metrics", "/api/v1/clusters", "/api/v1/clusters/north", PATH] {
        assert!(!gateway.get(path).await.text().contains("north-0"), "{path} names a member");
    }
    assert!(!log.without_details().contains("north-0"), "a log names members only in its details");
    let named = named(&gateway).await;
    let meters: Vec<&str> = named.iter().map(|holder| holder.meter.as_str()).collect();
    assert_eq!(meters, ["north-02", "north-05", "north-07"]);
    let always = |holder: &HolderJson| holder.vanished_slots == holder.of_slots && holder.wrong_slots == 0;
    assert!(named.iter().all(always), "{named:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_answers_wrongly_costs_no_slot_and_is_named_to_the_operator_alone() {
    let world = World::new();
    let gateway = in_committee(&world).await;
    let fleet = world.fleet("north", METERS);
    gateway.decode_more("north", 1).await;
    let wrong_answers = Simulation { right_answers: false, ..Simulation::NOISELESS };
    fleet.restart_as(&world.identities, 5, wrong_answers);
    // Of twelve answers one can be corrected.
    eventually("a wrong answer is counted", async || {
        gateway.metric("dream_cluster_holders_wrong", "north").await == Some(1.0)
    })
    .await;
    let slots = gateway.decode_more("north", 3).await;
    slots.values().filter(|slot| slot.load_watts.is_some()).for_each(|slot| assert_exact(slot, &fleet));
    assert!(slots.values().all(|slot| slot.outcome == "decoded"), "{slots:?}");
    for path in ["/", "/clusters/north", "/metrics", "/api/v1/clusters/north"] {
        assert!(!gateway.get(path).await.text().contains("north-05"), "{path} names the holder");
    }
    let named = named(&gateway).await;
    let [holder] = named.as_slice() else { panic!("one holder, not {named:?}") };
    assert!(holder.meter == "north-05" && holder.wrong_slots >= 3 && holder.vanished_slots <= 1, "{holder:?}");
    // A wrong answer and a wrong dealing look alike: nobody is blamed, and nobody is left out for one.
    assert_eq!(gateway.metric("dream_cluster_quarantined", "north").await, Some(0.0));
    // Two more, and the sum cannot be opened.
    fleet.restart_as(&world.identities, 7, wrong_answers);
    fleet.restart_as(&world.identities, 9, wrong_answers);
    eventually("a slot fails", async || {
        gateway.slots("north").await.values().any(|slot| slot.outcome == "unmask_failed")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_holder_too_many_costs_the_slot_and_the_next_is_exact_again() {
    let world = World::new();
    let gateway = in_committee(&world).await;
    let fleet = world.faulty_fleet("north", METERS, without_answers(&[2, 5, 7, 8]));
    eventually("a slot fails", async || {
        gateway.slots("north").await.values().any(|slot| slot.outcome == "reveal_missing")
    })
    .await;
    let cluster = gateway.get("/clusters/north").await;
    assert!(cluster.text().contains("Too few holders answered in the last slot"), "{}", cluster.text());
    fleet.set_faults(|_| Fate::Sent);
    let slots = gateway.decode_more("north", 2).await;
    slots.values().filter(|slot| slot.load_watts.is_some()).for_each(|slot| assert_exact(slot, &fleet));
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_answers_loses_none_and_the_short_list_stays_on_the_broker() {
    let world = World::new();
    let mut gateway = in_committee(&world).await;
    let fleet = world.fleet("north", METERS);
    gateway.decode_more("north", 1).await;
    world.broker.wait_for(4, "/reveal/").await;
    gateway.crash().await;
    let slots = gateway.decode_more("north", 2).await;
    slots.values().for_each(|slot| assert_exact(slot, &fleet));
    assert_eq!((fleet.contradictions(), fleet.equivocations()), (0, Vec::new()));
    let (short, full) = ["membership", "membership/full"]
        .map(|channel| world.broker.retained(&format!("dream/v1/north/{channel}")).unwrap())
        .into();
    let header = dream_protocol::wire::FullList::decode(&full).unwrap().header;
    assert_eq!(ShortList::decode(&short).unwrap(), ShortList { header, holders: Vec::new(), digests: &[] });
    // Somebody erases the short list: it is published again.
    world.broker.publish("dream/v1/north/membership", b"", true);
    eventually("the short list is back", async || {
        world.broker.retained("dream/v1/north/membership").is_some_and(|back| back == short)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_configuration_changes_the_scheme_with_the_next_list() {
    let world = World::new();
    let settings = |scheme: &str| World::settings().cluster_with("north", METERS, &format!("scheme = \"{scheme}\"\n"));
    let mut gateway = Gateway::ready(&world, settings("pairwise")).await;
    let fleet = world.fleet("north", METERS);
    gateway.decode_more("north", 1).await;
    assert_eq!(gateway.metric("dream_cluster_holders", "north").await, None);
    for (scheme, answered) in [("committee", Some(12.0)), ("pairwise", None)] {
        gateway.settings = settings(scheme);
        gateway.reload().await;
        eventually(scheme, async || gateway.metric("dream_cluster_holders_answered", "north").await == answered).await;
        gateway.decode_more("north", 1).await;
    }
    for slot in gateway.slots("north").await.values().filter(|slot| slot.load_watts.is_some()) {
        assert_exact(slot, &fleet);
    }
}

async fn named(gateway: &Gateway) -> Vec<HolderJson> {
    serde_json::from_str(gateway.get_as_operator(PATH).await.text()).unwrap()
}
