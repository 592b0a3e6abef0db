//! The volume while its repair is planned: the accepted nodes, and the changes in memory.
use crate::action::Action;
use crate::error::Result;
use crate::volume::Volume;
use segno_format::inode::{InodeLayout, RawInode};
use segno_format::summary::SummaryType;
use segno_format::{Block, BlockAddr, Features, Nid};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A node that has a block.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// `NULL_ADDR` for a node that the repair makes.
    pub addr: BlockAddr,
    /// Owner in the NAT.
    pub owner: u32,
    /// Owner and place in the footer.
    pub ino: u32,
    pub ofs: u32,
    pub version: u8,
    /// Version of the checkpoint that the node follows, which orders writes of a node.
    pub cp_ver: u32,
    /// Whether something refers to it.
    pub reached: bool,
}

/// Slot, NAT version and block of data whose node is lost, by nid.
pub(crate) type Unowned = HashMap<u32, Vec<(u32, u8, BlockAddr)>>;

pub(crate) struct State<'a> {
    pub vol: &'a Volume<'a>,
    pub nodes: BTreeMap<u32, Node>,
    /// Nodes that the NAT does not have, by nid: used if something refers to them.
    pub spare: BTreeMap<u32, Node>,
    /// Inodes, by number.
    pub inodes: BTreeSet<u32>,
    /// Changed nodes.
    pub edits: BTreeMap<u32, Block>,
    /// Changed and new blocks of directories and quota files, by inode and block of the file.
    pub data: BTreeMap<(u32, u64), Block>,
    pub actions: Vec<Action>,
    /// Numbers of nodes that wait to be replayed.
    pub waiting: BTreeSet<u32>,
    /// Inodes that are older versions of lost ones, until a name confirms them.
    pub older: BTreeSet<u32>,
    /// Blocks of lost nodes, once they are searched for.
    pub unowned: Option<Unowned>,
    /// Sizes of the extra attributes that several inodes have.
    pub extra_sizes: Vec<u16>,
}

impl<'a> State<'a> {
    pub(crate) fn new(vol: &'a Volume<'a>) -> Self {
        Self {
            vol,
            nodes: BTreeMap::new(),
            spare: BTreeMap::new(),
            inodes: BTreeSet::new(),
            edits: BTreeMap::new(),
            data: BTreeMap::new(),
            actions: Vec::new(),
            waiting: BTreeSet::new(),
            older: BTreeSet::new(),
            unowned: None,
            extra_sizes: Vec::new(),
        }
    }

    /// All inodes as of now.
    pub(crate) fn inos(&self) -> Vec<u32> {
        self.inodes.iter().copied().collect()
    }

    /// A change after which everything is as before the damage.
    pub(crate) fn note(&mut self, ino: u32, text: impl Into<String>) {
        self.actions.push(Action::new(false, Some(ino), text));
    }

    /// A change that loses something, or may do so.
    pub(crate) fn lose(&mut self, ino: u32, text: impl Into<String>) {
        self.actions.push(Action::new(true, Some(ino), text));
    }

    /// The block of a node, with its changes.
    pub(crate) fn block(&self, nid: u32) -> Result<Block> {
        match (self.edits.get(&nid), self.nodes.get(&nid)) {
            (Some(block), _) => Ok(block.clone()),
            (None, Some(node)) => Ok(self.vol.device.block(node.addr)?),
            (None, None) => Ok(Block::zeroed()),
        }
    }

    /// Changes a node. Returns whether its block differs afterwards.
    pub(crate) fn change(&mut self, nid: u32, change: impl FnOnce(&mut Block)) -> Result<bool> {
        let old = self.block(nid)?;
        let mut new = old.clone();
        change(&mut new);
        let differs = new.0 != old.0;
        if differs {
            self.edits.insert(nid, new);
        }
        Ok(differs)
    }

    pub(crate) fn inode(&mut self, ino: u32, change: impl FnOnce(&mut RawInode)) -> Result<bool> {
        self.change(ino, |block| change(block.view_mut()))
    }

    /// How an inode is divided; its sizes have been made valid.
    pub(crate) fn layout(&self, raw: &RawInode) -> InodeLayout {
        let none = InodeLayout { extra_words: 0, xattr_words: 0, slots: 0, per_node: 0 };
        raw.layout(self.vol.sb.features).unwrap_or(none)
    }

    /// Quota files; superblocks of volumes without quota may have anything there.
    pub(crate) fn quota_inos(&self) -> Vec<u32> {
        let used = self.vol.sb.features.contains(Features::QUOTA_INO);
        self.vol.sb.quota_inos().into_iter().flatten().filter(|_| used).collect()
    }

    /// A node id that nothing uses.
    pub(crate) fn new_nid(&self) -> Option<u32> {
        let free = |nid: &u32| {
            !self.nodes.contains_key(nid)
                && !self.spare.contains_key(nid)
                && !self.waiting.contains(nid)
                && self.vol.nat.used(Nid(*nid)).is_none()
        };
        // From the end: a journal that is still to be replayed has given out the first ones.
        (Nid::ROOT.0 + 1..self.vol.geo.max_nid()).rev().find(free)
    }

    /// A block of a directory or quota file, with its changes. A hole reads as zeros.
    pub(crate) fn data_block(&self, ino: u32, b: u64, addr: BlockAddr) -> Result<Block> {
        match self.data.get(&(ino, b)) {
            Some(block) => Ok(block.clone()),
            None if self.vol.geo.in_main(addr) => Ok(self.vol.device.block(addr)?),
            None => Ok(Block::zeroed()),
        }
    }

    /// Whether the SIT has a block.
    pub(crate) fn is_valid(&self, addr: BlockAddr) -> bool {
        self.vol.geo.seg_of(addr).is_some_and(|(seg, off)| self.vol.sit.has(seg, off))
    }

    /// Whether the summary of a block in a segment of nodes names this nid.
    pub(crate) fn summary_has_node(&self, addr: BlockAddr, nid: u32) -> Result<bool> {
        let owner = self.vol.ssa.owner(addr)?;
        Ok(owner.is_some_and(|o| o.kind == SummaryType::Node && o.entry.nid.get() == nid))
    }
}
