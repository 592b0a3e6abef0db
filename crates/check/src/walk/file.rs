//! What is known about one file while its index is walked.
use super::Via;
use segno_format::inode::{Inline, InodeFlags, InodeLayout, RawExtent, RawInode};
use segno_format::{BlockAddr, Features};

pub(super) struct File {
    pub ino: u32,
    pub layout: InodeLayout,
    pub is_dir: bool,
    /// Blocks in a cluster; 0 when the file is not compressed.
    pub cluster: u32,
    /// Whether space saved by compression was given back.
    pub released: bool,
    pub ext: RawExtent,
    /// Blocks that count in i_blocks, the inode among them.
    pub blocks: u64,
    /// Blocks that compression saved.
    pub saved: u64,
    /// Blocks of the cached extent that the index confirms.
    pub ext_hits: u64,
    /// Place of file block 0.
    pub first: Option<BlockAddr>,
    /// Blocks in file order, of directories and quota files: their contents are checked too.
    pub kept: Option<Vec<(u64, BlockAddr)>>,
    /// One past the last file block that has a slot in use.
    pub end: u64,
}

impl File {
    pub(super) fn new(ino: u32, raw: &RawInode, layout: InodeLayout, features: Features, via: Via) -> Self {
        let compressed = raw.is_compressed() && features.contains(Features::COMPRESSION);
        Self {
            ino,
            layout,
            is_dir: raw.is_dir(),
            cluster: if compressed { 1 << raw.extra().i_log_cluster_size.min(8) } else { 0 },
            released: raw.inline().contains(Inline::COMPRESS_RELEASED),
            ext: raw.i_ext,
            blocks: 1,
            saved: 0,
            ext_hits: 0,
            first: None,
            kept: (raw.is_dir() || via == Via::Quota).then(Vec::new),
            end: 0,
        }
    }

    /// Notes that file block `b` is at `addr`.
    pub(super) fn note(&mut self, b: u64, addr: BlockAddr) {
        if b == 0 {
            self.first = Some(addr);
        }
        if let Some(kept) = &mut self.kept {
            kept.push((b, addr));
        }
        let at = b.wrapping_sub(self.ext.fofs.get().into());
        if at < u64::from(self.ext.len.get()) && u64::from(addr.0) == u64::from(self.ext.blk.get()) + at {
            self.ext_hits = self.ext_hits.saturating_add(1);
        }
    }
}

/// Whether the inode stands for a whole device and has no index.
pub(super) fn is_device_alias(raw: &RawInode, features: Features) -> bool {
    features.contains(Features::DEVICE_ALIAS) && raw.flags().contains(InodeFlags::DEVICE_ALIAS)
}
