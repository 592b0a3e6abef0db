//! Fetching nodes: through the NAT, each once, with the footer compared.
use super::Walk;
use crate::CheckError;
use crate::judge::summaries::Expected;
use crate::report::{Kind, Rules};
use segno_format::inode::RawInode;
use segno_format::node::RawNode;
use segno_format::summary::RawSummary;
use segno_format::{Block, BlockAddr, Corrupt, Ino, Nid, Structure, Unit};

impl Walk<'_, '_> {
    /// Notes that a node is referred to, by a structure of inode `by`; false when it cannot be, or was before.
    pub(super) fn visit_nid(&mut self, nid: Nid, by: u32, from: Structure) -> bool {
        let max = self.volume.geo.max_nid();
        let mut rules = Rules::new(Kind::NodeMissing, from, Unit::Nid, nid.0);
        let exists = rules.require(self.volume.geo.nid_ok(nid), "nid out of range", nid.0, max)
            && rules.equal("nid has no block in the NAT", self.volume.nat.get(nid).is_some(), true);
        let new = exists && self.found.nids.insert(nid.0.into());
        rules.of(Kind::NodeShared).require(new || !exists, "node is referred to twice", 2u64, 1u64);
        self.report_broken(by, rules);
        self.found.counts.nodes = self.found.counts.nodes.saturating_add(new.into());
        new
    }

    /// Where a node is, if that is in the main area.
    pub(super) fn place(&self, nid: Nid) -> Option<BlockAddr> {
        self.volume.nat.get(nid).map(|e| e.addr()).filter(|a| self.volume.geo.in_main(*a))
    }

    /// Reads nodes ahead.
    pub(super) fn want_nodes(&mut self, nids: impl IntoIterator<Item = Nid>) {
        let places: Vec<_> = nids.into_iter().filter_map(|nid| self.place(nid)).collect();
        self.nodes.want(places);
    }

    /// Visits and reads a node of an inode below the inode itself.
    pub(super) fn node(&mut self, nid: Nid, ino: u32, offset: u32) -> Result<Option<Block>, CheckError> {
        if !self.visit_nid(nid, ino, Structure::Inode) {
            return Ok(None);
        }
        self.load(nid, ino, offset)
    }

    /// Reads a visited node; `None` when its place or footer is wrong.
    pub(super) fn load(&mut self, nid: Nid, ino: u32, offset: u32) -> Result<Option<Block>, CheckError> {
        let Some(entry) = self.volume.nat.get(nid) else { return Ok(None) };
        // A place outside the main area has been reported with the NAT.
        if !self.volume.geo.in_main(entry.addr()) {
            return Ok(None);
        }
        let mut rules = Rules::new(Kind::NodeFooter, Structure::NodeFooter, Unit::Nid, nid.0);
        rules.equal("owner in the NAT", entry.owner().0, ino);
        let block = self.nodes.block(entry.addr())?;
        let footer = block.view::<RawNode>().footer;
        let right = match footer.check(nid, Ino(ino)) {
            Ok(()) => rules.equal("node offset", footer.node_offset(), offset),
            Err(e) => {
                rules.add(e);
                false
            }
        };
        self.report_broken(ino, rules);
        if !right {
            return Ok(None);
        }
        let valid = |(seg, off)| self.volume.sit.is_valid(seg, off);
        if self.volume.geo.seg_of(entry.addr()).is_some_and(valid) {
            let owner = RawSummary::node(nid);
            self.against.owner(Expected { addr: entry.addr(), ino, owner, is_node: true }, self.sink)?;
        }
        Ok(Some(block))
    }

    /// Checks a node's cold bit, which is clear in nodes of directories and set in others.
    pub(super) fn check_cold_bit(&mut self, nid: Nid, ino: u32, block: &Block, is_dir: bool) {
        if let Some(e) = cold_bit(nid, block, is_dir) {
            self.report(ino, Kind::ColdBit, e);
        }
    }

    /// Whether an inode block is a directory's.
    pub(super) fn is_dir(&self, block: &Block) -> bool {
        block.view::<RawInode>().is_dir()
    }
}

/// The error if a node's cold bit, clear for directories and set for others, is wrong.
pub(super) fn cold_bit(nid: Nid, block: &Block, is_dir: bool) -> Option<Corrupt> {
    let cold = block.view::<RawNode>().footer.is_cold();
    let why = "cold bit of a node";
    (cold == is_dir).then(|| Corrupt::nid(Structure::NodeFooter, nid.0, why, cold.into(), (!is_dir).into()))
}
