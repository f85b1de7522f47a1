//! What SIGHUP and SIGTERM do to a running process.

use dream_testkit::broker;
use dream_testkit::lab::access::Access;
use dream_testkit::lab::aggregates::assert_exact_or;
use dream_testkit::lab::fleet::Fleet;
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::until;

use crate::gateway::Gateway;

const METERS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_read_again_at_a_hangup_and_those_that_cannot_be_used_change_nothing() {
    let (identities, access) = (Identities::default(), Access::open(broker::start().unwrap().port()));
    let mut gateway = Gateway::start(&identities, Settings::new(&access).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let fleet = Fleet::start(&identities, &access, "north", METERS);
    fleet.list(1).await;
    let good = gateway.settings.clone();
    gateway.settings = good.clone().cluster_with("south", METERS, "no_such_key = 1");
    gateway.write_settings();
    gateway.hang_up();
    until("the mistake is named", || gateway.printed().contains("no_such_key")).await;
    assert_eq!(gateway.get("/api/v1/clusters/south").status, 404);

    gateway.settings = good.cluster("south", METERS);
    gateway.write_settings();
    gateway.hang_up();
    until("the settings were read", || gateway.get("/api/v1/clusters/south").status == 200).await;
    assert!(gateway.printed().contains("configuration read again"), "{}", gateway.printed());
    until("the cluster is decoded", || gateway.metric("dream_cluster_load_watts", "north").is_some()).await;
    assert_exact_or(&gateway.slots("north"), &fleet, &[]);
    let status = gateway.stop();
    assert!(status.success(), "{status}");
}
