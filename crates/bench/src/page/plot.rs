//! Plots as inline SVG. Colours come from the style sheet, so that they follow the theme.
use super::number::{escaped, short};
use super::scale::Scale;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 34.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// Colours of the style sheet.
pub const COLOURS: usize = 8;

/// Groups of bars side by side, one bar for each series.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    pub title: String,
    pub unit: String,
    pub log: bool,
    pub series: Vec<String>,
    pub groups: Vec<Group>,
}

/// The bars of one group in the order of the series.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub name: String,
    pub bars: Vec<Option<Bar>>,
}

/// A value and the range of its repetitions.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    pub value: f64,
    pub range: Option<(f64, f64)>,
}

/// Curves through points.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    pub title: String,
    pub x: String,
    pub y: String,
    pub log_x: bool,
    pub log_y: bool,
    pub series: Vec<Series>,
}

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

impl From<crate::sample::Sample> for Bar {
    fn from(s: crate::sample::Sample) -> Self {
        Self { value: s.median, range: (s.n > 1).then_some((s.min, s.max)) }
    }
}

impl From<f64> for Bar {
    fn from(value: f64) -> Self {
        Self { value, range: None }
    }
}

impl Bars {
    pub(super) fn svg(&self) -> String {
        let all = self.groups.iter().flat_map(|g| &g.bars).flatten();
        let values = all.flat_map(|b| [b.value, b.range.map_or(b.value, |r| r.1)]);
        let y = Scale::over(values, self.log, HEIGHT - BOTTOM, TOP);
        let mut out = open(&self.title);
        y_axis(&mut out, &y, &self.unit);
        let room = (WIDTH - LEFT - RIGHT) / self.groups.len().max(1) as f64;
        let width = (room * 0.8 / self.series.len().max(1) as f64).min(72.0);
        for (g, group) in self.groups.iter().enumerate() {
            let middle = LEFT + room * (g as f64 + 0.5);
            // Long names alternate between two lines.
            let line = if room < 7.0 * group.name.chars().count() as f64 { g % 2 } else { 0 };
            text(&mut out, middle, HEIGHT - BOTTOM + 18.0 + 15.0 * line as f64, "middle", "", &group.name);
            let first = middle - width * group.bars.len() as f64 / 2.0;
            for (i, bar) in group.bars.iter().enumerate() {
                if let Some(bar) = bar {
                    let name = format!("{}, {}", group.name, self.series.get(i).map_or("", |s| s));
                    one_bar(&mut out, &y, bar, first + width * i as f64, width, i % COLOURS, &name);
                }
            }
        }
        out + "</svg>"
    }
}

fn one_bar(out: &mut String, y: &Scale, bar: &Bar, x: f64, width: f64, colour: usize, name: &str) {
    let (top, bottom) = (y.place(bar.value), HEIGHT - BOTTOM);
    let gap = (width * 0.06).min(3.0);
    let range = bar.range.map_or(String::new(), |(a, b)| format!(" ({} to {})", short(a), short(b)));
    let _ = write!(
        out,
        "<rect class=\"c{colour}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"><title>{}: {}{range}</title></rect>",
        x + gap,
        width - 2.0 * gap,
        (bottom - top).max(1.0),
        escaped(name),
        short(bar.value),
    );
    let middle = x + width / 2.0;
    let mut label = top;
    if let Some((low, high)) = bar.range {
        let (low, high) = (y.place(low), y.place(high));
        let _ = write!(
            out,
            "<path class=\"range\" d=\"M{middle:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h6M{:.1} {high:.1}h6\"/>",
            middle - 3.0,
            middle - 3.0
        );
        label = high;
    }
    if width >= 26.0 {
        text(out, middle, label - 4.0, "middle", "value", &short(bar.value));
    }
}

impl Lines {
    pub(super) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let x = Scale::over(points().map(|p| p.0), self.log_x, LEFT, WIDTH - RIGHT);
        let y = Scale::over(points().map(|p| p.1), self.log_y, HEIGHT - BOTTOM, TOP);
        let mut out = open(&self.title);
        y_axis(&mut out, &y, &self.y);
        for tick in x.ticks() {
            let at = x.place(tick);
            let _ = write!(out, "<path class=\"grid\" d=\"M{at:.1} {TOP}V{}\"/>", HEIGHT - BOTTOM);
            text(&mut out, at, HEIGHT - BOTTOM + 16.0, "middle", "", &short(tick));
        }
        text(&mut out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6.0, "middle", "unit", &self.x);
        for (i, s) in self.series.iter().enumerate() {
            curve(&mut out, s, i % COLOURS, &x, &y);
        }
        out + "</svg>"
    }
}

fn curve(out: &mut String, s: &Series, colour: usize, x: &Scale, y: &Scale) {
    let mut path = String::new();
    for (i, (px, py)) in s.points.iter().enumerate() {
        let _ = write!(path, "{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, x.place(*px), y.place(*py));
    }
    let _ = write!(out, "<path class=\"line l{colour}\" d=\"{path}\"/>");
    if s.points.len() > 64 {
        return;
    }
    for (px, py) in &s.points {
        let _ = write!(
            out,
            "<circle class=\"c{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}: {} at {}</title></circle>",
            x.place(*px),
            y.place(*py),
            escaped(&s.name),
            short(*py),
            short(*px)
        );
    }
}

fn open(title: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escaped(title))
}

fn y_axis(out: &mut String, y: &Scale, unit: &str) {
    for tick in y.ticks() {
        let at = y.place(tick);
        let _ = write!(out, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{}\"/>", WIDTH - RIGHT);
        text(out, LEFT - 8.0, at + 4.0, "end", "", &short(tick));
    }
    let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    let _ = write!(
        out,
        "<text class=\"unit\" text-anchor=\"middle\" transform=\"translate(14 {middle:.1}) rotate(-90)\">{}</text>",
        escaped(unit)
    );
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
    let _ = write!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escaped(words)
    );
}
