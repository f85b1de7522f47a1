//! A directory of `meter-sim provision` with a cluster, and a spy: a meter of another cluster that the broker lets read
//! everything.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use dream_testkit::lab::brokers::Broker;
use dream_testkit::lab::command::succeed;
use tempfile::TempDir;

use super::meter_sim;
use super::spy::Spy;
use super::trial::options;

pub(super) const CLUSTER: &str = "riverside";

pub(super) struct Provisioned {
    folder: TempDir,
}

impl Provisioned {
    /// Both clusters have so many meters; that of the spy is never played.
    pub(super) fn new(meters: usize, slot_seconds: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (meters, slot_seconds) = (meters.to_string(), slot_seconds.to_string());
        let mut provision = meter_sim(folder.path());
        provision.args(["provision", "--out", "trial", "--meters", &meters, "--slot-seconds", &slot_seconds]);
        succeed(provision.args(["--cluster", CLUSTER, "--cluster", "zz-spies"]));
        Self { folder }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn trial(&self) -> PathBuf {
        self.folder.path().join("trial")
    }

    pub(super) fn broker(&self) -> Broker {
        Broker::mosquitto(&self.trial(), "gw-1", &format!("\nuser {}\ntopic read dream/v1/#\n", self.spy_name()))
    }

    pub(super) fn spy(&self, broker: &Broker) -> Spy {
        let file = |extension: &str| self.trial().join(format!("meters/zz-spies/{}.{extension}", self.spy_name()));
        let (certificate, key, authority) = (file("pem"), file("key"), self.trial().join("gateway-authority.pem"));
        Spy::start(options(broker.port(), Some(&authority), Some((&certificate, &key)), "spy"))
    }

    /// A fleet in a process of its own. Every life has other homes and secrets: only what is recorded can be the same.
    pub(super) fn fleet(&self, url: &str, life: usize, more: &[&str]) -> Child {
        let mut command = meter_sim(self.folder());
        command.args(["run", "--dir", "trial", "--broker", url, "--cluster", CLUSTER]);
        command.args(["--trial-policy", "--seed", &life.to_string()]).args(more);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn spy_name(&self) -> String {
        let spies = std::fs::read_dir(self.trial().join("meters/zz-spies")).unwrap();
        let names = spies.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| name.strip_suffix(".pem").map(ToOwned::to_owned)).min().unwrap()
    }
}
