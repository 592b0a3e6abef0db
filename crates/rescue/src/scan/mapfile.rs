//! Unreadable blocks, and the mapfile of ddrescue that keeps them between runs.
use crate::RescueError;
use segno_format::BLOCK_SIZE;
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;

/// Blocks of the source that cannot be read, as ascending ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadBlocks(Vec<Range<u64>>);

impl BadBlocks {
    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    pub(super) fn of(ranges: Vec<Range<u64>>) -> Self {
        Self(ranges)
    }

    /// Number of blocks.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|r| r.end - r.start).sum()
    }

    /// Whether a block is one of them.
    #[must_use]
    pub fn contains(&self, at: u64) -> bool {
        let i = self.0.partition_point(|r| r.end <= at);
        self.0.get(i).is_some_and(|r| r.start <= at)
    }

    /// The first one from `at` on.
    pub(super) fn next(&self, at: u64) -> Option<u64> {
        let i = self.0.partition_point(|r| r.end <= at);
        self.0.get(i).map(|r| r.start.max(at))
    }

    /// The end of the range that a block is in.
    pub(super) fn end_of(&self, at: u64) -> Option<u64> {
        let i = self.0.partition_point(|r| r.end <= at);
        self.0.get(i).filter(|r| r.start <= at).map(|r| r.end)
    }

    /// Adds blocks after all others.
    pub(super) fn add(&mut self, blocks: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if last.end == blocks.start => last.end = blocks.end,
            _ => self.0.push(blocks),
        }
    }

    /// The mapfile in the format of ddrescue, for a source of `blocks` blocks.
    #[must_use]
    pub fn to_mapfile(&self, blocks: u64) -> String {
        let bytes = |n: u64| n * BLOCK_SIZE as u64;
        let mut text =
            String::from("# Mapfile of segno rescue\n# current_pos  current_status  current_pass\n");
        let _infallible =
            writeln!(text, "{:#010x}     +               1\n#      pos        size  status", bytes(blocks));
        let mut at = 0;
        let mut line = |range: Range<u64>, status: char| {
            if !range.is_empty() {
                let (pos, size) = (bytes(range.start), bytes(range.end - range.start));
                // Writing to a string does not fail.
                let _infallible = writeln!(text, "{pos:#010x}  {size:#010x}  {status}");
            }
        };
        for bad in &self.0 {
            line(at..bad.start, '+');
            line(bad.clone(), '-');
            at = bad.end;
        }
        line(at..blocks, '+');
        text
    }

    /// The blocks that a mapfile of ddrescue does not count as read.
    pub fn from_mapfile(text: &str, path: &Path) -> Result<Self, RescueError> {
        let mut out = Self::default();
        let lines = text.lines().enumerate().filter(|(_, l)| !l.starts_with('#') && !l.trim().is_empty());
        // The first line is ddrescue's position.
        for (i, line) in lines.skip(1) {
            let bad = |why| RescueError::BadMapfile { path: path.to_owned(), line: i + 1, why };
            let mut fields = line.split_whitespace();
            let mut number = || fields.next().and_then(parse).ok_or_else(|| bad("a number is missing"));
            let (pos, size) = (number()?, number()?);
            let status = fields.next().ok_or_else(|| bad("the status is missing"))?;
            let end = pos.checked_add(size).ok_or_else(|| bad("the range is too large"))?;
            let start = pos / BLOCK_SIZE as u64;
            if status == "+" || size == 0 {
                continue;
            }
            match out.0.last_mut() {
                Some(last) if last.end > start => return Err(bad("ranges are not in order")),
                Some(last) if last.end == start => last.end = end.div_ceil(BLOCK_SIZE as u64),
                _ => out.0.push(start..end.div_ceil(BLOCK_SIZE as u64)),
            }
        }
        Ok(out)
    }
}

fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_back() {
        let mut bad = BadBlocks::default();
        [3..4, 4..5, 9..10].into_iter().for_each(|blocks| bad.add(blocks));
        assert_eq!(bad.ranges(), [3..5, 9..10]);
        assert_eq!([2, 3, 4, 5, 9, 10].map(|at| bad.contains(at)), [false, true, true, false, true, false]);
        assert_eq!([0, 4, 5, 10].map(|at| bad.next(at)), [Some(3), Some(4), Some(9), None]);
        assert_eq!([2, 3, 4, 5].map(|at| bad.end_of(at)), [None, Some(5), Some(5), None]);
        let mapfile = bad.to_mapfile(12);
        assert!(mapfile.contains("0x00003000  0x00002000  -\n"), "{mapfile}");
        assert_eq!(BadBlocks::from_mapfile(&mapfile, Path::new("m")).unwrap(), bad);
        let of = |text| BadBlocks::from_mapfile(text, Path::new("m"));
        assert!(of("0 +\n0x1000 0x1000\n").is_err());
        assert_eq!(of("0 ?\n0x200 0x1000 /\n").unwrap().count(), 2);
    }
}
