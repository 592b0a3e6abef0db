//! The first content of a quota file: the usage of root.
use segno_format::quota::{QuotaEntry, QuotaTable};

/// The quota file of one kind: 0 user, 1 group, 2 project.
pub(crate) fn file(kind: usize, id: u32, used: QuotaEntry) -> Vec<u8> {
    QuotaTable { entries: [(id, used)].into(), ..QuotaTable::default() }.to_bytes(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: &[u8], offset: usize) -> u32 {
        u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap())
    }

    /// A reader that follows the tree must arrive at the entry, whatever the id.
    #[test]
    fn the_tree_leads_to_the_id() {
        for id in [0, 1, 1000, 0x0102_03FF, u32::MAX] {
            let bytes = file(1, id, QuotaEntry { inodes: 2, bytes: 8192, ..QuotaEntry::default() });
            assert_eq!([word(&bytes, 0), word(&bytes, 4)], [0xD9C0_1927, 1]);
            assert_eq!([word(&bytes, 20), word(&bytes, 28)], [6, 5]);
            let mut block = 1;
            for byte in id.to_be_bytes() {
                block = word(&bytes, block as usize * 1024 + usize::from(byte) * 4);
            }
            let entry = block as usize * 1024 + 16;
            assert_eq!(word(&bytes, entry), id);
            assert_eq!([word(&bytes, entry + 24), word(&bytes, entry + 48)], [2, 8192]);
        }
    }
}
