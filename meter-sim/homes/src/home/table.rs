//! Reads the tables under `data/`, which are part of the program: a mistake in one is a bug, and stops at once.

/// The rows after the header, each as its cells; lines that begin with `#` are remarks.
pub(super) fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).skip(1).map(|line| line.split(',').collect())
}

/// The numbers of a row, from this column on.
pub(super) fn numbers<const N: usize>(row: &[&str], from: usize) -> [f64; N] {
    std::array::from_fn(|at| number(row[from + at]))
}

pub(super) fn number(cell: &str) -> f64 {
    cell.parse().unwrap_or_else(|_| panic!("`{cell}` in a table is no number"))
}
