//! The contents of a file: a checksum of its bytes, and the ranges of its data and holes.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crc32fast::Hasher;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::errno;

const PAGE: usize = 4096;
/// Read at once; a whole number of pages.
const CHUNK: usize = 64 * PAGE;
/// Files up to this size are read from end to end; of larger ones the holes only at their edges.
const READ_WHOLE_MAX: u64 = 64 << 20;

/// Byte ranges that hold data, as lseek(2) reports them; everything else is a hole.
pub fn data_ranges(file: &File, size: u64) -> Result<Vec<(u64, u64)>, Errno> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            // Linux's f2fs also finds what was allocated past the end.
            Ok(start) if start >= size => break,
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno),
        };
        let end = seek(file, SeekFrom::Hole(start))?;
        ranges.push((start, end));
        at = end;
    }
    Ok(ranges)
}

/// Checksum of the pages that are not all zero, each with its number.
///
/// Holes therefore do not count, however they are reported: two files have the same checksum if and (but for
/// collisions) only if they have the same bytes. That makes it safe to pass over the inside of large holes.
pub fn checksum(file: &File, size: u64) -> Result<u32, Errno> {
    let mut sum = Checksum { hasher: Hasher::new(), chunk: vec![0; CHUNK] };
    if size <= READ_WHOLE_MAX {
        sum.read(file, 0, size)?;
        return Ok(sum.hasher.finalize());
    }
    let mut hole_start = 0;
    for (start, end) in data_ranges(file, size)? {
        sum.hole(file, hole_start, start)?;
        sum.read(file, start, end.min(size))?;
        hole_start = end;
    }
    sum.hole(file, hole_start, size)?;
    Ok(sum.hasher.finalize())
}

struct Checksum {
    hasher: Hasher,
    chunk: Vec<u8>,
}

impl Checksum {
    fn hole(&mut self, file: &File, start: u64, end: u64) -> Result<(), Errno> {
        let edge = CHUNK as u64;
        if end.saturating_sub(start) <= 2 * edge {
            return self.read(file, start, end);
        }
        self.read(file, start, start + edge)?;
        self.read(file, (end - edge).next_multiple_of(PAGE as u64), end)
    }

    /// `start` is where a page starts.
    fn read(&mut self, file: &File, start: u64, end: u64) -> Result<(), Errno> {
        let mut at = start;
        while at < end {
            let wanted = usize::try_from(end - at).map_or(CHUNK, |rest| rest.min(CHUNK));
            let count = self.fill(file, at, wanted)?;
            if count == 0 {
                break;
            }
            for page in self.chunk.get(..count).unwrap_or_default().chunks(PAGE) {
                if page.iter().any(|&byte| byte != 0) {
                    self.hasher.update(&at.to_le_bytes());
                    self.hasher.update(page);
                }
                at += page.len() as u64;
            }
        }
        Ok(())
    }

    /// Reads until `wanted` bytes are there or the file ends, so that pages are whole.
    fn fill(&mut self, file: &File, at: u64, wanted: usize) -> Result<usize, Errno> {
        let mut count = 0;
        while let Some(rest @ [_, ..]) = self.chunk.get_mut(count..wanted) {
            match file.read_at(rest, at + count as u64) {
                Ok(0) => break,
                Ok(read) => count += read,
                Err(error) => return Err(errno::of(&error)),
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_with(size: u64, pieces: &[(u64, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for (at, bytes) in pieces {
            file.write_all_at(bytes, *at).unwrap();
        }
        file
    }

    #[test]
    fn written_zeros_and_holes_are_the_same_bytes() {
        let sparse = file_with(40_000, &[(20_000, b"x")]);
        let dense = file_with(40_000, &[(0, &[0; 40_000]), (20_000, b"x")]);
        assert_eq!(checksum(&sparse, 40_000), checksum(&dense, 40_000));
    }

    #[test]
    fn place_and_content_count() {
        let size = 100 << 20;
        let base = file_with(size, &[(8192, b"x"), (90 << 20, b"y")]);
        let same = file_with(size, &[(8192, b"x"), (90 << 20, b"y")]);
        let moved = file_with(size, &[(12288, b"x"), (90 << 20, b"y")]);
        let changed = file_with(size, &[(8192, b"x"), (90 << 20, b"z")]);
        let sum = |file: &File| checksum(file, size).unwrap();
        assert_eq!(sum(&base), sum(&same));
        assert_ne!(sum(&base), sum(&moved));
        assert_ne!(sum(&base), sum(&changed));
    }
}
