//! The seed of inode checksums, recovered from inodes when the superblock, whose uuid gives it, is lost. A checksum of this
//! kind runs backwards: from its value over the bytes, last one first, to the seed.
use segno_format::Block;
use segno_format::inode::{BODY_OFFSET, RawInode};
use zerocopy::IntoBytes;

const CHECKSUM_AT: usize = BODY_OFFSET + 8;

/// The checksum of each single byte.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut c, mut bit) = (i as u32, 0);
        while bit < 8 {
            c = (c >> 1) ^ (0xEDB8_8320 * (c & 1));
            bit += 1;
        }
        table[i] = c;
        i += 1;
    }
    table
};

/// Index of the table by the highest byte of its values, which are all different.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const INVERSE: [u8; 256] = {
    let mut inverse = [0; 256];
    let mut i = 0;
    while i < 256 {
        inverse[(TABLE[i] >> 24) as usize] = i as u8;
        i += 1;
    }
    inverse
};

fn back(state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(state, |s, &byte| {
        let i = INVERSE.get((s >> 24) as usize).copied().unwrap_or_default();
        let t = TABLE.get(usize::from(i)).copied().unwrap_or_default();
        (s ^ t) << 8 | u32::from(i ^ byte)
    })
}

/// The seed with which the stored checksum of an inode would be right; `None` if it has no checksum.
#[must_use]
pub(crate) fn recover(block: &Block) -> Option<u32> {
    let inode: &RawInode = block.view();
    let stored = inode.extra().i_inode_checksum.get();
    if !inode.has_extra(12) || stored == 0 {
        return None;
    }
    let s = back(stored, block.0.get(CHECKSUM_AT + 4..)?);
    let s = back(s, &[0; 4]);
    let s = back(s, block.0.get(..CHECKSUM_AT)?);
    let s = back(s, inode.i_generation.as_bytes());
    Some(back(s, inode.footer.ino.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_format::Features;
    use segno_format::inode::{Inline, RawExtraAttr, seal_checksum};
    use zerocopy::FromZeros;

    #[test]
    fn the_seed_of_a_sealed_inode_is_found() {
        let mut block = Block::zeroed();
        block.0.iter_mut().zip((0u8..=255).cycle()).for_each(|(b, i)| *b = i.wrapping_mul(31));
        let inode: &mut RawInode = block.view_mut();
        inode.i_inline = Inline::EXTRA_ATTR.bits();
        let mut extra = RawExtraAttr::new_zeroed();
        extra.i_extra_isize = 36.into();
        inode.set_extra(&extra);
        seal_checksum(&mut block, Features::EXTRA_ATTR | Features::INODE_CHKSUM, 0x3131_1D77);
        assert_eq!(recover(&block), Some(0x3131_1D77));
    }
}
