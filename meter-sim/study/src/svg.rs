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
        let mut markers = Marker::ALL.iter().cycle();
        for ((number, series), colour) in self.series.iter().enumerate().zip(COLOURS.iter().cycle()) {
            let marker = match series.stroke {
                Stroke::Dots => *markers.next().expect("they start over"),
                Stroke::Solid | Stroke::Dashed | Stroke::Band => Marker::Circle,
            };
            let pen = Pen { stroke: series.stroke, colour, marker };
            drawing.series(series, pen);
            drawing.legend(number, series, pen);
        }
        drawing.add("</svg>");
        drawing.svg
    }
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy)]
struct Pen<'a> {
    stroke: Stroke,
    colour: &'a str,
    marker: Marker,
}

/// What a point looks like: outlines only, which do not hide each other where they are at the same place.
#[derive(Debug, Clone, Copy)]
enum Marker {
    Circle,
    Cross,
    Square,
    Plus,
}

impl Marker {
    const ALL: [Self; 4] = [Self::Circle, Self::Cross, Self::Square, Self::Plus];

    fn path(self, (x, y): Point) -> String {
        match self {
            Self::Circle => {
                format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", x - 4.0)
            }
            Self::Cross => format!("M{:.1} {:.1}l8 8m0 -8l-8 8", x - 4.0, y - 4.0),
            Self::Square => format!("M{:.1} {:.1}h12v12h-12z", x - 6.0, y - 6.0),
            Self::Plus => format!("M{:.1} {y:.1}h16m-8 -8v16", x - 8.0),
        }
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
    fn series(&mut self, series: &Series, pen: Pen<'_>) {
        let place = |&(x, y): &Point| Some((column(self.x.place(x)?), row(self.y.place(y)?)));
        let places: Vec<Option<Point>> = series.points.iter().map(place).collect();
        for run in places.split(Option::is_none) {
            let run: Vec<Point> = run.iter().flatten().copied().collect();
            self.stroke(&run, pen);
        }
    }

    fn stroke(&mut self, points: &[Point], Pen { stroke, colour, marker }: Pen<'_>) {
        let dashes = if stroke == Stroke::Dashed { " stroke-dasharray=\"8 5\"" } else { "" };
        match (stroke, points) {
            (_, []) => {}
            (Stroke::Band, _) => {
                let places = places(points);
                self.add(&format!("<polygon points=\"{places}\" fill=\"{colour}\" fill-opacity=\"0.2\"/>"));
            }
            (Stroke::Dots, _) | (_, [_]) => {
                for point in points {
                    let path = marker.path(*point);
                    self.add(&format!(
                        "<path class=\"point\" d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
                    ));
                }
            }
            (Stroke::Solid | Stroke::Dashed, _) => {
                self.line(points, &format!("stroke=\"{colour}\" stroke-width=\"2\"{dashes}"));
            }
        }
    }

    fn legend(&mut self, number: usize, series: &Series, pen: Pen<'_>) {
        debug_assert!(series.label.chars().count() <= LABEL, "the legend has no room for `{}`", series.label);
        let left = WIDTH - RIGHT + 16.0;
        let at = TOP + 12.0 + 22.0 * number as f64;
        let sample: &[Point] = match series.stroke {
            Stroke::Dots => &[(left + 14.0, at)],
            Stroke::Solid | Stroke::Dashed => &[(left, at), (left + 28.0, at)],
            Stroke::Band => &[(left, at - 7.0), (left + 28.0, at - 7.0), (left + 28.0, at + 7.0), (left, at + 7.0)],
        };
        self.stroke(sample, pen);
        self.text(&series.label, (left + 36.0, at + 5.0), "");
    }

    fn line(&mut self, points: &[Point], style: &str) {
        let places = places(points);
        self.add(&format!("<polyline points=\"{places}\" fill=\"none\" {style}/>"));
    }

    fn text(&mut self, text: &str, (x, y): Point, style: &str) {
        self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escaped(text)));
    }
}

fn places(points: &[Point]) -> String {
    let mut places = String::new();
    for (number, (x, y)) in points.iter().enumerate() {
        let space = if number == 0 { "" } else { " " };
        write!(places, "{space}{x:.1},{y:.1}").expect("writing to a string does not fail");
    }
    places
}

/// Returns the horizontal place of a value that is so far along its axis, from 0 to 1.
fn column(share: f64) -> f64 {
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

/// Returns the vertical place of a value that is so far along its axis, from 0 to 1.
fn row(share: f64) -> f64 {
    HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let series = |(label, stroke): (&str, Stroke)| {
            stroke.through(label, (1..=50).map(|x| (f64::from(x), 1.0 / f64::from(x))))
        };
        let series = [("a < b", Stroke::Solid), ("dashed", Stroke::Dashed), ("dots", Stroke::Dots)].map(series);
        Figure::new("example", "An <example>", (Axis::logarithmic("homes"), Axis::linear("error <mean>")), series)
    }

    #[test]
    fn a_drawing_names_its_title_its_axes_and_its_curves() {
        let svg = figure().svg();
        for text in ["An &lt;example&gt;", "homes", "error &lt;mean&gt;", "a &lt; b", "dashed", "dots"] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("class=\"point\"").count(), 51, "fifty points and the legend's");
        assert_eq!(svg.matches("stroke-dasharray").count(), 2, "a curve and the legend's");
    }

    #[test]
    fn a_band_is_filled_and_points_at_one_place_have_other_shapes() {
        let points = vec![(1.0, 2.0), (2.0, 3.0), (2.0, 1.0), (1.0, 0.5)];
        let all = [Stroke::Band, Stroke::Dots, Stroke::Dots].map(|stroke| stroke.through("", points.clone()));
        let svg = Figure { series: all.into(), ..figure() }.svg();
        let band = svg.lines().find(|line| line.starts_with("<polygon")).unwrap();
        assert!(band.contains("fill-opacity") && band.matches(',').count() == 4, "{band}");
        let shapes: Vec<&str> = svg.lines().filter(|line| line.contains("class=\"point\"")).collect();
        assert!(shapes[0].contains("a4 4") && shapes[5].contains("l8 8"), "{shapes:?}");
        assert!(shapes.iter().all(|shape| shape.contains("fill=\"none\"")));
    }

    #[test]
    fn what_a_logarithmic_axis_cannot_show_interrupts_the_line() {
        let points = vec![(1.0, 1.0), (2.0, 2.0), (3.0, 0.0), (4.0, 4.0), (5.0, 5.0)];
        let series = vec![Stroke::Solid.through("", points)];
        let figure = Figure { y: Axis::logarithmic(""), series, ..figure() };
        let lines = figure.svg().lines().filter(|line| line.contains(COLOURS[0])).count();
        assert_eq!(lines, 3, "two lines and the legend's");
    }
}
