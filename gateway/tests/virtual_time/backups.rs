//! Back-ups of a running gateway, and gateways that go back to one: they ask nothing that contradicts what they asked since.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dream_gateway::history::{History as _, Step};
use dream_gateway::store::{FileStore, Store as _};
use dream_protocol::cluster::{Key, Record};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use dream_testkit::lab::aggregates::{assert_exact_or, decoded};
use tempfile::TempDir;

use crate::crash::{METERS, Scene};
use crate::world::gateway::Gateway;
use crate::world::{AT_REST_MILLIS, World};

fn north() -> ClusterId {
    ClusterId::new("north").unwrap()
}

/// Lets a gateway go back to a copy of its store, as `dream-gateway restore` does, and start at once.
async fn go_back(gateway: &mut Gateway, copy: &Path) {
    gateway.kill().await;
    std::fs::remove_file(gateway.store_path()).unwrap();
    FileStore::open_unchanged(copy).unwrap().copy_to(&gateway.store_path(), &[]).unwrap();
    gateway.restart();
    gateway.wait_until_ready().await;
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_goes_back_in_the_middle_of_a_slot_never_contradicts_itself() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::set().await;
    // The copy is made when all readings but one are in, so that a request made of it names one member more; when some are; or after the
    // request. The gateway goes back to it after the request, or after the sum.
    let moments =
        [(10, "/reading/", 1, "/recovery"), (3, "/reading/", 1, "/aggregate"), (1, "/recovery", 4, "/reveal/")];
    for (number, (count, topic, until, later)) in moments.into_iter().enumerate() {
        let copy = folder.path().join(format!("{number}.redb"));
        scene.world.sleep_into_slot(AT_REST_MILLIS).await;
        scene.world.broker.wait_for(count, topic).await;
        scene.gateway.back_up(&copy);
        let of_copy = FileStore::open_unchanged(&copy).unwrap().summary().unwrap();
        assert_eq!((of_copy.keys, of_copy.open_slots), (0, 0), "nothing that could be used again");
        scene.world.broker.wait_for(until, later).await;
        go_back(&mut scene.gateway, &copy).await;
        let lists = scene.fleet.lists().len();
        let slots = scene.gateway.decode_more("north", 2).await;
        assert_eq!((scene.fleet.contradictions(), scene.fleet.equivocations()), (0, Vec::new()));
        assert_eq!(scene.fleet.lists().len(), lists.max(number + 2), "it goes on with a new list");
        assert_exact_or(&slots, &scene.fleet, &["interrupted", "too_many_missing"]);
    }
    scene.gateway.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_back_up_has_everything_that_was_released_and_slots_go_on_while_it_is_made() {
    let folder = TempDir::new().unwrap();
    let mut scene = Scene::set().await;
    scene.gateway.decode_more("north", 4).await;
    let copy = folder.path().join("copy.redb");
    let before = scene.gateway.slots("north").await;
    // A reader of the copy that takes its time: rows wait in the pipe, and slots go on.
    let sending = scene.gateway.begin_back_up();
    let after = scene.gateway.decode_more("north", 2).await;
    sending.finish(&copy);
    let stored = FileStore::open_unchanged(&copy).unwrap();
    let ever = || Timestamp::from_millis(0)..Timestamp::from_millis(u64::MAX);
    let slots: Vec<u64> =
        stored.slots(&north(), ever(), usize::MAX).unwrap().iter().map(|closed| closed.outcome.slot.0).collect();
    let kept: Vec<u64> = before.keys().copied().collect();
    assert_eq!(slots, kept, "of one moment, that of its beginning");
    assert!(decoded(&after) >= decoded(&before) + 2);
    assert!(stored.rollups(&north(), Step::Hour, ever(), 9).unwrap().len() == 1);
    let records = stored.records(&north()).unwrap();
    assert_eq!(records.iter().filter(|record| matches!(record, Record::Enrolment { .. })).count(), METERS);
    assert!(!records.iter().any(|record| matches!(record.key(), Key::Slot(..))), "no open slot");
    scene.gateway.kill().await;
}

/// What 0.1.0 left in its store, in words that every later version finds in it.
fn described(path: &Path) -> String {
    let store = FileStore::open(path, 4).unwrap();
    let summary = store.summary().unwrap();
    let ever = || Timestamp::from_millis(0)..Timestamp::from_millis(u64::MAX);
    let mut lines = vec![format!("{} lists with keys, {} open slots", summary.keys, summary.open_slots)];
    for (cluster, of) in &summary.clusters {
        lines.push(format!(
            "{cluster}: {} meters, {} slots, {} hours, {} days",
            of.enrolments, of.slots, of.hours, of.days
        ));
        for closed in store.slots(cluster, ever(), usize::MAX).unwrap() {
            let watts = |load: Option<i64>| load.map_or_else(|| "-".to_owned(), |watts| watts.to_string());
            let (sum, filtered) = (closed.sum().map(|load| load.watts), closed.filtered.map(|load| load.watts));
            let end = closed.outcome.end.as_secs();
            lines.push(format!("{end} {} {} {}", closed.label(), watts(sum), watts(filtered)));
        }
        for hour in store.rollups(cluster, Step::Hour, ever(), usize::MAX).unwrap() {
            lines.push(format!("hour from {}: {} slots", hour.start.as_secs(), hour.slots));
        }
    }
    lines.join("\n") + "\n"
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/0.1.0").join(name)
}

/// With `DREAM_BLESS=1` it writes the store anew, as this version does: after a few slots, in the middle of another. After a release it never
/// changes again.
#[tokio::test(start_paused = true)]
async fn a_store_of_0_1_0_opens_with_all_that_was_in_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("gateway.redb");
    if std::env::var_os("DREAM_BLESS").is_some() {
        let mut scene = Scene::set().await;
        scene.gateway.decode_more("north", 4).await;
        scene.world.sleep_into_slot(AT_REST_MILLIS).await;
        scene.world.broker.wait_for(5, "/reading/").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        scene.gateway.kill().await;
        std::fs::create_dir_all(fixture("")).unwrap();
        std::fs::copy(scene.gateway.store_path(), fixture("gateway.redb")).unwrap();
        redb::Database::open(fixture("gateway.redb")).unwrap().compact().unwrap();
        std::fs::copy(fixture("gateway.redb"), &path).unwrap();
        std::fs::write(fixture("gateway.txt"), described(&path)).unwrap();
    }
    std::fs::copy(fixture("gateway.redb"), &path).unwrap();
    assert_eq!(described(&path), std::fs::read_to_string(fixture("gateway.txt")).unwrap());

    // And a gateway with another identity runs on it.
    let world = World::new();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let mut gateway = Gateway::stopped(&world, World::settings().cluster("north", METERS));
    std::fs::copy(fixture("gateway.redb"), gateway.store_path()).unwrap();
    gateway.restart();
    gateway.wait_until_ready().await;
    let known = gateway.slots("north").await.len();
    assert!(known >= 5, "{known} slots");
    gateway.kill().await;
}
