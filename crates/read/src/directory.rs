//! Names in directories.
use crate::{Error, Inode, ReadAt, Volume};
use segno_format::dentry::{self, DentryShape, FileType, MAX_DEPTH, bucket_blocks, bucket_start};
use segno_format::inode::{Inline, InodeFlags};
use segno_format::{BLOCK_SIZE, Corrupt, Ino, Structure, name_hash};

/// Blocks of a directory that are read: more than its hash levels need for 2^31 names.
const BLOCKS: u64 = 1 << 26;

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// As stored.
    pub name: &'a [u8],
    /// Inode that it leads to.
    pub ino: Ino,
    /// The file type in the entry; `None` for an unknown value.
    pub file_type: Option<FileType>,
}

impl<'a> From<dentry::Entry<'a>> for Entry<'a> {
    fn from(e: dentry::Entry<'a>) -> Self {
        Self { name: e.name, ino: e.ino, file_type: FileType::from_disk(e.file_type) }
    }
}

impl<R: ReadAt> Volume<R> {
    /// Calls `each` with the names of a directory, without `.` and `..`, in the order of the volume.
    pub fn read_dir(&self, dir: &Inode, mut each: impl FnMut(Entry<'_>)) -> Result<(), Error<R::Error>> {
        check(dir)?;
        if dir.raw().inline().contains(Inline::DENTRY) {
            return Ok(list(&DentryShape::inline(&dir.layout), dir.inline_area(), dir, &mut each)?);
        }
        let (blocks, mut last) = (dir.len() / BLOCK_SIZE as u64, None);
        if blocks > BLOCKS {
            return Err(
                Corrupt::nid(Structure::Inode, dir.ino.0, "blocks of a directory", blocks, BLOCKS).into()
            );
        }
        for block in 0..blocks {
            if let Some(block) = self.file_block(dir, block, &mut last)? {
                list(&DentryShape::BLOCK, &block.0, dir, &mut each)?;
            }
        }
        Ok(())
    }

    /// The inode that a name in a directory leads to.
    pub(crate) fn find(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>, Error<R::Error>> {
        check(dir)?;
        let raw = dir.raw();
        if raw.flags().contains(InodeFlags::CASEFOLD) {
            return Err(Error::IgnoresCase(dir.ino.0));
        }
        let hash = name_hash(name);
        if raw.inline().contains(Inline::DENTRY) {
            return Ok(search(&DentryShape::inline(&dir.layout), dir.inline_area(), dir, (hash, name))?);
        }
        let mut last = None;
        for level in 0..raw.i_current_depth.get().min(MAX_DEPTH) {
            let start = bucket_start(level, raw.i_dir_level, hash);
            let end = start.saturating_add(bucket_blocks(level)).min(dir.len() / BLOCK_SIZE as u64);
            for block in start..end {
                let Some(block) = self.file_block(dir, block, &mut last)? else { continue };
                let found = search(&DentryShape::BLOCK, &block.0, dir, (hash, name))?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }
}

fn check<E>(dir: &Inode) -> Result<(), Error<E>> {
    if !dir.raw().is_dir() {
        return Err(Error::NotADirectory(dir.ino.0));
    }
    match dir.is_encrypted() {
        true => Err(Error::Encrypted(dir.ino.0)),
        false => Ok(()),
    }
}

fn list(
    shape: &DentryShape,
    area: &[u8],
    dir: &Inode,
    each: &mut impl FnMut(Entry<'_>),
) -> Result<(), Corrupt> {
    let mut slot = 0;
    while let Some(entry) = shape.next(area, slot, dir.ino.0.into())? {
        slot = entry.next();
        if entry.name != b"." && entry.name != b".." {
            each(entry.into());
        }
    }
    Ok(())
}

fn search(
    shape: &DentryShape,
    area: &[u8],
    dir: &Inode,
    (hash, name): (u32, &[u8]),
) -> Result<Option<Ino>, Corrupt> {
    let mut slot = 0;
    while let Some(entry) = shape.next_with_hash(area, hash, slot, dir.ino.0.into())? {
        if entry.name == name {
            return Ok(Some(entry.ino));
        }
        slot = entry.next();
    }
    Ok(None)
}
