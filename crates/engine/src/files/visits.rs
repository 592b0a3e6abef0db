//! Inodes and blocks that a reader of a whole tree has met. Without damage a directory has one name, other inodes as many as `i_links`
//! counts, and a block one owner.
use super::Files;
use crate::error::Result;
use crate::nodes::NodeFrame;
use segno_format::inode::RawInode;
use segno_format::{BlockAddr, Corrupt, Ino, SegNo, Structure};
use std::collections::HashMap;

/// Words of a bitmap of a segment's blocks.
const WORDS: usize = 8;

/// Inodes and blocks that a reader of a tree has met so far. They take 64 bytes for each segment with a block that was met, and the names of
/// directories.
#[derive(Debug, Default)]
pub struct Visits {
    /// Directories, with the directory and the name that led to each; the name is empty where the reader started.
    dirs: HashMap<Ino, (Ino, Box<[u8]>)>,
    /// Names of other inodes that were met.
    files: HashMap<Ino, u32>,
    blocks: HashMap<SegNo, [u64; WORDS]>,
}

impl Visits {
    /// Notes a directory; returns what led to it before.
    pub(crate) fn enter(&mut self, dir: Ino, parent: Ino, name: &[u8]) -> Option<(Ino, Box<[u8]>)> {
        self.dirs.insert(dir, (parent, name.into()))
    }

    /// Notes a name of another inode, and returns how many were met.
    pub(crate) fn count(&mut self, ino: Ino) -> u32 {
        let names = self.files.entry(ino).or_default();
        *names = names.saturating_add(1);
        *names
    }

    /// Notes a block; false if it was met before.
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
    /// Notes the blocks that the index of an inode names; fails if one was met before. Blocks move while a volume is written, so
    /// this is for one that is mounted read-only.
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
