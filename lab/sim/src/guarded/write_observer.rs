//! Counts the nodes that a checkpoint and a recovery have to write from the writes to the device, without the engine.
use super::pages::{self, Page};
use segno_format::BlockAddr;
use segno_format::node::{NodeKind, RawNode, kind_of_offset, path};
use segno_testkit::Call;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Data blocks that a direct node maps.
const PER_NODE: u32 = 1018;

/// More than the node numbers of a case; names in a directory block look like greater ones.
const MOST_NODES: u32 = 1 << 24;

/// Where the pages of the files are.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Pages of a file, and their distance in it.
    pub per_file: u32,
    pub stride: u64,
}

impl Place {
    fn of(self, page: Page) -> (u32, u64) {
        (page / self.per_file, u64::from(page % self.per_file) * self.stride)
    }
}

/// Nodes to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Those with a block that no node on the device names.
    pub dirty: u64,
    /// Those written since the last checkpoint.
    pub logged: u64,
}

/// Observes the writes to a device.
pub struct WriteObserver {
    checkpoints: Range<u64>,
    main: u64,
    place: Place,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The newest block of each page.
    newest: BTreeMap<Page, BlockAddr>,
    held: BTreeMap<BlockAddr, Page>,
    /// Pages whose newest block no node names.
    unnamed: BTreeSet<Page>,
    logged: BTreeSet<u32>,
    /// Data blocks that an inode maps.
    in_inode: Option<u32>,
}

impl WriteObserver {
    pub fn new(checkpoints: Range<u64>, main: u64, place: Place) -> Self {
        Self { checkpoints, main, place, seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lower bound of the nodes to be written.
    pub fn due(&self) -> Due {
        let seen = self.seen();
        let mut nodes = BTreeSet::new();
        for &page in &seen.unnamed {
            let (file, block) = self.place.of(page);
            // While no direct node was seen, all blocks may be the inode's.
            let at = seen.in_inode.and_then(|n| path(n, PER_NODE, block));
            nodes.insert((file, at.map_or(0, |at| at.offset.get(at.depth).copied().unwrap_or(0))));
        }
        Due { dirty: nodes.len() as u64, logged: seen.logged.len() as u64 }
    }

    /// These pages are not there any more.
    pub fn forget(&self, pages: Range<Page>) {
        let mut seen = self.seen();
        for page in pages {
            seen.newest.remove(&page);
            seen.unnamed.remove(&page);
        }
    }

    /// Notes a call.
    pub fn see(&self, call: Call<'_>) {
        let Call::Write(addr, blocks) = call else { return };
        let mut seen = self.seen();
        if self.checkpoints.contains(&addr) {
            seen.logged.clear();
        }
        for (at, block) in (addr..).zip(blocks).filter(|&(at, _)| at >= self.main) {
            let at = BlockAddr(at as u32);
            match pages::owner(block) {
                Some(page) => seen.placed(page, at),
                None => seen.node(block.view(), self.place),
            }
        }
    }
}

impl Seen {
    fn placed(&mut self, page: Page, at: BlockAddr) {
        self.newest.insert(page, at);
        self.held.insert(at, page);
        self.unnamed.insert(page);
    }

    /// A block that is no page: a node, if it has a node's footer, or a directory block.
    fn node(&mut self, node: &RawNode, place: Place) {
        let footer = &node.footer;
        let (nid, ino, kind) = (footer.nid.get(), footer.ino.get(), kind_of_offset(footer.node_offset()));
        let known =
            (1..MOST_NODES).contains(&nid) && (1..MOST_NODES).contains(&ino) && footer.cp_ver.get() > 0;
        let Some(kind) = kind.filter(|_| known) else { return };
        self.logged.insert(nid);
        for (slot, word) in (0..).zip(&node.words) {
            let at = BlockAddr(word.get());
            let Some(&page) = self.held.get(&at).filter(|page| self.newest.get(page) == Some(&at)) else {
                continue;
            };
            self.unnamed.remove(&page);
            if let NodeKind::Direct { before } = kind {
                let block = place.of(page).1;
                self.in_inode = block.checked_sub(slot + before * u64::from(PER_NODE)).map(|n| n as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_format::node::RawNodeFooter;
    use segno_format::{BLOCK_SIZE, Block, Ino, Nid};

    const MAIN: u64 = 1024;

    fn page(number: Page) -> Block {
        let mut bytes = [0; BLOCK_SIZE];
        pages::fill(number, 1, &mut bytes);
        Block(bytes)
    }

    fn node(nid: u32, offset: u32, words: &[(u32, u64)]) -> Block {
        let mut block = Block([0; BLOCK_SIZE]);
        let node = block.view_mut::<RawNode>();
        node.footer = RawNodeFooter::new(Nid(nid), Ino(4), offset, true);
        node.footer.cp_ver.set(1);
        words.iter().for_each(|&(slot, at)| node.set(slot, at as u32));
        block
    }

    #[test]
    fn nodes_are_due_until_they_name_the_newest_blocks() {
        let seen = WriteObserver::new(0..512, MAIN, Place { per_file: 5000, stride: 1 });
        let write = |addr, block: Block| seen.see(Call::Write(addr, &[&block]));
        let due = |dirty, logged| assert_eq!(seen.due(), Due { dirty, logged });
        for (at, number) in [(0, 0), (1, 900), (2, 2000), (3, 2500)] {
            write(MAIN + at, page(number));
        }
        due(1, 0);
        // 900 blocks are in the inode: this is the direct node of block 900, and 2000 and 2500 are in the next one.
        write(MAIN + 4, node(5, 1, &[(0, MAIN + 1)]));
        due(2, 1);
        write(MAIN + 5, page(900));
        due(3, 1);
        write(MAIN + 6, node(6, 2, &[(82, MAIN + 2), (582, MAIN + 3)]));
        due(2, 2);
        write(MAIN + 7, node(5, 1, &[(0, MAIN + 1)]));
        due(2, 2);
        write(MAIN + 8, node(5, 1, &[(0, MAIN + 5)]));
        due(1, 2);
        write(100, page(7));
        seen.forget(0..1);
        due(0, 0);
    }
}
