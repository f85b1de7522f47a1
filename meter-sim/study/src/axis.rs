//! Where an axis begins and ends, where its marks are, and what they say.

use super::section::{Axis, Scale};

/// An axis that fits some values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    pub(super) marks: Vec<f64>,
}

impl Ruler {
    /// Values that a logarithmic axis cannot show are left out; an axis without any value goes from 0 (or 1) on.
    pub(super) fn fit(axis: Axis, values: impl Iterator<Item = f64>) -> Self {
        let shown = values.filter(|value| value.is_finite() && (axis.scale != Scale::Logarithmic || *value > 0.0));
        let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        match axis.scale {
            Scale::Linear if low > high => Self::linear(0.0, 1.0),
            Scale::Linear => Self::linear(low, high),
            Scale::Hours => Self::hours(),
            Scale::Logarithmic if low > high => Self::logarithmic(1.0, 10.0),
            Scale::Logarithmic => Self::logarithmic(low, high),
        }
    }

    /// A day, marked every three hours.
    fn hours() -> Self {
        let marks = whole_numbers(0.0, 8.0).map(|mark| 3.0 * mark).collect();
        Self { scale: Scale::Hours, low: 0.0, high: 24.0, marks }
    }

    /// From 0 if that is near, in steps of 1, 2 or 5.
    fn linear(low: f64, high: f64) -> Self {
        let low = if low >= 0.0 && (low < 0.6 * high || low == high) { 0.0 } else { low };
        let span = if high > low { high - low } else { high.abs().max(1.0) };
        let step = round_step(span / 6.0);
        let (first, last) = ((low / step).floor(), ((low + span) / step - 1e-9).ceil());
        let marks = whole_numbers(first, last).map(|mark| mark * step).collect();
        Self { scale: Scale::Linear, low: first * step, high: last * step, marks }
    }

    /// Marks at powers of ten, with 2 and 5 between them where there is room.
    fn logarithmic(low: f64, high: f64) -> Self {
        let decades = (high / low).log10();
        let (first, last) = (low.log10().floor(), high.log10().ceil());
        if decades > 4.0 {
            let every = ((last - first) / 8.0).ceil();
            let (first, last) = ((first / every).floor(), (last / every).ceil());
            let marks = whole_numbers(first, last).map(|step| 10f64.powf(step * every)).collect();
            let [low, high] = [first, last].map(|step| 10f64.powf(step * every));
            return Self { scale: Scale::Logarithmic, low, high, marks };
        }
        let powers = whole_numbers(first, last).map(|power| 10f64.powf(power));
        let all: Vec<f64> = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * power)).collect();
        let from = all.iter().copied().rfind(|mark| *mark <= low * 1.0001).unwrap_or(low);
        let to = all.iter().copied().find(|mark| *mark >= high * 0.9999).unwrap_or(high);
        let marks = all.into_iter().filter(|mark| (from..=to).contains(mark)).collect();
        Self { scale: Scale::Logarithmic, low: from, high: if to > from { to } else { from * 10.0 }, marks }
    }

    /// Where a value is, from 0 at the beginning to 1 at the end; none if it cannot be shown.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let share = match self.scale {
            Scale::Linear | Scale::Hours => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        share.is_finite().then_some(share)
    }

    /// What a mark says.
    pub(super) fn label(&self, mark: f64) -> String {
        let size = mark.abs();
        if size != 0.0 && !(1e-3..1e6).contains(&size) {
            return format!("{mark:.0e}");
        }
        let mut text = format!("{mark:.4}");
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        if text == "-0" { "0".to_owned() } else { text }
    }
}

/// The least of 1, 2, 5, 10, ... times a power of ten that is not below.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= least * 0.9999);
    digit.unwrap_or(10.0) * power
}

fn whole_numbers(first: f64, last: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(first), |number| Some(number + 1.0)).take_while(move |number| *number <= last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: Axis, values: &[f64]) -> String {
        let ruler = Ruler::fit(axis, values.iter().copied());
        ruler.marks.iter().map(|mark| ruler.label(*mark)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn linear_axes_have_round_marks_and_begin_at_zero_if_that_is_near() {
        assert_eq!(labels(Axis::linear(""), &[0.05, 0.29]), "0 0.05 0.1 0.15 0.2 0.25 0.3");
        assert_eq!(labels(Axis::linear(""), &[-130.0, 400.0]), "-200 -100 0 100 200 300 400");
        assert_eq!(labels(Axis::linear(""), &[990.0, 1010.0]), "990 995 1000 1005 1010");
        assert_eq!(labels(Axis::linear(""), &[3.0]), "0 0.5 1 1.5 2 2.5 3");
        assert_eq!(labels(Axis::linear(""), &[]), "0 0.2 0.4 0.6 0.8 1");
    }

    #[test]
    fn hours_run_to_24() {
        assert_eq!(labels(Axis::hours(""), &[0.1, 23.8]), "0 3 6 9 12 15 18 21 24");
        assert_eq!(Ruler::fit(Axis::hours(""), [12.0].into_iter()).place(24.0), Some(1.0));
    }

    #[test]
    fn logarithmic_axes_have_marks_at_powers_and_between() {
        assert_eq!(labels(Axis::logarithmic(""), &[10.0, 1000.0]), "10 20 50 100 200 500 1000");
        assert_eq!(labels(Axis::logarithmic(""), &[0.03, 0.6, 0.0, -1.0]), "0.02 0.05 0.1 0.2 0.5 1");
        assert_eq!(labels(Axis::logarithmic(""), &[1e-20, 1.0]), "1e-21 1e-18 1e-15 1e-12 1e-9 1e-6 0.001 1");
    }

    #[test]
    fn values_are_placed_between_the_ends() {
        let linear = Ruler::fit(Axis::linear(""), [0.0, 10.0].into_iter());
        assert_eq!(linear.place(2.5), Some(0.25));
        let logarithmic = Ruler::fit(Axis::logarithmic(""), [1.0, 100.0].into_iter());
        assert_eq!(logarithmic.place(10.0), Some(0.5));
        assert_eq!(logarithmic.place(0.0), None);
    }
}
