//! A gateway without its MQTT half: a board and a past that tests fill themselves.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request};
use dream_edge::serve::Peer;
use dream_gateway::board::energy::EnergyView;
use dream_gateway::board::evidence::EvidenceView;
use dream_gateway::board::gateway_view::{BrokerView, GatewayView};
use dream_gateway::board::holders::HoldersView;
use dream_gateway::board::named::NamedMembers;
use dream_gateway::board::offenders::OffenderCounts;
use dream_gateway::board::readiness::{Latch, Readiness};
use dream_gateway::board::{Board, ClusterView, ListView, Spent};
use dream_gateway::clock::{Clock, Zone};
use dream_gateway::config::{Group, GroupId, Part, even_draws, with_committee};
use dream_gateway::engine::energy::RunningEnergy;
use dream_gateway::history::{ClosedSlot, Extent, FilteredLoad, History, HistoryError, Read, Rollup, Span, Step};
use dream_gateway::http::access::Access;
use dream_gateway::http::{Service, router, serve};
use dream_gateway::metrics::Metrics;
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::evidence::Contradiction;
use dream_protocol::ids::ClusterId;
use dream_protocol::params::{Share, Terms};
use dream_protocol::policy::Profile;
use dream_protocol::time::{Now, Slot, Timestamp};
use dream_testkit::lab::http::Answer;
use dream_testkit::outcomes::Slotted;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

/// 2026-11-16T14:43:20Z.
pub const NOW: Timestamp = Timestamp::from_secs(1_794_840_200);

/// The last slot of 600 s that has ended by then.
pub const LAST_SLOT: u64 = 1_794_840_200 / 600 - 1;

/// The epoch of lists, in the slot before they begin: 9 Nov, 15:40.
pub const EPOCH: u64 = (LAST_SLOT - 1001) * 600;

pub const METER: &str = "meter-0815";

/// A clock that stands until it is set.
#[derive(Debug)]
pub struct StandingClock(AtomicU64);

impl Clock for StandingClock {
    fn both(&self) -> Now {
        let millis = self.0.load(Ordering::Relaxed);
        Now { wall: Timestamp::from_millis(millis), monotonic_millis: millis }
    }
}

/// A board, a past and a clock that a test sets.
#[derive(Debug)]
pub struct Fixture {
    pub board: Arc<Board>,
    pub past: Arc<Past>,
    pub readiness: Arc<Readiness>,
    pub members: Arc<NamedMembers>,
    pub access: Arc<Access>,
    clock: Arc<StandingClock>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            board: Arc::default(),
            past: Arc::default(),
            readiness: Arc::default(),
            members: Arc::default(),
            access: Arc::new(Access::open()),
            clock: Arc::new(StandingClock(NOW.as_millis().into())),
        }
    }

    fn service(&self) -> Service {
        let (metrics, board, clock) = (Metrics::new(&[]), self.board.clone(), self.clock.clone());
        Service {
            board: self.board.clone(),
            members: self.members.clone(),
            running: Arc::default(),
            access: self.access.clone(),
            history: self.past.clone(),
            readiness: self.readiness.clone(),
            scrape: Arc::new(move || metrics.render(&board, clock.now())),
            gateway: "gw-1-0".into(),
            clock: self.clock.clone(),
            notice: None,
        }
    }

    pub fn set_clock(&self, now: Timestamp) {
        self.clock.0.store(now.as_millis(), Ordering::Relaxed);
    }

    /// Makes the gateway ready, and shows it as it then is.
    pub fn make_ready(&self) {
        Latch::ALL.into_iter().for_each(|latch| self.readiness.set(latch));
        let since = Timestamp::from_secs(NOW.as_secs() - 7200);
        self.board.update_gateway(|gateway| {
            *gateway = GatewayView {
                clock_trouble: None,
                since: Some(since),
                broker: BrokerView::Subscribed { since },
                commit_error: None,
                retention_days: 56,
                hours_retention_days: 1830,
                certificate_ends: Some(NOW.as_secs() + 100 * 86_400),
            };
        });
    }

    /// Adds a group of clusters and of groups that were added before.
    pub fn group(&self, id: &str, clusters: &[&str], groups: &[&str]) {
        let mut all: BTreeMap<GroupId, Group> =
            self.board.groups().1.into_iter().map(|view| (view.id, Group::clone(&view.group))).collect();
        let clusters = clusters.iter().map(|id| ClusterId::new(id).unwrap());
        let groups: Vec<GroupId> = groups.iter().map(|id| GroupId::new(id).unwrap()).collect();
        let inner = groups.iter().flat_map(|group| all[group].clusters.clone());
        let group = Group {
            clusters: inner.chain(clusters.clone()).collect(),
            of: groups.into_iter().map(Part::Group).chain(clusters.map(Part::Cluster)).collect(),
            slot_seconds: 600,
        };
        all.insert(GroupId::new(id).unwrap(), group);
        self.board.set_groups(&all);
    }

    /// Keeps a slot and shows it, as the driver does.
    pub fn close(&self, cluster: &ClusterView, slot: ClosedSlot) {
        let mut view = cluster.clone();
        view.energy = self.past.add(&cluster.cluster, slot);
        view.spent.add(&slot.outcome);
        view.last = Some(slot);
        view.last_decoded = if slot.is_decoded() { Some(slot) } else { view.last_decoded };
        view.next_deadline = Some(slot.outcome.end.plus_secs(view.slot_seconds));
        self.board.show([view]);
    }
}

/// A gateway that is asked without a socket, in virtual time.
#[derive(Debug)]
pub struct Asked {
    pub fixture: Fixture,
    router: axum::Router,
    runtime: Runtime,
}

impl Asked {
    pub fn new() -> Self {
        Self::with(None)
    }

    /// A gateway whose pages begin with a notice.
    pub fn with_notice(notice: &str) -> Self {
        Self::with(Some(notice.to_owned()))
    }

    fn with(notice: Option<String>) -> Self {
        let fixture = Fixture::new();
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        Self { router: router(Service { notice, ..fixture.service() }), fixture, runtime }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[])
    }

    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.runtime.block_on(answer(self.router.clone(), request(method, path, headers)))
    }

    /// Asks from an address.
    pub fn from(&self, peer: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = request("GET", path, headers);
        request.extensions_mut().insert(Peer(SocketAddr::new(peer.parse().unwrap(), 50_000)));
        self.runtime.block_on(answer(self.router.clone(), request))
    }

    /// Asks, and does not wait for the answer.
    pub fn begin(&self, path: &str) -> JoinHandle<Answer> {
        self.runtime.spawn(answer(self.router.clone(), request("GET", path, &[])))
    }

    /// The same, with headers, from an address.
    pub fn begin_from(&self, peer: &str, path: &str, headers: &[(&str, &str)]) -> JoinHandle<Answer> {
        let mut request = request("GET", path, headers);
        request.extensions_mut().insert(Peer(SocketAddr::new(peer.parse().unwrap(), 50_000)));
        self.runtime.spawn(answer(self.router.clone(), request))
    }

    /// Lets time pass.
    pub fn sleep(&self, duration: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(duration).await });
    }

    pub fn wait(&self, asked: JoinHandle<Answer>) -> Answer {
        self.runtime.block_on(asked).unwrap()
    }
}

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(Body::empty()).unwrap()
}

async fn answer(router: axum::Router, request: Request<Body>) -> Answer {
    let response = router.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let header =
        |(name, value): (&HeaderName, &HeaderValue)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned());
    let headers = response.headers().iter().map(header).collect();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec();
    Answer { status, headers, body }
}

/// A gateway that listens on a port.
#[derive(Debug)]
pub struct Gateway {
    pub fixture: Fixture,
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    runtime: Option<Runtime>,
}

impl Gateway {
    pub fn start() -> Self {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }

    pub fn start_at(address: SocketAddr) -> Self {
        let fixture = Fixture::new();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(serve(listener, fixture.service(), None, async { drop(stopped.await) }));
        Self { fixture, address, stop: Some(stop), runtime: Some(runtime) }
    }

    /// Asks the server to end, and does not wait for it.
    pub fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Ends at once, as a crash does.
    pub fn kill(mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The past, in memory.
#[derive(Debug, Default)]
pub struct Past {
    slots: Mutex<BTreeMap<ClusterId, Vec<ClosedSlot>>>,
    energy: Mutex<BTreeMap<ClusterId, RunningEnergy>>,
    rollups: Mutex<BTreeMap<(ClusterId, Step, Timestamp), Rollup>>,
    pub broken: AtomicBool,
}

impl Past {
    /// Keeps a slot, and what its hour and day come to; returns what is running.
    pub fn add(&self, cluster: &ClusterId, slot: ClosedSlot) -> Option<EnergyView> {
        self.slots.lock().unwrap().entry(cluster.clone()).or_default().push(slot);
        let mut energy = self.energy.lock().unwrap();
        let new = || RunningEnergy::resume(&Self::default(), cluster, &Zone::default()).unwrap();
        let energy = energy.entry(cluster.clone()).or_insert_with(new);
        // A slot without a sum is filled in with the load of somebody else.
        let predicted = (!slot.is_decoded()).then_some(FilteredLoad { watts: 50_000, band95: 20_000 });
        for (step, rollup) in energy.add(&ClosedSlot { predicted, ..slot }) {
            self.rollups.lock().unwrap().insert((cluster.clone(), step, rollup.start), rollup);
        }
        energy.view()
    }

    /// Drops slots that ended before this: their hours and days stay.
    pub fn expire_slots(&self, before: Timestamp) {
        self.slots.lock().unwrap().values_mut().for_each(|slots| slots.retain(|slot| slot.outcome.end >= before));
    }

    fn check(&self) -> Result<(), HistoryError> {
        if self.broken.load(Ordering::Relaxed) { Err(HistoryError::new("the disk is gone")) } else { Ok(()) }
    }
}

impl History for Past {
    fn slots(&self, cluster: &ClusterId, ended: Span, limit: usize) -> Read<Vec<ClosedSlot>> {
        self.check()?;
        let slots = self.slots.lock().unwrap();
        let slots = slots.get(cluster).map(Vec::as_slice).unwrap_or_default();
        let mut found: Vec<_> = slots.iter().filter(|slot| ended.contains(&slot.outcome.end)).copied().collect();
        found.drain(..found.len().saturating_sub(limit));
        Ok(found)
    }

    fn rollups(&self, cluster: &ClusterId, step: Step, begun: Span, limit: usize) -> Read<Vec<Rollup>> {
        self.check()?;
        let range = (cluster.clone(), step, begun.start)..(cluster.clone(), step, begun.end);
        let mut found: Vec<_> = self.rollups.lock().unwrap().range(range).map(|(_, rollup)| *rollup).collect();
        found.drain(..found.len().saturating_sub(limit));
        Ok(found)
    }

    fn extent(&self, cluster: &ClusterId) -> Read<Option<Extent>> {
        self.check()?;
        Ok(self.energy.lock().unwrap().get(cluster).and_then(|energy| Some(energy.view()?.extent)))
    }

    fn file_bytes(&self) -> u64 {
        1_234_567
    }
}

/// A cluster of which nothing is known yet but its name.
pub fn waiting(id: &str) -> ClusterView {
    ClusterView {
        cluster: ClusterId::new(id).unwrap(),
        slot_seconds: 600,
        min_members: 20,
        profile: Profile::Strict,
        candidates: 12,
        ending: 0,
        list: None,
        next_list: None,
        denied: 0,
        evidence: Arc::default(),
        statuses: Vec::new(),
        offenders: OffenderCounts::default(),
        holders: None,
        no_committee: None,
        cannot_form: None,
        last: None,
        last_decoded: None,
        energy: None,
        spent: Spent::default(),
        next_deadline: None,
        since: NOW,
    }
}

/// A cluster with a list of so many members, and no slot yet.
pub fn listed(id: &str, members: u16) -> ClusterView {
    let tenth = Share::new(1, 10).unwrap();
    let list = ListView {
        epoch: EPOCH,
        params: Terms::DEFAULT.for_members(members, tenth, tenth, Profile::Strict.floors().malicious).unwrap(),
        from_slot: Slot(LAST_SLOT - 1000),
        to_slot: Slot(LAST_SLOT + 8),
        bytes: format!("a signed list with {METER}").into_bytes().into(),
    };
    ClusterView { candidates: members.into(), list: Some(list), next_deadline: Some(NOW.plus_secs(400)), ..waiting(id) }
}

/// The same cluster with a committee in its list, of whose holders so many answered, some of them wrongly. Of 100 members all are
/// holders, and 75 must answer.
pub fn with_holders(mut view: ClusterView, answered: u16, wrong: u16) -> ClusterView {
    let list = view.list.as_mut().unwrap();
    list.params = with_committee(&list.params, 1, view.profile, &even_draws(list.params.members())).unwrap();
    let committee = list.params.terms().scheme.committee().unwrap();
    let [holders, needed] = [committee.holders, committee.needed].map(|count| u16::try_from(count).unwrap());
    view.holders = Some(HoldersView { told: NOW, holders, needed, answered, wrong });
    view
}

/// The same of homes that feed in.
pub fn feeding_in(id: &str, members: u16) -> ClusterView {
    let mut view = listed(id, members);
    let tenth = Share::new(1, 10).unwrap();
    let terms = Terms { lo: -8000, hi: 8000, ..Terms::DEFAULT };
    let params = terms.for_members(members, tenth, tenth, Profile::Strict.floors().malicious).unwrap();
    view.list = view.list.map(|list| ListView { params, ..list });
    view
}

/// What members have proven: a contradiction, whose bytes nobody judges here.
pub fn proven() -> Arc<[EvidenceView]> {
    let contradiction = Contradiction::Requests { slot: Slot(LAST_SLOT), attempt: 0 };
    let bytes = Arc::from(&b"two messages"[..]);
    Arc::new([EvidenceView { number: 1, gateway: "gw".to_owned(), contradiction, bytes }])
}

/// A closed slot with a filtered load that no filter made, and what it would be an hour later.
pub fn closed(outcome: SlotOutcome) -> ClosedSlot {
    let filtered = outcome.result.ok().map(|sum| FilteredLoad { watts: sum.watts() - 1500, band95: 12_345 });
    let smoothed = filtered.map(|FilteredLoad { watts, .. }| FilteredLoad { watts: watts + 250, band95: 11_111 });
    ClosedSlot { filtered, smoothed, ..outcome.into() }
}

/// A slot of such a cluster.
pub fn slot_of(members: u16, slot: u64) -> Slotted {
    let honest = members - members / 10 - members.div_ceil(10).max(Profile::Strict.floors().malicious);
    Slotted { epoch: EPOCH, members, honest, ..Slotted::new(slot) }
}
