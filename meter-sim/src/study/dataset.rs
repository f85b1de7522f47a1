//! The loads that the study looks at: of simulated homes, or of a file of one's own.

use crate::home::{ActivityModel, Day, DayKind, DayTrace, Home, Minutes, Month, Residents};
use crate::readings::Readings;
use crate::slots::SlotLength;
use crate::street::{self, all_cores, in_parallel};

/// The day that the paper looks at, a weekday in November.
const DAY: u32 = 1;

/// The homes of the study.
#[derive(Debug)]
pub struct Dataset {
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    Model { seed: u64, homes: Vec<Home>, totals: Vec<Minutes> },
    Own { readings: Readings, slot: SlotLength },
}

/// The mean loads of homes in the slots of one day or more, in watts: `watts[home][slot]`.
#[derive(Debug, Clone)]
pub struct Loads {
    pub slot: SlotLength,
    pub watts: Vec<Vec<f64>>,
}

impl Dataset {
    /// So many simulated homes of one to five residents.
    pub fn model(seed: u64, homes: u32, activities: ActivityModel) -> Self {
        let residents = Residents::between(1, 5).expect("of one to five");
        let homes = street::homes(seed, homes, residents, activities);
        let totals = in_parallel(all_cores(), &homes, |home| home.day(day(DAY)).total());
        Self { origin: Origin::Model { seed, homes, totals } }
    }

    /// The homes of a file, whose rows are slots of this length.
    pub fn own(readings: Readings, slot: SlotLength) -> Self {
        Self { origin: Origin::Own { readings, slot } }
    }

    pub fn homes(&self) -> usize {
        match &self.origin {
            Origin::Model { homes, .. } => homes.len(),
            Origin::Own { readings, .. } => readings.homes(),
        }
    }

    /// The same simulated homes with another idea of what their residents do. A file has no such thing.
    pub fn with_activities(&self, activities: ActivityModel) -> Option<Self> {
        let Origin::Model { seed, homes, .. } = &self.origin else { return None };
        Some(Self::model(*seed, u32::try_from(homes.len()).expect("counted in u32"), activities))
    }

    /// The paper's day in slots of this length; of a file, all of it. None if the file's rows do not make such slots.
    pub fn loads(&self, slot: SlotLength) -> Option<Loads> {
        let watts = match &self.origin {
            Origin::Model { totals, .. } => in_parallel(all_cores(), totals, |total| as_f64(&slot.means(total))),
            Origin::Own { readings, slot: own } => {
                let rows =
                    slot.seconds().is_multiple_of(own.seconds()).then(|| slot.seconds() / own.seconds())? as usize;
                let joined = |rows: &[i64]| rows.iter().sum::<i64>() as f64 / rows.len() as f64;
                let home = |home| readings.column(home).chunks_exact(rows).map(joined).collect();
                (0..readings.homes()).map(home).collect()
            }
        };
        Some(Loads { slot, watts }).filter(|loads| loads.slots() > 0)
    }

    /// What every device of every home did on the paper's day: `work` gets each home with its day. Only of the model.
    pub fn each_day<T: Send>(&self, work: impl Fn(&Home, &DayTrace) -> T + Sync) -> Option<Vec<T>> {
        let Origin::Model { homes, .. } = &self.origin else { return None };
        Some(in_parallel(all_cores(), homes, |home| work(home, &home.day(day(DAY)))))
    }

    /// The loads of some homes, summed, on several days in a row: `sums[day][slot]`. Of a file, its whole days.
    pub fn summed_days(&self, members: &[usize], days: u32, slot: SlotLength) -> Option<Vec<Vec<f64>>> {
        match &self.origin {
            Origin::Model { homes, .. } => {
                let numbers: Vec<u32> = (DAY..DAY + days).collect();
                Some(in_parallel(all_cores(), &numbers, |&number| {
                    let loads = members.iter().map(|&home| slot.means(&homes[home].day(day(number)).total()));
                    sum(slot.per_day(), loads.map(|load| as_f64(&load)))
                }))
            }
            Origin::Own { .. } => {
                let loads = self.loads(slot)?;
                let whole = sum(loads.slots(), members.iter().map(|&home| loads.watts[home].clone()));
                let days: Vec<Vec<f64>> =
                    whole.chunks_exact(slot.per_day()).take(days as usize).map(<[f64]>::to_vec).collect();
                Some(days).filter(|days| !days.is_empty())
            }
        }
    }

    /// The slot length of a file; ten minutes of the model, as in the paper.
    pub fn slot(&self) -> SlotLength {
        match &self.origin {
            Origin::Model { .. } => SlotLength::new(600).expect("divides a day"),
            Origin::Own { slot, .. } => *slot,
        }
    }

    pub fn is_model(&self) -> bool {
        matches!(self.origin, Origin::Model { .. })
    }
}

impl Loads {
    pub fn homes(&self) -> usize {
        self.watts.len()
    }

    pub fn slots(&self) -> usize {
        self.watts[0].len()
    }

    /// The homes by how much they use, the smallest first.
    pub fn by_consumption(&self) -> Vec<usize> {
        let used: Vec<f64> = self.watts.iter().map(|watts| watts.iter().sum()).collect();
        let mut homes: Vec<usize> = (0..self.homes()).collect();
        homes.sort_by(|&a, &b| used[a].total_cmp(&used[b]).then(a.cmp(&b)));
        homes
    }

    /// How many slots make this many seconds.
    pub fn slots_in(&self, seconds: u32) -> usize {
        (seconds / self.slot.seconds()) as usize
    }
}

fn day(number: u32) -> Day {
    Day { number, month: Month::new(11).expect("of twelve"), kind: DayKind::Weekday }
}

fn as_f64(watts: &[i64]) -> Vec<f64> {
    watts.iter().map(|&watts| watts as f64).collect()
}

fn sum(slots: usize, loads: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    loads.fold(vec![0.0; slots], |mut sum, load| {
        sum.iter_mut().zip(load).for_each(|(sum, watts)| *sum += watts);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(count: u32) -> SlotLength {
        SlotLength::new(count * 60).unwrap()
    }

    fn own(text: &str, slot: SlotLength) -> Dataset {
        Dataset::own(Readings::parse(text, "own.csv".as_ref()).unwrap(), slot)
    }

    #[test]
    fn a_file_is_read_in_its_own_slots_or_longer_ones() {
        let data = own("1,10\n3,30\n5,50\n", minutes(5));
        assert_eq!(data.loads(minutes(5)).unwrap().watts, [[1.0, 3.0, 5.0], [10.0, 30.0, 50.0]]);
        assert_eq!(data.loads(minutes(10)).unwrap().watts, [[2.0], [20.0]]);
        assert!(data.loads(minutes(1)).is_none(), "no finer than the file");
        assert!(data.loads(minutes(20)).is_none(), "no slot of that length is whole");
        assert!(data.each_day(|_, _| ()).is_none() && data.with_activities(ActivityModel::Pooled).is_none());
    }

    #[test]
    fn days_of_a_file_are_its_whole_days() {
        let rows: String = (0..30).map(|hour| format!("{hour},1\n")).collect();
        let data = own(&rows, minutes(60));
        let days = data.summed_days(&[0, 1], 9, minutes(60)).unwrap();
        assert_eq!(days.len(), 1);
        assert_eq!(days[0][23], 24.0);
    }

    #[test]
    fn the_model_repeats_itself_and_its_first_day_is_the_papers() {
        let data = Dataset::model(1, 12, ActivityModel::Crest);
        let loads = data.loads(data.slot()).unwrap();
        let days = data.summed_days(&[2, 3], 2, data.slot()).unwrap();
        let expected: Vec<f64> = (0..144).map(|slot| loads.watts[2][slot] + loads.watts[3][slot]).collect();
        assert_eq!(days[0], expected);
        assert_ne!(days[0], days[1]);
        let order = loads.by_consumption();
        let used = |home: usize| loads.watts[home].iter().sum::<f64>();
        assert!(order.windows(2).all(|pair| used(pair[0]) <= used(pair[1])));
    }
}
