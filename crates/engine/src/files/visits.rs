//! Inodes and blocks that a reader of a whole tree has visited. Without damage a directory has one name,
//! another inode `i_links` names, and a block one owner.
use super::Files;
use crate::error::Result;
use crate::nodes::NodeFrame;
use segno_format::inode::RawInode;
use segno_format::{BlockAddr, Corrupt, Ino, SegNo, Structure};
use std::collections::HashMap;

/// Words of a bitmap of a segment's blocks.
const WORDS: usize = 8;

/// Inodes and blocks that a reader of a tree has visited so far. They take 64 bytes for each segment with a
/// visited block, and the names of directories.
#[derive(Debug, Default)]
pub struct Visits {
    /// Directories, with the directory and the name that led to each; the name is empty where the reader started.
    dirs: HashMap<Ino, (Ino, Box<[u8]>)>,
    /// Number of visited names of other inodes.
    files: HashMap<Ino, u32>,
    blocks: HashMap<SegNo, [u64; WORDS]>,
}

impl Visits {
    /// Notes a directory. If it was visited before, returns the parent and name of that visit.
    pub(crate) fn enter(&mut self, dir: Ino, parent: Ino, name: &[u8]) -> Option<(Ino, Box<[u8]>)> {
        self.dirs.insert(dir, (parent, name.into()))
    }

    /// Notes a name of another inode, and returns the number of its visited names.
    pub(crate) fn count(&mut self, ino: Ino) -> u32 {
        let names = self.files.entry(ino).or_default();
        *names = names.saturating_add(1);
        *names
    }

    /// Notes a block; false if it was visited before.
    fn take(&mut self, seg: SegNo, off: u32) -> bool {
        let map = self.blocks.entry(seg).or_default();
        let Some(word) = map.get_mut(off as usize / 64) else { return false };
        let bit = 1 << (off % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

impl Files {
    /// Notes the blocks that the index of an inode names; fails if one was visited before. Blocks move while
    /// a volume is written, so this is only for read-only mounts.
    pub fn visit_blocks(&self, visits: &mut Visits, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        let _shared = inode.lock.read();
        let blocks = if inode.get(RawInode::has_index) { 0..u64::MAX } else { 0..0 };
        for span in self.nodes.spans(&inode.frame, blocks) {
            let span = span?;
            let addrs = self.nodes.slot_addrs(&span.frame, span.slots(&span.blocks))?;
            self.base.health.record_damage(self.visit_node(visits, &span.frame, &addrs))?;
        }
        Ok(())
    }

    fn visit_node(&self, visits: &mut Visits, frame: &NodeFrame, addrs: &[BlockAddr]) -> Result<()> {
        for &addr in addrs {
            if let Some((seg, off)) = self.base.geo.seg_of(addr)
                && !visits.take(seg, off)
            {
                let structure = if frame.is_inode() { Structure::Inode } else { Structure::DirectNode };
                let why = "address of a block that has another owner";
                return Err(Corrupt::nid(structure, frame.nid.0, why, addr.0.into(), 0).into());
            }
        }
        Ok(())
    }
}
