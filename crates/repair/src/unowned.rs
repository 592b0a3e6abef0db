//! Data blocks in use whose summary names a lost node. The slots of that node are recovered from them.
use crate::error::Result;
use crate::state::{State, Unowned};
use segno_format::sit::LogType;
use segno_format::summary::SummaryType;
use segno_format::{BLOCKS_PER_SEG, BlockAddr, Nid};
use std::collections::BTreeMap;

impl State<'_> {
    /// Slots of a node that is lost, and the blocks of the NAT's version of it. A slot that the summaries of
    /// several blocks name is left out.
    pub(crate) fn slots_of_lost(&mut self, nid: u32) -> Result<BTreeMap<u32, BlockAddr>> {
        if self.unowned.is_none() {
            self.unowned = Some(find(self)?);
        }
        let version = self.vol.nat.used(Nid(nid)).map(|e| e.version);
        let named = self.unowned.as_ref().and_then(|u| u.get(&nid)).map(Vec::as_slice).unwrap_or_default();
        let mut slots: BTreeMap<u32, Vec<BlockAddr>> = BTreeMap::new();
        for &(slot, _, addr) in named.iter().filter(|(_, v, _)| version.is_none_or(|version| version == *v)) {
            slots.entry(slot).or_default().push(addr);
        }
        let single = slots.into_iter().filter_map(|(slot, blocks)| match *blocks {
            [addr] => Some((slot, addr)),
            _ => None,
        });
        Ok(single.collect())
    }
}

fn find(state: &State<'_>) -> Result<Unowned> {
    let mut out = Unowned::new();
    for seg in state.vol.segments_in_use() {
        if state.vol.sit.stored_log(seg).is_none_or(LogType::is_node) {
            continue;
        }
        let Some(summary) = state.vol.ssa.segment(seg, |summary| *summary)? else { continue };
        if summary.parse_type(0) != Ok(SummaryType::Data) {
            continue;
        }
        let start = state.vol.geo.seg_start(seg);
        for (off, entry) in (0..BLOCKS_PER_SEG).zip(&summary.entries) {
            let nid = entry.nid.get();
            if state.vol.sit.has(seg, off) && !state.nodes.contains_key(&nid) {
                let place = (entry.ofs_in_node.get().into(), entry.version, start.offset(off));
                out.entry(nid).or_default().push(place);
            }
        }
    }
    Ok(out)
}
