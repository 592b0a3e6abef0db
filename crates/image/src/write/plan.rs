//! The contents of a build and the form in which they are stored.
use crate::options::Compression;
use crate::tree::{Choice, Index, ROOT, Tree};
use segno_engine::temperature;
use segno_format::inode::{Advise, InodeFlags};
use segno_format::sit::LogType;
use segno_format::superblock::RawSuperblock;
use segno_format::{Features, Ino, crc};

/// Inodes are numbered in the order of the tree; other nodes have higher numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    /// Number of the first inode after the root.
    first: u32,
    /// The first that is left for other nodes.
    pub(crate) behind: u32,
}

impl Numbers {
    pub(crate) fn new(quota_files: u32, inodes: u32) -> Self {
        let first = Ino::ROOT.0 + 1 + quota_files;
        Self { first, behind: first + inodes.saturating_sub(1) }
    }

    pub(crate) fn inode(&self, index: Index) -> Ino {
        if index == ROOT { Ino::ROOT } else { Ino(self.first + index as u32 - 1) }
    }
}

pub(crate) struct Plan<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) numbers: Numbers,
    pub(crate) features: Features,
    /// Before the size of the volume is known: identity and extension lists.
    pub(crate) superblock: RawSuperblock,
    /// Regular files in the order of their data.
    pub(crate) order: Vec<Index>,
    pub(crate) threads: usize,
    pub(crate) compression: Option<Compression>,
    /// Whether space that compression saves is free.
    pub(crate) released: bool,
}

impl Plan<'_> {
    pub(crate) fn read_only(&self) -> bool {
        self.features.contains(Features::RO)
    }

    /// How a file is compressed.
    pub(crate) fn compression_of(&self, index: Index) -> Option<Compression> {
        let inode = self.tree.inodes.get(index)?;
        match inode.compress {
            Some(Choice::Plain) => None,
            Some(Choice::With(compression)) => Some(compression),
            None if inode.flags.contains(InodeFlags::NOCOMP) => None,
            None => self.compression,
        }
    }

    /// Whether a file has no holes, not even for zeros. Linux 6.1 caches the extent of each cluster of a
    /// compressed file on a read-only volume as if all of its blocks followed the first one, so it would read
    /// other bytes in place of a hole.
    pub(crate) fn keeps_zeros(&self, index: Index) -> bool {
        self.read_only() && self.compression_of(index).is_some()
    }

    /// The log that the content of a file goes to.
    pub(crate) fn log_of(&self, index: Index) -> LogType {
        if self.read_only() {
            return LogType::HotData;
        }
        match self.temperature(index) {
            Advise::HOT => LogType::HotData,
            Advise::COLD => LogType::ColdData,
            _ if self.compression_of(index).is_some() => LogType::ColdData,
            _ => LogType::WarmData,
        }
    }

    /// Temperature of a file's data, according to its name.
    pub(crate) fn temperature(&self, index: Index) -> Advise {
        self.tree.get(index).map_or(Advise::empty(), |i| temperature(&self.superblock, &i.name))
    }

    /// Seed of the checksums of inodes.
    pub(crate) fn checksum_seed(&self) -> u32 {
        crc(u32::MAX, &self.superblock.uuid)
    }
}
