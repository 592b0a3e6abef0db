//! The summaries against the owners that are found.
use crate::CheckError;
use crate::evidence::{Bitmap, Ssa, Volume};
use crate::report::{Kind, Rules, Sink};
use segno_format::summary::{RawSummary, SummaryType};
use segno_format::{BlockAddr, Corrupt, Geometry, Structure, Unit};

/// The owner that a summary should name.
pub(crate) struct Expected {
    pub addr: BlockAddr,
    /// Inode, for the report.
    pub ino: u32,
    pub owner: RawSummary,
    pub is_node: bool,
}

impl Expected {
    fn kind(&self) -> u8 {
        if self.is_node { SummaryType::Node as u8 } else { SummaryType::Data as u8 }
    }
}

pub(crate) struct Summaries<'v> {
    geo: Geometry,
    ssa: Ssa<'v>,
    /// Segments whose summary type has been judged.
    judged: Bitmap,
}

impl<'v> Summaries<'v> {
    /// Keeps up to `slots` summary blocks.
    pub(crate) fn new(volume: &'v Volume<'v>, slots: usize) -> Self {
        let judged = Bitmap::new(volume.geo.segment_count_main.into());
        Self { geo: volume.geo, ssa: Ssa::new(volume, slots), judged }
    }

    /// Compares a valid block's summary with its owner.
    pub(crate) fn compare(&mut self, want: Expected, sink: &mut Sink) -> Result<(), CheckError> {
        let Some((seg, _)) = self.geo.seg_of(want.addr) else { return Ok(()) };
        let Some(stored) = self.ssa.entry(want.addr)? else { return Ok(()) };
        if self.judged.insert(seg.0.into()) && stored.kind != want.kind() {
            let (found, expected) = (stored.kind.into(), want.kind().into());
            let e = Corrupt::block(Structure::Summary, stored.at, "entry type", found, expected);
            sink.add(Kind::SummaryType, e);
        }
        let mut rules = Rules::new(Kind::SummaryEntry, Structure::Summary, Unit::Block, want.addr.0);
        // A node's version and slot have no meaning: readers ignore them.
        let (found, owner) = (stored.entry, &want.owner);
        let same = rules.equal("nid in the block's summary", found.nid.get(), owner.nid.get());
        if same && !want.is_node {
            rules.equal("slot in the block's summary", found.ofs_in_node.get(), owner.ofs_in_node.get());
            rules.equal("node version in the block's summary", found.version, owner.version);
        }
        sink.add_broken(Some(want.ino), rules);
        Ok(())
    }
}
