//! Who probably lies, given which sums failed: a Gibbs sampler over small sets of liars.
//!
//! The model: a sum fails if a member that is in it lies, or with 1/64 for any other reason. A liar lies in every sum or in a
//! quarter of them. This only steers whom sums leave out, so floating point is good enough; what is stored is integers.

use std::collections::BTreeMap;

use super::dice;
use rand_core::CryptoRng;

/// How often the two kinds of liars lie.
pub(super) const RATES: [f64; 2] = [255.0 / 256.0, 0.25];

/// How often a sum decodes that no liar is in.
const DECODES: f64 = 63.0 / 64.0;

/// How many liars there may be at once in the sampler's eyes.
const PLACES: usize = 8;

const SWEEPS: u32 = 16;

/// Where there is one liar, another one is so much likelier.
const COMPANY: f64 = 64.0;

/// How many tables of weights are kept: the sampler returns to the same few sets again and again.
const MOST_TABLES: usize = 24;

/// How likely a member is a liar, and how likely it spoils the next sum that it is in.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Chance {
    pub(super) liar: f64,
    pub(super) spoils: f64,
}

impl Chance {
    /// How much a member adds to the chance that a sum fails, as a logarithm, so that it can be added up.
    pub(super) fn mass(self) -> f64 {
        -(1.0 - self.spoils).ln()
    }
}

/// A member with the rate at which it lies, by their numbers.
type Liar = (usize, usize);

/// What a place may hold, given what is in the others.
struct Table {
    /// By member and rate, added up; 1 more for nobody.
    cumulative: Vec<f64>,
    used: u32,
}

impl Table {
    fn total(&self) -> f64 {
        1.0 + self.cumulative.last().copied().unwrap_or(0.0)
    }
}

/// Returns the chances of all members, from their odds by rate and from who was left out of each failed sum.
pub(super) fn chances(odds: &[[f64; 2]], failed: &[&[u16]], rng: &mut dyn CryptoRng) -> Vec<Chance> {
    let mut chances = vec![Chance::default(); odds.len()];
    let mut tables: BTreeMap<Vec<Liar>, Table> = BTreeMap::new();
    let mut places: [Option<Liar>; PLACES] = [None; PLACES];
    for _ in 0..SWEEPS {
        for place in 0..PLACES {
            let mut others: Vec<Liar> =
                (0..PLACES).filter(|&other| other != place).filter_map(|other| places[other]).collect();
            others.sort_unstable();
            if tables.len() == MOST_TABLES && !tables.contains_key(&others) {
                std::mem::take(&mut tables).into_values().for_each(|table| add_up(&table, &mut chances));
            }
            let table = tables.entry(others).or_insert_with_key(|others| weigh(odds, failed, others));
            table.used += 1;
            let drawn = dice::fraction(rng) * table.total() - 1.0;
            let found = table.cumulative.partition_point(|sum| *sum <= drawn);
            places[place] = (drawn >= 0.0 && found < table.cumulative.len()).then_some((found / 2, found % 2));
        }
    }
    tables.into_values().for_each(|table| add_up(&table, &mut chances));
    chances
}

/// Weighs who may be a liar beside these.
fn weigh(odds: &[[f64; 2]], failed: &[&[u16]], others: &[Liar]) -> Table {
    let company = if others.is_empty() { 1.0 } else { COMPANY };
    // What the failures say for everybody, and, of each member, those that it was left out of.
    let mut all = [0.0; 2];
    let mut left_out = vec![[0.0; 2]; odds.len()];
    for &absent in failed {
        let in_sum = others.iter().filter(|(member, _)| !contains(absent, *member));
        let decodes = in_sum.fold(DECODES, |decodes, (_, rate)| decodes * (1.0 - RATES[*rate]));
        let ratio = RATES.map(|rate| ((1.0 - decodes * (1.0 - rate)) / (1.0 - decodes)).ln());
        for (all, ratio) in all.iter_mut().zip(ratio) {
            *all += ratio;
        }
        for &member in absent {
            for (sum, ratio) in left_out[usize::from(member)].iter_mut().zip(ratio) {
                *sum += ratio;
            }
        }
    }
    let mut sum = 0.0;
    let mut cumulative = Vec::with_capacity(2 * odds.len());
    for (member, (odds, left_out)) in odds.iter().zip(&left_out).enumerate() {
        let known = others.iter().any(|(other, _)| *other == member);
        for rate in 0..2 {
            sum += if known { 0.0 } else { odds[rate] * company * (all[rate] - left_out[rate]).exp() };
            cumulative.push(sum);
        }
    }
    Table { cumulative, used: 0 }
}

/// Adds what a table says, as often as it was used, to the mean.
fn add_up(table: &Table, chances: &mut [Chance]) {
    let share = f64::from(table.used) / f64::from(SWEEPS) / table.total();
    let mut before = 0.0;
    for (sums, chance) in table.cumulative.as_chunks::<2>().0.iter().zip(chances) {
        let [always, sometimes] = [sums[0] - before, sums[1] - sums[0]];
        before = sums[1];
        chance.liar = (chance.liar + share * (always + sometimes)).min(1.0);
        chance.spoils = (chance.spoils + share * (always * RATES[0] + sometimes * RATES[1])).min(RATES[0]);
    }
}

/// What a failed sum says about a member, if nobody else is looked at: `others` is the chance that all others in it are honest.
pub(super) fn ratios(others: f64) -> [f64; 2] {
    let decodes = DECODES * others;
    RATES.map(|rate| (1.0 - decodes * (1.0 - rate)) / (1.0 - decodes))
}

pub(super) fn contains(absent: &[u16], member: usize) -> bool {
    u16::try_from(member).is_ok_and(|member| absent.binary_search(&member).is_ok())
}
