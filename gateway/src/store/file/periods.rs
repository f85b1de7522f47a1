//! Reading hours and days.

use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use redb::{AccessGuard, ReadOnlyTable, ReadableDatabase as _, StorageError, TableError};

use super::schema::{self, OUTCOMES};
use super::{Extent, FileStore, Rollup, Step, StoreError};
use crate::clock::rfc3339;
use crate::history::Span;

/// A table by cluster and time.
type Table = ReadOnlyTable<(&'static str, u64), &'static [u8]>;
type Row<'a> = (AccessGuard<'a, (&'static str, u64)>, AccessGuard<'a, &'static [u8]>);

impl FileStore {
    pub(super) fn read_clusters(&self) -> Result<Vec<ClusterId>, StoreError> {
        let mut found = clusters_in(&self.database()?.begin_read()?.open_table(OUTCOMES)?)?;
        if let Some(days) = self.rollup_table(Step::Day)? {
            found.extend(clusters_in(&days)?);
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    pub(super) fn read_rollups(
        &self,
        cluster: &ClusterId,
        step: Step,
        begun: Span,
        limit: usize,
    ) -> Result<Vec<Rollup>, StoreError> {
        let Some(table) = self.rollup_table(step)? else { return Ok(Vec::new()) };
        let range = (cluster.as_str(), begun.start.as_millis())..(cluster.as_str(), begun.end.as_millis());
        let newest = table.range(range)?.rev().take(limit);
        let mut found = newest.map(|row| rollup(step, row)).collect::<Result<Vec<_>, _>>()?;
        found.reverse();
        Ok(found)
    }

    pub(super) fn read_extent(&self, cluster: &ClusterId) -> Result<Option<Extent>, StoreError> {
        let Some(days) = self.rollup_table(Step::Day)? else { return Ok(None) };
        let mut all = days.range((cluster.as_str(), 0)..=(cluster.as_str(), u64::MAX))?;
        let Some(first) = all.next() else { return Ok(None) };
        let first = rollup(Step::Day, first)?;
        // After a change of the time zone days may overlap.
        let mut until = first.last;
        for day in all.rev().take(3) {
            until = until.max(rollup(Step::Day, day)?.last);
        }
        Ok(Some(Extent { begun: first.first, until }))
    }

    /// Returns the rows of a step; `None` if the store was written only by versions before them.
    fn rollup_table(&self, step: Step) -> Result<Option<Table>, StoreError> {
        match self.database()?.begin_read()?.open_table(schema::rollups(step)) {
            Ok(table) => Ok(Some(table)),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the clusters of a table, without reading all of it.
fn clusters_in(table: &Table) -> Result<Vec<ClusterId>, StoreError> {
    let mut found: Vec<ClusterId> = Vec::new();
    loop {
        let after = found.last().map_or(("", 0), |last| (last.as_str(), u64::MAX));
        let next = table.range(after..)?.find(|entry| {
            entry.as_ref().map_or(true, |(key, _)| found.last().is_none_or(|last| key.value().0 != last.as_str()))
        });
        let Some(entry) = next else { return Ok(found) };
        let Ok(cluster) = ClusterId::new(entry?.0.value().0) else { return Ok(found) };
        found.push(cluster);
    }
}

fn rollup(step: Step, row: Result<Row<'_>, StorageError>) -> Result<Rollup, StoreError> {
    let (key, row) = row?;
    let (cluster, start) = key.value();
    let start = Timestamp::from_millis(start);
    let wrong = || StoreError::Row { cluster: cluster.to_owned(), step: step.as_str(), start: rfc3339(start) };
    Rollup::decode(start, row.value()).ok_or_else(wrong)
}
