//! Notices when the broker's in-flight window bounds the throughput.
//!
//! Messages are acknowledged after they are committed, so a broker that hands out at most W at a time gives W messages a
//! commit. If commit after commit finds exactly W unacknowledged messages, W is the window, and larger would be faster.

/// After how many commits in a row with the same number of unacknowledged messages it is reported.
const MIN_REPEATS: u32 = 50;

/// A window of one or two could also be a meter that sends one message after the other.
const MIN_WINDOW: usize = 5;

#[derive(Debug, Default)]
pub struct WindowWatch {
    found: usize,
    repeats: u32,
    reported: usize,
}

impl WindowWatch {
    /// Takes how many messages were unacknowledged at a commit. Returns the window when it is to be reported: once for each.
    pub fn commit(&mut self, unacknowledged: usize) -> Option<usize> {
        if unacknowledged < MIN_WINDOW {
            return None; // an idle moment says nothing
        }
        if unacknowledged != self.found {
            (self.found, self.repeats) = (unacknowledged, 0);
        }
        self.repeats += 1;
        if self.repeats < MIN_REPEATS || self.reported == unacknowledged {
            return None;
        }
        self.reported = unacknowledged;
        Some(unacknowledged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_said_once() {
        let mut watch = WindowWatch::default();
        let reported: Vec<usize> = (0..500).filter_map(|_| watch.commit(20)).collect();
        assert_eq!(reported, [20]);
    }

    #[test]
    fn numbers_that_vary_are_no_window() {
        let mut watch = WindowWatch::default();
        assert!((0..500).all(|at| watch.commit(20 + at % 7).is_none()));
        assert!((0..500).all(|_| watch.commit(1).is_none()));
    }
}
