//! An authority, a broker in memory, and a clock that nobody waits for.

pub mod broker;
pub mod connection;
pub mod freezer;
pub mod gateway;
pub mod log;
pub mod writer;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dream_gateway::clock::Clock;
use dream_protocol::time::{Now, Timestamp};
use dream_testkit::lab::access::Access;
use dream_testkit::lab::fleet::{Fate, Fleet, Outgoing};
use dream_testkit::lab::identities::Identities;
use dream_testkit::lab::settings::Settings;
use tokio::time::Instant;

use broker::Broker;

/// When every test begins: 2026-11-16T14:00:00Z.
const BEGIN: Timestamp = Timestamp::from_secs(1_794_837_600);

/// How much virtual time anything may take: twenty slots and more.
const PATIENCE: Duration = Duration::from_secs(180);

/// The length of slots: two attempts of three seconds, and some time to spare for a gateway that dies in between.
pub const SLOT_SECONDS: u64 = 8;

/// When the last attempt at a slot is over, in milliseconds of the next one.
pub const AT_REST_MILLIS: u64 = 7500;

/// A clock that follows tokio's, which tests pause.
#[derive(Debug)]
pub struct VirtualClock {
    begun: Instant,
    /// How far its hands are from the right time.
    wrong: Mutex<Wrong>,
}

/// By how many seconds the clocks of a machine are wrong.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wrong {
    pub wall_ahead: i64,
    /// How long the machine stood still without its clocks.
    pub steady_behind: u64,
}

impl Clock for VirtualClock {
    fn both(&self) -> Now {
        let elapsed = u64::try_from(self.begun.elapsed().as_millis()).unwrap();
        let Wrong { wall_ahead, steady_behind } = *self.wrong.lock().unwrap();
        let wall = BEGIN.plus_millis(elapsed).as_millis().saturating_add_signed(1000 * wall_ahead);
        Now { wall: Timestamp::from_millis(wall), monotonic_millis: elapsed - 1000 * steady_behind }
    }
}

impl VirtualClock {
    /// Sets the clocks of the machine.
    pub fn set(&self, wrong: Wrong) {
        *self.wrong.lock().unwrap() = wrong;
    }
}

/// What gateways and meters of a test share.
#[derive(Debug, Clone)]
pub struct World {
    pub identities: Arc<Identities>,
    pub broker: Broker,
    /// The right time, which meters have.
    pub clock: Arc<VirtualClock>,
    /// The clocks of the gateways' machine.
    pub gateway_clock: Arc<VirtualClock>,
}

impl World {
    /// Makes a world with nobody in it. The clock of the runtime must be paused.
    pub fn new() -> Self {
        let clock = || Arc::new(VirtualClock { begun: Instant::now(), wrong: Mutex::default() });
        let (clock, gateway_clock) = (clock(), clock());
        Self { identities: Arc::default(), broker: Broker::default(), clock, gateway_clock }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns a gateway's settings without a cluster.
    pub fn settings() -> Settings {
        let mut settings = Settings::new(&Access::open(1883));
        settings.defaults = settings.defaults.replace("slot_seconds = 6", &format!("slot_seconds = {SLOT_SECONDS}"));
        settings
    }

    /// Connects meters that never fail.
    pub fn fleet(&self, cluster: &str, meters: usize) -> Fleet {
        self.faulty_fleet(cluster, meters, |_| Fate::Sent)
    }

    /// Connects meters whose packets meet the fate that `fate` decides on.
    pub fn faulty_fleet(
        &self,
        cluster: &str,
        meters: usize,
        fate: impl FnMut(&Outgoing<'_>) -> Fate + Send + 'static,
    ) -> Fleet {
        let clock = self.clock.clone();
        let link = self.broker.link(&Fleet::client_id(cluster), &Fleet::filters(cluster), move || clock.now());
        Fleet::over(link, &self.identities, cluster, meters, fate)
    }

    /// Lets time pass until this many milliseconds into a slot: this one, or else the next.
    pub async fn sleep_into_slot(&self, millis: u64) {
        let slot = 1000 * SLOT_SECONDS;
        let (now, begun) = (self.now().as_millis(), self.now().as_millis() / slot * slot);
        let then = if begun + millis > now { begun + millis } else { begun + slot + millis };
        tokio::time::sleep(Duration::from_millis(then - now)).await;
    }
}

/// Waits until a condition holds.
///
/// # Panics
/// If it does not within the patience of these tests, in virtual time.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    eventually_some(what, async || holds().await.then_some(())).await;
}

/// Waits until there is something, and returns it.
///
/// # Panics
/// If there is nothing within the patience of these tests, in virtual time.
pub async fn eventually_some<T>(what: &str, mut find: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = find().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited too long until {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
