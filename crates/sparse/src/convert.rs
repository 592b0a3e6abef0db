//! Conversion of files, as img2simg and simg2img do it.
use crate::crc::add_words;
use crate::{Index, Kind, SparseError, Writer};
use crc32fast::Hasher;
use rustix::fs::{SeekFrom, seek, tell};
use rustix::io::Errno;
use std::fs::File;
use std::io::{BufWriter, Read};
use std::os::unix::fs::FileExt;

const BUFFER: usize = 1 << 20;

/// How a wrong checksum is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Report it: libsparse stores wrong ones for images with gaps or fills.
    Report,
    /// Refuse the image.
    Require,
}

/// Writes a raw image as a sparse one, from the current position of the file. The last block is padded with
/// zeros. Blocks of zeros become fills and not gaps, because they may be read; a padded block is stored as it
/// is, as img2simg does. Returns the bytes of the image.
pub fn pack(raw: &File, sparse: File, block_size: u32) -> Result<u64, SparseError> {
    let mut writer = Writer::new(BufWriter::with_capacity(BUFFER, sparse), block_size, u32::MAX)?;
    let part = BUFFER.next_multiple_of(block_size as usize);
    let mut buffer = Vec::with_capacity(part);
    let mut total = 0;
    loop {
        let blocks = hole(raw, block_size).map_err(SparseError::io("seek in the image"))?;
        writer.fill(0, blocks)?;
        total += u64::from(blocks) * u64::from(block_size);
        buffer.clear();
        let got =
            raw.take(part as u64).read_to_end(&mut buffer).map_err(SparseError::io("read the image"))?;
        let full = got - got % block_size as usize;
        buffer.resize(got.next_multiple_of(block_size as usize), 0);
        let (full, last) = buffer.split_at(full);
        writer.write(full)?;
        writer.raw(last)?;
        total += got as u64;
        if got < part {
            break;
        }
    }
    writer.finish()?;
    Ok(total)
}

/// Moves the position over a hole, in whole blocks. If the file system does not report holes, they are read.
fn hole(raw: &File, block_size: u32) -> std::io::Result<u32> {
    let Ok(start) = tell(raw) else { return Ok(0) };
    let data = match seek(raw, SeekFrom::Data(start)) {
        Ok(data) => data,
        // All that follows is a hole.
        Err(Errno::NXIO) => seek(raw, SeekFrom::End(0))?,
        Err(_) => start,
    };
    // More blocks than an image can have are refused when they are added.
    let blocks = u32::try_from(data.saturating_sub(start) / u64::from(block_size)).unwrap_or(u32::MAX);
    seek(raw, SeekFrom::Start(start + u64::from(blocks) * u64::from(block_size)))?;
    Ok(blocks)
}

/// Writes the image of a sparse file, or of the parts of a split one in order, to an empty file. Returns the
/// mismatches of checksums that were only to be reported.
pub fn unpack(parts: &[File], raw: &File, checksum: Checksum) -> Result<Vec<SparseError>, SparseError> {
    let (mut size, mut mismatches) = (None, Vec::new());
    for (number, part) in parts.iter().enumerate() {
        let index = Index::read(part)?;
        let first = *size.get_or_insert(index.size);
        if first != index.size {
            return Err(SparseError::SizesDiffer { first, other: index.size });
        }
        raw.set_len(first).map_err(SparseError::io("set the size of the image"))?;
        let mut copy = Copy { part, raw, fresh: number == 0, buffer: vec![0; BUFFER] };
        copy.all(&index, checksum, &mut mismatches)?;
    }
    Ok(mismatches)
}

struct Copy<'f> {
    part: &'f File,
    raw: &'f File,
    /// Whether the image still reads as zeros where nothing was written.
    fresh: bool,
    buffer: Vec<u8>,
}

impl Copy<'_> {
    fn all(
        &mut self,
        index: &Index,
        checksum: Checksum,
        mismatches: &mut Vec<SparseError>,
    ) -> Result<(), SparseError> {
        let mut sums = index.checksums.iter().peekable();
        let mut hasher = sums.peek().is_some().then(Hasher::new);
        let ends = index.extents.iter().map(|e| (e.start, Some(e))).chain([(index.size, None)]);
        for (start, extent) in ends {
            while let Some((_, at, stored)) = sums.next_if(|(end, ..)| *end <= start) {
                let computed = hasher.clone().map_or(0, Hasher::finalize);
                if computed == *stored {
                    continue;
                }
                let wrong = SparseError::Checksum { at: *at, stored: *stored, computed };
                match checksum {
                    Checksum::Require => return Err(wrong),
                    Checksum::Report => mismatches.push(wrong),
                }
            }
            let Some(extent) = extent else { break };
            match extent.kind {
                Kind::Raw(at) => self.raw(at, extent.start, extent.len, hasher.as_mut())?,
                Kind::Fill(word) => {
                    if word != 0 || !self.fresh {
                        self.fill(word, extent.start, extent.len)?;
                    }
                    hasher.iter_mut().for_each(|h| add_words(h, word, extent.len / 4));
                }
                Kind::DontCare => hasher.iter_mut().for_each(|h| add_words(h, 0, extent.len / 4)),
            }
        }
        Ok(())
    }

    fn raw(
        &mut self,
        from: u64,
        to: u64,
        len: u64,
        mut hasher: Option<&mut Hasher>,
    ) -> Result<(), SparseError> {
        for done in (0..len).step_by(BUFFER) {
            let now = prefix(&mut self.buffer, len - done);
            self.part.read_exact_at(now, from + done).map_err(SparseError::io("read a chunk"))?;
            if let Some(hasher) = &mut hasher {
                hasher.update(now);
            }
            self.raw.write_all_at(now, to + done).map_err(SparseError::io("write the image"))?;
        }
        Ok(())
    }

    fn fill(&mut self, word: u32, to: u64, len: u64) -> Result<(), SparseError> {
        self.buffer.as_chunks_mut::<4>().0.fill(word.to_le_bytes());
        for done in (0..len).step_by(BUFFER) {
            let now = prefix(&mut self.buffer, len - done);
            self.raw.write_all_at(now, to + done).map_err(SparseError::io("write the image"))?;
        }
        Ok(())
    }
}

/// The start of a buffer, up to the remaining length.
fn prefix(buffer: &mut [u8], remaining: u64) -> &mut [u8] {
    let len = (buffer.len() as u64).min(remaining) as usize;
    buffer.get_mut(..len).unwrap_or_default()
}
