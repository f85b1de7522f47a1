//! What a store holds, in numbers: every row of it is read and understood on the way.

use std::collections::BTreeMap;

use dream_protocol::cluster::{Key, Record};
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use redb::{ReadableDatabase as _, ReadableTable as _, TableError};

use super::copy::MADE;
use super::schema::{ENROLMENTS, LISTS};
use super::{FileStore, Store as _, StoreError};
use crate::history::{Span, Step};

/// What a store holds.
#[derive(Debug, Default)]
pub struct Summary {
    /// What a back-up says of itself: by which gateway it was made, and when. Empty for any other file.
    pub made: BTreeMap<String, String>,
    /// How many lists have the gateway's key, and how many slots are open: none in a back-up.
    pub keys: usize,
    pub open_slots: usize,
    pub clusters: BTreeMap<ClusterId, ClusterSummary>,
}

/// What it holds of one cluster.
#[derive(Debug, Default)]
pub struct ClusterSummary {
    pub enrolments: usize,
    /// The newest epoch.
    pub epoch: Option<u64>,
    pub slots: usize,
    /// When the first and the newest of them ended.
    pub ended: Option<(Timestamp, Timestamp)>,
    pub hours: usize,
    pub days: usize,
}

impl FileStore {
    /// Reads every row.
    pub fn summary(&self) -> Result<Summary, StoreError> {
        let read = self.database()?.begin_read()?;
        let mut summary = Summary::default();
        match read.open_table(MADE) {
            Ok(made) => {
                for row in made.iter()? {
                    let (name, value) = row?;
                    summary.made.insert(name.value().to_owned(), value.value().to_owned());
                }
            }
            Err(TableError::TableDoesNotExist(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let mut clusters = self.clusters()?;
        // Those that gave no slot yet.
        for row in read.open_table(ENROLMENTS)?.iter()? {
            clusters.extend(ClusterId::new(row?.0.value().0).ok());
        }
        for row in read.open_table(LISTS)?.iter()? {
            clusters.extend(ClusterId::new(row?.0.value().0).ok());
        }
        for cluster in clusters {
            if !summary.clusters.contains_key(&cluster) {
                let of_cluster = self.summary_of(&cluster, &mut summary)?;
                summary.clusters.insert(cluster, of_cluster);
            }
        }
        Ok(summary)
    }

    fn summary_of(&self, cluster: &ClusterId, all: &mut Summary) -> Result<ClusterSummary, StoreError> {
        let ever = || -> Span { Timestamp::from_millis(0)..Timestamp::from_millis(u64::MAX) };
        let mut of_cluster = ClusterSummary::default();
        let mut last_open = None;
        for record in self.records(cluster)? {
            match (record.key(), &record) {
                (Key::Enrolment(_), _) => of_cluster.enrolments += 1,
                (Key::List(epoch), record) => {
                    of_cluster.epoch = of_cluster.epoch.max(Some(epoch));
                    all.keys += usize::from(matches!(record, Record::List(list) if list.has_key()));
                }
                (Key::Slot(slot, ..), _) => {
                    all.open_slots += usize::from(last_open != Some(slot));
                    last_open = Some(slot);
                }
                (Key::Outcome(_) | Key::Offenders | Key::Retries | Key::Evidence(_), _) => {}
            }
        }
        let slots = self.read_slots(cluster, ever(), usize::MAX)?;
        of_cluster.slots = slots.len();
        of_cluster.ended = slots.first().zip(slots.last()).map(|(first, last)| (first.outcome.end, last.outcome.end));
        of_cluster.hours = self.read_rollups(cluster, Step::Hour, ever(), usize::MAX)?.len();
        of_cluster.days = self.read_rollups(cluster, Step::Day, ever(), usize::MAX)?.len();
        Ok(of_cluster)
    }
}
