//! Charts as SVG, coloured by the style sheet.
//!
//! The drawing stretches with the page, while labels and lines of the grid are placed in percent around it and keep their
//! size.

use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::series::{Point, Series};
use super::words;

/// The size of the drawing before it is stretched: only its resolution.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 480.0;

/// A chart's name and what it shows, in words.
pub(super) struct Caption<'a> {
    /// Unique within the page.
    pub(super) id: &'a str,
    pub(super) title: String,
    pub(super) description: String,
}

/// Draws a chart with axes, where the estimate and the filtered load have lines of their own.
pub(super) fn chart(series: &Series, caption: &Caption<'_>) -> Markup {
    let ticks = Ticks::around(series.extent());
    let canvas = Canvas { series, low: ticks.low, high: ticks.high };
    frame("chart", caption, &html! { (ticks.render()) (time_axis(series)) (canvas.draw(true)) })
}

/// Draws a small chart without axes.
pub(super) fn sparkline(series: &Series, caption: &Caption<'_>) -> Markup {
    let (low, high) = series.extent();
    let canvas = Canvas { series, low, high: if high > low { high } else { low + 1.0 } };
    frame("spark", caption, &canvas.draw(false))
}

fn frame(class: &str, caption: &Caption<'_>, content: &Markup) -> Markup {
    let (title, text) = (format!("{}-title", caption.id), format!("{}-text", caption.id));
    html! {
        svg class=(class) role="img" aria-labelledby=(title) aria-describedby=(text) {
            title id=(title) { (caption.title) }
            desc id=(text) { (caption.description) }
            (content)
        }
    }
}

/// Where times and loads are in the drawing.
struct Canvas<'a> {
    series: &'a Series,
    low: f64,
    high: f64,
}

impl Canvas<'_> {
    fn draw(&self, every_line: bool) -> Markup {
        html! {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" {
                @for &(start, end) in &self.series.failures { (self.failure(start, end)) }
                @for segment in &self.series.segments { (self.segment(segment, every_line)) }
            }
        }
    }

    /// Draws a mark at the foot of the chart.
    fn failure(&self, start: Timestamp, end: Timestamp) -> Markup {
        let (from, height) = (self.x(seconds(start.max(self.series.from))), HEIGHT / 30.0);
        let width = (self.x(seconds(end)) - from).max(0.0);
        html! {
            rect.failure x=(rounded(from)) y=(rounded(HEIGHT - height)) width=(rounded(width)) height=(rounded(height)) {}
        }
    }

    /// Slots without a gap: the band, the sum, and if asked for the estimate and the filtered load.
    fn segment(&self, segment: &[Point], every_line: bool) -> Markup {
        let mut band = self.line(segment, |point| Some(point.load + point.band));
        band.extend(self.line(segment, |point| Some(point.load - point.band)).into_iter().rev());
        html! {
            polygon.band points=(band.join(" ")) {}
            polyline.load points=(self.line(segment, |point| Some(point.load)).join(" ")) {}
            @if every_line {
                polyline.estimate points=(self.line(segment, |point| Some(point.estimate)).join(" ")) {}
                @for piece in segment.chunk_by(|a, b| a.filtered.is_some() == b.filtered.is_some()) {
                    @let filtered = self.line(piece, |point| point.filtered);
                    @if !filtered.is_empty() { polyline.filtered points=(filtered.join(" ")) {} }
                }
            }
        }
    }

    fn line(&self, points: &[Point], value: impl Fn(&Point) -> Option<f64>) -> Vec<String> {
        let place =
            |at: f64, point: &Point| Some(format!("{},{}", rounded(self.x(at)), rounded(self.y(value(point)?))));
        match points {
            // A line needs two points: a slot on its own is drawn from its start to its end.
            [point] => [point.start, point.end].into_iter().filter_map(|at| place(seconds(at), point)).collect(),
            points => points.iter().filter_map(|point| place(middle(point), point)).collect(),
        }
    }

    fn x(&self, at: f64) -> f64 {
        let (from, to) = (seconds(self.series.from), seconds(self.series.to));
        WIDTH * (at - from) / (to - from).max(1.0)
    }

    fn y(&self, watts: f64) -> f64 {
        HEIGHT * (self.high - watts) / (self.high - self.low)
    }
}

/// Rounds to a tenth of a unit, which is finer than any screen.
fn rounded(place: f64) -> f64 {
    (10.0 * place).round() / 10.0
}

fn seconds(at: Timestamp) -> f64 {
    at.as_millis() as f64 / 1000.0
}

fn middle(point: &Point) -> f64 {
    f64::midpoint(seconds(point.start), seconds(point.end))
}

/// Round values along the vertical axis, in watts.
#[derive(Debug, PartialEq)]
struct Ticks {
    low: f64,
    high: f64,
    values: Vec<f64>,
}

impl Ticks {
    /// Four to nine of them, with the axis reaching from the first to the last.
    fn around((low, high): (f64, f64)) -> Self {
        let span = if high > low { high - low } else { 1000.0 };
        let magnitude = 10f64.powf((span / 4.0).log10().floor()).max(1.0);
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * magnitude);
        let step = steps.into_iter().find(|step| span / step <= 6.0).unwrap_or(10.0 * magnitude);
        let first = (low / step).floor() * step;
        let last = ((high / step).ceil() * step).max(first + step);
        let mut values = vec![first];
        while values.last().is_some_and(|value| value + step / 2.0 < last) {
            values.push(first + step * values.len() as f64);
        }
        Self { low: first, high: last, values }
    }

    fn render(&self) -> Markup {
        html! {
            @for &value in &self.values {
                @let at = format!("{:.2}%", 100.0 * (self.high - value) / (self.high - self.low));
                line class={ "grid" @if value == 0.0 { " zero" } } x1="0" x2="100%" y1=(at) y2=(at) {}
                text.y x="-8" y=(at) dy="0.32em" { (words::axis_watts(value, self.low.abs().max(self.high))) }
            }
        }
    }
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Draws labels at whole hours or days; every other one gives way where there is little room.
fn time_axis(series: &Series) -> Markup {
    let (from, to) = (series.from.as_secs(), series.to.as_secs());
    let span = to.saturating_sub(from).max(1);
    let step = match span {
        0..=28_800 => HOUR,
        28_801..=172_800 => 3 * HOUR,
        _ => DAY,
    };
    let instants = (from.div_ceil(step)..).map(|index| index * step).take_while(|&at| at <= to);
    html! {
        @for at in instants {
            @let percent = 100.0 * (at - from) as f64 / span as f64;
            @let place = format!("{percent:.2}%");
            @let label = if step == DAY { words::day(Timestamp::from_secs(at)) } else { words::clock(Timestamp::from_secs(at)) };
            line.tick x1=(place) x2=(place) y1="0" y2="100%" {}
            text class={ "x" @if !(at / step).is_multiple_of(2) { " other" } (edge(percent)) } x=(place) y="100%" dy="1.5em" {
                (label)
            }
        }
    }
}

/// Returns the class of a label at an end of the axis: it is written towards the middle, or it would be cut off.
fn edge(percent: f64) -> &'static str {
    match percent {
        percent if percent > 97.0 => " end",
        percent if percent < 3.0 => " start",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{ClosedSlot, FilteredLoad};
    use dream_testkit::outcomes::Slotted;

    fn day_of(word: &str) -> Series {
        let slots: Vec<_> = (0..144)
            .map(|slot| match slot {
                50..60 => ClosedSlot::from(Slotted::new(slot).failed(word, 3)),
                // The filter came with a new version at noon.
                _ => {
                    let filtered = (slot >= 72).then_some(FilteredLoad { watts: 45_000, band95: 9000 });
                    let decoded = Slotted::new(slot).decoded(40_000 + 100 * slot.cast_signed(), 95);
                    ClosedSlot { filtered, ..ClosedSlot::from(decoded) }
                }
            })
            .collect();
        Series::new(&slots, Timestamp::from_secs(0), Timestamp::from_secs(DAY), 300)
    }

    #[test]
    fn colours_are_left_to_the_style_sheet() {
        let caption = Caption { id: "c", title: "<Load>".into(), description: "Much".into() };
        let svg = chart(&day_of("interrupted"), &caption).into_string();
        for class in ["band", "load", "estimate", "filtered", "failure"] {
            assert!(svg.contains(&format!("class=\"{class}\"")), "{class} is missing in {svg}");
        }
        for foreign in ["#0000", "style=", "font-family", "<Load>", "width=\"1200\""] {
            assert!(!svg.contains(foreign), "{foreign} is left in {svg}");
        }
    }

    #[test]
    fn a_gap_ends_a_line_and_begins_another() {
        let caption = Caption { id: "c", title: "Load".into(), description: "Much".into() };
        let svg = sparkline(&day_of("too_many_missing"), &caption).into_string();
        assert_eq!((svg.matches("class=\"load\"").count(), svg.matches("class=\"band\"").count()), (2, 2));
    }

    #[test]
    fn the_filtered_load_has_a_line_where_there_is_one() {
        let caption = Caption { id: "c", title: "Load".into(), description: "Much".into() };
        let series = day_of("interrupted");
        let svg = chart(&series, &caption).into_string();
        let points = svg.split("<polyline class=\"filtered\" points=\"").nth(1).map(|rest| rest.split('"').next());
        assert_eq!(points.flatten().map(|points| points.split(' ').count()), Some(144 - 72), "{svg}");
        assert_eq!(svg.matches("class=\"filtered\"").count(), 1);
        assert!(!sparkline(&series, &caption).into_string().contains("filtered"));
    }

    #[test]
    fn a_chart_without_slots_has_axes_and_no_line() {
        let series = Series::new(&[], Timestamp::from_secs(0), Timestamp::from_secs(DAY), 300);
        let caption = Caption { id: "c", title: "Load".into(), description: "None".into() };
        let svg = chart(&series, &caption).into_string();
        assert!(svg.contains("class=\"x\"") && !svg.contains("class=\"load\""), "{svg}");
    }

    #[test]
    fn ticks_are_round_and_hold_the_extent() {
        let ticks = |low, high| Ticks::around((low, high)).values;
        assert_eq!(ticks(0.0, 93_000.0), [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0, 100_000.0]);
        assert_eq!(ticks(-11.0, 15.0), [-15.0, -10.0, -5.0, 0.0, 5.0, 10.0, 15.0]);
        assert_eq!(ticks(0.0, 0.0).first(), Some(&0.0));
        assert!(ticks(0.0, 1e12).len() < 8);
    }
}
