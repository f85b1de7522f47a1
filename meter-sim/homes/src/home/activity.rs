//! How probable it is that somebody in the home is doing something that switches an appliance on.

use std::sync::LazyLock;

use super::calendar::DayKind;
use super::hours::{Hours, logit, sigmoid};
use super::occupancy::{MOST_RESIDENTS, SLOTS};
use super::table;

/// What residents do that needs an appliance. In the order of the tables' columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    Tv,
    Cooking,
    Laundry,
    WashDress,
    Iron,
    HouseClean,
}

const ACTIVITIES: usize = 6;

/// Where the probabilities of activities come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ActivityModel {
    /// Each activity by the time of day, as time-use surveys have it
    #[default]
    Crest,
    /// One probability for all activities at all times, which fits how many homes use an appliance in the DREAM paper
    Pooled,
}

impl ActivityModel {
    /// The probability that the active residents of a home are doing this.
    pub(super) fn probability(self, kind: DayKind, activity: Activity, active: u8, slot: usize) -> f64 {
        const POOLED: [f64; 6] = [0.0, 0.085, 0.130, 0.162, 0.193, 0.195];
        match self {
            Self::Crest => kind.choose(&PROBABILITIES)[activity as usize][usize::from(active)][slot],
            Self::Pooled => POOLED[usize::from(active)],
        }
    }
}

/// By activity, number of active residents and slot.
type Probabilities = [[[f64; SLOTS]; MOST_RESIDENTS as usize + 1]; ACTIVITIES];

static PROBABILITIES: LazyLock<[Box<Probabilities>; 2]> = LazyLock::new(|| {
    [
        tabulate(include_str!("data/activity_hours_weekday.csv"), include_str!("data/activity_sharing_weekday.csv")),
        tabulate(include_str!("data/activity_hours_weekend.csv"), include_str!("data/activity_sharing_weekend.csv")),
    ]
});

/// `1 - (1 - p)^g`: p is one person's probability, and g tells how many persons count as that many independent ones.
fn tabulate(hours: &'static str, sharing: &'static str) -> Box<Probabilities> {
    let one: Vec<[f64; ACTIVITIES]> = table::rows(hours).map(|row| table::numbers(&row, 1)).collect();
    let sharing: Vec<[f64; MOST_RESIDENTS as usize]> =
        table::rows(sharing).map(|row| table::numbers(&row, 1)).collect();
    Box::new(std::array::from_fn(|activity| {
        let logits = Hours(std::array::from_fn(|hour| logit(one[hour][activity])));
        std::array::from_fn(|active| {
            let persons = if active == 0 { 0.0 } else { sharing[activity][active - 1] };
            std::array::from_fn(|slot| 1.0 - (1.0 - sigmoid(logits.at((slot as f64 + 0.5) / 6.0))).powf(persons))
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probability(activity: Activity, active: u8, slot: usize) -> f64 {
        ActivityModel::Crest.probability(DayKind::Weekday, activity, active, slot)
    }

    #[test]
    fn nobody_does_nothing() {
        for model in [ActivityModel::Crest, ActivityModel::Pooled] {
            assert_eq!(model.probability(DayKind::Weekend, Activity::Tv, 0, 120), 0.0);
        }
    }

    #[test]
    fn one_person_follows_the_table() {
        // Slots 122 and 123 have their centres five minutes before and after half past eight in the evening.
        let around = [122, 123].map(|slot| probability(Activity::Tv, 1, slot));
        assert!(around[0] < 0.4556 && 0.4556 < around[1] && around[1] - around[0] < 0.02, "{around:?}");
    }

    #[test]
    fn two_persons_watch_more_television_than_one_but_share_it() {
        let [one, two] = [1, 2].map(|active| probability(Activity::Tv, active, 120));
        assert!((two - (1.0 - (1.0 - one).powf(1.79))).abs() < 1e-12);
        assert!(one < two && two < 2.0 * one);
    }

    #[test]
    fn pooled_knows_neither_time_nor_activity() {
        let pooled = |activity, slot| ActivityModel::Pooled.probability(DayKind::Weekday, activity, 2, slot);
        assert_eq!(pooled(Activity::Iron, 20), 0.130);
        assert_eq!(pooled(Activity::Tv, 120), 0.130);
    }
}
