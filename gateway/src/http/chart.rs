//! Charts as SVG, coloured by the style sheet.
//!
//! The drawing stretches with the page, while labels and lines of the grid are placed in percent around it and keep their
//! size. What a chart shows is beside it as data, for the script that tells values where the reader points.

use dream_protocol::time::Timestamp;
use maud::{Markup, html};

use super::chart_data::ChartData;
use super::series::{Point, Series, Within};
use super::words;
use crate::history::Step;

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

/// Draws a chart with axes: the plain sum and the filtered load, each in its band; of days only their mean load.
pub(super) fn chart(series: &Series, caption: &Caption<'_>) -> Markup {
    let ticks =
        Ticks::around(series.extent(|point| [Some(series.unfiltered(point)), point.filtered].into_iter().flatten()));
    let canvas = Canvas { series, low: ticks.low, high: ticks.high };
    let data = ChartData::new(series, ticks.low, ticks.high);
    let lines = if series.step == Some(Step::Day) { Lines::Best } else { Lines::SumAndFiltered };
    let drawing = html! {
        rect.area width="100%" height="100%" {}
        (ticks.render()) (time_axis(series)) (canvas.draw(lines)) (pointer())
    };
    html! {
        div.plot id=(caption.id) tabindex="0" role="group" aria-label="Values of the chart: left and right arrow keys" {
            (frame("chart", caption, &drawing))
            div.tip role="status" hidden {}
            (data.script())
        }
    }
}

/// Draws a small chart without axes, of the best number in its band.
pub(super) fn sparkline(series: &Series, caption: &Caption<'_>) -> Markup {
    let (low, high) = series.extent(|point| [point.best()]);
    let canvas = Canvas { series, low, high: if high > low { high } else { low + 1.0 } };
    frame("spark", caption, &canvas.draw(Lines::Best))
}

/// Describes a chart in words.
pub(super) fn described(series: &Series) -> String {
    let slots = format!("{} of {} slots gave a sum", words::count(series.decoded), words::count(series.slots));
    let loads = || series.points().map(|point| point.best().watts);
    let Some(last) = series.points().last() else { return format!("{slots}.") };
    format!(
        "{slots}. Lowest {}, highest {}, last {}, within ± {} with 95 % confidence.",
        words::watts(loads().fold(f64::INFINITY, f64::min)),
        words::watts(loads().fold(f64::NEG_INFINITY, f64::max)),
        words::watts(last.best().watts),
        words::watts(last.best().band95),
    )
}

/// Draws what the script moves to where the reader points.
fn pointer() -> Markup {
    html! {
        g.pointer hidden {
            line.cursor y1="0" y2="100%" {}
            circle.dot-load r="3.5" {}
            circle.dot-filtered r="4.5" {}
        }
    }
}

/// Which lines a chart has.
#[derive(Clone, Copy)]
enum Lines {
    SumAndFiltered,
    Best,
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
    fn draw(&self, lines: Lines) -> Markup {
        let segments = &self.series.segments;
        html! {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" {
                @for failed in &self.series.failures { (self.failure(failed.start, failed.end)) }
                @for &(start, end) in &self.series.partial { (self.failure(start, end)) }
                @match lines {
                    Lines::SumAndFiltered => {
                        @for segment in segments { (self.line("load", segment, |point| Some(self.series.unfiltered(point)))) }
                        @for segment in segments { (self.line("filtered", segment, |point| point.filtered)) }
                    }
                    Lines::Best => {
                        @for segment in segments { (self.line("best", segment, |point| Some(point.best()))) }
                    }
                }
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

    /// Draws a line in its band, through points without a gap; where there is no value, it is interrupted.
    fn line(&self, class: &str, points: &[Point], value: impl Fn(&Point) -> Option<Within>) -> Markup {
        let pieces = points.chunk_by(|a, b| value(a).is_some() == value(b).is_some());
        let pieces = pieces.filter(|piece| piece.iter().any(|point| value(point).is_some()));
        let edge = |piece: &[Point], side: f64| {
            self.places(piece, |point| value(point).map(|within| within.watts + side * within.band95))
        };
        html! {
            @for piece in pieces {
                @let (above, below) = (edge(piece, 1.0), edge(piece, -1.0).into_iter().rev());
                polygon class={ "band-" (class) } points=(above.into_iter().chain(below).collect::<Vec<_>>().join(" ")) {}
                polyline class=(class) points=(edge(piece, 0.0).join(" ")) {}
            }
        }
    }

    fn places(&self, points: &[Point], value: impl Fn(&Point) -> Option<f64>) -> Vec<String> {
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

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Between labels of the time, in seconds.
const STEPS: [u64; 21] = [
    1,
    5,
    10,
    30,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    91 * DAY,
];

/// How many labels fit.
const MOST_LABELS: u64 = 9;

/// Returns the instants that have labels: at round times, no more than fit.
fn labelled(from: u64, to: u64) -> (u64, Vec<u64>) {
    let span = to.saturating_sub(from).max(1);
    let step = STEPS
        .into_iter()
        .find(|step| span / step < MOST_LABELS)
        .unwrap_or_else(|| span.div_ceil(MOST_LABELS * DAY) * DAY);
    (step, (from.div_ceil(step)..).map(|index| index * step).take_while(|&at| at <= to).collect())
}

/// Draws labels of the time; every other one gives way where there is little room.
fn time_axis(series: &Series) -> Markup {
    let (from, to) = (series.from.as_secs(), series.to.as_secs());
    let (step, instants) = labelled(from, to);
    html! {
        @for at in instants {
            @let percent = 100.0 * (at - from) as f64 / (to - from).max(1) as f64;
            @let place = format!("{percent:.2}%");
            @let instant = Timestamp::from_secs(at);
            // Midnight tells which day begins.
            @let label = if at.is_multiple_of(DAY) { words::day(instant) } else { words::clock(instant) };
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
    use crate::history::{ClosedSlot, FilteredLoad};
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
        Series::new(&slots, Timestamp::from_secs(0)..Timestamp::from_secs(DAY), 300)
    }

    const CAPTION: Caption<'_> = Caption { id: "c", title: String::new(), description: String::new() };

    #[test]
    fn colours_are_left_to_the_style_sheet() {
        let caption = Caption { id: "c", title: "<Load>".into(), description: "Much".into() };
        let svg = chart(&day_of("interrupted"), &caption).into_string();
        for class in ["band-load", "load", "band-filtered", "filtered", "failure"] {
            assert!(svg.contains(&format!("class=\"{class}\"")), "{class} is missing in {svg}");
        }
        for foreign in ["#0000", "style=", "font-family", "<Load>", "width=\"1200\""] {
            assert!(!svg.contains(foreign), "{foreign} is left in {svg}");
        }
    }

    #[test]
    fn a_gap_ends_a_line_and_begins_another() {
        let svg = sparkline(&day_of("too_many_missing"), &CAPTION).into_string();
        assert_eq!((svg.matches("class=\"best\"").count(), svg.matches("class=\"band-best\"").count()), (2, 2));
    }

    #[test]
    fn the_filtered_load_has_a_line_and_a_band_where_there_is_one() {
        let svg = chart(&day_of("interrupted"), &CAPTION).into_string();
        let points = |class: &str| {
            let drawn = svg.split(&format!("class=\"{class}\" points=\"")).nth(1);
            drawn.and_then(|rest| rest.split('"').next()).map(|points| points.split(' ').count())
        };
        assert_eq!((points("filtered"), points("band-filtered")), (Some(144 - 72), Some(2 * (144 - 72))), "{svg}");
        assert_eq!((svg.matches("class=\"filtered\"").count(), svg.matches("class=\"load\"").count()), (1, 2));
    }

    #[test]
    fn a_chart_without_slots_has_axes_and_no_line() {
        let series = Series::new::<ClosedSlot>(&[], Timestamp::from_secs(0)..Timestamp::from_secs(DAY), 300);
        let svg = chart(&series, &CAPTION).into_string();
        assert!(svg.contains("class=\"x") && !svg.contains("class=\"load\""), "{svg}");
    }

    #[test]
    fn times_are_labelled_at_round_instants_in_any_range() {
        let clocks = |from: u64, to: u64| {
            labelled(from, to).1.into_iter().map(|at| words::clock(Timestamp::from_secs(at))).collect::<Vec<_>>()
        };
        assert_eq!(
            clocks(3607, 3607 + 40),
            ["01:00:10", "01:00:15", "01:00:20", "01:00:25", "01:00:30", "01:00:35", "01:00:40", "01:00:45"]
        );
        assert_eq!(clocks(3600 + 240, 2 * 3600 + 240), ["01:10", "01:20", "01:30", "01:40", "01:50", "02:00"]);
        assert_eq!(
            clocks(HOUR / 2, DAY + HOUR / 2),
            ["03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "00:00"]
        );
        for days in [1, 7, 31, 400, 4000, 40_000] {
            assert!((3..=9).contains(&labelled(12_345, 12_345 + days * DAY).1.len()), "{days} days");
        }
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
