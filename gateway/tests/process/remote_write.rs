//! Released slots in a real Prometheus, with their own time: also those of while it was away, or the gateway was.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use dream_testkit::lab::fleet::Fleet;
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::mosquitto::Mosquitto;
use dream_testkit::lab::process::{Process, program};
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::{free_port, http, until};
use jiff::Timestamp;
use tempfile::TempDir;

use crate::gateway::Gateway;

const METERS: usize = 6;

/// A Prometheus that scrapes nothing and receives.
struct Receiver {
    process: Process,
    address: SocketAddr,
    /// Goes after the process that uses it: fields are dropped in this order.
    _directory: TempDir,
}

impl Receiver {
    fn start() -> Self {
        let (directory, port) = (TempDir::new().unwrap(), free_port());
        let config = directory.path().join("prometheus.yml");
        std::fs::write(&config, "storage: {tsdb: {out_of_order_time_window: 1d}}\n").unwrap();
        let arguments = [
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", directory.path().join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--web.enable-remote-write-receiver".to_owned(),
        ];
        let mut process =
            Process::new("prometheus", program("prometheus", "prometheus"), arguments.into(), directory.path());
        process.start();
        Self { process, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), _directory: directory }
    }

    /// Returns the samples of a series by their time in milliseconds, with the labels that it has.
    fn samples(&self, series: &str) -> Option<(BTreeMap<i64, f64>, serde_json::Value)> {
        let query: String = format!("{series}[1d]").bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = http::get(self.address, &format!("/api/v1/query?query={query}")).ok()?;
        if answer.status != 200 {
            return None;
        }
        let found = answer.json()["data"]["result"].as_array()?.first()?.clone();
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds")]
        let sample = |pair: &serde_json::Value| {
            let millis = (pair[0].as_f64().unwrap() * 1000.0).round() as i64;
            (millis, pair[1].as_str().unwrap().parse().unwrap())
        };
        Some((found["values"].as_array()?.iter().map(sample).collect(), found["metric"].clone()))
    }
}

/// Returns the loads that a gateway has, by the ends of their slots in milliseconds.
#[expect(clippy::cast_precision_loss, reason = "a few thousand watts")]
fn loads(gateway: &Gateway) -> BTreeMap<i64, f64> {
    let slots = gateway.slots("north");
    let load = |(end, watts): (&String, i64)| (end.parse::<Timestamp>().unwrap().as_millisecond(), watts as f64);
    slots.values().filter_map(|slot| Some((&slot.end, slot.load_watts?))).map(load).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_released_slot_is_in_prometheus_at_its_own_time_whoever_was_away() {
    let mut receiver = Receiver::start();
    let (identities, broker) = (Identities::default(), Mosquitto::start());
    let mut settings = Settings::new(broker.access()).cluster("north", METERS);
    settings.http =
        format!("[remote_write]\nurl = \"http://{}/api/v1/write\"\nlabels = [\"region=hills\"]\n", receiver.address);
    let mut gateway = Gateway::start(&identities, settings);
    gateway.wait_until_ready().await;
    let _fleet = Fleet::start(&identities, broker.access(), "north", METERS);
    gateway.decode_more("north", 2).await;
    let arrived = |receiver: &Receiver, wanted: &BTreeMap<i64, f64>| {
        receiver
            .samples("dream_slot_load_watts")
            .is_some_and(|(found, _)| wanted.iter().all(|(at, watts)| found.get(at) == Some(watts)))
    };
    let first = loads(&gateway);
    until("the first slots are there", || arrived(&receiver, &first)).await;
    let (_, labels) = receiver.samples("dream_slot_load_watts").unwrap();
    assert_eq!((labels["cluster"].as_str(), labels["region"].as_str()), (Some("north"), Some("hills")));

    // The receiver is gone: slots go on.
    receiver.process.kill();
    gateway.decode_more("north", 2).await;
    until("the gateway notices", || gateway.metrics().get("dream_remote_write_failures_total", &[]).unwrap() > 0.0)
        .await;
    assert!(gateway.printed().contains("the receiver does not take samples"), "{}", gateway.printed());
    // The gateway is killed with slots that nobody took, and both come back.
    gateway.kill();
    receiver.process.start();
    gateway.start();
    gateway.wait_until_ready().await;
    gateway.decode_more("north", 1).await;
    let all = loads(&gateway);
    assert!(all.len() >= 5);
    until("everything is there", || arrived(&receiver, &all)).await;
    let (found, _) = receiver.samples("dream_slot_load_watts").unwrap();
    assert_eq!(found.into_iter().filter(|(at, _)| all.contains_key(at)).collect::<BTreeMap<_, _>>(), all);
    let (members, _) = receiver.samples("dream_slot_members").unwrap();
    assert!(members.values().all(|count| *count == f64::from(u8::try_from(METERS).unwrap())));
    let (outcomes, labels) = receiver.samples("dream_slot_outcome{outcome=\"decoded\"}").unwrap();
    assert!(labels["outcome"] == "decoded" && all.keys().all(|at| outcomes.get(at) == Some(&1.0)));
    until("nothing waits", || gateway.metrics().get("dream_remote_write_behind_seconds", &[]) == Some(0.0)).await;
    assert_eq!(gateway.metrics().get("dream_remote_write_samples_total", &[("result", "refused")]), Some(0.0));
}
