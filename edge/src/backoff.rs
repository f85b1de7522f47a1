//! How long to wait before trying again: twice as long each time, up to a limit, and never exactly when others do.

use std::time::Duration;

use rand::RngExt as _;

/// The waits between attempts.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    limit: Duration,
    next: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, limit: Duration) -> Self {
        Self { first, limit, next: first }
    }

    /// Returns a wait between half the current limit and all of it, so that many clients do not come back in one moment.
    pub fn next_wait(&mut self) -> Duration {
        let ceiling = self.next;
        self.next = (ceiling * 2).min(self.limit);
        ceiling.mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    /// Begins with the first wait again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_limit_and_start_over() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(8));
        for ceiling in [1, 2, 4, 8, 8, 8].map(seconds) {
            let wait = backoff.next_wait();
            assert!((ceiling / 2..=ceiling).contains(&wait), "{wait:?} of {ceiling:?}");
        }
        backoff.reset();
        assert!(backoff.next_wait() <= seconds(1));
    }
}
