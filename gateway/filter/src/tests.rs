mod run;

use super::*;
use run::{Chance, Run, Score};

const MEMBERS: u16 = 100;
const LAMBDA: f64 = 9000.0;
const NOISE: f64 = 2.0 * LAMBDA * LAMBDA;
const MONDAY: u64 = 20_003 * 86_400;

#[test]
fn a_profile_that_was_learned_halves_the_error_and_the_band_tells_it() {
    let days = Run::of(600, 600).days(14);
    let raw = days.iter().map(|day| day.raw).sum::<f64>() / 14.0;
    let mean = |days: &[Score], of: fn(&Score) -> f64| days.iter().map(of).sum::<f64>() / days.len() as f64;
    let (first, later) = (&days[..1], &days[7..]);
    assert!(mean(first, |day| day.filtered) < 0.75 * raw, "{first:?}");
    assert!(mean(later, |day| day.filtered) < 0.5 * raw, "{later:?}");
    let (covered, band) = (mean(later, |day| day.covered), mean(later, |day| day.band));
    assert!((0.92..0.99).contains(&covered), "{covered}");
    assert!(band < 0.6 * 2.996 * LAMBDA, "narrower than that of a single sum: {band}");
}

#[test]
fn noise_of_more_responders_than_were_counted_on_keeps_the_band() {
    for shape in [1.0, 1.25, 1.5] {
        let days = Run { shape, ..Run::of(600, 600) }.days(28);
        let covered = days[7..].iter().map(|day| day.covered).sum::<f64>() / 21.0;
        assert!((0.92..0.99).contains(&covered), "{shape}: {covered}");
    }
}

#[test]
fn slots_of_any_length_are_filtered() {
    for seconds in [60, 420, 900, 1800, 3600] {
        let days = Run::of(seconds, seconds).days(8);
        let last = days[7];
        assert!(last.filtered < 0.7 * last.raw, "{seconds} s: {last:?}");
        assert!(last.covered > 0.9, "{seconds} s: {last:?}");
    }
}

#[test]
fn days_that_take_minutes_are_followed() {
    // As in a demonstration: the load of ten minutes every five seconds, so that the time of day tells nothing.
    let days = Run::of(5, 600).days(6);
    assert!(days.iter().all(|day| day.filtered < 0.9 * day.raw), "{days:?}");
    assert!(days[1..].iter().all(|day| day.covered > 0.85), "{days:?}");
}

#[test]
fn sums_without_noise_stay_as_they_are() {
    let mut run = Run { lambda: 0.0, ..Run::of(600, 600) };
    for slot in 0..300 {
        let (truth, filtered) = run.slot();
        assert!((filtered.watts - truth).abs() < 20.0, "{slot}: {filtered:?}, not {truth}");
        assert!(filtered.band95 < 20.0, "{slot}: {filtered:?}");
    }
}

#[test]
fn a_tenth_of_the_noise_gives_a_narrower_band_and_less_is_changed() {
    let score = |lambda| Run { lambda, ..Run::of(600, 600) }.days(4)[3];
    let (much, little) = (score(LAMBDA), score(LAMBDA / 10.0));
    assert!(little.band < 0.3 * much.band, "{little:?} {much:?}");
    assert!(little.filtered < 1.02 * little.raw && (0.92..0.99).contains(&little.covered), "{little:?}");
}

#[test]
fn members_who_are_missing_do_not_make_it_dip() {
    let mut run = Run::of(600, 600);
    run.days(3);
    run.responders = MEMBERS - 20;
    let (truth, filtered) = (0..72).map(|_| run.slot()).fold((0.0, 0.0), |(truth, sum), (load, filtered)| {
        assert!((filtered.watts - load).abs() < 3.0 * filtered.band95);
        (truth + load, sum + filtered.watts)
    });
    assert!((filtered / truth - 1.0).abs() < 0.06, "{filtered} of {truth}");
}

#[test]
fn new_members_may_use_more_than_the_others() {
    const RUNS: u64 = 20;
    let (mut covered, mut wider) = (0.0, 0.0);
    for seed in 1..=RUNS {
        let mut run = Run { chance: Chance(seed << 32), ..Run::of(600, 600) };
        run.days(14);
        let before = run.clone().slot().1.band95 / f64::from(MEMBERS);
        // Fifty come, each of whom uses as much as two of the others.
        (run.members, run.responders, run.scale) = (150, 150, 2.0);
        let slots: Vec<_> = (0..36).map(|_| run.slot()).collect();
        wider += slots[0].1.band95 / 150.0 / before / RUNS as f64;
        covered += Score::of(LAMBDA, &slots).covered / RUNS as f64;
    }
    assert!(covered > 0.92 && wider > 1.1, "{covered} {wider}");
}

#[test]
fn a_load_that_doubles_is_found_again() {
    let mut run = Run::of(600, 600);
    run.days(4);
    run.scale = 2.0;
    let days = run.days(3);
    // Never worse than the sums, and much better once it has found the new level.
    assert!(days.iter().all(|day| day.filtered < 0.9 * day.raw && day.covered > 0.9), "{days:?}");
    let error = |of: fn(&Score) -> f64| days.iter().map(of).sum::<f64>();
    assert!(error(|day| day.filtered) < 0.75 * error(|day| day.raw), "{days:?}");
}

#[test]
fn homes_that_move_together_are_never_much_worse_than_their_sums() {
    const RUNS: u64 = 8;
    // A deviation that a hundred homes have by chance is one that a thousand have in common.
    for (members, lambda) in [(600, 5000.0), (1000, 5000.0), (1000, 40_000.0)] {
        let scale = f64::from(members) / f64::from(MEMBERS);
        let (mut days, mut hours) = ([[0.0; 2]; 14], [[[0.0; 2]; 24]; 2]);
        // Adds the errors of so many slots, filtered and of the sum.
        let add = |run: &mut Run, slots: usize, [filtered, raw]: &mut [f64; 2]| {
            for _ in 0..slots {
                let (truth, found) = run.slot();
                *filtered += (found.watts - truth).abs();
                *raw += run.noise.abs();
            }
        };
        for seed in 1..=RUNS {
            let chance = Chance(seed << 32);
            let mut run = Run { chance, lambda, members, responders: members, scale, ..Run::of(600, 600) };
            days.iter_mut().for_each(|day| add(&mut run, 144, day));
            for (by, hours) in [0.55, 2.0].into_iter().zip(&mut hours) {
                let mut changed = Run { scale: by * scale, ..run.clone() };
                hours.iter_mut().for_each(|hour| add(&mut changed, 6, hour));
            }
        }
        let worst = |of: &[[f64; 2]]| of.iter().map(|[filtered, raw]| filtered / raw).fold(0.0, f64::max);
        let (day, hour) = (worst(&days[1..]), worst(hours.as_flattened()));
        assert!(day <= 1.02 && hour <= 3.0, "{members}, {lambda}: {day} {hour}");
    }
}

#[test]
fn after_a_lasting_change_the_band_widens_at_once_and_holds_again_within_a_day() {
    const RUNS: u64 = 20;
    for (seconds, scale) in [(600, 0.55), (600, 2.0), (1800, 0.55), (1800, 2.0)] {
        let mut covered = [0.0; 5];
        for seed in 1..=RUNS {
            let mut run = Run { chance: Chance(seed << 32), ..Run::of(seconds, seconds) };
            run.days(14);
            run.scale = scale;
            for (hours, covered) in [1, 2, 9, 12, 24].into_iter().zip(&mut covered) {
                let slots: Vec<_> = (0..3600 / seconds * hours).map(|_| run.slot()).collect();
                *covered += Score::of(LAMBDA, &slots).covered / RUNS as f64;
            }
        }
        let first_hours = (covered[0] + 2.0 * covered[1]) / 3.0;
        assert!(first_hours > 0.8 && covered[2] > 0.8, "{seconds} s, {scale}: {covered:?}");
        assert!(covered[3] > 0.92 && covered[4] > 0.94, "{seconds} s, {scale}: {covered:?}");
    }
}

#[test]
fn loads_that_are_no_homes_are_followed() {
    for scale in [-1.0, 0.0, 5.0, 50.0] {
        let days = Run { scale, ..Run::of(600, 600) }.days(5);
        assert!(days[1..].iter().all(|day| day.filtered < 1.15 * day.raw && day.covered > 0.9), "{scale}: {days:?}");
    }
}

#[test]
fn clusters_that_feed_in_by_day_are_followed_at_noon_too() {
    const RUNS: u64 = 6;
    // Panels of 2 kW a member under skies that differ from day to day, and the noise of a range from -8 to 8 kW.
    let lambda = 16_000.0;
    for members in [100, 1000, 10_000] {
        let scale = f64::from(members) / f64::from(MEMBERS);
        let weeks: Vec<Vec<_>> = (1..=RUNS)
            .map(|seed| {
                let chance = Chance(seed << 32);
                let homes = Run { chance, lambda, members, responders: members, scale, ..Run::of(600, 600) };
                let mut run = Run { panels: 2000.0, ..homes };
                run.days(7);
                (0..7 * 144).map(|_| run.slot()).collect()
            })
            .collect();
        let all = Score::of(lambda, &weeks.concat());
        assert!(all.covered > 0.92 && all.filtered < 0.9 * all.raw, "{members}: {all:?}");
        // From eleven to three.
        let noons: Vec<_> =
            weeks.iter().flat_map(|week| week.chunks(144)).flat_map(|day| &day[66..90]).copied().collect();
        let fed_in = noons.iter().filter(|(truth, _)| *truth < 0.0).count() as f64 / noons.len() as f64;
        let noon = Score::of(lambda, &noons);
        assert!(fed_in > 0.7 && noon.covered > 0.9, "{members}: {fed_in} {noon:?}");
    }
}

#[test]
fn loads_of_any_size_are_found_with_the_first_sum() {
    // Members of 40 kW in a range of 100 kW, and of 400 kW in one of 1 MW, as far as sums and noise go.
    for (members, lambda, scale) in [(20, 1e5, 800.0 / 45.0), (50, 1e6, 20_000.0 / 45.0)] {
        let runs = (1..=20).map(|seed| {
            let chance = Chance(seed << 32);
            let mut run = Run { chance, lambda, members, responders: members, scale, ..Run::of(600, 600) };
            let hour: Vec<_> = (0..6).map(|_| run.slot()).collect();
            let total = hour.iter().fold((0.0, 0.0), |sum, slot| (sum.0 + slot.0, sum.1 + slot.1.watts));
            assert!((0.7..1.4).contains(&(total.1 / total.0)), "{hour:?}");
            (Score::of(lambda, &hour), run.day())
        });
        let (hours, days): (Vec<_>, Vec<_>) = runs.unzip();
        let mean = |some: &[Score], of: fn(&Score) -> f64| some.iter().map(of).sum::<f64>() / 20.0;
        let covered = (mean(&hours, |score| score.covered), mean(&days, |score| score.covered));
        assert!(covered.0 > 0.9 && covered.1 > 0.9, "{lambda}: {covered:?}");
        assert!(mean(&days, |score| score.filtered) < 0.9 * mean(&days, |score| score.raw), "{lambda}: {days:?}");
        assert!(mean(&hours, |score| score.band) < 2.996 * lambda, "{lambda}: no wider than that of a single sum");
    }
}

#[test]
fn a_load_that_was_nothing_is_followed_however_far_it_goes() {
    for (members, lambda, scale) in [(20, 1e5, 800.0 / 45.0), (50, 1e6, 20_000.0 / 45.0)] {
        let mut run = Run { lambda, members, responders: members, scale: 0.0, ..Run::of(600, 600) };
        run.day();
        run.scale = scale;
        let hour: Vec<_> = (0..6).map(|_| run.slot()).collect();
        let (truth, found) = hour[5];
        assert!((0.7..1.4).contains(&(found.watts / truth)), "{lambda}: {hour:?}");
        let day = run.day();
        assert!(day.covered > 0.85 && day.filtered < 1.2 * day.raw, "{lambda}: {day:?}");
    }
}

#[test]
fn a_gap_is_bridged_with_a_wider_band() {
    let mut run = Run::of(600, 600);
    run.days(10);
    let before = run.clone().slot().1;
    for (days, wider) in [(7, 1.01), (200, 1.15)] {
        let mut later = run.clone();
        later.end += days * 86_400;
        let (truth, after) = later.slot();
        assert!(after.band95 > wider * before.band95, "{days} days: {after:?} after {before:?}");
        assert!((after.watts - truth).abs() < 1.5 * after.band95, "{days} days: {after:?}, not {truth}");
    }
}

#[test]
fn what_is_no_new_slot_is_not_taken() {
    let slot = |end| Release {
        start_millis: (end - 600) * 1000,
        end_millis: end * 1000,
        local: LocalTime::utc((end - 300) * 1000),
        watts: 45_000.0,
        variance: NOISE,
        responders: MEMBERS,
        members: MEMBERS,
    };
    let mut filter = Filter::default();
    let first = filter.observe(&slot(MONDAY)).unwrap();
    let refused = [
        slot(MONDAY),
        slot(MONDAY - 300),
        Release { responders: 0, ..slot(MONDAY + 600) },
        Release { watts: f64::NAN, ..slot(MONDAY + 600) },
        Release { variance: f64::INFINITY, ..slot(MONDAY + 600) },
        Release { variance: -1.0, ..slot(MONDAY + 600) },
    ];
    refused.iter().for_each(|release| assert_eq!(filter.observe(release), None, "{release:?}"));
    let mut other = Filter::default();
    assert_eq!(other.observe(&slot(MONDAY)), Some(first), "the same sums, the same answer");
    assert_eq!(other.observe(&slot(MONDAY + 600)), filter.observe(&slot(MONDAY + 600)), "nothing of them stayed");
}

#[test]
fn nothing_that_can_be_released_breaks_it() {
    let mut chance = Chance(5);
    let mut pick = |of: &[f64]| of[daily::whole(chance.unit() * of.len() as f64)];
    for _ in 0..20 {
        let (mut filter, mut end) = (Filter::default(), 1);
        for _ in 0..300 {
            let millis = |value: f64| daily::whole(value) as u64;
            let start = end + millis(pick(&[0.0, 0.0, 0.0, 1.0, 6e5, 9e7, 1e11, 1e15]));
            end = start + millis(pick(&[0.0, 1.0, 5e3, 6e5, 7e5, 1.8e6, 8.64e7, 1e12])) + 1;
            let release = Release {
                start_millis: start,
                end_millis: end,
                local: LocalTime::utc(start + (end - start) / 2),
                watts: pick(&[0.0, 1.0, -3e4, 4.5e4, 1e9, -1e12]),
                variance: pick(&[0.0, 1e-9, 1.0, NOISE, 1e24]),
                responders: if pick(&[0.0, 1.0]) > 0.0 { 1 } else { 10_000 },
                members: if pick(&[0.0, 1.0]) > 0.0 { 1 } else { 10_000 },
            };
            let Filtered { watts, band95 } = filter.observe(&release).unwrap();
            assert!(watts.is_finite() && band95.is_finite() && band95 > 0.0, "{release:?}: {watts} {band95}");
        }
    }
}

#[test]
fn a_year_of_slots_leaves_it_as_good_as_two_weeks() {
    for lambda in [LAMBDA, 0.0] {
        let mut run = Run { lambda, ..Run::of(1800, 1800) };
        let days = run.days(365);
        let error = |days: &[Score]| days.iter().map(|day| day.filtered).sum::<f64>() / days.len() as f64;
        assert!(error(&days[355..]) < 1.1 * error(&days[10..20]) + 1e-3, "{:?} {:?}", &days[355..], &days[10..20]);
        assert!(days.iter().all(|day| day.band > 0.0 && day.band < 1.1 * 2.996 * LAMBDA), "{days:?}");
    }
}

#[test]
fn weekends_are_learned_apart_from_weekdays() {
    const RUNS: u64 = 10;
    /// From six to twelve on Saturdays and Sundays of four weeks: the first, and the others.
    fn mornings(told: bool) -> [Score; 2] {
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for seed in 1..=RUNS {
            let chance = Chance(seed << 32);
            let mut run = Run { chance, told, weekend: 12_000.0, ..Run::of(600, 600) };
            for day in 0..28 {
                let slots: Vec<_> = (0..144).map(|_| run.slot()).collect();
                let into = if day < 7 { &mut first } else { &mut others };
                into.extend_from_slice(if day % 7 >= 5 { &slots[36..72] } else { &[] });
            }
        }
        [&first, &others].map(|slots| Score::of(LAMBDA, slots))
    }
    let ([first, others], [_, blind]) = (mornings(true), mornings(false));
    assert!(first.covered > 0.87 && others.covered > 0.93, "{first:?} {others:?}");
    // A filter that knows no weekends takes them for something that all homes do at once, and follows: it loses less by that than
    // before it allowed for such things, and covers as well.
    assert!(others.filtered < 0.92 * blind.filtered && others.covered > blind.covered, "{others:?} {blind:?}");
    assert!(others.filtered < 0.1, "{others:?}");
}

#[test]
fn days_of_23_and_25_hours_disturb_nothing_where_the_clocks_are_known() {
    const RUNS: u64 = 20;
    /// The error of what is foreseen for the 24 hours after a Sunday's first, for clocks that are so far ahead of UTC until then, and since then.
    fn error(told: bool, before: u64, after: u64) -> f64 {
        let run = |seed: u64| {
            let chance = Chance(seed << 32);
            let mut run = Run { chance, told, ahead: before, ..Run::of(600, 600) };
            run.days(13);
            run.pass(6);
            run.ahead = after;
            let foreseen: Vec<_> = (0..144).map(|_| run.failed_slot()).collect();
            Score::of(LAMBDA, &foreseen).filtered
        };
        (1..=RUNS).map(run).sum::<f64>() / RUNS as f64
    }
    for (before, after) in [(3600, 7200), (7200, 3600)] {
        let (steady, known, unknown) =
            (error(true, after, after), error(true, before, after), error(false, before, after));
        assert!(known < 1.08 * steady && unknown > 1.15 * steady, "{before}: {steady} {known} {unknown}");
    }
}

#[test]
fn an_hour_later_the_load_is_known_better() {
    for seconds in [600, 1800] {
        let mut run = Run::of(seconds, seconds);
        run.days(7);
        run.late.clear();
        let first = run.end + seconds;
        let slots: Vec<_> = (0..28 * 86_400 / seconds).map(|_| run.slot()).collect();
        let end = |late: &Smoothed| (late.end_millis / 1000 - first) / seconds;
        let lag = 3600 / seconds;
        let first = lag.try_into().unwrap();
        let late = &run.late[first..];
        assert!(late.iter().map(end).eq(0..28 * 86_400 / seconds - lag), "each slot once, in order");
        let late: Vec<_> = slots.iter().zip(late).map(|((truth, _), late)| (*truth, late.load)).collect();
        let (causal, late) = (Score::of(LAMBDA, &slots), Score::of(LAMBDA, &late));
        assert!(late.filtered < 0.985 * causal.filtered && late.band < 0.95 * causal.band, "{late:?} {causal:?}");
        assert!((0.93..0.99).contains(&late.covered), "{late:?}");
    }
}

#[test]
fn what_is_said_an_hour_late_comes_with_the_next_sum_for_long_slots_and_after_twelve_for_short_ones() {
    for (seconds, slots) in [(60, 12), (300, 12), (420, 9), (600, 6), (1800, 2), (3600, 1), (7200, 1)] {
        let mut run = Run::of(seconds, seconds);
        run.pass(slots);
        assert_eq!(run.late, [], "{seconds} s");
        run.slot();
        let ends: Vec<u64> = run.late.iter().map(|late| late.end_millis).collect();
        assert_eq!(ends, [(MONDAY + seconds) * 1000], "{seconds} s");
        // A gap lets all of them become final.
        run.end += 86_400;
        run.slot();
        assert_eq!(run.late.len(), slots + 1, "{seconds} s");
        run.slot();
    }
}

#[test]
fn a_slot_without_a_sum_is_foreseen_with_an_honest_band_and_nothing_changes() {
    const RUNS: u64 = 10;
    for seconds in [600, 1800] {
        let (mut alone, mut long, mut wider) = (Vec::new(), Vec::new(), 0.0);
        for seed in 1..=RUNS {
            let mut run = Run { chance: Chance(seed << 32), ..Run::of(seconds, seconds) };
            run.days(8);
            for _ in 0..50 {
                let before = run.clone();
                alone.push(run.failed_slot());
                run.filter.predict(&Slot { start_millis: 0, end_millis: 1, local: LocalTime::utc(0), members: 1 });
                let (mut other, mut same) = (before.clone(), Run { filter: run.filter.clone(), ..before });
                assert_eq!(other.slot(), same.slot());
                wider += other.slot().1.band95 / alone.last().unwrap().1.band95 / (50 * RUNS) as f64;
                run.pass(7);
            }
            long.extend((0..2 * 86_400 / seconds).map(|_| run.failed_slot()));
        }
        let (alone, long) = (Score::of(LAMBDA, &alone), Score::of(LAMBDA, &long));
        assert!((0.92..0.995).contains(&alone.covered), "{seconds} s: {alone:?}");
        // Whether homes move together cannot be told from two weeks of them: the band allows for it.
        assert!(long.covered > 0.92 && long.filtered < 0.2, "{seconds} s, two days: {long:?}");
        assert!(long.band < 0.6 * 45_000.0, "{seconds} s, two days: {long:?}");
        assert!(wider < 0.95, "{seconds} s: a sum makes the band narrower: {wider}");
    }
    let slot = Slot { start_millis: 0, end_millis: 600_000, local: LocalTime::utc(0), members: 10 };
    assert_eq!(Filter::default().predict(&slot), None);
}

/// What five clusters learned in ten days, the last of them larger than the others.
fn learned(seconds: u64) -> Vec<Profile> {
    let learn = |(seed, scale): (u64, f64)| {
        let mut run = Run { chance: Chance(seed << 32), scale, ..Run::of(seconds, seconds) };
        run.days(6);
        assert_eq!(run.filter.profile(), None, "less than a week");
        run.days(4);
        run.filter.profile().unwrap()
    };
    (90..).zip([0.9, 1.0, 1.0, 1.1, 1.3]).map(learn).collect()
}

#[test]
fn a_new_cluster_gains_by_what_others_learned_and_loses_little_where_it_is_unlike_them() {
    const RUNS: u64 = 6;
    for seconds in [600, 1800] {
        let others = learned(seconds);
        for some in [&others[..1], &others[..]] {
            let days = |like: bool, primed: bool| {
                let mut days = [Score::default(); 3];
                for seed in 1..=RUNS {
                    let filter = if primed { Filter::starting_from(some) } else { Filter::default() };
                    let mut run = Run { filter, chance: Chance(seed << 32), ..Run::of(seconds, seconds) };
                    if !like {
                        // Its days begin in the evening, and it uses nearly twice as much.
                        (run.lived, run.scale) = (43_200, 1.8);
                    }
                    for day in &mut days {
                        let score = run.day();
                        day.filtered += score.filtered / RUNS as f64;
                        day.covered += score.covered / RUNS as f64;
                    }
                }
                days
            };
            let (without, with) = (days(true, false), days(true, true));
            assert!(with[0].filtered < 0.85 * without[0].filtered, "{seconds} s: {with:?} {without:?}");
            assert!(with.iter().all(|day| day.covered > 0.93), "{seconds} s: {with:?}");
            let (without, with) = (days(false, false), days(false, true));
            for (with, without) in with.iter().zip(&without) {
                assert!(with.filtered < 1.15 * without.filtered, "{seconds} s: {with:?} {without:?}");
                assert!(with.covered > 0.9, "{seconds} s: {with:?}");
            }
        }
    }
}

#[test]
fn without_others_a_new_cluster_begins_as_ever() {
    let (mut one, mut other) = (Run { filter: Filter::starting_from(&[]), ..Run::of(600, 600) }, Run::of(600, 600));
    assert!(!one.filter.has_begun());
    assert!((0..20).all(|_| one.slot() == other.slot()) && one.filter.has_begun());
}
