//! Values that are known for the middle of every hour of the day, and interpolated between.

/// One value an hour, at its half.
#[derive(Debug)]
pub(super) struct Hours(pub(super) [f64; 24]);

impl Hours {
    /// The value at a time in hours, from one day into the next.
    pub(super) fn at(&self, hour: f64) -> f64 {
        let since_first = (hour - 0.5).rem_euclid(24.0);
        let before = super::draw::floor(since_first) as usize;
        let part = since_first - before as f64;
        self.0[before % 24] * (1.0 - part) + self.0[(before + 1) % 24] * part
    }
}

pub(super) fn logit(probability: f64) -> f64 {
    (probability / (1.0 - probability)).ln()
}

pub(super) fn sigmoid(value: f64) -> f64 {
    1.0 / (1.0 + (-value).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_hold_at_half_past_and_change_evenly_between_also_over_midnight() {
        let hours = Hours(std::array::from_fn(|hour| hour as f64));
        assert_eq!(hours.at(7.5), 7.0);
        assert_eq!(hours.at(8.0), 7.5);
        assert_eq!(hours.at(23.5), 23.0);
        assert_eq!(hours.at(24.0), 11.5);
        assert_eq!(hours.at(0.0), 11.5);
        assert_eq!(hours.at(0.25), 5.75);
    }

    #[test]
    fn sigmoid_undoes_logit() {
        assert!((sigmoid(logit(0.3)) - 0.3).abs() < 1e-12);
    }
}
