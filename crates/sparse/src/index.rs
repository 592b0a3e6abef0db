//! Where the bytes of an image are in its sparse file.
use crate::SparseError;
use crate::format::{
    CHUNK_HEADER_BYTES, CRC32, DONT_CARE, FILL, HEADER_BYTES, MAGIC, MAJOR, RAW, RawChunk, RawHeader,
};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use zerocopy::{FromBytes, IntoBytes};

/// Largest block that is accepted.
const BLOCK_SIZE_MAX: u32 = 1 << 30;

/// The content of a range of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The bytes of the file from here on.
    Raw(u64),
    /// A word, repeated.
    Fill(u32),
    /// Nothing: read as zeros.
    DontCare,
}

/// A range of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the image.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Content.
    pub kind: Kind,
}

/// The chunks of a sparse image, checked.
#[derive(Clone, Debug)]
pub struct Index {
    /// Bytes in a block.
    pub block_size: u32,
    /// Bytes of the image.
    pub size: u64,
    /// Its ranges, ascending and without gaps.
    pub extents: Vec<Extent>,
    /// Checksums of everything before a byte of the image, with the byte of the file they are at.
    pub checksums: Vec<(u64, u64, u32)>,
}

impl Index {
    /// Whether the file starts as a sparse image does.
    pub fn is_sparse(file: &File) -> io::Result<bool> {
        let mut magic = [0; 4];
        match file.read_exact_at(&mut magic, 0) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            done => done.map(|()| u32::from_le_bytes(magic) == MAGIC),
        }
    }

    /// Reads all chunk headers and checks that they cover the image exactly.
    pub fn read(file: &File) -> Result<Self, SparseError> {
        let length = file.metadata().map_err(SparseError::io("read its length"))?.len();
        let header: RawHeader = structure(file, 0, length, 0)?;
        check_header(&header)?;
        let mut scan = Scan {
            file,
            length,
            at: header.file_header_size.get().into(),
            chunk_header: header.chunk_header_size.get().into(),
            total: header.total_blocks.get(),
            blocks: 0,
            index: Self {
                block_size: header.block_size.get(),
                size: 0,
                extents: Vec::new(),
                checksums: Vec::new(),
            },
        };
        for number in 0..header.total_chunks.get() {
            scan.chunk(number)?;
        }
        if scan.blocks != u64::from(scan.total) {
            return Err(SparseError::MissingBlocks { found: scan.blocks, total: scan.total });
        }
        Ok(scan.index)
    }

    /// The first byte from `offset` on that may be anything but zero.
    #[must_use]
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        let is_data = |e: &&Extent| !matches!(e.kind, Kind::DontCare | Kind::Fill(0));
        self.behind(offset).iter().find(is_data).map(|e| e.start.max(offset))
    }

    /// The end of the fill at `offset`, if there is one.
    #[must_use]
    pub fn fill_end(&self, offset: u64) -> Option<u64> {
        let extent = self.behind(offset).first()?;
        matches!(extent.kind, Kind::Fill(_)).then_some(extent.start + extent.len)
    }

    /// The ranges that end after an offset.
    fn behind(&self, offset: u64) -> &[Extent] {
        let first = self.extents.partition_point(|e| e.start + e.len <= offset);
        self.extents.get(first..).unwrap_or_default()
    }

    /// Reads bytes of the image; all of them must exist.
    pub fn read_at(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(into.len() as u64).filter(|&end| end <= self.size);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut rest = into;
        for extent in self.behind(offset).iter().take_while(|e| e.start < end) {
            let from = offset.max(extent.start);
            let part = (extent.start + extent.len).min(end) - from;
            // The part lies within the buffer, whose length is a usize.
            let (now, later) = rest.split_at_mut(part as usize);
            rest = later;
            match extent.kind {
                Kind::Raw(at) => file.read_exact_at(now, at + (from - extent.start))?,
                Kind::Fill(word) => fill(now, word, from - extent.start),
                Kind::DontCare => now.fill(0),
            }
        }
        Ok(())
    }
}

/// Repeats a word, as seen from a byte of the repetition.
fn fill(into: &mut [u8], word: u32, from: u64) {
    let bytes = word.rotate_right((from % 4 * 8) as u32).to_le_bytes();
    into.iter_mut().zip(bytes.iter().cycle()).for_each(|(to, byte)| *to = *byte);
}

fn check_header(header: &RawHeader) -> Result<(), SparseError> {
    if header.magic.get() != MAGIC {
        return Err(SparseError::Magic { found: header.magic.get() });
    }
    if header.major_version.get() != MAJOR {
        let (major, minor) = (header.major_version.get(), header.minor_version.get());
        return Err(SparseError::Version { major, minor });
    }
    let sizes = [
        ("the file header size", header.file_header_size, HEADER_BYTES, "at least 28 is needed"),
        ("the chunk header size", header.chunk_header_size, CHUNK_HEADER_BYTES, "at least 12 is needed"),
    ];
    for (field, found, least, rule) in sizes {
        if usize::from(found.get()) < least {
            return Err(SparseError::Header { field, found: found.get().into(), rule });
        }
    }
    let block_size = header.block_size.get();
    if block_size == 0 || !block_size.is_multiple_of(4) || block_size > BLOCK_SIZE_MAX {
        return Err(SparseError::BlockSize { block_size });
    }
    Ok(())
}

/// A structure of the file.
fn structure<T: FromBytes + IntoBytes>(
    file: &File,
    at: u64,
    length: u64,
    number: u32,
) -> Result<T, SparseError> {
    let end = at.saturating_add(size_of::<T>() as u64);
    if end > length {
        return Err(SparseError::Truncated { number, at, missing: end - length });
    }
    let mut found = T::new_zeroed();
    file.read_exact_at(found.as_mut_bytes(), at).map_err(SparseError::io("read a header"))?;
    Ok(found)
}

struct Scan<'f> {
    file: &'f File,
    length: u64,
    /// Where the next chunk starts.
    at: u64,
    chunk_header: u64,
    total: u32,
    /// Blocks of the image up to there.
    blocks: u64,
    /// The image up to there.
    index: Index,
}

impl Scan<'_> {
    fn chunk(&mut self, number: u32) -> Result<(), SparseError> {
        let at = self.at;
        let chunk: RawChunk = structure(self.file, at, self.length, number)?;
        let (blocks, found) = (u64::from(chunk.blocks.get()), u64::from(chunk.total_bytes.get()));
        let payload = match chunk.kind.get() {
            RAW => self.bytes(blocks),
            FILL | CRC32 => 4,
            DONT_CARE => 0,
            kind => return Err(SparseError::ChunkType { number, at, kind }),
        };
        let needed = self.chunk_header + payload;
        if found != needed {
            return Err(SparseError::ChunkLength { number, at, found, needed });
        }
        if at + needed > self.length {
            return Err(SparseError::Truncated { number, at, missing: at + needed - self.length });
        }
        let end = self.blocks + blocks;
        if end > self.total.into() {
            return Err(SparseError::TooManyBlocks { number, at, end, total: self.total });
        }
        let data = at + self.chunk_header;
        match chunk.kind.get() {
            RAW => self.push(Kind::Raw(data), blocks),
            DONT_CARE => self.push(Kind::DontCare, blocks),
            FILL => self.push(Kind::Fill(self.word(data)?), blocks),
            _ if blocks == 0 => self.index.checksums.push((self.index.size, data, self.word(data)?)),
            _ => {
                let rule = "a checksum stands for none";
                return Err(SparseError::Header { field: "the blocks of a checksum", found: blocks, rule });
            }
        }
        (self.at, self.blocks, self.index.size) = (at + needed, end, self.bytes(end));
        Ok(())
    }

    fn bytes(&self, blocks: u64) -> u64 {
        blocks * u64::from(self.index.block_size)
    }

    fn word(&self, at: u64) -> Result<u32, SparseError> {
        let mut word = [0; 4];
        self.file.read_exact_at(&mut word, at).map_err(SparseError::io("read a chunk"))?;
        Ok(u32::from_le_bytes(word))
    }

    /// Adds a range; one that only continues the last one takes no memory.
    fn push(&mut self, kind: Kind, blocks: u64) {
        let (start, len) = (self.index.size, self.bytes(blocks));
        // A checksum in between is over whole ranges.
        let summed = self.index.checksums.last().is_some_and(|(end, ..)| *end == start);
        match self.index.extents.last_mut() {
            _ if len == 0 => {}
            Some(last) if last.kind == kind && !summed && !matches!(kind, Kind::Raw(_)) => last.len += len,
            _ => self.index.extents.push(Extent { start, len, kind }),
        }
    }
}
