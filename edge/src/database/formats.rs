//! Which formats of a file a version reads, and how it brings older ones up to date.

/// The formats that a version reads: the oldest, and the steps from each to the next. A file is written in the newest.
///
/// What was released is never changed: a new format adds a step. `S` is what a step does, in the one transaction that also writes the new number.
#[derive(Debug, Clone, Copy)]
pub struct Formats<S: 'static> {
    pub oldest: u64,
    pub steps: &'static [S],
}

/// A format that a version does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// From before the first release.
    Earlier,
    /// Of a version to come.
    Newer,
}

impl<S> Formats<S> {
    /// Returns the format in which files are written.
    pub const fn newest(&self) -> u64 {
        self.oldest + self.steps.len() as u64
    }

    /// Returns the steps that bring a format up to date: none for the newest.
    pub fn steps_from(&self, found: u64) -> Result<&'static [S], Unreadable> {
        let done = found.checked_sub(self.oldest).ok_or(Unreadable::Earlier)?;
        usize::try_from(done).ok().and_then(|done| self.steps.get(done..)).ok_or(Unreadable::Newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_the_steps_that_it_has_not_taken() {
        let formats = Formats { oldest: 3, steps: &["to 4", "to 5"] };
        assert_eq!(formats.newest(), 5);
        assert_eq!(formats.steps_from(2), Err(Unreadable::Earlier));
        assert_eq!(formats.steps_from(3), Ok(&["to 4", "to 5"][..]));
        assert_eq!(formats.steps_from(4), Ok(&["to 5"][..]));
        assert_eq!(formats.steps_from(5), Ok(&[][..]));
        assert_eq!(formats.steps_from(6), Err(Unreadable::Newer));
    }
}
