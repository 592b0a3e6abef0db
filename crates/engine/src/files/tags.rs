//! Tags of a dentry block: one byte of each name hash in an array, compared before the dentries are read.
use segno_format::Block;
use segno_format::dentry::{DentryShape, SLOTS_PER_BLOCK};

/// Number of tags compared at once.
const GROUP: usize = 16;
const TAGS: usize = (SLOTS_PER_BLOCK as usize).next_multiple_of(GROUP);

/// The tags of a dentry block, updated when next used after a change.
#[derive(Debug)]
pub struct Tags {
    tags: [u8; TAGS],
    free: u32,
    stale: bool,
}

impl Default for Tags {
    fn default() -> Self {
        Self { tags: [0; TAGS], free: 0, stale: true }
    }
}

impl Tags {
    /// Marks the tags stale; the block changes.
    pub fn make_stale(&mut self) {
        self.stale = true;
    }

    pub fn refresh(&mut self, block: &Block) {
        if !self.stale {
            return;
        }
        let shape = DentryShape::BLOCK;
        self.tags.iter_mut().zip(shape.hashes(&block.0)).for_each(|(tag, hash)| *tag = tag_of(hash));
        self.free = shape.free_slots(&block.0);
        self.stale = false;
    }

    /// Number of free slots of the block.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Slots that may have this hash, ascending, with few false positives.
    pub fn slots(&self, hash: u32) -> impl Iterator<Item = u32> + use<'_> {
        let tag = tag_of(hash.to_le_bytes());
        let (groups, _) = self.tags.as_chunks::<GROUP>();
        // Most groups have no match, so a group is compared without branches.
        let some = move |group: &[u8; GROUP]| group.iter().fold(false, |any, t| any | (*t == tag));
        let groups = (0..).step_by(GROUP).zip(groups).filter(move |(_, group)| some(group));
        groups.flat_map(move |(first, group)| {
            (first..).zip(group).filter(move |(_, t)| **t == tag).map(|(s, _)| s)
        })
    }
}

/// Names in one bucket share the low bits of their hashes, so the tag is the high byte.
fn tag_of([.., high]: [u8; 4]) -> u8 {
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_format::Ino;
    use segno_format::dentry::FileType;

    #[test]
    fn every_hash_is_found_at_its_slot() {
        let (mut block, mut tags) = (Block::zeroed(), Tags::default());
        tags.refresh(&block);
        assert_eq!(tags.free(), SLOTS_PER_BLOCK);
        for slot in 0..SLOTS_PER_BLOCK {
            let hash = slot.wrapping_mul(0x9E37_79B9) | 0x0100_0000;
            assert!(!tags.slots(hash).any(|s| s == slot));
            DentryShape::BLOCK.insert(&mut block.0, slot, hash, Ino(9), b"name", FileType::Regular);
            tags.make_stale();
            tags.refresh(&block);
            assert!(tags.slots(hash).any(|s| s == slot));
            assert_eq!(tags.free(), SLOTS_PER_BLOCK - 1 - slot);
        }
        assert!((0..=255).all(|t| tags.slots(t << 24).is_sorted()));
        assert!((1..=255).all(|t| tags.slots(t << 24).count() < 8), "few false positives");
    }
}
