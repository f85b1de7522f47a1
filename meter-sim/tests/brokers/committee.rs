//! A committee on links that lose messages: one request in twenty does not reach its holder, and every slot is decoded; and the
//! same meters in the pairwise scheme beside it. `DREAM_COMMITTEE_METERS` and `DREAM_COMMITTEE_SLOTS` say how many of each at
//! least; `make long` runs fifty slots of a thousand meters.

use dream_meter_sim::verdict::Row;
use dream_testkit::lab::brokers::{Broker, BrokerKind};

use super::cluster::{Cluster, faults, is_proven};
use super::number;
use super::trial::Trial;

/// So many that holders are drawn, and members that are none get short lists.
const METERS: u64 = 210;

const SLOTS: u64 = 3;

/// The share of requests that do not reach whom they ask.
const VANISH: f64 = 0.05;

#[expect(clippy::print_stderr, reason = "how the schemes compare")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_slot_is_decoded_although_holders_are_cut_off() {
    let slots = usize::try_from(number("DREAM_COMMITTEE_SLOTS", SLOTS)).unwrap();
    let committee = slots_of("committee", slots).await;
    let decoded = committee.iter().filter(|row| row.aggregate.load_watts.is_some()).count();
    let first = committee.iter().filter(|row| row.aggregate.attempts == 1).count();
    assert_eq!((decoded, first), (slots, slots), "all at the first attempt: {committee:?}");

    let pairwise = slots_of("pairwise", slots).await;
    let decoded = pairwise.iter().filter(|row| row.aggregate.load_watts.is_some()).count();
    let meters = number("DREAM_COMMITTEE_METERS", METERS);
    eprintln!(
        "{meters} meters, {VANISH} of requests lost: committee {slots} of {slots} slots, pairwise {decoded} of {slots}"
    );
}

/// Runs meters in a scheme until so many slots were closed, from the first that enough of them reported. Each sum must be the right one.
async fn slots_of(scheme: &str, slots: usize) -> Vec<Row> {
    let meters = number("DREAM_COMMITTEE_METERS", METERS);
    let trial = Trial::new(usize::try_from(meters).unwrap());
    let broker = Broker::start(BrokerKind::Mosquitto, &trial.clients());
    // Long enough for a busy machine to let every meter report, and for the two attempts of the pairwise scheme.
    let seconds = 10 + meters / 100;
    let window = seconds / 4;
    let terms = format!(
        "scheme = \"{scheme}\"\nslot_seconds = {seconds}\nreading_seconds = {window}\nreveal_seconds = {window}\n\
         drop_after_slots = 0\n"
    );
    let mut cluster = Cluster::start(&trial, &broker, &terms, faults(0.0, VANISH)).await;
    // A busy machine may miss the first slots of a list.
    let missed = |row: &Row| ["too_many_missing", "interrupted"].contains(&row.aggregate.outcome.as_str());
    cluster.run_until(|rows| rows.iter().skip_while(|row| missed(row)).count() >= slots).await;
    let rows: Vec<Row> = cluster.rows.iter().skip_while(|row| missed(row)).cloned().collect();
    for row in rows.iter().filter(|row| row.aggregate.load_watts.is_some()) {
        assert!(is_proven(row), "{scheme}: what the meters hid is known: {row:?}");
        assert_eq!(row.aggregate.load_watts, row.expected.map(|expected| expected.noisy), "{scheme}");
    }
    cluster.end().await;
    rows
}
