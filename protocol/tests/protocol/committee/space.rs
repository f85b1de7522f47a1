//! Row spaces over GF(2^61 - 1).

pub(super) use crate::support::algebra::{PRIME, inverse, multiply};

/// The span of some rows, in echelon form: each row starts with a 1 in a column where no other row starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Space {
    /// By the column in which each starts.
    rows: Vec<(usize, Vec<u64>)>,
}

impl Space {
    /// Adds a row; returns whether it was not in the span already.
    pub(super) fn insert(&mut self, mut row: Vec<u64>) -> bool {
        let mut place = 0;
        for (pivot, known) in &self.rows {
            if row[..*pivot].iter().any(|value| *value != 0) {
                break;
            }
            subtract(&mut row, known, *pivot);
            place += 1;
        }
        let Some(pivot) = row.iter().position(|value| *value != 0) else { return false };
        let scale = inverse(row[pivot]);
        row[pivot..].iter_mut().for_each(|value| *value = multiply(*value, scale));
        self.rows.insert(place, (pivot, row));
        true
    }

    /// The number of independent rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[u64]> {
        self.rows.iter().map(|(_, row)| row.as_slice())
    }

    /// The rows of the span that are 0 in all columns before `column`, without those columns.
    pub(super) fn behind(&self, column: usize) -> Self {
        let rows = self.rows.iter().filter(|(pivot, _)| *pivot >= column);
        Self { rows: rows.map(|(pivot, row)| (pivot - column, row[column..].to_vec())).collect() }
    }

    /// All columns of numbers that every row takes to 0.
    pub(super) fn solutions(&self, columns: usize) -> Vec<Vec<u64>> {
        let bound = |column: usize| self.rows.iter().any(|(pivot, _)| *pivot == column);
        let free = (0..columns).filter(|column| !bound(*column));
        free.map(|chosen| {
            let mut solution = vec![0; columns];
            solution[chosen] = 1;
            for (pivot, row) in self.rows.iter().rev() {
                solution[*pivot] = (PRIME - product(&row[pivot + 1..], &solution[pivot + 1..])) % PRIME;
            }
            solution
        })
        .collect()
    }
}

/// The sum of products.
pub(super) fn product(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).fold(0, |sum, (&a, &b)| (sum + multiply(a, b)) % PRIME)
}

/// Makes `row` 0 in the column `pivot`, in which `known` has a 1.
fn subtract(row: &mut [u64], known: &[u64], pivot: usize) {
    let factor = PRIME - row[pivot];
    if factor < PRIME {
        for (value, by) in row[pivot..].iter_mut().zip(&known[pivot..]).filter(|(_, by)| **by != 0) {
            *value = (*value + multiply(*by, factor)) % PRIME;
        }
    }
}
