//! The attacks in virtual time: messages travel in memory, and no test waits for a slot.

use std::fmt;
use std::sync::{Arc, Mutex};

use clap::ValueEnum as _;
use dream_protocol::simulation::Simulation;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::link::{Event, Link, Publish};
use super::{Attack, Lie, Participants, Report, play};

/// Carries what anyone publishes to all who have subscribed to it.
#[derive(Debug, Clone, Default)]
struct Exchange {
    subscribers: Arc<Mutex<Vec<Subscriber>>>,
}

#[derive(Debug)]
struct Subscriber {
    filters: Vec<String>,
    events: UnboundedSender<Event>,
}

impl Link for Exchange {
    fn connect(&self, _: &str, filters: &[String]) -> (Box<dyn Publish>, UnboundedReceiver<Event>) {
        let (events, receiver) = unbounded_channel();
        events.send(Event::Subscribed).unwrap();
        self.subscribers.lock().unwrap().push(Subscriber { filters: filters.to_vec(), events });
        (Box::new(self.clone()), receiver)
    }
}

impl Publish for Exchange {
    fn publish(&self, topic: &str, payload: &[u8]) {
        for Subscriber { filters, events } in &*self.subscribers.lock().unwrap() {
            if filters.iter().any(|filter| matches(filter, topic)) {
                // A party whose run is over hears nothing any more.
                events.send(Event::Message { topic: topic.to_owned(), payload: payload.to_vec() }).ok();
            }
        }
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an exchange in memory")
    }
}

/// Whether a filter, which may end with `+`, includes a topic.
fn matches(filter: &str, topic: &str) -> bool {
    match filter.strip_suffix('+') {
        Some(before) => topic.strip_prefix(before).is_some_and(|level| !level.contains('/')),
        None => topic == filter,
    }
}

/// Tells these lies to so many meters.
async fn tell(meters: usize, simulation: Simulation, attacks: &[Attack]) -> Report {
    let exchange: Arc<dyn Link> = Arc::new(Exchange::default());
    let report = play(Participants::linked(meters, &exchange), simulation, attacks, |_| {}).await.unwrap();
    assert_eq!(report.outcomes.len(), attacks.len());
    assert!(report.controls.iter().all(|control| control.worked()), "{report}");
    report
}

/// Returns the lies that meters did not refuse, and how many meters complied.
fn succeeded(report: &Report) -> Vec<(Lie, usize)> {
    let outcomes = report.outcomes.iter().filter(|outcome| !outcome.is_refused());
    outcomes.map(|outcome| (outcome.lie, outcome.complied)).collect()
}

#[tokio::test(start_paused = true)]
async fn meters_that_answer_twice_are_found_out() {
    let report = tell(51, Simulation { one_answer: false, ..Simulation::default() }, Attack::value_variants()).await;
    assert_eq!(
        succeeded(&report),
        [(Lie::ToMembers(Attack::SecondRequest), 50)],
        "all but the one that it names\n{report}"
    );
    assert_eq!(report.complaint(), "not refused by all meters: second-request");
    assert!(!report.is_good());
}

#[tokio::test(start_paused = true)]
async fn a_meter_that_does_not_count_who_is_missing_is_found_out() {
    let report = tell(51, Simulation { missing_bound: false, ..Simulation::default() }, Attack::value_variants()).await;
    assert_eq!(succeeded(&report), [(Lie::ToMembers(Attack::OversizedRequest), 1)], "the victim\n{report}");
    assert_eq!(report.complaint(), "not refused by all meters: oversized-request");
    assert!(!report.is_good());
}

#[tokio::test(start_paused = true)]
async fn a_request_may_name_a_tenth_of_sixty_meters_and_each_of_them_refuses() {
    let report = tell(60, Simulation::default(), &[Attack::NamedMissing]).await;
    let table = report.to_string();
    assert!(table.contains("\nnamed-missing       refused    6 of 6      A request"), "{table}");
    assert!(report.is_good(), "{report}");
}
