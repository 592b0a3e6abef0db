//! Writing a directory: every name in a block where lookups find it.
use crate::error::{RepairError, Result};
use crate::names::{Dir, Name, level_of, usual_level};
use crate::state::State;
use segno_format::dentry::{DentryShape, FileType, MAX_DEPTH, bucket_blocks, bucket_start, slots_for};
use segno_format::inode::{Inline, RawInode};
use segno_format::{Block, BlockAddr, Ino};
use std::collections::BTreeMap;

/// Writes a directory whose parent is given.
pub(crate) fn write(state: &mut State<'_>, ino: u32, dir: &mut Dir, parent: u32) -> Result<()> {
    if dir.inline {
        if !is_inline_root(ino, dir) && write_inline(state, ino, dir, parent)? {
            return Ok(());
        }
        to_blocks(state, ino, dir)?;
    }
    let mut blocks = Blocks { state, ino, old: BTreeMap::new(), new: BTreeMap::new() };
    for slot in blocks.state.slots(ino)? {
        blocks.old.insert(slot.b, slot.addr);
    }
    let depth = blocks.fill(dir, parent)?;
    blocks.store()?;
    state.inode(ino, |raw| {
        if raw.i_current_depth.get() < depth {
            raw.i_current_depth.set(depth);
        }
    })?;
    Ok(())
}

/// Whether it is the root, and inline: Linux mounts no such volume.
pub(crate) fn is_inline_root(ino: u32, dir: &Dir) -> bool {
    dir.inline && ino == Ino::ROOT.0
}

/// Places the names of an inline directory; false if they do not fit.
fn write_inline(state: &mut State<'_>, ino: u32, dir: &Dir, parent: u32) -> Result<bool> {
    let mut block = state.block(ino)?;
    let layout = state.layout(block.view());
    let shape = DentryShape::inline(&layout);
    let Some(area) = block.0.get_mut(layout.inline_range()) else { return Ok(false) };
    shape.clear(area);
    shape.insert_dots(area, Ino(ino), Ino(parent));
    let (kept, rest): (Vec<&Name>, Vec<&Name>) = dir.names.iter().partition(|n| n.place.is_some());
    let mut late = Vec::new();
    for name in kept {
        let at = name.place.map(|(_, slot)| slot).filter(|&slot| is_free(&shape, area, slot, &name.name));
        match at {
            Some(slot) => put(&shape, area, slot, name),
            None => late.push(name),
        }
    }
    for name in late.into_iter().chain(rest) {
        let Some(slot) = shape.find_room(area, slots_for(name.name.len())) else { return Ok(false) };
        put(&shape, area, slot, name);
    }
    state.change(ino, |old| *old = block)?;
    Ok(true)
}

/// Moves an inline directory to blocks; all names get new places.
fn to_blocks(state: &mut State<'_>, ino: u32, dir: &mut Dir) -> Result<()> {
    dir.inline = false;
    dir.names.iter_mut().for_each(|n| n.place = None);
    dir.level = usual_level(dir);
    let level = dir.level;
    let layout = state.layout(state.block(ino)?.view());
    state.change(ino, |block| {
        if let Some(area) = block.0.get_mut(layout.base()..layout.inline_range().end) {
            area.fill(0);
        }
        let raw: &mut RawInode = block.view_mut();
        raw.i_inline &= !Inline::DENTRY.bits();
        raw.i_size.set(0);
        raw.i_current_depth.set(1);
        raw.i_dir_level = level;
    })?;
    Ok(())
}

fn is_free(shape: &DentryShape, area: &[u8], slot: u32, name: &[u8]) -> bool {
    let end = slot + slots_for(name.len());
    end <= shape.slots && (slot..end).all(|i| !shape.in_use(area, i))
}

fn put(shape: &DentryShape, area: &mut [u8], slot: u32, name: &Name) {
    let t = FileType::from_disk(name.file_type).unwrap_or(FileType::Unknown);
    shape.insert(area, slot, name.hash, Ino(name.ino), &name.name, t);
}

/// The blocks of a directory, before and after.
struct Blocks<'s, 'a> {
    state: &'s mut State<'a>,
    ino: u32,
    old: BTreeMap<u64, BlockAddr>,
    new: BTreeMap<u64, Block>,
}

impl Blocks<'_, '_> {
    /// Places all names; returns the levels of the hash table in use.
    fn fill(&mut self, dir: &Dir, parent: u32) -> Result<u32> {
        let shape = DentryShape::BLOCK;
        let ino = self.ino;
        shape.insert_dots(&mut self.block(0)?.0, Ino(ino), Ino(parent));
        let (mut depth, mut late) = (1, Vec::new());
        for name in &dir.names {
            let at = name.place.filter(|&(b, _)| level_of(b, dir.level, name.hash).is_some());
            let placed = match at {
                Some((b, slot)) => {
                    let block = self.block(b)?;
                    let free = is_free(&shape, &block.0, slot, &name.name);
                    if free {
                        put(&shape, &mut block.0, slot, name);
                        depth = depth.max(level_of(b, dir.level, name.hash).unwrap_or_default() + 1);
                    }
                    free
                }
                None => false,
            };
            if !placed {
                late.push(name);
            }
        }
        for name in late {
            depth = depth.max(self.insert(dir, name)? + 1);
        }
        Ok(depth)
    }

    /// Adds a name at the first level with room; returns the level.
    fn insert(&mut self, dir: &Dir, name: &Name) -> Result<u32> {
        let shape = DentryShape::BLOCK;
        for level in 0..MAX_DEPTH {
            let first = bucket_start(level, dir.level, name.hash);
            for b in first..first + bucket_blocks(level) {
                let block = self.block(b)?;
                if let Some(slot) = shape.find_room(&block.0, slots_for(name.name.len())) {
                    put(&shape, &mut block.0, slot, name);
                    return Ok(level);
                }
            }
        }
        Err(RepairError::refused(format!("directory {} has no room for another name", self.ino)))
    }

    /// A block without names, whose other bytes are as before.
    fn block(&mut self, b: u64) -> Result<&mut Block> {
        if !self.new.contains_key(&b) {
            let addr = self.old.get(&b).copied().unwrap_or(BlockAddr::NULL);
            let mut block = self.state.data_block(self.ino, b, addr)?;
            DentryShape::BLOCK.clear(&mut block.0);
            self.new.insert(b, block);
        }
        self.new.get_mut(&b).ok_or(RepairError::Invariant("a block of a directory that was added is there"))
    }

    /// Keeps blocks that are as before, drops those without names, and gives the others to the state. The
    /// size follows with the counts.
    fn store(self) -> Result<()> {
        let Self { state, ino, old, new } = self;
        for (&b, &addr) in &old {
            let used = new.get(&b).is_some_and(|n| !DentryShape::BLOCK.is_empty_but(&n.0, 0..0));
            if used {
                let block = new.get(&b).map_or_else(Block::zeroed, Clone::clone);
                if state.data_block(ino, b, addr)?.0 != block.0 {
                    state.data.insert((ino, b), block);
                }
            } else if let Some((nid, i)) = state.place_for(ino, b)? {
                state.set_slot(ino, nid, i, BlockAddr::NULL)?;
                state.data.remove(&(ino, b));
            }
        }
        for (b, block) in new.into_iter().filter(|(b, _)| !old.contains_key(b)) {
            if DentryShape::BLOCK.is_empty_but(&block.0, 0..0) {
                continue;
            }
            let Some((nid, i)) = state.place_for(ino, b)? else {
                return Err(RepairError::refused(format!("directory {ino} cannot grow: no node id is free")));
            };
            state.set_slot(ino, nid, i, BlockAddr::NEW)?;
            state.data.insert((ino, b), block);
        }
        Ok(())
    }
}
