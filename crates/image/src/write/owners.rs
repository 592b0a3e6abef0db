//! The quota files, which count what belongs to whom.
use super::BLOCK;
use super::footer::footer;
use super::plan::Plan;
use crate::tree::{ROOT, Tree};
use crate::{Error, Result};
use segno_format::inode::{EXTRA_ISIZE_MAX, Inline, InodeFlags, RawExtraAttr, RawInode, seal_checksum};
use segno_format::quota::{QUOTA_KINDS, QuotaEntry, QuotaTable};
use segno_format::{Block, BlockAddr, Features, Ino};
use zerocopy::FromZeros;
use zerocopy::little_endian::{U16, U32, U64};

/// A quota file.
#[derive(Clone, Debug)]
pub(crate) struct QuotaFile {
    /// 0 for users, 1 for groups, 2 for projects.
    pub(crate) kind: usize,
    pub(crate) ino: Ino,
    table: QuotaTable,
    /// First block in the main area.
    pub(crate) rel: u32,
}

impl QuotaFile {
    /// The quota files of a volume. Their sizes follow from the ids that own anything.
    pub(crate) fn all(inos: [Option<Ino>; QUOTA_KINDS], tree: &Tree) -> Vec<Self> {
        let mut files: Vec<Self> = (0..)
            .zip(inos)
            .filter_map(|(kind, ino)| Some(Self { kind, ino: ino?, table: QuotaTable::default(), rel: 0 }))
            .collect();
        for inode in &tree.inodes {
            let ids = [inode.uid, inode.gid, inode.projid];
            files.iter_mut().for_each(|f| f.entry(ids).inodes += 1);
        }
        files
    }

    fn entry(&mut self, ids: [u32; QUOTA_KINDS]) -> &mut QuotaEntry {
        let id = ids.get(self.kind).copied().unwrap_or_default();
        self.table.entries.entry(id).or_default()
    }

    /// Counts the blocks of an inode; its own block does not count.
    pub(crate) fn count(&mut self, ids: [u32; QUOTA_KINDS], blocks: u64) {
        self.entry(ids).bytes += blocks.saturating_sub(1) * BLOCK;
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.table.to_bytes(self.kind)
    }
}

impl Plan<'_> {
    /// The inode of a quota file, whose blocks are next to each other.
    pub(crate) fn quota_inode(&self, file: &QuotaFile, blocks: u32, main: u32, rel: u32) -> Result<Block> {
        let root = self.tree.get(ROOT)?;
        let mut block = Block::zeroed();
        let raw: &mut RawInode = block.view_mut();
        raw.i_mode = U16::new(0o100_600);
        (raw.i_uid, raw.i_gid) = (U32::new(root.uid), U32::new(root.gid));
        raw.i_links = U32::new(1);
        raw.i_size = U64::new(file.bytes().len() as u64);
        raw.i_blocks = U64::new(1 + u64::from(blocks));
        [raw.i_atime, raw.i_ctime, raw.i_mtime] = [U64::new(root.time.secs.cast_unsigned()); 3];
        raw.i_flags = U32::new(InodeFlags::IMMUTABLE.bits());
        if self.features.contains(Features::EXTRA_ATTR) {
            raw.i_inline = Inline::EXTRA_ATTR.bits();
            let isize = U16::new(EXTRA_ISIZE_MAX);
            raw.set_extra(&RawExtraAttr { i_extra_isize: isize, ..RawExtraAttr::new_zeroed() });
        }
        let layout = raw.layout(self.features).map_err(|_| Error::Invariant("a quota inode is legal"))?;
        if blocks > layout.slots {
            return Err(Error::Options(format!("too many owners for quota: their list has {blocks} blocks")));
        }
        for i in 0..blocks {
            raw.set_slot(&layout, i, BlockAddr(main + file.rel + i));
        }
        raw.footer = footer(file.ino.nid(), file.ino, 0, false, main + rel);
        seal_checksum(&mut block, self.features, self.checksum_seed());
        Ok(block)
    }
}
