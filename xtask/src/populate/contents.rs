//! Operations on what is in files.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, IFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;
use segno_testkit::Rng;

use super::Worker;
use crate::errno;

const BLOCK: u64 = 4096;
/// Addresses in an inode, and in a direct node block; features take some from the first.
const ADDRS_PER_INODE: u64 = 923;
const ADDRS_PER_BLOCK: u64 = 1018;
/// Around what fits into an inode, and around blocks.
const EDGE_SIZES: [u64; 16] =
    [0, 1, 59, 60, 100, 1000, 3288, 3400, 3488, 3489, 3688, 3692, 4095, 4096, 4097, 8192];

impl Worker {
    pub(super) fn create_file(&mut self) -> Result<()> {
        let size = match self.rng.below(10) {
            0..=4 => self.rng.choose(&EDGE_SIZES).copied().unwrap_or(0),
            5..=7 => self.rng.below(40_000),
            8 => self.rng.below(400_000),
            // From the last address in the inode into the first direct node.
            _ => ADDRS_PER_INODE * BLOCK - 300_000 + self.rng.below(600_000),
        };
        let size = if self.spend(size) { size } else { self.rng.below(100) };
        let (path, file) = self.new_file()?;
        let bytes = random_bytes(&mut self.rng, size);
        write_at(&file, &bytes, 0, &path)?;
        if self.rng.chance(10) {
            file.sync_all().with_context(|| format!("fsync of {}", path.display()))?;
        }
        Ok(())
    }

    /// Blocks written far apart in time, so that the file is fragmented.
    pub(super) fn create_fragmented(&mut self) -> Result<()> {
        let blocks = self.rng.between(4, 40);
        if !self.spend(blocks * BLOCK) {
            return Ok(());
        }
        let (path, file) = self.new_file()?;
        for start in [1, 0] {
            for block in (start..blocks).step_by(2) {
                let bytes = random_bytes(&mut self.rng, BLOCK);
                write_at(&file, &bytes, block * BLOCK, &path)?;
            }
            file.sync_data().with_context(|| format!("fdatasync of {}", path.display()))?;
        }
        Ok(())
    }

    /// A few bytes at the edges of each level of the block map: inode, direct, indirect, double indirect nodes.
    pub(super) fn create_sparse(&mut self) -> Result<()> {
        if !self.spend(32 * BLOCK) {
            return Ok(());
        }
        let (path, file) = self.new_file()?;
        let indirect = ADDRS_PER_BLOCK * ADDRS_PER_BLOCK;
        let levels = [
            0,
            ADDRS_PER_INODE,
            ADDRS_PER_INODE + ADDRS_PER_BLOCK,
            ADDRS_PER_INODE + 2 * ADDRS_PER_BLOCK,
            ADDRS_PER_INODE + 3 * ADDRS_PER_BLOCK,
            ADDRS_PER_INODE + 2 * ADDRS_PER_BLOCK + indirect,
            ADDRS_PER_INODE + 2 * ADDRS_PER_BLOCK + 2 * indirect,
            ADDRS_PER_INODE + 3 * ADDRS_PER_BLOCK + 2 * indirect,
        ];
        for level in levels {
            if self.rng.chance(40) {
                // Inline attributes and the extra area move the edge by up to 60 blocks.
                let block = (level + self.rng.below(3)).saturating_sub(self.rng.below(62));
                let length = self.rng.between(1, 2 * BLOCK);
                let offset = block * BLOCK + self.rng.below(BLOCK);
                let bytes = random_bytes(&mut self.rng, length);
                write_at(&file, &bytes, offset, &path)?;
            }
        }
        if self.rng.chance(30) {
            let size = self.rng.below(16 << 30);
            file.set_len(size).with_context(|| format!("truncating {} to {size}", path.display()))?;
        }
        Ok(())
    }

    /// The flag has to be there before the first byte.
    pub(super) fn create_compressed(&mut self) -> Result<()> {
        let size = self.rng.between(1, 200_000);
        if !self.spend(size) {
            return Ok(());
        }
        let (path, file) = self.new_file()?;
        let set = ioctl_getflags(&file).and_then(|flags| ioctl_setflags(&file, flags | IFlags::COMPRESSED));
        self.skips.attempt("compression flag", set, &[Errno::INVAL])?;
        let bytes = random_bytes(&mut self.rng, size);
        write_at(&file, &bytes, 0, &path)?;
        Ok(())
    }

    pub(super) fn overwrite(&mut self) -> Result<()> {
        let Some((path, file, size)) = self.open_any()? else { return Ok(()) };
        let length = self.rng.between(1, 20_000);
        let offset = self.rng.below(size + 1);
        self.write_more("overwriting", &file, length, offset, &path)
    }

    pub(super) fn append(&mut self) -> Result<()> {
        let Some((path, file, size)) = self.open_any()? else { return Ok(()) };
        let length = self.rng.between(1, 9000);
        self.write_more("appending", &file, length, size, &path)
    }

    /// Into a file as it is: a server may not write to all that it can read.
    fn write_more(
        &mut self,
        what: &'static str,
        file: &File,
        length: u64,
        offset: u64,
        path: &Path,
    ) -> Result<()> {
        if self.spend(length) {
            let written = file.write_all_at(&random_bytes(&mut self.rng, length), offset);
            let written = self.attempt(what, written.map_err(|error| errno::of(&error)));
            written.with_context(|| format!("{length} bytes at {offset} of {}", path.display()))?;
        }
        Ok(())
    }

    pub(super) fn truncate(&mut self) -> Result<()> {
        let Some((path, file, size)) = self.open_any()? else { return Ok(()) };
        let size = match self.rng.below(6) {
            0 => 0,
            1 => size + self.rng.below(100_000),
            2 => size / BLOCK * BLOCK,
            _ => self.rng.below(size + 1),
        };
        let done = self.attempt("truncating", file.set_len(size).map_err(|error| errno::of(&error)));
        done.with_context(|| format!("{} to {size}", path.display()))?;
        Ok(())
    }

    pub(super) fn fallocate(&mut self) -> Result<()> {
        let Some((path, file, size)) = self.open_any()? else { return Ok(()) };
        let (what, flags) = match self.rng.below(7) {
            0 => ("fallocate", FallocateFlags::empty()),
            1 => ("fallocate keep-size", FallocateFlags::KEEP_SIZE),
            2 => ("fallocate zero-range", FallocateFlags::ZERO_RANGE),
            3 => ("fallocate zero-range keep-size", FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE),
            4 => ("fallocate collapse-range", FallocateFlags::COLLAPSE_RANGE),
            5 => ("fallocate insert-range", FallocateFlags::INSERT_RANGE),
            _ => ("fallocate punch-hole", FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
        };
        let moves = flags.intersects(FallocateFlags::COLLAPSE_RANGE | FallocateFlags::INSERT_RANGE);
        let (mut offset, mut length) = (self.rng.below(size.min(1 << 22) + 1), self.rng.between(1, 80_000));
        if moves {
            (offset, length) = (offset / BLOCK * BLOCK, length.next_multiple_of(BLOCK));
            let beyond = if flags == FallocateFlags::COLLAPSE_RANGE { offset + length } else { offset };
            // Refused by definition at the end of the file; and moving a huge sparse file takes minutes.
            if beyond >= size || size > 1 << 24 {
                return Ok(());
            }
        }
        if self.spend(length) {
            let done = rustix::fs::fallocate(&file, flags, offset, length);
            self.attempt(what, done).with_context(|| format!("{}, {offset} +{length}", path.display()))?;
        }
        Ok(())
    }

    fn new_file(&mut self) -> Result<(PathBuf, File)> {
        let path = self.tree.fresh(&self.root, &mut self.rng)?;
        let file =
            File::create_new(self.full(&path)).with_context(|| format!("creating {}", path.display()))?;
        self.tree.files.push(path.clone());
        Ok((path, file))
    }

    fn open_any(&mut self) -> Result<Option<(PathBuf, File, u64)>> {
        let Some(path) = self.any_file() else { return Ok(None) };
        let file = OpenOptions::new().read(true).write(true).open(self.full(&path));
        let file = self.attempt("open for writing", file.map_err(|error| errno::of(&error)));
        let Some(file) = file.with_context(|| path.display().to_string())? else { return Ok(None) };
        let size = file.metadata().with_context(|| format!("fstat of {}", path.display()))?.len();
        Ok(Some((path, file, size)))
    }
}

fn write_at(file: &File, bytes: &[u8], offset: u64, path: &Path) -> Result<()> {
    file.write_all_at(bytes, offset)
        .with_context(|| format!("writing {} bytes at {offset} of {}", bytes.len(), path.display()))
}

/// Bytes to fill a file with: noise, text that compresses, or a mixture with zeros.
pub fn random_bytes(rng: &mut Rng, length: u64) -> Vec<u8> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let style = rng.below(3);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        let word = rng.draw();
        match style {
            0 => bytes.extend_from_slice(&word.to_le_bytes()),
            1 => bytes.extend_from_slice(format!("line {} ", word % 100).as_bytes()),
            _ => bytes.resize(bytes.len() + 1 + (word % 512) as usize, (word >> 32) as u8 & 1),
        }
    }
    bytes.truncate(length);
    bytes
}
