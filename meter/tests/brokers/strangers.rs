//! A home and a broker that do not know each other's authority: the owner is told which setting is checked against what.

use std::path::{Path, PathBuf};

use dream_meter::authority::{Authority, Grant, Request};
use dream_protocol::ids::{ClusterId, GatewayId, MeterId};
use dream_testkit::lab::command::{command, seen};
use dream_testkit::lab::process::Process;
use dream_testkit::lab::{until, wall};

use super::site::{CLUSTER, GATEWAY, Site};

const METER: &str = "m-0001";

/// Makes a home that reads an empty file, with one line of its configuration replaced.
fn home(site: &mut Site, old: &str, new: &str) -> PathBuf {
    let samples = site.file("samples");
    std::fs::write(&samples, "").unwrap();
    let source = format!("[source]\nkind = \"lines\"\npath = \"{}\"\ninterval_seconds = 10\n", samples.display());
    let config = site.home(METER, 4, wall(), &source);
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.contains(old), "{text}");
    std::fs::write(&config, text.replace(old, new)).unwrap();
    config
}

/// Runs the meter until its status says all of this.
async fn told(config: &Path, words: &[&str]) {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_dream-meter"));
    let argument = config.display().to_string();
    let arguments = vec!["run".to_owned(), "--config".to_owned(), argument.clone()];
    let mut meter = Process::new("meter", program.clone(), arguments, config.parent().unwrap());
    meter.start();
    until("the owner is told", || {
        let said = seen(command(&program, config.parent().unwrap()).args(["status", "--config", &argument]));
        words.iter().all(|words| said.contains(words))
    })
    .await;
}

#[tokio::test]
async fn the_authority_of_a_strange_broker_is_asked_for() {
    let mut site = Site::new("");
    let [ours, operators] = site.authorities().map(|path| format!("\nca = \"{}\"", path.display()));
    let config = home(&mut site, &operators, &ours);
    told(&config, &["UnknownIssuer", "was issued by no authority in `community.ca`"]).await;
}

#[tokio::test]
async fn a_meter_that_the_broker_does_not_know_is_told_whom_to_ask() {
    let mut site = Site::new("");
    let desk = site.file("elsewhere/authority");
    std::fs::create_dir_all(&desk).unwrap();
    let gateway = GatewayId::new(GATEWAY).unwrap();
    let mut other = Authority::init(&desk, "Hillside", &[gateway], None, 3650, wall()).unwrap();
    let [ours, _] = site.authorities().map(|path| format!("meter_authorities = [\"{}\"]", path.display()));
    let theirs = format!("meter_authorities = [\"{}\"]", desk.join("authority.pem").display());
    let config = home(&mut site, &ours, &theirs);
    let folder = config.parent().unwrap();
    let grant = Grant { cluster: ClusterId::new(CLUSTER).unwrap(), size: 4, days: 365 };
    let request = Request::read(&folder.join("meter.csr")).unwrap();
    let issued = other.sign(&MeterId::new(METER).unwrap(), None, &request, &grant, false, wall()).unwrap();
    std::fs::copy(&issued.path, folder.join("meter.pem")).unwrap();
    told(&config, &["the broker does not trust who issued `identity.certificate`"]).await;
}

#[tokio::test]
async fn a_meter_whose_source_ends_ends_and_says_so() {
    let mut site = Site::new("");
    // Standard input, which is empty.
    let config = site.home(METER, 4, wall(), "[source]\nkind = \"lines\"\ninterval_seconds = 10\n");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_dream-meter"));
    let arguments = vec!["run".to_owned(), "--config".to_owned(), config.display().to_string()];
    let mut meter = Process::new("meter", program, arguments, config.parent().unwrap());
    meter.start();
    until("the meter ends", || !meter.is_running()).await;
    assert!(meter.printed().contains("what reads the meter has ended: it returned"), "{}", meter.printed());
}
