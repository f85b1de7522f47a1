//! What somebody who sees the released sums looks for, to tell from them which of two inputs it was.

use super::binomial;

/// The sums that were released for each of two inputs.
#[derive(Debug)]
pub(super) struct Released<'a> {
    /// While one home draws nothing.
    pub(super) low: &'a [i64],
    /// While it draws as much as it may.
    pub(super) high: &'a [i64],
}

/// Sums on one side of a threshold, which belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    AtMost(i64),
    AtLeast(i64),
}

/// How often something was seen in as many runs with the input that it speaks for, and with the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence {
    pub(super) likely: u64,
    pub(super) unlikely: u64,
    pub(super) runs: u64,
}

impl Evidence {
    /// The epsilon that explains it best, where what has a probability of `delta` needs no explanation.
    pub(super) fn epsilon_seen(self, delta: f64) -> f64 {
        ((self.likely as f64 - delta * self.runs as f64).max(0.0) / self.unlikely as f64).ln()
    }

    /// The least epsilon that explains it, wrong with no more than this risk, of which each of two bounds takes half.
    pub(super) fn epsilon_at_least(self, delta: f64, risk: f64) -> f64 {
        let more = binomial::at_least(self.likely, self.runs, risk / 2.0) - delta;
        let less = binomial::at_most(self.unlikely, self.runs, risk / 2.0);
        (more.max(0.0) / less).ln().max(0.0)
    }
}

impl Event {
    pub(super) fn evidence(self, released: &Released<'_>) -> Evidence {
        let hits = |sums: &[i64]| sums.iter().filter(|sum| self.includes(**sum)).count() as u64;
        let (low, high, runs) = (hits(released.low), hits(released.high), released.low.len() as u64);
        let (likely, unlikely) = match self {
            Self::AtMost(_) => (low, high),
            Self::AtLeast(_) => (high, low),
        };
        Evidence { likely, unlikely, runs }
    }

    fn includes(self, sum: i64) -> bool {
        match self {
            Self::AtMost(threshold) => sum <= threshold,
            Self::AtLeast(threshold) => sum >= threshold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand sums of which so many are 3 and the rest 8.
    fn thousand(threes: usize) -> Vec<i64> {
        (0..1000).map(|run| if run < threes { 3 } else { 8 }).collect()
    }

    #[test]
    fn a_bound_is_below_what_was_seen_by_as_much_as_the_counts_leave_open() {
        let (low, high) = (thousand(600), thousand(300));
        let released = Released { low: &low, high: &high };
        assert!((Event::AtMost(3).evidence(&released).epsilon_seen(0.0) - 2f64.ln()).abs() < 1e-12);
        // 600 of 1000 mean at least 0.559190 and 300 of 1000 at most 0.338727, each but for one in 200.
        let bound = Event::AtMost(3).evidence(&released).epsilon_at_least(0.0, 0.01);
        assert!((bound - (0.559_190_f64 / 0.338_727).ln()).abs() < 1e-5, "{bound}");
    }

    #[test]
    fn each_side_speaks_for_its_own_input() {
        let (low, high) = (thousand(600), thousand(300));
        let released = Released { low: &low, high: &high };
        assert!((Event::AtLeast(8).evidence(&released).epsilon_seen(0.0) - (0.7f64 / 0.4).ln()).abs() < 1e-12);
        let never = Event::AtLeast(9).evidence(&released);
        assert_eq!(never.epsilon_at_least(0.0, 0.01), 0.0, "what was never seen tells nothing");
    }
}
