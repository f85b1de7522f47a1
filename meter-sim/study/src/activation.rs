//! The paper's Table 2: when an appliance was switched on, as four adversaries guess it.
//!
//! Each knows that a home used the appliance, what it drew from its first minute to its last, and everything else that the
//! home and all others drew. What is left is the appliance under the noise of the sum; where in the day it begins is to be
//! guessed. `adversary` has the guesses.

mod adversary;

use rand_distr::{Distribution as _, Exp1};

use self::adversary::{Error, Priors, Target};
use super::cluster::chance;
use super::dataset::Dataset;
use super::paper;
use super::section::{Axis, Figure, Section, Stroke, Table, row};
use super::usage::Usage;
use dream_homes::home::{ActivityModel, Device};
use dream_homes::street::{all_cores, in_parallel};

const ADVERSARIES: [&str; 4] = ["random", "statistical", "Bayesian", "Bayesian-statistical"];
const HOURS_PER_SLOT: f64 = 1.0 / 6.0;

pub(crate) fn section(data: &Dataset, seed: u64) -> Option<Section> {
    let of = |activities| Some(rows(&Usage::of(&data.with_activities(activities)?)?, seed));
    let (crest, pooled) = (of(ActivityModel::Crest)?, of(ActivityModel::Pooled)?);
    let all = every(&[("crest", &crest), ("pooled", &pooled)]);
    let player = crest.iter().find(|row| row.device.name() == "cd_player").map(|row| row.adversaries[3].mean);
    let finding =
        player.map(|hours| format!("the best guess at a CD player's start is {hours:.2} h off (paper: 3.19)"));
    let tables = [hours("activation_crest", &crest), hours("activation_pooled", &pooled), all];
    Some(Section::new(tables, [figure(&pooled)]).finding(finding.unwrap_or_default()))
}

/// What is found of one appliance.
#[derive(Debug)]
struct Row {
    device: Device,
    /// Homes that switched it on.
    users: usize,
    /// In the order of [`ADVERSARIES`].
    adversaries: [Accuracy; 4],
}

/// How far guesses are off, in hours.
#[derive(Debug, Clone, Copy)]
struct Accuracy {
    mean: f64,
    deviation: f64,
}

impl Accuracy {
    /// Of errors in slots.
    fn of(errors: &[Error]) -> Self {
        let mean_of = |part: fn(&Error) -> f64| errors.iter().map(part).sum::<f64>() / errors.len() as f64;
        let (mean, square) = (mean_of(|error| error.mean), mean_of(|error| error.square));
        let deviation = (square - mean * mean).max(0.0).sqrt();
        Self { mean: mean * HOURS_PER_SLOT, deviation: deviation * HOURS_PER_SLOT }
    }
}

/// All appliances that anybody switched on.
fn rows(usage: &Usage, seed: u64) -> Vec<Row> {
    let priors = Priors::of(usage);
    let homes: Vec<usize> = (0..usage.homes.len()).collect();
    let errors = in_parallel(all_cores(), &homes, |&home| {
        let attack = |used: &super::usage::Use| {
            let noisy = noisy(&used.watts, usage.peaks.around(home), seed, home, used.device);
            let target = Target::new(&used.watts, &noisy, usage.peaks.around(home))?;
            Some((used.device, target.errors(priors.of_device(used.device))))
        };
        usage.homes[home].iter().filter_map(attack).collect::<Vec<_>>()
    });
    let row = |device| {
        let users = errors.iter().flatten().filter(|(of, _)| *of == device).map(|(_, errors)| *errors);
        let users: Vec<[Error; 4]> = users.collect();
        let accuracy = |which| Accuracy::of(&users.iter().map(|errors| errors[which]).collect::<Vec<_>>());
        (!users.is_empty()).then(|| Row { device, users: users.len(), adversaries: std::array::from_fn(accuracy) })
    };
    Device::all().filter_map(row).collect()
}

/// What the adversary is left with once it has taken everything that it knows from the sum: a Laplace variable in each
/// slot on top of the appliance.
fn noisy(watts: &[f64], scales: &[f64], seed: u64, home: usize, device: Device) -> Vec<f64> {
    let mut chance = chance(seed, (home * Device::COUNT + device.index()) as u64);
    let mut exponential = || -> f64 { Exp1.sample(&mut chance) };
    watts.iter().zip(scales).map(|(watts, scale)| watts + scale * (exponential() - exponential())).collect()
}

fn hours(name: &'static str, rows: &[Row]) -> Table {
    const COLUMNS: &str = "appliance users paper_users random paper_random statistical paper_statistical bayesian \
                           paper_bayesian bayesian_statistical paper_bayesian_statistical";
    let cells = |row: &Row| {
        let printed = paper::activation(row.device);
        let pairs = row.adversaries.iter().enumerate();
        let pairs = pairs.flat_map(|(at, ours)| [Some(ours.mean), printed.map(|row| row.adversaries[at].0)]);
        row![row.device.name(), row.users, printed.map(|printed| printed.users); pairs]
    };
    Table::new(name, COLUMNS, rows.iter().map(cells))
}

fn every(models: &[(&str, &[Row])]) -> Table {
    const COLUMNS: &str = "activities appliance users adversary error_mean_h error_dev_h paper_mean_h paper_dev_h";
    let of_adversary = |model: &str, row: &Row, at: usize| {
        let (ours, printed) = (row.adversaries[at], paper::activation(row.device).map(|row| row.adversaries[at]));
        let printed = [printed.map(|(mean, _)| mean), printed.map(|(_, deviation)| deviation)];
        row![model, row.device.name(), row.users, ADVERSARIES[at], ours.mean, ours.deviation; printed]
    };
    let rows = models.iter().flat_map(|(model, rows)| rows.iter().map(move |row| (*model, row)));
    let rows = rows.flat_map(|(model, row)| (0..ADVERSARIES.len()).map(move |at| of_adversary(model, row, at)));
    Table::new("activation_all", COLUMNS, rows)
}

/// Our errors against the paper's: on the line they are the same.
fn figure(rows: &[Row]) -> Figure {
    let dots = |(at, label): (usize, &str)| {
        let point = |row: &Row| Some((paper::activation(row.device)?.adversaries[at].0, row.adversaries[at].mean));
        Stroke::Dots.through(label, rows.iter().filter_map(point))
    };
    let same = Stroke::Dashed.through("the same", [(0.0, 0.0), (9.0, 9.0)]);
    Figure::new(
        "activation",
        "How far guesses are off with the activities of `pooled`, a dot an appliance: ours against the paper's",
        (Axis::linear("hours, the paper's"), Axis::linear("hours, ours")),
        ADVERSARIES.into_iter().enumerate().map(dots).chain([same]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOMES: u32 = 600;

    fn rows_of(activities: ActivityModel) -> Vec<Row> {
        rows(&Usage::of(&Dataset::model(1, HOMES, activities)).unwrap(), 1)
    }

    fn row<'a>(rows: &'a [Row], name: &str) -> &'a Row {
        rows.iter().find(|row| row.device.name() == name).unwrap()
    }

    /// As many homes as in the paper, within four standard deviations of a binomial.
    fn as_many_as_printed(rows: &[Row], names: &[&str]) {
        for name in names {
            let row = row(rows, name);
            let share = paper::activation(row.device).unwrap().users as f64 / 3000.0;
            let (expected, variance) = (share * f64::from(HOMES), share * (1.0 - share) * f64::from(HOMES));
            assert!((row.users as f64 - expected).abs() < 4.0 * variance.sqrt(), "{name}: {} {expected}", row.users);
        }
    }

    #[test]
    fn as_many_homes_use_appliances_as_in_the_paper() {
        as_many_as_printed(&rows_of(ActivityModel::Crest), &["cd_player", "pc", "deswh", "storage_heater"]);
        as_many_as_printed(&rows_of(ActivityModel::Pooled), &["iron", "washing_machine", "tv1", "cd_player"]);
    }

    #[test]
    fn guesses_are_off_as_in_the_paper_where_presence_decides() {
        let rows = rows_of(ActivityModel::Crest);
        for name in ["cd_player", "kettle", "lighting", "fridge_freezer"] {
            let row = row(&rows, name);
            let printed = paper::activation(row.device).unwrap().adversaries;
            // Not the statistical one, whose most frequent slot is a matter of luck in few homes.
            for which in [0, 2, 3] {
                let (ours, printed) = (row.adversaries[which].mean, printed[which].0);
                assert!((ours / printed - 1.0).abs() < 0.15, "{name}, {}: {ours} {printed}", ADVERSARIES[which]);
            }
        }
        let heater = row(&rows, "storage_heater").adversaries;
        assert_eq!((heater[1].mean, heater[1].deviation, heater[3].mean), (0.0, 0.0, 0.0), "all begin in one slot");
        assert!(heater[2].mean < 0.6 && heater[0].mean > 7.5, "{heater:?}");
    }

    #[test]
    fn knowing_more_helps() {
        for row in rows_of(ActivityModel::Crest).iter().filter(|row| row.users > 200) {
            let [random, _, bayesian, both] = row.adversaries.map(|accuracy| accuracy.mean);
            assert!(bayesian < random && both < 1.1 * bayesian, "{row:?}");
        }
    }

    #[test]
    fn noise_is_as_large_as_its_scale_on_average() {
        let device = Device::named("kettle").unwrap();
        let noise = noisy(&vec![5.0; 20_000], &vec![2.0; 20_000], 1, 7, device);
        let size = noise.iter().map(|noisy| (noisy - 5.0).abs()).sum::<f64>() / 20_000.0;
        // Five standard errors of a mean of 20,000.
        assert!((size - 2.0).abs() < 0.071, "{size}");
        assert_ne!(noise[..3], noisy(&[5.0; 3], &[2.0; 3], 1, 8, device)[..]);
    }

    #[test]
    fn a_file_does_not_tell_of_appliances() {
        assert!(section(&Dataset::of_text("1,2\n3,4\n", 600), 1).is_none());
        assert_eq!(section(&Dataset::model(1, 100, ActivityModel::Crest), 1).unwrap().tables.len(), 3);
    }
}
