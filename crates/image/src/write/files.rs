//! Reads the content of files in chunks, drops blocks of zeros, and compresses clusters.
use super::BLOCK;
use super::index::{Run, Runs};
use crate::content::Reading;
use crate::options::Compression;
use crate::tree::Index;
use crate::{Error, Result};
use segno_codec::ClusterEncoder;
use segno_format::BLOCK_SIZE;
use std::sync::Arc;

/// Bytes that are read at once: whole clusters of every size.
pub(crate) const READ_CHUNK: u64 = 1 << 20;

/// A chunk of a file that is to be read.
pub(crate) struct Job {
    pub(crate) inode: Index,
    pub(crate) from: Arc<Reading>,
    /// First byte, at the start of a cluster.
    pub(crate) start: u64,
    pub(crate) compression: Option<Compression>,
    /// Whether blocks of zeros are stored if the file is compressed.
    pub(crate) keep_zeros: bool,
    /// Whether this is the last chunk of the file.
    pub(crate) is_last: bool,
}

/// The stored form of a chunk of a file.
pub(crate) struct Stored {
    pub(crate) inode: Index,
    /// Where the blocks belong; their places count from the first one.
    pub(crate) runs: Runs,
    /// The blocks.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the file that were read.
    pub(crate) read: u64,
    pub(crate) is_last: bool,
}

/// Reads chunks of files; one for each thread.
#[derive(Default)]
pub(crate) struct Worker {
    encoder: Option<(Compression, ClusterEncoder)>,
    plain: Vec<u8>,
}

impl Worker {
    pub(crate) fn read(&mut self, job: Job) -> Result<Stored> {
        let len = (job.from.size() - job.start).min(READ_CHUNK);
        let mut stored = Stored {
            inode: job.inode,
            runs: Runs::default(),
            bytes: Vec::new(),
            read: len,
            is_last: job.is_last,
        };
        let first = u32::try_from(job.start / BLOCK).map_err(|_| Error::TooLarge)?;
        let padded = len.next_multiple_of(BLOCK) as usize;
        self.plain.clear();
        self.plain.resize(padded, 0);
        job.from.read(&mut self.plain, job.start)?;
        match job.compression {
            None => stored.add_plain(first, &self.plain, false),
            Some(compression) => self.compress(compression, job.keep_zeros, first, &mut stored)?,
        }
        if job.is_last {
            job.from.finish()?;
        }
        Ok(stored)
    }

    fn compress(
        &mut self,
        compression: Compression,
        keep_zeros: bool,
        first: u32,
        stored: &mut Stored,
    ) -> Result<()> {
        let encoder = match &mut self.encoder {
            Some((made_for, encoder)) if *made_for == compression => encoder,
            other => {
                let Compression { algorithm, level, log_blocks } = compression;
                let encoder = ClusterEncoder::new(algorithm, level, log_blocks, false);
                let encoder = encoder.map_err(|e| Error::Options(e.to_string()))?;
                &mut other.insert((compression, encoder)).1
            }
        };
        let cluster = BLOCK_SIZE << compression.log_blocks;
        let mut at = first;
        for plain in self.plain.chunks(cluster) {
            // A last cluster that is not whole stays plain, as for the kernel.
            let hole = !keep_zeros && is_zero(plain);
            match if hole { None } else { encoder.encode(plain) } {
                Some(blocks) => stored.add(at, blocks, true),
                None if hole => {}
                None => stored.add_plain(at, plain, keep_zeros),
            }
            at += (plain.len() / BLOCK_SIZE) as u32;
        }
        Ok(())
    }
}

impl Stored {
    /// Adds blocks. Blocks of zeros are left out, unless `keep_zeros` is set.
    fn add_plain(&mut self, first: u32, blocks: &[u8], keep_zeros: bool) {
        for (at, block) in (first..).zip(blocks.chunks(BLOCK_SIZE)) {
            if keep_zeros || !is_zero(block) {
                self.add(at, block, false);
            }
        }
    }

    fn add(&mut self, at: u32, blocks: &[u8], cluster: bool) {
        let rel = (self.bytes.len() / BLOCK_SIZE) as u32;
        self.runs.push(Run { at, rel, len: (blocks.len() / BLOCK_SIZE) as u32, cluster });
        self.bytes.extend_from_slice(blocks);
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|w| u128::from_le_bytes(*w) == 0) && rest.iter().all(|&b| b == 0)
}
