//! Members that spoil slots: counted for everybody, named to the operator alone.

use dream_gateway::board::offenders::{OffenderJson, PATH};
use dream_protocol::topic::MeterChannel;
use dream_testkit::lab::aggregates::assert_exact;
use dream_testkit::lab::fleet::{Fate, Outgoing};

use crate::world::gateway::Gateway;
use crate::world::log::Log;
use crate::world::{World, eventually};

const METERS: usize = 12;

/// A member that sends readings and never reveals.
fn never_reveals(outgoing: &Outgoing<'_>) -> Fate {
    if outgoing.meter == 2 && outgoing.channel == MeterChannel::Reveal { Fate::Lost } else { Fate::Sent }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_never_reveals_is_counted_for_everybody_and_named_to_the_operator_alone() {
    let log = Log::capture();
    let world = World::new();
    let mut gateway = Gateway::ready(&world, World::settings().cluster("north", METERS)).await;
    let fleet = world.faulty_fleet("north", METERS, never_reveals);
    eventually("the member is in quarantine", async || {
        gateway.metric("dream_cluster_quarantined", "north").await == Some(1.0)
    })
    .await;
    let slots = gateway.decode_more("north", 2).await;
    slots.values().filter(|slot| slot.load_watts.is_some()).for_each(|slot| assert_exact(slot, &fleet));

    let silent = [("cluster", "north"), ("offence", "silent")];
    assert_eq!(gateway.metrics().await.get("dream_cluster_offenders", &silent), Some(1.0));
    let cluster: serde_json::Value = serde_json::from_str(gateway.get("/api/v1/clusters/north").await.text()).unwrap();
    assert_eq!(cluster["offenders"]["silent"], 1, "{cluster}");
    assert!(log.without_details().contains("sends readings and does not reveal"), "{}", log.without_details());

    for path in ["/", "/clusters/north", "/metrics", "/api/v1/clusters", "/api/v1/clusters/north", PATH] {
        assert!(!gateway.get(path).await.text().contains("north-02"), "{path} names the member");
    }
    assert!(!log.without_details().contains("north-02"), "a log names the member only in its details");
    let before = named(&gateway).await;
    let [offender] = before.as_slice() else { panic!("one offender, not {before:?}") };
    assert_eq!((offender.meter.as_str(), offender.offence.as_str()), ("north-02", "silent"));
    assert_eq!((offender.first_offence_days_ago, offender.last_offence_days_ago), (0, 0));
    assert!(offender.left_out_of_sums && offender.spoiled_slots >= 2, "{offender:?}");
    assert_eq!(gateway.get(PATH).await.status, 401);

    gateway.crash().await;
    let after = named(&gateway).await;
    assert_eq!(after.len(), 1, "it is known after a restart: {after:?}");
}

async fn named(gateway: &Gateway) -> Vec<OffenderJson> {
    serde_json::from_str(gateway.get_as_operator(PATH).await.text()).unwrap()
}
