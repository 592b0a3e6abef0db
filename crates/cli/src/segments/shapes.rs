//! Shapes that a picture consists of, which each format draws.
use super::Content;
use super::grid::{Cell, Grid, LEVELS};
use std::collections::BTreeMap;

/// A picture. Positions and lengths are in pixels.
pub struct Picture {
    pub width: usize,
    pub height: usize,
    pub label: String,
    pub shapes: Vec<Shape>,
}

pub enum Shape {
    Squares(Squares),
    Text(Text),
}

/// Squares of one paint.
pub struct Squares {
    pub paint: CellStyle,
    pub side: usize,
    /// The upper left corners.
    pub at: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CellStyle {
    /// A colour, and the percentage of it that covers the background.
    Fill([u8; 3], u8),
    Outline,
}

/// One line.
pub struct Text {
    /// The beginning of the base line, or its end.
    pub at: (usize, usize),
    pub ends_there: bool,
    pub is_title: bool,
    pub line: String,
}

/// Ages below a number of seconds, with name and colour, from young to old.
const AGES: [(u64, &str, [u8; 3]); 6] = [
    (60, "below 1 minute", [0xfd, 0xd8, 0x25]),
    (3600, "below 1 hour", [0x7a, 0xd1, 0x51]),
    (86_400, "below 1 day", [0x22, 0xa8, 0x84]),
    (7 * 86_400, "below 1 week", [0x2a, 0x78, 0x8e]),
    (30 * 86_400, "below 30 days", [0x41, 0x44, 0x87]),
    (u64::MAX, "30 days and more", [0x44, 0x01, 0x54]),
];

/// Name and paint of an age.
pub fn age(seconds: u64) -> (&'static str, CellStyle) {
    let [young @ .., old] = AGES;
    let (_, name, colour) = young.into_iter().find(|(below, ..)| seconds < *below).unwrap_or(old);
    (name, CellStyle::Fill(colour, 100))
}

impl Cell {
    /// Its type; the emptier, the fainter.
    pub fn by_content(&self) -> CellStyle {
        let percent = match self.content {
            Content::Free => 20,
            Content::Damaged => 100,
            Content::Of(_) => 30 + 70 * self.level.min(LEVELS) as u16 / u16::from(LEVELS),
        };
        CellStyle::Fill(self.content.colour(), u8::try_from(percent).unwrap_or(100))
    }

    pub fn by_age(&self) -> CellStyle {
        let unused = CellStyle::Fill(Content::Free.colour(), 20);
        self.age.map_or(unused, |seconds| age(seconds).1)
    }
}

/// The cells of a grid as squares, a shape for each paint, from this corner on.
pub fn cells(grid: &Grid, pitch: usize, corner: (usize, usize), paint: fn(&Cell) -> CellStyle) -> Vec<Shape> {
    let mut by_paint: BTreeMap<CellStyle, Vec<(usize, usize)>> = BTreeMap::new();
    for (x, y, cell) in grid.placed() {
        let at = (corner.0 + x * pitch, corner.1 + y * pitch);
        by_paint.entry(paint(&cell)).or_default().push(at);
        if cell.open {
            by_paint.entry(CellStyle::Outline).or_default().push(at);
        }
    }
    let side = pitch - (pitch / 8).max(1);
    by_paint.into_iter().map(|(paint, at)| Shape::Squares(Squares { paint, side, at })).collect()
}

/// The cells alone.
pub fn plain(grid: &Grid) -> Picture {
    const PITCH: usize = 8;
    Picture {
        width: grid.columns * PITCH,
        height: grid.rows() * PITCH,
        label: "map of the segments".into(),
        shapes: cells(grid, PITCH, (0, 0), Cell::by_content),
    }
}
