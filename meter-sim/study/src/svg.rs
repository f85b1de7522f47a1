//! Figures as SVG: plain elements, the viewer's own sans-serif font, and no scripts.

use std::fmt::Write as _;

use super::axis::Ruler;
use super::section::{Axis, Figure, Series, Stroke};

const WIDTH: f64 = 1040.0;
const HEIGHT: f64 = 520.0;
/// The margins around the curves, for labels and the legend.
const LEFT: f64 = 86.0;
const TOP: f64 = 16.0;
const RIGHT: f64 = 316.0;
const BOTTOM: f64 = 60.0;
/// How many letters of a label fit into the legend.
const LABEL: usize = 34;

/// Colours that differ for colour-blind readers too, after Okabe and Ito.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333", "#999999"];
const GRID: &str = "#e2e2e2";

type Point = (f64, f64);

impl Figure {
    /// Draws the figure.
    pub(super) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let x = Ruler::fit(self.x, points().map(|point| point.0));
        let y = Ruler::fit(self.y, points().map(|point| point.1));
        let mut drawing = Drawing { svg: String::new(), x, y };
        drawing.open(&self.title);
        drawing.axes(self.x, self.y);
        for ((number, series), colour) in self.series.iter().enumerate().zip(COLOURS.iter().cycle()) {
            drawing.series(series, colour);
            drawing.legend(number, series, colour);
        }
        drawing.add("</svg>");
        drawing.svg
    }
}

struct Drawing {
    svg: String,
    x: Ruler,
    y: Ruler,
}

impl Drawing {
    fn add(&mut self, element: &str) {
        self.svg.push_str(element);
        self.svg.push('\n');
    }

    fn open(&mut self, title: &str) {
        self.add(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" role=\"img\" font-family=\"sans-serif\" font-size=\"15\">"
        ));
        self.add(&format!("<title>{}</title>", escaped(title)));
        self.add(&format!("<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>"));
    }

    fn axes(&mut self, x: Axis, y: Axis) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for mark in self.x.marks.clone() {
            let Some(at) = self.x.place(mark).map(column) else { continue };
            self.line(&[(at, TOP), (at, bottom)], &format!("stroke=\"{GRID}\""));
            self.text(&self.x.label(mark), (at, bottom + 21.0), "text-anchor=\"middle\"");
        }
        for mark in self.y.marks.clone() {
            let Some(at) = self.y.place(mark).map(row) else { continue };
            self.line(&[(LEFT, at), (right, at)], &format!("stroke=\"{GRID}\""));
            self.text(&self.y.label(mark), (LEFT - 8.0, at + 5.0), "text-anchor=\"end\"");
        }
        self.line(&[(LEFT, TOP), (LEFT, bottom), (right, bottom)], "stroke=\"#000000\"");
        self.text(x.label, (f64::midpoint(LEFT, right), HEIGHT - 12.0), "text-anchor=\"middle\"");
        let (left, middle) = (18.0, f64::midpoint(TOP, bottom));
        let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 {left} {middle})\"");
        self.text(y.label, (left, middle), &turned);
    }

    /// Draws a curve. A point that the axes cannot show interrupts it.
    fn series(&mut self, series: &Series, colour: &str) {
        let place = |&(x, y): &Point| Some((column(self.x.place(x)?), row(self.y.place(y)?)));
        let places: Vec<Option<Point>> = series.points.iter().map(place).collect();
        for run in places.split(Option::is_none) {
            let run: Vec<Point> = run.iter().flatten().copied().collect();
            self.stroke(&run, series.stroke, colour);
        }
    }

    fn stroke(&mut self, points: &[Point], stroke: Stroke, colour: &str) {
        let dashes = if stroke == Stroke::Dashed { " stroke-dasharray=\"8 5\"" } else { "" };
        match (stroke, points) {
            (_, []) => {}
            (Stroke::Dots, _) | (_, [_]) => {
                for (x, y) in points {
                    self.add(&format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>"));
                }
            }
            (Stroke::Solid | Stroke::Dashed, _) => {
                self.line(points, &format!("stroke=\"{colour}\" stroke-width=\"2\"{dashes}"));
            }
        }
    }

    fn legend(&mut self, number: usize, series: &Series, colour: &str) {
        debug_assert!(series.label.chars().count() <= LABEL, "the legend has no room for `{}`", series.label);
        let left = WIDTH - RIGHT + 16.0;
        let at = TOP + 12.0 + 22.0 * number as f64;
        let sample: &[Point] =
            if series.stroke == Stroke::Dots { &[(left + 14.0, at)] } else { &[(left, at), (left + 28.0, at)] };
        self.stroke(sample, series.stroke, colour);
        self.text(&series.label, (left + 36.0, at + 5.0), "");
    }

    fn line(&mut self, points: &[Point], style: &str) {
        let mut places = String::new();
        for (number, (x, y)) in points.iter().enumerate() {
            let space = if number == 0 { "" } else { " " };
            write!(places, "{space}{x:.1},{y:.1}").expect("writing to a string does not fail");
        }
        self.add(&format!("<polyline points=\"{places}\" fill=\"none\" {style}/>"));
    }

    fn text(&mut self, text: &str, (x, y): Point, style: &str) {
        self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escaped(text)));
    }
}

/// Returns the horizontal place of a value that is so far along its axis, from 0 to 1.
fn column(share: f64) -> f64 {
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

/// Returns the vertical place of a value that is so far along its axis, from 0 to 1.
fn row(share: f64) -> f64 {
    HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let series = |label: &str, stroke| Series {
            label: label.to_owned(),
            points: (1..=50).map(|x| (f64::from(x), 1.0 / f64::from(x))).collect(),
            stroke,
        };
        Figure {
            name: "example",
            title: "An <example>".to_owned(),
            x: Axis::logarithmic("homes"),
            y: Axis::linear("error <mean>"),
            series: vec![
                series("a < b", Stroke::Solid),
                series("dashed", Stroke::Dashed),
                series("dots", Stroke::Dots),
            ],
        }
    }

    #[test]
    fn a_drawing_names_its_title_its_axes_and_its_curves() {
        let svg = figure().svg();
        for text in ["An &lt;example&gt;", "homes", "error &lt;mean&gt;", "a &lt; b", "dashed", "dots"] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<circle").count(), 51, "fifty points and the legend's");
        assert_eq!(svg.matches("stroke-dasharray").count(), 2, "a curve and the legend's");
    }

    #[test]
    fn what_a_logarithmic_axis_cannot_show_interrupts_the_line() {
        let points = vec![(1.0, 1.0), (2.0, 2.0), (3.0, 0.0), (4.0, 4.0), (5.0, 5.0)];
        let figure = Figure {
            y: Axis::logarithmic(""),
            series: vec![Series { label: String::new(), points, stroke: Stroke::Solid }],
            ..figure()
        };
        let lines = figure.svg().lines().filter(|line| line.contains(COLOURS[0])).count();
        assert_eq!(lines, 3, "two lines and the legend's");
    }
}
