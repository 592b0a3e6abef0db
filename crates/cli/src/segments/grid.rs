//! Segments as the cells of a picture.
use super::{Content, Segment};
use segno_format::BLOCKS_PER_SEG;

/// Steps of lightness, the last for full segments.
pub const LEVELS: u8 = 8;

/// One or more neighbouring segments, as one square.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Damage before all else, then the content with the most valid blocks.
    pub content: Content,
    /// 0 (empty) to [`LEVELS`].
    pub level: u8,
    /// Whether a log is open in it.
    pub open: bool,
    /// The mean of the ages that its segments have.
    pub age: Option<u64>,
}

/// Cells row by row.
pub struct Grid {
    pub cells: Vec<Cell>,
    pub columns: usize,
    /// Segments of a cell; the last one may have fewer.
    pub per_cell: usize,
}

impl Grid {
    /// Up to `most` cells, about twice as wide as high.
    pub fn pictured(segments: &[Segment], most: usize) -> Self {
        let cells = segments.len().min(most);
        Self::new(segments, most, (2 * cells).isqrt().max(16))
    }

    /// Up to `most` cells in rows of this length.
    pub fn new(segments: &[Segment], most: usize, columns: usize) -> Self {
        let per_cell = segments.len().div_ceil(most.max(1)).max(1);
        Self { cells: segments.chunks(per_cell).map(cell).collect(), columns: columns.max(1), per_cell }
    }

    /// Cells with column and row.
    pub fn placed(&self) -> impl Iterator<Item = (usize, usize, Cell)> + '_ {
        self.cells.iter().enumerate().map(|(i, cell)| (i % self.columns, i / self.columns, *cell))
    }

    pub fn rows(&self) -> usize {
        self.cells.len().div_ceil(self.columns)
    }
}

fn cell(segments: &[Segment]) -> Cell {
    let weight = |s: &Segment| match s.content {
        Content::Damaged => (2, 0),
        Content::Of(_) => (1, s.valid),
        Content::Free => (0, 0),
    };
    let content = segments.iter().max_by_key(|s| weight(s)).map_or(Content::Free, |s| s.content);
    let valid: u64 = segments.iter().map(|s| u64::from(s.valid)).sum();
    let room = segments.len() as u64 * u64::from(BLOCKS_PER_SEG);
    let level = (valid.min(room) * u64::from(LEVELS)).div_ceil(room.max(1));
    let ages = || segments.iter().filter_map(|s| s.age.map(u128::from));
    let mean = ages().sum::<u128>().checked_div(ages().count() as u128);
    Cell {
        content,
        level: u8::try_from(level).unwrap_or(LEVELS),
        open: segments.iter().any(|s| s.log.is_some()),
        age: mean.and_then(|age| u64::try_from(age).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_format::sit::LogType;

    fn of(log: LogType, valid: u16, age: u64) -> Segment {
        Segment { content: Content::Of(log), valid, log: None, age: Some(age) }
    }

    #[test]
    fn cells_show_the_largest_share_all_valid_blocks_and_the_mean_age() {
        let free = Segment { content: Content::Free, valid: 0, log: None, age: None };
        let segments = [
            of(LogType::HotData, 100, 10),
            of(LogType::WarmNode, 412, 30),
            free,
            free,
            of(LogType::ColdData, 512, u64::MAX),
        ];
        let grid = Grid::new(&segments, 3, 2);
        assert_eq!((grid.per_cell, grid.rows()), (2, 2));
        let shown: Vec<_> = grid.cells.iter().map(|c| (c.content, c.level, c.age)).collect();
        let expected = [
            (Content::Of(LogType::WarmNode), 4, Some(20)),
            (Content::Free, 0, None),
            (Content::Of(LogType::ColdData), 8, Some(u64::MAX)),
        ];
        assert_eq!(shown, expected);
        assert_eq!(grid.placed().last().map(|(x, y, _)| (x, y)), Some((0, 1)));
    }

    #[test]
    fn one_block_is_seen_and_damage_is_not_hidden() {
        let damaged = Segment { content: Content::Damaged, valid: 0, log: None, age: None };
        let grid = Grid::new(&[of(LogType::HotData, 1, 0), damaged], 1, 1);
        let expected = Cell { content: Content::Damaged, level: 1, open: false, age: Some(0) };
        assert_eq!(grid.cells, [expected]);
    }
}
