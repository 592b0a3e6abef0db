//! Fields of an inode that can be judged by themselves.
use super::file::File;
use crate::report::{Kind, Rules};
use segno_format::dentry::{FileType, MAX_DEPTH};
use segno_format::inode::{Advise, Inline, InodeFlags, RawInode};
use segno_format::superblock::Superblock;
use segno_format::{BLOCK_SIZE, Features, Ino, NAME_MAX};

/// The expected value in a report on an impossible mode.
const REGULAR: u16 = 0o100_000;
const NSEC: u32 = 1_000_000_000;
/// Where the checksum ends in the extra attributes.
const CHECKSUM_END: u16 = 12;
/// Where what compression needs ends there.
const COMPRESSION_END: u16 = 36;
/// Compression algorithms the format knows.
const ALGORITHMS: u8 = 4;

/// Rules for the fields.
pub(super) fn check(file: &File, raw: &RawInode, sb: &Superblock) -> Rules {
    let mut rules = file.rules(Kind::Inode);
    sizes(&mut rules, file, raw, sb.features);
    inline(&mut rules, file.ino, raw);
    features(&mut rules, raw, sb.features);
    compression(&mut rules, raw, sb.features);
    rules
}

fn sizes(rules: &mut Rules, file: &File, raw: &RawInode, features: Features) {
    let kind = FileType::of_mode(raw.i_mode.get());
    rules.require(kind != FileType::Unknown, "file type in i_mode", raw.i_mode.get(), REGULAR);
    let name = raw.i_namelen.get();
    rules.require(name as usize <= NAME_MAX, "i_namelen", name, NAME_MAX as u64);
    let own = raw.i_xattr_nid.get() == file.ino;
    rules.require(!own, "i_xattr_nid is the inode itself", file.ino, 0u64);
    for (why, nsec) in [
        ("i_atime_nsec", raw.i_atime_nsec),
        ("i_ctime_nsec", raw.i_ctime_nsec),
        ("i_mtime_nsec", raw.i_mtime_nsec),
    ] {
        rules.require(nsec.get() < NSEC, why, nsec.get(), NSEC);
    }
    let size = raw.extra().i_extra_isize.get();
    let summed = features.contains(Features::INODE_CHKSUM) && raw.has_extra(0);
    rules.require(!summed || size >= CHECKSUM_END, "i_extra_isize", size, CHECKSUM_END);
    let limit = file.layout.max_blocks().saturating_mul(BLOCK_SIZE as u64);
    rules.require(raw.i_size.get() <= limit, "i_size", raw.i_size.get(), limit);
    let depth = raw.i_current_depth.get();
    rules.require(!raw.is_dir() || depth <= MAX_DEPTH, "i_current_depth", depth, MAX_DEPTH);
}

fn inline(rules: &mut Rules, ino: u32, raw: &RawInode) {
    let (inline, advise) = (raw.inline(), raw.advise());
    if inline.contains(Inline::DATA) {
        let holds = raw.is_reg() || raw.is_symlink();
        rules.require(holds, "inline data in a file of this type", raw.i_mode.get(), REGULAR);
        let opaque = advise.intersects(Advise::ENCRYPT | Advise::VERITY) || raw.is_compressed();
        rules.refuse(raw.is_reg() && opaque, "inline data of an encrypted, verity or compressed file");
    }
    let dentry = inline.contains(Inline::DENTRY);
    rules.refuse(dentry && !raw.is_dir(), "inline directory in a file of another type");
    // fsck.f2fs accepts it, but Linux does not mount a volume whose root is inline.
    let root = dentry && ino == Ino::ROOT.0;
    rules.refuse(root, "the root is an inline directory, and Linux does not mount the volume");
}

fn features(rules: &mut Rules, raw: &RawInode, features: Features) {
    let (advise, flags) = (raw.advise(), raw.flags());
    let lacks = |f| !features.contains(f);
    let encrypted = advise.contains(Advise::ENCRYPT);
    rules.refuse(lacks(Features::ENCRYPT) && encrypted, "encrypted without the encrypt feature");
    let verity = advise.contains(Advise::VERITY);
    rules.refuse(lacks(Features::VERITY) && verity, "verity without the verity feature");
    let folded = flags.contains(InodeFlags::CASEFOLD);
    rules.refuse(lacks(Features::CASEFOLD) && folded, "casefold without the casefold feature");
    rules.refuse(folded && !raw.is_dir(), "casefold flag on something else than a directory");
    let compressed = flags.contains(InodeFlags::COMPR);
    rules.refuse(lacks(Features::COMPRESSION) && compressed, "compressed without the compression feature");
    let alias = flags.contains(InodeFlags::DEVICE_ALIAS);
    rules.refuse(lacks(Features::DEVICE_ALIAS) && alias, "device alias without the feature");
}

fn compression(rules: &mut Rules, raw: &RawInode, features: Features) {
    let extra = raw.extra();
    let both = InodeFlags::COMPR | InodeFlags::NOCOMP;
    rules.refuse(raw.flags().contains(both), "both compressed and never to be compressed");
    if !features.contains(Features::COMPRESSION) {
        return;
    }
    let saved = extra.i_compr_blocks.get();
    if !raw.is_compressed() {
        let marked = raw.flags().contains(InodeFlags::COMPR) && raw.has_extra(COMPRESSION_END);
        rules.require(!marked || saved == 0, "i_compr_blocks of what is no file", saved, 0u64);
        return;
    }
    let algorithm = extra.i_compress_algorithm;
    rules.require(algorithm < ALGORITHMS, "i_compress_algorithm", algorithm, ALGORITHMS);
    let blocks = raw.i_blocks.get();
    rules.require(saved < blocks, "i_compr_blocks against i_blocks", saved, blocks);
}
