//! A household and the power it draws, minute by minute.
//!
//! The model is that of I. Richardson, M. Thomson, D. Infield and C. Clifford, "Domestic electricity use: a high-resolution
//! energy demand model", Energy and Buildings 42 (2010), with compact fits in place of its large tables. `occupancy` says
//! how many residents are at home and awake; `appliances` with their `cycle`s, and `lighting`, follow from that.
//!
//! A home is what stays: how many live there, what they own, their lamps. `life` draws a day from randomness of its own, and
//! lets the evening before end in it.

mod activity;
mod appliances;
mod calendar;
mod cycle;
mod draw;
mod hours;
mod irradiance;
mod life;
mod lighting;
mod occupancy;
mod rooftop;
mod table;

pub use activity::ActivityModel;
pub use appliances::Device;
pub use calendar::{Calendar, Day, DayKind, Month, MonthError};
pub use occupancy::{Occupancy, Residents, ResidentsError};
pub use rooftop::{PvShare, PvShareError, Rooftop};

use self::appliances::catalogue;
use self::draw::Draw;
use self::lighting::Lamps;

pub const MINUTES_PER_DAY: usize = 1440;

/// Power in watts, for each minute of a day.
pub type Minutes = [i32; MINUTES_PER_DAY];

/// A household: who lives there and what they own.
#[derive(Debug, Clone)]
pub struct Home {
    seed: u64,
    number: u32,
    residents: u8,
    activities: ActivityModel,
    owned: Vec<Device>,
    lamps: Lamps,
    rooftop: Option<Rooftop>,
}

impl Home {
    /// The home of this number in the world of this seed.
    pub fn new(seed: u64, number: u32, residents: Residents) -> Self {
        let mut draw = Draw::of_home(seed, number);
        let residents = residents.draw(&mut draw);
        let owned = catalogue().iter().filter(|appliance| draw.chance(appliance.ownership));
        let owned = owned.map(|appliance| appliance.device).collect();
        let (activities, lamps) = (ActivityModel::default(), Lamps::draw(&mut draw));
        Self { seed, number, residents, activities, owned, lamps, rooftop: None }
    }

    /// The same home with another idea of what its residents do.
    #[must_use]
    pub fn with_activities(self, activities: ActivityModel) -> Self {
        Self { activities, ..self }
    }

    /// The same home, which has panels on its roof with the probability `share`. What it draws does not change, and a home
    /// that has panels has the same ones if more homes do.
    #[must_use]
    pub fn with_pv(self, share: PvShare) -> Self {
        let mut draw = Draw::of_roof(self.seed, self.number);
        let rooftop = draw.chance(share.probability()).then(|| Rooftop::draw(&mut draw));
        Self { rooftop, ..self }
    }

    /// The panels on its roof.
    pub fn rooftop(&self) -> Option<&Rooftop> {
        self.rooftop.as_ref()
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn residents(&self) -> u8 {
        self.residents
    }

    /// The appliances that it owns, in the order of [`Device::all`].
    pub fn owned(&self) -> &[Device] {
        &self.owned
    }

    /// Simulates one day.
    pub fn day(&self, day: Day) -> DayTrace {
        self.days(day).next().expect("days do not end")
    }

    /// Simulates this day and all that follow: the same days, in half the time.
    pub fn days(&self, first: Day) -> impl Iterator<Item = DayTrace> {
        life::days(self, first).zip(first.and_after()).map(|(lived, day)| self.trace(lived, day))
    }

    /// Simulates one day by itself: it begins with everything off, as in the DREAM paper.
    pub fn single_day(&self, day: Day) -> DayTrace {
        self.trace(life::single_day(self, day), day)
    }

    fn trace(&self, (occupancy, loads): (Occupancy, Vec<Load>), day: Day) -> DayTrace {
        let generation = self.rooftop.map(|rooftop| Box::new(rooftop.day(self.seed, day)));
        DayTrace { occupancy, loads, generation }
    }
}

/// What happened in a home on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayTrace {
    pub occupancy: Occupancy,
    /// Every appliance that the home owns, also if it was never switched on, and its lighting last.
    pub loads: Vec<Load>,
    /// What the panels on its roof give, if it has any.
    pub generation: Option<Box<Minutes>>,
}

impl DayTrace {
    /// The power of the whole home: what it draws less what it generates, and so negative while it feeds in.
    pub fn total(&self) -> Minutes {
        let mut total = [0; MINUTES_PER_DAY];
        for load in &self.loads {
            total.iter_mut().zip(load.watts.iter()).for_each(|(sum, watts)| *sum += watts);
        }
        if let Some(generation) = &self.generation {
            total.iter_mut().zip(generation.iter()).for_each(|(sum, watts)| *sum -= watts);
        }
        total
    }

    /// The part of one device, unless the home does not own it.
    pub fn load(&self, device: Device) -> Option<&Load> {
        self.loads.iter().find(|load| load.device == device)
    }
}

/// What one device did on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    pub device: Device,
    /// How often it was switched on.
    pub starts: u32,
    /// What it draws when it is off; part of `watts`.
    pub standby: i32,
    pub watts: Box<Minutes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weekday(month: u8, number: u32) -> Day {
        Calendar::Same(Month::new(month).unwrap(), DayKind::Weekday).day(number)
    }

    fn november() -> Day {
        weekday(11, 1)
    }

    fn anybody() -> Residents {
        Residents::between(1, 5).unwrap()
    }

    #[test]
    fn a_home_repeats_itself_and_resembles_no_other() {
        let home = |seed, number| Home::new(seed, number, anybody()).day(november());
        assert_eq!(home(1, 1), home(1, 1));
        assert_ne!(home(1, 1), home(1, 2));
        assert_ne!(home(1, 1), home(2, 1));
    }

    #[test]
    fn a_day_by_itself_is_the_one_that_follows_the_days_before() {
        let home = Home::new(1, 1, anybody());
        let first = Calendar::Year.day(28); // so that a weekend ends among them, and a month
        for (number, day) in (28..36).zip(home.days(first)) {
            assert_eq!(home.day(Calendar::Year.day(number)), day, "{number}");
        }
        assert_ne!(home.day(first), home.day(Calendar::Year.day(29)));
    }

    #[test]
    fn a_single_day_begins_with_everything_off_and_ends_as_the_day_does() {
        let four = 4 * 60;
        for number in 1..=50 {
            let home = Home::new(1, number, anybody());
            let (single, day) = (home.single_day(november()), home.day(november()));
            for (alone, load) in single.loads.iter().zip(&day.loads) {
                assert!(
                    alone.starts > 0 || alone.watts.iter().all(|watts| *watts == alone.standby),
                    "{}",
                    alone.device
                );
                assert_eq!(alone.watts[four..], load.watts[four..], "home {number}: {}", load.device);
            }
        }
    }

    #[test]
    fn laundry_that_is_in_the_machine_at_midnight_is_washed_to_its_end() {
        let washing_machine = Device::named("washing_machine").unwrap();
        let mut washed = 0;
        for number in 1..=600 {
            let home = Home::new(1, number, anybody());
            let days: Vec<DayTrace> = home.days(november()).take(2).collect();
            let loads: Vec<&Load> = days.iter().filter_map(|day| day.load(washing_machine)).collect();
            let [evening, night] = loads[..] else { continue };
            let runs =
                |watts: &mut dyn Iterator<Item = &i32>| watts.take_while(|watts| **watts > evening.standby).count();
            let before = runs(&mut evening.watts.iter().rev());
            if (1..138).contains(&before) {
                washed += 1;
                let after = runs(&mut night.watts.iter());
                assert!(after == 138 - before || after > 138, "home {number}: {before} and {after} minutes of 138");
            }
        }
        assert!(washed > 5, "{washed}");
    }

    #[test]
    fn panels_change_nothing_but_what_is_left_of_the_load() {
        let share = |text: &str| text.parse::<PvShare>().unwrap();
        let june = weekday(6, 1);
        for number in 1..=200 {
            let home = Home::new(1, number, anybody());
            let [without, some, all] = ["0", "0.3", "1"].map(|pv| home.clone().with_pv(share(pv)));
            assert!(without.rooftop().is_none() && all.rooftop().is_some());
            assert!(some.rooftop().is_none() || some.rooftop() == all.rooftop(), "more homes, the same panels");
            let (before, after) = (home.day(june), all.day(june));
            assert_eq!((&before.loads, &before.occupancy), (&after.loads, &after.occupancy));
            let generation = after.generation.as_ref().unwrap();
            let (drawn, left) = (before.total(), after.total());
            assert!((0..MINUTES_PER_DAY).all(|minute| left[minute] == drawn[minute] - generation[minute]));
            assert_eq!(without.day(june), before);
        }
    }

    #[test]
    fn a_home_draws_what_its_devices_draw() {
        let day = Home::new(1, 3, anybody()).day(november());
        let total = day.total();
        for minute in [0, 600, 1439] {
            assert_eq!(total[minute], day.loads.iter().map(|load| load.watts[minute]).sum::<i32>());
        }
    }

    #[test]
    fn homes_own_what_the_table_says() {
        let homes: Vec<Home> = (0..4000).map(|number| Home::new(5, number, anybody())).collect();
        for appliance in catalogue() {
            let owners = homes.iter().filter(|home| home.owned().contains(&appliance.device)).count();
            // Five standard deviations of a binomial: one seed in some 50,000 would fail, and this one does not.
            let deviation = (appliance.ownership * (1.0 - appliance.ownership) / 4000.0).sqrt();
            let off = (owners as f64 / 4000.0 - appliance.ownership).abs();
            assert!(off <= 5.0 * deviation, "{}: {owners} of 4000", appliance.device);
        }
    }

    #[test]
    fn the_number_of_residents_is_uniform_or_as_asked_for() {
        let mut count = [0; 6];
        (0..5000).for_each(|number| count[usize::from(Home::new(9, number, anybody()).residents())] += 1);
        assert_eq!(count[0], 0);
        assert!(count[1..].iter().all(|homes| (850..1150).contains(homes)), "{count:?}");
        assert_eq!(Home::new(9, 1, Residents::exactly(3).unwrap()).residents(), 3);
    }
}
