//! Whether the load changed for good just now.
//!
//! A sum far from what was expected may be noise, or the first after a change. The estimate stays where the hypotheses put
//! it, which have records of days behind them, but the band allows for the change as soon as it is possible: a quarter of an
//! hour after a feeder was switched, nobody can know which of the two it is. The evidence is that of Page's test: how much
//! better a load that may go anywhere explains the sums since the moment at which it explains them best.

/// How often one would bet on a change before there is evidence, as odds.
const ODDS: f64 = 0.2;
/// Factor by which the evidence decays in a slot: what changed for good shows in the records within hours.
const DECAY: f64 = 0.9;
/// More evidence than this, as a logarithm, tells nothing more.
const MOST: f64 = 30.0;

/// Evidence for a change, as a logarithm, never below 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Change(f64);

impl Change {
    /// Updates with the logarithm of how much more probable a slot's sum was to a load that may go anywhere.
    pub(crate) fn observe(&mut self, log_ratio: f64) {
        self.0 = (DECAY * self.0 + log_ratio).clamp(0.0, MOST);
    }

    /// Returns how probable a change is, beyond what the hypotheses allow for anyway.
    pub(crate) fn probability(self) -> f64 {
        let odds = ODDS * self.0.exp_m1();
        odds / (1.0 + odds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_adds_up_from_the_best_moment_on_and_fades() {
        let mut change = Change::default();
        (0..100).for_each(|_| change.observe(-5.0));
        assert_eq!(change.probability(), 0.0, "what spoke against it before counts for nothing");
        change.observe(2.0);
        assert!((change.probability() - 0.561).abs() < 0.01, "{}", change.probability());
        change.observe(2.0);
        assert!(change.probability() > 0.8);
        (0..60).for_each(|_| change.observe(0.0));
        assert!(change.probability() < 0.01);
        change.observe(f64::MAX);
        assert!((0.999..=1.0).contains(&change.probability()));
    }
}
