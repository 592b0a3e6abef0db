//! Owners of blocks according to the summaries: those of the logs in the pack, all others in the SSA.
use crate::{Pack, Reader, Summaries};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::RefCell;
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{BLOCK_SIZE, BlockAddr, Geometry, SegNo};
use zerocopy::IntoBytes;

/// Summary blocks kept.
const CACHED: usize = 1024;

/// Owner of a block according to a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Node or data.
    pub kind: SummaryType,
    /// The entry.
    pub entry: RawSummary,
}

/// The summaries.
pub struct Ssa<R> {
    reader: R,
    geo: Geometry,
    /// Segments of the logs, each with its summary from the pack.
    logs: Vec<(SegNo, Option<Box<RawSummaryBlock>>)>,
    cache: RefCell<BTreeMap<SegNo, Option<Box<RawSummaryBlock>>>>,
}

impl<R: Reader> Ssa<R> {
    /// The summaries of a volume. Without a pack, segments of the logs have stale summaries.
    #[must_use]
    pub fn new(reader: R, geo: Geometry, pack: Option<(&Pack, &Summaries)>) -> Self {
        let of = |(pack, summaries): (&Pack, &Summaries)| {
            let each = |log| (pack.cp().position(log).seg, summaries.of(log).map(|s| Box::new(*s)));
            LogType::ALL.into_iter().map(each).collect()
        };
        Self { reader, geo, logs: pack.map(of).unwrap_or_default(), cache: RefCell::default() }
    }

    /// Owner of a block; `None` if its summary is missing or invalid.
    pub fn owner(&self, addr: BlockAddr) -> Result<Option<Owner>, R::Error> {
        let Some((seg, off)) = self.geo.seg_of(addr).filter(|_| self.geo.has_ssa) else { return Ok(None) };
        Ok(self.segment(seg, |block| pick(block, off))?.flatten())
    }

    /// Applies `look` to the summary of a segment. `None` if the pack has no summary for a log, or the source
    /// omits the block.
    pub fn segment<T>(
        &self,
        seg: SegNo,
        look: impl FnOnce(&RawSummaryBlock) -> T,
    ) -> Result<Option<T>, R::Error> {
        if let Some((_, block)) = self.logs.iter().find(|(s, _)| *s == seg) {
            return Ok(block.as_deref().map(look));
        }
        let mut cache = self.cache.borrow_mut();
        if !cache.contains_key(&seg) {
            let read = summary(&self.reader, &self.geo, seg)?;
            if cache.len() >= CACHED {
                cache.clear();
            }
            cache.insert(seg, read);
        }
        Ok(cache.get(&seg).and_then(|block| block.as_deref()).map(look))
    }
}

/// The summary of a segment.
fn summary<R: Reader>(
    reader: &R,
    geo: &Geometry,
    seg: SegNo,
) -> Result<Option<Box<RawSummaryBlock>>, R::Error> {
    let layout = geo.summary_layout();
    let units = reader.read_blocks(geo.summary_unit(seg), (layout.summary / BLOCK_SIZE) as u32)?;
    let units = units.into_iter().collect::<Option<Vec<_>>>();
    Ok(units.map(|units| Box::new(layout.decode(units.as_bytes()))))
}

fn pick(block: &RawSummaryBlock, off: u32) -> Option<Owner> {
    let entry = *block.entries.get(off as usize)?;
    let kind = block.parse_type(0).ok()?;
    (entry.nid.get() != 0).then_some(Owner { kind, entry })
}
