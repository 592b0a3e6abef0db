//! Files that grow: the inode's block has a size only once the data below it are written.
//!
//! A checkpoint takes inodes as they are, and data that nobody synced may be in memory still. If it took the new size of a
//! file too, a cut would leave the file with zeros that nobody wrote. So an operation that makes a file larger sets
//! [`Inode::grown`], and the block's size follows when pages are published: to the first page that is not written, or to
//! the end. From the block's size on, pages are taken in ascending order without a gap, so no block with an address lies
//! behind it. All of this happens under the lock of the pages.
use crate::gate::Op;
use crate::inode::Inode;
use crate::page::PageMap;
use crate::planted::{Bug, planted};
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use segno_format::BLOCK_SIZE;
use segno_format::inode::RawInode;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::U64;

const SIZE: u64 = BLOCK_SIZE as u64;

impl Inode {
    /// The inode is being freed: no flush may touch its block any more.
    pub(crate) fn forget_growth(&self) {
        let _pages = self.pages.lock();
        self.grown.store(0, Ordering::Release);
    }

    /// The first block that the size in the inode's block does not cover, while the file is larger than that.
    fn uncovered(&self) -> Option<u64> {
        let published = self.published_size();
        (self.grown.load(Ordering::Acquire) > published).then_some(published / SIZE)
    }
}

impl Volume {
    /// The file reaches to `end`, of which not all is written. The caller holds the lock of the pages.
    pub(super) fn grow(&self, op: &Op<'_>, inode: &Inode, end: u64) {
        if planted(Bug::EagerSize) {
            self.store_size(op, inode, end.max(inode.published_size()));
        } else if end > inode.size() {
            inode.grown.store(end, Ordering::Release);
        }
    }

    /// What a flush of a range takes: from the first uncovered block on all that is dirty.
    pub(super) fn flushed_range(&self, inode: &Inode, range: Range<u64>) -> Range<u64> {
        let first = inode.uncovered().filter(|&first| first < range.end).unwrap_or(range.start);
        range.start.min(first)..range.end
    }

    /// Notes how far flush `id`, which has just taken its pages, covers the file.
    pub(super) fn cover(&self, inode: &Inode, pages: &mut PageMap, id: u64) {
        let left = inode.uncovered().and_then(|first| pages.first_from(first, |p| p.flush_id != Some(id)));
        pages.covered = left.map_or(u64::MAX, |block| block.saturating_mul(SIZE)).min(inode.size());
    }

    /// Lets the block's size follow what is written, which reaches to `covered` at least.
    pub(super) fn publish_size(&self, op: &Op<'_>, inode: &Inode, pages: &PageMap, covered: u64) {
        let Some(first) = inode.uncovered() else { return };
        let size = inode.size();
        let to = if pages.first_from(first, |_| true).is_none() { size } else { covered.min(size) };
        if to > inode.published_size() {
            self.store_size(op, inode, to);
        }
        if to == size {
            inode.grown.store(0, Ordering::Release);
        }
    }

    /// The file has another size from now on; whoever made it shorter has dropped the pages behind.
    pub(super) fn resize(&self, op: &Op<'_>, inode: &Arc<Inode>, size: u64) {
        let mut pages = inode.pages.lock();
        pages.covered = pages.covered.min(size);
        if size <= inode.published_size() {
            inode.grown.store(0, Ordering::Release);
            self.store_size(op, inode, size);
        } else {
            inode.grown.store(size, Ordering::Release);
            self.publish_size(op, inode, &pages, 0);
        }
    }

    fn store_size(&self, op: &Op<'_>, inode: &Inode, size: u64) {
        self.nodes.modify(op, &inode.frame, |b| b.view_mut::<RawInode>().i_size = U64::new(size));
    }
}
