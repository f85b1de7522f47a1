//! Hours and days: every slot is in them once, whatever happens to the gateway, and they are those of the operator's clocks.

use std::collections::BTreeMap;

use dream_gateway::board::energy::EnergyView;
use dream_gateway::clock::Zone;
use dream_gateway::config::{Config, Overrides};
use dream_gateway::engine::cluster_filter::ClusterFilter;
use dream_gateway::engine::energy::RunningEnergy;
use dream_gateway::engine::served::NEVER;
use dream_gateway::history::{ClosedSlot, Extent, FilteredLoad, History, Rollup, Step};
use dream_gateway::store::{Change, FileStore, Store as _};
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::Record;
use dream_protocol::ids::ClusterId;
use dream_protocol::time::Timestamp;
use dream_testkit::outcomes::Slotted;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use redb::{ReadableDatabase as _, ReadableTableMetadata as _, TableDefinition, TableHandle as _};

use crate::filtered::{Life, NOW, Scene, north, past};
use crate::world::gateway::in_memory;

const START: Timestamp = Timestamp::from_millis(0);

fn rows(store: &FileStore, step: Step) -> Vec<Rollup> {
    store.rollups(&north(), step, START..NEVER, usize::MAX).unwrap()
}

fn energy(rows: &[Rollup]) -> f64 {
    rows.iter().map(Rollup::energy_watt_hours).sum()
}

/// Energy of the slots that gave a sum, of all members.
fn measured(outcomes: &[SlotOutcome]) -> f64 {
    let watts = |outcome: &SlotOutcome| ClosedSlot::from(*outcome).estimate().map_or(0.0, |load| load.watts as f64);
    outcomes.iter().map(watts).sum::<f64>() / 6.0
}

fn running(life: &mut Life) -> EnergyView {
    life.served.energy().unwrap()
}

/// Fails unless every slot is counted once.
fn assert_all_counted(store: &FileStore, outcomes: &[SlotOutcome]) {
    for step in Step::ALL {
        let rows = rows(store, step);
        let slots: u64 = rows.iter().map(|row| row.slots).sum();
        let decoded: u64 = rows.iter().map(|row| row.measured_millis).sum::<u64>() / 600_000;
        assert_eq!(slots, u64::try_from(outcomes.len()).unwrap(), "{step:?}");
        let gave_sums = outcomes.iter().filter(|outcome| outcome.result.is_ok()).count();
        assert_eq!(decoded, u64::try_from(gave_sums).unwrap(), "{step:?}");
    }
    let (hours, days) = (energy(&rows(store, Step::Hour)), energy(&rows(store, Step::Day)));
    assert!((hours / days - 1.0).abs() < 1e-9, "{hours} {days}");
}

#[test]
fn restarts_change_no_row_and_the_running_periods_go_on_from_them() {
    let outcomes = past(1000);
    let unbroken = Scene::set();
    let mut life = unbroken.start();
    life.close(&outcomes);
    assert_all_counted(&life.store, &outcomes);

    let scene = Scene::set();
    for some in outcomes.chunks(37) {
        scene.start().close(some);
    }
    let mut again = scene.start();
    for step in Step::ALL {
        assert_eq!(rows(&again.store, step), rows(&life.store, step));
    }
    assert_eq!(running(&mut again), running(&mut life));
    let EnergyView { hour, day, month, extent } = running(&mut again);
    assert_eq!(extent, Extent { begun: outcomes[0].start, until: outcomes[999].end });
    // The last slot ended at 14:00 on 16 November; the first began on the 9th.
    assert_eq!((hour.slots, day.slots, month.slots), (6, 14 * 6, 1000));
    let filled = month.energy_watt_hours() - measured(&outcomes);
    let count = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
    assert!((20_000.0..80_000.0).contains(&(6.0 * filled / count as f64)), "{filled} in {count} slots");
    assert_eq!((month.filled_millis, month.missing_millis(extent)), (600_000 * u64::try_from(count).unwrap(), 0));
}

#[test]
fn a_slot_that_closes_after_a_later_one_is_in_its_own_hour() {
    let outcomes = past(40);
    let scene = Scene::set();
    let mut life = scene.start();
    life.close(&[&outcomes[..20], &outcomes[21..], &outcomes[20..21]].concat());
    assert_all_counted(&life.store, &outcomes);
    let straight = Scene::set();
    let mut other = straight.start();
    other.close(&outcomes);
    assert!(
        (running(&mut life).month.energy_watt_hours() / running(&mut other).month.energy_watt_hours() - 1.0).abs()
            < 1e-9
    );
    assert_eq!(running(&mut life).extent, running(&mut other).extent);
}

/// Leaves a store as a version before hours and days wrote it.
fn forget_rows(scene: &Scene) {
    let database = redb::Database::open(scene.store_path()).unwrap();
    let write = database.begin_write().unwrap();
    for table in ["hours", "days"] {
        write.delete_table(TableDefinition::<(&str, u64), &[u8]>::new(table)).unwrap();
    }
    write.commit().unwrap();
}

#[test]
fn a_store_without_rows_gets_them_from_its_slots() {
    let outcomes = past(1000);
    let scene = Scene::set();
    scene.start().close(&outcomes[..990]);
    let before = rows(&scene.start().store, Step::Day);
    forget_rows(&scene);
    assert_eq!(rows(&FileStore::open_existing(&scene.store_path()).unwrap(), Step::Day), []);
    let mut life = scene.start();
    let made = rows(&life.store, Step::Day);
    assert_eq!(made.len(), before.len());
    for (made, before) in made.iter().zip(&before) {
        assert_eq!(
            (made.slots, made.measured_millis, made.filled_millis),
            (before.slots, before.measured_millis, before.filled_millis)
        );
    }
    life.close(&outcomes[990..]);
    assert_all_counted(&life.store, &outcomes);
}

#[test]
fn slots_older_than_what_the_filter_sees_again_are_counted_and_not_filled_in() {
    let outcomes = past(6000);
    let scene = Scene::set();
    let life = scene.start();
    let changes: Vec<_> = outcomes.iter().map(|outcome| Change::Put(north(), Record::Outcome(*outcome))).collect();
    life.store.commit(&changes).unwrap();
    drop(life);
    let mut life = scene.start();
    assert_all_counted(&life.store, &outcomes);
    let EnergyView { extent, .. } = running(&mut life);
    assert_eq!(extent, Extent { begun: outcomes[0].start, until: outcomes[5999].end });
    let missing: u64 = rows(&life.store, Step::Day).iter().map(|day| day.missing_millis(extent)).sum();
    let filled: u64 = rows(&life.store, Step::Day).iter().map(|day| day.filled_millis).sum();
    assert_eq!((missing + filled) / 600_000, 200, "every thirtieth failed");
    // The filter looks at two weeks again.
    assert_eq!(filled / 600_000, 2016 / 30, "{missing}");
}

#[test]
fn what_an_earlier_version_closed_in_between_is_caught_up_with() {
    let outcomes = past(300);
    let scene = Scene::set();
    let mut life = scene.start();
    life.close(&outcomes[..100]);
    for outcome in &outcomes[100..200] {
        life.store.commit(&[Change::Put(north(), Record::Outcome(*outcome))]).unwrap();
    }
    drop(life);
    let mut life = scene.start();
    life.close(&outcomes[200..]);
    assert_all_counted(&life.store, &outcomes);
}

fn at(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_millis(instant.as_millisecond().try_into().unwrap())
}

/// Slots of 60 kW from one instant to another.
fn steady(from: Timestamp, to: Timestamp) -> Vec<SlotOutcome> {
    (from.as_secs() / 600..to.as_secs() / 600).map(|slot| Slotted::new(slot).decoded(60_000, 100)).collect()
}

#[test]
fn days_are_those_of_the_operators_clocks_also_when_they_have_23_or_25_hours() {
    let mut scene = Scene::set();
    scene.config.time_zone = Zone::named("Europe/Amsterdam").unwrap();
    let mut life = scene.start();
    life.close(&steady(at("2026-03-27T23:00:00Z"), at("2026-03-31T22:00:00Z")));
    life.close(&steady(at("2026-10-23T22:00:00Z"), at("2026-10-26T23:00:00Z")));
    let kilowatt_hours = |rows: &[Rollup]| -> Vec<f64> {
        rows.iter().map(|row| (row.energy_watt_hours() / 100.0).round() / 10.0).collect()
    };
    let days = rows(&life.store, Step::Day);
    assert_eq!(kilowatt_hours(&days), [1440.0, 1380.0, 1440.0, 1440.0, 1440.0, 1500.0, 1440.0]);
    assert_eq!(days[1].start, at("2026-03-28T23:00:00Z"));
    let hours = rows(&life.store, Step::Hour);
    assert!(kilowatt_hours(&hours).iter().all(|&energy| energy == 60.0));
    assert_eq!(hours.len(), 4 * 24 - 1 + 3 * 24 + 1);
    let EnergyView { month, extent, .. } = running(&mut life);
    assert_eq!(kilowatt_hours(&[month]), [4380.0], "March is not October");
    assert_eq!(
        month.missing_millis(extent),
        (31 * 24 + 1 - 73 - 5 * 24) * 3_600_000,
        "to the end of the 26th of 31 days"
    );
}

#[test]
fn a_slot_across_midnight_is_split_and_counted_once() {
    let scene = Scene::set();
    let mut life = scene.start();
    // Slots of seven minutes: no day is a whole number of them.
    let from = at("2026-11-10T00:00:00Z").as_secs() / 420;
    let outcomes: Vec<_> = (from..from + 600)
        .map(|slot| Slotted { slot_seconds: 420, ..Slotted::new(slot) }.decoded(60_000, 100))
        .collect();
    life.close(&outcomes);
    let days = rows(&life.store, Step::Day);
    assert!((days[1].energy_watt_hours() - 24.0 * 60_000.0).abs() < 1e-6 && days[1].measured_millis == 86_400_000);
    assert!((energy(&days) - 600.0 * 7000.0).abs() < 1e-6);
    assert_eq!(days.iter().map(|day| day.slots).sum::<u64>(), 600);
}

#[test]
fn another_time_zone_leaves_the_rows_as_they_are_and_counts_no_slot_twice() {
    let (from, change, to) = (at("2026-11-10T00:00:00Z"), at("2026-11-12T15:00:00Z"), at("2026-11-14T12:00:00Z"));
    for name in ["Europe/Amsterdam", "America/New_York", "Asia/Kolkata"] {
        let mut scene = Scene::set();
        scene.start().close(&steady(from, change));
        let before = rows(&scene.start().store, Step::Day);
        scene.config.time_zone = Zone::named(name).unwrap();
        for some in steady(change, to).chunks(50) {
            scene.start().close(some);
        }
        let mut life = scene.start();
        let all = steady(from, to);
        assert_all_counted(&life.store, &all);
        let after = rows(&life.store, Step::Day);
        assert!(before.iter().all(|day| after.contains(day)), "{name}");
        let EnergyView { month, extent, .. } = running(&mut life);
        assert!((month.energy_watt_hours() - measured(&all)).abs() < 1e-6, "{name}");
        assert_eq!((extent.until, month.missing_millis(extent)), (to, 0), "{name}");
    }
}

#[test]
fn time_without_a_slot_is_missing_and_slots_without_a_sum_are_filled_in() {
    let scene = Scene::set();
    let mut life = scene.start();
    let (monday, noon) = (at("2026-11-09T00:00:00Z"), at("2026-11-12T12:00:00Z"));
    life.close(&steady(monday, noon));
    // Two hours of a list whose slots were missed, and then none for six hours.
    let missed: Vec<_> =
        (0..12).map(|slot| Slotted::new(noon.as_secs() / 600 + slot).failed("interrupted", 0)).collect();
    life.close(&missed);
    life.close(&steady(noon.plus_secs(8 * 3600), noon.plus_secs(10 * 3600)));
    let EnergyView { day, month, extent, .. } = running(&mut life);
    assert_eq!((day.measured_millis, day.filled_millis), (14 * 3_600_000, 2 * 3_600_000));
    assert_eq!((day.missing_millis(extent), month.missing_millis(extent)), (6 * 3_600_000, 6 * 3_600_000));
    assert!((day.covered_share(extent) - 16.0 / 22.0).abs() < 1e-12);
    assert!((day.filled_share() - 2.0 / 16.0).abs() < 1e-12);
    let filled = day.energy_watt_hours() - 14.0 * 60_000.0;
    assert!((100_000.0..140_000.0).contains(&filled), "two hours of about 60 kW: {filled}");
}

#[test]
fn hours_expire_and_days_do_not() {
    let scene = Scene::set();
    let mut life = scene.start();
    let outcomes = past(1000);
    life.close(&outcomes);
    let (hours, days) = (rows(&life.store, Step::Hour), rows(&life.store, Step::Day));
    let [slots, hours_from] = [outcomes[900].end, hours[50].start];
    life.store.commit(&[Change::Expire { slots, hours: hours_from }]).unwrap();
    assert_eq!(rows(&life.store, Step::Hour), hours[50..]);
    assert_eq!(rows(&life.store, Step::Day), days);
    life.store.commit(&[Change::Expire { slots: NEVER, hours: NEVER }]).unwrap();
    assert_eq!(life.store.slots(&north(), START..NEVER, 9).unwrap(), []);
    assert_eq!(life.store.clusters().unwrap(), [north()], "its days are still there");
    drop(life);
    let mut life = scene.start();
    let EnergyView { month, day, extent, .. } = running(&mut life);
    assert_eq!((month.slots, day.slots, extent.until), (1000, 84, outcomes[999].end));
    life.close(&[Slotted::new(NOW.as_secs() / 600).decoded(50_000, 95)]);
    assert_eq!(running(&mut life).day.slots, 85);
}

/// A cluster of homes that rise, cook and sleep, with weather that differs from day to day, and with the noise that meters add.
struct Homes(StdRng);

impl Homes {
    fn uniform(&mut self) -> f64 {
        self.0.random::<f64>().max(1e-17)
    }

    /// Returns the true loads of a day's slots, in watts.
    fn day(&mut self) -> Vec<f64> {
        let weather = 0.9 + 0.2 * self.uniform();
        let mut wander = 0.0;
        let slots = (0..144u32).map(|slot| {
            let hour = f64::from(slot) / 6.0;
            let peak = |at: f64, width: f64, height: f64| height * (-((hour - at) / width).powi(2)).exp();
            wander = 0.9 * wander + 3000.0 * (self.uniform() - 0.5);
            weather * (20_000.0 + peak(7.5, 1.4, 20_000.0) + peak(19.5, 2.4, 45_000.0)) + wander
        });
        slots.collect()
    }

    /// Returns a slot: one in twelve gives no sum, and one in a hundred begins an outage of two hours.
    fn close(&mut self, slot: u64, load: f64, away: &mut u32) -> SlotOutcome {
        let slotted = Slotted { noise_scale: 5000, ..Slotted::new(slot) };
        *away = if self.uniform() < 0.01 { 12 } else { away.saturating_sub(1) };
        if *away > 0 || self.uniform() < 0.08 {
            return slotted.failed("too_many_missing", 70);
        }
        // With as many shares as make up all of it, the noise is Laplace's.
        let noise = 5000.0 * (self.uniform().ln() - self.uniform().ln());
        #[expect(clippy::cast_possible_truncation, reason = "a load is far below 2^63")]
        slotted.decoded((0.8 * load + noise).round() as i64, 80)
    }
}

#[test]
fn the_band_of_a_day_holds_its_true_energy_although_a_fifth_of_it_is_filled_in() {
    const DAYS: u64 = 45;
    let (mut held, mut days, mut filled) = (0, 0, 0.0);
    for seed in 0..6 {
        let (mut homes, zone) = (Homes(StdRng::seed_from_u64(seed)), Zone::default());
        let mut filter = ClusterFilter::new(&zone, &[]);
        let store = FileStore::open(&in_memory().path().join("gateway.redb"), 4).unwrap();
        let (mut energy, mut away) = (RunningEnergy::resume(&store, &north(), &zone).unwrap(), 0);
        for day in 20_000..20_000 + DAYS {
            let loads = homes.day();
            for (slot, load) in (day * 144..).zip(&loads) {
                let outcome = homes.close(slot, *load, &mut away);
                let closed = filter.close(&north(), outcome, &mut Vec::new());
                energy.close(&closed).for_each(drop);
            }
            let today = energy.view().unwrap().day;
            // The filter has to learn first.
            if day >= 20_010 {
                let truth = loads.iter().sum::<f64>() / 6.0;
                held += u32::from((today.energy_watt_hours() - truth).abs() <= today.band95_watt_hours());
                (days, filled) = (days + 1, filled + today.filled_share());
            }
        }
    }
    let (covered, filled) = (f64::from(held) / f64::from(days), filled / f64::from(days));
    assert!((0.12..0.3).contains(&filled), "{filled}");
    assert!((0.92..=0.99).contains(&covered), "{covered} of {days} days");
}

/// Fills a year of ten-minute slots as a gateway with the usual retention does. What it takes is in docs/performance.md; a row
/// that grows, or that is never dropped, has to show here.
#[test]
#[expect(clippy::print_stdout, reason = "it measures")]
fn a_year_of_a_cluster_takes_a_few_megabytes() {
    const CLUSTERS: u64 = 2;
    let directory = in_memory();
    let path = directory.path().join("gateway.redb");
    let store = FileStore::open(&path, 4).unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/gateway.example.toml");
    let kept = Config::load(example.as_ref(), &Overrides::default()).unwrap().store;
    let zone = Zone::named("Europe/Amsterdam").unwrap();
    let names: Vec<ClusterId> = (0..CLUSTERS).map(|at| ClusterId::new(&format!("feeder-{at:03}")).unwrap()).collect();
    let mut running: Vec<_> = names.iter().map(|name| RunningEnergy::resume(&store, name, &zone).unwrap()).collect();
    let first = at("2026-01-01T00:00:00Z").as_secs() / 600;
    for day in (0..365).map(|day| first + 144 * day) {
        let (mut changes, mut rows) = (Vec::new(), BTreeMap::new());
        for (slot, at) in (day..day + 144).flat_map(|slot| (0..names.len()).map(move |at| (slot, at))) {
            let (name, running) = (&names[at], &mut running[at]);
            let outcome = Slotted { epoch: 1_794_837_600, ..Slotted::new(slot) }.decoded(51_234, 97);
            let (cluster, filtered) = (name.clone(), FilteredLoad { watts: 50_321, band95: 9876 });
            let added = running.add(&ClosedSlot { filtered: Some(filtered), ..outcome.into() });
            rows.extend(added.into_iter().map(|(step, rollup)| ((at, step, rollup.start), rollup)));
            changes.push(Change::Put(name.clone(), Record::Outcome(outcome)));
            changes.push(Change::PutFiltered { cluster: cluster.clone(), end: outcome.end, filtered });
            changes.push(Change::PutSmoothed { cluster, end: outcome.end, smoothed: filtered });
        }
        changes.extend(rows.into_iter().map(|((at, step, _), rollup)| {
            let cluster = names[at].clone();
            Change::PutRollup { cluster, step, rollup }
        }));
        let ago = |days: u64| Timestamp::from_secs((day + 144) * 600 - days * 86_400);
        changes.push(Change::Expire { slots: ago(kept.retention_days), hours: ago(kept.hours_retention_days) });
        store.commit(&changes).unwrap();
    }
    let file = store.file_bytes() / CLUSTERS;
    drop(store);
    let database = redb::Database::open(&path).unwrap();
    let read = database.begin_read().unwrap();
    let taken = |table| {
        let stats = read.open_untyped_table(table).unwrap().stats().unwrap();
        (stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes()) / CLUSTERS
    };
    let tables: BTreeMap<String, u64> =
        read.list_tables().unwrap().map(|table| (table.name().to_owned(), taken(table))).collect();
    println!("bytes of a cluster and year: {file} in the file; {tables:?}");
    let slots = tables["outcomes"] + tables["filtered"] + tables["smoothed"];
    assert!((200..420).contains(&(slots / (56 * 144))), "bytes of a slot: {tables:?}");
    assert!(
        (140..400).contains(&(tables["hours"] / 8760)) && (140..400).contains(&(tables["days"] / 365)),
        "{tables:?}"
    );
    assert!(file < 12_000_000, "the file is up to twice as large as what is in it: {file}, {tables:?}");
}
