//! Data blocks: valid, owned once, and with the owner that the summary records.
use super::Walk;
use crate::CheckError;
use crate::judge::summaries::Expected;
use crate::report::Kind;
use segno_format::summary::RawSummary;
use segno_format::{BlockAddr, Corrupt, Structure};

impl Walk<'_, '_> {
    /// Records that a data block belongs to a slot (`owner`), or for an aliased device when there is no owner to compare.
    /// Whether the block may be read as this owner's.
    pub(super) fn visit_data_block(
        &mut self,
        addr: BlockAddr,
        ino: u32,
        owner: Option<RawSummary>,
    ) -> Result<bool, CheckError> {
        let geo = &self.volume.geo;
        let nid = owner.map_or(ino, |o| o.nid.get());
        let bad =
            |why, found: u64, expected: u64| Corrupt::nid(Structure::DirectNode, nid, why, found, expected);
        let Some((seg, off)) = geo.seg_of(addr) else {
            let e = bad("block address outside the main area", addr.0.into(), geo.main_blkaddr.into());
            self.report(ino, Kind::BlockAddress, e);
            return Ok(false);
        };
        let index = u64::from(addr.0 - geo.main_blkaddr);
        if self.places.contains(index) {
            self.report(ino, Kind::BlockShared, bad("data block is also a node", addr.0.into(), 0));
            return Ok(false);
        }
        if !self.found.data.insert(index) {
            self.report(ino, Kind::BlockShared, bad("data block has another owner", addr.0.into(), 0));
            return Ok(false);
        }
        self.found.counts.data_blocks = self.found.counts.data_blocks.saturating_add(1);
        if !self.volume.sit.is_valid(seg, off) {
            self.report(ino, Kind::BlockFree, bad("block is free in the SIT", addr.0.into(), 1));
            return Ok(true);
        }
        if let Some(owner) = owner {
            self.against.owner(Expected { addr, ino, owner, is_node: false }, self.sink)?;
        }
        Ok(true)
    }
}
