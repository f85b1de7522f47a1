//! A commit: what its changes come down to, and the transaction that makes it durable.
//!
//! The statements of a transaction are sent together and answered together. If the first one finds another fence, the others
//! fail and COMMIT rolls back: nothing waits for an answer in between.

use std::collections::{BTreeMap, BTreeSet};

use dream_edge::cut_off::CutOff;
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::{Forget, Key, Record};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::{Slot, Timestamp};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};
use zeroize::Zeroizing;

use super::link::Link;
use super::seal::{Place, Sealer};
use super::{StoreError, moment, schema, words};
use crate::history::{ClosedSlot, FilteredLoad, Load, Rollup, Step};
use crate::store::{Change, append, slot_of};

/// A row by its cluster and time.
type At = (String, Timestamp);

/// A record by its cluster, its kind and its name.
type Name = (String, &'static str, Vec<u8>);

/// What is in the tables after a commit, by row: of changes to the same row the last one counts.
#[derive(Debug, Default)]
pub(super) struct Batch {
    forgotten: BTreeSet<(String, Slot)>,
    entries: BTreeMap<(String, Slot), Zeroizing<Vec<u8>>>,
    /// Sealed; `None` is deleted.
    records: BTreeMap<Name, Option<Vec<u8>>>,
    slots: BTreeMap<At, SlotRow>,
    hours: BTreeMap<At, Rollup>,
    days: BTreeMap<At, Rollup>,
    /// When outcomes began that are withdrawn, by when they ended. They go before anything is put.
    withdrawn: BTreeMap<At, Timestamp>,
    /// Until when slots were written to a receiver.
    sent: BTreeMap<String, Timestamp>,
    /// When slots ended and hours began that are dropped.
    expired: Option<(Timestamp, Timestamp)>,
}

#[derive(Debug, Default, Clone, Copy)]
struct SlotRow {
    outcome: Option<SlotOutcome>,
    filtered: Option<FilteredLoad>,
    smoothed: Option<FilteredLoad>,
    cut_off: Option<CutOff>,
}

impl Batch {
    pub(super) fn new(changes: &[Change], sealer: &Sealer) -> Self {
        let mut batch = Self::default();
        for change in changes {
            match change {
                Change::Put(cluster, record) => batch.put(cluster, record, sealer),
                Change::Forget(cluster, forget) => batch.forget(cluster, forget, sealer),
                Change::PutFiltered { cluster, end, filtered } => batch.slot(cluster, *end).filtered = Some(*filtered),
                Change::PutSmoothed { cluster, end, smoothed } => batch.slot(cluster, *end).smoothed = Some(*smoothed),
                Change::PutCutOff { cluster, end, cut_off } => batch.slot(cluster, *end).cut_off = Some(*cut_off),
                Change::PutRollup { cluster, step, rollup } => {
                    let rows = match step {
                        Step::Hour => &mut batch.hours,
                        Step::Day => &mut batch.days,
                    };
                    rows.insert((cluster.to_string(), rollup.start), *rollup);
                }
                Change::PutSent { cluster, until } => drop(batch.sent.insert(cluster.to_string(), *until)),
                Change::Expire { slots, hours } => batch.expired = Some((*slots, *hours)),
            }
        }
        batch
    }

    fn slot(&mut self, cluster: &ClusterId, end: Timestamp) -> &mut SlotRow {
        self.slots.entry((cluster.to_string(), end)).or_default()
    }

    fn put(&mut self, cluster: &ClusterId, record: &Record, sealer: &Sealer) {
        let id = cluster.as_str();
        if let Some(slot) = slot_of(record) {
            return append(self.entries.entry((id.to_owned(), slot)).or_default(), &record.encode());
        }
        if let Record::Outcome(outcome) = record {
            self.slot(cluster, outcome.end).outcome = Some(*outcome);
            return;
        }
        let mut names = names(id, &record.key(), sealer).into_iter();
        let (kind, name) = names.next().expect("only outcomes and entries of slots have none");
        // Under an earlier key it had another name.
        names.for_each(|(kind, name)| drop(self.records.insert((id.to_owned(), kind, name), None)));
        let sealed = sealer.seal(Place::Record { cluster: id, kind, name: &name }, &record.encode());
        self.records.insert((id.to_owned(), kind, name), Some(sealed));
    }

    fn forget(&mut self, cluster: &ClusterId, forget: &Forget, sealer: &Sealer) {
        let id = cluster.to_string();
        let key = match forget {
            Forget::Slot(slot) => {
                self.entries.remove(&(id.clone(), *slot));
                self.forgotten.insert((id, *slot));
                return;
            }
            Forget::Outcome(outcome) => return self.withdraw(id, outcome),
            Forget::Enrolment(meter) => Key::Enrolment(meter.clone()),
            Forget::List(epoch) => Key::List(*epoch),
        };
        for (kind, name) in names(&id, &key, sealer) {
            self.records.insert((id.clone(), kind, name), None);
        }
    }

    /// Removes an outcome, and the rows from its day on, which are made anew from the outcomes that stay.
    fn withdraw(&mut self, id: String, outcome: &SlotOutcome) {
        let begun = (id.clone(), Timestamp::from_millis(0))..=(id.clone(), outcome.start);
        let from = self.days.range(begun).next_back().map_or(outcome.start, |((_, start), _)| *start);
        for rows in [&mut self.hours, &mut self.days] {
            rows.retain(|(cluster, start), _| *cluster != id || *start < from);
        }
        self.slots.remove(&(id.clone(), outcome.end));
        self.withdrawn.insert((id, outcome.end), outcome.start);
    }
}

/// Returns the kinds and names under which a record may be kept, the first of them for new ones. None of them names a meter.
fn names(cluster: &str, key: &Key, sealer: &Sealer) -> Vec<(&'static str, Vec<u8>)> {
    match key {
        Key::Enrolment(meter) => sealer.names(cluster, meter.as_str()).map(|name| ("enrolment", name)).collect(),
        Key::List(epoch) => vec![("list", epoch.to_be_bytes().to_vec())],
        Key::Offenders => vec![("offenders", Vec::new())],
        Key::Retries => vec![("retries", Vec::new())],
        Key::Evidence(number) => vec![("evidence", vec![*number])],
        Key::Slot(..) | Key::Outcome(_) => Vec::new(),
    }
}

/// The connection that commits.
#[derive(Debug, Default)]
pub(super) struct Writer {
    connection: Option<(Client, Statements)>,
    /// Of the next commit. One whose answer was lost is sent again under the same number, so that nothing is there twice.
    number: i64,
}

macro_rules! statements {
    ($($name:ident = $sql:ident),* $(,)?) => {
        /// What commits consist of, prepared once for each connection.
        #[derive(Debug)]
        struct Statements { $($name: Statement),* }

        impl Statements {
            async fn prepare(client: &Client) -> Result<Self, StoreError> {
                Ok(Self { $($name: client.prepare(schema::$sql).await.map_err(words)?),* })
            }
        }
    };
}
statements! {
    fence = FENCE, forget_slots = FORGET_SLOTS, put_entries = PUT_SLOT_ENTRIES, forget_records = FORGET_RECORDS,
    put_records = PUT_RECORDS, put_slots = PUT_SLOTS, put_loads = PUT_LOADS, put_hours = PUT_HOURS, put_days = PUT_DAYS,
    expire_slots = EXPIRE_SLOTS, expire_hours = EXPIRE_HOURS, withdraw = WITHDRAW,
    put_sent = PUT_SENT,
}

impl Writer {
    pub(super) async fn commit(
        &mut self,
        link: &Link,
        shard: i32,
        fence: i64,
        sealer: &Sealer,
        batch: &Batch,
    ) -> Result<(), StoreError> {
        let (client, statements) = match self.connection.take() {
            Some(connection) if !connection.0.is_closed() => connection,
            Some(_) | None => {
                let client = link.connect().await?;
                let statements = Statements::prepare(&client).await?;
                (client, statements)
            }
        };
        // After an error nobody knows how far this connection got: it is dropped, and with it what was begun.
        transact(&client, &statements, shard, fence, self.number, sealer, batch).await?;
        self.connection = Some((client, statements));
        self.number += 1;
        Ok(())
    }
}

async fn transact(
    client: &Client,
    statements: &Statements,
    shard: i32,
    fence: i64,
    number: i64,
    sealer: &Sealer,
    batch: &Batch,
) -> Result<(), StoreError> {
    let slot_number = |slot: &Slot| i64::try_from(slot.0).unwrap_or(i64::MAX);
    let forgotten =
        (column(&batch.forgotten, |(id, _)| id.as_str()), column(&batch.forgotten, |(_, slot)| slot_number(slot)));
    let entries = (
        column(&batch.entries, |((id, _), _)| id.as_str()),
        column(&batch.entries, |((_, slot), _)| slot_number(slot)),
        column(&batch.entries, |((id, slot), bytes)| {
            sealer.seal(Place::SlotEntries { cluster: id, slot: slot_number(slot), fence, number }, bytes)
        }),
    );
    let (kept, gone): (Vec<_>, Vec<_>) = batch.records.iter().partition(|(_, sealed)| sealed.is_some());
    let gone = (
        column(&gone, |((id, ..), _)| id.as_str()),
        column(&gone, |((_, kind, _), _)| *kind),
        column(&gone, |((.., name), _)| name.as_slice()),
    );
    let kept = (
        column(&kept, |((id, ..), _)| id.as_str()),
        column(&kept, |((_, kind, _), _)| *kind),
        column(&kept, |((.., name), _)| name.as_slice()),
        column(&kept, |(_, sealed)| sealed.as_deref()),
    );
    let withdrawn = (
        column(&batch.withdrawn, |((id, _), _)| id.as_str()),
        column(&batch.withdrawn, |(_, start)| moment(*start)),
        column(&batch.withdrawn, |((_, end), _)| moment(*end)),
    );
    let expired = batch.expired.map(|(slots, hours)| (moment(slots), moment(hours)));
    let (begin, commit) = (client.batch_execute("begin"), client.batch_execute("commit"));
    let expire = async {
        let Some((slots, hours)) = &expired else { return Ok(0) };
        client.execute(&statements.expire_slots, &[slots]).await?;
        client.execute(&statements.expire_hours, &[hours]).await
    };
    let sent = (column(&batch.sent, |(id, _)| id.as_str()), column(&batch.sent, |(_, until)| moment(*until)));
    let results = tokio::join!(
        begin,
        async { client.execute(&statements.fence, &[&shard, &fence]).await },
        async { execute(client, &statements.forget_slots, forgotten.0.len(), &[&forgotten.0, &forgotten.1]).await },
        async {
            execute(
                client,
                &statements.put_entries,
                entries.0.len(),
                &[&entries.0, &entries.1, &fence, &number, &entries.2],
            )
            .await
        },
        async { execute(client, &statements.forget_records, gone.0.len(), &[&gone.0, &gone.1, &gone.2]).await },
        async { execute(client, &statements.put_records, kept.0.len(), &[&kept.0, &kept.1, &kept.2, &kept.3]).await },
        async {
            let parameters: [&(dyn ToSql + Sync); 3] = [&withdrawn.0, &withdrawn.1, &withdrawn.2];
            execute(client, &statements.withdraw, withdrawn.0.len(), &parameters).await
        },
        put_slots(client, statements, &batch.slots),
        put_loads(client, statements, &batch.slots),
        put_periods(client, &statements.put_hours, &batch.hours),
        put_periods(client, &statements.put_days, &batch.days),
        async { execute(client, &statements.put_sent, sent.0.len(), &[&sent.0, &sent.1]).await },
        commit,
    );
    // The first one that failed is the reason why the others did.
    let (begin, fenced, a, b, c, d, e, f, g, h, i, j, commit) = results;
    begin.map_err(words)?;
    for result in [fenced, a, b, c, d, e, f, g, h, i, j] {
        result.map_err(words)?;
    }
    commit.map_err(words)?;
    // By itself: it may take long, and can be repeated.
    expire.await.map_err(words)?;
    Ok(())
}

/// Sends a statement as soon as it is polled, unless there is nothing to do.
async fn execute(
    client: &Client,
    statement: &Statement,
    rows: usize,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, tokio_postgres::Error> {
    if rows == 0 { Ok(0) } else { client.execute(statement, parameters).await }
}

async fn put_slots(
    client: &Client,
    statements: &Statements,
    rows: &BTreeMap<At, SlotRow>,
) -> Result<u64, tokio_postgres::Error> {
    let closed = |((cluster, _), row): (&'_ At, &'_ SlotRow)| {
        let outcome = row.outcome?;
        let load = row.filtered;
        let (filtered, predicted) = if outcome.result.is_ok() { (load, None) } else { (None, load) };
        Some((
            cluster.clone(),
            ClosedSlot { outcome, filtered, smoothed: row.smoothed, predicted, cut_off: row.cut_off },
        ))
    };
    let all: Vec<(String, ClosedSlot)> = rows.iter().filter_map(closed).collect();
    let watts = |load: fn(&ClosedSlot) -> Option<Load>| column(&all, |(_, slot)| load(slot).map(|load| load.watts));
    let band =
        |load: fn(&ClosedSlot) -> Option<Load>| column(&all, |(_, slot)| load(slot).map(|load| signed(load.band95)));
    let loads = |of: fn(&ClosedSlot) -> Option<FilteredLoad>| {
        (
            column(&all, |(_, slot)| of(slot).map(|load| load.watts)),
            column(&all, |(_, slot)| of(slot).map(|load| signed(load.band95))),
        )
    };
    let (filtered, smoothed) = (loads(|slot| slot.filtered.or(slot.predicted)), loads(|slot| slot.smoothed));
    let parameters: [&(dyn ToSql + Sync); 17] = [
        &column(&all, |(cluster, _)| cluster.as_str()),
        &column(&all, |(_, slot)| moment(slot.outcome.end)),
        &column(&all, |(_, slot)| moment(slot.outcome.start)),
        &column(&all, |(_, slot)| signed(slot.outcome.epoch)),
        &column(&all, |(_, slot)| i32::from(slot.outcome.members)),
        &column(&all, |(_, slot)| i32::from(slot.outcome.responders)),
        &column(&all, |(_, slot)| slot.label()),
        &watts(ClosedSlot::sum),
        &band(ClosedSlot::sum),
        &watts(ClosedSlot::estimate),
        &band(ClosedSlot::estimate),
        &filtered.0,
        &filtered.1,
        &smoothed.0,
        &smoothed.1,
        &column(&all, |(_, slot)| slot.cut_off.map(|cut_off| cut_off.to_bytes().to_vec())),
        &column(&all, |(_, slot)| Record::Outcome(slot.outcome).encode().to_vec()),
    ];
    execute(client, &statements.put_slots, all.len(), &parameters).await
}

/// Adds what the filter makes of slots that were stored before.
async fn put_loads(
    client: &Client,
    statements: &Statements,
    rows: &BTreeMap<At, SlotRow>,
) -> Result<u64, tokio_postgres::Error> {
    let all: Vec<_> = rows.iter().filter(|(_, row)| row.outcome.is_none()).collect();
    let parameters: [&(dyn ToSql + Sync); 6] = [
        &column(&all, |((cluster, _), _)| cluster.as_str()),
        &column(&all, |((_, end), _)| moment(*end)),
        &column(&all, |(_, row)| row.filtered.map(|load| load.watts)),
        &column(&all, |(_, row)| row.filtered.map(|load| signed(load.band95))),
        &column(&all, |(_, row)| row.smoothed.map(|load| load.watts)),
        &column(&all, |(_, row)| row.smoothed.map(|load| signed(load.band95))),
    ];
    execute(client, &statements.put_loads, all.len(), &parameters).await
}

async fn put_periods(
    client: &Client,
    statement: &Statement,
    rows: &BTreeMap<At, Rollup>,
) -> Result<u64, tokio_postgres::Error> {
    let seconds = |millis: u64| millis as f64 / 1000.0;
    let parameters: [&(dyn ToSql + Sync); 10] = [
        &column(rows, |((cluster, _), _)| cluster.as_str()),
        &column(rows, |(_, row)| moment(row.start)),
        &column(rows, |(_, row)| moment(row.end)),
        &column(rows, |(_, row)| row.energy_watt_hours()),
        &column(rows, |(_, row)| row.band95_watt_hours()),
        &column(rows, |(_, row)| seconds(row.measured_millis)),
        &column(rows, |(_, row)| seconds(row.filled_millis)),
        &column(rows, |(_, row)| signed(row.slots)),
        &column(rows, |(_, row)| signed(row.decoded)),
        &column(rows, |(_, row)| row.encode()),
    ];
    execute(client, statement, rows.len(), &parameters).await
}

/// Returns a value of every row, as PostgreSQL's arrays take them.
fn column<R: IntoIterator, T>(rows: R, value: impl FnMut(R::Item) -> T) -> Vec<T> {
    rows.into_iter().map(value).collect()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
