//! `dream-gateway backup` and `restore`, beside a running gateway and without one.

use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use dream_testkit::lab::aggregates::{assert_exact_or, decoded};
use dream_testkit::lab::fleet::Fleet;
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::mosquitto::Mosquitto;
use dream_testkit::lab::settings::Settings;

use crate::gateway::Gateway;

const METERS: usize = 6;

/// Runs a command of the gateway in its directory; returns its exit code, and what it said.
fn run(gateway: &Gateway, arguments: &str) -> (i32, String) {
    // What limits a shell limits the command.
    let program = env!("CARGO_BIN_EXE_dream-gateway");
    let script = arguments.replace("dream-gateway", program);
    let done = Command::new("sh").args(["-c", &script]).current_dir(gateway.file("")).output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    (done.status.code().unwrap(), String::from_utf8_lossy(&said).into_owned())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.contains("redb") || name.contains("backup"));
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_gateway_is_backed_up_and_goes_on_from_its_back_up() {
    let (identities, broker) = (Identities::default(), Mosquitto::start());
    let mut gateway = Gateway::start(&identities, Settings::new(broker.access()).cluster("north", METERS));
    gateway.wait_until_ready().await;
    let fleet = Fleet::start(&identities, broker.access(), "north", METERS);
    gateway.decode_more("north", 1).await;

    let (code, said) = run(&gateway, "dream-gateway backup --config gateway.toml --out backup.redb");
    assert_eq!(code, 0, "{said}");
    let kept = decoded(&gateway.slots("north"));
    assert_eq!(std::fs::metadata(gateway.file("backup.redb")).unwrap().permissions().mode() & 0o777, 0o600);
    let socket = std::fs::metadata(gateway.file("gateway.redb.sock")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600, "for whoever may read the store");
    let (code, said) = run(&gateway, "dream-gateway restore --check backup.redb");
    assert!(code == 0 && said.contains("sound, format 3") && said.contains("of the gateway gw-0"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("north ") && line.contains(&format!(" {METERS} "))), "{said}");
    let (code, said) = run(
        &gateway,
        "dream-gateway backup --config gateway.toml --out - > piped.redb && dream-gateway restore --check piped.redb",
    );
    assert!(code == 0 && said.contains("sound"), "{said}");
    let (code, said) = run(&gateway, "dream-gateway backup --config gateway.toml --out backup.redb");
    assert!(code == 2 && said.contains("replaces nothing"), "{said}");

    // A client that reads nothing, and a disk that is full, cost nobody anything.
    let mut stalled = UnixStream::connect(gateway.file("gateway.redb.sock")).unwrap();
    let full = "ulimit -f 8; trap '' XFSZ; dream-gateway backup --config gateway.toml --out full.redb";
    gateway.decode_more("north", 1).await;
    stalled.read_to_end(&mut Vec::new()).unwrap();
    drop(stalled);
    let (code, said) = run(&gateway, full);
    assert!(code == 1 && said.contains("no back-up was made: full.redb"), "{said}");
    assert_eq!(names(&gateway.file("")), ["backup.redb", "gateway.redb", "gateway.redb.sock", "piped.redb"]);

    let (code, said) = run(&gateway, "dream-gateway restore --config gateway.toml --force backup.redb");
    assert!(code == 1 && said.contains("a gateway uses") && said.contains("stop it first"), "{said}");
    gateway.stop();
    assert!(!gateway.file("gateway.redb.sock").exists());
    let (code, said) = run(&gateway, "dream-gateway restore --config gateway.toml backup.redb");
    assert!(code == 2 && said.contains("--force keeps it under another name"), "{said}");
    let (code, said) = run(&gateway, "dream-gateway restore --config gateway.toml --force backup.redb");
    assert!(code == 0 && said.contains("gateway.redb.replaced-"), "{said}");
    gateway.start();
    gateway.wait_until_ready().await;
    assert!(decoded(&gateway.slots("north")) >= kept, "what was in the back-up is there");
    let slots = gateway.decode_more("north", 2).await;
    assert_eq!((fleet.contradictions(), fleet.equivocations()), (0, Vec::new()));
    assert_eq!(fleet.lists().len(), 2, "it went on with a new list");
    assert_exact_or(&slots, &fleet, &["interrupted", "too_many_missing"]);
}

#[test]
fn a_stopped_gateway_is_backed_up_and_a_damaged_or_foreign_back_up_is_refused() {
    let identities = Identities::default();
    let settings = |name: &str| Settings::new(&dream_testkit::lab::access::Access::open(1)).cluster(name, METERS);
    let gateway = Gateway::prepare(&identities, settings("north"));
    let (code, said) = run(&gateway, "dream-gateway backup --config gateway.toml --out backup.redb");
    assert!(code == 1 && said.contains("no store at") && names(&gateway.file("")).is_empty(), "{said}");
    drop(dream_gateway::store::FileStore::open(&gateway.file("gateway.redb"), 4).unwrap());
    let (code, said) = run(&gateway, "dream-gateway backup --config gateway.toml --out backup.redb");
    assert_eq!(code, 0, "{said}");

    std::fs::remove_file(gateway.file("gateway.redb")).unwrap();
    let (code, said) = run(
        &gateway,
        "sed 's/^id = .*/id = \"gw-2\"/' gateway.toml > other.toml; dream-gateway restore --config other.toml backup.redb",
    );
    assert!(code == 2 && said.contains("is of the gateway gw-0, and the configuration is of gw-2-0"), "{said}");
    let (code, said) = run(&gateway, "dream-gateway restore --config gateway.toml backup.redb");
    assert!(code == 0 && gateway.file("gateway.redb").exists(), "{said}");

    // Root restores, and the store stays that of the gateway's user; anybody else has only their own.
    let owner = || std::fs::metadata(gateway.file("gateway.redb")).unwrap().uid();
    std::os::unix::fs::chown(gateway.file("gateway.redb"), Some(12_345), None).ok();
    let before = owner();
    let (code, said) = run(&gateway, "dream-gateway restore --config gateway.toml --force backup.redb");
    assert_eq!((code, owner()), (0, before), "{said}");
    run(&gateway, "rm gateway.redb.replaced-*");

    let mut bytes = std::fs::read(gateway.file("backup.redb")).unwrap();
    let written = bytes.windows(7).rposition(|part| part == b"replica").unwrap();
    bytes[written] ^= 1;
    std::fs::write(gateway.file("damaged.redb"), &bytes).unwrap();
    std::fs::write(gateway.file("short.redb"), &bytes[..bytes.len() / 2]).unwrap();
    for file in ["damaged.redb", "short.redb"] {
        let (code, said) = run(&gateway, &format!("dream-gateway restore --check {file}"));
        assert!(code == 1 && said.contains("is damaged"), "{file}: {said}");
        let (code, _) = run(&gateway, &format!("dream-gateway restore --config gateway.toml --force {file}"));
        assert_eq!(code, 1, "{file}");
    }
    assert!(!names(&gateway.file("")).iter().any(|name| name.contains("replaced")), "nothing was put in its place");
}
