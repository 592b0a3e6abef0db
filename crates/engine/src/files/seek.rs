//! Data, holes and extents of a file.
use super::compress::cluster_blocks;
use super::{Files, Inode, SIZE};
use crate::error::{Error, Result};
use crate::nodes::{Place, Span};
use crate::types::{Extent, ExtentKind};
use segno_format::inode::{Inline, RawInode};
use segno_format::{BlockAddr, Ino};
use std::sync::Arc;

/// Classification of a block for lseek(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    Data,
    Hole,
    /// Reserved and not written: F2FS reports neither data nor a hole.
    Reserved,
}

impl Files {
    /// Offset of the first byte of a kind at or after `offset`; the end of the file counts as a hole.
    pub fn seek(&self, ino: Ino, offset: u64, wanted: BlockKind) -> Result<u64> {
        let inode = self.inode(ino)?;
        let _shared = inode.lock.read();
        if inode.is_gone() {
            return Err(Error::NotFound);
        }
        if !inode.get(RawInode::is_reg) {
            return Err(Error::Invalid("not a regular file"));
        }
        let size = inode.size();
        if offset >= size {
            return Err(Error::NoSuchOffset);
        }
        if inode.is_inline() {
            return Ok(if wanted == BlockKind::Data { offset } else { size });
        }
        match self.first_of(&inode, offset / SIZE, size.div_ceil(SIZE), wanted)? {
            Some(block) => Ok(offset.max(block.saturating_mul(SIZE))),
            None if wanted == BlockKind::Hole => Ok(size),
            None => Err(Error::NoSuchOffset),
        }
    }

    fn first_of(&self, inode: &Arc<Inode>, from: u64, end: u64, wanted: BlockKind) -> Result<Option<u64>> {
        let mut at = from;
        while at < end {
            at = match self.nodes.find_span(&inode.frame, at)? {
                Place::Missing { .. } if wanted == BlockKind::Hole => return Ok(Some(at)),
                Place::Missing { next } => next,
                Place::Span(span) => {
                    let found =
                        self.block_kinds(inode, &span, at, end)?.into_iter().position(|s| s == wanted);
                    if let Some(i) = found {
                        return Ok(Some(at.saturating_add(i as u64)));
                    }
                    span.blocks.end
                }
            };
        }
        Ok(None)
    }

    /// Classifies each block of a node from `at` to `end`.
    fn block_kinds(&self, inode: &Inode, span: &Span, at: u64, end: u64) -> Result<Vec<BlockKind>> {
        let blocks = at..end.min(span.blocks.end);
        // Pages before slots: a page that a flush drops in between leaves an address.
        let cached: Vec<u64> = inode.pages.lock().indices(blocks.clone());
        let addrs = self.nodes.slot_addrs(&span.frame, span.slots(&span.blocks))?;
        let cluster = inode.get(RawInode::is_compressed).then(|| cluster_blocks(inode));
        let addr = |block: u64| addrs.get(span.slot(block) as usize).copied().unwrap_or_default();
        let sort = |block: u64| {
            let first = |cluster: u64| block - u64::from(span.slot(block)) % cluster;
            let compressed = cluster.is_some_and(|c| addr(first(c)) == BlockAddr::COMPRESS);
            match addr(block) {
                _ if compressed => BlockKind::Data,
                BlockAddr::NULL => BlockKind::Hole,
                BlockAddr::NEW if cached.binary_search(&block).is_err() => BlockKind::Reserved,
                _ => BlockKind::Data,
            }
        };
        Ok(blocks.map(sort).collect())
    }

    /// The first mapped file block at or after `at`; `end` if all are holes.
    pub fn next_mapped(&self, inode: &Arc<Inode>, at: u64, end: u64) -> Result<u64> {
        for span in self.nodes.spans(&inode.frame, at..end) {
            let span = span?;
            let addrs = self.nodes.slot_addrs(&span.frame, span.slots(&(at..end)))?;
            if let Some(i) = addrs.iter().position(|&a| a != BlockAddr::NULL) {
                return Ok(at.max(span.blocks.start) + i as u64);
            }
        }
        Ok(end)
    }

    /// Extents of the file in file order; dirty data is reported at its previous address.
    pub fn extents(&self, inode: &Arc<Inode>) -> Result<Vec<Extent>> {
        let _shared = inode.lock.read();
        if inode.get(|i| i.inline().intersects(Inline::DATA | Inline::DENTRY)) {
            return Ok(vec![Extent { file_block: 0, addr: 0, len: 1, kind: ExtentKind::Inline }]);
        }
        if !inode.get(|i| i.is_reg() || i.is_dir() || i.is_symlink()) {
            return Ok(Vec::new());
        }
        let mut extents = Vec::new();
        for span in self.nodes.spans(&inode.frame, 0..u64::MAX) {
            self.extents_of(inode, &span?, &mut extents)?;
        }
        Ok(extents)
    }

    fn extents_of(&self, inode: &Inode, span: &Span, extents: &mut Vec<Extent>) -> Result<()> {
        let addrs = self.nodes.slot_addrs(&span.frame, span.slots(&span.blocks))?;
        let step = if inode.get(RawInode::is_compressed) { cluster_blocks(inode) } else { 1 };
        for (file_block, cluster) in
            (span.blocks.start..).step_by(step as usize).zip(addrs.chunks(step as usize))
        {
            if let Some((&BlockAddr::COMPRESS, stored)) = cluster.split_first() {
                let addr = stored.first().map_or(0, |a| a.0);
                extents.push(Extent { file_block, addr, len: step, kind: ExtentKind::Compressed });
                continue;
            }
            for (file_block, &addr) in (file_block..).zip(cluster) {
                add_block(extents, file_block, addr);
            }
        }
        Ok(())
    }
}

/// Appends one block, to the last extent if adjacent.
fn add_block(extents: &mut Vec<Extent>, file_block: u64, addr: BlockAddr) {
    let kind = match addr {
        BlockAddr::NULL => return,
        BlockAddr::NEW => ExtentKind::Unwritten,
        _ => ExtentKind::Written,
    };
    let is_concurrent = |e: &Extent| {
        let follows = kind == ExtentKind::Unwritten || u64::from(addr.0) == u64::from(e.addr) + e.len;
        e.kind == kind && e.file_block + e.len == file_block && follows
    };
    match extents.last_mut() {
        Some(e) if is_concurrent(e) => e.len += 1,
        _ => extents.push(Extent { file_block, addr: addr.0, len: 1, kind }),
    }
}
