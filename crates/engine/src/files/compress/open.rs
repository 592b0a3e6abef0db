//! Changing packed clusters: all of their pages become dirty first.
use super::read::Content;
use super::{bad_cluster, cluster_blocks, cluster_of};
use crate::block::{SharedBlock, shared};
use crate::error::Result;
use crate::files::{Files, Inode, PageMap, SIZE};
use crate::lock::{MutexGuard, rank};
use segno_format::inode::RawInode;
use segno_format::{BLOCK_SIZE, Block, BlockAddr};
use std::ops::Range;
use std::sync::Arc;

/// The content of a packed cluster.
pub struct Opened {
    first: u64,
    blocks: Vec<SharedBlock>,
}

impl Opened {
    /// The content of a file block, if the cluster has it.
    pub fn block(&self, block: u64) -> Option<&SharedBlock> {
        self.blocks.get(usize::try_from(block.checked_sub(self.first)?).ok()?)
    }

    /// Zeroes the bytes past the end of the file: they become part of it.
    fn cut(&mut self, size: u64) {
        for (start, block) in (self.first * SIZE..).step_by(BLOCK_SIZE).zip(&mut self.blocks) {
            let kept = size.saturating_sub(start) as usize;
            let tail = block.0.get(kept..).unwrap_or_default();
            if tail.iter().any(|&b| b != 0) {
                Arc::make_mut(block).0.get_mut(kept..).unwrap_or_default().fill(0);
            }
        }
    }
}

/// Clusters that `bytes` cover in part.
fn partial(bytes: &Range<u64>, len: u64) -> Vec<u64> {
    let mut clusters = Vec::new();
    for at in [bytes.start, bytes.end] {
        let first = cluster_of(at / SIZE, len).start;
        let inside = !at.is_multiple_of(len * SIZE) && bytes.start < bytes.end;
        if inside && clusters.last() != Some(&first) {
            clusters.push(first);
        }
    }
    clusters
}

impl Inode {
    /// Excludes flushes of a compressed file until the result is dropped: a flush changes the form of whole
    /// clusters. The caller holds the inode's lock and has not entered the gate.
    pub fn exclude_flush(&self) -> Option<MutexGuard<'_, (), { rank::FLUSH }>> {
        self.get(RawInode::is_compressed).then(|| self.flush.lock())
    }
}

impl Files {
    /// The content of a packed cluster; `None` if it is plain. The caller holds the inode's lock exclusively.
    pub(super) fn load_cluster(&self, inode: &Arc<Inode>, first: u64) -> Result<Option<Opened>> {
        let mut bytes = Vec::new();
        let cluster = cluster_of(first, cluster_blocks(inode));
        let blocks = match self.cluster_content(inode, &cluster, &mut bytes)? {
            Content::Plain(..) => return Ok(None),
            Content::Cached(pages) => pages.into_iter().map(|(_, block)| block).collect(),
            Content::Unpacked => {
                let (blocks, _) = bytes.as_chunks::<BLOCK_SIZE>();
                blocks.iter().map(|b| shared(Block(*b))).collect()
            }
        };
        // A change must find a reservation for each block, for any content of the device.
        if self.nodes.map_blocks(&inode.frame, cluster.clone())?.contains(&BlockAddr::NULL) {
            return Err(bad_cluster(inode, "slots of a packed cluster are empty", 0, 1));
        }
        Ok(Some(Opened { first: cluster.start, blocks }))
    }

    /// Loads the packed clusters that a change of some bytes covers in part, before the gate is entered.
    pub(in crate::files) fn load_partial(
        &self,
        inode: &Arc<Inode>,
        bytes: &Range<u64>,
    ) -> Result<Vec<Opened>> {
        if !inode.get(RawInode::is_compressed) {
            return Ok(Vec::new());
        }
        let mut opened = Vec::new();
        for first in partial(bytes, cluster_blocks(inode)) {
            opened.extend(self.load_cluster(inode, first)?);
        }
        opened.iter_mut().for_each(|o: &mut Opened| o.cut(inode.size()));
        Ok(opened)
    }

    /// Locks the pages for a change of some bytes. All pages of packed clusters that it covers in part are then dirty, so the
    /// change may be made page by page. `opened` has the content of such clusters; those packed meanwhile are added.
    pub(in crate::files) fn lock_opened<'a>(
        &self,
        inode: &'a Arc<Inode>,
        bytes: &Range<u64>,
        opened: &mut Vec<Opened>,
    ) -> Result<MutexGuard<'a, PageMap, { rank::PAGES }>> {
        if !inode.get(RawInode::is_compressed) {
            return Ok(inode.pages.lock());
        }
        let len = cluster_blocks(inode);
        loop {
            let mut pages = inode.pages.lock();
            let mut packed = Vec::new();
            for first in partial(bytes, len) {
                if self.packed.is_packed(inode, first)? {
                    packed.push(first);
                }
            }
            let is_missing =
                |&&f: &&u64| !pages.has_all(cluster_of(f, len)) && !opened.iter().any(|o| o.first == f);
            let Some(&first) = packed.iter().find(is_missing) else {
                packed.iter().for_each(|&first| self.open_cluster(inode, &mut pages, first, opened));
                return Ok(pages);
            };
            drop(pages);
            if let Some(mut cluster) = self.load_cluster(inode, first)? {
                cluster.cut(inode.size());
                opened.push(cluster);
            }
        }
    }

    /// Makes all pages of a packed cluster dirty. Its content is cached or opened.
    fn open_cluster(&self, inode: &Inode, pages: &mut PageMap, first: u64, opened: &mut Vec<Opened>) {
        let cached = pages.has_all(cluster_of(first, cluster_blocks(inode)));
        // A second reference to a cached block would make the change copy it.
        opened.retain_mut(|o| {
            if o.first == first && !cached {
                let blocks = std::mem::take(&mut o.blocks);
                (first..).zip(blocks).for_each(|(i, b)| pages.modify(i, &self.base.mem, || b, |_| {}));
            }
            o.first != first
        });
    }

    /// Zeroes bytes within one cluster if it is packed; false if it is plain. The caller holds the inode's lock exclusively and
    /// excludes flushes.
    pub(in crate::files) fn zero_packed(&self, inode: &Arc<Inode>, bytes: Range<u64>) -> Result<bool> {
        if bytes.is_empty() || !inode.get(RawInode::is_compressed) {
            return Ok(false);
        }
        let first = cluster_of(bytes.start / SIZE, cluster_blocks(inode)).start;
        let Some(found) = self.load_cluster(inode, first)? else { return Ok(false) };
        let inside = |block: u64| {
            let at = |pos: u64| pos.saturating_sub(block * SIZE).min(SIZE) as usize;
            at(bytes.start)..at(bytes.end)
        };
        let blocks = || (first..).zip(&found.blocks);
        let zeros = |(i, b): (u64, &SharedBlock)| {
            b.0.get(inside(i)).unwrap_or_default().iter().all(|&byte| byte == 0)
        };
        if blocks().all(zeros) {
            return Ok(true);
        }
        let end = first + found.blocks.len() as u64;
        if bytes.end > end * SIZE {
            return Err(bad_cluster(inode, "bytes outside a cluster", bytes.end as usize, end as usize));
        }
        let mut pages = inode.pages.lock();
        for (i, block) in (first..).zip(found.blocks) {
            pages.modify(
                i,
                &self.base.mem,
                || block,
                |b| {
                    b.0.get_mut(inside(i)).unwrap_or_default().fill(0);
                },
            );
        }
        drop(pages);
        self.mark_dirty(inode);
        Ok(true)
    }

    /// Zeroes the parts of packed clusters at the ends of a range. Returns the rest, which covers packed clusters as a whole. The
    /// caller holds the inode's lock exclusively and excludes flushes.
    pub(in crate::files) fn zero_packed_edges(
        &self,
        inode: &Arc<Inode>,
        bytes: &Range<u64>,
    ) -> Result<Range<u64>> {
        let mut rest = bytes.clone();
        if !inode.get(RawInode::is_compressed) {
            return Ok(rest);
        }
        let len = cluster_blocks(inode);
        for first in partial(bytes, len) {
            let (start, end) = (first * SIZE, (first + len) * SIZE);
            if self.zero_packed(inode, bytes.start.max(start)..bytes.end.min(end))? {
                rest.start = if start <= bytes.start { end } else { rest.start };
                rest.end = if end > bytes.end { start } else { rest.end };
            }
        }
        rest.end = rest.end.max(rest.start);
        Ok(rest)
    }

    /// Bytes from `size` to the end of its cluster.
    pub(in crate::files) fn cluster_tail(&self, inode: &Inode, size: u64) -> Range<u64> {
        size..size.checked_next_multiple_of(cluster_blocks(inode) * SIZE).unwrap_or(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_at_the_edges_of_a_change_are_partial() {
        const C: u64 = 4 * SIZE;
        for (bytes, expected) in [
            (0..C, vec![]),
            (0..0, vec![]),
            (C..3 * C, vec![]),
            (1..C, vec![0]),
            (1..2, vec![0]),
            (C - 1..C + 1, vec![0, 4]),
            (SIZE..3 * C - SIZE, vec![0, 8]),
            (2 * C..3 * C - SIZE, vec![8]),
            (C + SIZE..3 * C, vec![4]),
        ] {
            assert_eq!(partial(&bytes, 4), expected, "{bytes:?}");
        }
    }
}
