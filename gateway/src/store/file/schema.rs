//! The tables, and how changes get into them.
//!
//! A slot's entries are small and many, and come and go together. So the entries of one commit are one value, and a slot
//! with ten thousand readings is a few dozen rows instead of ten thousand.

use std::collections::BTreeMap;

use dream_edge::cut_off::CutOff;
use dream_edge::database::Formats;
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::{Forget, Record};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::{Slot, Timestamp};
use redb::{ReadableTable as _, Table, TableDefinition, Value, WriteTransaction};
use zeroize::Zeroizing;

use super::{Change, FilteredLoad, Step, StoreError};
use crate::store::{append, slot_of};

/// Brings the tables of one format to the next.
pub(super) type Migration = fn(&WriteTransaction) -> Result<(), StoreError>;

/// The versions of everything below; 0.1.0 wrote the oldest. A table that an older version does not know, and need not, is no new format:
/// it leaves the table alone.
pub(super) const FORMATS: Formats<Migration> = Formats { oldest: 3, steps: &[] };

pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// By cluster and meter.
pub(super) const ENROLMENTS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("enrolments");
/// By cluster and epoch. Holds keys.
pub(super) const LISTS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("lists");
/// By cluster, slot, and the number of the commit.
pub(super) const SLOTS: TableDefinition<'_, (&str, u64, u64), &[u8]> = TableDefinition::new("slots");
/// By cluster and the end of the slot in Unix milliseconds: slots of different lengths stay in order.
pub(super) const OUTCOMES: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("outcomes");
/// By the same key as its outcome: the watts of the filtered load, and of its band.
pub(super) const FILTERED: TableDefinition<'_, (&str, u64), (i64, u64)> = TableDefinition::new("filtered");
/// By the same key: the same an hour later.
pub(super) const SMOOTHED: TableDefinition<'_, (&str, u64), (i64, u64)> = TableDefinition::new("smoothed");
/// By the same key: what its meters are expected to have cut off, and its deviations, in millionths.
pub(super) const CUT_OFFS: TableDefinition<'_, (&str, u64), (i32, u32, u32, u32)> = TableDefinition::new("cut_offs");
/// By cluster and the start of the period in Unix milliseconds: the energy of an hour or a day.
pub(super) const HOURS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("hours");
pub(super) const DAYS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("days");
/// By cluster: what is known of members that spoil slots.
pub(super) const OFFENDERS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("offenders");
/// By cluster: what was spent on attempts beyond the first.
pub(super) const RETRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("retries");
/// By cluster and number: messages of a gateway that contradict each other.
pub(super) const EVIDENCE: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("evidence");

/// By cluster: until when slots were written to a receiver, in Unix milliseconds.
pub(super) const SENT: TableDefinition<'_, &str, u64> = TableDefinition::new("sent");

/// Returns the table of the rows of a step.
pub(super) const fn rollups(step: Step) -> TableDefinition<'static, (&'static str, u64), &'static [u8]> {
    match step {
        Step::Hour => HOURS,
        Step::Day => DAYS,
    }
}

/// The tables in one write transaction.
pub(super) struct Tables<'txn> {
    meta: Table<'txn, &'static str, u64>,
    enrolments: Table<'txn, (&'static str, &'static str), &'static [u8]>,
    lists: Table<'txn, (&'static str, u64), &'static [u8]>,
    slots: Table<'txn, (&'static str, u64, u64), &'static [u8]>,
    outcomes: Table<'txn, (&'static str, u64), &'static [u8]>,
    filtered: Table<'txn, (&'static str, u64), (i64, u64)>,
    smoothed: Table<'txn, (&'static str, u64), (i64, u64)>,
    cut_offs: Table<'txn, (&'static str, u64), (i32, u32, u32, u32)>,
    hours: Table<'txn, (&'static str, u64), &'static [u8]>,
    days: Table<'txn, (&'static str, u64), &'static [u8]>,
    offenders: Table<'txn, &'static str, &'static [u8]>,
    retries: Table<'txn, &'static str, &'static [u8]>,
    evidence: Table<'txn, (&'static str, u64), &'static [u8]>,
    sent: Table<'txn, &'static str, u64>,
}

impl<'txn> Tables<'txn> {
    pub(super) fn open(write: &'txn WriteTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            meta: write.open_table(META)?,
            enrolments: write.open_table(ENROLMENTS)?,
            lists: write.open_table(LISTS)?,
            slots: write.open_table(SLOTS)?,
            outcomes: write.open_table(OUTCOMES)?,
            filtered: write.open_table(FILTERED)?,
            smoothed: write.open_table(SMOOTHED)?,
            cut_offs: write.open_table(CUT_OFFS)?,
            hours: write.open_table(HOURS)?,
            days: write.open_table(DAYS)?,
            offenders: write.open_table(OFFENDERS)?,
            retries: write.open_table(RETRIES)?,
            evidence: write.open_table(EVIDENCE)?,
            sent: write.open_table(SENT)?,
        })
    }

    pub(super) fn apply(mut self, changes: &[Change]) -> Result<(), StoreError> {
        let mut entries: BTreeMap<(&ClusterId, Slot), Zeroizing<Vec<u8>>> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Put(cluster, record) => match slot_of(record) {
                    Some(slot) => append(entries.entry((cluster, slot)).or_default(), &record.encode()),
                    None => self.put(cluster, record)?,
                },
                Change::Forget(cluster, forget) => {
                    if let Forget::Slot(slot) = forget {
                        entries.remove(&(cluster, *slot));
                    }
                    self.forget(cluster, forget)?;
                }
                Change::PutFiltered { cluster, end, filtered: FilteredLoad { watts, band95 } } => {
                    self.filtered.insert((cluster.as_str(), end.as_millis()), (*watts, *band95))?;
                }
                Change::PutSmoothed { cluster, end, smoothed: FilteredLoad { watts, band95 } } => {
                    self.smoothed.insert((cluster.as_str(), end.as_millis()), (*watts, *band95))?;
                }
                Change::PutCutOff { cluster, end, cut_off: CutOff { share, lasting, daily, passing } } => {
                    self.cut_offs.insert((cluster.as_str(), end.as_millis()), (*share, *lasting, *daily, *passing))?;
                }
                Change::PutRollup { cluster, step, rollup } => {
                    let table = match step {
                        Step::Hour => &mut self.hours,
                        Step::Day => &mut self.days,
                    };
                    table.insert((cluster.as_str(), rollup.start.as_millis()), rollup.encode().as_slice())?;
                }
                Change::PutSent { cluster, until } => drop(self.sent.insert(cluster.as_str(), until.as_millis())?),
                Change::Expire { slots, hours } => {
                    expire(&mut self.outcomes, *slots)?;
                    expire(&mut self.filtered, *slots)?;
                    expire(&mut self.smoothed, *slots)?;
                    expire(&mut self.cut_offs, *slots)?;
                    expire(&mut self.hours, *hours)?;
                }
            }
        }
        if entries.is_empty() {
            return Ok(());
        }
        let number = self.meta.get("commits")?.map_or(0, |last| last.value()) + 1;
        self.meta.insert("commits", number)?;
        for ((cluster, slot), bytes) in entries {
            self.slots.insert((cluster.as_str(), slot.0, number), bytes.as_slice())?;
        }
        Ok(())
    }

    fn put(&mut self, cluster: &ClusterId, record: &Record) -> Result<(), StoreError> {
        let (id, bytes) = (cluster.as_str(), record.encode());
        match record {
            Record::Enrolment { meter, .. } => drop(self.enrolments.insert((id, meter.as_str()), bytes.as_slice())?),
            Record::List(list) => drop(self.lists.insert((id, list.epoch()), bytes.as_slice())?),
            Record::Outcome(outcome) => drop(self.outcomes.insert((id, outcome.end.as_millis()), bytes.as_slice())?),
            Record::Offenders(_) => drop(self.offenders.insert(id, bytes.as_slice())?),
            Record::Retries(_) => drop(self.retries.insert(id, bytes.as_slice())?),
            Record::Evidence { number, .. } => drop(self.evidence.insert((id, u64::from(*number)), bytes.as_slice())?),
            Record::Retry { .. }
            | Record::Reading { .. }
            | Record::Dealt { .. }
            | Record::Request { .. }
            | Record::Reveal { .. }
            | Record::Answer { .. } => {
                unreachable!("an entry of a slot is collected with the others of its commit")
            }
        }
        Ok(())
    }

    /// Removes an outcome with its loads, and the rows from its day on, which are made anew from the outcomes that stay.
    fn withdraw(&mut self, id: &str, outcome: &SlotOutcome) -> Result<(), StoreError> {
        let key = (id, outcome.end.as_millis());
        self.outcomes.remove(key)?;
        self.filtered.remove(key)?;
        self.smoothed.remove(key)?;
        self.cut_offs.remove(key)?;
        let begun = (id, 0)..=(id, outcome.start.as_millis());
        let day = self.days.range(begun)?.next_back().transpose()?.map(|(key, _)| key.value().1);
        let from = day.unwrap_or(outcome.start.as_millis());
        self.days.retain_in((id, from)..=(id, u64::MAX), |_, _| false)?;
        self.hours.retain_in((id, from)..=(id, u64::MAX), |_, _| false)?;
        Ok(())
    }

    fn forget(&mut self, cluster: &ClusterId, forget: &Forget) -> Result<(), StoreError> {
        match forget {
            Forget::Enrolment(meter) => drop(self.enrolments.remove((cluster.as_str(), meter.as_str()))?),
            Forget::List(epoch) => drop(self.lists.remove((cluster.as_str(), *epoch))?),
            Forget::Slot(slot) => {
                let all = (cluster.as_str(), slot.0, 0)..=(cluster.as_str(), slot.0, u64::MAX);
                self.slots.retain_in(all, |_, _| false)?;
            }
            Forget::Outcome(outcome) => self.withdraw(cluster.as_str(), outcome)?,
        }
        Ok(())
    }
}

/// Drops what is kept of slots that ended, or hours that began, before this, of all clusters.
fn expire<V: Value>(table: &mut Table<'_, (&'static str, u64), V>, before: Timestamp) -> Result<(), StoreError> {
    let mut after = (String::new(), 0);
    loop {
        let next = table.range((after.0.as_str(), after.1)..)?.next().transpose()?;
        let Some(cluster) = next.map(|(key, _)| key.value().0.to_owned()) else { return Ok(()) };
        table.retain_in((cluster.as_str(), 0)..(cluster.as_str(), before.as_millis()), |_, _| false)?;
        // Nothing ends at the very end of time: the next range begins with the next cluster.
        after = (cluster, u64::MAX);
    }
}
