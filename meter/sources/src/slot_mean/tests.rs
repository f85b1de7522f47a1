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

#[test]
fn a_counter_that_is_written_finely_is_fine_on_a_round_number_too() {
    let still = (0..=60).map(|n| {
        let sample = Sample { at: at(n * 10), import: Some(5_702_000_000), export: None, power: None, step: Some(100) };
        Event::Sample(sample)
    });
    assert_eq!(slot_of(EVERY_10, still), Ok(0));
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
