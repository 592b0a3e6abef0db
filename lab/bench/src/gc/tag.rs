//! What a data block of an experiment holds: whose it is and which version, 256 times.
use segno_format::{BLOCK_SIZE, Block, crc};

const BYTES: usize = 16;

/// A page of a file, and how often it was written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    pub ino: u32,
    pub page: u32,
    pub version: u32,
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Tag(Tag),
    /// A tag with other bytes in between.
    Damaged(Tag),
    /// No tag, such as a node.
    Other,
}

impl Tag {
    fn to_bytes(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let fields = [self.ino, self.page, self.version].map(u32::to_le_bytes);
        let (head, check) = out.split_at_mut(BYTES - 4);
        head.as_chunks_mut::<4>().0.copy_from_slice(&fields);
        check.copy_from_slice(&crc(u32::MAX, head).to_le_bytes());
        out
    }

    fn from_bytes(bytes: &[u8; BYTES]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<4>();
        let [ino, page, version, _] = <[[u8; 4]; 4]>::try_from(words).ok()?.map(u32::from_le_bytes);
        let tag = Self { ino, page, version };
        (tag.to_bytes() == *bytes).then_some(tag)
    }

    /// Fills a block with the tag.
    pub fn fill(self, block: &mut [u8; BLOCK_SIZE]) {
        block.as_chunks_mut::<BYTES>().0.fill(self.to_bytes());
    }
}

impl Content {
    /// Every byte is looked at. Damage anywhere leaves a tag at the beginning or at the end.
    pub fn of(block: &Block) -> Self {
        let ends = [block.0.first_chunk(), block.0.last_chunk()];
        let [first, last] = ends.map(|bytes| bytes.and_then(Tag::from_bytes));
        let repeats = block.0.get(BYTES..) == block.0.get(..BLOCK_SIZE - BYTES);
        match first.or(last) {
            Some(tag) if repeats => Self::Tag(tag),
            Some(tag) => Self::Damaged(tag),
            None => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_tagged_block_counts() {
        let tag = Tag { ino: 5, page: 70_000, version: 3 };
        let mut block = Block::zeroed();
        tag.fill(&mut block.0);
        assert_eq!(Content::of(&block), Content::Tag(tag));
        for at in 0..BLOCK_SIZE {
            block.0[at] ^= 1;
            assert_eq!(Content::of(&block), Content::Damaged(tag), "byte {at}");
            block.0[at] ^= 1;
        }
        assert_eq!(Content::of(&Block::zeroed()), Content::Other);
    }
}
