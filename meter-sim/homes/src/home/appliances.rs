//! What a household may own: 33 appliances and its lighting.

use std::fmt;
use std::sync::LazyLock;

use super::activity::Activity;
use super::table::{self, number};

/// Something that draws power: an appliance, or all the lamps of the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device(u8);

impl Device {
    pub const COUNT: usize = APPLIANCES + 1;
    pub const LIGHTING: Self = Self(33);

    /// All of them; lighting is the last.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=Self::LIGHTING.0).map(Self)
    }

    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    pub fn name(self) -> &'static str {
        if self == Self::LIGHTING { "lighting" } else { catalogue()[self.index()].name }
    }

    /// Whether it runs in the cheap hours of the night alone.
    pub(super) fn charges_at_night(self) -> bool {
        self != Self::LIGHTING && Appliance::of(self).trigger == Trigger::NightTariff
    }

    /// The device of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|device| device.name() == name)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One row of the catalogue.
#[derive(Debug)]
pub(super) struct Appliance {
    pub(super) device: Device,
    name: &'static str,
    /// The share of homes that have one.
    pub(super) ownership: f64,
    /// Drawn whenever it is not running, in watts.
    pub(super) standby: i32,
    pub(super) power: Power,
    pub(super) length: Length,
    /// How long it stays off after a cycle before it can start again, in minutes.
    pub(super) restart: u32,
    pub(super) trigger: Trigger,
    /// The probability of a start in a minute, before the trigger's factor. Chosen so that a year has the right number of
    /// cycles; a test holds it against that number.
    pub(super) start_probability: f64,
}

impl Appliance {
    /// The appliance that a device is; lighting is none.
    pub(super) fn of(device: Device) -> &'static Self {
        &catalogue()[device.index()]
    }
}

/// What it draws while it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Power {
    /// The same all the time: so many watts on average over all homes.
    Rated(f64),
    /// What a washing machine does in each minute of its programme.
    Washing,
}

/// How long it runs, in minutes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Length {
    Fixed(u32),
    /// As long as people watch television.
    Television,
    /// Normal, with this mean and a tenth of it as deviation.
    Spread(f64),
}

/// What switches it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// Itself, at any time.
    Always,
    /// Anybody who is active.
    Presence,
    /// The same, but more often in cold months.
    PresenceAndSeason,
    /// Somebody who is doing something.
    Doing(Activity),
    /// The cheap hours of the night, in the heating season.
    NightTariff,
}

impl Trigger {
    /// Whether a cycle waits while nobody is active. Laundry is left alone.
    pub(super) fn pauses(self) -> bool {
        match self {
            Self::Always | Self::NightTariff | Self::Doing(Activity::Laundry) => false,
            Self::Presence | Self::PresenceAndSeason | Self::Doing(_) => true,
        }
    }
}

const APPLIANCES: usize = 33;
const TABLE: &str = include_str!("data/appliances.csv");

pub(super) fn catalogue() -> &'static [Appliance; APPLIANCES] {
    static CATALOGUE: LazyLock<[Appliance; APPLIANCES]> = LazyLock::new(|| {
        let devices = Device::all().zip(table::rows(TABLE));
        let appliances: Vec<Appliance> = devices.map(|(device, row)| Appliance::parse(device, &row)).collect();
        appliances.try_into().expect("the table has 33 rows")
    });
    &CATALOGUE
}

impl Appliance {
    fn parse(device: Device, row: &[&'static str]) -> Self {
        let &[name, ownership, standby, watts, power, minutes, length, _, restart, trigger, _, start] = row else {
            panic!("a row of the appliances has {} cells", row.len())
        };
        Self {
            device,
            name,
            ownership: number(ownership),
            standby: super::draw::watts(number(standby)),
            power: power_of(power, number(watts)),
            length: length_of(length, number(minutes)),
            restart: super::draw::floor(number(restart)),
            trigger: trigger_of(trigger),
            start_probability: number(start),
        }
    }
}

fn power_of(word: &str, watts: f64) -> Power {
    match word {
        "rated" => Power::Rated(watts),
        "washing" => Power::Washing,
        _ => panic!("no kind of power: {word}"),
    }
}

fn length_of(word: &str, minutes: f64) -> Length {
    match word {
        "fixed" => Length::Fixed(super::draw::floor(minutes)),
        "television" => Length::Television,
        "spread" => Length::Spread(minutes),
        _ => panic!("no kind of length: {word}"),
    }
}

fn trigger_of(word: &str) -> Trigger {
    match word {
        "always" => Trigger::Always,
        "presence" => Trigger::Presence,
        "presence_and_season" => Trigger::PresenceAndSeason,
        "night_tariff" => Trigger::NightTariff,
        "tv" => Trigger::Doing(Activity::Tv),
        "cooking" => Trigger::Doing(Activity::Cooking),
        "laundry" => Trigger::Doing(Activity::Laundry),
        "washdress" => Trigger::Doing(Activity::WashDress),
        "iron" => Trigger::Doing(Activity::Iron),
        "houseclean" => Trigger::Doing(Activity::HouseClean),
        _ => panic!("no trigger: {word}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_has_a_name_of_its_own() {
        assert_eq!(Device::all().count(), Device::COUNT);
        for device in Device::all() {
            assert_eq!(Device::named(device.name()), Some(device));
        }
        assert_eq!(Device::named("toaster"), None);
    }

    /// c = lambda / mean activity, where lambda starts per minute give the year its cycles in the minutes that are left.
    #[test]
    fn start_probabilities_follow_from_cycles_per_year() {
        const MINUTES_PER_YEAR: f64 = 525_600.0;
        const ACTIVE: f64 = 0.45865;
        for (appliance, row) in catalogue().iter().zip(table::rows(TABLE)) {
            let [minutes, cycles, restart, activity] = [5, 7, 8, 10].map(|column| number(row[column]));
            let usable = match appliance.trigger {
                Trigger::Always | Trigger::NightTariff => MINUTES_PER_YEAR,
                Trigger::Presence | Trigger::PresenceAndSeason | Trigger::Doing(_) => MINUTES_PER_YEAR * ACTIVE,
            };
            let expected = cycles / (usable - cycles * (minutes + restart)) / activity;
            // The table's mean activities have four decimals, the least of them is 0.0177: half a per cent at most.
            let off = (appliance.start_probability - expected).abs();
            assert!(off <= 0.005 * expected, "{}: {} {expected}", appliance.device, appliance.start_probability);
        }
    }

    #[test]
    fn laundry_and_what_runs_by_itself_goes_on_in_an_empty_home() {
        let goes_on: Vec<&str> = catalogue()
            .iter()
            .filter(|appliance| !appliance.trigger.pauses())
            .map(|appliance| appliance.name)
            .collect();
        let expected = [
            "chest_freezer",
            "fridge_freezer",
            "fridge",
            "upright_freezer",
            "clock",
            "tumble_dryer",
            "washing_machine",
            "washer_dryer",
            "storage_heater",
        ];
        assert_eq!(goes_on, expected);
    }
}
