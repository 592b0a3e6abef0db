//! Finds a name, or room for a new one.
use super::Dirs;
use super::chunk::{Location, block_count, damaged, is_inline, target};
use super::name::{DirName, ENCODING_NO_LINEAR_LOOKUP};
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::files::Tags;
use crate::sync::atomic::Ordering;
use segno_codec::casefolded_name_hash;
use segno_format::dentry::{DentryShape, Entry, MAX_DEPTH, bucket_blocks, bucket_start, slots_for};
use segno_format::{Block, Corrupt, Ino, Structure};
use std::sync::Arc;

/// An existing entry. Valid while the directory's lock is held.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub(crate) ino: Ino,
    pub(super) location: Location,
    pub(super) slot: u32,
    pub(super) name_len: usize,
}

impl Found {
    /// Whether both are the same entry of the same directory.
    pub fn is_same_entry(&self, other: &Self) -> bool {
        self.location == other.location && self.slot == other.slot
    }
}

/// Room for a new name. Valid while the directory's lock is held exclusively.
#[derive(Clone, Copy, Debug)]
pub enum Room {
    /// A gap, and the directory's hash depth once the gap is in use.
    Gap { location: Location, slot: u32, depth: u32 },
    /// The inline directory is full.
    Convert,
    /// All levels are full.
    None,
}

/// Result of a search.
#[derive(Clone, Copy, Debug)]
pub enum Probe {
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
    /// A search that needs no gap.
    fn content() -> Self {
        Self { slots: 0, gap: Some(Room::None) }
    }
    /// Considers a block with `free` free slots.
    fn look(&mut self, block: &Block, free: u32, fblk: u64, depth: u32) {
        if self.gap.is_none() && self.slots <= free {
            let slot = DentryShape::BLOCK.find_room(&block.0, self.slots);
            self.gap = slot.map(|slot| Room::Gap { location: Location::Block(fblk), slot, depth });
        }
    }
    fn hole(&mut self, fblk: u64, depth: u32) {
        self.gap.get_or_insert(Room::Gap { location: Location::Block(fblk), slot: 0, depth });
    }
}

impl Dirs {
    /// Finds the entry of a name.
    pub fn find(&self, dir: &Arc<Inode>, name: &DirName<'_>) -> Result<Option<Found>> {
        Ok(match self.search(dir, name, RoomSearch::content())? {
            Probe::Found(found) => Some(found),
            Probe::Missing(_) => None,
        })
    }

    /// Finds the entry of a name, or room for it.
    pub fn probe(&self, dir: &Arc<Inode>, name: &DirName<'_>) -> Result<Probe> {
        self.search(dir, name, RoomSearch::new(name))
    }

    fn search(&self, dir: &Arc<Inode>, name: &DirName<'_>, room: RoomSearch) -> Result<Probe> {
        let probe = if is_inline(dir) {
            self.search_inline(dir, name, room)
        } else {
            self.search_levels(dir, name, room)
        };
        let probe = self.base.health.record_damage(probe)?;
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
                return self.found(dir, chunk.location, &entry).map(Probe::Found);
            }
            slot = entry.slot + 1;
        }
        let gap = |slot| Room::Gap { location: Location::Inline, slot, depth: 0 };
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
                    self.files.read_block(dir, fblk)?;
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
        let location = Location::Block(fblk);
        for slot in tags.slots(name.hash) {
            let entry =
                DentryShape::BLOCK.found_at(&block.0, slot, 0).map_err(|c| damaged(dir.ino, location, c))?;
            if let Some(entry) = entry.filter(|e| e.hash == name.hash && name.is(e)) {
                return self.found(dir, location, &entry).map(Some);
            }
        }
        Ok(None)
    }

    fn found(&self, dir: &Inode, location: Location, entry: &Entry<'_>) -> Result<Found> {
        let ino = target(dir.ino, location, entry, self.base.geo.max_nid())?;
        Ok(Found { ino, location, slot: entry.slot, name_len: entry.name.len() })
    }

    /// Searches all of a casefolded directory for a name outside its hash bucket: some kernels fold a few characters
    /// differently. A directory with every name in its bucket is searched only once.
    fn find_misplaced(&self, dir: &Arc<Inode>, name: &DirName<'_>) -> Result<Option<Found>> {
        let trusted = self.base.sb.raw.s_encoding_flags.get() & ENCODING_NO_LINEAR_LOOKUP != 0;
        if trusted || dir.hashes_checked.load(Ordering::Acquire) {
            return Ok(None);
        }
        let (mut in_place, mut from) = (true, 0);
        while let Some(chunk) = self.chunk_from(dir, from)? {
            from = chunk.next_block();
            for entry in chunk.entries(0) {
                let entry = entry?;
                if name.is(&entry) {
                    return self.found(dir, chunk.location, &entry).map(Some);
                }
                in_place &= entry.hash == casefolded_name_hash(entry.name);
            }
        }
        dir.hashes_checked.store(in_place, Ordering::Release);
        Ok(None)
    }

    /// Whether an entry found earlier, before the lock was released, is unchanged.
    pub fn still_has(&self, dir: &Arc<Inode>, name: &DirName<'_>, found: &Found) -> Result<bool> {
        if is_inline(dir) != (found.location == Location::Inline) {
            return Ok(false);
        }
        let Some(chunk) = self.chunk(dir, found.location)? else { return Ok(false) };
        if !chunk.shape.in_use(chunk.area(), found.slot) {
            return Ok(false);
        }
        let entry = chunk.next(found.slot)?;
        Ok(entry.is_some_and(|e| e.slot == found.slot && e.ino == found.ino && name.is(&e)))
    }

    /// Name and hash of an entry as stored.
    pub fn stored(&self, dir: &Arc<Inode>, found: &Found) -> Result<(Vec<u8>, u32)> {
        let chunk = self.chunk(dir, found.location)?.ok_or(Error::NotFound)?;
        let entry = chunk.next(found.slot)?.ok_or(Error::NotFound)?;
        Ok((entry.name.to_vec(), entry.hash))
    }

    /// Whether a directory has no entries but `.` and `..`, which are in the first two slots.
    pub fn is_empty(&self, dir: &Arc<Inode>) -> Result<bool> {
        let mut from = 0;
        while let Some(chunk) = self.chunk_from(dir, from)? {
            from = chunk.next_block();
            let first = if matches!(chunk.location, Location::Inline | Location::Block(0)) { 2 } else { 0 };
            if !chunk.shape.is_empty_but(chunk.area(), 0..first) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The parent that `..` names.
    pub fn parent(&self, dir: &Arc<Inode>) -> Result<Ino> {
        match self.find(dir, &DirName::plain(b".."))? {
            Some(found) => Ok(found.ino),
            None => Err(Corrupt::nid(Structure::DentryBlock, dir.ino.0, "directory without ..", 0, 1).into()),
        }
    }
}
