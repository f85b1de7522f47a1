use super::*;

const SLOT: u64 = 600;

fn at(secs: u64) -> Timestamp {
    Timestamp::from_secs(1_000_000_200 + secs)
}

fn power(secs: u64, watts: i64) -> Event {
    Event::Sample(Sample { at: at(secs), import: None, export: None, power: Some(watts * 1000), step: None })
}

fn counters(secs: u64, import: i64, export: i64) -> Event {
    Event::Sample(Sample {
        at: at(secs),
        import: Some(import * 1000),
        export: Some(export * 1000),
        power: None,
        step: None,
    })
}

fn both(secs: u64, import: i64, export: i64, watts: i64) -> Event {
    Event::Sample(Sample {
        at: at(secs),
        import: Some(import * 1000),
        export: Some(export * 1000),
        power: Some(watts * 1000),
        step: None,
    })
}

fn lost(secs: u64) -> Event {
    Event::Lost { at: at(secs), why: "unplugged".to_owned() }
}

fn gathered(cadence: Cadence, events: impl IntoIterator<Item = Event>) -> SlotMean {
    let mut mean = SlotMean::new(cadence);
    events.into_iter().for_each(|event| mean.push(&event));
    mean
}

fn slot_of(cadence: Cadence, events: impl IntoIterator<Item = Event>) -> Result<i64, NoReading> {
    gathered(cadence, events).mean(at(0), at(SLOT))
}

const EVERY_10: Cadence = Cadence::every(10_000);
const ON_CHANGE: Cadence = Cadence { liveness: Liveness::OnChange, counter_step: None };

#[test]
fn power_is_weighted_with_the_time_it_was_held() {
    let samples = (0..60).map(|n| power(n * 10, if n < 15 { 4000 } else { -100 }));
    assert_eq!(slot_of(EVERY_10, samples), Ok(925));
    assert_eq!(slot_of(ON_CHANGE, [power(0, 100), power(599, 700)]), Ok(101));
}

#[test]
fn counters_come_before_power_and_miss_nothing_between_samples() {
    let samples = (0..=60).map(|n| both(n * 10, 5_000_001 + (n / 2).cast_signed(), 7_777, 0));
    assert_eq!(slot_of(EVERY_10, samples), Ok(180));
}

#[test]
fn export_counts_against_import() {
    let samples = (0..=60).map(|n| counters(n * 10, 5_000_001 + n.cast_signed(), 7_777 + 3 * n.cast_signed()));
    assert_eq!(slot_of(EVERY_10, samples), Ok(-720));
}

#[test]
fn the_windows_of_consecutive_slots_meet() {
    let samples = (0..200).map(|n| counters(n * 7, 1_000_001 + (n * n).cast_signed(), 0));
    let mean = gathered(Cadence::every(7_000), samples);
    // 85 * 7 = 595 and 171 * 7 = 1197 are the last samples before the ends.
    assert_eq!(mean.mean(at(0), at(600)), Ok(85 * 85 * 3600 / 595));
    assert_eq!(mean.mean(at(600), at(1200)), Ok((171 * 171 - 85 * 85) * 3600 / 602));
}

#[test]
fn a_counter_that_is_too_coarse_gives_way_to_power() {
    let coarse = (0..=60).map(|n| both(n * 10, 5_000_000 + 10 * (n / 30).cast_signed(), 0, 77));
    assert_eq!(slot_of(EVERY_10, coarse), Ok(77));
    let fine_for_an_hour =
        gathered(EVERY_10, (0..=360).map(|n| both(n * 10, 5_000_010 + 10 * (n / 36).cast_signed(), 0, 77)));
    assert_eq!(fine_for_an_hour.mean(at(0), at(3600)), Ok(100));
}

#[test]
fn a_locked_meter_that_counts_whole_kilowatt_hours_has_no_reading() {
    let locked = (0..=60).map(|n| counters(n * 10, 5_702_000 + 1000 * (n / 40).cast_signed(), 0));
    let none = slot_of(EVERY_10, locked).unwrap_err();
    assert_eq!(none, NoReading::CoarseCounter { step_watt_hours: 1000 });
    assert!(none.to_string().contains("PIN"), "{none}");
}

/// Samples with a written step of 1 Wh, every ten seconds.
fn written(import: impl Fn(u64) -> i64, power: Option<i64>) -> impl Iterator<Item = Event> {
    (0..=60).map(move |n| {
        let import = Some(import(n) * 1000);
        let power = power.map(|watts| watts * 1000);
        Event::Sample(Sample { at: at(n * 10), import, export: Some(0), power, step: Some(1000) })
    })
}

#[test]
fn whole_kilowatt_hours_are_coarse_however_many_places_they_are_written_with() {
    let jumps = |n: u64| 5_702_000 + 1000 * (n / 40).cast_signed();
    let coarse = Err(NoReading::CoarseCounter { step_watt_hours: 1000 });
    assert_eq!(slot_of(EVERY_10, written(jumps, None)), coarse);
    assert_eq!(slot_of(EVERY_10, written(|_| 5_702_000, None)), coarse);
    assert_eq!(slot_of(EVERY_10, written(jumps, Some(500))), Ok(500));
    // Tens of watt-hours, too.
    let tens = |n: u64| 5_702_010 + 10 * (n / 6).cast_signed();
    assert_eq!(slot_of(EVERY_10, written(tens, None)), Err(NoReading::CoarseCounter { step_watt_hours: 10 }));
    assert_eq!(slot_of(EVERY_10, written(|n| 5_702_001 + n.cast_signed(), None)), Ok(360));
}

#[test]
fn a_counter_that_jumps_beside_a_steady_power_is_no_reading() {
    let steady = |n: u64| 5_000_001 + (n * 10 * 500 / 3600).cast_signed();
    assert_eq!(slot_of(EVERY_10, written(steady, Some(500))), Ok(498));
    let jumps = move |n: u64| steady(n) + if n < 30 { 0 } else { 900 };
    let none = slot_of(EVERY_10, written(jumps, Some(500))).unwrap_err();
    assert_eq!(none, NoReading::Disagreement);
    assert!(none.to_string().contains("import = []"), "{none}");
    // A source that speaks once a minute or only on change has the same rule.
    for (cadence, every) in [(Cadence::every(60_000), 60), (ON_CHANGE, 120)] {
        let samples = (0..=600 / every).map(|n| both(n * every, jumps(n * every / 10), 0, 500));
        assert_eq!(slot_of(cadence, samples), Err(NoReading::Disagreement));
    }
}

#[test]
fn counters_of_one_direction_beside_power_of_the_other_are_no_reading() {
    // Import stands still and export is said to be 0, while the home feeds in.
    assert_eq!(slot_of(EVERY_10, written(|_| 5_000_001, Some(-1500))), Err(NoReading::Disagreement));
}

#[test]
fn what_the_rhythm_of_samples_hides_is_no_disagreement() {
    // A kettle of 2 kW for three minutes between two samples of a plug that speaks every five minutes.
    let kettle = [both(0, 5_000_001, 0, 100), both(300, 5_000_109, 0, 100), both(600, 5_000_117, 0, 100)];
    assert_eq!(slot_of(Cadence::every(300_000), kettle), Ok(696));
    // A charger of 11 kW that starts and is seen.
    let charger = (0..=60).map(|n: u64| {
        let on = n.saturating_sub(30) * 10;
        both(n * 10, 5_000_001 + (on * 11_000 / 3600).cast_signed(), 0, if n < 31 { 0 } else { 11_000 })
    });
    assert_eq!(slot_of(EVERY_10, charger), Ok(5496));
}

#[test]
fn one_counter_alone_is_no_reading() {
    let alone = |import: Option<i64>, export: Option<i64>| {
        let sample = move |n: u64| {
            let counted = |first: i64| first + n.cast_signed() * 1000;
            let (import, export) = (import.map(counted), export.map(counted));
            Event::Sample(Sample { at: at(n * 10), import, export, power: None, step: Some(1000) })
        };
        slot_of(EVERY_10, (0..=60).map(sample))
    };
    assert_eq!(alone(Some(5_000_001_000), None), Err(NoReading::OneCounter));
    assert_eq!(alone(None, Some(5_000_001_000)), Err(NoReading::OneCounter));
    assert_eq!(alone(Some(5_000_001_000), Some(7_000)), Ok(0));
}

#[test]
fn what_cannot_be_read_between_good_samples_does_not_void_counters() {
    let garbled = |n: u64| Event::Garbled { at: at(n * 10 + 5), why: "checksum".to_owned() };
    // Every second telegram is broken, and one is broken right before the slot begins.
    let events = (0..=60).flat_map(|n| [counters(n * 10, 5_000_001 + n.cast_signed(), 0), garbled(n)]);
    assert_eq!(slot_of(EVERY_10, events), Ok(360));
    let mut mean =
        gathered(EVERY_10, (0..=120).filter(|n| n % 3 == 0).map(|n| counters(n * 10, 5_000_001 + n.cast_signed(), 0)));
    mean.push(&garbled(121));
    assert_eq!(mean.mean(at(600), at(1200)), Ok(360));
    // Counters are exact over a gap within the slot, also when the source was lost in it; over its end they are not.
    let gap = |from: u64, to: u64| {
        let events =
            (0..=60).filter(move |n| !(from..to).contains(n)).map(|n| counters(n * 10, 5_000_001 + n.cast_signed(), 0));
        events.collect::<Vec<_>>()
    };
    let mut lost_within = gap(5, 55);
    lost_within.insert(5, lost(45));
    assert_eq!(slot_of(EVERY_10, lost_within), Ok(360));
    assert_eq!(slot_of(EVERY_10, gap(40, 61)), Err(NoReading::Patchy { percent: 70, lost: None }));
    assert!(matches!(slot_of(EVERY_10, [garbled(1)]), Err(NoReading::Silent { lost: Some(why) }) if why == "checksum"));
}

#[test]
fn what_is_refused_voids_what_came_before() {
    let mut events: Vec<_> = (0..58).map(|n| power(n * 10, 500)).collect();
    events.push(Event::Refused { at: at(580), why: "em1:1 is another channel".to_owned() });
    let none = slot_of(EVERY_10, events).unwrap_err();
    assert_eq!(none, NoReading::Silent { lost: Some("em1:1 is another channel".to_owned()) });
}

#[test]
fn a_counter_whose_step_is_known_may_stand_still_on_a_round_number() {
    let still = || (0..=60).map(|n| counters(n * 10, 5_702_000, 0));
    assert_eq!(slot_of(Cadence { counter_step: Some(1000), ..EVERY_10 }, still()), Ok(0));
}

#[test]
fn an_import_counter_alone_does_not_hide_what_is_fed_in() {
    let samples = (0..=60).map(|n| {
        Event::Sample(Sample {
            at: at(n * 10),
            import: Some(5_000_001_000),
            export: None,
            power: Some(-800_000),
            step: None,
        })
    });
    assert_eq!(slot_of(EVERY_10, samples), Ok(-800));
}

#[test]
fn a_dead_or_patchy_source_has_no_reading_and_says_why() {
    assert_eq!(slot_of(EVERY_10, []), Err(NoReading::Silent { lost: None }));
    assert_eq!(slot_of(EVERY_10, [lost(5)]), Err(NoReading::Silent { lost: Some("unplugged".to_owned()) }));
    let until = |end: u64| (0..end / 10).map(|n| power(n * 10, 500)).chain([lost(end)]);
    assert_eq!(slot_of(EVERY_10, until(480)), Ok(500));
    let patchy = slot_of(EVERY_10, until(470)).unwrap_err();
    assert_eq!(patchy.to_string(), "the source covered 78 % of this slot, and 80 % is needed: unplugged");
}

#[test]
fn a_sample_is_good_for_three_intervals() {
    let gap = |missing: u64| (0..60).filter(move |n| !(20..20 + missing).contains(n)).map(|n| power(n * 10, 500));
    // Two missing samples are bridged; of a longer gap, all but the first twenty seconds are missing.
    assert_eq!(slot_of(EVERY_10, gap(2)), Ok(500));
    assert_eq!(slot_of(EVERY_10, gap(14)), Ok(500));
    assert_eq!(slot_of(EVERY_10, gap(15)), Err(NoReading::Patchy { percent: 78, lost: None }));
}

#[test]
fn whether_there_is_a_reading_does_not_depend_on_values() {
    let shape = [0u64, 10, 20, 300, 310, 320, 330, 590];
    let verdict = |watts: fn(u64) -> i64| slot_of(EVERY_10, shape.map(|secs| power(secs, watts(secs)))).map(|_| ());
    assert_eq!(verdict(|_| 0), verdict(|secs| 9000 - 17 * secs.cast_signed()));
    let held = |watts: i64| slot_of(ON_CHANGE, [power(0, watts)]);
    assert_eq!((held(0), held(230)), (Ok(0), Ok(230)));
}

#[test]
fn a_source_that_speaks_on_change_holds_until_it_is_lost() {
    assert_eq!(slot_of(ON_CHANGE, [power(0, 230), lost(500)]), Ok(230));
    assert!(matches!(slot_of(ON_CHANGE, [power(0, 230), lost(300)]), Err(NoReading::Patchy { percent: 50, .. })));
    let back = [power(0, 200), lost(100), Event::Connected { at: at(110) }, power(120, 400)];
    assert_eq!(slot_of(ON_CHANGE, back), Ok((100 * 200 + 480 * 400 + 290) / 580));
}

#[test]
fn counters_that_speak_on_change_stand_still_in_between() {
    assert_eq!(slot_of(ON_CHANGE, [counters(0, 1_001, 0), counters(300, 1_101, 0)]), Ok(600));
}

#[test]
fn power_comes_first_where_a_source_speaks_on_change() {
    // A Shelly counts once a minute, and says its power whenever it changes.
    assert_eq!(slot_of(ON_CHANGE, [both(0, 1_001, 0, 600), both(541, 1_092, 0, 600)]), Ok(600));
}

#[test]
fn a_new_meter_starts_anew() {
    let swapped = |n: u64| if n < 30 { 9_000_001 + n.cast_signed() } else { n.cast_signed() };
    let with_power = (0..=60).map(|n| both(n * 10, swapped(n), 3, 360));
    assert_eq!(slot_of(EVERY_10, with_power), Ok(360));
    let without = gathered(EVERY_10, (0..=120).map(|n| counters(n * 10, swapped(n), 3)));
    assert_eq!(without.mean(at(0), at(600)), Err(NoReading::CounterSet));
    assert_eq!(without.mean(at(600), at(1200)), Ok(360));
}

#[test]
fn zero_after_a_restart_of_the_bridge_is_no_delta() {
    let booted = |n: u64| if n == 30 { 0 } else { 9_000_001 + n.cast_signed() };
    assert_eq!(slot_of(EVERY_10, (0..=60).map(|n| both(n * 10, booted(n), 0, 360))), Ok(360));
}

#[test]
fn a_start_within_the_slot_needs_four_fifths_of_it() {
    let from = |start: u64| (start / 10..=60).map(|n| counters(n * 10, 5_000_001 + n.cast_signed(), 0));
    assert_eq!(slot_of(EVERY_10, from(120)), Ok(360));
    assert_eq!(slot_of(EVERY_10, from(130)), Err(NoReading::Patchy { percent: 78, lost: None }));
}

#[test]
fn a_clock_that_is_set_ends_what_was_gathered() {
    let back = (0..30).map(|n| power(100 + n * 10, 1)).chain((0..60).map(|n| power(n * 10, 500)));
    assert_eq!(slot_of(EVERY_10, back), Ok(500));
    let mut forward: Vec<_> = (0..20).map(|n| power(n * 10, 1)).collect();
    forward.push(Event::ClockStepped { at: at(400) });
    forward.extend((40..60).map(|n| power(n * 10, 500)));
    assert_eq!(slot_of(EVERY_10, forward), Err(NoReading::ClockStepped));
}

#[test]
fn a_sample_that_is_dated_a_moment_early_ends_nothing() {
    let mut samples: Vec<_> = (0..60).map(|n| power(n * 10 + 1, 500)).collect();
    samples.insert(30, lost(290));
    assert_eq!(slot_of(EVERY_10, samples), Ok(500));
}

#[test]
fn why_a_source_was_lost_long_ago_does_not_explain_a_gap_of_today() {
    let mut mean = gathered(EVERY_10, [power(0, 1), lost(5), power(610, 1)]);
    assert_eq!(mean.mean(at(600), at(1200)), Err(NoReading::Patchy { percent: 5, lost: None }));
    mean.push(&lost(1300));
    let silent = Err(NoReading::Silent { lost: Some("unplugged".to_owned()) });
    assert_eq!(mean.mean(at(1800), at(2400)), silent);
}

#[test]
fn what_is_forgotten_is_not_needed() {
    let mut mean = gathered(EVERY_10, (0..=120).map(|n| counters(n * 10 + 3, 1_000_001 + n.cast_signed(), 0)));
    let expected = mean.mean(at(600), at(1200));
    mean.forget_before(at(600));
    assert_eq!(mean.points.len(), 62);
    assert_eq!((mean.mean(at(600), at(1200)), expected.clone()), (expected, Ok(360)));
}
