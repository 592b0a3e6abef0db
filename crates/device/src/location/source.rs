//! The bytes that tables and superblocks are read from, without use of them being announced.
use crate::DeviceError;
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, Block, BlockAddr};
use segno_layout::{Reader, superblock_in_force};
use segno_sparse::Index;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use zerocopy::IntoBytes;

/// Bytes of a file or device; for an Android sparse image, the bytes of its raw image.
pub(super) trait Source {
    fn len(&self) -> u64;
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;

    /// `len` bytes; `None` if the source ends before.
    fn bytes(&self, offset: u64, len: usize) -> io::Result<Option<Vec<u8>>> {
        if offset.checked_add(len as u64).is_none_or(|end| end > self.len()) {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        self.read_at(&mut bytes, offset)?;
        Ok(Some(bytes))
    }
}

struct Raw {
    file: File,
    len: u64,
}

struct Sparse {
    file: File,
    index: Index,
}

/// Opens a file or block device. The caller has made sure that it is one.
pub(super) fn open(path: &Path) -> Result<Box<dyn Source>, DeviceError> {
    let failed = |e| DeviceError::io("open", path, e);
    let mut file = File::open(path).map_err(failed)?;
    if Index::is_sparse(&file).map_err(failed)? {
        let index = Index::read(&file).map_err(|e| failed(e.into()))?;
        return Ok(Box::new(Sparse { file, index }));
    }
    let len = file.seek(SeekFrom::End(0)).map_err(failed)?;
    Ok(Box::new(Raw { file, len }))
}

impl Source for Raw {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }
}

impl Source for Sparse {
    fn len(&self) -> u64 {
        self.index.size
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.index.read_at(&self.file, into, offset)
    }
}

/// A source that is read from one position on, from a byte of another one on.
pub(super) struct Cursor<'a> {
    source: &'a dyn Source,
    start: u64,
    at: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn from(source: &'a dyn Source, start: u64) -> Self {
        Self { source, start, at: 0 }
    }
}

impl Read for Cursor<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let offset = self.start.saturating_add(self.at);
        let left = usize::try_from(self.source.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let part = into.get_mut(..left.min(into.len())).unwrap_or_default();
        self.source.read_at(part, offset)?;
        self.at = self.at.saturating_add(part.len() as u64);
        Ok(part.len())
    }
}

impl Seek for Cursor<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.source.len().saturating_sub(self.start).checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// The blocks of a range of a source.
struct Blocks<'a> {
    source: &'a dyn Source,
    bytes: Range<u64>,
}

impl Reader for Blocks<'_> {
    type Error = io::Error;

    fn end(&self) -> u32 {
        let blocks = (self.bytes.end - self.bytes.start) / BLOCK_SIZE as u64;
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    fn read_block(&self, at: BlockAddr) -> io::Result<Option<Block>> {
        if at.0 >= self.end() {
            return Ok(None);
        }
        let mut block = Block::zeroed();
        let offset = u64::from(at.0).saturating_mul(BLOCK_SIZE as u64);
        self.source.read_at(block.as_mut_bytes(), self.bytes.start.saturating_add(offset))?;
        Ok(Some(block))
    }
}

/// The superblock in force of a volume that begins with a range, if there is one.
pub(super) fn superblock(source: &dyn Source, bytes: Range<u64>) -> io::Result<Option<Superblock>> {
    if bytes.start >= bytes.end {
        return Ok(None);
    }
    Ok(superblock_in_force(&Blocks { source, bytes })?.ok())
}

/// The length that a volume has by its superblock.
pub(super) fn volume_bytes(source: &dyn Source, bytes: Range<u64>) -> io::Result<Option<u64>> {
    let blocks = superblock(source, bytes)?.map(|sb| sb.device_blocks().0);
    Ok(blocks.map(|blocks| blocks.saturating_mul(BLOCK_SIZE as u64)))
}
