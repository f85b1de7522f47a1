//! Eight clusters with a week behind them: homes that rise, cook and sleep, noise, and a few troubles.

use dream_gateway::board::ClusterView;
use dream_gateway::clock::Zone;
use dream_gateway::engine::cluster_filter::ClusterFilter;
use dream_gateway::history::ClosedSlot;
use dream_protocol::aggregate::SlotOutcome;
use dream_protocol::time::{Slot, Timestamp};

use crate::fixture::{Fixture, LAST_SLOT, NOW, listed, slot_of, waiting};

/// By id, as the page lists them.
pub const CLUSTERS: [&str; 8] =
    ["altstadt", "bergheim", "harbour-7", "mill-lane", "new-quarter", "oststadt", "riverside", "windmill-hill"];

const WEEK: u64 = 7 * 144;

pub fn fill(fixture: &Fixture) {
    for (id, members, seed) in [
        ("altstadt", 640, 1),
        ("bergheim", 480, 2),
        ("harbour-7", 1200, 3),
        ("oststadt", 300, 4),
        ("riverside", 850, 5),
        ("windmill-hill", 2000, 6),
    ] {
        let (mut cluster, mut filter) = (listed(id, members), ClusterFilter::new(&Zone::default(), &[]));
        for slot in LAST_SLOT - WEEK..=LAST_SLOT {
            // One cluster fell silent at noon, and one has trouble with its meters right now.
            if id == "riverside" && slot > LAST_SLOT - 16 {
                continue;
            }
            let too_few = id == "oststadt" && slot > LAST_SLOT - 4;
            cluster = live(fixture, &cluster, &mut filter, outcome(members, seed, slot, too_few));
        }
    }
    fixture.make_ready();
    fixture.board.show([waiting("mill-lane")]);
    let mut fresh = listed("new-quarter", 90);
    if let Some(list) = &mut fresh.list {
        list.from_slot = Slot(LAST_SLOT + 1);
    }
    fresh.since = NOW;
    fixture.board.show([fresh]);
    fixture.group("harbour", &["harbour-7", "oststadt"], &[]);
    fixture.group("valley", &["altstadt", "bergheim", "riverside"], &[]);
    fixture.group("region", &["windmill-hill"], &["harbour", "valley"]);
}

/// A cluster with more than a year behind it, of which the slots of eight weeks are kept.
pub fn fill_year(fixture: &Fixture, id: &str) {
    let mut cluster = listed(id, 400);
    for slot in LAST_SLOT - 400 * 144..=LAST_SLOT {
        let day = slot / 144;
        // The gateway was away for nine days in summer.
        if (20_620..20_629).contains(&day) {
            continue;
        }
        let season = 1.0 + 0.35 * (std::f64::consts::TAU * (day as f64 - 20_469.0) / 365.25).cos();
        let mut outcome = outcome(400, 7, slot, false);
        if let Ok(sum) = outcome.result {
            #[expect(clippy::cast_possible_truncation, reason = "a load is far below 2^63")]
            let watts = (sum.watts() as f64 * season).round() as i64;
            outcome = slot_of(400, slot).decoded(watts, outcome.responders);
        }
        fixture.close(&cluster, crate::fixture::closed(outcome));
        cluster = ClusterView::clone(&fixture.board.cluster(id).expect("it was just shown"));
    }
    fixture.past.expire_slots(Timestamp::from_secs(NOW.as_secs() - 56 * 86_400));
}

fn live(fixture: &Fixture, cluster: &ClusterView, filter: &mut ClusterFilter, outcome: SlotOutcome) -> ClusterView {
    let mut cluster = cluster.clone();
    cluster.since = outcome.start;
    let filtered = filter.observe(&outcome);
    fixture.close(&cluster, ClosedSlot { filtered, ..outcome.into() });
    let shown = fixture.board.cluster(cluster.cluster.as_str()).expect("it was just shown");
    ClusterView::clone(&shown)
}

/// A slot as it may have been.
pub fn outcome(members: u16, seed: u64, slot: u64, too_few: bool) -> SlotOutcome {
    let chance = |salt: u64| random(seed.wrapping_mul(1_000_003) ^ slot.wrapping_mul(31) ^ (salt << 40));
    let mut slotted = slot_of(members, slot);
    let silent = f64::from(members) * (0.01 + 0.03 * chance(1));
    if too_few || chance(2) < 0.006 {
        return slotted.failed("too_many_missing", members * 8 / 10);
    }
    if chance(3) < 0.004 {
        return slotted.failed("reveal_missing", whole(f64::from(members) - silent));
    }
    slotted.attempts = if chance(4) < 0.05 { 2 } else { 1 };
    let responders = f64::from(members) - silent;
    let noise = 9000.0 * (chance(5) + chance(6) + chance(7) - 1.5);
    let watts = responders * home(slot, chance(8)) + noise;
    #[expect(clippy::cast_possible_truncation, reason = "a load is far below 2^63")]
    slotted.decoded(watts.round() as i64, whole(responders))
}

/// Mean watts of a home: a valley at night, a small peak in the morning, a large one in the evening.
fn home(slot: u64, flicker: f64) -> f64 {
    let hour = (slot % 144) as f64 / 6.0;
    let peak = |at: f64, width: f64, height: f64| height * (-((hour - at) / width).powi(2)).exp();
    230.0 + peak(7.5, 1.4, 260.0) + peak(12.5, 1.8, 180.0) + peak(19.5, 2.4, 520.0) + 25.0 * flicker
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the number of members")]
fn whole(count: f64) -> u16 {
    count as u16
}

/// From 0 to 1, the same for the same number.
fn random(mut state: u64) -> f64 {
    for _ in 0..3 {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state ^= state >> 31;
    }
    (state >> 11) as f64 / (1u64 << 53) as f64
}
