//! Directory listing.
use super::Dirs;
use super::chunk::{Chunk, Location, target};
use super::name::is_dots;
use super::nokey;
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::types::DirEntry;
use segno_format::Ino;
use segno_format::dentry::{FileType, SLOTS_PER_BLOCK};
use segno_format::inode::Advise;
use std::sync::Arc;

/// Slots of a block in a position.
const SLOTS: u64 = SLOTS_PER_BLOCK as u64;

impl Dirs {
    /// Lists a directory from a position, including `.` and `..`, until `each` returns false; that entry is not
    /// consumed. A position is file block × 214 + slot, as in Linux, so it is stable while other names are added or
    /// removed.
    pub fn readdir(&self, dir: Ino, pos: u64, each: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let dir = self.files.inode(dir)?;
        if !dir.is_dir() {
            return Err(Error::NotDir);
        }
        let encrypted = dir.get(|i| i.advise().contains(Advise::ENCRYPT));
        let mut pos = pos;
        // `each` may call the engine, so it gets a copy of each block, without the lock.
        while let Some(chunk) = self.next_chunk(&dir, &mut pos)? {
            if !self.base.health.record_damage(self.list_chunk(&chunk, &mut pos, encrypted, each))? {
                break;
            }
        }
        Ok(())
    }

    /// The names at or after a position, which skips holes.
    fn next_chunk(&self, dir: &Arc<Inode>, pos: &mut u64) -> Result<Option<Chunk>> {
        let _lock = dir.lock.read();
        if dir.is_gone() || dir.get(|i| i.i_links.get()) == 0 {
            return Err(Error::NotFound);
        }
        let Some(chunk) = self.chunk_from(dir, *pos / SLOTS)? else { return Ok(None) };
        if let Location::Block(fblk) = chunk.location {
            *pos = (*pos).max(fblk * SLOTS);
        }
        Ok(Some(chunk))
    }

    /// Passes the names of one block to `each`; returns false if `each` stops. Otherwise advances past the block.
    fn list_chunk(
        &self,
        chunk: &Chunk,
        pos: &mut u64,
        encrypted: bool,
        each: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<bool> {
        let first = match chunk.location {
            Location::Inline => 0,
            Location::Block(fblk) => fblk * SLOTS,
        };
        for entry in chunk.entries((*pos - first) as u32) {
            let entry = entry?;
            let ino = target(chunk.dir, chunk.location, &entry, self.base.geo.max_nid())?;
            let kind = FileType::from_disk(entry.file_type).unwrap_or(FileType::Unknown);
            let next = first + u64::from(entry.next());
            let seen = if encrypted && !is_dots(entry.name) {
                each(DirEntry { ino, kind, name: &nokey::encode(entry.hash, entry.name), next })
            } else {
                each(DirEntry { ino, kind, name: entry.name, next })
            };
            if !seen {
                return Ok(false);
            }
        }
        *pos = first + SLOTS;
        Ok(true)
    }
}
