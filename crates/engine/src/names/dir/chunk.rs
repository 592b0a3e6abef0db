//! Locations of dentries: the inline area, or blocks of the directory file.
use super::Dirs;
use crate::block::{SharedBlock, shared};
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::transaction::Op;
use segno_format::dentry::{DentryShape, Entry};
use segno_format::inode::{Inline, RawInode};
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Corrupt, Ino, Structure, Unit};
use std::ops::Range;
use std::sync::Arc;

/// Directory blocks read ahead in a listing.
const AHEAD: u64 = 64;

/// Location of dentries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    Inline,
    /// A file block.
    Block(u64),
}

/// A snapshot of the dentries of one location; changes are made on a copy.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) location: Location,
    pub(super) shape: DentryShape,
    block: SharedBlock,
    range: Range<usize>,
    pub(super) dir: Ino,
}

impl Chunk {
    /// The block where the next [`Volume::chunk_from`] continues.
    pub(super) fn next_block(&self) -> u64 {
        match self.location {
            Location::Inline => 1,
            Location::Block(fblk) => fblk + 1,
        }
    }
    pub(super) fn area(&self) -> &[u8] {
        self.block.0.get(self.range.clone()).unwrap_or_default()
    }
    /// The next entry at or after a slot.
    pub(super) fn next(&self, slot: u32) -> Result<Option<Entry<'_>>> {
        self.shape.next(self.area(), slot, 0).map_err(|c| damaged(self.dir, self.location, c))
    }
    /// The entries from a slot on. A damaged entry ends them with an error.
    pub(super) fn entries(&self, from: u32) -> impl Iterator<Item = Result<Entry<'_>>> {
        let mut slot = Some(from);
        std::iter::from_fn(move || {
            let entry = self.next(slot?).transpose()?;
            slot = entry.as_ref().ok().map(Entry::next);
            Some(entry)
        })
    }
    /// The next entry with a hash at or after a slot.
    pub(super) fn next_with_hash(&self, hash: u32, slot: u32) -> Result<Option<Entry<'_>>> {
        self.shape.next_with_hash(self.area(), hash, slot, 0).map_err(|c| damaged(self.dir, self.location, c))
    }
}

/// The inode of an entry; checks that the number is possible.
pub(super) fn target(dir: Ino, location: Location, entry: &Entry<'_>, max: u32) -> Result<Ino> {
    if (Ino::ROOT.0..max).contains(&entry.ino.0) {
        return Ok(entry.ino);
    }
    let (found, max) = (entry.ino.0.into(), max.into());
    let why = "inode number of an entry";
    Err(damaged(dir, location, Corrupt::block(Structure::DentryBlock, 0, why, found, max)))
}

/// Reports damage in a location, by the directory's inode number.
pub(super) fn damaged(dir: Ino, location: Location, c: Corrupt) -> Error {
    let what = match location {
        Location::Inline => Structure::InlineDentry,
        Location::Block(_) => Structure::DentryBlock,
    };
    Corrupt { what, unit: Unit::Inode, at: dir.0.into(), ..c }.into()
}

/// Whether the directory's names are in its inode.
pub(super) fn is_inline(dir: &Inode) -> bool {
    dir.get(|i| i.inline().contains(Inline::DENTRY))
}

/// Dentry blocks covered by the directory's size.
pub(super) fn block_count(dir: &Inode) -> u64 {
    dir.size().div_ceil(BLOCK_SIZE as u64)
}

impl Dirs {
    /// The names in the inode.
    pub(super) fn inline_chunk(&self, dir: &Inode) -> Result<Chunk> {
        let block = dir.frame.snapshot();
        let layout = block.view::<RawInode>().layout(self.base.features)?;
        let shape = DentryShape::inline(&layout);
        Ok(Chunk { location: Location::Inline, shape, block, range: layout.inline_range(), dir: dir.ino })
    }

    /// The names in a file block; `None` for a hole.
    pub(super) fn block_chunk(&self, dir: &Arc<Inode>, fblk: u64) -> Result<Option<Chunk>> {
        let found = self.files.read_block(dir, fblk)?;
        Ok(found.map(|block| Chunk {
            location: Location::Block(fblk),
            shape: DentryShape::BLOCK,
            block,
            range: 0..BLOCK_SIZE,
            dir: dir.ino,
        }))
    }

    /// The names at or after a file block; block 0 includes the inline area. Holes are skipped by whole nodes,
    /// because on a damaged volume the size can be any number.
    pub(super) fn chunk_from(&self, dir: &Arc<Inode>, from: u64) -> Result<Option<Chunk>> {
        if is_inline(dir) {
            return if from == 0 { self.inline_chunk(dir).map(Some) } else { Ok(None) };
        }
        let (mut at, end) = (from, block_count(dir));
        while at < end {
            self.read_ahead(dir, at..end.min(at.saturating_add(AHEAD)))?;
            if let Some(chunk) = self.block_chunk(dir, at)? {
                return Ok(Some(chunk));
            }
            at = self.files.next_mapped(dir, at + 1, end)?;
        }
        Ok(None)
    }

    /// Reads ahead the next blocks of a listing that are adjacent on the device, even across holes of the file.
    /// Ignores blocks that move meanwhile or cannot be read: a later access reads them or reports the error.
    fn read_ahead(&self, dir: &Arc<Inode>, blocks: Range<u64>) -> Result<()> {
        if dir.pages.lock().get(blocks.start).is_some() {
            return Ok(());
        }
        let addrs = self.nodes.map_blocks(&dir.frame, blocks.clone())?;
        let mut places: Vec<(u64, BlockAddr)> =
            (blocks.start..).zip(addrs.iter().copied()).filter(|(_, a)| *a != BlockAddr::NULL).collect();
        let Some(&(_, first)) = places.first().filter(|(at, a)| *at == blocks.start && a.is_real()) else {
            return Ok(());
        };
        let together = places.iter().zip(first.0..).take_while(|((_, a), next)| a.0 == *next).count();
        if together < 2 {
            return Ok(());
        }
        places.truncate(together);
        let mut read = vec![Block::zeroed(); together];
        if self.base.dev.read_into(first, &mut read).is_err()
            || self.nodes.map_blocks(&dir.frame, blocks)? != addrs
        {
            return Ok(());
        }
        for ((fblk, addr), block) in places.into_iter().zip(read) {
            if self.nodes.space.is_valid(addr) {
                dir.pages.lock().insert_clean(fblk, shared(block), &self.base.mem);
            }
        }
        Ok(())
    }

    /// The names in a location; `None` for a hole.
    pub(super) fn chunk(&self, dir: &Arc<Inode>, location: Location) -> Result<Option<Chunk>> {
        match location {
            Location::Inline => self.inline_chunk(dir).map(Some),
            Location::Block(fblk) => self.block_chunk(dir, fblk),
        }
    }

    /// Changes the names in a location. Allocates a missing block.
    pub(super) fn change_chunk(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        location: Location,
        f: impl FnOnce(&DentryShape, &mut [u8]),
    ) -> Result<()> {
        let fblk = match location {
            Location::Block(fblk) => fblk,
            Location::Inline => {
                let layout = dir.layout(self.base.features)?;
                let shape = DentryShape::inline(&layout);
                self.nodes.cache.modify(op, &dir.frame, |b| {
                    f(&shape, layout.inline_mut(b));
                });
                return Ok(());
            }
        };
        self.files.modify_block(op, dir, fblk, |b| f(&DentryShape::BLOCK, &mut b.0))
    }
}
