//! Writes chunks in the order of the image.
use crate::SparseError;
use crate::format::{CHUNK_HEADER_BYTES, DONT_CARE, FILL, RAW, RawChunk, RawHeader};
use std::io::{self, Seek, SeekFrom, Write};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

/// Bytes of a raw chunk that tools on 32-bit hosts can load.
pub const RAW_MAX: u32 = 64 << 20;

/// The chunk that is being written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// A raw chunk with its header at this byte.
    Raw(u64),
    Fill(u32),
    DontCare,
}

/// Writes a sparse image from its first block to its last; neighbours of one kind become one chunk.
pub struct Writer<W> {
    out: W,
    block_size: u32,
    raw_max: u32,
    open: Option<Open>,
    /// Blocks of the open chunk.
    blocks: u32,
    chunks: u32,
    /// Blocks of the image so far.
    done: u32,
}

impl<W: Write + Seek> Writer<W> {
    /// Starts an image of blocks of this size, with raw chunks of up to `raw_max` bytes.
    pub fn new(mut out: W, block_size: u32, raw_max: u32) -> Result<Self, SparseError> {
        if block_size == 0 || !block_size.is_multiple_of(4) {
            return Err(SparseError::BlockSize { block_size });
        }
        let header = RawHeader::new(block_size, 0, 0);
        out.write_all(header.as_bytes()).map_err(SparseError::io("write the header"))?;
        Ok(Self { out, block_size, raw_max, open: None, blocks: 0, chunks: 0, done: 0 })
    }

    /// Adds blocks. A block that repeats one word is stored as that word.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), SparseError> {
        for run in runs(bytes, self.block_size as usize) {
            match run {
                Run::Fill(word, blocks) => self.fill(word, blocks)?,
                Run::Raw(bytes) => self.raw(bytes)?,
            }
        }
        Ok(())
    }

    /// Adds blocks that repeat a word.
    pub fn fill(&mut self, word: u32, blocks: u32) -> Result<(), SparseError> {
        self.run(Open::Fill(word), blocks)
    }

    /// Adds blocks that are never read.
    pub fn skip(&mut self, blocks: u32) -> Result<(), SparseError> {
        self.run(Open::DontCare, blocks)
    }

    /// Ends the image and flushes it to the file.
    pub fn finish(mut self) -> Result<W, SparseError> {
        let written = SparseError::io("write the header");
        self.close()?;
        let header = RawHeader::new(self.block_size, self.done, self.chunks);
        let end = |out: &mut W| -> io::Result<()> {
            out.seek(SeekFrom::Start(0))?;
            out.write_all(header.as_bytes())?;
            out.seek(SeekFrom::End(0))?;
            out.flush()
        };
        end(&mut self.out).map_err(written)?;
        Ok(self.out)
    }

    fn run(&mut self, kind: Open, blocks: u32) -> Result<(), SparseError> {
        if blocks == 0 {
            return Ok(());
        }
        if self.open != Some(kind) {
            self.close()?;
            self.open = Some(kind);
        }
        self.count(blocks)
    }

    /// Adds blocks as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), SparseError> {
        let block = self.block_size as usize;
        let most = (self.raw_max.min(u32::MAX - CHUNK_HEADER_BYTES as u32) / self.block_size).max(1);
        let mut rest = bytes;
        while !rest.is_empty() {
            if !matches!(self.open, Some(Open::Raw(_))) || self.blocks >= most {
                self.close()?;
                let at = self.out.stream_position().map_err(SparseError::io("write a chunk"))?;
                self.out.write_all(&[0; CHUNK_HEADER_BYTES]).map_err(SparseError::io("write a chunk"))?;
                self.open = Some(Open::Raw(at));
            }
            let room = (most - self.blocks) as usize * block;
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.out.write_all(now).map_err(SparseError::io("write a chunk"))?;
            self.count((now.len() / block) as u32)?;
            rest = later;
        }
        Ok(())
    }

    fn count(&mut self, blocks: u32) -> Result<(), SparseError> {
        let too_large = || SparseError::TooLarge {
            bytes: (u64::from(self.done) + u64::from(blocks)) * u64::from(self.block_size),
            blocks: u32::MAX.into(),
            block_size: self.block_size,
        };
        self.done = self.done.checked_add(blocks).ok_or_else(too_large)?;
        self.blocks += blocks;
        Ok(())
    }

    fn close(&mut self) -> Result<(), SparseError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let blocks = std::mem::take(&mut self.blocks);
        let (kind, payload) = match open {
            Open::Raw(_) => (RAW, blocks * self.block_size),
            Open::Fill(_) => (FILL, 4),
            Open::DontCare => (DONT_CARE, 0),
        };
        let header = RawChunk {
            kind: U16::new(kind),
            reserved: U16::new(0),
            blocks: U32::new(blocks),
            total_bytes: U32::new(CHUNK_HEADER_BYTES as u32 + payload),
        };
        let put = |out: &mut W| -> io::Result<()> {
            if let Open::Raw(at) = open {
                out.seek(SeekFrom::Start(at))?;
                out.write_all(header.as_bytes())?;
                out.seek(SeekFrom::End(0))?;
                return Ok(());
            }
            out.write_all(header.as_bytes())?;
            if let Open::Fill(word) = open { out.write_all(&word.to_le_bytes()) } else { Ok(()) }
        };
        put(&mut self.out).map_err(SparseError::io("write a chunk"))?;
        self.chunks += 1;
        Ok(())
    }
}

/// Consecutive blocks of one kind.
enum Run<'a> {
    Fill(u32, u32),
    Raw(&'a [u8]),
}

/// The whole blocks of some bytes.
fn runs(bytes: &[u8], block: usize) -> impl Iterator<Item = Run<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let first = word_of(rest.get(..block)?);
        let same = rest.chunks_exact(block).take_while(|b| word_of(b) == first).count();
        let (now, later) = rest.split_at(same * block);
        rest = later;
        Some(first.map_or(Run::Raw(now), |word| Run::Fill(word, same as u32)))
    })
}

/// The word that a block repeats, if it does.
fn word_of(block: &[u8]) -> Option<u32> {
    let word = block.first_chunk::<4>()?;
    // Equal to itself one word on.
    (block.get(4..) == block.get(..block.len() - 4)).then(|| u32::from_le_bytes(*word))
}
