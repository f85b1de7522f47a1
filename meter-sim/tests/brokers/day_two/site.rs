//! What the page's commands are run on: a directory of `meter-sim provision`, and the services that it speaks of.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dream_fleet::directory::Directory;
use dream_protocol::ids::ClusterId;
use dream_protocol::membership::MembershipList;
use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::command::{command, succeed};
use dream_testkit::lab::gateway::Gateway;
use dream_testkit::lab::process::Process;
use dream_testkit::lab::{PATIENCE, free_port, wall};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use tempfile::TempDir;

use super::ids;
use super::page::{Block, Page};
use crate::gateway::program;
use crate::meter_sim;

const SLOT_SECONDS: u64 = 4;

/// Asks the test to do what systemd would do.
const SYSTEMCTL: &str = "#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/$SERVICES && echo \"$*\" >&3 && read -r answer <&3 && [ \"$answer\" = done ]
";

pub(super) struct Site {
    page: Page,
    services: Services,
    /// Where commands are run.
    directory: PathBuf,
    http: u16,
    environment: Vec<(&'static str, String)>,
    /// Goes after the services that use it: fields are dropped in this order.
    folder: TempDir,
}

/// What `systemctl` speaks of.
struct Services {
    gateway: Gateway,
    meters: Process,
    broker: Broker,
    /// The broker before this one: meters may still be there.
    _before: Option<Broker>,
}

impl Site {
    /// Two clusters of eight meters, and everything running.
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("dream");
        let mut provision = meter_sim(folder.path());
        provision.args([
            "provision",
            "--out",
            "dream",
            "--meters",
            "8",
            "--cluster",
            "riverside",
            "--cluster",
            "old-town",
        ]);
        succeed(provision.args(["--slot-seconds", &SLOT_SECONDS.to_string()]));
        let broker = Broker::mosquitto(&directory, "gw-1", "");
        let http = free_port();
        let gateway = Gateway::new(&program(), &directory, http);
        let settings = std::fs::read_to_string(gateway.file("gateway.toml")).unwrap();
        let settings = settings.replace("mqtts://localhost:8883", &broker.url());
        let settings = settings.replace("127.0.0.1:9464", &format!("127.0.0.1:{http}"));
        let settings = settings.replace("min_members = 8", "min_interval_seconds = 1\nmin_members = 3");
        gateway.configure(&settings.replace("settle_seconds = 4", "settle_seconds = 1"));
        install(folder.path());
        let meters = meters(&directory, folder.path());
        let services = Services { gateway, meters, broker, _before: None };
        let mut site = Self { page: Page::read(), services, directory, http, environment: Vec::new(), folder };
        site.run("systemctl start dream-gateway\nsystemctl start dream-meters\n");
        site
    }

    /// Returns a file of the directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns a certificate of the directory, in DER.
    pub(super) fn certificate(&self, name: &str) -> Vec<u8> {
        CertificateDer::from_pem_file(self.file(&format!("{name}.pem"))).unwrap().to_vec()
    }

    pub(super) fn blocks(&self, title: &str) -> Vec<Block> {
        self.page.blocks(title)
    }

    /// Runs all commands of a procedure.
    pub(super) fn follow(&mut self, title: &str) {
        let commands: String = self.blocks(title).into_iter().map(|block| block.commands).collect();
        self.run(&commands);
    }

    /// Runs commands in the directory; each must succeed.
    pub(super) fn run(&mut self, commands: &str) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut shell = command("/bin/sh", &self.directory);
        shell.args(["-euc", &format!("{}{commands}", self.page.preamble)]);
        shell.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.folder.path().join("bin").display()));
        shell.env("SERVICES", port.to_string()).envs(self.environment.iter().map(|(name, value)| (name, value)));
        let services = &mut self.services;
        std::thread::scope(|scope| {
            let serving = scope.spawn(move || services.serve(&listener));
            succeed(&mut shell);
            TcpStream::connect(("127.0.0.1", port)).unwrap().write_all(b"end\n").unwrap();
            serving.join().unwrap();
        });
    }

    /// From now on commands are run on another host, to which these files were copied. It has a gateway of its own.
    pub(super) fn go_to_a_new_host(&mut self, copied: &[&str]) {
        let host = self.folder.path().join("new-host");
        std::fs::create_dir(&host).unwrap();
        for name in copied {
            std::fs::copy(self.file(name), host.join(name)).unwrap();
        }
        self.services.gateway = Gateway::new(&program(), &host, self.http);
        self.directory = host;
    }

    /// Commands are run where the meters are, again. The gateway moves there, with what it has.
    pub(super) fn return_to_the_meters_host(&mut self) {
        assert!(self.services.gateway.stop().success());
        let home = self.folder.path().join("dream");
        std::fs::copy(self.file("gateway.redb"), home.join("gateway.redb")).unwrap();
        self.services.gateway = Gateway::new(&program(), &home, self.http);
        self.services.start_gateway();
        self.directory = home;
    }

    /// Starts a broker that knows nothing yet, and tells its address to the commands.
    pub(super) fn start_a_new_broker(&mut self) {
        let broker = Broker::mosquitto(&self.directory, "gw-1", "");
        self.environment = vec![("NEW_BROKER", broker.url())];
        let before = std::mem::replace(&mut self.services.broker, broker);
        self.services._before = Some(before);
    }

    /// Returns how many enrolments the running gateway has accepted.
    pub(super) fn accepted_enrolments(&self) -> f64 {
        self.services.gateway.messages("enrol", "accepted")
    }

    /// Waits until the gateway has accepted this many more.
    pub(super) fn wait_for_enrolments(&self, before: f64, more: usize) {
        let begun = Instant::now();
        while self.accepted_enrolments() < before + more as f64 {
            assert!(begun.elapsed() < PATIENCE, "{} of {more} enrolled", self.accepted_enrolments() - before);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until a slot that began after this call is decoded with exactly these meters, all of which answered, under a
    /// list that fulfils a condition. Returns the list.
    pub(super) fn decodes(
        &self,
        cluster: &str,
        meters: impl IntoIterator<Item = usize>,
        mut wanted: impl FnMut(&MembershipList) -> bool,
    ) -> Arc<MembershipList> {
        let (expected, begun) = (ids(meters), Instant::now());
        let now = wall().as_secs() / SLOT_SECONDS;
        let mut last = String::new();
        while begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(100));
            let Some(list) = self.list(cluster) else { continue };
            let members = list.members().iter().map(|member| member.id().as_str().to_owned()).collect();
            let decoded = self.services.gateway.get(&format!("/api/v1/clusters/{cluster}")).json();
            let slot = &decoded["last_decoded"];
            let covers = slot["epoch"] == list.epoch() && slot["slot"].as_u64().is_some_and(|slot| slot > now);
            if covers && expected == members && slot["responders"] == expected.len() && wanted(&list) {
                return list;
            }
            last = format!("members {members:?} in epoch {}, last decoded slot {slot}", list.epoch());
        }
        panic!("{cluster}: no slot of {expected:?} was decoded; {last}");
    }

    /// How many slots the gateway knows that were decoded.
    pub(super) fn decoded_slots(&self, cluster: &str) -> usize {
        let slots = self.services.gateway.get(&format!("/api/v1/clusters/{cluster}/slots")).json();
        slots["slots"].as_array().unwrap().iter().filter(|slot| slot["outcome"] == "decoded").count()
    }

    /// Checks every sum that the fleet could compare with what its meters measured.
    pub(super) fn all_sums_were_right(mut self) {
        self.run("systemctl stop dream-meters\n");
        let printed = self.services.meters.printed();
        let rows = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let sums: Vec<_> = rows.map(|row| (row["load_watts"].as_i64(), row["expected"]["truth"].as_i64())).collect();
        let compared: Vec<_> = sums.iter().filter_map(|(load, truth)| Some(((*load)?, (*truth)?))).collect();
        assert!(!compared.is_empty() && compared.iter().all(|(load, truth)| load == truth), "{compared:?}");
    }

    fn list(&self, cluster: &str) -> Option<Arc<MembershipList>> {
        let answer = self.services.gateway.try_get(&format!("/api/v1/clusters/{cluster}/membership"))?;
        let directory = Directory::open(&self.folder.path().join("dream")).unwrap();
        MembershipList::verify(&answer.body, &ClusterId::new(cluster).unwrap(), directory.authorities()).ok()
    }
}

impl Services {
    /// Does what it is asked to, until that is to end.
    fn serve(&mut self, listener: &TcpListener) {
        loop {
            let (stream, _) = listener.accept().unwrap();
            let mut asked = String::new();
            BufReader::new(&stream).read_line(&mut asked).unwrap();
            match asked.trim().split(' ').collect::<Vec<_>>()[..] {
                ["end"] => return,
                [verb, service] | [verb, "--now", service] => self.act(verb, service),
                _ => panic!("systemctl {asked}"),
            }
            (&stream).write_all(b"done\n").unwrap();
        }
    }

    fn act(&mut self, verb: &str, service: &str) {
        match (verb, service) {
            ("start" | "enable", "dream-gateway") => self.start_gateway(),
            ("stop" | "disable", "dream-gateway") => assert!(self.gateway.stop().success()),
            ("reload", "dream-gateway") => self.gateway.hang_up(),
            ("restart", "dream-gateway") => {
                assert!(self.gateway.stop().success());
                self.start_gateway();
            }
            ("start", "dream-meters") => self.meters.start(),
            ("stop", "dream-meters") => drop(self.meters.stop()),
            ("restart", "dream-meters") => {
                self.meters.stop();
                self.meters.start();
            }
            ("restart", "mosquitto") => {
                self.broker.stop();
                self.broker.restart();
            }
            _ => panic!("systemctl {verb} {service}"),
        }
    }

    /// Returns when the gateway has subscribed, as the service's start does.
    fn start_gateway(&mut self) {
        self.gateway.start();
        tokio::runtime::Runtime::new().unwrap().block_on(self.gateway.wait_until_ready());
    }
}

/// The fleet, on the broker of `gateway.toml`. Without noise, so that sums can be compared to the watt.
fn meters(directory: &Path, folder: &Path) -> Process {
    let script = "cd \"$1\" && url=$(sed -n 's/^url = \"\\(.*\\)\".*/\\1/p' gateway.toml) && \
                  exec \"$2\" run --dir . --broker \"$url\" --trial-policy --no-noise --json";
    let arguments = ["-euc", script, "sh", directory.to_str().unwrap(), env!("CARGO_BIN_EXE_meter-sim")];
    Process::new("meters", "/bin/sh".into(), arguments.map(str::to_owned).to_vec(), folder)
}

/// Puts the commands of the page on the path.
fn install(folder: &Path) {
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let link = |from: &Path, name: &str| std::os::unix::fs::symlink(from, bin.join(name)).unwrap();
    link(&program(), "dream-gateway");
    link(Path::new(env!("CARGO_BIN_EXE_meter-sim")), "meter-sim");
    std::fs::write(bin.join("systemctl"), SYSTEMCTL).unwrap();
    assert!(Command::new("chmod").arg("755").arg(bin.join("systemctl")).status().unwrap().success());
}
