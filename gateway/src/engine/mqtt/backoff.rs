//! How long to wait before trying again: twice as long each time, up to a limit, and never exactly when others do.

use std::time::Duration;

use rand::RngExt as _;

#[derive(Debug)]
pub(super) struct Backoff {
    first: f64,
    limit: f64,
    next: f64,
}

impl Backoff {
    /// In seconds.
    pub(super) fn new(first: f64, limit: f64) -> Self {
        Self { first, limit, next: first }
    }

    /// Returns a wait between half the current limit and all of it, so that many gateways do not come back in one moment.
    pub(super) fn next(&mut self) -> Duration {
        let ceiling = self.next;
        self.next = (ceiling * 2.0).min(self.limit);
        Duration::from_secs_f64(rand::rng().random_range(ceiling / 2.0..=ceiling))
    }

    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_limit_and_start_over() {
        let mut backoff = Backoff::new(1.0, 8.0);
        for ceiling in [1.0, 2.0, 4.0, 8.0, 8.0, 8.0] {
            let wait = backoff.next().as_secs_f64();
            assert!((ceiling / 2.0..=ceiling).contains(&wait), "{wait} of {ceiling}");
        }
        backoff.reset();
        assert!(backoff.next().as_secs_f64() <= 1.0);
    }
}
