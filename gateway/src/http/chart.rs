//! Charts as SVG, drawn by plotters and coloured by the style sheet.
//!
//! Plotters draws the data in marker colours, which are replaced by classes afterwards. The drawing stretches with the
//! page, while labels and lines of the grid are placed in percent around it and keep their size.

use std::fmt::Write;

use dream_protocol::time::Timestamp;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, IntoDrawingArea, PathElement, Polygon, RGBColor, Rectangle, SVGBackend,
};
use plotters::style::Color;

use super::html::{Html, html};
use super::series::{Point, Series};
use super::words;

/// The size of the drawing before it is stretched: only its resolution.
const SIZE: (u32, u32) = (1200, 480);

/// Marker colours and the classes that replace them.
const BAND: (RGBColor, &str) = (RGBColor(0, 0, 0xA1), "band");
const LOAD: (RGBColor, &str) = (RGBColor(0, 0, 0xA2), "load");
const ESTIMATE: (RGBColor, &str) = (RGBColor(0, 0, 0xA3), "estimate");
const FILTERED: (RGBColor, &str) = (RGBColor(0, 0, 0xA5), "filtered");
const FAILURE: (RGBColor, &str) = (RGBColor(0, 0, 0xA4), "failure");

/// A chart's name and what it shows, in words.
pub(super) struct Caption<'a> {
    /// Unique within the page.
    pub(super) id: &'a str,
    pub(super) title: String,
    pub(super) description: String,
}

/// A chart with axes, where the estimate and the filtered load have lines of their own.
pub(super) fn chart(series: &Series, caption: &Caption<'_>) -> Html {
    let ticks = Ticks::around(series.extent());
    let data = draw(series, (ticks.low, ticks.high), true);
    frame("chart", caption, &[ticks.render(), time_axis(series), data])
}

/// A small chart without axes.
pub(super) fn sparkline(series: &Series, caption: &Caption<'_>) -> Html {
    let (low, high) = series.extent();
    let data = draw(series, (low, if high > low { high } else { low + 1.0 }), false);
    frame("spark", caption, &[data])
}

fn frame(class: &'static str, caption: &Caption<'_>, layers: &[Html]) -> Html {
    let layers: Html = layers.iter().cloned().collect();
    html(
        "<svg class=\"{}\" role=\"img\" aria-labelledby=\"{}-title\" aria-describedby=\"{}-text\">\
         <title id=\"{}-title\">{}</title><desc id=\"{}-text\">{}</desc>{}</svg>",
        &[&class, &caption.id, &caption.id, &caption.id, &caption.title, &caption.id, &caption.description, &layers],
    )
}

type Canvas<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn draw(series: &Series, (low, high): (f64, f64), every_line: bool) -> Html {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let range = seconds(series.from)..seconds(series.to);
        let mut canvas =
            ChartBuilder::on(&area).build_cartesian_2d(range, low..high).expect("a String takes everything");
        draw_failures(&mut canvas, series, low, high);
        for segment in &series.segments {
            draw_segment(&mut canvas, segment, every_line);
        }
        area.present().expect("a String takes everything");
    }
    Html::trusted(classified(&svg))
}

fn draw_segment(canvas: &mut Canvas<'_, '_>, segment: &[Point], every_line: bool) {
    let whole = |value: fn(&Point) -> f64| line(segment, |point| Some(value(point)));
    let mut outline = whole(|point| point.load + point.band);
    outline.extend(whole(|point| point.load - point.band).into_iter().rev());
    canvas.draw_series([Polygon::new(outline, BAND.0.filled())]).expect("a String takes everything");
    let mut lines = vec![(whole(|point| point.load), LOAD.0)];
    if every_line {
        lines.push((whole(|point| point.estimate), ESTIMATE.0));
        let pieces = segment.chunk_by(|a, b| a.filtered.is_some() == b.filtered.is_some());
        lines.extend(pieces.map(|piece| (line(piece, |point| point.filtered), FILTERED.0)));
    }
    let lines = lines.into_iter().filter(|(line, _)| !line.is_empty());
    canvas.draw_series(lines.map(|(line, colour)| PathElement::new(line, colour))).expect("a String takes everything");
}

fn line(points: &[Point], value: impl Fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
    match points {
        // A line needs two points: a slot on its own is drawn from its start to its end.
        [point] => [point.start, point.end].into_iter().filter_map(|at| Some((seconds(at), value(point)?))).collect(),
        points => points.iter().filter_map(|point| Some((middle(point), value(point)?))).collect(),
    }
}

/// Marks at the foot of the chart.
fn draw_failures(canvas: &mut Canvas<'_, '_>, series: &Series, low: f64, high: f64) {
    let top = low + (high - low) / 30.0;
    let marks = series.failures.iter().map(|&(start, end)| {
        let start = seconds(start.max(series.from));
        Rectangle::new([(start, top), (seconds(end).max(start), low)], FAILURE.0.filled())
    });
    canvas.draw_series(marks).expect("a String takes everything");
}

fn seconds(at: Timestamp) -> f64 {
    at.as_millis() as f64 / 1000.0
}

fn middle(point: &Point) -> f64 {
    f64::midpoint(seconds(point.start), seconds(point.end))
}

/// Replaces colours by classes and the fixed size by one that stretches.
fn classified(svg: &str) -> String {
    let (width, height) = SIZE;
    let fixed = format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\">"
    );
    let stretched = format!("<svg viewBox=\"0 0 {width} {height}\" preserveAspectRatio=\"none\">");
    let mut svg = svg.replace(&fixed, &stretched).replace('\n', "").replace(" \"", "\"");
    for (RGBColor(red, green, blue), class) in [BAND, LOAD, ESTIMATE, FILTERED, FAILURE] {
        let colour = format!("#{red:02X}{green:02X}{blue:02X}");
        let class = format!("class=\"{class}\"");
        svg = svg
            .replace(&format!("opacity=\"1\" fill=\"{colour}\" stroke=\"none\""), &class)
            .replace(&format!("fill=\"none\" opacity=\"1\" stroke=\"{colour}\" stroke-width=\"1\""), &class)
            .replace(&format!("opacity=\"1\" fill=\"{colour}\""), &class);
    }
    svg
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

    fn render(&self) -> Html {
        let mut markup = String::new();
        for &value in &self.values {
            let at = 100.0 * (self.high - value) / (self.high - self.low);
            let class = if value == 0.0 { "grid zero" } else { "grid" };
            let label = words::axis_watts(value, self.low.abs().max(self.high));
            write!(
                markup,
                "<line class=\"{class}\" x1=\"0\" x2=\"100%\" y1=\"{at:.2}%\" y2=\"{at:.2}%\"/>\
                 <text class=\"y\" x=\"-8\" y=\"{at:.2}%\" dy=\"0.32em\">{label}</text>"
            )
            .expect("a String takes everything");
        }
        Html::trusted(markup)
    }
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Labels at whole hours or days; every other one gives way where there is little room.
fn time_axis(series: &Series) -> Html {
    let (from, to) = (series.from.as_secs(), series.to.as_secs());
    let span = to.saturating_sub(from).max(1);
    let step = match span {
        0..=28_800 => HOUR,
        28_801..=172_800 => 3 * HOUR,
        _ => DAY,
    };
    let instants = (from.div_ceil(step)..).map(|index| index * step).take_while(|&at| at <= to);
    let labels = instants.map(|at| {
        let percent = 100.0 * (at - from) as f64 / span as f64;
        let label =
            if step == DAY { words::day(Timestamp::from_secs(at)) } else { words::clock(Timestamp::from_secs(at)) };
        let class = if (at / step).is_multiple_of(2) { "x" } else { "x other" };
        // A label at the very end would be cut off.
        let anchor = if percent > 97.0 {
            " end"
        } else if percent < 3.0 {
            " start"
        } else {
            ""
        };
        format!(
            "<line class=\"tick\" x1=\"{percent:.2}%\" x2=\"{percent:.2}%\" y1=\"0\" y2=\"100%\"/>\
             <text class=\"{class}{anchor}\" x=\"{percent:.2}%\" y=\"100%\" dy=\"1.5em\">{label}</text>"
        )
    });
    Html::trusted(labels.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{ClosedSlot, FilteredLoad};
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
