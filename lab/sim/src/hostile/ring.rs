//! The metadata journal after the end of a volume: the places and fields of its structures, and its
//! checksums.
use super::edit::Place;
use super::fields::{Field, Kind};
use segno_device::BlockDevice;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, crc};
use std::io;

const GROUP_MAGIC: u32 = 0x4A47_4553;
const HEADER: usize = 64;
/// Copies of the superblock, before the ring.
const SUPERBLOCKS: u32 = 2;
const SUPER_CRC: usize = BLOCK_SIZE - 4;
/// Words of a group's records that are offered for change.
const WORDS: u16 = 64;

const SUPER: [(u16, u8, Kind); 17] = [
    (8, 4, Kind::Number),
    (12, 4, Kind::Number),
    (16, 8, Kind::Number),
    (24, 8, Kind::Number),
    (40, 8, Kind::Number),
    (56, 8, Kind::Number),
    (64, 8, Kind::Number),
    (72, 8, Kind::Number),
    (80, 4, Kind::Number),
    (84, 4, Kind::Number),
    (88, 8, Kind::Number),
    (96, 8, Kind::Number),
    (104, 8, Kind::Number),
    (112, 8, Kind::Number),
    (120, 8, Kind::Number),
    (132, 4, Kind::Number),
    (136, 4, Kind::Addr),
];
const GROUP: [(u16, u8, Kind); 10] = [
    (4, 1, Kind::Number),
    (5, 1, Kind::Number),
    (6, 1, Kind::Number),
    (8, 8, Kind::Number),
    (16, 8, Kind::Number),
    (24, 8, Kind::Number),
    (32, 8, Kind::Number),
    (40, 4, Kind::Number),
    (44, 4, Kind::Number),
    (48, 4, Kind::Number),
];

/// A journal, from block `start` on.
pub struct Ring {
    start: u64,
    blocks: u32,
}

impl Ring {
    /// The journal after the end of a volume, if there is room for one.
    pub fn behind(dev: &dyn BlockDevice, volume_blocks: u64) -> Option<Self> {
        let start = volume_blocks.next_multiple_of(BLOCKS_PER_SEG.into());
        let blocks = dev.block_count().checked_sub(start).filter(|&n| n > SUPERBLOCKS.into())?;
        Some(Self { start, blocks: blocks as u32 })
    }

    /// Places of its blocks that hold a superblock or the beginning of a group, with their addresses.
    pub fn places(&self, dev: &dyn BlockDevice) -> io::Result<Vec<(Place, u32)>> {
        let mut all: Vec<u32> = (0..SUPERBLOCKS).collect();
        let mut at = SUPERBLOCKS;
        while let Some((_, len)) = self.group(dev, at)? {
            all.push(at);
            at += len;
        }
        let place = |block: u32| (Place::Journal(block), self.start as u32 + block);
        Ok(all.into_iter().map(place).collect())
    }

    /// The first block of the group at a place, and its length.
    fn group(&self, dev: &dyn BlockDevice, at: u32) -> io::Result<Option<(Block, u32)>> {
        if at >= self.blocks {
            return Ok(None);
        }
        let block = self.read(dev, at)?;
        let len = block.u32_at(40).clamp(1, self.blocks - at);
        Ok((block.u32_at(0) == GROUP_MAGIC).then_some((block, len)))
    }

    fn read(&self, dev: &dyn BlockDevice, at: u32) -> io::Result<Block> {
        let mut one = [Block::zeroed()];
        dev.read(self.start + u64::from(at), &mut one)?;
        let [block] = one;
        Ok(block)
    }

    /// Makes all checksums right, and each group follow the one before.
    pub fn seal(&self, dev: &dyn BlockDevice) -> io::Result<()> {
        let put = |at: u32, block: &Block| dev.write(self.start + u64::from(at), &[block]);
        let (mut seed, mut newest) = (0, 0);
        for copy in 0..SUPERBLOCKS {
            let mut block = self.read(dev, copy)?;
            let sum = crc(u32::MAX, block.0.get(..SUPER_CRC).unwrap_or_default());
            block.set_u32_at(SUPER_CRC, sum);
            put(copy, &block)?;
            let generation = u64::from(block.u32_at(16)) | u64::from(block.u32_at(20)) << 32;
            if generation >= newest {
                newest = generation;
                seed = crc(u32::MAX, block.0.get(40..56).unwrap_or_default());
            }
        }
        let (mut at, mut before) = (SUPERBLOCKS, None);
        while let Some((mut first, len)) = self.group(dev, at)? {
            let mut sum = crc(seed, first.0.get(HEADER..).unwrap_or_default());
            for i in 1..len {
                sum = crc(sum, &self.read(dev, at + i)?.0);
            }
            before.into_iter().for_each(|before| first.set_u32_at(52, before));
            first.set_u32_at(56, sum);
            let own = crc(seed, first.0.get(..HEADER - 4).unwrap_or_default());
            first.set_u32_at(HEADER - 4, own);
            put(at, &first)?;
            (at, before) = (at + len, Some(own));
        }
        Ok(())
    }
}

/// The fields of a block of a journal.
pub fn fields(out: &mut Vec<Field>, block: u32) {
    let place = Place::Journal(block);
    let specs: &[(u16, u8, Kind)] = if block < SUPERBLOCKS { &SUPER } else { &GROUP };
    out.extend(specs.iter().map(|&(offset, len, kind)| Field { place, offset, len, kind }));
    if block < SUPERBLOCKS {
        return;
    }
    // Sections and records, which are of words.
    for word in 0..WORDS {
        let offset = HEADER as u16 + 4 * word;
        let kind = [Kind::Number, Kind::Nid, Kind::Addr].get(usize::from(word % 3)).copied();
        out.push(Field { place, offset, len: 4, kind: kind.unwrap_or(Kind::Number) });
        out.push(Field { place, offset, len: 1, kind: Kind::Number });
    }
}
