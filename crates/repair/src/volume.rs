//! The volume that is repaired: its tables as of the checkpoint that is in force.
use crate::error::Result;
use segno_device::BlockDevice;
use segno_format::sit::LogType;
use segno_format::summary::SummaryType;
use segno_format::superblock::Superblock;
use segno_format::{Geometry, SegNo};
use segno_layout::{Nat, Pack, Sit, Ssa, Summaries, readable_pack};
use std::collections::BTreeSet;

pub(crate) struct Volume<'a> {
    pub device: &'a dyn BlockDevice,
    pub sb: Superblock,
    pub geo: Geometry,
    pub pack: Pack,
    pub summaries: Summaries,
    pub sit: Sit,
    pub nat: Nat,
    /// Owners of blocks.
    pub ssa: Ssa<&'a dyn BlockDevice>,
    /// Inodes without a name.
    pub orphans: BTreeSet<u32>,
}

impl<'a> Volume<'a> {
    /// Loads the tables without judging them. Falls back to the older pack or the second superblock if a
    /// mount's choice cannot be read; `None` if too little is left.
    pub(crate) fn open(device: &'a dyn BlockDevice) -> Result<Option<Self>> {
        let Some((sb, pack)) = readable_pack(device)? else { return Ok(None) };
        let (geo, summaries) = (sb.geo, Summaries::load(&pack));
        let sit = Sit::load(device, &geo, &pack, &summaries)?;
        let nat = Nat::load(device, &geo, &pack, &summaries)?;
        let listed = pack.orphans().filter_map(std::result::Result::ok).flatten();
        let orphans = listed.filter(|ino| geo.nid_ok(*ino)).map(|ino| ino.0).collect();
        let ssa = Ssa::new(device, geo, Some((&pack, &summaries)));
        Ok(Some(Self { device, sb, geo, pack, summaries, sit, nat, ssa, orphans }))
    }

    /// The type of a segment's summary.
    pub(crate) fn summary_type(&self, seg: SegNo) -> Result<Option<SummaryType>> {
        Ok(self.ssa.segment(seg, |summary| summary.parse_type(0).ok())?.flatten())
    }

    /// Whether a segment has nodes, according to the SIT or its summary.
    pub(crate) fn has_nodes(&self, seg: SegNo) -> Result<bool> {
        let typed = self.sit.stored_log(seg).is_some_and(LogType::is_node);
        Ok(typed || self.summary_type(seg)? == Some(SummaryType::Node))
    }

    /// Segments of the logs.
    pub(crate) fn log_segments(&self) -> impl Iterator<Item = SegNo> + '_ {
        Pack::logs(&self.geo).iter().map(|&log| self.pack.cp().position(log).seg)
    }

    /// Segments with a block in the SIT.
    pub(crate) fn segments_in_use(&self) -> impl Iterator<Item = SegNo> + '_ {
        self.geo.segments().filter(|seg| self.sit.count(*seg) != 0)
    }
}
