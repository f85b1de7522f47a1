//! The paper's tables of appliances, as printed.

use std::sync::LazyLock;

use super::spread::Spread;
use dream_homes::home::Device;

/// A row of the paper's Table 1: epsilon_s of an appliance.
#[derive(Debug)]
pub(super) struct Presence {
    device: Device,
    /// Whether it runs in an empty home too, or tells little of who is there.
    passive: bool,
    /// Windows of 30 minutes, 1, 4, 8 and 24 hours.
    pub(super) windows: [Spread; 5],
}

/// A row of the paper's Table 2: how far guesses of an appliance's starting slot are off.
#[derive(Debug)]
pub(super) struct Activation {
    device: Device,
    pub(super) users: u64,
    /// Mean and deviation in hours: random, statistical, Bayesian, Bayesian-statistical.
    pub(super) adversaries: [(f64, f64); 4],
}

/// What Table 1 says of a device; of some it says nothing.
pub(super) fn presence(device: Device) -> Option<&'static Presence> {
    static TABLE: LazyLock<Vec<Presence>> = LazyLock::new(|| {
        let rows = rows(include_str!("data/paper-presence.csv"));
        let windows = |row: &[&str]| std::array::from_fn(|window| spread(&row[2 + 3 * window..]));
        rows.map(|row| Presence { device: named(row[0]), passive: row[1] == "passive", windows: windows(&row) })
            .collect()
    });
    TABLE.iter().find(|row| row.device == device)
}

/// Whether the paper counts a device as passive. What it does not list is active, or never on.
pub(super) fn is_passive(device: Device) -> bool {
    presence(device).is_some_and(|row| row.passive)
}

/// What Table 2 says of a device; of some it says nothing.
pub(super) fn activation(device: Device) -> Option<&'static Activation> {
    static TABLE: LazyLock<Vec<Activation>> = LazyLock::new(|| {
        let rows = rows(include_str!("data/paper-activation.csv"));
        let adversaries =
            |row: &[&str]| std::array::from_fn(|which| (number(row[2 + 2 * which]), number(row[3 + 2 * which])));
        let users = |row: &[&str]| row[1].parse().expect("a number of users");
        rows.map(|row| Activation { device: named(row[0]), users: users(&row), adversaries: adversaries(&row) })
            .collect()
    });
    TABLE.iter().find(|row| row.device == device)
}

/// The rows after the header; lines that begin with `#` are remarks.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).skip(1).map(|line| line.split(',').collect())
}

fn spread(cells: &[&str]) -> Spread {
    Spread { mean: number(cells[0]), deviation: number(cells[1]), max: number(cells[2]) }
}

fn number(cell: &str) -> f64 {
    cell.parse().unwrap_or_else(|_| panic!("`{cell}` in a table is no number"))
}

fn named(name: &str) -> Device {
    Device::named(name).unwrap_or_else(|| panic!("no appliance has the name `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_have_the_same_29_appliances() {
        let listed = |table: fn(Device) -> bool| Device::all().filter(|device| table(*device)).collect::<Vec<_>>();
        let presence = listed(|device| presence(device).is_some());
        assert_eq!(presence.len(), 29);
        assert_eq!(presence, listed(|device| activation(device).is_some()));
        assert_eq!(listed(is_passive).len(), 7);
    }

    #[test]
    fn cells_are_where_the_paper_has_them() {
        let dryer = Device::named("washer_dryer").unwrap();
        let row = presence(dryer).unwrap();
        assert_eq!(row.windows[4], Spread { mean: 7.92, deviation: 3.49, max: 33.66 });
        let row = activation(dryer).unwrap();
        assert_eq!((row.users, row.adversaries[0], row.adversaries[3]), (417, (5.05, 3.77), (1.79, 2.66)));
    }
}
