//! Who probably lies, given which sums failed: a Gibbs sampler over small sets of liars.
//!
//! The model: a sum fails if a member that is in it lies, or with 1/64 for any other reason. A liar lies in every sum or in a
//! quarter of them. This only steers whom sums leave out, so floating point is good enough; what is stored is integers.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use rand_core::CryptoRng;

use super::dice;
use super::search::{Suspect, from_millibits};

/// How often the two kinds of liars lie.
const RATES: [f64; 2] = [255.0 / 256.0, 0.25];

/// How often a sum decodes that no liar is in.
const DECODES: f64 = 63.0 / 64.0;

/// How many liars there may be at once in the sampler's eyes.
const PLACES: usize = 8;

const SWEEPS: u32 = 16;

/// Where there is one liar, another one is so much likelier, as long as there are failures to explain.
const COMPANY: f64 = 64.0;

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

/// Returns the chances of all members, after so many failed sums.
pub(super) fn chances(members: &[&Suspect], failed: u32, rng: &mut dyn CryptoRng) -> Vec<Chance> {
    let odds: Vec<[f64; 2]> = members.iter().map(|known| known.odds.map(from_millibits)).collect();
    let mut chances = vec![Chance::default(); members.len()];
    let mut tables: BTreeMap<Vec<Liar>, Table> = BTreeMap::new();
    let mut places: [Option<Liar>; PLACES] = [None; PLACES];
    for _ in 0..SWEEPS {
        for place in 0..PLACES {
            places[place] = None;
            let mut others: Vec<Liar> = places.iter().copied().flatten().collect();
            others.sort_unstable();
            let table = tables.entry(others).or_insert_with_key(|others| weigh(members, &odds, failed, others));
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
fn weigh(members: &[&Suspect], odds: &[[f64; 2]], failed: u32, others: &[Liar]) -> Table {
    let company = if others.is_empty() || failed == 0 { 1.0 } else { COMPANY };
    let says = |sum: u32| {
        let in_sum = others.iter().filter(|(member, rate)| members[*member].cleared[*rate] >> sum & 1 == 0);
        ratios(in_sum.fold(1.0, |honest, (_, rate)| honest * (1.0 - RATES[*rate])))
    };
    // What failed sums say, four at a time, by which of the four a member is cleared of: at most 64 to the power of their number.
    let four = |first: u32| {
        let says: [[f64; 2]; 4] = core::array::from_fn(|sum| (first..failed).nth(sum).map_or([1.0; 2], says));
        let mut four = [[1.0; 2]; 16];
        for cleared in (0..15usize).rev() {
            let sum = cleared.trailing_ones() as usize;
            let ([always, sometimes], says) = (four[cleared | 1 << sum], says[sum]);
            four[cleared] = [always * says[0], sometimes * says[1]];
        }
        four
    };
    let says: Vec<[[f64; 2]; 16]> = (0..failed).step_by(4).map(four).collect();
    let mut total = 0.0;
    let mut cumulative = Vec::with_capacity(2 * members.len());
    for (member, known) in members.iter().enumerate() {
        let is_known = others.iter().any(|(other, _)| *other == member);
        let (mut ratio, mut cleared) = ([1.0; 2], known.cleared);
        for four in &says {
            ratio = [0, 1].map(|rate| ratio[rate] * four[(cleared[rate] & 15) as usize][rate]);
            cleared = cleared.map(|cleared| cleared >> 4);
        }
        for rate in 0..2 {
            total += if is_known { 0.0 } else { odds[member][rate] * company * ratio[rate] };
            cumulative.push(total);
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

/// What a failed sum says about a member that is in it, by rate, if all others are honest with a chance of `others`.
pub(super) fn ratios(others: f64) -> [f64; 2] {
    let decodes = DECODES * others;
    RATES.map(|rate| (1.0 - decodes * (1.0 - rate)) / (1.0 - decodes))
}
