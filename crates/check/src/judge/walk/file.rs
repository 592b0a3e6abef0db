//! State of one file while its index is walked.
use crate::report::{Kind, Rules};
use segno_codec::Algorithm;
use segno_format::cluster::CHECKSUM;
use segno_format::inode::{Advise, Inline, InodeLayout, RawExtent, RawInode};
use segno_format::{BlockAddr, Features, Structure, Unit};

/// How clusters are stored.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    pub algorithm: Algorithm,
    pub checksum: bool,
}

/// How the clusters of an inode are stored; `None` if their content cannot be judged: it is encrypted, or the
/// algorithm is unknown, which is reported as a field.
fn packed(raw: &RawInode) -> Option<Packed> {
    let extra = raw.extra();
    let algorithm = Algorithm::from_disk(extra.i_compress_algorithm)?;
    let checksum = extra.i_compress_flag.get() & CHECKSUM != 0;
    (!raw.advise().contains(Advise::ENCRYPT)).then_some(Packed { algorithm, checksum })
}

pub(super) struct File {
    pub ino: u32,
    pub layout: InodeLayout,
    pub is_dir: bool,
    /// Blocks in a cluster; 0 when the file is not compressed.
    pub cluster: u32,
    /// How they are stored, where that can be judged.
    pub packed: Option<Packed>,
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
    /// Blocks of directories and quota files in file order, because their contents are checked too.
    pub kept: Option<Vec<(u64, BlockAddr)>>,
    /// One past the last file block that has a slot in use.
    pub end: u64,
}

impl File {
    pub(super) fn new(ino: u32, raw: &RawInode, layout: InodeLayout, features: Features) -> Self {
        let compressed = raw.is_compressed() && features.contains(Features::COMPRESSION);
        Self {
            ino,
            layout,
            is_dir: raw.is_dir(),
            cluster: if compressed { 1 << raw.extra().i_log_cluster_size.min(8) } else { 0 },
            packed: packed(raw).filter(|_| compressed),
            released: raw.inline().contains(Inline::COMPRESS_RELEASED),
            ext: raw.i_ext,
            blocks: 1,
            saved: 0,
            ext_hits: 0,
            first: None,
            kept: None,
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

    /// Rules for the inode.
    pub(super) fn rules(&self, kind: Kind) -> Rules {
        Rules::new(kind, Structure::Inode, Unit::Nid, self.ino)
    }

    /// The counts of the inode against what its index has.
    pub(super) fn counts(&self, raw: &RawInode, features: Features) -> Rules {
        let mut rules = self.rules(Kind::InodeBlocks);
        rules.equal("i_blocks", raw.i_blocks.get(), self.blocks);
        // A read-only image may keep extents of compressed files, which do not follow the index.
        let free = features.contains(Features::RO) && self.cluster != 0;
        let (hits, len) = (self.ext_hits, u64::from(self.ext.len.get()));
        let fits = hits == len || free;
        rules.of(Kind::InodeExtent).require(fits, "blocks of i_ext that the index has", hits, len);
        if self.cluster != 0 {
            let saved = if self.released { 0 } else { self.saved };
            rules.of(Kind::ComprBlocks).equal("i_compr_blocks", raw.extra().i_compr_blocks.get(), saved);
        }
        rules
    }
}
