//! A new owner's path: the commands of the README's "Join with your own meter", with `dream-meter` itself, from an invitation to a
//! sum with every home in it. The neighbours join in the same way, from one table.
//!
//! `DREAM_JOIN_HOMES` says how many homes there are; `make long` asks for 25.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use dream_testkit::lab::command::succeed;
use dream_testkit::lab::process::Process;
use dream_testkit::lab::{free_port, patiently, until};

use super::homes::Home;
use super::number;
use super::observer::{Heard, Observer};
use super::site::{CLUSTER, GATEWAY, Site};

const METER: &str = "m-0000";

/// No other profile accepts slots that a test can wait for.
const PROFILE: &str = "--profile trial";

fn terms(homes: usize) -> String {
    format!(
        "min_members = {homes}\nslot_seconds = 8\nreading_seconds = 3\nreveal_seconds = 1\nattempts = 2\nmax_missing = 0.2\n\
         list_slots = 24\ndrop_after_slots = 0\n"
    )
}

/// Returns the fences of the section, each as its commands.
fn fences() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let (_, rest) = text.split_once("\n## Join with your own meter\n").unwrap();
    let section = rest.split("\n## ").next().unwrap().replace("\\\n", "");
    let commands = |fence: &str| fence.lines().map(|line| line.split('#').next().unwrap().trim().to_owned()).collect();
    section.split("```\n").skip(1).step_by(2).map(commands).collect()
}

/// An owner with the program on the path and nothing else.
struct Owner {
    folder: PathBuf,
    path: String,
}

impl Owner {
    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-euc", line]).current_dir(&self.folder).env("PATH", &self.path);
        command.env("XDG_CACHE_HOME", self.folder.with_extension("cache"));
        command
    }

    /// Returns a command that goes on running.
    fn runs(&self, line: &str) -> Process {
        let arguments = vec!["-euc".to_owned(), format!("cd {}; exec {line}", self.folder.display())];
        Process::new("owner", "/bin/sh".into(), arguments, &self.folder)
            .with_environment(vec![("PATH", self.path.clone())])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_commands_lead_from_an_invitation_to_a_sum_of_all_homes() {
    let homes = usize::try_from(number("DREAM_JOIN_HOMES", 4)).unwrap();
    let mut site = Site::new(&terms(homes));
    site.gateway.start();
    site.gateway.wait_until_ready().await;
    let mut observer = Observer::start(&site).await;
    let program = PathBuf::from(env!("CARGO_BIN_EXE_dream-meter"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let owner = Owner { folder: site.file("owner"), path };
    std::fs::create_dir(&owner.folder).unwrap();
    let (_desk, lines) = invitations(&site, &owner, homes).await;

    let [commands] = &fences()[..] else { panic!("one fence") };
    let [build, join, run, status] = &commands[..] else { panic!("{commands:?}") };
    assert!(build.starts_with("cargo build --release -p dream-meter"), "{build}");
    // What differs here: the line, a meter behind a bridge instead of a cable, nobody who answers, a clock that nobody vouches for,
    // and as many homes as a test has.
    let here = |line: &str, old: &str, new: &str| {
        assert!(line.contains(old), "{line}");
        line.replace(old, new)
    };
    let join = here(join, "dream1,m-0007,riverside,community,gw-1,...", &lines[METER]);
    let meter = Home::start(26, &owner.folder, None);
    let bridge = meter.source.lines().find_map(|line| line.strip_prefix("tcp = ")).unwrap();
    let flags = format!("--tcp {bridge} --yes --trust-clock {PROFILE}");
    let join = here(&join, "--serial /dev/ttyUSB0", &flags);
    // A join that is interrupted after the certificate came goes on; nothing listens at this port.
    let interrupted = owner.shell(&here(&join, bridge, "127.0.0.1:1")).output().unwrap();
    assert!(!interrupted.status.success());
    let key = std::fs::read(owner.folder.join("home/meter.key")).unwrap();
    let said = succeed(&mut owner.shell(&join));
    assert!(said.contains("m-0000 is enrolled.") && said.contains(&format!("{} W", meter.watts)), "{said}");
    assert!(said.contains(": valid configuration") && said.contains("dream-meter run --config"), "{said}");
    assert_eq!(std::fs::read(owner.folder.join("home/meter.key")).unwrap(), key);
    set_port(&owner.folder.join("home/meter.toml"));
    let mut running = owner.runs(run);
    running.start();
    let _others: Vec<_> = lines
        .iter()
        .filter(|(name, _)| *name != METER)
        .enumerate()
        .map(|(number, (name, line))| neighbour(&site, &owner, number + 2, name, line))
        .collect();
    let decoded = patiently("a sum of all homes", async {
        loop {
            if let Heard::Closed(closed) = observer.next().await
                && closed.outcome == "decoded"
                && closed.responders == homes
            {
                return closed;
            }
        }
    });
    let decoded = decoded.await;
    assert_eq!((decoded.members, decoded.responders), (homes, homes));
    let mut told = String::new();
    until("the owner is told", || {
        told = succeed(&mut owner.shell(status));
        told.starts_with("Taking part: yes\n")
            && !told.contains("Readings sent today: 0")
            && told.contains(&format!("fine: it names your meter and everybody in the list, and has {homes} meters"))
    })
    .await;
    assert!(told.contains("it renews itself from"), "{told}");
    let report = succeed(&mut owner.shell("dream-meter report --config home/meter.toml"));
    assert!(report.contains("Taking part: yes") && report.contains("m-0000"), "{report}");
    nothing_secret_is_in(&report, &key, meter.watts);
    assert!(running.stop().success(), "{}", running.printed());
    assert!(!running.printed().contains(&format!("{} W", meter.watts)), "no reading is in a log");
}

/// A report holds no reading, and no line of a key, in PEM, digits or base64.
fn nothing_secret_is_in(report: &str, key: &[u8], watts: i64) {
    let watts = watts.to_string();
    let numbers = report.split(|char: char| !char.is_ascii_digit());
    assert!(numbers.into_iter().all(|number| number != watts), "a reading: {report}");
    let pem = String::from_utf8(key.to_vec()).unwrap();
    for line in pem.lines().filter(|line| !line.starts_with("-----")) {
        assert!(!report.contains(line), "a key: {report}");
    }
    assert!(!report.contains("PRIVATE KEY"), "{report}");
}

/// Invites every home by one table, as docs/authority.md has it, and serves. Returns the lines by meter.
async fn invitations(site: &Site, owner: &Owner, homes: usize) -> (Process, BTreeMap<String, String>) {
    let desk = site.file("office/authority");
    let table: String = (0..homes).map(|number| format!("m-{number:04},{CLUSTER},{homes}\n")).collect();
    std::fs::write(site.file("meters.csv"), format!("meter,cluster,size\n{table}")).unwrap();
    let port = free_port();
    let [_, operators] = site.authorities();
    let import = format!(
        "dream-meter authority import {} --directory {} --out lines.csv --url https://127.0.0.1:{port} --broker {} --gateway {GATEWAY} \
         --gateway-authority {}",
        site.file("meters.csv").display(),
        desk.display(),
        site.broker.url(),
        operators.display()
    );
    succeed(&mut owner.shell(&import));
    let serve = format!("dream-meter authority serve --directory {} --listen 127.0.0.1:{port}", desk.display());
    let mut server = owner.runs(&serve);
    server.start();
    until("the authority serves", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
    let text = std::fs::read_to_string(owner.folder.join("lines.csv")).unwrap();
    let row = |line: &str| {
        let (meter, invitation) = line.split_once(',').unwrap();
        (meter.to_owned(), invitation.trim_matches('"').to_owned())
    };
    (server, text.lines().skip(1).map(row).collect())
}

/// Joins with another home, and starts its meter.
fn neighbour(site: &Site, owner: &Owner, number: usize, name: &str, line: &str) -> (Home, Process) {
    let folder = site.file(&format!("home-{name}"));
    std::fs::create_dir(&folder).unwrap();
    // Those whose source has no sections of its own, which a flag cannot give.
    let home = Home::start(5 * (number / 3) + number % 3, &folder, None);
    std::fs::write(folder.join("source"), &home.source).unwrap();
    let directory = folder.join("dream").display().to_string();
    let source = folder.join("source").display().to_string();
    let join = format!(
        "dream-meter join {line} --directory {directory} --yes --trust-clock {PROFILE} --source \"$(cat {source})\""
    );
    succeed(&mut owner.shell(&join));
    set_port(&folder.join("dream/meter.toml"));
    let arguments = vec!["run".to_owned(), "--config".to_owned(), format!("{directory}/meter.toml")];
    let program = PathBuf::from(env!("CARGO_BIN_EXE_dream-meter"));
    let mut meter = Process::new("meter", program, arguments, &folder);
    meter.start();
    (home, meter)
}

/// Gives a meter's page a port of its own.
fn set_port(config: &Path) {
    let text = std::fs::read_to_string(config).unwrap();
    std::fs::write(config, format!("{text}\n[http]\nlisten = \"127.0.0.1:{}\"\n", free_port())).unwrap();
}
