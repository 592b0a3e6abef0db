//! Growing files: the size in the inode's block covers only data that was written.
//!
//! A checkpoint may run while appended data is only in memory. If it stored the new size too, a file would end in
//! zeros after a power cut. So an operation that grows a file sets [`Inode::grown`], and the size in the block
//! follows when pages are published: up to the first unwritten page, or to the end. Pages beyond the block's size are
//! flushed in ascending order without gaps, so no block with an address is beyond that size. All of this happens
//! under the lock of the pages.
use super::PageMap;
use super::{Files, Inode, SIZE};
use crate::sync::atomic::Ordering;
use crate::transaction::Op;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::U64;

impl Inode {
    /// Clears the growth of an inode that is being freed: no flush may change its block any more.
    pub fn forget_growth(&self) {
        let _pages = self.pages.lock();
        self.grown.store(0, Ordering::Release);
    }

    /// The first block not covered by the size in the inode's block, if the file is larger than that.
    fn uncovered(&self) -> Option<u64> {
        let published = self.published_size();
        (self.grown.load(Ordering::Acquire) > published).then_some(published / SIZE)
    }
}

impl Files {
    /// Grows the file to `end`; the data is not all written yet. The caller holds the lock of the pages.
    pub(super) fn grow(&self, inode: &Inode, end: u64) {
        if end > inode.size() {
            inode.grown.store(end, Ordering::Release);
        }
    }

    /// Extends the range of a flush down to the first uncovered block.
    pub(super) fn flushed_range(&self, inode: &Inode, range: Range<u64>) -> Range<u64> {
        let first = inode.uncovered().filter(|&first| first < range.end).unwrap_or(range.start);
        range.start.min(first)..range.end
    }

    /// Computes the size covered by flush `id`, which has just taken its pages.
    pub(super) fn cover(&self, inode: &Inode, pages: &mut PageMap, id: u64) {
        let left = inode.uncovered().and_then(|first| pages.first_from(first, |p| p.flush_id != Some(id)));
        pages.covered = left.map_or(u64::MAX, |block| block.saturating_mul(SIZE)).min(inode.size());
    }

    /// Raises the block's size to what is written, which is at least `covered`.
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

    /// Sets the size. A caller that shrinks the file has dropped the pages beyond it.
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
        self.nodes.cache.modify_inode(op, &inode.frame, |i| i.i_size = U64::new(size));
    }
}
