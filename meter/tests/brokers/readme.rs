//! A new owner's path: the commands of the README's "Join with your own meter", with `dream-meter` itself, from a signed
//! certificate to the first decoded slot.

use std::path::{Path, PathBuf};
use std::process::Command;

use dream_testkit::lab::command::succeed;
use dream_testkit::lab::process::Process;
use dream_testkit::lab::{free_port, patiently, until, wall};

use super::homes::Home;
use super::observer::{Heard, Observer};
use super::site::{CLUSTER, GATEWAY, Site};

const METER: &str = "m-0007";

/// Four homes, in slots that a test can wait for: that is why the meters have the profile `trial` here.
const TERMS: &str = "\
min_members = 4
slot_seconds = 6
reading_seconds = 2
reveal_seconds = 1
attempts = 2
";

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
async fn five_commands_lead_from_a_certificate_to_a_decoded_slot() {
    let mut site = Site::new(TERMS);
    site.gateway.start();
    site.gateway.wait_until_ready().await;
    let mut observer = Observer::start(&site).await;
    let _others: Vec<_> = (1..=3).map(|number| neighbour(&mut site, number)).collect();

    let program = PathBuf::from(env!("CARGO_BIN_EXE_dream-meter"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let owner = Owner { folder: site.file("owner"), path };
    std::fs::create_dir(&owner.folder).unwrap();
    let [before, commands] = &fences()[..] else { panic!("two fences: before and after the certificate") };
    let [build, request] = &before[..] else { panic!("{before:?}") };
    assert!(build.starts_with("cargo build --release -p dream-meter"), "{build}");
    succeed(&mut owner.shell(request));
    // The authority's part, as docs/authority.md has it.
    let (desk, csr) = (site.file("office/authority"), owner.folder.join("home/meter.csr"));
    let sign = format!(
        "dream-meter authority sign {METER} {} --directory {} --cluster {CLUSTER} --size 4 --out {METER}.pem",
        csr.display(),
        desk.display()
    );
    succeed(&mut owner.shell(&sign));
    for (path, name) in site.authorities().iter().zip(["meter-authority.pem", "gateway-authority.pem"]) {
        std::fs::copy(path, owner.folder.join(name)).unwrap();
    }

    assert!(commands.len() <= 5, "{commands:?}");
    let [enrol, probe, check, run, status] = &commands[..] else { panic!("{commands:?}") };
    // What differs here: the broker's address, a meter behind a bridge instead of a cable, slots shorter than a home accepts, and
    // a clock that nobody vouches for.
    let here = |line: &str, old: &str, new: &str| {
        assert!(line.contains(old), "{line}");
        line.replace(old, new)
    };
    let enrol = here(enrol, "mqtts://broker.example", &site.broker.url());
    let enrol = here(&enrol, "--profile community", "--profile trial --trust-clock");
    assert!(enrol.contains(&format!("--gateway {GATEWAY}")) && enrol.contains(&format!("{METER}.pem")), "{enrol}");
    let said = succeed(&mut owner.shell(&enrol));
    assert!(said.contains("nobody else can change it"), "{said}");
    let meter = Home::start(1, &owner.folder, None);
    let bridge = meter.source.lines().find_map(|line| line.strip_prefix("tcp = ")).unwrap();
    let said = succeed(&mut owner.shell(&here(probe, "--serial /dev/ttyUSB0", &format!("--tcp {bridge}"))));
    assert!(said.contains("Recognised") && said.contains(&format!("{} W", meter.watts)), "{said}");
    let config = owner.folder.join("home/meter.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}\n[http]\nlisten = \"127.0.0.1:{}\"\n", free_port())).unwrap();
    let said = succeed(&mut owner.shell(check));
    assert!(said.contains(": valid configuration"), "{said}");
    let mut running = owner.runs(run);
    running.start();
    let decoded = patiently("the first decoded slot", async {
        loop {
            if let Heard::Closed(closed) = observer.next().await
                && closed.outcome == "decoded"
            {
                return closed;
            }
        }
    });
    let decoded = decoded.await;
    assert_eq!((decoded.members, decoded.responders), (4, 4));
    until("the owner is told", || {
        let said = succeed(&mut owner.shell(status));
        said.starts_with("Taking part: yes\n") && !said.contains("Readings sent today: 0")
    })
    .await;
    assert!(running.stop().success(), "{}", running.printed());
    assert!(!running.printed().contains(&format!("{} W", meter.watts)), "no reading is in a log");
}

/// Starts the meter of another home, with `dream-meter` itself.
fn neighbour(site: &mut Site, number: usize) -> (Home, Process) {
    let folder = site.file(&format!("home-{number}"));
    std::fs::create_dir(&folder).unwrap();
    let home = Home::start(number, &folder, None);
    let config = site.home(&format!("m-000{number}"), 4, wall(), &format!("[source]\n{}", home.source));
    let text = std::fs::read_to_string(&config).unwrap().replace("\"community\"", "\"trial\"");
    std::fs::write(&config, text).unwrap();
    let arguments = vec!["run".to_owned(), "--config".to_owned(), config.display().to_string()];
    let program = PathBuf::from(env!("CARGO_BIN_EXE_dream-meter"));
    let mut meter = Process::new("meter", program, arguments, &folder);
    meter.start();
    (home, meter)
}
