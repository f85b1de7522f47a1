//! The loads that the study looks at: of simulated homes, or of a file of one's own.

use std::sync::{Arc, OnceLock};

use dream_homes::home::{ActivityModel, Calendar, DayKind, DayTrace, Home, Minutes, PvShare};
use dream_homes::readings::Readings;
use dream_homes::slots::SlotLength;
use dream_homes::street::{self, all_cores, in_parallel};

/// The day that the paper looks at, a weekday, in November unless another month is asked for.
const DAY: u32 = 1;

/// The homes of the study.
#[derive(Debug, Clone)]
pub struct Dataset {
    origin: Arc<Origin>,
    feed_in: Option<FeedIn>,
}

/// Readings below 0, in the data's own slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedIn {
    pub readings: usize,
    /// The lowest, in watts.
    pub lowest: i64,
}

#[derive(Debug)]
enum Origin {
    Model {
        seed: u64,
        activities: ActivityModel,
        pv: PvShare,
        calendar: Calendar,
        homes: Vec<Home>,
        totals: Vec<Minutes>,
        /// The same homes with the other model of activities, once somebody asks for it.
        other: OnceLock<Dataset>,
    },
    Own {
        readings: Readings,
        slot: SlotLength,
    },
}

/// The mean loads of homes in the slots of one day or more, in watts: `watts[home][slot]`.
#[derive(Debug, Clone)]
pub struct Loads {
    pub slot: SlotLength,
    pub watts: Vec<Vec<f64>>,
}

impl Dataset {
    /// So many simulated homes of one to five residents, without panels, as in the paper.
    pub fn model(seed: u64, homes: u32, activities: ActivityModel) -> Self {
        Self::street(seed, homes, activities, PvShare::NONE, Calendar::Year)
    }

    /// So many simulated homes of one to five residents, of which this share have panels on their roofs.
    pub fn street(seed: u64, homes: u32, activities: ActivityModel, pv: PvShare, calendar: Calendar) -> Self {
        let homes = street::with_pv(street::usual_homes(seed, homes, activities), pv);
        let totals = in_parallel(all_cores(), &homes, |home| home.day(calendar.day(DAY)).total());
        let mut data = Self {
            origin: Arc::new(Origin::Model { seed, activities, pv, calendar, homes, totals, other: OnceLock::new() }),
            feed_in: None,
        };
        if !pv.is_none() {
            data.feed_in = Some(FeedIn::of_model(&data));
        }
        data
    }

    /// The homes of a file, whose rows are slots of this length.
    pub fn own(readings: Readings, slot: SlotLength) -> Self {
        let feed_in = FeedIn::of(&readings);
        Self { origin: Arc::new(Origin::Own { readings, slot }), feed_in }
    }

    pub fn homes(&self) -> usize {
        match &*self.origin {
            Origin::Model { homes, .. } => homes.len(),
            Origin::Own { readings, .. } => readings.homes(),
        }
    }

    /// The homes that do not own a device of this name; of a file, all of them.
    pub fn without(&self, device: &str) -> Vec<usize> {
        let owns = |home: &usize| match &*self.origin {
            Origin::Model { homes, .. } => homes[*home].owned().iter().any(|owned| owned.name() == device),
            Origin::Own { .. } => false,
        };
        (0..self.homes()).filter(|home| !owns(home)).collect()
    }

    /// The same simulated homes with another idea of what their residents do. A file has no such thing.
    pub fn with_activities(&self, activities: ActivityModel) -> Option<Self> {
        let Origin::Model { seed, activities: own, pv, calendar, homes, other, .. } = &*self.origin else {
            return None;
        };
        let count = u32::try_from(homes.len()).expect("counted in u32");
        let model = || Self::street(*seed, count, activities, *pv, *calendar);
        Some(if activities == *own { self.clone() } else { other.get_or_init(model).clone() })
    }

    /// The paper's day in slots of this length; of a file, all of it. None if the file's rows do not make such slots.
    pub fn loads(&self, slot: SlotLength) -> Option<Loads> {
        let watts = match &*self.origin {
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

    /// What every device of every home did on the paper's day: `work` gets the day of each. Only of the model.
    pub fn each_day<T: Send>(&self, work: impl Fn(&DayTrace) -> T + Sync) -> Option<Vec<T>> {
        let Origin::Model { homes, calendar, .. } = &*self.origin else { return None };
        Some(in_parallel(all_cores(), homes, |home| work(&home.day(calendar.day(DAY)))))
    }

    /// Some homes on several days in a row, day by day, in the data's own slots: simulated days run through weeks and months
    /// as the calendar has them. Of a file, its whole days.
    pub fn days(&self, members: &[usize], days: u32) -> Vec<Loads> {
        let slot = self.slot();
        match &*self.origin {
            Origin::Model { homes, calendar, .. } => {
                let numbers: Vec<u32> = (DAY..DAY + days).collect();
                in_parallel(all_cores(), &numbers, |&number| {
                    let load = |&home: &usize| as_f64(&slot.means(&homes[home].day(calendar.day(number)).total()));
                    Loads { slot, watts: members.iter().map(load).collect() }
                })
            }
            Origin::Own { readings, .. } => {
                let per_day = slot.per_day();
                let whole = (readings.slots() / per_day).min(days as usize);
                let of_day = |day: usize| {
                    let load = |&home: &usize| as_f64(&readings.column(home)[day * per_day..][..per_day]);
                    Loads { slot, watts: members.iter().map(load).collect() }
                };
                (0..whole).map(of_day).collect()
            }
        }
    }

    /// Whether a day of [`Dataset::days`], counted from 0, is on a weekend. A file does not tell, and has none.
    pub fn weekend(&self, day: u32) -> bool {
        match &*self.origin {
            Origin::Model { calendar, .. } => calendar.day(DAY + day).kind == DayKind::Weekend,
            Origin::Own { .. } => false,
        }
    }

    /// The slot length of a file; ten minutes of the model, as in the paper.
    pub fn slot(&self) -> SlotLength {
        match &*self.origin {
            Origin::Model { .. } => SlotLength::new(600).expect("divides a day"),
            Origin::Own { slot, .. } => *slot,
        }
    }

    pub fn is_model(&self) -> bool {
        matches!(*self.origin, Origin::Model { .. })
    }

    /// Nothing if no home ever feeds in. Simulated homes with panels may, even if none does on the paper's day.
    pub fn feed_in(&self) -> Option<FeedIn> {
        self.feed_in
    }
}

impl FeedIn {
    fn of(readings: &Readings) -> Option<Self> {
        let below = || (0..readings.homes()).flat_map(|home| readings.column(home)).filter(|watts| **watts < 0);
        Some(Self { lowest: *below().min()?, readings: below().count() })
    }

    /// Of simulated homes with panels, on the paper's day.
    fn of_model(data: &Dataset) -> Self {
        let loads = data.loads(data.slot()).map(|loads| loads.watts).unwrap_or_default();
        let below = || loads.iter().flatten().filter(|watts| **watts < 0.0);
        Self { lowest: below().fold(0, |lowest, watts| lowest.min(whole(*watts))), readings: below().count() }
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
}

#[expect(clippy::cast_possible_truncation, reason = "mean watts of a home, which are whole")]
fn whole(watts: f64) -> i64 {
    watts.round() as i64
}

fn as_f64(watts: &[i64]) -> Vec<f64> {
    watts.iter().map(|&watts| watts as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dream_homes::home::Month;

    fn june() -> Calendar {
        Calendar::Of(Month::new(6).unwrap())
    }

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
        assert!(data.each_day(|_| ()).is_none() && data.with_activities(ActivityModel::Pooled).is_none());
    }

    #[test]
    fn days_of_a_file_are_its_whole_days() {
        let rows: String = (0..30).map(|hour| format!("{hour},1\n")).collect();
        let data = own(&rows, minutes(60));
        let days = data.days(&[1, 0], 9);
        assert_eq!(days.len(), 1);
        assert_eq!((days[0].watts[0][23], days[0].watts[1][23], days[0].slots()), (1.0, 23.0, 24));
        let longer = own(&rows.repeat(3), minutes(60));
        assert_eq!(longer.days(&[0], 9).iter().map(|day| day.watts[0][7]).collect::<Vec<_>>(), [7.0, 1.0, 25.0]);
        assert_eq!(longer.days(&[0], 2).len(), 2);
    }

    #[test]
    fn feed_in_is_what_is_below_0_in_the_slots_of_the_file() {
        let data = own("1,-10\n3,30\n-5,0\n7,7\n", minutes(5));
        assert_eq!(data.feed_in(), Some(FeedIn { readings: 2, lowest: -10 }));
        assert_eq!(own("1,0\n", minutes(5)).feed_in(), None);
    }

    #[test]
    fn simulated_homes_with_panels_feed_in_in_june() {
        let data = Dataset::street(1, 60, ActivityModel::Crest, "0.5".parse().unwrap(), june());
        let loads = data.loads(data.slot()).unwrap();
        let below = loads.watts.iter().flatten().filter(|watts| **watts < 0.0).count();
        let feed_in = data.feed_in().unwrap();
        assert!(feed_in.readings == below && below > 500 && feed_in.lowest < -500, "{feed_in:?} {below}");
        let pooled = data.with_activities(ActivityModel::Pooled).unwrap();
        assert!(pooled.feed_in().is_some(), "the same roofs");
        let without = Dataset::street(1, 60, ActivityModel::Crest, PvShare::NONE, june());
        assert!(without.feed_in().is_none());
    }

    #[test]
    fn simulated_days_run_through_weekends_as_the_household_model_has_them() {
        let data = Dataset::model(1, 300, ActivityModel::Crest);
        assert_eq!((0..14).map(|day| u8::from(data.weekend(day))).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 1, 1].repeat(2));
        let everybody: Vec<usize> = (0..300).collect();
        let days = data.days(&everybody, 7);
        // Who is at work on a weekday is at home on a weekend: at noon, more is used.
        let at_noon = |day: &Loads| day.watts.iter().flat_map(|home| &home[66..84]).sum::<f64>() / 300.0 / 18.0;
        let [weekday, weekend] =
            [&days[..5], &days[5..]].map(|days| days.iter().map(at_noon).sum::<f64>() / days.len() as f64);
        assert!(weekend > 1.1 * weekday, "{weekend} W instead of {weekday} W");
        assert!(!own("1,2\n", minutes(5)).weekend(5), "a file does not tell");
    }

    #[test]
    fn each_model_of_activities_is_simulated_once() {
        let data = Dataset::model(1, 12, ActivityModel::Crest);
        let [crest, pooled, again] = [ActivityModel::Crest, ActivityModel::Pooled, ActivityModel::Pooled]
            .map(|activities| data.with_activities(activities).unwrap());
        assert!(Arc::ptr_eq(&crest.origin, &data.origin) && Arc::ptr_eq(&pooled.origin, &again.origin));
        let watts = |data: &Dataset| data.loads(data.slot()).unwrap().watts;
        assert_eq!(watts(&pooled), watts(&Dataset::model(1, 12, ActivityModel::Pooled)));
        assert_ne!(watts(&pooled), watts(&data));
    }

    #[test]
    fn the_model_repeats_itself_and_its_first_day_is_the_papers() {
        let data = Dataset::model(1, 12, ActivityModel::Crest);
        let loads = data.loads(data.slot()).unwrap();
        let days = data.days(&[2, 3], 2);
        assert_eq!(days[0].watts, loads.watts[2..4]);
        assert_ne!(days[0].watts, days[1].watts);
        assert!(data.feed_in().is_none() && loads.watts.iter().flatten().all(|watts| *watts >= 0.0));
        let order = loads.by_consumption();
        let used = |home: usize| loads.watts[home].iter().sum::<f64>();
        assert!(order.windows(2).all(|pair| used(pair[0]) <= used(pair[1])));
    }
}
