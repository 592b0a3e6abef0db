//! Fields of an inode that can be judged by themselves.
use segno_format::dentry::{FileType, MAX_DEPTH};
use segno_format::inode::{Advise, Inline, InodeFlags, InodeLayout, RawInode};
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, Corrupt, Features, NAME_MAX, Nid, Structure};

const NSEC: u32 = 1_000_000_000;
/// Where the checksum ends in the extra attributes.
const CHECKSUM_END: u16 = 12;
/// Where what compression needs ends there.
const COMPRESSION_END: u16 = 36;
/// Compression algorithms the format knows.
const ALGORITHMS: u8 = 4;

/// Everything wrong with the fields.
pub(super) fn check(ino: u32, raw: &RawInode, layout: &InodeLayout, sb: &Superblock) -> Vec<Corrupt> {
    let mut judge = Judge { ino, raw, features: sb.features, found: Vec::new() };
    judge.sizes(layout);
    judge.inline();
    judge.features();
    judge.compression();
    judge.found
}

struct Judge<'a> {
    ino: u32,
    raw: &'a RawInode,
    features: Features,
    found: Vec<Corrupt>,
}

impl Judge<'_> {
    fn require(&mut self, ok: bool, why: &'static str, found: u64, expected: u64) {
        if !ok {
            self.found.push(Corrupt::nid(Structure::Inode, self.ino, why, found, expected));
        }
    }

    /// A flag that is set though it must not be.
    fn refuse(&mut self, set: bool, why: &'static str) {
        self.require(!set, why, 1, 0);
    }

    fn sizes(&mut self, layout: &InodeLayout) {
        let raw = self.raw;
        let kind = FileType::of_mode(raw.i_mode.get());
        self.require(kind != FileType::Unknown, "file type in i_mode", raw.i_mode.get().into(), 0o100_000);
        let name = raw.i_namelen.get();
        self.require(name as usize <= NAME_MAX, "i_namelen", name.into(), NAME_MAX as u64);
        self.require(
            raw.i_xattr_nid.get() != self.ino,
            "i_xattr_nid is the inode itself",
            self.ino.into(),
            0,
        );
        for (why, nsec) in [
            ("i_atime_nsec", raw.i_atime_nsec),
            ("i_ctime_nsec", raw.i_ctime_nsec),
            ("i_mtime_nsec", raw.i_mtime_nsec),
        ] {
            self.require(nsec.get() < NSEC, why, nsec.get().into(), NSEC.into());
        }
        let size = raw.extra().i_extra_isize.get();
        let summed = self.features.contains(Features::INODE_CHKSUM) && raw.has_extra(0);
        self.require(!summed || size >= CHECKSUM_END, "i_extra_isize", size.into(), CHECKSUM_END.into());
        let limit = layout.max_blocks().saturating_mul(BLOCK_SIZE as u64);
        self.require(raw.i_size.get() <= limit, "i_size", raw.i_size.get(), limit);
        if raw.is_dir() {
            let depth = raw.i_current_depth.get();
            self.require(depth <= MAX_DEPTH, "i_current_depth", depth.into(), MAX_DEPTH.into());
        }
    }

    fn inline(&mut self) {
        let raw = self.raw;
        let (inline, advise) = (raw.inline(), raw.advise());
        if inline.contains(Inline::DATA) {
            let holds = raw.is_reg() || raw.is_symlink();
            self.require(holds, "inline data in a file of this type", raw.i_mode.get().into(), 0o100_000);
            let opaque = advise.intersects(Advise::ENCRYPT | Advise::VERITY) || raw.is_compressed();
            self.refuse(raw.is_reg() && opaque, "inline data of an encrypted, verity or compressed file");
        }
        let dentry = inline.contains(Inline::DENTRY);
        self.refuse(dentry && !raw.is_dir(), "inline directory in a file of another type");
        // fsck.f2fs accepts it; Linux mounts no volume whose root has no block of its own.
        let root = dentry && self.ino == Nid::ROOT.0;
        self.refuse(root, "the root is an inline directory, and Linux does not mount the volume");
    }

    fn features(&mut self) {
        let (advise, flags) = (self.raw.advise(), self.raw.flags());
        let lacks = |f| !self.features.contains(f);
        let (encrypt, verity) = (lacks(Features::ENCRYPT), lacks(Features::VERITY));
        let (casefold, compression) = (lacks(Features::CASEFOLD), lacks(Features::COMPRESSION));
        let alias = lacks(Features::DEVICE_ALIAS);
        self.refuse(encrypt && advise.contains(Advise::ENCRYPT), "encrypted without the encrypt feature");
        self.refuse(verity && advise.contains(Advise::VERITY), "verity without the verity feature");
        self.refuse(
            casefold && flags.contains(InodeFlags::CASEFOLD),
            "casefold without the casefold feature",
        );
        let folded = flags.contains(InodeFlags::CASEFOLD) && !self.raw.is_dir();
        self.refuse(folded, "casefold flag on something else than a directory");
        self.refuse(
            compression && flags.contains(InodeFlags::COMPR),
            "compressed without the compression feature",
        );
        self.refuse(alias && flags.contains(InodeFlags::DEVICE_ALIAS), "device alias without the feature");
    }

    fn compression(&mut self) {
        let (raw, extra) = (self.raw, self.raw.extra());
        let both = InodeFlags::COMPR | InodeFlags::NOCOMP;
        self.refuse(raw.flags().contains(both), "both compressed and never to be compressed");
        if !self.features.contains(Features::COMPRESSION) {
            return;
        }
        if !raw.is_compressed() {
            let marked = raw.flags().contains(InodeFlags::COMPR) && raw.has_extra(COMPRESSION_END);
            let saved = extra.i_compr_blocks.get();
            self.require(!marked || saved == 0, "i_compr_blocks of what is no file", saved, 0);
            return;
        }
        let algorithm = extra.i_compress_algorithm;
        self.require(algorithm < ALGORITHMS, "i_compress_algorithm", algorithm.into(), ALGORITHMS.into());
        let (saved, blocks) = (extra.i_compr_blocks.get(), raw.i_blocks.get());
        self.require(saved < blocks, "i_compr_blocks against i_blocks", saved, blocks);
    }
}
