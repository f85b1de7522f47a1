//! What somebody who sees the released sums looks for, to tell from them which of two inputs it was.

use super::binomial;

/// Sums on one side of a threshold, which belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    AtMost(i64),
    AtLeast(i64),
}

/// The sums that were released for each of two inputs.
#[derive(Debug)]
pub(super) struct Sums<'a> {
    /// While one home draws nothing.
    pub(super) low: &'a [i64],
    /// While it draws as much as it may.
    pub(super) high: &'a [i64],
}

/// How often something was seen.
#[derive(Debug, Clone, Copy)]
struct Count {
    hits: u64,
    runs: u64,
}

impl Event {
    /// The event that tells the inputs apart best, so far as these sums show. Whatever they show by chance, it is only a
    /// choice: other sums decide.
    pub(super) fn choose(sums: &Sums<'_>) -> Self {
        let mut thresholds: Vec<i64> = sums.low.iter().chain(sums.high).copied().collect();
        thresholds.sort_unstable();
        thresholds.dedup();
        let events = thresholds.into_iter().flat_map(|threshold| [Self::AtMost(threshold), Self::AtLeast(threshold)]);
        let rated = events.map(|event| (event, event.promise(sums)));
        rated.max_by(|(_, a), (_, b)| a.total_cmp(b)).expect("there are sums").0
    }

    /// The least epsilon that explains how often the event happens, sure but for this risk.
    pub(super) fn epsilon_at_least(self, sums: &Sums<'_>, risk: f64) -> f64 {
        let (likely, unlikely) = self.counts(sums);
        // Each of the two bounds may be wrong with half of the risk.
        let more = binomial::at_least(likely.hits, likely.runs, risk / 2.0);
        let less = binomial::at_most(unlikely.hits, unlikely.runs, risk / 2.0);
        (more / less).ln().max(0.0)
    }

    /// The epsilon that explains it best.
    pub(super) fn epsilon_seen(self, sums: &Sums<'_>) -> f64 {
        let (likely, unlikely) = self.counts(sums);
        (likely.share() / unlikely.share()).ln()
    }

    /// About what the bound will be for as many sums: its logarithms are nearly normal.
    fn promise(self, sums: &Sums<'_>) -> f64 {
        const DEVIATIONS: f64 = 2.6;
        let (likely, unlikely) = self.counts(sums);
        self.epsilon_seen(sums) - DEVIATIONS * (likely.relative_error() + unlikely.relative_error())
    }

    /// How often it happens for the input that it speaks for, and for the other.
    fn counts(self, sums: &Sums<'_>) -> (Count, Count) {
        let [low, high] = [sums.low, sums.high].map(|sums| {
            let hits = sums.iter().filter(|sum| self.includes(**sum)).count();
            Count { hits: hits as u64, runs: sums.len() as u64 }
        });
        match self {
            Self::AtMost(_) => (low, high),
            Self::AtLeast(_) => (high, low),
        }
    }

    fn includes(self, sum: i64) -> bool {
        match self {
            Self::AtMost(threshold) => sum <= threshold,
            Self::AtLeast(threshold) => sum >= threshold,
        }
    }
}

impl Count {
    /// The share of hits, as if half a one more had been seen: never 0.
    fn share(self) -> f64 {
        (self.hits as f64 + 0.5) / (self.runs as f64 + 0.5)
    }

    fn relative_error(self) -> f64 {
        ((1.0 - self.share()) / (self.hits as f64 + 0.5)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thousand sums of which so many are the first and the rest the second.
    fn thousand(many: usize, first: i64, second: i64) -> Vec<i64> {
        (0..1000).map(|run| if run < many { first } else { second }).collect()
    }

    #[test]
    fn the_chosen_event_is_the_one_that_tells_most() {
        let (low, high) = (thousand(900, 3, 8), thousand(300, 3, 8));
        assert_eq!(Event::choose(&Sums { low: &low, high: &high }), Event::AtLeast(8), "ln 7 is more than ln 3");
        let (low, high) = (thousand(700, 3, 8), thousand(100, 3, 8));
        assert_eq!(Event::choose(&Sums { low: &low, high: &high }), Event::AtMost(3));
    }

    #[test]
    fn rare_events_promise_little() {
        let (mut low, mut high) = (thousand(600, 3, 8), thousand(300, 3, 8));
        low[0] = -100;
        high[999] = 100;
        assert_eq!(Event::choose(&Sums { low: &low, high: &high }), Event::AtMost(3));
    }

    #[test]
    fn a_bound_is_below_what_was_seen_and_near_it() {
        let (low, high) = (thousand(600, 3, 8), thousand(300, 3, 8));
        let sums = Sums { low: &low, high: &high };
        let event = Event::AtMost(3);
        assert!((event.epsilon_seen(&sums) - 2.0f64.ln()).abs() < 1e-3);
        // 600 of 1000 mean at least 0.559190 and 300 of 1000 at most 0.338727, each but for one in 200.
        let bound = event.epsilon_at_least(&sums, 0.01);
        assert!((bound - (0.559_190_f64 / 0.338_727).ln()).abs() < 1e-5, "{bound}");
        assert_eq!(Event::AtMost(0).epsilon_at_least(&sums, 0.01), 0.0, "what was never seen tells nothing");
    }
}
