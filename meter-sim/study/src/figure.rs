//! Figures drawn, as SVG for pages and as PNG for slides.

use std::sync::LazyLock;

use plotters::coord::Shift;
use plotters::prelude::{
    BLACK, BitMapBackend, Circle, Color, DrawingArea, DrawingBackend, FontStyle, FontTransform, IntoDrawingArea,
    IntoFont, IntoTextStyle, PathElement, RGBColor, SVGBackend, Text, TextStyle, WHITE,
};
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Ruler;
use super::section::{Axis, Figure, Series, Stroke};

const WIDTH: i32 = 1040;
const HEIGHT: i32 = 520;
/// What is left, above, right of and below the curves: for labels and the legend.
const LEFT: i32 = 86;
const TOP: i32 = 16;
const RIGHT: i32 = 316;
const BOTTOM: i32 = 60;
/// So many letters of a label fit into the legend.
const LABEL: usize = 34;
const SMALL: i32 = 15;
const FONT: &str = "sans-serif";

/// Colours that differ for colour-blind readers too, after Okabe and Ito.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x33, 0x33, 0x33),
    RGBColor(0x99, 0x99, 0x99),
];
const GRID: RGBColor = RGBColor(0xE2, 0xE2, 0xE2);

impl Figure {
    pub(super) fn svg(&self) -> String {
        let mut svg = String::new();
        self.draw(
            &SVGBackend::with_string(&mut svg, (WIDTH.unsigned_abs(), HEIGHT.unsigned_abs())).into_drawing_area(),
        );
        svg
    }

    pub(super) fn png(&self) -> Vec<u8> {
        let size = (WIDTH.unsigned_abs(), HEIGHT.unsigned_abs());
        let mut pixels = vec![0; 3 * size.0 as usize * size.1 as usize];
        self.draw(&BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area());
        let mut png = Vec::new();
        let mut encoder = png::Encoder::new(&mut png, size.0, size.1);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().expect("a Vec takes everything");
        writer.write_image_data(&pixels).expect("as many pixels as announced");
        writer.finish().expect("a Vec takes everything");
        png
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) {
        let all = || self.series.iter().flat_map(|series| series.points.iter());
        let canvas = Canvas {
            area,
            x: Ruler::fit(self.x, all().map(|point| point.0)),
            y: Ruler::fit(self.y, all().map(|point| point.1)),
        };
        done(area.fill(&WHITE));
        canvas.axes(self.x, self.y);
        for (number, series) in self.series.iter().enumerate() {
            canvas.series(series, COLOURS[number % COLOURS.len()]);
            canvas.legend(number, series, COLOURS[number % COLOURS.len()]);
        }
        done(area.present());
    }
}

struct Canvas<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    x: Ruler,
    y: Ruler,
}

impl<B: DrawingBackend> Canvas<'_, B> {
    fn axes(&self, x: Axis, y: Axis) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for &mark in &self.x.marks {
            let Some(at) = self.x.place(mark).map(column) else { continue };
            self.line(&[(at, TOP), (at, bottom)], GRID, 1);
            self.text(&self.x.label(mark), (at, bottom + 8), HPos::Center, VPos::Top);
        }
        for &mark in &self.y.marks {
            let Some(at) = self.y.place(mark).map(row) else { continue };
            self.line(&[(LEFT, at), (right, at)], GRID, 1);
            self.text(&self.y.label(mark), (LEFT - 8, at), HPos::Right, VPos::Center);
        }
        self.line(&[(LEFT, TOP), (LEFT, bottom), (right, bottom)], BLACK, 1);
        self.text(x.label, (i32::midpoint(LEFT, right), HEIGHT - 8), HPos::Center, VPos::Bottom);
        let turned = font().transform(FontTransform::Rotate270).into_text_style(self.area).color(&BLACK);
        let turned = turned.pos(Pos::new(HPos::Center, VPos::Top));
        done(self.area.draw(&Text::new(y.label, (6, i32::midpoint(TOP, bottom)), turned)));
    }

    fn series(&self, series: &Series, colour: RGBColor) {
        let place = |&(x, y): &(f64, f64)| Some((column(self.x.place(x)?), row(self.y.place(y)?)));
        // A point that the axes cannot show interrupts the line.
        let places: Vec<Option<(i32, i32)>> = series.points.iter().map(place).collect();
        for run in places.split(Option::is_none) {
            let run: Vec<(i32, i32)> = run.iter().flatten().copied().collect();
            self.stroke(&run, series.stroke, colour);
        }
    }

    fn stroke(&self, points: &[(i32, i32)], stroke: Stroke, colour: RGBColor) {
        match (stroke, points) {
            (_, []) => {}
            (Stroke::Dots, _) | (_, [_]) => {
                points.iter().for_each(|&point| done(self.area.draw(&Circle::new(point, 4, colour.filled()))));
            }
            (Stroke::Solid, _) => self.line(points, colour, 2),
            (Stroke::Dashed, _) => dashes(points).iter().for_each(|dash| self.line(dash, colour, 2)),
        }
    }

    fn legend(&self, number: usize, series: &Series, colour: RGBColor) {
        debug_assert!(series.label.chars().count() <= LABEL, "the legend cuts `{}`", series.label);
        let left = WIDTH - RIGHT + 16;
        let at = TOP + 12 + 22 * i32::try_from(number).expect("few series");
        let sample =
            if series.stroke == Stroke::Dots { vec![(left + 14, at)] } else { vec![(left, at), (left + 28, at)] };
        self.stroke(&sample, series.stroke, colour);
        self.text(&series.label, (left + 36, at), HPos::Left, VPos::Center);
    }

    fn line(&self, points: &[(i32, i32)], colour: RGBColor, width: u32) {
        done(self.area.draw(&PathElement::new(points.to_vec(), colour.stroke_width(width))));
    }

    fn text(&self, text: &str, at: (i32, i32), horizontal: HPos, vertical: VPos) {
        let style = TextStyle::from(font()).color(&BLACK).pos(Pos::new(horizontal, vertical));
        done(self.area.draw(&Text::new(text, at, style)));
    }
}

/// The font that comes along: machines without fonts draw the same.
fn font() -> plotters::style::FontDesc<'static> {
    static REGISTERED: LazyLock<()> = LazyLock::new(|| {
        let registered = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
        assert!(registered.is_ok(), "the font that comes along is one");
    });
    LazyLock::force(&REGISTERED);
    (FONT, SMALL).into_font()
}

fn column(share: f64) -> i32 {
    LEFT + pixels(share * f64::from(WIDTH - LEFT - RIGHT))
}

fn row(share: f64) -> i32 {
    HEIGHT - BOTTOM - pixels(share * f64::from(HEIGHT - TOP - BOTTOM))
}

#[expect(clippy::cast_possible_truncation, reason = "a few thousand pixels; what is beyond stays beyond")]
fn pixels(length: f64) -> i32 {
    length.clamp(-9e3, 9e3).round() as i32
}

/// Drawing into memory does not fail.
fn done<E: std::error::Error + Send + Sync>(drawn: Result<(), plotters::drawing::DrawingAreaErrorKind<E>>) {
    drawn.expect("memory takes everything");
}

/// Cuts a line into dashes.
fn dashes(points: &[(i32, i32)]) -> Vec<Vec<(i32, i32)>> {
    const DASH: f64 = 8.0;
    const GAP: f64 = 5.0;
    let (mut dashes, mut along) = (Vec::new(), 0.0);
    for pair in points.windows(2) {
        let [from, to] = [pair[0], pair[1]].map(|(x, y)| (f64::from(x), f64::from(y)));
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let at = |distance: f64| {
            let share = distance / length;
            (pixels(from.0 + share * (to.0 - from.0)), pixels(from.1 + share * (to.1 - from.1)))
        };
        let mut done = 0.0;
        while done < length {
            let phase = along % (DASH + GAP);
            let step = if phase < DASH { DASH - phase } else { DASH + GAP - phase }.min(length - done).max(1e-6);
            if phase < DASH {
                dashes.push(vec![at(done), at(done + step)]);
            }
            done += step;
            along += step;
        }
    }
    dashes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::Axis;

    fn figure() -> Figure {
        let series = |label: &str, stroke| Series {
            label: label.to_owned(),
            points: (1..=50).map(|x| (f64::from(x), 1.0 / f64::from(x))).collect(),
            stroke,
        };
        Figure {
            name: "example",
            caption: "An example".to_owned(),
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
    fn a_drawing_says_what_its_axes_and_curves_are() {
        let svg = figure().svg();
        for text in ["homes", "error &lt;mean&gt;", "a &lt; b", "dashed", "dots"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.contains("<polyline") && svg.contains("<circle"));
    }

    #[test]
    fn a_png_holds_the_same_drawing_on_any_machine() {
        let bytes = figure().png();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (1040, 520));
        let has = |RGBColor(r, g, b): RGBColor| pixels.chunks_exact(3).any(|pixel| pixel == [r, g, b]);
        assert!(COLOURS[..3].iter().all(|colour| has(*colour)) && has(BLACK));
    }

    #[test]
    fn what_a_logarithmic_axis_cannot_show_interrupts_the_line() {
        let points = vec![(1.0, 1.0), (2.0, 2.0), (3.0, 0.0), (4.0, 4.0), (5.0, 5.0)];
        let figure = Figure {
            y: Axis::logarithmic(""),
            series: vec![Series { label: String::new(), points, stroke: Stroke::Solid }],
            ..figure()
        };
        let lines = figure.svg().lines().filter(|line| line.contains("#0072B2")).count();
        assert_eq!(lines, 3, "two lines and the legend's");
    }
}
