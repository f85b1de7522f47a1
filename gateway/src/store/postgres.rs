//! A store in the operator's PostgreSQL, which outlives any machine of a gateway.
//!
//! What is released is in plain tables, for Grafana and anybody's SQL; what names a meter or holds a key is sealed ([`seal`]).
//! Several gateways may reach the same database. Who may write is a row with a lease and a fence ([`lease`]); every commit checks
//! the fence, so that a gateway which was taken over from is mute, however long it slept.

mod batch;
mod lease;
mod link;
mod schema;
mod seal;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dream_edge::cut_off::CutOff;
use dream_protocol::cluster::{Key, Record};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::{Change, OUTCOMES_TO_RESUME, OpenStoreError, Store, StoreError, decode, split};
use crate::clock::rfc3339;
use crate::config;
use crate::history::{ClosedSlot, Extent, FilteredLoad, History, HistoryError, Read, Rollup, Span, Step};

use batch::{Batch, Writer};
use lease::Lease;
use link::Link;
use seal::{Place, Sealer};

/// How long the database may take to answer anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that several use, if it stands.
type Shared = Mutex<Option<Arc<Client>>>;

/// An open database.
#[derive(Debug)]
pub struct PostgresStore {
    inner: Arc<Inner>,
    /// Where connections are served: callers block, some of them inside a runtime. Taken when dropped.
    runtime: Option<Runtime>,
}

#[derive(Debug)]
struct Inner {
    link: Link,
    /// For everything that is read.
    reader: Shared,
    /// For the lease: no long answer may keep it from being renewed.
    leasing: Shared,
    writer: Mutex<Writer>,
    lease: Lease,
    sealer: Sealer,
    /// How large the database was when the lease was last renewed.
    bytes: AtomicU64,
}

impl PostgresStore {
    /// Opens a database, and makes or brings up to date its tables. Nothing can be written before [`Store::try_take`].
    pub fn open(config: &config::Postgres, shard: u32, owner: &str) -> Result<Self, OpenStoreError> {
        let store = Self::new(config, shard, owner)?;
        let migrated = store.wait(|inner| async move { schema::migrate(&*inner.reader().await?).await });
        migrated.map_err(|error| unusable(config, &error))?;
        Ok(store)
    }

    /// Opens a database that a gateway has written to, and leaves it as it is.
    pub fn open_existing(config: &config::Postgres) -> Result<Self, OpenStoreError> {
        let store = Self::new(config, 0, "")?;
        let found = store.wait(|inner| async move { schema::found(&*inner.reader().await?).await });
        match found.map_err(|error| unusable(config, &error))? {
            0 => Err(unusable(config, &"no gateway has written to it yet")),
            _ => Ok(store),
        }
    }

    /// Finds out whether a gateway could use a database, which is left as it is; returns why what it has committed may be lost.
    pub fn probe(config: &config::Postgres) -> Result<Vec<String>, OpenStoreError> {
        let warnings = Self::new(config, 0, "")?.wait(|inner| async move {
            let client = inner.reader().await?;
            schema::found(&client).await?;
            schema::warnings(&client).await
        });
        warnings.map_err(|error| unusable(config, &error))
    }

    fn new(config: &config::Postgres, shard: u32, owner: &str) -> Result<Self, OpenStoreError> {
        let failed = |error: &dyn std::fmt::Display| unusable(config, error);
        let sealer = Sealer::load(config).map_err(|error| failed(&error))?;
        let link = Link::new(config).map_err(|error| failed(&error))?;
        // Two threads: one that serves a long answer must not keep a commit waiting.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        let inner = Arc::new(Inner {
            link,
            reader: Shared::default(),
            leasing: Shared::default(),
            writer: Mutex::default(),
            lease: Lease::new(shard, owner, config.lease_seconds),
            sealer,
            bytes: AtomicU64::new(0),
        });
        Ok(Self { inner, runtime: Some(runtime) })
    }

    /// Lets the runtime do something, and waits for it. Works on any thread, those of another runtime included.
    fn wait<T, F>(&self, work: impl FnOnce(Arc<Inner>) -> F + Send + 'static) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let (done, answer) = std::sync::mpsc::sync_channel(1);
        let inner = self.inner.clone();
        let runtime = self.runtime.as_ref().expect("it is taken only when the store is dropped");
        runtime.spawn(async move {
            let late = || StoreError::Postgres(format!("no answer for {} s", PATIENCE.as_secs()));
            let answer = tokio::time::timeout(PATIENCE, work(inner)).await;
            drop(done.send(answer.unwrap_or_else(|_| Err(late()))));
        });
        answer.recv().unwrap_or_else(|_| Err(StoreError::Postgres("the query has failed".to_owned())))
    }

    /// Reads rows.
    fn query(&self, sql: &'static str, parameters: Vec<Parameter>) -> Result<Vec<Row>, StoreError> {
        self.wait(move |inner| async move {
            let client = inner.reader().await?;
            let parameters: Vec<_> = parameters.iter().map(|one| &**one as &(dyn ToSql + Sync)).collect();
            client.query(sql, &parameters).await.map_err(words)
        })
    }

    fn read_slots(&self, cluster: &ClusterId, ended: Span, limit: usize) -> Result<Vec<ClosedSlot>, StoreError> {
        let rows = self.query(schema::READ_SLOTS, within(cluster, ended, limit))?;
        let slot = |row: &Row| {
            let Record::Outcome(outcome) = decode(cluster.as_str(), row.try_get("record").map_err(words)?)? else {
                return Ok(None);
            };
            let load = |watts, band95| -> Result<Option<FilteredLoad>, StoreError> {
                let (watts, band95): (Option<i64>, Option<i64>) =
                    (row.try_get(watts).map_err(words)?, row.try_get(band95).map_err(words)?);
                Ok(watts.zip(band95).map(|(watts, band95)| FilteredLoad { watts, band95: band95.unsigned_abs() }))
            };
            let (load, smoothed) =
                (load("filtered_watts", "filtered_band95_watts")?, load("smoothed_watts", "smoothed_band95_watts")?);
            let (filtered, predicted) = if outcome.result.is_ok() { (load, None) } else { (None, load) };
            let cut_off: Option<&[u8]> = row.try_get("cut_off").map_err(words)?;
            let cut_off = cut_off.and_then(CutOff::from_bytes);
            Ok(Some(ClosedSlot { outcome, filtered, smoothed, predicted, cut_off }))
        };
        rows.iter().rev().filter_map(|row| slot(row).transpose()).collect()
    }

    fn read_rollups(
        &self,
        cluster: &ClusterId,
        step: Step,
        begun: Span,
        limit: usize,
    ) -> Result<Vec<Rollup>, StoreError> {
        let sql = match step {
            Step::Hour => schema::READ_HOURS,
            Step::Day => schema::READ_DAYS,
        };
        let rows = self.query(sql, within(cluster, begun, limit))?;
        rows.iter().rev().map(|row| rollup(cluster, step, row)).collect()
    }

    fn read_extent(&self, cluster: &ClusterId) -> Result<Option<Extent>, StoreError> {
        let days = self.query(schema::READ_EXTENT, vec![Box::new(cluster.to_string())])?;
        let days = days.iter().map(|row| rollup(cluster, Step::Day, row)).collect::<Result<Vec<_>, _>>()?;
        // After a change of the time zone days may overlap.
        let (first, until) = (days.iter().min_by_key(|day| day.start), days.iter().map(|day| day.last).max());
        Ok(first.zip(until).map(|(first, until)| Extent { begun: first.first, until }))
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // Waiting for it is forbidden where others may drop a store.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Inner {
    async fn reader(&self) -> Result<Arc<Client>, StoreError> {
        self.connected(&self.reader).await
    }

    async fn leasing(&self) -> Result<Arc<Client>, StoreError> {
        self.connected(&self.leasing).await
    }

    /// Returns a connection, which is made again if it was lost.
    async fn connected(&self, shared: &Shared) -> Result<Arc<Client>, StoreError> {
        let mut shared = shared.lock().await;
        match &*shared {
            Some(client) if !client.is_closed() => Ok(client.clone()),
            Some(_) | None => Ok(shared.insert(Arc::new(self.link.connect().await?)).clone()),
        }
    }

    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let (shard, fence) = self.lease.held()?;
        let mut writer = self.writer.lock().await;
        let written = writer.commit(&self.link, shard, fence, &self.sealer, &batch).await;
        if matches!(written, Err(StoreError::Fenced)) {
            self.lease.lost();
        }
        written
    }
}

impl Store for PostgresStore {
    fn records(&self, cluster: &ClusterId) -> Result<Vec<Record>, StoreError> {
        let id = cluster.to_string();
        let newest = i64::try_from(OUTCOMES_TO_RESUME).unwrap_or(i64::MAX);
        let sealed = self.query(schema::READ_RECORDS, vec![Box::new(id.clone())])?;
        let entries = self.query(schema::READ_SLOT_ENTRIES, vec![Box::new(id.clone())])?;
        let outcomes = self.query(schema::READ_OUTCOMES, vec![Box::new(id), Box::new(newest)])?;
        let id = cluster.as_str();
        let mut records = Vec::with_capacity(sealed.len() + outcomes.len());
        for row in &sealed {
            let (kind, name, bytes): (&str, &[u8], &[u8]) = (
                row.try_get("kind").map_err(words)?,
                row.try_get("name").map_err(words)?,
                row.try_get("sealed").map_err(words)?,
            );
            records.push(decode(id, &self.inner.sealer.open(Place::Record { cluster: id, kind, name }, bytes)?)?);
        }
        for row in &outcomes {
            records.push(decode(id, row.try_get("record").map_err(words)?)?);
        }
        // Enrolments are kept under names that say nothing.
        records.sort_by_key(Record::key);
        // A later entry of the same name replaces the earlier one.
        let mut slots: BTreeMap<Key, Record> = BTreeMap::new();
        for row in &entries {
            let [slot, fence, number] = ["slot", "fence", "number"].map(|column| row.try_get(column).unwrap_or(0_i64));
            let place = Place::SlotEntries { cluster: id, slot, fence, number };
            let value = self.inner.sealer.open(place, row.try_get("sealed").map_err(words)?)?;
            for bytes in split(&value) {
                let record = decode(id, bytes)?;
                slots.insert(record.key(), record);
            }
        }
        records.extend(slots.into_values());
        Ok(records)
    }

    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        let batch = Batch::new(changes, &self.inner.sealer);
        self.wait(move |inner| async move { inner.commit(batch).await })
    }

    fn span(&self, cluster: &ClusterId) -> Result<Option<(u64, u64)>, StoreError> {
        let rows = self.query(schema::READ_SPAN, vec![Box::new(cluster.to_string())])?;
        let moment = |column| -> Result<Option<u64>, StoreError> {
            let found: Option<SystemTime> = rows.first().map_or(Ok(None), |row| row.try_get(column)).map_err(words)?;
            Ok(found.map(millis))
        };
        Ok(moment("first")?.zip(moment("last")?))
    }

    fn sent(&self, cluster: &ClusterId) -> Result<Option<Timestamp>, StoreError> {
        let rows = self.query(schema::READ_SENT, vec![Box::new(cluster.to_string())])?;
        let until = |row: &Row| row.try_get::<_, SystemTime>("until").map_err(words);
        Ok(rows.first().map(until).transpose()?.map(|until| Timestamp::from_millis(millis(until))))
    }

    fn clusters(&self) -> Result<Vec<ClusterId>, StoreError> {
        let rows = self.query(schema::READ_CLUSTERS, Vec::new())?;
        let names = rows.iter().map(|row| row.try_get::<_, &str>("cluster").map_err(words));
        names.filter_map(|name| name.map(|name| ClusterId::new(name).ok()).transpose()).collect()
    }

    fn reopen(&self) -> Result<(), OpenStoreError> {
        // The next commit connects again if that is needed.
        Ok(())
    }

    fn try_take(&self) -> Result<Option<String>, StoreError> {
        self.wait(|inner| async move { Lease::try_take(&inner).await })
    }

    fn give_back(&self) {
        if let Err(error) = self.wait(|inner| async move { Lease::give_back(&inner).await }) {
            tracing::warn!(%error, "another gateway can take over only when the lease ends");
        }
    }
}

impl History for PostgresStore {
    fn slots(&self, cluster: &ClusterId, ended: Span, limit: usize) -> Read<Vec<ClosedSlot>> {
        self.read_slots(cluster, ended, limit).map_err(HistoryError::new)
    }

    fn rollups(&self, cluster: &ClusterId, step: Step, begun: Span, limit: usize) -> Read<Vec<Rollup>> {
        self.read_rollups(cluster, step, begun, limit).map_err(HistoryError::new)
    }

    fn extent(&self, cluster: &ClusterId) -> Read<Option<Extent>> {
        self.read_extent(cluster).map_err(HistoryError::new)
    }

    fn file_bytes(&self) -> u64 {
        self.inner.bytes.load(Ordering::Relaxed)
    }
}

fn unusable(config: &config::Postgres, why: &dyn std::fmt::Display) -> OpenStoreError {
    OpenStoreError::Postgres { url: config.url.clone(), detail: why.to_string() }
}

/// A parameter of a query.
type Parameter = Box<dyn ToSql + Sync + Send>;

/// Returns the parameters of a query for rows of a cluster in a span, newest first.
fn within(cluster: &ClusterId, span: Span, limit: usize) -> Vec<Parameter> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    vec![Box::new(cluster.to_string()), Box::new(moment(span.start)), Box::new(moment(span.end)), Box::new(limit)]
}

/// Returns a moment as PostgreSQL takes it; one that is later than all others becomes the end of the year 9999.
fn moment(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.as_millis().min(253_402_300_799_000))
}

fn millis(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn rollup(cluster: &ClusterId, step: Step, row: &Row) -> Result<Rollup, StoreError> {
    let start = Timestamp::from_millis(millis(row.try_get("starts").map_err(words)?));
    let wrong = || StoreError::Row { cluster: cluster.to_string(), step: step.as_str(), start: rfc3339(start) };
    Rollup::decode(start, row.try_get("record").map_err(words)?).ok_or_else(wrong)
}

/// Returns an error in words: PostgreSQL's own, or those of what lies below.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn words(error: tokio_postgres::Error) -> StoreError {
    if let Some(said) = error.as_db_error() {
        if said.code().code() == schema::FENCED {
            return StoreError::Fenced;
        }
        return StoreError::Postgres(format!("PostgreSQL says: {} ({})", said.message(), said.code().code()));
    }
    match std::error::Error::source(&error) {
        Some(cause) => StoreError::Postgres(format!("{error}: {cause}")),
        None => StoreError::Postgres(error.to_string()),
    }
}
