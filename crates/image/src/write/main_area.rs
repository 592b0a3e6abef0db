//! The main area while its blocks are given out.
use super::{BLOCK, SEGMENT_BLOCKS};
use crate::{Error, Result};
use segno_format::sit::LogType;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Consecutive segments of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRun {
    pub(crate) log: LogType,
    /// First block in the main area; where a section starts.
    pub(crate) start: u32,
    /// Blocks in use.
    pub(crate) blocks: u32,
}

impl LogRun {
    /// Segments, with the one that the log would write next.
    pub(crate) fn segments(&self) -> u32 {
        self.blocks / SEGMENT_BLOCKS as u32 + 1
    }
}

/// Gives out blocks of the main area, log after log.
#[derive(Debug)]
pub(crate) struct MainArea {
    /// Blocks in a section.
    section: u32,
    runs: Vec<LogRun>,
}

impl MainArea {
    pub(crate) fn new(segments_per_section: u32) -> Self {
        Self { section: segments_per_section.saturating_mul(SEGMENT_BLOCKS as u32), runs: Vec::new() }
    }

    /// Starts the next log.
    pub(crate) fn start(&mut self, log: LogType) -> Result<()> {
        let start = self.end()?;
        self.runs.push(LogRun { log, start, blocks: 0 });
        Ok(())
    }

    /// Takes blocks of the log that was started last.
    pub(crate) fn take(&mut self, blocks: u32) -> Result<u32> {
        let run = self.runs.last_mut().ok_or(Error::Invariant("no log was started"))?;
        let first = run.start.checked_add(run.blocks).ok_or(Error::TooLarge)?;
        run.blocks = run.blocks.checked_add(blocks).ok_or(Error::TooLarge)?;
        first.checked_add(blocks).ok_or(Error::TooLarge)?;
        Ok(first)
    }

    /// The first block after the last section of a log.
    pub(crate) fn end(&self) -> Result<u32> {
        let Some(last) = self.runs.last() else { return Ok(0) };
        let blocks = last.segments().checked_mul(SEGMENT_BLOCKS as u32).ok_or(Error::TooLarge)?;
        let end = last.start.checked_add(blocks).ok_or(Error::TooLarge)?;
        end.checked_next_multiple_of(self.section).ok_or(Error::TooLarge)
    }

    /// The first block after the last one taken.
    pub(crate) fn used(&self) -> u32 {
        self.runs.last().map_or(0, |r| r.start + r.blocks)
    }

    pub(crate) fn runs(&self) -> &[LogRun] {
        &self.runs
    }
}

/// The image file, and where in it the main area is.
pub(crate) struct Image<'a> {
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    /// First block of the main area.
    pub(crate) main: u32,
}

/// Bytes that are moved at once.
const MOVE_CHUNK: usize = 4 << 20;

impl Image<'_> {
    /// Writes whole blocks of the main area.
    pub(crate) fn write_main(&self, rel: u32, bytes: &[u8]) -> Result<()> {
        self.write(u64::from(self.main) + u64::from(rel), bytes)
    }

    /// Writes whole blocks of the volume.
    pub(crate) fn write(&self, block: u64, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(bytes, block * BLOCK);
        written.map_err(|e| Error::host("write", self.path, e))
    }

    pub(crate) fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(|e| Error::host("write", self.path, e))
    }

    /// Moves the first blocks of the main area to block `to`. The part of the old range in front of the new
    /// one is zeroed, and the file ends after the new range.
    pub(crate) fn move_main(&mut self, to: u32, blocks: u32) -> Result<()> {
        let failed = |e| Error::host("write", self.path, e);
        let (from, to_byte) = (u64::from(self.main) * BLOCK, u64::from(to) * BLOCK);
        let len = u64::from(blocks) * BLOCK;
        // Behind the data of the last log there may be nothing yet.
        self.set_len(from + len)?;
        let mut buffer = vec![0; MOVE_CHUNK];
        let chunks = len.div_ceil(MOVE_CHUNK as u64);
        for i in 0..chunks {
            // No chunk is overwritten before it was read.
            let at = if to < self.main { i } else { chunks - 1 - i } * MOVE_CHUNK as u64;
            let chunk = buffer.get_mut(..usize::try_from(len - at).map_or(MOVE_CHUNK, |n| n.min(MOVE_CHUNK)));
            let chunk = chunk.unwrap_or_default();
            self.file.read_exact_at(chunk, from + at).map_err(failed)?;
            self.file.write_all_at(chunk, to_byte + at).map_err(failed)?;
        }
        buffer.fill(0);
        for at in (from..to_byte.min(from + len)).step_by(MOVE_CHUNK) {
            let chunk = buffer.get(..MOVE_CHUNK.min((to_byte - at) as usize)).unwrap_or_default();
            self.file.write_all_at(chunk, at).map_err(failed)?;
        }
        self.main = to;
        self.set_len(to_byte + len)
    }
}
