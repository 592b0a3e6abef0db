//! Plots as SVG. Colours come from a style sheet, so that those of a page follow its theme.
use super::number::{escaped, short};
use super::scale::Scale;
use std::fmt::Write;

pub const WIDTH: f64 = 760.0;
/// Of curves.
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 34.0;
/// Right of bars, for their values.
const VALUES: f64 = 84.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
const BAR: f64 = 15.0;
/// Between groups of bars.
const GAP: f64 = 9.0;
/// Width of a character in the letters of the style sheet, rather too much.
const CHARACTER: f64 = 6.8;
/// Characters of a name beside bars; the whole is in its title.
const NAME: usize = 48;
/// Colours of the style sheet.
pub const COLOURS: usize = 8;

/// Groups of bars below each other, one bar for each series.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    pub title: String,
    pub unit: String,
    pub log: bool,
    /// A value with a line, which bars begin at: 1 for ratios.
    pub reference: Option<f64>,
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

/// Elements of a plot, and its height.
pub struct Plot {
    pub elements: String,
    pub height: f64,
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

impl Series {
    /// The share of values up to each one, for values in nanoseconds that are shown in microseconds.
    pub fn cumulative(name: String, values: &crate::Recorded) -> Self {
        let all: u64 = values.hits().map(|(_, count)| count).sum();
        let mut sum = 0;
        let points = values.hits().filter(|(_, count)| *count > 0).map(|(ns, count)| {
            sum += count;
            (ns.clamp(1, values.max().max(1)) as f64 / 1000.0, sum as f64 / all as f64)
        });
        Self { name, points: points.collect() }
    }
}

impl Lines {
    /// Distributions of the latencies of what is named in the plural.
    pub fn latencies(title: String, what: &str, series: impl Iterator<Item = Series>) -> Self {
        Self {
            title,
            x: "µs".into(),
            y: format!("share of the {what} that took up to this"),
            log_x: true,
            series: series.collect(),
            ..Self::default()
        }
    }
}

impl Bars {
    pub(super) fn plot(&self) -> Plot {
        let longest = self.groups.iter().map(|g| g.name.chars().count().min(NAME)).max().unwrap_or(0);
        let left = longest as f64 * CHARACTER + 16.0;
        let of_group = |g: &Group| g.bars.len().max(1) as f64 * BAR + GAP;
        let bottom = TOP + self.groups.iter().map(of_group).sum::<f64>();
        let all = self.groups.iter().flat_map(|g| &g.bars).flatten();
        let values = all.flat_map(|b| {
            let (low, high) = b.range.unwrap_or((b.value, b.value));
            [low, b.value, high]
        });
        let x = Scale::over(values.chain(self.reference), self.log, left, WIDTH - VALUES);
        let mut out = String::new();
        x_axis(&mut out, &x, bottom, &self.unit);
        let mut top = TOP;
        for group in &self.groups {
            let middle = top + (of_group(group) - GAP) / 2.0;
            name(&mut out, left - 8.0, middle + 4.0, &group.name);
            for (i, bar) in group.bars.iter().enumerate() {
                if let Some(bar) = bar {
                    let name = format!("{}, {}", group.name, self.series.get(i).map_or("", |s| s));
                    self.bar(&mut out, &x, bar, top + BAR * i as f64, i % COLOURS, &name);
                }
            }
            top += of_group(group);
        }
        if let Some(reference) = self.reference {
            let at = x.place(reference);
            let _ = write!(out, "<path class=\"one\" d=\"M{at:.1} {TOP}V{bottom:.1}\"/>");
        }
        Plot { elements: out, height: bottom + BOTTOM }
    }

    fn bar(&self, out: &mut String, x: &Scale, bar: &Bar, top: f64, colour: usize, name: &str) {
        let (from, to) = (x.place(self.reference.unwrap_or(0.0)), x.place(bar.value));
        let range = bar.range.map_or(String::new(), |(a, b)| format!(" ({} to {})", short(a), short(b)));
        let _ = write!(
            out,
            "<rect class=\"c{colour}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"><title>{}: {}{range}</title></rect>",
            from.min(to),
            top + 1.0,
            (to - from).abs().max(1.0),
            BAR - 2.0,
            escaped(name),
            short(bar.value),
        );
        let middle = top + BAR / 2.0;
        let mut end = from.max(to);
        if let Some((low, high)) = bar.range {
            let (low, high) = (x.place(low), x.place(high));
            let _ = write!(out, "<path class=\"range\" d=\"M{low:.1} {middle:.1}H{high:.1}\"/>");
            end = end.max(high);
        }
        text(out, end + 5.0, middle + 4.0, "start", "value", &short(bar.value));
    }
}

/// A name beside its bars; a long one is cut.
fn name(out: &mut String, x: f64, y: f64, whole: &str) {
    if whole.chars().count() <= NAME {
        return text(out, x, y, "end", "", whole);
    }
    let cut: String = whole.chars().take(NAME - 1).chain(['…']).collect();
    let _ = write!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
        escaped(&cut),
        escaped(whole)
    );
}

impl Lines {
    pub(super) fn plot(&self) -> Plot {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let bottom = HEIGHT - BOTTOM;
        let x = Scale::over(points().map(|p| p.0), self.log_x, LEFT, WIDTH - RIGHT);
        let y = Scale::over(points().map(|p| p.1), self.log_y, bottom, TOP);
        let mut out = String::new();
        y_axis(&mut out, &y, &self.y);
        x_axis(&mut out, &x, bottom, &self.x);
        for (i, s) in self.series.iter().enumerate() {
            curve(&mut out, s, i % COLOURS, &x, &y);
        }
        Plot { elements: out, height: HEIGHT }
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

/// Ticks from top to bottom, with values and unit below.
fn x_axis(out: &mut String, x: &Scale, bottom: f64, unit: &str) {
    for tick in x.ticks() {
        let at = x.place(tick);
        let _ = write!(out, "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom:.1}\"/>");
        text(out, at, bottom + 18.0, "middle", "", &short(tick));
    }
    text(out, x.middle(), bottom + BOTTOM - 6.0, "middle", "unit", unit);
}

fn y_axis(out: &mut String, y: &Scale, unit: &str) {
    for tick in y.ticks() {
        let at = y.place(tick);
        let _ = write!(out, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{}\"/>", WIDTH - RIGHT);
        text(out, LEFT - 8.0, at + 4.0, "end", "", &short(tick));
    }
    let _ = write!(
        out,
        "<text class=\"unit\" text-anchor=\"middle\" transform=\"translate(14 {:.1}) rotate(-90)\">{}</text>",
        y.middle(),
        escaped(unit)
    );
}

pub(super) fn text(out: &mut String, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
    let _ = write!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escaped(words)
    );
}
