//! An agent without noise, as a process of its own that can be killed: this test binary, started again for that purpose.
//!
//! That it adds no noise is part of its type, `Meter<Simulated>`: `dream-meter` itself has no switch for it.

use std::path::Path;

use dream_meter::agent;
use dream_meter::config::Config;
use dream_meter::driver::Machine;
use dream_protocol::meter::{Meter, MeterConfig, MeterError, Record};
use dream_protocol::simulation::{Simulated, Simulation};
use dream_testkit::lab::process::Process;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// The configuration of the agent that this process is to be.
const CONFIG: &str = "DREAM_TEST_AGENT";

/// A meter that adds no noise, so that sums are exact, and accepts slots as short as a test's.
struct Noiseless;

impl Machine for Noiseless {
    type Conduct = Simulated;

    fn resume(&self, mut config: MeterConfig, records: Vec<Record>) -> Result<Meter<Simulated>, MeterError> {
        config.policy.min_slot_seconds = 1;
        (config.policy.day_micro_epsilon, config.policy.day_micro_rho) = (u64::MAX, u64::MAX);
        Meter::simulated(config, records, Simulation::NOISELESS)
    }
}

/// Returns the process of the agent with this configuration, which does not run yet. What it prints is in the same folder.
pub(super) fn process(config: &Path) -> Process {
    let arguments = ["--exact", "agent::is_run_by_other_tests", "--nocapture"].map(str::to_owned).to_vec();
    let environment = vec![(CONFIG, config.display().to_string())];
    let program = std::env::current_exe().unwrap();
    Process::new("agent", program, arguments, config.parent().unwrap()).with_environment(environment)
}

/// Is an agent until it is ended, if another test has started this process for it. By itself it has nothing to test.
#[test]
fn is_run_by_other_tests() {
    let Some(path) = std::env::var_os(CONFIG) else { return };
    let config = Config::load(Path::new(&path)).unwrap();
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).try_init().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let time = config.time.clone();
    runtime.block_on(async {
        let mut hangup = signal(SignalKind::hangup()).unwrap();
        let (sender, reloads) = mpsc::channel(1);
        tokio::spawn(async move { while hangup.recv().await.is_some() && sender.send(()).await.is_ok() {} });
        agent::run(config, Noiseless, &time, reloads, std::future::pending()).await.unwrap();
    });
}
