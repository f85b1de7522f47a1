//! The day before a demo begins: slots that nobody reported, made of the same homes and the exact same noise.

use dream_fleet::{ClusterSetup, Faults, Homes};
use dream_gateway::clock::{Zone, rfc3339};
use dream_gateway::engine::cluster_filter::ClusterFilter;
use dream_gateway::store::{Change, Store, StoreError};
use dream_homes::source::Source;
use dream_homes::street;
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::cluster::Record;
use dream_protocol::ids::ClusterId;
use dream_protocol::params::Params;
use dream_protocol::simulation::{DayAccount, unmasked_slot};
use dream_protocol::time::{Slot, Timestamp};
use rand_chacha::ChaCha20Rng;

const DAY_SECONDS: u64 = 86_400;

/// Returns the slots of the day that ends at `until`, as the cluster would have closed them: the readings of its homes,
/// without those that a fault loses, and a share of the noise for each. Only masks are left out.
pub(super) fn slots(
    until: Timestamp,
    params: &Params,
    cluster: &ClusterSetup,
    source: &Source,
    faults: &Faults,
    rng: &mut ChaCha20Rng,
) -> Vec<SlotOutcome> {
    let (first, end) = (params.slot_at(until).0 - DAY_SECONDS / params.terms().slot_seconds, params.slot_at(until).0);
    let slots: Vec<Slot> = (first..end).map(Slot).collect();
    let loads = street::in_parallel(street::all_cores(), &cluster.homes, |&home| {
        let mut homes = Homes::new(vec![home]);
        let times = |slot| (params.slot_start(slot), params.slot_end(slot));
        let mut account = DayAccount::default();
        let mut reported = |slot| account.report(params, slot, homes.watts(source, 1.0, 0, slot, times(slot)));
        slots.iter().map(|&slot| reported(slot)).collect::<Vec<_>>()
    });
    let close = |(at, &slot): (usize, &Slot)| {
        let members = cluster.meters.iter().zip(&loads).map(|(meter, loads)| {
            let lost = faults.at(&meter.id, slot).is_some_and(|fault| fault.loses_reading());
            (!lost).then_some((loads[at], meter.simulation))
        });
        unmasked_slot(params, slot, members, rng)
    };
    slots.iter().enumerate().map(close).collect()
}

/// Writes the slots of a new cluster to a store, oldest first, with what the gateway's filter makes of them. They are of no list,
/// so that the gateway shows them and counts them nowhere. Its days are those of UTC.
pub(super) fn write(store: &dyn Store, cluster: &ClusterId, slots: &[SlotOutcome]) -> Result<(), StoreError> {
    let mut filter = ClusterFilter::new(&Zone::default(), &[]);
    let mut changes = Vec::with_capacity(3 * slots.len());
    for outcome in slots {
        changes.push(Change::Put(cluster.clone(), Record::Outcome(*outcome)));
        filter.close(cluster, *outcome, &mut changes);
    }
    store.commit(&changes)
}

/// Returns what the gateway's pages say about the day that ends at `until`.
pub(super) fn notice(until: Timestamp) -> String {
    format!(
        "This is a demo: homes and meters are simulated, and simulated time runs fast. The slots until {} were filled \
         in: no meter reported them, and they belong to no list. They are sums of the same homes with the same noise, \
         but without masking. No metric and no energy total counts them.",
        rfc3339(until)
    )
}

#[cfg(test)]
mod tests {
    use dream_fleet::MeterSetup;
    use dream_fleet::access::Access;
    use dream_fleet::authority::TestAuthorities;
    use dream_gateway::history::History as _;
    use dream_gateway::store::FileStore;
    use dream_homes::home::Month;
    use dream_protocol::ids::MeterId;
    use dream_protocol::params::Terms;
    use dream_protocol::simulation::Simulation;
    use rand_chacha::rand_core::SeedableRng as _;

    use super::*;

    const METERS: usize = 30;
    const UNTIL: Timestamp = Timestamp::from_secs(1_794_933_600);

    fn day(rate: f64, simulation: Simulation) -> (Vec<SlotOutcome>, Source) {
        day_of(Source::street(7, 30), Terms::DEFAULT, rate, simulation)
    }

    fn day_of(source: Source, terms: Terms, rate: f64, simulation: Simulation) -> (Vec<SlotOutcome>, Source) {
        let authority = TestAuthorities::new(1);
        let meter = |number: usize| {
            let id = MeterId::new(&format!("m-{number}")).unwrap();
            MeterSetup { issued: authority.meter(&id), id, access: Access::open("localhost", 1), simulation }
        };
        let cluster = ClusterSetup {
            cluster: ClusterId::new("north").unwrap(),
            meters: (0..METERS).map(meter).collect(),
            homes: (0..METERS).collect(),
            liars: Vec::new(),
        };
        let params = Params::new(METERS, Terms { max_missing: 3, max_malicious: 3, ..terms }).unwrap();
        let faults = Faults { seed: 7, rate, vanish: 0.0 };
        (slots(UNTIL, &params, &cluster, &source, &faults, &mut ChaCha20Rng::seed_from_u64(7)), source)
    }

    #[test]
    fn a_whole_day_ends_where_the_demo_begins() {
        let (slots, _) = day(0.0, Simulation::NOISELESS);
        assert_eq!(slots.len(), 144);
        assert_eq!(slots[143].end, UNTIL);
        assert!(slots.windows(2).all(|pair| pair[0].end == pair[1].start));
    }

    #[test]
    fn what_is_written_is_of_no_list_and_the_filter_knows_it() {
        let (slots, _) = day(0.0, Simulation::default());
        let directory = tempfile::tempdir().unwrap();
        let store = FileStore::open(&directory.path().join("gateway.redb"), 4).unwrap();
        let north = ClusterId::new("north").unwrap();
        write(&store, &north, &slots).unwrap();
        let kept = store.slots(&north, Timestamp::from_secs(0)..UNTIL.plus_secs(1), 1000).unwrap();
        assert_eq!(kept.iter().map(|closed| closed.outcome).collect::<Vec<_>>(), slots);
        assert!(kept.iter().all(|closed| !closed.is_of_a_list() && closed.filtered.is_some()), "{kept:?}");
        assert!(notice(UNTIL).contains("The slots until 2026-11-17T"), "{}", notice(UNTIL));
    }

    #[test]
    fn without_noise_and_faults_a_sum_is_what_the_homes_draw() {
        // Without an account of the day, which one that heats with electricity uses up.
        let terms = Terms { day_micro_rho: 0, ..Terms::DEFAULT };
        let (slots, source) = day_of(Source::street(7, 30), terms, 0.0, Simulation::NOISELESS);
        let mut homes = Homes::new((0..METERS).collect());
        for at in [0, 50, 143] {
            let slot = slots[at];
            let watts = |home| homes.watts(&source, 1.0, home, slot.slot, (slot.start, slot.end)).clamp(0, terms.hi);
            let drawn = (0..METERS).map(watts);
            assert_eq!(slot.result.unwrap().watts(), drawn.sum::<i64>(), "{at}");
        }
    }

    #[test]
    fn homes_with_panels_feed_in_by_day_and_draw_by_night() {
        let source = Source::street(7, 30).with_pv("1".parse().unwrap(), Month::new(6).unwrap());
        let terms = Terms { lo: -8000, hi: 8000, ..Terms::DEFAULT };
        let (slots, source) = day_of(source, terms, 0.0, Simulation::NOISELESS);
        let mut homes = Homes::new((0..METERS).collect());
        for slot in &slots {
            let drawn = (0..METERS).map(|home| homes.watts(&source, 1.0, home, slot.slot, (slot.start, slot.end)));
            assert_eq!(slot.result.unwrap().watts(), drawn.sum::<i64>(), "{:?}", slot.start);
        }
        let sums = |hours: std::ops::Range<u64>| {
            let within = |slot: &&SlotOutcome| hours.contains(&(slot.start.as_secs() % DAY_SECONDS / 3600));
            slots.iter().filter(within).map(|slot| slot.result.unwrap().watts()).collect::<Vec<_>>()
        };
        assert!(sums(11..15).iter().all(|watts| *watts < 0), "{:?}", sums(11..15));
        assert!(sums(0..4).iter().all(|watts| *watts > 0), "{:?}", sums(0..4));
    }

    #[test]
    fn as_many_members_are_missing_as_faults_say() {
        let (slots, _) = day(0.06, Simulation::default());
        let missing: u32 = slots.iter().map(|slot| u32::from(slot.missing())).sum();
        // Half of all faults lose a reading: 130 of 4320.
        assert!((90..170).contains(&missing), "{missing}");
    }
}
