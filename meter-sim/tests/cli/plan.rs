//! What `dream-gateway plan` promises, held against simulated homes: their load, and the errors that `meter-sim study` finds.

use std::collections::BTreeMap;
use std::fs;

use dream_edge::HomeKind;
use dream_homes::home::{Calendar, Home};
use dream_homes::slots::SlotLength;
use dream_homes::street::{all_cores, in_parallel};
use dream_protocol::params::{Params, Terms};
use dream_protocol::simulation::DayAccount;
use dream_protocol::time::Slot;
use dream_study::pool::homes_of;
use dream_testkit::lab::command::succeed;
use serde_json::Value;

use super::meter_sim;

fn plan(arguments: &str) -> Value {
    let arguments: Vec<&str> = arguments.split_whitespace().chain(["--json"]).collect();
    serde_json::from_str(&dream_gateway::cmd::plan(&arguments).unwrap()).unwrap()
}

/// Returns the error that a plan tells, as a share of the mean load.
fn planned_error(arguments: &str) -> f64 {
    plan(arguments)["error_when_all_answer"]["mean_percent"].as_f64().unwrap() / 100.0
}

/// Runs the part of the study about days; returns the rows over all slots of a kind and size, the first seed's first.
fn studied(arguments: &[&str], kind: &str, homes: &str) -> Vec<BTreeMap<String, String>> {
    let folder = tempfile::tempdir().unwrap();
    succeed(meter_sim(folder.path()).args(["study", "--only", "day", "--out", "."]).args(arguments));
    let csv = fs::read_to_string(folder.path().join("day.csv")).unwrap();
    let (header, rows) = csv.split_once('\n').unwrap();
    let named =
        |row: &str| header.split(',').zip(row.split(',')).map(|(name, cell)| (name.into(), cell.into())).collect();
    let rows = rows.lines().map(named).filter(|row: &BTreeMap<String, String>| {
        (row["kind"].as_str(), row["homes"].as_str(), row["when"].as_str()) == (kind, homes, "all")
    });
    rows.collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap()
}

/// The product's promise for large clusters. Range and account take away some load besides the noise: at most `bias` of it.
#[test]
fn ten_thousand_houses_at_a_day_of_four_err_as_planned() {
    let asked = "--homes 10000 --kind house --day-epsilon 4";
    let (planned, epsilon) = (planned_error(asked), &plan(asked)["micro_epsilon_per_attempt"]);
    let rows = studied(&["--homes", "110"], "house", "10000");
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!((row["epsilon_of_a_day"].as_str(), epsilon.as_u64()), ("4", Some(212_468)));
        assert!((number(&row, "epsilon") - 0.212_468).abs() < 1e-6, "{row:?}");
        let (found, bias) = (number(&row, "absolute_error_over_mean_load"), number(&row, "bias").abs());
        // 288 slots tell their mean error within 5 %, and a day in November is not the mean of a year.
        assert!((found - planned).abs() <= bias + 0.15 * planned, "planned {planned}, found {found}: {row:?}");
    }
}

/// Of homes that the test knows, so that their mean load is no assumption. Next to nothing of them is cut off.
#[test]
fn a_hundred_homes_err_as_planned() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("homes.csv");
    let path = file.to_str().unwrap();
    let trace = ["trace", "--homes", "200", "--days", "14", "--slot-seconds", "600", "--out", path];
    succeed(meter_sim(folder.path()).args(trace));
    let text = fs::read_to_string(&file).unwrap();
    let rows: Vec<f64> =
        text.lines().skip(1).map(|row| row.split(',').skip(1).map(|cell| cell.parse::<f64>().unwrap()).sum()).collect();
    let last_week = &rows[rows.len() - 7 * 144..];
    let mean = last_week.iter().sum::<f64>() / last_week.len() as f64 / 200.0;
    let planned = planned_error(&format!("--homes 100 --kind electric-heat --mean-load {mean:.0}"));
    let studied = studied(&["--csv", path], "electric-heat", "100");
    assert!(!studied.is_empty());
    for row in studied {
        let found = number(&row, "absolute_error_over_mean_load");
        // 2,016 slots tell it within 2 %: the factor 1.144 of the tolerance, left out, would be seen.
        assert!((found / planned - 1.0).abs() < 0.06, "planned {planned}, found {found}: {row:?}");
    }
}

/// Mean loads, and what range and account cut off, over the days of a year.
#[test]
fn what_a_plan_assumes_of_homes_is_what_simulated_ones_do() {
    let mut wrong = Vec::new();
    for kind in HomeKind::ALL {
        let homes = homes_of(kind, 1, if kind == HomeKind::ElectricHeat { 90 } else { 780 });
        let (mean, cut_off) = year_of(kind, &homes);
        let assumed = plan(&format!("--kind {kind}"));
        let [watts, percent] =
            ["mean_load_watts_per_home", "cut_off_percent"].map(|key| assumed[key].as_f64().unwrap());
        if (mean / watts - 1.0).abs() >= 0.06 {
            wrong.push(format!("{kind}: {mean:.0} W, and the plan says {watts}"));
        }
        if (cut_off - percent).abs() >= 0.2 + 0.1 * percent {
            wrong.push(format!("{kind}: {cut_off:.2} %, and the plan says {percent}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the mean size of the homes' load for each of them, and the percentage of their energy that is cut off.
fn year_of(kind: HomeKind, homes: &[Home]) -> (f64, f64) {
    // A day in the middle of every month, and all days of the week.
    let days: Vec<u32> = (15..365).step_by(30).collect();
    let slot = SlotLength::new(600).unwrap();
    let params =
        Params::new(100, kind.usual_terms(Terms { max_missing: 10, max_malicious: 10, ..Terms::DEFAULT })).unwrap();
    let of_day = |number: &u32| {
        let mut sums = vec![0i64; slot.per_day()];
        let (mut energy, mut lost) = (0, 0);
        for home in homes {
            let mut account = DayAccount::default();
            let loads = slot.means(&home.day(Calendar::Year.day(*number)).total());
            for ((sum, watts), at) in sums.iter_mut().zip(loads).zip(144..) {
                *sum += watts;
                energy += watts.abs();
                lost += (watts - account.report(&params, Slot(at), watts)).abs();
            }
        }
        (sums.iter().map(|sum| sum.abs()).sum::<i64>(), energy, lost)
    };
    let of_days = in_parallel(all_cores(), &days, of_day);
    let sum = |part: fn(&(i64, i64, i64)) -> i64| of_days.iter().map(part).sum::<i64>() as f64;
    let slots = (days.len() * slot.per_day()) as f64;
    (sum(|day| day.0) / slots / homes.len() as f64, 100.0 * sum(|day| day.2) / sum(|day| day.1))
}
