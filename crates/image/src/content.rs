//! The content of regular files: blocks of zeros become holes, wherever the source has holes itself.
use crate::tree::Source;
use crate::{Error, Result};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use segno_format::BLOCK_SIZE;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const BUFFER: usize = 1 << 20;
const BLOCK: u64 = BLOCK_SIZE as u64;

/// Reads files through one buffer.
#[derive(Debug)]
pub(crate) struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; BUFFER] }
    }

    /// Calls `each` with the runs of blocks that are not zeros, in ascending order.
    pub(crate) fn read(
        &mut self,
        source: &Source,
        mut each: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let failed = |e: io::Error| Error::host("read", &source.path, e);
        let file = open(source)?;
        let mut offset = 0;
        while let Some(data) = next_data(&file, offset, source.size).map_err(failed)? {
            let start = data / BLOCK * BLOCK;
            let len = usize::try_from(source.size - start).map_or(BUFFER, |n| n.min(BUFFER));
            let bytes = self.buffer.get_mut(..len).unwrap_or_default();
            match file.read_exact_at(bytes, start) {
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(changed(source)),
                other => other.map_err(failed)?,
            }
            runs(bytes, |at, run| each(start + at as u64, run))?;
            offset = start + len as u64;
        }
        let meta = file.metadata().map_err(failed)?;
        if Source::of(source.path.clone(), &meta) == *source { Ok(()) } else { Err(changed(source)) }
    }
}

fn changed(source: &Source) -> Error {
    Error::Changed { path: source.path.clone() }
}

/// Opens the file itself, not what may have taken its place since.
fn open(source: &Source) -> Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(&source.path);
    let file = file.map_err(|e| Error::host("open", &source.path, e))?;
    let meta = file.metadata().map_err(|e| Error::host("read", &source.path, e))?;
    if Source::of(source.path.clone(), &meta) != *source {
        return Err(changed(source));
    }
    Ok(file)
}

/// The first byte at or after `offset` that is not in a hole of the source.
fn next_data(file: &File, offset: u64, size: u64) -> io::Result<Option<u64>> {
    if offset >= size {
        return Ok(None);
    }
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) => Ok(Some(data).filter(|d| *d < size)),
        Err(Errno::NXIO) => Ok(None),
        // A file system that cannot tell.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset)),
        Err(e) => Err(e.into()),
    }
}

/// Calls `each` with offset and bytes of every run of blocks that are not zeros.
fn runs(bytes: &[u8], mut each: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
    let is_zero = |block: &[u8]| block.iter().all(|&b| b == 0);
    let mut at = 0;
    for run in bytes.chunks(BLOCK_SIZE).collect::<Vec<_>>().chunk_by(|a, b| is_zero(a) == is_zero(b)) {
        let len = run.iter().map(|b| b.len()).sum::<usize>();
        if run.first().is_some_and(|first| !is_zero(first)) {
            each(at, bytes.get(at..at + len).unwrap_or_default())?;
        }
        at += len;
    }
    Ok(())
}
