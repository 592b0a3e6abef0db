//! Requests of programs about compressed files (ioctls of F2FS).
use crate::error::{Error, Result};
use crate::files::{Inode, Parameters, check_compressed, check_release, saved_blocks};
use crate::options::CompressMode;
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use segno_codec::Algorithm;
use segno_format::{Features, Ino};
use std::sync::Arc;

/// Pages made dirty between two flushes.
const BUDGET: u64 = 1024;

impl Volume {
    fn compressible(&self, ino: Ino) -> Result<Arc<Inode>> {
        if !self.base.features.contains(Features::COMPRESSION) {
            return Err(Error::NotSupported("the volume was made without compression"));
        }
        self.files.inode(ino)
    }

    /// Blocks that compression saves in a file and that are reserved.
    pub fn compress_blocks(&self, ino: Ino) -> Result<u64> {
        self.admission.admit_read();
        let inode = self.compressible(ino)?;
        saved_blocks(&inode)
    }

    /// Releases the blocks that compression saves; the file cannot be changed until they are reserved again. Returns their number.
    pub fn release_compress_blocks(&self, ino: Ino) -> Result<u64> {
        self.admission.admit_change()?;
        let inode = self.compressible(ino)?;
        let mut locked = self.writeback.lock_flushed(&inode, |inode| check_release(inode, true))?;
        self.writeback.flush_locked(&inode, 0..u64::MAX, &mut locked.granted)?;
        self.files.packed.release(&self.nodes.gate.enter(), &inode)
    }

    /// Reserves the blocks that compression saves again, so that the file can be changed. Returns their number.
    pub fn reserve_compress_blocks(&self, ino: Ino) -> Result<u64> {
        self.admission.admit_change()?;
        let inode = self.compressible(ino)?;
        let _exclusive = inode.lock.write();
        check_release(&inode, false)?;
        self.files.packed.reserve(&self.nodes.gate.enter(), &inode)
    }

    /// Algorithm, as inodes store it, and logarithm of the cluster size of a compressed file.
    pub fn compress_option(&self, ino: Ino) -> Result<(u8, u8)> {
        self.admission.admit_read();
        let inode = self.compressible(ino)?;
        check_compressed(&inode).map_err(|_| Error::NoData)?;
        let p = inode.get(Parameters::of);
        Ok((p.algorithm, p.log_cluster))
    }

    /// Sets algorithm and cluster size of a compressed file without blocks. The level becomes the default.
    pub fn set_compress_option(&self, ino: Ino, algorithm: u8, log_cluster: u8) -> Result<()> {
        self.admission.admit_change()?;
        let inode = self.compressible(ino)?;
        let _exclusive = inode.lock.write();
        check_compressed(&inode)?;
        let known = Algorithm::from_disk(algorithm);
        let Some(known) = known.filter(|_| (2..=8).contains(&log_cluster)) else {
            return Err(Error::Invalid("no such algorithm or cluster size"));
        };
        let default = &self.base.opts.compression;
        let level = if known == default.algorithm { default.level } else { 0 };
        let how = Parameters { algorithm, log_cluster, ..Parameters::of_mount(default) }.with_level(level);
        self.names.set_compression(&inode, how)
    }

    /// Stores the clusters of a file uncompressed, or compressed where that saves blocks; with `compress_mode=user` only.
    pub fn rewrite_compressed(&self, ino: Ino, compress: bool) -> Result<()> {
        if self.base.opts.compression.mode != CompressMode::User {
            return Err(Error::NotSupported("programs compress files only with compress_mode=user"));
        }
        let inode = self.compressible(ino)?;
        inode.packing.store(compress, Ordering::Relaxed);
        let done = self.rewrite_clusters(&inode, compress);
        inode.packing.store(false, Ordering::Relaxed);
        done
    }

    fn rewrite_clusters(&self, inode: &Arc<Inode>, compress: bool) -> Result<()> {
        let mut next = Some(0);
        while let Some(at) = next {
            self.admission.admit_write(inode.ino)?;
            next = self.files.dirty_clusters(inode, at, !compress, BUDGET)?;
            self.writeback.flush_inode(inode, at..next.unwrap_or(u64::MAX))?;
        }
        Ok(())
    }
}
