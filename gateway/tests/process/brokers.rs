//! The daemon with brokers that do not let everyone in.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use dream_testkit::lab::access::Access;
use dream_testkit::lab::aggregates::{Slots, assert_exact_or};
use dream_testkit::lab::fleet::Fleet;
use dream_testkit::lab::identities::{GATEWAY, Identities};
use dream_testkit::lab::mosquitto::{Door, Mosquitto};
use dream_testkit::lab::settings::Settings;
use dream_testkit::lab::{free_port, until};
use dream_testkit::pki::Pki;
use tempfile::TempDir;

use crate::gateway::Gateway;

const METERS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_comes_in_with_its_certificate() {
    let identities = Identities::default();
    let broker = Mosquitto::with(&Door::Tls(&identities), "");
    a_slot_is_decoded(&identities, broker.access()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_comes_in_with_a_password() {
    let identities = Identities::default();
    let broker = Mosquitto::with(&Door::Password { username: "gateway", password: "open sesame" }, "");
    a_slot_is_decoded(&identities, broker.access()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_not_let_in_says_so_and_is_not_ready() {
    let identities = Identities::default();
    let broker = Mosquitto::with(&Door::Password { username: "gateway", password: "open sesame" }, "");
    let mut access = broker.access().clone();
    access.login = Some(("gateway".to_owned(), "open barley".to_owned()));
    let mut gateway = Gateway::start(&identities, Settings::new(&access).cluster("north", METERS));
    gateway.wait_until_ok("/livez").await;
    until("the refusal is logged", || gateway.printed().contains("WARN")).await;
    assert_eq!(gateway.get("/readyz").status, 503);
    assert_eq!(gateway.metrics().get("dream_broker_connected", &[]), Some(0.0));
    assert!(gateway.is_running(), "a broker's configuration can be mended while the gateway waits");
    assert!(!gateway.printed().contains("open barley"), "a password is never logged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_certificates_count_after_a_hangup_for_lists_and_for_the_next_connection() {
    let identities = Identities::default();
    let mut broker = Mosquitto::with(&Door::Tls(&identities), "");
    let mut gateway = Gateway::start(&identities, Settings::new(broker.access()).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let fleet = Fleet::start(&identities, broker.access(), "north", METERS);
    let old = *fleet.list(1).await.gateway_identity();
    until("the cluster is decoded", || gateway.metric("dream_cluster_load_watts", "north").is_some()).await;

    gateway.renew(&identities);
    gateway.hang_up();
    let second = fleet.list(2).await;
    assert_ne!(*second.gateway_identity(), old, "the new key signs");
    broker.restart();
    let exact = |slots: &Slots| assert_exact_or(slots, &fleet, &["interrupted", "too_many_missing"]);
    until("a slot of the new list is decoded over the new connection", || {
        let slots = gateway.try_get("/readyz").filter(|ready| ready.status == 200).map(|_| gateway.slots("north"));
        slots.is_some_and(|mut slots| {
            slots.retain(|_, aggregate| aggregate.epoch >= second.epoch());
            exact(&slots) > 0
        })
    })
    .await;
    exact(&gateway.slots("north"));
    assert_eq!((fleet.contradictions(), fleet.equivocations()), (0, Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_that_are_taken_away_from_a_connected_gateway_are_what_its_page_says_to_check() {
    let identities = Identities::default();
    let directory = TempDir::new().unwrap();
    let rights = directory.path().join("rights.acl");
    std::fs::write(&rights, "topic readwrite #\n").unwrap();
    let broker = Mosquitto::with(&Door::Open, &format!("acl_file {}\n", rights.display()));
    let mut gateway = Gateway::start(&identities, Settings::new(broker.access()).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let _fleet = Fleet::start(&identities, broker.access(), "north", METERS);
    let page = || gateway.get("/clusters/north").text().to_owned();
    let advice = "No meter is heard: check that the broker\u{2019}s permissions";
    until("the cluster is decoded", || gateway.metric("dream_cluster_load_watts", "north").is_some()).await;
    assert!(!page().contains(advice));

    // Nobody may read any more. The broker tells no client.
    std::fs::write(&rights, "topic write #\n").unwrap();
    broker.hang_up();
    until("the page says what to check", || page().contains(advice)).await;

    std::fs::write(&rights, "topic readwrite #\n").unwrap();
    broker.hang_up();
    until("the page no longer says it", || !page().contains(advice)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_without_a_broker_stops_when_it_is_asked_to() {
    let identities = Identities::default();
    let nobody = Access::open(free_port());
    let mut gateway = Gateway::start(&identities, Settings::new(&nobody).cluster("north", METERS));
    gateway.wait_until_ok("/livez").await;
    let waits = || gateway.metrics().sum("dream_broker_troubles_total", &[("cause", "refused")]) >= 4.0;
    until("it waits long between its attempts", waits).await;
    let status = gateway.stop();
    assert!(status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_whose_subscriptions_are_refused_says_so_is_not_ready_and_stops_when_asked_to() {
    let mut gateway = Gateway::start(&Identities::default(), Settings::new(&refusing()).cluster("north", METERS));
    gateway.wait_until_ok("/livez").await;
    until("the refusal is logged", || gateway.printed().contains("the broker refuses the subscription")).await;
    assert_eq!(gateway.get("/readyz").status, 503);
    let status = gateway.stop();
    assert!(status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_subscription_is_not_asked_for_again_once_its_cluster_is_removed() {
    let mut gateway = Gateway::start(&Identities::default(), Settings::new(&refusing()).cluster("north", METERS));
    let refusals = |gateway: &Gateway, cluster: &str| {
        let refused = |line: &&str| line.contains("refuses the subscription") && line.contains(cluster);
        gateway.printed().lines().filter(refused).count()
    };
    until("north is refused", || refusals(&gateway, "north") == 1).await;
    gateway.settings.clusters.clear();
    gateway.settings = gateway.settings.clone().cluster("south", METERS);
    gateway.write_settings();
    gateway.hang_up();
    // It waits longer each time: by then, north would have had its turn.
    until("south is refused for the third time", || refusals(&gateway, "south") == 3).await;
    assert_eq!(refusals(&gateway, "north"), 1, "{}", gateway.printed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_asks_for_a_certificate_is_told_from_one_that_does_not_trust_it() {
    let identities = Identities::default();
    let broker = Mosquitto::with(&Door::Tls(&identities), "");
    let settings = || Settings::new(broker.access()).cluster("north", METERS);
    // What is left of a connection that is refused may get lost: then it is a guess.
    let told = async |hints: [&str; 2], change: &dyn Fn(&Gateway)| {
        let mut gateway = Gateway::prepare(&identities, settings());
        change(&gateway);
        gateway.start();
        until(hints[0], || hints.iter().any(|hint| gateway.printed().contains(hint))).await;
        assert_eq!(gateway.try_get("/readyz").map(|answer| answer.status), Some(503));
    };
    let without = |gateway: &Gateway| {
        let toml = std::fs::read_to_string(gateway.file("gateway.toml")).unwrap();
        let of_client = |line: &&str| !line.starts_with("client_");
        gateway.configure(&toml.lines().filter(of_client).collect::<Vec<_>>().join("\n"));
    };
    told(
        ["the broker asks for a client's certificate; set", "the broker may ask for a client's certificate; set"],
        &without,
    )
    .await;
    let in_the_clear = |gateway: &Gateway| {
        without(gateway);
        let toml = std::fs::read_to_string(gateway.file("gateway.toml")).unwrap();
        gateway.configure(&toml.replace("mqtts://", "mqtt://").replace("ca = \"gateway-authority.pem\"", ""));
    };
    told(["the port seems to expect TLS; use `mqtts://` in `broker.url`"; 2], &in_the_clear).await;
    let foreign = |gateway: &Gateway| {
        let other = Identities { pki: Pki::named("another authority") };
        std::fs::create_dir(gateway.file("other")).unwrap();
        other.write_gateway(&gateway.file("other"), GATEWAY);
        let toml = std::fs::read_to_string(gateway.file("gateway.toml")).unwrap();
        let toml = toml.replace("client_certificate = \"", "client_certificate = \"other/");
        gateway.configure(&toml.replace("client_key = \"", "client_key = \"other/"));
    };
    let guess = "does the broker trust the authority of `broker.client_certificate`?";
    told(["the broker does not trust who issued `broker.client_certificate`", guess], &foreign).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_trials_on_one_broker_are_told_of_each_other() {
    let (first, second) = (Identities::default(), Identities { pki: Pki::named("another trial's authority") });
    let broker = Mosquitto::start();
    let settings = || Settings::new(broker.access()).cluster("north", METERS);
    let mut gateway = Gateway::start(&first, settings());
    gateway.wait_until_ready().await;
    let fleet = Fleet::start(&first, broker.access(), "north", METERS);
    fleet.list(1).await;
    // The same names, with other certificates.
    let other = Gateway::start(&second, settings());
    until("one of them asks for the other", || {
        [&gateway, &other].iter().any(|gateway| gateway.printed().contains("is another gateway connected as `gw-0`"))
    })
    .await;
    until("the list is known not to be its own", || {
        other.printed().contains("has a membership list of this cluster that is not ours")
    })
    .await;
}

/// As much of a broker as refuses every subscription.
fn refusing() -> Access {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(refuse(stream))));
    Access::open(port)
}

fn refuse(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let [kind] = read(&mut stream)?;
        let mut length = 0;
        for shift in [0, 7, 14, 21] {
            let [digit] = read(&mut stream)?;
            length |= usize::from(digit & 0x7f) << shift;
            if digit < 0x80 {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let answer = match kind >> 4 {
            CONNECT => vec![0x20, 2, 0, 0],
            SUBSCRIBE => {
                // `dream/v1/...` is where each filter starts.
                let filters = body.windows(9).filter(|window| window == b"dream/v1/").count();
                let codes = vec![0x80; filters];
                [&[0x90, u8::try_from(2 + filters).unwrap(), body[0], body[1]], codes.as_slice()].concat()
            }
            PUBLISH => {
                let topic = usize::from(u16::from_be_bytes([body[0], body[1]]));
                vec![0x40, 2, body[2 + topic], body[3 + topic]]
            }
            DISCONNECT => return Ok(()),
            _ => vec![0xd0, 0], // to a ping
        };
        stream.write_all(&answer)?;
    }
}

const CONNECT: u8 = 1;
const PUBLISH: u8 = 3;
const SUBSCRIBE: u8 = 8;
const DISCONNECT: u8 = 14;

fn read(stream: &mut TcpStream) -> std::io::Result<[u8; 1]> {
    let mut bytes = [0];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

async fn a_slot_is_decoded(identities: &Identities, access: &Access) {
    let mut gateway = Gateway::start(identities, Settings::new(access).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let fleet = Fleet::start(identities, access, "north", METERS);
    until("the cluster is decoded", || gateway.metric("dream_cluster_load_watts", "north").is_some()).await;
    assert_exact_or(&gateway.slots("north"), &fleet, &[]);
}
