//! The homes of dentries: the inline area, and the blocks of the directory file.
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::volume::Volume;
use segno_format::dentry::{DentryShape, Entry};
use segno_format::inode::{Inline, RawInode};
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Corrupt, Ino, Nid, Structure};
use std::ops::Range;
use std::sync::Arc;

/// Blocks of a directory read at a time when it is listed.
const AHEAD: u64 = 64;

/// Where dentries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Inline,
    /// A file block.
    Block(u64),
}

/// The dentries of one home as they are now; a change continues on a copy.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) home: Home,
    pub(super) shape: DentryShape,
    block: Arc<Block>,
    range: Range<usize>,
    pub(super) dir: Ino,
}

impl Chunk {
    /// Where [`Volume::chunk_from`] goes on.
    pub(super) fn next_block(&self) -> u64 {
        match self.home {
            Home::Inline => 1,
            Home::Block(fblk) => fblk + 1,
        }
    }
    pub(super) fn area(&self) -> &[u8] {
        self.block.0.get(self.range.clone()).unwrap_or_default()
    }
    /// The next entry at or after a slot.
    pub(super) fn next(&self, slot: u32) -> Result<Option<Entry<'_>>> {
        self.shape.next(self.area(), slot, 0).map_err(|c| damaged(self.dir, self.home, c))
    }
    /// The next entry with a hash at or after a slot.
    pub(super) fn next_with_hash(&self, hash: u32, slot: u32) -> Result<Option<Entry<'_>>> {
        self.shape.next_with_hash(self.area(), hash, slot, 0).map_err(|c| damaged(self.dir, self.home, c))
    }
}

/// The inode an entry of a directory names, which must be possible.
pub(super) fn target(dir: Ino, home: Home, entry: &Entry<'_>, max: u32) -> Result<Ino> {
    if (Nid::ROOT.0..max).contains(&entry.ino.0) {
        return Ok(entry.ino);
    }
    let (found, max) = (entry.ino.0.into(), max.into());
    let why = "inode number of an entry";
    Err(damaged(dir, home, Corrupt::block(Structure::DentryBlock, 0, why, found, max)))
}

/// Damage in a home, told by the directory's inode number.
pub(super) fn damaged(dir: Ino, home: Home, c: Corrupt) -> Error {
    let what = match home {
        Home::Inline => Structure::InlineDentry,
        Home::Block(_) => Structure::DentryBlock,
    };
    Corrupt { what, unit: "inode", at: dir.0.into(), ..c }.into()
}

/// Whether the directory's names are in its inode.
pub(super) fn is_inline(dir: &Inode) -> bool {
    dir.get(|i| i.inline().contains(Inline::DENTRY))
}

/// Dentry blocks that the directory's size covers.
pub(super) fn block_count(dir: &Inode) -> u64 {
    dir.size().div_ceil(BLOCK_SIZE as u64)
}

impl Volume {
    /// The names in the inode.
    pub(super) fn inline_chunk(&self, dir: &Inode) -> Result<Chunk> {
        let block = dir.frame.snapshot();
        let layout = block.view::<RawInode>().layout(self.features)?;
        let shape = DentryShape::inline(&layout);
        Ok(Chunk { home: Home::Inline, shape, block, range: layout.inline_range(), dir: dir.ino })
    }

    /// The names in a file block; `None` for a hole.
    pub(super) fn block_chunk(&self, dir: &Arc<Inode>, fblk: u64) -> Result<Option<Chunk>> {
        let found = self.read_block(dir, fblk)?;
        Ok(found.map(|block| Chunk {
            home: Home::Block(fblk),
            shape: DentryShape::BLOCK,
            block,
            range: 0..BLOCK_SIZE,
            dir: dir.ino,
        }))
    }

    /// The names at or after a file block, 0 for the inline area too; holes are passed over by whole nodes, as the size
    /// may be any number on a damaged volume.
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
            at = self.next_mapped(dir, at + 1, end)?;
        }
        Ok(None)
    }

    /// Caches blocks that a listing comes to next, as many as lie together on the device, whatever holes of the file are
    /// between them. What moves meanwhile, or cannot be read, is left to who needs it.
    fn read_ahead(&self, dir: &Arc<Inode>, blocks: Range<u64>) -> Result<()> {
        if dir.pages.lock().get(blocks.start).is_some() {
            return Ok(());
        }
        let addrs = self.map_blocks(dir, blocks.clone())?;
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
        if self.dev.read_into(first, &mut read).is_err() || self.map_blocks(dir, blocks)? != addrs {
            return Ok(());
        }
        for ((fblk, addr), block) in places.into_iter().zip(read) {
            if self.segs.is_valid(addr) {
                dir.pages.lock().insert_clean(fblk, Arc::new(block), &self.mem);
            }
        }
        Ok(())
    }

    /// The names in a home; `None` for a hole.
    pub(super) fn chunk(&self, dir: &Arc<Inode>, home: Home) -> Result<Option<Chunk>> {
        match home {
            Home::Inline => self.inline_chunk(dir).map(Some),
            Home::Block(fblk) => self.block_chunk(dir, fblk),
        }
    }

    /// Changes the names in a home. A block that does not exist is made.
    pub(super) fn change_chunk(
        &self,
        op: &Op<'_>,
        dir: &Arc<Inode>,
        home: Home,
        f: impl FnOnce(&DentryShape, &mut [u8]),
    ) -> Result<()> {
        let fblk = match home {
            Home::Block(fblk) => fblk,
            Home::Inline => {
                let layout = dir.layout(self.features)?;
                let shape = DentryShape::inline(&layout);
                self.nodes.modify(op, &dir.frame, |b| {
                    f(&shape, b.0.get_mut(layout.inline_range()).unwrap_or_default());
                });
                return Ok(());
            }
        };
        self.modify_block(op, dir, fblk, |b| f(&DentryShape::BLOCK, &mut b.0))
    }
}
