//! Why meters say that they are silent, until they are heard again.

use std::collections::BTreeMap;

use dream_protocol::ids::MeterId;
use dream_protocol::membership::MembershipList;
use dream_protocol::wire::StatusCode;

use crate::board::StatusCount;

/// The last status of every meter of a cluster that was not heard since. At most one for each enrolled meter: a machine
/// refuses the statuses of others.
#[derive(Debug, Clone, Default)]
pub struct Statuses {
    said: BTreeMap<MeterId, Said>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said {
    code: StatusCode,
    /// Of the list that it is about.
    epoch: Option<u64>,
}

impl Statuses {
    /// Notes what a meter says; returns whether it is news.
    pub fn note(&mut self, meter: &MeterId, code: StatusCode, epoch: Option<u64>) -> bool {
        let said = Said { code, epoch };
        let known = self.said.get(meter).map(|known| known.code);
        // A meter that refuses a list reports in every slot that it has none; its first report says why.
        let follows = code == StatusCode::NoList
            && matches!(known, Some(StatusCode::ListRefused | StatusCode::RecordLost | StatusCode::NotListed));
        !follows && self.said.insert(meter.clone(), said) != Some(said)
    }

    /// Forgets what a meter said, because a reading of it came under the list of `epoch`; returns whether there was
    /// anything. What it said about a later list still holds.
    pub fn heard(&mut self, meter: &str, epoch: Option<u64>) -> bool {
        let over = self.said.get(meter).is_some_and(|said| said.epoch <= epoch);
        over && self.said.remove(meter).is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Counts the members of a list by what they say about it; `current` takes in what is about no list.
    pub fn count(&self, list: &MembershipList, current: bool) -> Vec<StatusCount> {
        let mut counts: BTreeMap<StatusCode, usize> = BTreeMap::new();
        for (meter, said) in &self.said {
            let about = said.epoch.map_or(current, |epoch| epoch == list.epoch());
            if about && list.index_of(meter.as_str()).is_some() {
                *counts.entry(said.code).or_default() += 1;
            }
        }
        let of = list.members().len();
        let count = |(code, meters)| StatusCount { code, epoch: list.epoch(), meters, of };
        counts.into_iter().map(count).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn meter() -> MeterId {
        MeterId::new("m-1").unwrap()
    }

    #[test]
    fn a_refused_list_is_not_hidden_by_having_none() {
        let mut statuses = Statuses::default();
        assert!(statuses.note(&meter(), StatusCode::NoList, None));
        assert!(!statuses.note(&meter(), StatusCode::NoList, None), "no news");
        assert!(statuses.note(&meter(), StatusCode::ListRefused, Some(1)));
        assert!(!statuses.note(&meter(), StatusCode::NoList, None));
        assert_eq!(statuses.said[&meter()], Said { code: StatusCode::ListRefused, epoch: Some(1) });
    }

    #[test]
    fn a_reading_ends_a_status_but_not_one_about_a_later_list() {
        let mut statuses = Statuses::default();
        statuses.note(&meter(), StatusCode::ListRefused, Some(2));
        assert!(!statuses.heard("m-1", Some(1)));
        assert!(statuses.heard("m-1", Some(2)));
        assert!(statuses.is_empty());
        statuses.note(&meter(), StatusCode::ClockDoubtful, None);
        assert!(statuses.heard("m-1", Some(1)) && !statuses.heard("m-1", Some(1)));
    }
}
