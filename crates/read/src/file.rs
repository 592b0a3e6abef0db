//! The data of files.
use crate::{Error, Inode, ReadAt, Volume};
use core::ops::Range;
use segno_format::inode::Inline;
use segno_format::node::{self, RawNode};
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Corrupt, Nid, Structure};

/// The direct node that was read last.
pub(crate) type Last = Option<(Nid, Block)>;

impl<R: ReadAt> Volume<R> {
    /// Reads data of a regular file, or the target of a symbolic link, and returns the number of bytes: fewer than fit only at the end.
    pub fn read(&self, file: &Inode, offset: u64, into: &mut [u8]) -> Result<usize, Error<R::Error>> {
        let (ino, raw) = (file.ino.0, file.raw());
        if !raw.is_reg() && !raw.is_symlink() {
            return Err(Error::NoData(ino));
        }
        if file.is_encrypted() {
            return Err(Error::Encrypted(ino));
        }
        let left = usize::try_from(file.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = left.min(into.len());
        let into = into.get_mut(..count).unwrap_or_default();
        if raw.inline().contains(Inline::DATA) {
            inline(file, offset, into)?;
        } else if raw.is_compressed() {
            self.clusters(file, offset, into)?;
        } else {
            self.blocks(file, offset, into)?;
        }
        Ok(count)
    }

    /// Reads blocks that are not compressed.
    pub(crate) fn blocks(&self, file: &Inode, offset: u64, into: &mut [u8]) -> Result<(), Error<R::Error>> {
        let mut last = None;
        in_units(BLOCK_SIZE, offset, into, |block, within, part| {
            match self.file_block(file, block, &mut last)? {
                Some(block) => part.copy_from_slice(block.0.get(within).unwrap_or_default()),
                None => part.fill(0),
            }
            Ok(())
        })
    }

    /// A block of a file or directory; `None` for a hole.
    pub(crate) fn file_block(
        &self,
        file: &Inode,
        block: u64,
        last: &mut Last,
    ) -> Result<Option<Block>, Error<R::Error>> {
        match self.address(file, block, last)? {
            BlockAddr::NULL | BlockAddr::NEW => Ok(None),
            at => self.main_block(at, Structure::Inode, file.ino.nid()).map(Some),
        }
    }

    /// Where a block of a file is.
    pub(crate) fn address(
        &self,
        file: &Inode,
        block: u64,
        last: &mut Last,
    ) -> Result<BlockAddr, Error<R::Error>> {
        let path = node::path(file.layout.slots, file.layout.per_node, block);
        let path = path.ok_or_else(|| {
            let (why, most) = ("block of a file", file.layout.max_blocks());
            Corrupt::nid(Structure::Inode, file.ino.0, why, block, most)
        })?;
        let [first, rest @ ..] = path.index;
        if path.depth == 0 {
            return Ok(file.raw().slot(&file.layout, first));
        }
        let mut nid = file.raw().nid(first);
        let offsets = path.offset.into_iter().skip(1);
        for (level, (index, offset)) in (1..=path.depth).zip(rest.into_iter().zip(offsets)) {
            if nid == Nid::NONE {
                return Ok(BlockAddr::NULL);
            }
            if level < path.depth {
                nid = self.node(nid, file.ino, offset)?.view::<RawNode>().nid(index);
                continue;
            }
            if last.as_ref().is_none_or(|(held, _)| *held != nid) {
                *last = Some((nid, self.node(nid, file.ino, offset)?));
            }
            return Ok(last.as_ref().map_or(BlockAddr::NULL, |(_, node)| node.view::<RawNode>().addr(index)));
        }
        Ok(BlockAddr::NULL)
    }
}

/// Calls `each` for each unit of a file that a buffer has a part of: with its number, the range in it, and the part.
pub(crate) fn in_units<E>(
    unit: usize,
    offset: u64,
    into: &mut [u8],
    mut each: impl FnMut(u64, Range<usize>, &mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut at, mut rest) = (offset, into);
    while !rest.is_empty() {
        let within = (at % unit as u64) as usize;
        let count = (unit - within).min(rest.len());
        let Some((part, behind)) = core::mem::take(&mut rest).split_at_mut_checked(count) else { break };
        each(at / unit as u64, within..within + count, part)?;
        (at, rest) = (at.saturating_add(count as u64), behind);
    }
    Ok(())
}

/// Data in the inode.
fn inline(file: &Inode, offset: u64, into: &mut [u8]) -> Result<(), Corrupt> {
    let area = file.inline_area();
    let start = usize::try_from(offset).ok();
    let range = start.and_then(|start| Some(start..start.checked_add(into.len())?));
    match range.and_then(|range| area.get(range)) {
        Some(bytes) => into.copy_from_slice(bytes),
        None if into.is_empty() => {}
        None => {
            let why = "size of a file whose data is in the inode";
            return Err(Corrupt::nid(Structure::Inode, file.ino.0, why, file.len(), area.len() as u64));
        }
    }
    Ok(())
}
