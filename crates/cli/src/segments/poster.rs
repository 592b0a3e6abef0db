//! A map as a self-contained picture: title, cells with addresses, ages, legends, and the command line that
//! made it.
use super::grid::{Cell, Grid};
use super::shapes::{CellStyle, Picture, Shape, Squares, Text, age, cells};
use super::{Content, Segments};
use crate::usage::Usage;
use segno_format::size;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, SegNo, text};

const WIDTH: usize = 1280;
const MARGIN: usize = 30;
/// Where the cells begin, right of the addresses.
const LEFT: usize = 230;
const ROOM: usize = WIDTH - LEFT - MARGIN;
/// Distance of base lines: enough for the larger letters that narrow windows get.
const LINE: usize = 42;
/// Characters that fit into a line of those letters.
const CHARACTERS: usize = 64;
const TITLE_CHARACTERS: usize = 46;
/// Sides of a cell with the gap to the next one: the first that lets all cells fit.
const PITCHES: [usize; 6] = [40, 30, 20, 15, 10, 8];
/// Height of the cells.
const HEIGHT: usize = 640;
const SWATCH: usize = 22;

/// Picture in the making: shapes down to a height.
struct Poster {
    shapes: Vec<Shape>,
    bottom: usize,
}

/// The picture of a volume of this name. `made_by` are lines at its end.
pub fn picture(found: &Segments, name: &str, made_by: &[String]) -> Picture {
    let (grid, pitch) = grid(found);
    let mut poster = Poster { shapes: Vec::new(), bottom: MARGIN };
    let title = title(found, name);
    poster.title(&title);
    poster.paragraph(&summary(found));
    poster.gap();
    poster.paragraph(&scale(&grid));
    poster.panel(found, &grid, pitch, Cell::by_content);
    poster.legend(&types(found));
    if grid.cells.iter().any(|c| c.age.is_some()) {
        poster.gap();
        poster.paragraph(
            "Age: time that the volume was mounted since the segment was written, on average of its blocks.",
        );
        poster.panel(found, &grid, pitch, Cell::by_age);
        poster.legend(&ages(&grid));
    }
    poster.gap();
    made_by.iter().for_each(|line| poster.paragraph(line));
    Picture { width: WIDTH, height: poster.bottom + MARGIN, label: title, shapes: poster.shapes }
}

/// Cells as large as the room permits.
fn grid(found: &Segments) -> (Grid, usize) {
    let capacity = |pitch: usize| (ROOM / pitch) * (HEIGHT / pitch);
    let [larger @ .., least] = PITCHES;
    let pitch = larger.into_iter().find(|pitch| found.all.len() <= capacity(*pitch)).unwrap_or(least);
    (Grid::new(&found.all, capacity(pitch), ROOM / pitch), pitch)
}

fn title(found: &Segments, name: &str) -> String {
    let label = text::line(found.superblock.label().as_bytes());
    let name = text::line(name.as_bytes());
    let title = if label.is_empty() { name } else { format!("{label}: {name}") };
    if title.chars().count() <= TITLE_CHARACTERS {
        return title;
    }
    title.chars().take(TITLE_CHARACTERS - 3).chain("...".chars()).collect()
}

fn summary(found: &Segments) -> String {
    let usage = Usage::of(&found.superblock, &found.checkpoint);
    format!(
        "{}: {} of {} in use ({} %), {} of {} segments free; checkpoint {:#x}",
        size::human(usage.device),
        size::human(usage.used),
        size::human(usage.user),
        usage.percent(),
        found.checkpoint.free_segment_count.get(),
        found.all.len(),
        found.checkpoint.checkpoint_ver.get(),
    )
}

fn scale(grid: &Grid) -> String {
    let bytes = size::human(grid.per_cell as u64 * segment_bytes());
    let cell = if grid.per_cell == 1 { "a segment".into() } else { format!("{} segments", grid.per_cell) };
    format!(
        "A cell is {cell} ({bytes}); left: the address of its row. The fainter, the fewer valid blocks. Outlined: a log is open. \
         Below: how many segments of each type, and how full they are."
    )
}

fn segment_bytes() -> u64 {
    u64::from(BLOCKS_PER_SEG) * BLOCK_SIZE as u64
}

fn types(found: &Segments) -> Vec<(CellStyle, String)> {
    let totals = found.totals().into_iter().filter(|t| t.segments > 0);
    let entry = |t: super::Total| {
        let full =
            if t.content == Content::Free { String::new() } else { format!(", {} % full", t.percent()) };
        (CellStyle::Fill(t.content.colour(), 100), format!("{}: {}{full}", t.content.name(), t.segments))
    };
    totals.map(entry).collect()
}

fn ages(grid: &Grid) -> Vec<(CellStyle, String)> {
    let mut seconds: Vec<u64> = grid.cells.iter().filter_map(|c| c.age).collect();
    seconds.sort_unstable();
    let mut entries: Vec<(CellStyle, String)> = Vec::new();
    for (name, paint) in seconds.into_iter().map(age) {
        if entries.last().is_none_or(|(last, _)| *last != paint) {
            entries.push((paint, name.into()));
        }
    }
    entries
}

impl Poster {
    fn gap(&mut self) {
        self.bottom += LINE / 2;
    }

    fn title(&mut self, line: &str) {
        self.bottom += LINE;
        self.text((MARGIN, self.bottom), false, true, line.to_owned());
        self.bottom += LINE / 4;
    }

    fn text(&mut self, at: (usize, usize), ends_there: bool, is_title: bool, line: String) {
        self.shapes.push(Shape::Text(Text { at, ends_there, is_title, line }));
    }

    /// Words in lines.
    fn paragraph(&mut self, text: &str) {
        for line in wrapped(text) {
            self.bottom += LINE;
            self.text((MARGIN, self.bottom), false, false, line);
        }
    }

    fn panel(&mut self, found: &Segments, grid: &Grid, pitch: usize, paint: fn(&Cell) -> CellStyle) {
        let top = self.bottom + LINE / 2;
        for row in (0..grid.rows()).step_by(LINE.div_ceil(pitch)) {
            let first = u32::try_from(row * grid.columns * grid.per_cell).unwrap_or(u32::MAX);
            let address = u64::from(found.superblock.geo.seg_start(SegNo(first)).0) * BLOCK_SIZE as u64;
            let base = top + row * pitch + pitch.midpoint(LINE / 2);
            self.text((LEFT - SWATCH / 2, base), true, false, size::human(address));
        }
        self.shapes.extend(cells(grid, pitch, (LEFT, top), paint));
        self.bottom = top + (grid.rows() * pitch).max(LINE);
    }

    /// Entries in two columns.
    fn legend(&mut self, entries: &[(CellStyle, String)]) {
        for (i, (paint, text)) in entries.iter().enumerate() {
            let x = MARGIN + i % 2 * (WIDTH / 2);
            if i % 2 == 0 {
                self.bottom += LINE;
            }
            let at = vec![(x, self.bottom - SWATCH + 3)];
            self.shapes.push(Shape::Squares(Squares { paint: *paint, side: SWATCH, at }));
            self.text((x + 2 * SWATCH, self.bottom), false, false, text.clone());
        }
    }
}

/// Lines of up to [`CHARACTERS`]; longer words are cut.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let pieces: Vec<char> = word.chars().collect();
        for piece in pieces.chunks(CHARACTERS) {
            let piece: String = piece.iter().collect();
            match lines.last_mut() {
                Some(line) if line.is_empty() => *line = piece,
                Some(line) if line.chars().count() + 1 + piece.chars().count() <= CHARACTERS => {
                    line.push(' ');
                    line.push_str(&piece);
                }
                _ => lines.push(piece),
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_the_picture() {
        let long = "x".repeat(CHARACTERS + 1);
        assert_eq!(wrapped(&format!("a b {long}")), ["a b", &long[..CHARACTERS], "x"]);
        let words = "four ".repeat(40);
        let lines = wrapped(words.trim_end());
        assert!(lines.iter().all(|l| l.chars().count() <= CHARACTERS), "{lines:?}");
        assert_eq!(lines.join(" "), words.trim_end());
    }
}
