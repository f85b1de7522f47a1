//! Notices when the broker's in-flight window bounds the throughput.
//!
//! Messages are acknowledged after they are committed, so a broker that hands out at most W at a time gives W messages a
//! commit. If commit after commit finds exactly W unacknowledged messages, W is the window, and larger would be faster.

/// After how many commits in a row with the same number of unacknowledged messages it is said.
const IN_A_ROW: u32 = 50;

/// A window of one or two could also be a meter that sends one message after the other.
const LEAST: usize = 5;

#[derive(Debug, Default)]
pub struct WindowWatch {
    found: usize,
    in_a_row: u32,
    said: usize,
}

impl WindowWatch {
    /// Takes how many messages were unacknowledged at a commit; gives the window when it should be said, once for each.
    pub fn commit(&mut self, unacknowledged: usize) -> Option<usize> {
        if unacknowledged < LEAST {
            return None; // an idle moment says nothing
        }
        if unacknowledged != self.found {
            (self.found, self.in_a_row) = (unacknowledged, 0);
        }
        self.in_a_row += 1;
        if self.in_a_row < IN_A_ROW || self.said == unacknowledged {
            return None;
        }
        self.said = unacknowledged;
        Some(unacknowledged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_said_once() {
        let mut watch = WindowWatch::default();
        let said: Vec<usize> = (0..500).filter_map(|_| watch.commit(20)).collect();
        assert_eq!(said, [20]);
    }

    #[test]
    fn numbers_that_vary_are_no_window() {
        let mut watch = WindowWatch::default();
        assert!((0..500).all(|at| watch.commit(20 + at % 7).is_none()));
        assert!((0..500).all(|_| watch.commit(1).is_none()));
    }
}
