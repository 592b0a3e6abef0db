//! Who owns a block, according to the summaries: those of the logs in the pack, all others in the SSA.
use super::{Pack, Summaries};
use crate::Reader;
use segno_format::sit::LogType;
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{Block, BlockAddr, Geometry, SegNo};
use std::cell::RefCell;
use std::collections::HashMap;

/// Summary blocks kept.
const CACHED: usize = 1024;

/// What a summary says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Node or data.
    pub kind: SummaryType,
    /// The entry.
    pub entry: RawSummary,
}

/// The summaries.
pub struct Ssa<'a> {
    reader: Reader<'a>,
    geo: Geometry,
    /// Segments of the logs, with what the pack has for them.
    logs: Vec<(SegNo, Option<Box<RawSummaryBlock>>)>,
    cache: RefCell<HashMap<u32, Option<Box<RawSummaryBlock>>>>,
}

impl<'a> Ssa<'a> {
    /// Of a volume; without its pack, the segments of the logs have stale summaries.
    #[must_use]
    pub fn new(reader: Reader<'a>, geo: Geometry, pack: Option<(&Pack, &Summaries)>) -> Self {
        let of = |(pack, summaries): (&Pack, &Summaries)| {
            let each = |log| (pack.cp().position(log).seg, summaries.of(log).map(|s| Box::new(*s)));
            LogType::ALL.into_iter().map(each).collect()
        };
        Self { reader, geo, logs: pack.map(of).unwrap_or_default(), cache: RefCell::default() }
    }

    /// The entry of a block; `None` if there is none that could be believed.
    #[must_use]
    pub fn owner(&self, addr: BlockAddr) -> Option<Owner> {
        let (seg, off) = self.geo.seg_of(addr).filter(|_| self.geo.has_ssa)?;
        if let Some((_, block)) = self.logs.iter().find(|(s, _)| *s == seg) {
            return pick(block.as_deref()?, off);
        }
        let mut cache = self.cache.borrow_mut();
        if cache.len() >= CACHED && !cache.contains_key(&seg.0) {
            cache.clear();
        }
        let load = || self.reader.block(self.geo.ssa_addr(seg)).map(|b: Block| Box::new(*b.view()));
        pick(cache.entry(seg.0).or_insert_with(load).as_deref()?, off)
    }
}

fn pick(block: &RawSummaryBlock, off: u32) -> Option<Owner> {
    let entry = *block.entries.get(off as usize)?;
    let kind = block.parse_type(0).ok()?;
    (entry.nid.get() != 0).then_some(Owner { kind, entry })
}
