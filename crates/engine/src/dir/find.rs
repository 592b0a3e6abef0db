//! Finding a name, and where there is room for it.
use super::chunk::{Home, block_count, damaged, is_inline, target};
use super::name::{DirName, ENCODING_NO_LINEAR_LOOKUP};
use super::tags::Tags;
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use segno_codec::casefolded_name_hash;
use segno_format::dentry::{DentryShape, Entry, MAX_DEPTH, bucket_blocks, bucket_start, slots_for};
use segno_format::{Block, Ino};
use std::sync::Arc;

/// A name that is there. True as long as the directory's lock is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) ino: Ino,
    pub(super) home: Home,
    pub(super) slot: u32,
    pub(super) name_len: usize,
}

impl Found {
    /// Whether both are one entry of one directory.
    pub(crate) fn is_same_entry(&self, other: &Self) -> bool {
        self.home == other.home && self.slot == other.slot
    }
}

/// Where a new name can go. True as long as the directory's lock is held exclusively.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// A gap, and the hash levels the directory has with it in use.
    Gap { home: Home, slot: u32, depth: u32 },
    /// The inline directory is full.
    Convert,
    /// All levels are full.
    None,
}

/// What a search ends with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Probe {
    Found(Found),
    Missing(Room),
}

/// Remembers the first gap that a search passes.
struct RoomSearch {
    slots: u32,
    gap: Option<Room>,
}

impl RoomSearch {
    fn new(name: &DirName<'_>) -> Self {
        Self { slots: slots_for(name.raw().len()), gap: None }
    }
    /// For a search that only asks for the name.
    fn content() -> Self {
        Self { slots: 0, gap: Some(Room::None) }
    }
    /// `free` slots are in the block.
    fn look(&mut self, block: &Block, free: u32, fblk: u64, depth: u32) {
        if self.gap.is_none() && self.slots <= free {
            let slot = DentryShape::BLOCK.find_room(&block.0, self.slots);
            self.gap = slot.map(|slot| Room::Gap { home: Home::Block(fblk), slot, depth });
        }
    }
    fn hole(&mut self, fblk: u64, depth: u32) {
        self.gap.get_or_insert(Room::Gap { home: Home::Block(fblk), slot: 0, depth });
    }
}

impl Volume {
    /// The entry of a name.
    pub(crate) fn dir_find(&self, dir: &Arc<Inode>, name: &DirName<'_>) -> Result<Option<Found>> {
        Ok(match self.search(dir, name, RoomSearch::content())? {
            Probe::Found(found) => Some(found),
            Probe::Missing(_) => None,
        })
    }

    /// The entry of a name, or where it could go.
    pub(crate) fn dir_probe(&self, dir: &Arc<Inode>, name: &DirName<'_>) -> Result<Probe> {
        self.search(dir, name, RoomSearch::new(name))
    }

    fn search(&self, dir: &Arc<Inode>, name: &DirName<'_>, room: RoomSearch) -> Result<Probe> {
        let probe = if is_inline(dir) {
            self.search_inline(dir, name, room)
        } else {
            self.search_levels(dir, name, room)
        };
        let probe = self.noted(probe)?;
        if matches!(probe, Probe::Missing(_))
            && name.is_folded()
            && let Some(found) = self.find_misplaced(dir, name)?
        {
            return Ok(Probe::Found(found));
        }
        Ok(probe)
    }

    fn search_inline(&self, dir: &Arc<Inode>, name: &DirName<'_>, room: RoomSearch) -> Result<Probe> {
        let chunk = self.inline_chunk(dir)?;
        let mut slot = 0;
        while let Some(entry) = chunk.next_with_hash(name.hash, slot)? {
            if name.is(&entry) {
                return self.found(dir, chunk.home, &entry).map(Probe::Found);
            }
            slot = entry.slot + 1;
        }
        let gap = |slot| Room::Gap { home: Home::Inline, slot, depth: 0 };
        let find = || chunk.shape.find_room(chunk.area(), room.slots).map(gap);
        Ok(Probe::Missing(room.gap.or_else(find).unwrap_or(Room::Convert)))
    }

    fn search_levels(&self, dir: &Arc<Inode>, name: &DirName<'_>, mut room: RoomSearch) -> Result<Probe> {
        let (depth, dir_level) = dir.get(|i| (i.i_current_depth.get().min(MAX_DEPTH), i.i_dir_level));
        let blocks = block_count(dir);
        let mut pages = dir.pages.lock();
        for level in 0..depth {
            let start = bucket_start(level, dir_level, name.hash);
            for fblk in start..start.saturating_add(bucket_blocks(level)) {
                if fblk < blocks && pages.page(fblk).is_none() {
                    drop(pages);
                    self.read_block(dir, fblk)?;
                    pages = dir.pages.lock();
                }
                let Some((block, tags)) = (if fblk < blocks { pages.names(fblk) } else { None }) else {
                    room.hole(fblk, depth);
                    continue;
                };
                if let Some(found) = self.find_in(dir, fblk, block, tags, name)? {
                    return Ok(Probe::Found(found));
                }
                room.look(block, tags.free(), fblk, depth);
            }
        }
        if depth < MAX_DEPTH {
            room.hole(bucket_start(depth, dir_level, name.hash), depth + 1);
        }
        Ok(Probe::Missing(room.gap.unwrap_or(Room::None)))
    }

    fn find_in(
        &self,
        dir: &Inode,
        fblk: u64,
        block: &Block,
        tags: &Tags,
        name: &DirName<'_>,
    ) -> Result<Option<Found>> {
        let home = Home::Block(fblk);
        for slot in tags.slots(name.hash) {
            let entry =
                DentryShape::BLOCK.entry_at(&block.0, slot, 0).map_err(|c| damaged(dir.ino, home, c))?;
            if let Some(entry) = entry.filter(|e| e.hash == name.hash && name.is(e)) {
                return self.found(dir, home, &entry).map(Some);
            }
        }
        Ok(None)
    }

    fn found(&self, dir: &Inode, home: Home, entry: &Entry<'_>) -> Result<Found> {
        let ino = target(dir.ino, home, entry, self.geo.max_nid())?;
        Ok(Found { ino, home, slot: entry.slot, name_len: entry.name.len() })
    }

    /// Searches all of a casefolded directory for a name that is not where its hash says: some kernels fold a few
    /// characters differently. A directory in which every name is in its place is searched only once.
    fn find_misplaced(&self, dir: &Arc<Inode>, name: &DirName<'_>) -> Result<Option<Found>> {
        let trusted = self.sb.raw.s_encoding_flags.get() & ENCODING_NO_LINEAR_LOOKUP != 0;
        if trusted || dir.hashes_checked.load(Ordering::Acquire) {
            return Ok(None);
        }
        let (mut in_place, mut from) = (true, 0);
        while let Some(chunk) = self.chunk_from(dir, from)? {
            from = chunk.next_block();
            let mut slot = 0;
            while let Some(entry) = chunk.next(slot)? {
                if name.is(&entry) {
                    return self.found(dir, chunk.home, &entry).map(Some);
                }
                in_place &= entry.hash == casefolded_name_hash(entry.name);
                slot = entry.next();
            }
        }
        dir.hashes_checked.store(in_place, Ordering::Release);
        Ok(None)
    }

    /// Whether an entry found earlier, with the lock given up in between, is still the same.
    pub(crate) fn dir_still(&self, dir: &Arc<Inode>, name: &DirName<'_>, found: &Found) -> Result<bool> {
        if is_inline(dir) != (found.home == Home::Inline) {
            return Ok(false);
        }
        let Some(chunk) = self.chunk(dir, found.home)? else { return Ok(false) };
        if !chunk.shape.in_use(chunk.area(), found.slot) {
            return Ok(false);
        }
        let entry = chunk.next(found.slot)?;
        Ok(entry.is_some_and(|e| e.slot == found.slot && e.ino == found.ino && name.is(&e)))
    }

    /// Name and hash of an entry as they are stored.
    pub(crate) fn dir_stored(&self, dir: &Arc<Inode>, found: &Found) -> Result<(Vec<u8>, u32)> {
        let chunk = self.chunk(dir, found.home)?.ok_or(Error::NotFound)?;
        let entry = chunk.next(found.slot)?.ok_or(Error::NotFound)?;
        Ok((entry.name.to_vec(), entry.hash))
    }

    /// Whether nothing but `.` and `..` is in a directory. Those are in the first two slots.
    pub(crate) fn dir_is_empty(&self, dir: &Arc<Inode>) -> Result<bool> {
        let mut from = 0;
        while let Some(chunk) = self.chunk_from(dir, from)? {
            from = chunk.next_block();
            let first = if matches!(chunk.home, Home::Inline | Home::Block(0)) { 2 } else { 0 };
            if !chunk.shape.is_empty_but(chunk.area(), 0..first) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The parent that `..` names.
    pub(crate) fn dir_parent(&self, dir: &Arc<Inode>) -> Result<Ino> {
        match self.dir_find(dir, &DirName::plain(b".."))? {
            Some(found) => Ok(found.ino),
            None => Err(Error::Corrupt(segno_format::Corrupt::nid(
                segno_format::Structure::DentryBlock,
                dir.ino.0,
                "directory without ..",
                0,
                1,
            ))),
        }
    }
}
