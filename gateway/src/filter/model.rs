//! One idea of how a cluster's load moves, as a Kalman filter.
//!
//! The state is in watts per member, so that it does not dip when members are missing: a level; the daily profile around
//! it, as cosines and sines of the time of day; and a *mood*, how much more or less than usual is on just now. The level
//! wanders, the profile slowly forgets, and the mood goes back to nothing within a while. The loads of independent homes
//! that use `p` watts each on average have a mean that differs from `p` by a variance in proportion to `p / members`: the
//! mood counts in that unit, so it is small at night and large in the evening.
//!
//! Waves are smooth, and time switches are not. So an idea may also have a *habit* for every ten minutes of the day: what
//! the waves miss there. Habits are kept apart from the state and from each other, each with its own variance. That
//! leaves their covariances out, and saves a matrix of the size of a day.

use std::f64::consts::TAU;

use super::laplace::posterior;

pub(super) const DAY: f64 = 86_400.0;
/// Waves of the daily profile: the shortest takes an eighth of a day.
const WAVES: usize = 8;
/// Level, two numbers for each wave, mood.
const STATE: usize = 2 * WAVES + 2;
const MOOD: usize = STATE - 1;
/// How far from nothing a home's mean load may be, in watts, before anything is known of it. A first sum that is large
/// beside it, or has much noise, widens it.
const LEVEL: f64 = 1000.0;
/// The same for the longest wave; shorter ones have less in proportion to their length.
const WAVE: f64 = 250.0;
/// How long the profile lasts, in seconds. Seasons and weekends change it, so it is never known for good.
const MEMORY: f64 = 200.0 * DAY;
/// A longer gap counts as one of this length; little of the profile is left then.
const LONGEST_GAP: f64 = 400.0 * DAY;
/// The load of a cluster that uses hardly anything moves as if each home used this many watts.
const LEAST_LOAD: f64 = 50.0;
/// Variances below this, in square watts, are rounding.
const LEAST_VARIANCE: f64 = 1e-9;
/// How long a habit is, in seconds.
const HABIT: f64 = 600.0;
const HABITS: usize = 144;

/// What distinguishes one idea from another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Idea {
    /// The variance of the mood, in watts: roughly the power of what homes switch on and off.
    pub(super) appliance: f64,
    /// How long a mood lasts, in seconds.
    pub(super) mood: f64,
    /// How far the level wanders in a day, in watts.
    pub(super) wandering: f64,
    /// How far habits are from the waves, in watts; 0 if there are none.
    pub(super) habit: f64,
    /// So many times the variance of the noise is the least that the mood and the longest wave have: without it, a load
    /// that is large only beside what homes use would be taken for noise for long.
    pub(super) reach: f64,
}

/// A slot as a model sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Since the end of the slot before, in seconds; nothing if there was none.
    pub(super) elapsed: Option<f64>,
    /// The middle of the slot, in seconds since midnight, below [`DAY`].
    pub(super) time: f64,
    /// In seconds.
    pub(super) length: f64,
    /// In watts per responder.
    pub(super) load: f64,
    /// The variance that the noise gives it.
    pub(super) noise: f64,
    pub(super) responders: f64,
    pub(super) members: f64,
    /// The share of members that came or went since the slot before, as far as their number tells.
    pub(super) exchanged: f64,
}

/// A member's load after a slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    pub(super) variance: f64,
    /// The logarithm of how probable the slot's sum was to this model.
    pub(super) log_evidence: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Model {
    idea: Idea,
    /// Those of the state before anything is known.
    variances: [f64; STATE],
    mean: [f64; STATE],
    covariance: [[f64; STATE]; STATE],
    /// Empty if the idea has none.
    habits: Vec<Habit>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Habit {
    mean: f64,
    variance: f64,
}

impl Model {
    pub(super) fn new(idea: Idea) -> Self {
        let variances = idea.variances();
        let count = if idea.habit > 0.0 { HABITS } else { 0 };
        Self {
            idea,
            variances,
            mean: [0.0; STATE],
            covariance: diagonal(&variances),
            habits: vec![Habit { mean: 0.0, variance: idea.habit * idea.habit }; count],
        }
    }

    pub(super) fn observe(&mut self, seen: &Seen) -> Estimate {
        match seen.elapsed {
            Some(elapsed) => self.pass(elapsed.min(LONGEST_GAP)),
            None => self.meet(seen),
        }
        self.exchange(seen.exchanged);
        let at = whole(seen.time / HABIT);
        let habit = self.habits.get(at).copied().unwrap_or_default();
        let mut design = profile(seen);
        let reached = self.idea.reach * seen.noise * seen.members / self.idea.appliance;
        let usual = (dot(&design, &self.mean) + habit.mean).abs().max(LEAST_LOAD).max(reached);
        design[MOOD] = (usual / seen.members).sqrt();

        let predicted = dot(&design, &self.mean) + habit.mean;
        let spread: [f64; STATE] = std::array::from_fn(|row| dot(&self.covariance[row], &design));
        let variance = (dot(&design, &spread) + habit.variance).max(LEAST_VARIANCE);
        // Those who are silent may differ from those who are not.
        let silent = (1.0 - seen.responders / seen.members).max(0.0);
        let doubt = silent * self.idea.appliance * usual / seen.responders;
        let responding = variance + doubt;
        let after = posterior(responding, seen.load - predicted, seen.noise);
        // What the responders' load tells about each part of the state is in proportion to their covariance.
        let shift = after.shift / responding;
        let sharpening = (responding - after.variance) / (responding * responding);
        self.learn(&spread, shift, sharpening);
        if let Some(habit) = self.habits.get_mut(at) {
            habit.learn(self.idea, seen.length, shift, sharpening);
        }
        let share = variance / responding;
        Estimate {
            mean: predicted + shift * variance,
            variance: share * (share * after.variance + doubt),
            log_evidence: after.log_evidence,
        }
    }

    /// The first sum tells how large loads may be here: the level may be anywhere that the sum does not rule out.
    ///
    /// Otherwise a sum far beyond what was thought possible would move the level by little, and leave it as sure as before.
    fn meet(&mut self, seen: &Seen) {
        self.variances[0] = self.variances[0].max(100.0 * (seen.load * seen.load + seen.noise));
        // Where the range is large, an idea of more than homes expects large waves too.
        let wider = (self.idea.reach * seen.noise / (WAVE * WAVE)).max(1.0);
        self.variances[1..MOOD].iter_mut().for_each(|variance| *variance *= wider);
        self.covariance = diagonal(&self.variances);
    }

    /// Time goes by: what was known is known less.
    fn pass(&mut self, elapsed: f64) {
        let variances = self.variances;
        let mut kept = [(-elapsed / MEMORY).exp(); STATE];
        kept[0] = 1.0;
        kept[MOOD] = (-elapsed / self.idea.mood).exp();
        for row in 0..STATE {
            self.mean[row] *= kept[row];
            (0..STATE).for_each(|column| self.covariance[row][column] *= kept[row] * kept[column]);
            self.covariance[row][row] += variances[row] * (1.0 - kept[row] * kept[row]);
        }
        self.covariance[0][0] += self.idea.wandering.powi(2) * elapsed / DAY;
        if elapsed > DAY {
            let idea = self.idea;
            self.habits.iter_mut().for_each(|habit| habit.pass(idea, elapsed - DAY));
        }
    }

    /// Those who come or go may use nothing, or twice as much as the others.
    fn exchange(&mut self, share: f64) {
        self.covariance[0][0] += (share * self.mean[0].abs().max(LEAST_LOAD)).powi(2);
    }

    /// Both halves of the covariance get the same numbers: it stays symmetric however long this runs.
    fn learn(&mut self, spread: &[f64; STATE], shift: f64, sharpening: f64) {
        for row in 0..STATE {
            self.mean[row] += shift * spread[row];
            for column in 0..=row {
                let value = self.covariance[row][column] - sharpening * spread[row] * spread[column];
                self.covariance[row][column] = value;
                self.covariance[column][row] = value;
            }
            self.covariance[row][row] = self.covariance[row][row].max(LEAST_VARIANCE);
        }
    }
}

impl Idea {
    /// The variances of the state before anything is known.
    fn variances(self) -> [f64; STATE] {
        let mut variances = [0.0; STATE];
        variances[0] = LEVEL * LEVEL;
        for (wave, pair) in waves().zip(variances[1..MOOD].chunks_exact_mut(2)) {
            pair.fill((WAVE / wave).powi(2));
        }
        variances[MOOD] = self.appliance;
        variances
    }
}

impl Habit {
    /// It was not met for so much longer than a day.
    fn pass(&mut self, idea: Idea, elapsed: f64) {
        let kept = (-elapsed / MEMORY).exp();
        self.mean *= kept;
        self.variance = kept * kept * self.variance + (1.0 - kept * kept) * idea.habit * idea.habit;
    }

    fn learn(&mut self, idea: Idea, length: f64, shift: f64, sharpening: f64) {
        self.mean += shift * self.variance;
        // It is met once a day, or by several slots that are shorter: it forgets a day in all.
        let forgotten = 2.0 * DAY / MEMORY * (length / HABIT).min(1.0);
        let most = idea.habit * idea.habit;
        self.variance = (self.variance - sharpening * self.variance * self.variance + forgotten * most).min(most);
    }
}

/// How level and waves make the load of a slot, which is their mean over the slot. Mood has no part in it.
fn profile(seen: &Seen) -> [f64; STATE] {
    let mut profile = [0.0; STATE];
    profile[0] = 1.0;
    for (wave, pair) in waves().zip(profile[1..MOOD].chunks_exact_mut(2)) {
        let frequency = TAU * wave / DAY;
        let half = frequency * seen.length / 2.0;
        let flattened = if half > 1e-6 { half.sin() / half } else { 1.0 };
        let (sine, cosine) = (frequency * seen.time).sin_cos();
        pair.copy_from_slice(&[flattened * cosine, flattened * sine]);
    }
    profile
}

fn diagonal(numbers: &[f64; STATE]) -> [[f64; STATE]; STATE] {
    std::array::from_fn(|row| std::array::from_fn(|column| if row == column { numbers[row] } else { 0.0 }))
}

fn waves() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(1.0), |wave| Some(wave + 1.0)).take(WAVES)
}

fn dot(a: &[f64; STATE], b: &[f64; STATE]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The whole part of a number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a day, counted in tens of minutes")]
pub(super) fn whole(number: f64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDEA: Idea = Idea { appliance: 1000.0, mood: 1200.0, wandering: 10.0, habit: 0.0, reach: 0.0 };

    fn slot(number: u32, load: f64) -> Seen {
        let time = f64::from(number % 144) * 600.0 + 300.0;
        Seen {
            elapsed: Some(600.0),
            time,
            length: 600.0,
            load,
            noise: 100.0,
            responders: 100.0,
            members: 100.0,
            exchanged: 0.0,
        }
    }

    #[test]
    fn a_slot_of_a_whole_day_has_no_waves_and_a_short_one_has_them_whole() {
        let of = |length| profile(&Seen { length, time: 0.0, ..slot(0, 0.0) });
        let day = of(DAY);
        assert!(day[0] == 1.0 && day[1..].iter().all(|share| share.abs() < 1e-12), "{day:?}");
        let moment = of(0.0);
        assert!(moment[1..MOOD].chunks_exact(2).all(|pair| pair == [1.0, 0.0]), "{moment:?}");
        // The mean of a cosine over half its period around its top.
        assert!((of(DAY / 2.0)[1] - 2.0 / std::f64::consts::PI).abs() < 1e-12);
    }

    #[test]
    fn a_first_sum_without_noise_is_the_estimate() {
        let found = Model::new(IDEA).observe(&Seen { noise: 1e-6, ..slot(0, 720.0) });
        assert!((found.mean - 720.0).abs() < 1e-2 && found.variance < 2e-6, "{found:?}");
    }

    #[test]
    fn silent_members_make_it_less_sure() {
        let variance = |responders| Model::new(IDEA).observe(&Seen { responders, ..slot(0, 500.0) }).variance;
        let (all, most, few) = (variance(100.0), variance(80.0), variance(10.0));
        assert!(all < most && most < few, "{all} {most} {few}");
    }

    #[test]
    fn a_time_switch_is_a_habit_that_waves_miss() {
        let load = |number: u32| if (12..15).contains(&(number % 144)) { 800.0 } else { 400.0 };
        let miss = |habit: f64| {
            let mut model = Model::new(Idea { habit, ..IDEA });
            for number in 0..144 * 10 {
                model.observe(&slot(number, load(number)));
            }
            // So much noise that what is learned decides.
            (model.observe(&Seen { noise: 1e9, ..slot(12, 0.0) }).mean - 800.0).abs()
        };
        let (smooth, sharp) = (miss(0.0), miss(150.0));
        assert!(sharp < 60.0 && smooth > 2.0 * sharp, "{smooth} {sharp}");
    }

    #[test]
    fn habits_fade_over_a_gap_of_months_and_hardly_over_one_of_days() {
        let load = |number: u32| if (12..15).contains(&(number % 144)) { 800.0 } else { 400.0 };
        let mut model = Model::new(Idea { habit: 150.0, ..IDEA });
        for number in 0..144 * 10 {
            model.observe(&slot(number, load(number)));
        }
        let after = |days: f64| {
            let mut model = model.clone();
            model.pass(days * DAY);
            model.habits[13]
        };
        let (now, week, year) = (model.habits[13], after(7.0), after(400.0));
        assert!(week.mean / now.mean > 0.95 && week.variance > now.variance, "{now:?} {week:?}");
        assert!(year.mean / now.mean < 0.2 && year.variance > 0.9 * 150.0 * 150.0, "{now:?} {year:?}");
        assert_eq!(after(1.0).mean, now.mean, "a day's forgetting is counted when it is met");
    }

    #[test]
    fn members_who_come_and_go_make_it_less_sure_in_proportion() {
        let mut model = Model::new(IDEA);
        for number in 0..1000 {
            model.observe(&slot(number, 400.0));
        }
        let deviation = |exchanged| {
            let mut model = model.clone();
            let before = model.covariance[0][0];
            model.exchange(exchanged);
            (model.covariance[0][0] - before).sqrt()
        };
        assert!((deviation(0.5) - 200.0).abs() < 10.0 && (deviation(0.1) - 40.0).abs() < 2.0, "{}", deviation(0.5));
        assert_eq!(deviation(0.0), 0.0);
    }

    #[test]
    fn a_mood_passes_and_a_level_stays() {
        let mut model = Model::new(IDEA);
        for number in 0..1003 {
            model.observe(&slot(number, if number < 1000 { 400.0 } else { 600.0 }));
        }
        let blind = |hours: f64| {
            let mut model = model.clone();
            model.observe(&Seen { noise: 1e12, elapsed: Some(hours * 3600.0), ..slot(1003, 0.0) })
        };
        let (soon, late) = (blind(0.1), blind(4.0));
        assert!(soon.mean > 500.0 && (late.mean - 400.0).abs() < 60.0, "{soon:?} {late:?}");
        assert!(late.variance > soon.variance);
    }
}
