//! Reads the content of files in parts, drops blocks of zeros, and compresses clusters.
use super::BLOCK;
use crate::content::Reading;
use crate::options::Compression;
use crate::tree::Index;
use crate::{Error, Result};
use segno_codec::ClusterEncoder;
use segno_format::BLOCK_SIZE;
use std::sync::Arc;

/// Bytes that are read at once: whole clusters of every size.
pub(crate) const PART: u64 = 1 << 20;

/// A part of a file that is to be read.
pub(crate) struct Job {
    pub(crate) inode: Index,
    pub(crate) from: Arc<Reading>,
    /// First byte, at the start of a cluster.
    pub(crate) start: u64,
    pub(crate) compression: Option<Compression>,
    /// Whether blocks of zeros are stored if the file is compressed.
    pub(crate) keep_zeros: bool,
    /// Whether nothing of the file is left to read behind it.
    pub(crate) is_last: bool,
}

/// Blocks of a part of a file, next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First block in the file.
    pub(crate) at: u32,
    pub(crate) blocks: u32,
    /// Whether they are the stored blocks of a compressed cluster.
    pub(crate) cluster: bool,
}

/// What is stored of a part of a file.
pub(crate) struct Stored {
    pub(crate) inode: Index,
    pub(crate) pieces: Vec<Piece>,
    /// The blocks of all pieces.
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the file that were read.
    pub(crate) read: u64,
    pub(crate) is_last: bool,
}

/// Reads parts of files; one for each thread.
#[derive(Default)]
pub(crate) struct Worker {
    encoder: Option<(Compression, ClusterEncoder)>,
    plain: Vec<u8>,
}

impl Worker {
    pub(crate) fn read(&mut self, job: Job) -> Result<Stored> {
        let len = (job.from.size() - job.start).min(PART);
        let mut stored = Stored {
            inode: job.inode,
            pieces: Vec::new(),
            bytes: Vec::new(),
            read: len,
            is_last: job.is_last,
        };
        let first = u32::try_from(job.start / BLOCK).map_err(|_| Error::TooLarge)?;
        let padded = len.next_multiple_of(BLOCK) as usize;
        match job.compression {
            None => {
                stored.bytes = vec![0; padded];
                job.from.read(&mut stored.bytes, job.start)?;
                stored.drop_zeros(first);
            }
            Some(compression) => {
                self.plain.clear();
                self.plain.resize(padded, 0);
                job.from.read(&mut self.plain, job.start)?;
                self.compress(compression, job.keep_zeros, first, &mut stored)?;
            }
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
                Some(blocks) => {
                    let piece = Piece { at, blocks: (blocks.len() / BLOCK_SIZE) as u32, cluster: true };
                    stored.pieces.push(piece);
                    stored.bytes.extend_from_slice(blocks);
                }
                None if hole => {}
                None => stored.add_plain(at, plain, keep_zeros),
            }
            at += (plain.len() / BLOCK_SIZE) as u32;
        }
        Ok(())
    }
}

impl Stored {
    /// Adds blocks, without those that are zeros unless they are kept.
    fn add_plain(&mut self, first: u32, blocks: &[u8], keep_zeros: bool) {
        for (at, block) in (first..).zip(blocks.chunks(BLOCK_SIZE)) {
            if keep_zeros || !is_zero(block) {
                self.count(at);
                self.bytes.extend_from_slice(block);
            }
        }
    }

    /// Removes blocks of zeros from the bytes, which begin with block `first` of the file.
    fn drop_zeros(&mut self, first: u32) {
        let blocks = self.bytes.len() / BLOCK_SIZE;
        let mut kept = 0;
        for (i, at) in (0..blocks).zip(first..) {
            let from = i * BLOCK_SIZE;
            if is_zero(self.bytes.get(from..from + BLOCK_SIZE).unwrap_or_default()) {
                continue;
            }
            self.count(at);
            if kept != from {
                self.bytes.copy_within(from..from + BLOCK_SIZE, kept);
            }
            kept += BLOCK_SIZE;
        }
        self.bytes.truncate(kept);
    }

    fn count(&mut self, at: u32) {
        match self.pieces.last_mut() {
            Some(last) if !last.cluster && last.at + last.blocks == at => last.blocks += 1,
            _ => self.pieces.push(Piece { at, blocks: 1, cluster: false }),
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|w| u128::from_le_bytes(*w) == 0) && rest.iter().all(|&b| b == 0)
}
