//! A running meter: waits until it may speak, and then lets the driver and its surroundings talk to each other.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use dream_edge::clock::{Clock, SystemClock};
use dream_edge::service::ServiceManager;
use dream_edge::task::{self, TaskEnded};
use dream_protocol::meter::{MeterConfig, Record};
use dream_protocol::time::Timestamp;
use dream_sources::{SlotMean, Source};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

use crate::broker::{Access, AccessError};
use crate::clock::{Synchronised, TimeSource, utc};
use crate::config::Config;
use crate::driver::{Driver, Machine, ResumeError};
use crate::home;
use crate::http;
use crate::identity::Identity;
use crate::origin::{self, Witness};
use crate::oversight;
use crate::records::{Number, Records, RecordsError};
use crate::renewal;
use crate::shared::Shared;
use crate::standing::{ListTerms, SourceState, Stage, Standing, Totals};
use crate::words;

/// How often to look whether a clock that is not synchronised is so now.
const CLOCK_AGAIN: Duration = Duration::from_secs(2);

/// How often a synchronised clock is confirmed.
const CONFIRM: Duration = Duration::from_secs(600);

/// How long to sleep at most while the meter is silent, because somebody may set the clock.
const SILENT_NAP: Duration = Duration::from_secs(30);

/// How many events of the source may wait.
const SAMPLES: usize = 64;

/// Runs a meter until `shutdown` is done. What comes in on `reloads` makes it read its certificate again.
pub async fn run<M: Machine>(
    config: Config,
    machine: M,
    time: &dyn TimeSource,
    reloads: mpsc::Receiver<()>,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let identity = config.load_identity()?;
    let access = community(&config, &identity)?;
    let source = config.source.clone();
    let records = Records::open(&config.state)?;
    let listener = TcpListener::bind(config.http).await;
    let listener = listener.with_context(|| format!("`http.listen`: cannot listen on {}", config.http))?;
    let (standing, shown) = watch::channel(first_standing(&config, &identity));
    let (meter, cluster, version) = (identity.id.as_str(), identity.cluster.as_str(), env!("CARGO_PKG_VERSION"));
    info!(meter, cluster, version, http = %listener.local_addr()?, "starting");
    let server = tokio::spawn(http::serve(listener, config.http_names.clone(), shown.clone()));
    let informing = match &config.home {
        Some(home) => {
            let access = Access::new(&home.broker, None)?;
            Some(tokio::spawn(home::inform(access, home.prefix.clone(), shown.clone())))
        }
        None => None,
    };
    let (renewed, changes) = mpsc::channel(1);
    tokio::spawn(forward(reloads, renewed.clone()));
    let renewing = tokio::spawn(renewal::keep(config.clone(), renewed));
    let watching = tokio::spawn(oversight::watch(config.clone(), standing.clone()));
    let manager = ServiceManager::of_process();
    manager.ready();
    let meter = Agent { config, machine, identity, access, source, records, standing, clock: Arc::new(SystemClock) };
    let living = pin!(meter.live(time, changes));
    let ended = tokio::select! {
        ended = living => ended,
        ended = task::end_of("what serves the page", server) => Err(ended.into()),
        ended = task::end_of_some("the connection to the home's broker", informing) => Err(ended.into()),
        ended = task::end_of("what renews the certificate", renewing) => Err(ended.into()),
        ended = task::end_of("what watches the authority", watching) => Err(ended.into()),
        () = say_status(&manager, shown) => Ok(()),
        // Everything runs on one thread, so that this falls silent with the rest.
        () = manager.ping_watchdog(|| true) => Ok(()),
        () = shutdown => Ok(()),
    };
    // Connections just end: everything that matters is on disk, and the home's broker says that the meter is offline.
    manager.stopping();
    info!("stopped");
    ended
}

/// Hands on what somebody asks for.
async fn forward(mut reloads: mpsc::Receiver<()>, to: mpsc::Sender<()>) {
    while reloads.recv().await.is_some() && to.send(()).await.is_ok() {}
}

/// What a meter is made of before it lives.
struct Agent<M> {
    config: Config,
    machine: M,
    identity: Identity,
    access: Access,
    source: Source,
    records: Records,
    standing: watch::Sender<Standing>,
    clock: Arc<dyn Clock>,
}

impl<M: Machine> Agent<M> {
    /// Waits for the right time, and for the end of a silence that copied records ask for; then takes part. Ends only with an
    /// error.
    async fn live(mut self, time: &dyn TimeSource, mut reloads: mpsc::Receiver<()>) -> anyhow::Result<()> {
        let trusted = time.is_trusted();
        let mut time = Synchronised::new(time);
        wait_for_clock(&mut time, &*self.clock).await;
        let now = self.clock.now();
        let machine = origin::HostId::of_system();
        let (witness, doubt) = Witness::examine(&self.config.witness, &mut self.records, machine, now)?;
        if let Some(doubt) = doubt {
            warn!(%doubt, "the meter is silent until the next day in UTC, and then enrols again");
        }
        stay_silent(self.records.number(Number::SilentUntil), &*self.clock, &self.standing).await;
        // Somebody may have set it meanwhile.
        wait_for_clock(&mut time, &*self.clock).await;
        self.standing.send_modify(|standing| standing.stage = Stage::Connecting { trouble: None });
        if let Err(error) = self.identity.check_period(&self.config.identity.certificate, self.clock.now()) {
            error!("{error}");
        }

        let Self { config, machine, identity, access, source, records, standing, clock } = self;
        let mean = SlotMean::new(source.cadence());
        let (sender, mut samples) = mpsc::channel(SAMPLES);
        let clocks = clock.clone();
        let reading = tokio::spawn(source.run(clock.clone(), sender));
        let mut driver =
            Driver::resume(machine, meter_config(&config, &identity), records, witness, mean, clock, standing.clone())?;
        driver.time_confirmed()?;
        let mut connection = access.connect(identity.id.to_string(), None);
        let mut confirm = tokio::time::interval(CONFIRM);
        loop {
            // At least every ten seconds, because the driver never sleeps longer.
            if time.look(clocks.both()) {
                info!("the clock is right again");
                driver.time_confirmed()?;
            }
            tokio::select! {
                event = connection.next() => match event {
                    Some(event) => driver.broker_event(event)?,
                    None => return Err(TaskEnded::new("the connection to the community's broker", "it panicked").into()),
                },
                event = samples.recv() => match event {
                    Some(event) => driver.source_event(&event),
                    None => return Err(task::end_of("what reads the meter", reading).await.into()),
                },
                () = tokio::time::sleep(driver.idle()) => driver.tick()?,
                _ = confirm.tick(), if !trusted => if time.is_confirmed(clocks.both()) {
                    driver.time_confirmed()?;
                },
                Some(()) = reloads.recv() => match renewed(&config) {
                    Ok((identity, access)) => match driver.renew(meter_config(&config, &identity)) {
                        Ok(()) => {
                            info!(until = utc(identity.checked.not_after()), "loaded the renewed certificate");
                            standing.send_modify(|standing| {
                                standing.certificate_to = identity.checked.not_after();
                                standing.renewable_from = identity.renewable_from();
                            });
                            connection = access.connect(identity.id.to_string(), None);
                        }
                        Err(ResumeError::Meter(error)) => error!(%error, "cannot load the certificate; keeping the old one"),
                        Err(error @ ResumeError::Records(_)) => return Err(error.into()),
                    },
                    Err(error) => error!(error = format!("{error:#}"), "cannot load the certificate; keeping the old one"),
                },
            }
        }
    }
}

/// Says who the meter is, and what it accepts.
fn meter_config(config: &Config, identity: &Identity) -> MeterConfig {
    MeterConfig {
        identity: identity.key(),
        certificate: identity.certificate.clone(),
        cluster: identity.cluster.clone(),
        policy: config.policy.with(identity.authorities.clone()),
    }
}

/// How the community's broker is reached: the meter's certificate is its client certificate.
fn community(config: &Config, identity: &Identity) -> Result<Access, AccessError> {
    Ok(Access::new(&config.community, Some((&identity.certificate, identity.pkcs8())))?.persistent())
}

fn renewed(config: &Config) -> anyhow::Result<(Identity, Access)> {
    let identity = config.load_identity()?;
    let access = community(config, &identity)?;
    Ok((identity, access))
}

/// Returns what there is to show before anything has happened.
pub(crate) fn first_standing(config: &Config, identity: &Identity) -> Standing {
    Standing {
        meter: identity.id.clone(),
        cluster: identity.cluster.clone(),
        profile: config.policy.profile,
        one_authority: identity.has_one_authority(),
        stage: Stage::WaitingForClock,
        list: None,
        sent_today: 0,
        spent_micro: 0,
        budget_micro: config.policy.with(identity.authorities.clone()).daily_micro_epsilon,
        load: None,
        load_refused: false,
        last_refusal: None,
        source: SourceState::NotAsked,
        certificate_to: identity.checked.not_after(),
        renewable_from: identity.renewable_from(),
        renews_itself: config.renewal.is_some(),
        listed: [].into(),
        register: None,
        totals: Totals::default(),
        shared: Shared::default(),
    }
}

/// Shows what the records say of a meter that does not run yet: what it has shared, and the terms of its newest list.
pub(crate) fn recall(standing: &mut Standing, records: &Records) -> Result<(), RecordsError> {
    let terms = |record: &Record| match record {
        Record::List(list) => ListTerms::of(list.bytes()),
        Record::Account(_) | Record::Enrolment(_) | Record::Slot(_) | Record::Answer(_) | Record::Evidence(_) => None,
    };
    standing.shared = Shared::of(records).unwrap_or_default();
    standing.list = records.load()?.iter().filter_map(terms).max_by_key(|terms| terms.epoch);
    Ok(())
}

async fn wait_for_clock(time: &mut Synchronised<'_>, clock: &dyn Clock) {
    if time.is_confirmed(clock.both()) {
        return;
    }
    warn!("this machine's clock is not synchronised yet; sending nothing until it is");
    while !time.is_confirmed(clock.both()) {
        tokio::time::sleep(CLOCK_AGAIN).await;
    }
    info!("the clock is synchronised");
}

async fn stay_silent(until: Option<u64>, clock: &dyn Clock, standing: &watch::Sender<Standing>) {
    let Some(until) = until else { return };
    let end = Timestamp::from_secs(until);
    while clock.now() < end {
        standing.send_modify(|standing| standing.stage = Stage::Silent { until });
        let left = Duration::from_millis(end.millis_since(clock.now()));
        tokio::time::sleep(left.min(SILENT_NAP)).await;
    }
}

/// Tells the service manager whether the meter takes part, whenever that changes.
async fn say_status(manager: &ServiceManager, mut standing: watch::Receiver<Standing>) {
    let mut said = String::new();
    loop {
        let words = words::taking_part(&standing.borrow_and_update());
        if words != said {
            manager.status(&format!("taking part: {words}"));
            said = words;
        }
        if standing.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use dream_protocol::time::Now;
    use tokio::time::Instant;

    use super::*;

    /// A clock that is right after it was asked so often.
    #[derive(Debug)]
    struct RightLater(Cell<u32>);

    impl TimeSource for RightLater {
        fn kernel_is_synchronised(&self) -> Option<bool> {
            self.0.set(self.0.get().saturating_sub(1));
            Some(self.0.get() == 0)
        }

        fn last_synchronised(&self) -> Option<Timestamp> {
            None
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_until_the_clock_is_right() {
        let begun = Instant::now();
        let clock = VirtualClock { begun, start: Timestamp::from_secs(20_000 * 86_400) };
        wait_for_clock(&mut Synchronised::new(&RightLater(Cell::new(1))), &clock).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        wait_for_clock(&mut Synchronised::new(&RightLater(Cell::new(5))), &clock).await;
        assert_eq!(begun.elapsed(), 3 * CLOCK_AGAIN);
    }

    /// The clock of tokio, which jumps to whatever is due next.
    #[derive(Debug)]
    struct VirtualClock {
        begun: Instant,
        start: Timestamp,
    }

    impl Clock for VirtualClock {
        fn both(&self) -> Now {
            let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap();
            Now { wall: self.start.plus_millis(passed), monotonic_millis: passed }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn copied_records_keep_it_silent_until_the_day_is_over() {
        let clock = VirtualClock { begun: Instant::now(), start: Timestamp::from_secs(20_000 * 86_400 + 3_600) };
        let (standing, shown) = watch::channel(words::tests::ordinary());
        let until = 20_001 * 86_400;
        stay_silent(Some(until), &clock, &standing).await;
        assert_eq!(clock.now(), Timestamp::from_secs(until));
        assert_eq!(shown.borrow().stage, Stage::Silent { until });
        let before = clock.now();
        stay_silent(Some(until), &clock, &standing).await;
        stay_silent(None, &clock, &standing).await;
        assert_eq!(clock.now(), before, "a silence that is over, or none, takes no time");
    }
}
