//! The first content of a quota file: what root owns.
use segno_format::quota::{QUOTA_BLOCK, QuotaEntry, QuotaTable};
use segno_format::{BLOCK_SIZE, Block};

/// Bytes of a quota file with one entry: header, four tree levels, one block of entries.
pub(crate) const FILE_SIZE: u64 = 6 * QUOTA_BLOCK as u64;
/// File system blocks that hold it.
const FILE_BLOCKS: usize = 2;

/// What root uses of a fresh volume.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    pub inodes: u64,
    pub bytes: u64,
}

/// The blocks of the quota file of one kind: 0 user, 1 group, 2 project.
pub(crate) fn file(kind: usize, id: u32, used: Usage) -> [Block; FILE_BLOCKS] {
    let entry = QuotaEntry { inodes: used.inodes, bytes: used.bytes, ..QuotaEntry::default() };
    let table = QuotaTable { entries: [(id, entry)].into(), ..QuotaTable::default() };
    let bytes = table.to_bytes(kind);
    let mut blocks = [const { Block([0; BLOCK_SIZE]) }; FILE_BLOCKS];
    for (block, part) in blocks.iter_mut().zip(bytes.chunks(BLOCK_SIZE)) {
        block.0.iter_mut().zip(part).for_each(|(d, s)| *d = *s);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(blocks: &[Block], offset: usize) -> u32 {
        blocks[offset / 4096].u32_at(offset % 4096)
    }

    /// A reader that follows the tree must arrive at the entry, whatever the id.
    #[test]
    fn the_tree_leads_to_the_id() {
        for id in [0, 1, 1000, 0x0102_03FF, u32::MAX] {
            let blocks = file(1, id, Usage { inodes: 2, bytes: 8192 });
            assert_eq!([word(&blocks, 0), word(&blocks, 4)], [0xD9C0_1927, 1]);
            assert_eq!([word(&blocks, 20), word(&blocks, 28)], [6, 5]);
            let mut block = 1;
            for byte in id.to_be_bytes() {
                block = word(&blocks, block as usize * 1024 + usize::from(byte) * 4);
            }
            let entry = block as usize * 1024 + 16;
            assert_eq!(word(&blocks, entry), id);
            assert_eq!([word(&blocks, entry + 24), word(&blocks, entry + 48)], [2, 8192]);
        }
    }
}
