//! Writes an image in the Android sparse format.
use crate::{Error, Result};
use segno_format::BLOCK_SIZE;
use segno_host::directory_of;
use segno_sparse::{RAW_MAX, Writer};
use std::fs::File;
use std::io::BufWriter;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

const CHUNK: u64 = 1 << 20;
const BLOCK: u64 = BLOCK_SIZE as u64;

/// An unnamed file for the raw image, in the directory of the image.
pub(crate) fn scratch(target: &File, image: &Path) -> Result<File> {
    // The target may have no name yet, but it is in a directory.
    let path = std::fs::read_link(format!("/proc/self/fd/{}", target.as_raw_fd()));
    let path = path.as_deref().unwrap_or(image);
    tempfile::tempfile_in(directory_of(path)).map_err(|e| Error::host("create a file beside", image, e))
}

/// Converts a raw image of `bytes` bytes, in which the blocks of `used` are in use. Other blocks are not
/// stored: flash keeps its old content there.
pub(crate) fn pack(
    raw: &File,
    bytes: u64,
    used: &[Range<u64>],
    (target, path): (&File, &Path),
) -> Result<()> {
    let failed = |e| Error::host("write", path, e);
    target.set_len(0).map_err(failed)?;
    let mut out = Writer::new(BufWriter::with_capacity(1 << 18, target), BLOCK_SIZE as u32, RAW_MAX)?;
    let (mut done, mut buffer) = (0, vec![0; CHUNK as usize]);
    for range in used {
        out.skip((range.start - done) as u32)?;
        let end = range.end * BLOCK;
        for at in (range.start * BLOCK..end).step_by(CHUNK as usize) {
            let chunk = buffer.get_mut(..(end - at).min(CHUNK) as usize).unwrap_or_default();
            raw.read_exact_at(chunk, at).map_err(failed)?;
            out.write(chunk)?;
        }
        done = range.end;
    }
    out.skip((bytes / BLOCK - done) as u32)?;
    out.finish()?.into_inner().map_err(|e| failed(e.into_error()))?;
    Ok(())
}
