//! What the pages say of a gateway that runs: why meters are silent, who is denied, and how the gateway itself is doing.

use crate::world::gateway::Gateway;
use crate::world::{World, eventually};

const METERS: usize = 6;

async fn says(gateway: &Gateway, path: &str, told: &str) -> bool {
    gateway.get(path).await.text().contains(told)
}

#[tokio::test(start_paused = true)]
async fn meters_that_refuse_a_list_are_counted_until_they_are_heard_again() {
    let world = World::new();
    let settings = |lines| World::settings().cluster_with("north", METERS, lines);
    let mut gateway = Gateway::ready(&world, settings("epsilon = 2")).await;
    let _fleet = world.fleet("north", METERS);
    eventually("slots fail", async || !gateway.slots("north").await.is_empty()).await;
    for path in ["/", "/clusters/north", "/clusters/north/lists"] {
        assert!(says(&gateway, path, "6 of 6 meters refuse the list of ").await, "{path}");
        assert!(says(&gateway, path, "epsilon 2 is above their maximum 1").await, "{path}");
    }
    assert_eq!(gateway.metric("dream_cluster_epsilon_day", "north").await, Some(0.0), "nobody has spent anything");

    gateway.settings = settings("epsilon = 1");
    gateway.reload().await;
    gateway.decode_more("north", 1).await;
    assert!(!says(&gateway, "/", "refuse the list").await, "they were heard");
    assert!(gateway.metric("dream_cluster_epsilon_day", "north").await >= Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn a_denied_meter_is_told_while_it_is_still_in_the_list_in_force() {
    let world = World::new();
    let mut gateway = Gateway::ready(&world, World::settings().cluster("north", METERS)).await;
    let fleet = world.fleet("north", METERS);
    gateway.decode_more("north", 1).await;
    let denied = fleet.list(1).await.members()[2].id().to_string();
    let file = gateway.store_path().with_file_name("denied");
    std::fs::write(&file, &denied).unwrap();
    let lines = format!("deny_file = \"{}\"", file.display());
    gateway.settings = gateway.settings.clone().cluster_with("north", METERS - 1, &lines);
    gateway.reload().await;
    let told = "1 denied meter is still in the list of ";
    eventually("it is told", async || says(&gateway, "/clusters/north", told).await).await;
    eventually("the next list is in force", async || !says(&gateway, "/clusters/north", "denied meter").await).await;
    for path in ["/", "/clusters/north", "/clusters/north/lists", "/clusters/north/slots"] {
        assert!(!says(&gateway, path, &denied).await, "{path} names a meter");
    }
}

#[tokio::test(start_paused = true)]
async fn the_gateways_own_page_follows_its_connection() {
    let world = World::new();
    let gateway = Gateway::ready(&world, World::settings().cluster("north", METERS)).await;
    assert!(says(&gateway, "/gateway", "all subscriptions are confirmed").await);
    assert!(
        says(&gateway, "/gateway", "closed slots are kept for 1 day, hours for 1,830 days, and days forever.").await
    );
    world.broker.stop();
    eventually("the loss is told", async || says(&gateway, "/gateway", "No connection to the broker since").await)
        .await;
    assert!(says(&gateway, "/", "No connection to the broker since").await);
    world.broker.start();
    eventually("it is back", async || says(&gateway, "/gateway", "all subscriptions are confirmed").await).await;
    assert!(!says(&gateway, "/", "No connection").await);
}
