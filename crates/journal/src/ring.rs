//! The ring of blocks that follows the two copies of the superblock.
use crate::area::Area;
use crate::error::Result;
use crate::header::{HEADER, Header};
use segno_format::{BLOCK_SIZE, Block, crc};
use zerocopy::IntoBytes;

/// Blocks before the ring.
pub(crate) const SUPERBLOCKS: u64 = 2;
/// Smallest usable ring.
pub(crate) const MIN_RING: u64 = 8;
/// Blocks of the largest journal that is made, 4 GiB. The space may be the rest of a sparse image, far larger
/// than its host's.
pub(crate) const MOST_BLOCKS: u64 = 1 << 20;
/// Payload at which a group is full; a larger epoch becomes several groups.
pub(crate) const GROUP_PAYLOAD: usize = (4 << 20) - HEADER;
/// Maximum length of a group: one record may exceed the limit above.
pub(crate) const MAX_GROUP_BLOCKS: u64 = 1024 + 64;
/// Blocks of an image file that are allocated together.
const STORAGE: u64 = 256;
/// Blocks read at once while scanning.
const WINDOW: u64 = 256;

/// The ring. Indices count from its first block and are below `blocks`.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    pub area: Area,
    pub blocks: u64,
    /// Seed of the checksums of groups.
    pub seed: u32,
}

/// Blocks of the ring read ahead.
#[derive(Default)]
pub(crate) struct Window {
    start: u64,
    blocks: Vec<Block>,
}

impl Ring {
    /// The index `n` blocks after another.
    pub(crate) fn after(&self, index: u64, n: u64) -> u64 {
        (index + n) % self.blocks
    }

    /// Writes consecutive blocks, wrapping at the end of the ring.
    pub(crate) fn write(&self, index: u64, blocks: &[Block]) -> Result<()> {
        let refs: Vec<&Block> = blocks.iter().collect();
        let before_end = usize::try_from(self.blocks - index).unwrap_or(usize::MAX).min(refs.len());
        let (first, second) = refs.split_at(before_end);
        self.area.write(SUPERBLOCKS + index, first)?;
        if second.is_empty() { Ok(()) } else { self.area.write(SUPERBLOCKS, second) }
    }

    /// Index of the first block that may lack storage, if all groups so far end before `head`. A block that
    /// was written once keeps its storage.
    pub(crate) fn stored(&self, head: u64) -> u64 {
        if self.area.may_have_holes() { head } else { self.blocks }
    }

    /// Allocates holes of an image file among the next `count` blocks from `index` on and some blocks more,
    /// as otherwise each commit would wait for the host's journal. All blocks before `index` have storage.
    /// Returns the index up to which all blocks then have storage.
    pub(crate) fn store(&self, index: u64, count: u64) -> u64 {
        let end = (index + count + STORAGE).min(self.blocks);
        let (first, last) = (SUPERBLOCKS + index, SUPERBLOCKS + end);
        // If the host has no space for all blocks, it may still have space for the group; its write shows
        // that.
        let _slower = self.area.zero(first, self.area.next_data(first).min(last));
        end
    }

    /// Reads consecutive blocks, wrapping at the end of the ring.
    pub(crate) fn read(&self, window: &mut Window, index: u64, count: u64) -> Result<Vec<Block>> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut out = Vec::with_capacity(count.min(MAX_GROUP_BLOCKS as usize));
        while out.len() < count {
            let ahead = self.ahead(window, self.after(index, out.len() as u64))?;
            out.extend_from_slice(ahead.get(..count - out.len()).unwrap_or(ahead));
        }
        Ok(out)
    }

    /// At least one block from an index on. Fills the window if it does not have that block.
    fn ahead<'a>(&self, window: &'a mut Window, index: u64) -> Result<&'a [Block]> {
        let has = |w: &Window| index.checked_sub(w.start).is_some_and(|at| at < w.blocks.len() as u64);
        if !has(window) {
            window.start = index;
            window.blocks.resize((self.blocks - index).min(WINDOW) as usize, Block::zeroed());
            if let Err(e) = self.area.read(SUPERBLOCKS + index, &mut window.blocks) {
                window.blocks.clear();
                return Err(e);
            }
        }
        Ok(window.blocks.get((index - window.start) as usize..).unwrap_or_default())
    }

    /// The blocks of a group, and the checksum of its header. Sets the lengths and the payload checksum of
    /// `header`.
    pub(crate) fn compose(&self, header: &mut Header, payload: &[u8]) -> (Vec<Block>, u32) {
        let mut blocks = vec![Block::zeroed(); (HEADER + payload.len()).div_ceil(BLOCK_SIZE)];
        let mut rest = payload;
        for (i, block) in blocks.iter_mut().enumerate() {
            let from = if i == 0 { HEADER } else { 0 };
            let (now, later) = rest.split_at(rest.len().min(BLOCK_SIZE - from));
            rest = later;
            block.0.get_mut(from..from + now.len()).unwrap_or_default().copy_from_slice(now);
        }
        header.blocks = blocks.len() as u32;
        header.payload_len = payload.len() as u32;
        header.payload_crc = payload_crc(self.seed, &blocks);
        let (bytes, sum) = header.encode(self.seed);
        if let Some(first) = blocks.first_mut() {
            first.0.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        }
        (blocks, sum)
    }

    /// The group at an index, if it is complete.
    pub(crate) fn load(
        &self,
        window: &mut Window,
        index: u64,
    ) -> Result<std::result::Result<Loaded, &'static str>> {
        let first = self.read(window, index, 1)?;
        let Some(bytes) = first.first() else { return Ok(Err("no group")) };
        let (header, sum) = match Header::decode(&bytes.0, self.seed) {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let blocks = u64::from(header.blocks);
        let needed = (HEADER + header.payload_len as usize).div_ceil(BLOCK_SIZE) as u64;
        if blocks != needed || blocks > MAX_GROUP_BLOCKS.min(self.blocks) {
            return Ok(Err("length of the group"));
        }
        let blocks = self.read(window, index, blocks)?;
        if payload_crc(self.seed, &blocks) != header.payload_crc {
            return Ok(Err("checksum of the payload"));
        }
        Ok(Ok(Loaded { header, sum, blocks }))
    }
}

/// A complete group.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub header: Header,
    pub sum: u32,
    blocks: Vec<Block>,
}

impl Loaded {
    pub(crate) fn payload(&self) -> &[u8] {
        let end = HEADER + self.header.payload_len as usize;
        self.blocks.as_bytes().get(HEADER..end).unwrap_or_default()
    }
}

/// Covers all bytes after the header, padding included, so that every changed bit of a group is detected.
fn payload_crc(seed: u32, blocks: &[Block]) -> u32 {
    crc(seed, blocks.as_bytes().get(HEADER..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::MemDevice;
    use std::sync::Arc;

    /// The checksums of header and payload are correct, but a length is not.
    #[test]
    fn a_group_that_has_not_the_length_of_its_payload_is_none() {
        let ring = Ring { area: Area::whole(Arc::new(MemDevice::new(2 + 16))), blocks: 16, seed: 7 };
        let end = |change: fn(&mut Header)| {
            let mut header = Header::sound();
            let (mut blocks, _) = ring.compose(&mut header, &[5; 5000]);
            change(&mut header);
            let first = blocks.first_mut().unwrap();
            first.0[..HEADER].copy_from_slice(&header.encode(ring.seed).0);
            ring.write(0, &blocks).unwrap();
            ring.load(&mut Window::default(), 0).unwrap().map(|group| group.payload().len())
        };
        let most = (16 * BLOCK_SIZE - HEADER) as u32;
        assert_eq!((most, end(|_| {})), (65_472, Ok(5000)));
        let changes: [fn(&mut Header); 5] = [
            |h| h.blocks = 0,
            |h| h.blocks = 3,
            |h| h.payload_len = u32::MAX,
            |h| h.payload_len = 100,
            // More than the ring has.
            |h| (h.blocks, h.payload_len) = (17, 65_472 + 1),
        ];
        for change in changes {
            assert_eq!(end(change), Err("length of the group"));
        }
    }
}
