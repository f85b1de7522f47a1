//! What a gateway can compute: linear algebra over the masks it does not know.
//!
//! A view is one pair of messages of an honest meter, `ct - K' - R`: its noisy reading, plus its own secret if it has not
//! answered, plus the masks it shares with honest members that the request did not name. A linear combination of views
//! in which every mask and secret vanishes is a sum of readings that the gateway can see; what else it may hold is
//! uniform. The masks are numbers modulo 2^64, but all coefficients are small, so a large prime field tells the same.

use std::collections::{BTreeMap, BTreeSet};

/// 2^61 - 1.
pub(crate) const PRIME: u64 = (1 << 61) - 1;

/// One meter's reading with one answer to it, if any.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) meter: u16,
    /// S as this meter was shown it; `None` if it was asked nothing.
    pub(crate) told: Option<BTreeSet<u16>>,
}

/// A sum of readings in which all masks vanish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opening {
    /// How often each view is added.
    pub(crate) views: Vec<i64>,
    /// How often each meter's reading is in the sum.
    pub(crate) readings: BTreeMap<u16, i64>,
}

/// Everything that can be opened of these views without the masks between `honest` members, as a basis in reduced form.
pub(crate) fn openings(views: &[View], honest: &BTreeSet<u16>) -> Vec<Opening> {
    let secrets = Columns::new(views, honest);
    let readings: Vec<u16> = views.iter().map(|view| view.meter).collect::<BTreeSet<_>>().into_iter().collect();
    let masks = secrets.len();
    let width = masks + readings.len() + views.len();
    let mut rows: Vec<Vec<u64>> = Vec::new();
    for (index, view) in views.iter().enumerate() {
        let mut row = vec![0; width];
        secrets.fill(index, view, &mut row);
        row[masks + readings.iter().position(|meter| *meter == view.meter).unwrap()] = 1;
        row[masks + readings.len() + index] = 1;
        rows.push(row);
    }
    let pivots = reduce(&mut rows, masks + readings.len());
    let open = rows.iter().zip(pivots).filter(|(_, pivot)| (masks..masks + readings.len()).contains(pivot));
    open.map(|(row, _)| Opening {
        views: row[masks + readings.len()..].iter().map(|&value| small(value)).collect(),
        readings: readings
            .iter()
            .zip(&row[masks..])
            .filter(|(_, value)| **value != 0)
            .map(|(&meter, &value)| (meter, small(value)))
            .collect(),
    })
    .collect()
}

/// Whether every mask and secret vanishes from the sum of these views.
pub(crate) fn cancels(views: &[View], chosen: &[usize], honest: &BTreeSet<u16>) -> bool {
    let secrets = Columns::new(views, honest);
    let mut sum = vec![0; secrets.len()];
    for &index in chosen {
        let mut row = vec![0; secrets.len()];
        secrets.fill(index, &views[index], &mut row);
        sum = sum.iter().zip(row).map(|(&a, b)| (a + b) % PRIME).collect();
    }
    sum.iter().all(|&value| value == 0)
}

/// Says what is wrong if anything but disjoint sets of at least `honest` meters, each once, opens.
pub(crate) fn leak(open: &[Opening], honest: usize) -> Option<String> {
    let mut seen = BTreeSet::new();
    for opening in open {
        if opening.readings.len() < honest {
            return Some(format!("{} of {honest} readings open: {:?}", opening.readings.len(), opening.readings));
        }
        if opening.readings.values().any(|&times| times != 1)
            || opening.views.iter().any(|times| !(0..=1).contains(times))
        {
            return Some(format!("not a plain sum: {opening:?}"));
        }
        if let Some(twice) = opening.readings.keys().find(|meter| !seen.insert(**meter)) {
            return Some(format!("meter {twice} is in two sums"));
        }
    }
    None
}

/// The unknowns: a mask for each pair of honest members, and the secret of each view that was not answered.
struct Columns {
    pairs: BTreeMap<(u16, u16), usize>,
    unanswered: BTreeMap<usize, usize>,
}

impl Columns {
    fn new(views: &[View], honest: &BTreeSet<u16>) -> Self {
        let pairs = honest.iter().flat_map(|&a| honest.range(a + 1..).map(move |&b| (a, b)));
        let pairs: BTreeMap<_, _> = pairs.zip(0..).collect();
        let unanswered = (0..views.len()).filter(|&index| views[index].told.is_none()).zip(pairs.len()..).collect();
        Self { pairs, unanswered }
    }

    fn len(&self) -> usize {
        self.pairs.len() + self.unanswered.len()
    }

    fn fill(&self, index: usize, view: &View, row: &mut [u64]) {
        if let Some(&column) = self.unanswered.get(&index) {
            row[column] = 1;
        }
        let told = |member: &u16| view.told.as_ref().is_some_and(|told| told.contains(member));
        for (&(a, b), &column) in &self.pairs {
            // Plus for the member that sorts after its partner.
            let (partner, sign) = match view.meter {
                meter if meter == a => (b, PRIME - 1),
                meter if meter == b => (a, 1),
                _ => continue,
            };
            if !told(&partner) {
                row[column] = sign;
            }
        }
    }
}

/// Gauss-Jordan over the first `columns`; every row's pivot, or `usize::MAX` for a row without.
fn reduce(rows: &mut [Vec<u64>], columns: usize) -> Vec<usize> {
    let mut pivots = vec![usize::MAX; rows.len()];
    let mut done = 0;
    for column in 0..columns {
        let Some(found) = (done..rows.len()).find(|&row| rows[row][column] != 0) else { continue };
        rows.swap(done, found);
        let inverse = inverse(rows[done][column]);
        rows[done].iter_mut().for_each(|value| *value = multiply(*value, inverse));
        let pivot = rows[done].clone();
        for (index, row) in rows.iter_mut().enumerate().filter(|(_, row)| row[column] != 0) {
            if index != done {
                let factor = PRIME - row[column];
                row.iter_mut().zip(&pivot).for_each(|(value, by)| *value = (*value + multiply(*by, factor)) % PRIME);
            }
        }
        pivots[done] = column;
        done += 1;
    }
    pivots
}

/// `a * b` modulo the prime. 2^61 is 1, so the upper bits of the product are added to the lower ones.
pub(crate) fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let folded = (product & u128::from(PRIME)) + (product >> 61);
    u64::try_from(folded).unwrap() % PRIME
}

/// `1 / value` modulo the prime, by Fermat.
pub(crate) fn inverse(value: u64) -> u64 {
    let (mut result, mut base, mut exponent) = (1, value, PRIME - 2);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, base);
        }
        base = multiply(base, base);
        exponent >>= 1;
    }
    result
}

/// A field element as the integer next to 0.
fn small(value: u64) -> i64 {
    let signed = if value > PRIME / 2 { -(PRIME - value).cast_signed() } else { value.cast_signed() };
    assert!(signed.abs() < 1000, "coefficients are small integers, not {signed}");
    signed
}
