//! The entries of a directory, in its inode or in the blocks that their hashes choose.
use crate::tree::{Index, Tree};
use crate::{Error, Result};
use segno_codec::casefolded_name_hash;
use segno_format::dentry::{DentryShape, FileType, MAX_DEPTH, bucket_blocks, bucket_start, slots_for};
use segno_format::inode::InodeFlags;
use segno_format::{Block, Ino, name_hash};
use std::collections::BTreeMap;

/// Levels start with one bucket, as in directories that the kernel makes.
const DIR_LEVEL: u8 = 0;
/// `.` and `..`.
const DOTS: u32 = 2;

/// An entry of a directory.
pub(crate) struct Name<'a> {
    name: &'a [u8],
    hash: u32,
    ino: Ino,
    kind: FileType,
}

/// A directory as blocks.
pub(crate) struct DirBlocks {
    /// By their place in the directory; blocks in between are holes.
    pub(crate) blocks: BTreeMap<u32, Block>,
    /// Levels of the hash table.
    pub(crate) depth: u32,
}

/// The entries of a directory, in the order of the bytes of their names.
pub(crate) fn names<'a>(tree: &'a Tree, dir: Index, number: &dyn Fn(Index) -> Ino) -> Result<Vec<Name<'a>>> {
    let fold = tree.get(dir)?.flags.contains(InodeFlags::CASEFOLD);
    let each = tree.names(dir)?.iter().map(|(name, &index)| {
        Ok(Name {
            name,
            hash: if fold { casefolded_name_hash(name) } else { name_hash(name) },
            ino: number(index),
            kind: tree.get(index)?.kind.file_type(),
        })
    });
    each.collect()
}

/// Whether the entries fit into the inode.
pub(crate) fn fit_inline(shape: &DentryShape, names: &[Name<'_>]) -> bool {
    names.iter().map(|n| slots_for(n.name.len())).sum::<u32>().saturating_add(DOTS) <= shape.slots
}

/// Fills the inline area of an inode.
pub(crate) fn fill_inline(
    shape: &DentryShape,
    area: &mut [u8],
    names: &[Name<'_>],
    ino: Ino,
    parent: Ino,
) -> Result<()> {
    shape.insert_dots(area, ino, parent);
    for name in names {
        let slot = shape.find_room(area, slots_for(name.name.len()));
        let slot = slot.ok_or(Error::Invariant("an inline directory has room"))?;
        shape.insert(area, slot, name.hash, name.ino, name.name, name.kind);
    }
    Ok(())
}

/// Lays the entries out in blocks: each in the first level whose bucket has room.
pub(crate) fn in_blocks(names: &[Name<'_>], ino: Ino, parent: Ino) -> Result<DirBlocks> {
    let shape = &DentryShape::BLOCK;
    let mut dir = DirBlocks { blocks: BTreeMap::new(), depth: 1 };
    shape.insert_dots(&mut dir.blocks.entry(0).or_insert_with(Block::zeroed).0, ino, parent);
    for name in names {
        let slots = slots_for(name.name.len());
        let (block, slot) = (0..MAX_DEPTH)
            .find_map(|level| {
                dir.depth = dir.depth.max(level + 1);
                dir.room(level, name.hash, slots)
            })
            .ok_or(Error::TooLarge)?;
        let area = dir.blocks.entry(block).or_insert_with(Block::zeroed);
        shape.insert(&mut area.0, slot, name.hash, name.ino, name.name, name.kind);
    }
    Ok(dir)
}

impl DirBlocks {
    /// A place in the bucket of a hash at a level.
    fn room(&self, level: u32, hash: u32, slots: u32) -> Option<(u32, u32)> {
        let start = bucket_start(level, DIR_LEVEL, hash);
        (start..start + bucket_blocks(level)).find_map(|block| {
            let block = u32::try_from(block).ok()?;
            let slot = match self.blocks.get(&block) {
                Some(area) => DentryShape::BLOCK.find_room(&area.0, slots)?,
                None => 0,
            };
            Some((block, slot))
        })
    }

    /// Blocks from the first to the last.
    pub(crate) fn len(&self) -> u32 {
        self.blocks.last_key_value().map_or(0, |(last, _)| last + 1)
    }
}
