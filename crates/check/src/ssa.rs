//! Who owns each block, according to the summaries.
use crate::CheckError;
use crate::bitmap::Bitmap;
use crate::pack::Pack;
use crate::report::{Kind, Sink};
use crate::volume::Volume;
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{BlockAddr, Corrupt, SegNo, Structure};

/// Summary blocks kept: 8 MiB.
const CACHE_SLOTS: usize = 2048;

pub(crate) struct Ssa<'v> {
    volume: &'v Volume<'v>,
    /// Segments of the logs, whose summaries are in the pack.
    logs: Vec<(SegNo, LogType)>,
    /// Recently read summaries, each in the place its segment number gives.
    cache: Vec<Option<(SegNo, Box<RawSummaryBlock>)>>,
    /// Segments whose summary type has been judged.
    judged: Bitmap,
}

/// The owner that a summary should name.
pub(crate) struct Expected {
    pub addr: BlockAddr,
    /// Inode, for the report.
    pub ino: u32,
    pub owner: RawSummary,
    pub is_node: bool,
}

impl<'v> Ssa<'v> {
    pub(crate) fn new(volume: &'v Volume<'v>) -> Self {
        let mut cache = Vec::new();
        cache.resize_with(CACHE_SLOTS, || None);
        let logs =
            Pack::logs(&volume.geo).iter().map(|&log| (volume.pack.cp().position(log).seg, log)).collect();
        Self { volume, logs, cache, judged: Bitmap::new(volume.geo.segment_count_main.into()) }
    }

    /// Compares a valid block's summary with its owner.
    pub(crate) fn compare(&mut self, want: Expected, sink: &mut Sink) -> Result<(), CheckError> {
        let Some((seg, off)) = self.volume.geo.seg_of(want.addr) else { return Ok(()) };
        if !self.volume.geo.has_ssa {
            return Ok(());
        }
        let judged = !self.judged.insert(seg.0.into());
        let (at, block) = match self.logs.iter().find(|(s, _)| *s == seg) {
            Some(&(_, log)) => {
                let start = self.volume.pack.cp().cp_pack_start_sum.get();
                // Without node summaries in the pack their entries are the footers, which the walk compares.
                let Some(block) = self.volume.summaries.of(log) else { return Ok(()) };
                (self.volume.pack.addr(start), block)
            }
            None => (self.volume.geo.ssa_addr(seg).0.into(), self.read(seg)?),
        };
        let found = block.entries.get(off as usize).copied().unwrap_or_default();
        let kind = block.entry_type;
        if !judged {
            let expected = if want.is_node { SummaryType::Node } else { SummaryType::Data };
            if kind != expected as u8 {
                let e = Corrupt::block(Structure::Summary, at, "entry type", kind.into(), expected as u64);
                sink.add(Kind::SummaryType, e);
            }
        }
        let mut require = |why, found: u32, expected: u32| {
            if found != expected {
                let e = Corrupt::block(
                    Structure::Summary,
                    want.addr.0.into(),
                    why,
                    found.into(),
                    expected.into(),
                );
                sink.add_for(want.ino, Kind::SummaryEntry, e);
            }
            found == expected
        };
        // A node's version and slot have no meaning: readers ignore them.
        let same = require("nid in the block's summary", found.nid.get(), want.owner.nid.get());
        if same && !want.is_node {
            let (got, want) = (found.ofs_in_node.get(), want.owner.ofs_in_node.get());
            require("slot in the block's summary", got.into(), want.into());
        }
        if same && !want.is_node {
            require("node version in the block's summary", found.version.into(), want.owner.version.into());
        }
        Ok(())
    }

    fn read(&mut self, seg: SegNo) -> Result<&RawSummaryBlock, CheckError> {
        static NONE: [u8; segno_format::BLOCK_SIZE] = [0; segno_format::BLOCK_SIZE];
        let Some(slot) = self.cache.get_mut(seg.idx() % CACHE_SLOTS) else {
            return Ok(zerocopy::transmute_ref!(&NONE));
        };
        if slot.as_ref().is_none_or(|(s, _)| *s != seg) {
            let block = self.volume.reader.block(self.volume.geo.ssa_addr(seg))?;
            *slot = Some((seg, Box::new(*block.view::<RawSummaryBlock>())));
        }
        Ok(slot.as_ref().map_or(zerocopy::transmute_ref!(&NONE), |(_, b)| b))
    }
}
