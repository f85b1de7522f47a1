//! The loads that the study looks at: of simulated homes, or of a file of one's own.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use dream_filter::LocalTime;
use dream_homes::home::{ActivityModel, Calendar, DayKind, DayTrace, Home, Minutes, Month, PvShare};
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
        street: Street,
        activities: ActivityModel,
        homes: Vec<Home>,
        /// The paper's day, once somebody asks for it.
        totals: OnceLock<Vec<Minutes>>,
        /// The same homes with the other model of activities, once somebody asks for it.
        other: OnceLock<Dataset>,
    },
    Own {
        readings: Readings,
        slot: SlotLength,
    },
}

/// Which homes are simulated, and when.
#[derive(Debug, Clone, Copy)]
struct Street {
    seed: u64,
    count: u32,
    pv: PvShare,
    calendar: Calendar,
    /// Whether those with storage heaters are among them.
    heaters: bool,
}

/// The mean loads of homes in the slots of one day or more, in watts: `watts[home][slot]`.
#[derive(Debug, Clone)]
pub struct Loads {
    pub slot: SlotLength,
    pub watts: Vec<Vec<f64>>,
    /// The slots in which each home is silent, and has 0 above; nothing at all if none ever is.
    pub silent: Vec<Vec<usize>>,
}

/// The first of simulated days, since 1970: a Monday, as in the calendar.
pub const FIRST_DAY: u64 = 20_003;
const DAY_MILLIS: u64 = 86_400_000;

/// What heats with electricity at night, and draws more than all else in a home.
const HEATER: &str = "storage_heater";

impl Dataset {
    /// So many simulated homes of one to five residents, without panels, as in the paper.
    pub fn model(seed: u64, homes: u32, activities: ActivityModel) -> Self {
        Self::street(seed, homes, activities, PvShare::NONE, Calendar::Year)
    }

    /// So many simulated homes of one to five residents, of which this share have panels on their roofs.
    pub fn street(seed: u64, homes: u32, activities: ActivityModel, pv: PvShare, calendar: Calendar) -> Self {
        Self::simulate(Street { seed, count: homes, pv, calendar, heaters: true }, activities)
    }

    fn simulate(street: Street, activities: ActivityModel) -> Self {
        let Street { seed, count, pv, heaters, .. } = street;
        let mut homes = street::with_pv(street::usual_homes(seed, count, activities), pv);
        homes.retain(|home| heaters || !home.owned().iter().any(|device| device.name() == HEATER));
        let (totals, other) = (OnceLock::new(), OnceLock::new());
        let origin = Arc::new(Origin::Model { street, activities, homes, totals, other });
        let mut data = Self { origin, feed_in: None };
        if !pv.is_none() {
            data.feed_in = Some(FeedIn::of_model(&data));
        }
        data
    }

    /// The same street without the homes that have storage heaters, whose clusters are of another kind. Of a file, all homes.
    #[must_use]
    pub fn houses(&self) -> Self {
        match &*self.origin {
            Origin::Model { street, activities, .. } => {
                Self::simulate(Street { heaters: false, ..*street }, *activities)
            }
            Origin::Own { .. } => self.clone(),
        }
    }

    /// Another street like this one, or the same file.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        match &*self.origin {
            Origin::Model { street, activities, .. } => Self::simulate(Street { seed, ..*street }, *activities),
            Origin::Own { .. } => self.clone(),
        }
    }

    /// The homes of a file, whose rows are slots of this length from a midnight on.
    pub fn own(readings: Readings, slot: SlotLength) -> Self {
        let feed_in = FeedIn::of(&readings);
        Self { origin: Arc::new(Origin::Own { readings, slot }), feed_in }
    }

    /// The homes of a file with this text.
    #[cfg(test)]
    pub(crate) fn of_text(text: &str, slot_seconds: u32) -> Self {
        let readings = Readings::parse_with_gaps(text, "own.csv".as_ref()).expect("a file");
        Self::own(readings, SlotLength::new(slot_seconds).expect("divides a day"))
    }

    pub fn homes(&self) -> usize {
        match &*self.origin {
            Origin::Model { homes, .. } => homes.len(),
            Origin::Own { readings, .. } => readings.homes(),
        }
    }

    /// The same simulated homes with another idea of what their residents do. A file has no such thing.
    pub fn with_activities(&self, activities: ActivityModel) -> Option<Self> {
        let Origin::Model { street, activities: own, other, .. } = &*self.origin else { return None };
        let model = || Self::simulate(*street, activities);
        Some(if activities == *own { self.clone() } else { other.get_or_init(model).clone() })
    }

    /// The paper's day in slots of this length; of a file, all of it. None if the file's rows do not make such slots.
    pub fn loads(&self, slot: SlotLength) -> Option<Loads> {
        let loads = match &*self.origin {
            Origin::Model { street, homes, totals, .. } => {
                let of_day = || in_parallel(all_cores(), homes, |home| home.day(street.calendar.day(DAY)).total());
                let totals = totals.get_or_init(of_day);
                Loads::new(slot, in_parallel(all_cores(), totals, |total| as_f64(&slot.means(total))))
            }
            Origin::Own { readings, slot: own } => {
                let rows =
                    slot.seconds().is_multiple_of(own.seconds()).then(|| slot.seconds() / own.seconds())? as usize;
                let every: Vec<usize> = (0..readings.homes()).collect();
                Loads::of_file(readings, &every, slot, rows, 0..readings.slots() / rows * rows)
            }
        };
        Some(loads).filter(|loads| loads.slots() > 0)
    }

    /// What every device of every home did on the paper's day: `work` gets the day of each. Only of the model.
    pub fn each_day<T: Send>(&self, work: impl Fn(&DayTrace) -> T + Sync) -> Option<Vec<T>> {
        let Origin::Model { homes, street, .. } = &*self.origin else { return None };
        Some(in_parallel(all_cores(), homes, |home| work(&home.day(street.calendar.day(DAY)))))
    }

    /// The same of a day by itself, which begins with everything off, as the paper simulated it.
    pub fn each_single_day<T: Send>(&self, work: impl Fn(&DayTrace) -> T + Sync) -> Option<Vec<T>> {
        let Origin::Model { homes, street, .. } = &*self.origin else { return None };
        Some(in_parallel(all_cores(), homes, |home| work(&home.single_day(street.calendar.day(DAY)))))
    }

    /// Some homes on several days in a row, day by day, in the data's own slots: simulated days run through weeks and months
    /// as the calendar has them. Of a file, its whole days.
    pub fn days(&self, members: &[usize], days: u32) -> Vec<Loads> {
        let slot = self.slot();
        match &*self.origin {
            Origin::Model { homes, street, .. } => {
                let first = street.calendar.day(DAY);
                let mut members = in_parallel(all_cores(), members, |&home| {
                    let loads = homes[home].days(first).map(|day| as_f64(&slot.means(&day.total())));
                    loads.take(days as usize).collect::<Vec<_>>().into_iter()
                });
                let of_day = |_| Loads::new(slot, members.iter_mut().filter_map(Iterator::next).collect());
                (0..days).map(of_day).collect()
            }
            Origin::Own { readings, .. } => {
                let per_day = slot.per_day();
                let whole = (readings.slots() / per_day).min(days as usize);
                let of_day =
                    |day: usize| Loads::of_file(readings, members, slot, 1, day * per_day..(day + 1) * per_day);
                (0..whole).map(of_day).collect()
            }
        }
    }

    /// Whether a day of [`Dataset::days`], counted from 0, is on a weekend.
    pub fn weekend(&self, day: u32) -> bool {
        match &*self.origin {
            Origin::Model { street, .. } => street.calendar.day(DAY + day).kind() == DayKind::Weekend,
            Origin::Own { .. } => self.local_time((FIRST_DAY + u64::from(day)) * DAY_MILLIS).weekend,
        }
    }

    /// Whether it is known which days are on a weekend. Those of a file without a date are all taken as weekdays.
    pub fn has_weekends(&self) -> bool {
        match &*self.origin {
            Origin::Model { .. } => true,
            Origin::Own { readings, .. } => readings.first_day().is_some(),
        }
    }

    /// What the clocks of the homes say at a time of days that begin with [`FIRST_DAY`].
    pub fn local_time(&self, millis: u64) -> LocalTime {
        let after_monday = match &*self.origin {
            Origin::Model { .. } => 0,
            Origin::Own { readings, .. } => {
                readings.first_day().map_or(0, |date| date.weekday().to_monday_zero_offset().unsigned_abs().into())
            }
        };
        let LocalTime { second_of_day, weekend } = LocalTime::utc(millis + after_monday * DAY_MILLIS);
        LocalTime { second_of_day, weekend: weekend && self.has_weekends() }
    }

    /// The month of a day of [`Dataset::days`], counted from 0. A file does not tell.
    pub fn month(&self, day: u32) -> Option<Month> {
        match &*self.origin {
            Origin::Model { street, .. } => Some(street.calendar.day(DAY + day).month()),
            Origin::Own { .. } => None,
        }
    }

    /// Whether the simulated days run through all months.
    pub fn has_all_months(&self) -> bool {
        matches!(&*self.origin, Origin::Model { street, .. } if street.calendar == Calendar::Year)
    }

    /// How many of a file's cells have a reading missing, and how many cells there are; nothing if none is missing.
    pub fn missing(&self) -> Option<(usize, usize)> {
        let Origin::Own { readings, .. } = &*self.origin else { return None };
        let missing = (0..readings.homes()).map(|home| readings.missing(home).len()).sum();
        Some((missing, readings.homes() * readings.slots())).filter(|(missing, _)| *missing > 0)
    }

    /// The slot length of a file; ten minutes of the model, as in the paper.
    pub fn slot(&self) -> SlotLength {
        match &*self.origin {
            Origin::Model { .. } => SlotLength::new(600).expect("divides a day"),
            Origin::Own { slot, .. } => *slot,
        }
    }

    /// The seed of simulated homes.
    pub fn seed(&self) -> Option<u64> {
        match &*self.origin {
            Origin::Model { street, .. } => Some(street.seed),
            Origin::Own { .. } => None,
        }
    }

    /// Whether simulated homes with storage heaters are among these.
    pub fn has_heaters(&self) -> bool {
        matches!(&*self.origin, Origin::Model { street, .. } if street.heaters)
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
    /// Nobody is silent.
    pub fn new(slot: SlotLength, watts: Vec<Vec<f64>>) -> Self {
        Self { slot, watts, silent: Vec::new() }
    }

    /// Of these rows of a file, so many to a slot. Who has no reading in one of them is silent in the slot.
    fn of_file(readings: &Readings, members: &[usize], slot: SlotLength, rows: usize, of: Range<usize>) -> Self {
        let joined = |rows: &[i64]| rows.iter().sum::<i64>() as f64 / rows.len() as f64;
        let silent = |home: &usize| {
            let missing = readings.missing(*home).iter().filter(|row| of.contains(row));
            let mut slots: Vec<usize> = missing.map(|row| (row - of.start) / rows).collect();
            slots.dedup();
            slots
        };
        let silent: Vec<Vec<usize>> = members.iter().map(silent).collect();
        let load = |(home, silent): (&usize, &Vec<usize>)| {
            let column = &readings.column(*home)[of.clone()];
            let mut watts: Vec<f64> = column.chunks_exact(rows).map(joined).collect();
            silent.iter().for_each(|slot| watts[*slot] = 0.0);
            watts
        };
        let watts = members.iter().zip(&silent).map(load).collect();
        Self { slot, watts, silent: if silent.iter().all(Vec::is_empty) { Vec::new() } else { silent } }
    }

    /// The slots in which a home is silent.
    pub fn silent_slots(&self, home: usize) -> &[usize] {
        self.silent.get(home).map_or(&[], Vec::as_slice)
    }

    pub fn homes(&self) -> usize {
        self.watts.len()
    }

    pub fn slots(&self) -> usize {
        self.watts[0].len()
    }

    /// The homes by how much they use on average while they are not silent, the smallest first.
    pub fn by_consumption(&self) -> Vec<usize> {
        let answered = |home: usize| (self.slots() - self.silent_slots(home).len()).max(1) as f64;
        let used = self.watts.iter().enumerate().map(|(home, watts)| watts.iter().sum::<f64>() / answered(home));
        let used: Vec<f64> = used.collect();
        let mut homes: Vec<usize> = (0..self.homes()).collect();
        homes.sort_by(|&a, &b| used[a].total_cmp(&used[b]).then(a.cmp(&b)));
        homes
    }
}

#[expect(clippy::cast_possible_truncation, reason = "mean watts of a home, which are whole")]
fn whole(watts: f64) -> i64 {
    watts.round() as i64
}

pub(crate) fn as_f64(watts: &[i64]) -> Vec<f64> {
    watts.iter().map(|&watts| watts as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn june() -> Calendar {
        Calendar::Of(Month::new(6).unwrap())
    }

    fn minutes(count: u32) -> SlotLength {
        SlotLength::new(count * 60).unwrap()
    }

    fn own(text: &str, slot: SlotLength) -> Dataset {
        Dataset::of_text(text, slot.seconds())
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
    fn a_missing_reading_is_a_home_that_is_silent() {
        let data = own("1,10\n3,\n,50\n7,70\n", minutes(5));
        assert_eq!(data.missing(), Some((2, 8)));
        let loads = data.loads(minutes(5)).unwrap();
        assert_eq!(loads.watts, [[1.0, 3.0, 0.0, 7.0], [10.0, 0.0, 50.0, 70.0]]);
        assert_eq!([0, 1].map(|home| loads.silent_slots(home)), [[2], [1]]);
        let longer = data.loads(minutes(10)).unwrap();
        assert_eq!(longer.watts, [[2.0, 0.0], [0.0, 60.0]], "half a slot is none");
        assert_eq!([0, 1].map(|home| longer.silent_slots(home)), [[1], [0]]);
        let rows: String =
            (0..48).map(|hour| if hour == 30 { ",5\n".to_owned() } else { "9,5\n".to_owned() }).collect();
        let days = own(&rows, minutes(60)).days(&[1, 0], 9);
        assert!(days[0].silent.is_empty() && days[1].silent_slots(1) == [6], "{days:?}");
        assert_eq!(own("1,2\n", minutes(5)).missing(), None);
        let order = own("6,5\n,5\n,5\n", minutes(5)).loads(minutes(5)).unwrap().by_consumption();
        assert_eq!(order, [1, 0], "by what is used while there is a reading");
    }

    #[test]
    fn houses_are_the_homes_without_storage_heaters() {
        let data = Dataset::model(1, 200, ActivityModel::Crest);
        let houses = data.houses();
        assert!((180..200).contains(&houses.homes()), "{}", houses.homes());
        let night =
            |data: &Dataset| data.loads(data.slot()).unwrap().watts.iter().map(|home| home[18]).fold(0.0, f64::max);
        assert!(night(&data) > 8000.0 && night(&houses) < 6000.0, "{} {}", night(&data), night(&houses));
        let pooled = houses.with_activities(ActivityModel::Pooled).unwrap();
        assert_eq!(pooled.homes(), houses.homes());
        assert_ne!(data.with_seed(2).loads(data.slot()).unwrap().watts, data.loads(data.slot()).unwrap().watts);
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
        let noon = |day: u64| (FIRST_DAY + day) * 86_400_000 + 43_200_000;
        assert!((0..14).all(|day| data.local_time(noon(day.into())).weekend == data.weekend(day)));
        let everybody: Vec<usize> = (0..300).collect();
        let days = data.days(&everybody, 7);
        // Who is at work on a weekday is at home on a weekend: at noon, more is used.
        let at_noon = |day: &Loads| day.watts.iter().flat_map(|home| &home[66..84]).sum::<f64>() / 300.0 / 18.0;
        let [weekday, weekend] =
            [&days[..5], &days[5..]].map(|days| days.iter().map(at_noon).sum::<f64>() / days.len() as f64);
        assert!(weekend > 1.1 * weekday, "{weekend} W instead of {weekday} W");
        assert!(!own("1,2\n", minutes(5)).weekend(5), "a file does not tell");
        let dated = own("time,a,b\n2026-11-20 00:00,1,2\n", minutes(5));
        assert_eq!(
            (0..4).map(|day| dated.weekend(day)).collect::<Vec<_>>(),
            [false, true, true, false],
            "a Friday first"
        );
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
