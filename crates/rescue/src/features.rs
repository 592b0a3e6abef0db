//! Features of a volume without a superblock, as far as its inodes show them.
use crate::versions::Versions;
use crate::{Reader, seed};
use segno_format::Features;
use segno_format::inode::{EXTRA_ISIZE_MAX, Inline, RawInode};
use std::collections::HashMap;

/// Inodes looked at.
const SAMPLE: usize = 4096;

/// The features that change how an inode is read, and the seed of checksums if inodes have them.
pub(crate) fn infer(reader: &Reader<'_>, nodes: &Versions) -> (Features, Option<u32>) {
    let mut features = Features::empty();
    let (mut flexible, mut fixed) = (0u32, 0u32);
    let mut seeds: HashMap<u32, u32> = HashMap::new();
    let inodes = nodes.all().iter().filter(|n| n.is_inode());
    let step = (inodes.clone().count() / SAMPLE).max(1);
    for n in inodes.step_by(step) {
        let Some(block) = reader.block(n.place()) else { continue };
        let inode: &RawInode = block.view();
        let extra = inode.extra();
        let size = extra.i_extra_isize.get();
        if !inode.inline().contains(Inline::EXTRA_ATTR) || !(4..=EXTRA_ISIZE_MAX).contains(&size) {
            continue;
        }
        features |= Features::EXTRA_ATTR;
        if inode.inline().contains(Inline::XATTR) {
            match extra.i_inline_xattr_size.get() {
                0 => fixed += 1,
                _ => flexible += 1,
            }
        }
        if let Some(seed) = seed::recover(&block) {
            *seeds.entry(seed).or_default() += 1;
        }
    }
    features.set(Features::FLEXIBLE_INLINE_XATTR, flexible > fixed);
    // Two inodes agree by chance once in four thousand million times.
    let seed = seeds.into_iter().max_by_key(|&(seed, n)| (n, seed)).filter(|&(_, n)| n > 1).map(|(s, _)| s);
    features.set(Features::INODE_CHKSUM, seed.is_some());
    (features, seed)
}
