//! Names in a directory, including removed ones that are not overwritten yet.
use crate::file::{File, Opened};
use crate::volume::Volume;
use segno_codec::casefolded_name_hash;
use segno_format::dentry::{DentryShape, Entry};
use segno_format::inode::{Inline, InodeFlags};
use segno_format::{BLOCK_SIZE, name_hash};
use std::collections::HashSet;

/// A name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// As stored.
    pub name: Vec<u8>,
    /// Inode that it leads to.
    pub ino: u32,
    /// Whether its slots are marked as unused.
    pub removed: bool,
    /// Hash, as stored.
    pub hash: u32,
    /// Whether that is the hash of the name. Not known where names are encrypted and ignore case.
    pub hash_right: bool,
    /// Type, as stored.
    pub file_type: u8,
    /// Block of the directory; `None` for an inline directory.
    pub block: Option<u64>,
    /// First slot.
    pub slot: u32,
}

/// Most blocks of a directory that are read: more than its hash levels can need for 2^31 names.
const BLOCKS: u64 = 1 << 26;

/// Reads all names except `.` and `..`. Returns whether every block was read and valid. `seen` holds the
/// blocks read so far, so a block that several directories name is read once and then belongs to the first.
pub fn names(volume: &Volume<'_>, dir: &Opened, seen: &mut HashSet<u32>, mut each: impl FnMut(Name)) -> bool {
    if dir.raw().inline().contains(Inline::DENTRY) {
        return area(dir, &DentryShape::inline(&dir.layout), dir.inline_area(), None, &mut each);
    }
    let mut complete = dir.missing == 0;
    let end = dir.blocks().min(BLOCKS);
    let lost = dir.slots(volume, |slots| {
        for slot in slots.iter().filter(|s| s.addr.is_real() && s.file_block < end) {
            let own = volume.in_main(slot.addr) && seen.insert(slot.addr.0);
            let block = if own { volume.reader.block(slot.addr) } else { None };
            complete &=
                block.is_some_and(|b| area(dir, &DentryShape::BLOCK, &b.0, Some(slot.file_block), &mut each));
        }
    });
    complete && lost == 0
}

fn area(
    dir: &File,
    shape: &DentryShape,
    area: &[u8],
    block: Option<u64>,
    each: &mut impl FnMut(Name),
) -> bool {
    let name = |e: &Entry<'_>, removed| Name {
        name: e.name.to_vec(),
        ino: e.ino.0,
        removed,
        hash: e.hash,
        hash_right: e.hash == hash(dir, e.name),
        file_type: e.file_type,
        block,
        slot: e.slot,
    };
    let complete = entries(shape, area, |e| {
        if e.name != b"." && e.name != b".." {
            each(name(&e, false));
        }
    });
    // With the bitmap inverted the unused slots are the used ones.
    let mut inverted = [0; BLOCK_SIZE];
    let Some(copy) = inverted.get_mut(..area.len()) else { return false };
    copy.copy_from_slice(area);
    let map = (shape.slots as usize).div_ceil(8);
    copy.iter_mut().take(map).for_each(|b| *b = !*b);
    // Errors do not matter here, because the slots are not in use.
    let _any = entries(shape, copy, |e| {
        let name = name(&e, true);
        if name.ino > 2 && name.hash != 0 && name.hash_right {
            each(name);
        }
    });
    complete
}

/// Continues after a damaged entry. Returns whether all entries were valid.
fn entries(shape: &DentryShape, area: &[u8], mut each: impl FnMut(Entry<'_>)) -> bool {
    let (mut slot, mut sound) = (0, true);
    while slot < shape.slots {
        slot = match shape.entry_at(area, slot, 0) {
            Ok(Some(e)) => {
                let next = e.next();
                each(e);
                next
            }
            Ok(None) => slot + 1,
            Err(_) => {
                sound = false;
                slot + 1
            }
        };
    }
    sound
}

fn hash(dir: &File, name: &[u8]) -> u32 {
    match dir.raw().flags().contains(InodeFlags::CASEFOLD) {
        true => casefolded_name_hash(name),
        false => name_hash(name),
    }
}
