//! Summaries and journals that ride in the checkpoint pack.
use crate::evidence::Pack;
use crate::report::{Kind, Sink};
use segno_format::checkpoint::CpFlags;
use segno_format::nat::RawNatJournal;
use segno_format::sit::{LogType, RawSitJournal};
use segno_format::summary::{JOURNAL_BYTES, RawSummaryBlock, SummaryLayout, SummaryType};
use segno_format::{Corrupt, Geometry, Structure};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Summaries and journals of a pack.
pub(crate) struct PackSummaries {
    /// Summary of each log's segment; `None` for node logs of a pack that does not carry them.
    logs: [Option<Box<RawSummaryBlock>>; 6],
    /// NAT entries newer than the NAT blocks.
    pub nat_journal: RawNatJournal,
    /// SIT entries newer than the SIT blocks.
    pub sit_journal: RawSitJournal,
}

impl PackSummaries {
    pub(crate) fn load(pack: &Pack, geo: &Geometry, sink: &mut Sink) -> Self {
        let mut out = if pack.flags.contains(CpFlags::COMPACT_SUM) {
            Self::compact(pack, sink)
        } else {
            Self::normal(pack, geo, sink)
        };
        if pack.has_node_summaries() {
            let first = pack.cp().cp_pack_total_block_count.get().saturating_sub(4);
            for (log, i) in LogType::ALL.into_iter().filter(|l| l.is_node()).zip(first..) {
                out.put(log, full(pack, i, SummaryType::Node, geo, sink));
            }
        }
        out
    }

    /// Summary of a log's segment.
    pub(crate) fn of(&self, log: LogType) -> Option<&RawSummaryBlock> {
        self.logs.get(log.idx())?.as_deref()
    }

    fn put(&mut self, log: LogType, block: Option<Box<RawSummaryBlock>>) {
        if let Some(slot) = self.logs.get_mut(log.idx()) {
            *slot = block;
        }
    }

    fn empty() -> Self {
        Self {
            logs: Default::default(),
            nat_journal: RawNatJournal::new_zeroed(),
            sit_journal: RawSitJournal::new_zeroed(),
        }
    }

    fn normal(pack: &Pack, geo: &Geometry, sink: &mut Sink) -> Self {
        let mut out = Self::empty();
        let start = pack.cp().cp_pack_start_sum.get();
        for (log, i) in LogType::ALL.into_iter().filter(|l| !l.is_node()).zip(start..) {
            out.put(log, full(pack, i, SummaryType::Data, geo, sink));
        }
        let journal = |log| out.of(log).map_or([0; JOURNAL_BYTES], |s| s.journal);
        let (nat, sit) = (journal(LogType::HotData), journal(LogType::ColdData));
        out.nat_journal = zerocopy::transmute!(nat);
        out.sit_journal = zerocopy::transmute!(sit);
        out
    }

    fn compact(pack: &Pack, sink: &mut Sink) -> Self {
        let mut out = Self::empty();
        let start = pack.cp().cp_pack_start_sum.get();
        let blocks = pack.blocks.get(start as usize..).unwrap_or_default();
        let Some(first) = blocks.first() else { return out };
        out.nat_journal = prefix(&first.0).unwrap_or_else(RawNatJournal::new_zeroed);
        let rest = first.0.get(JOURNAL_BYTES..).unwrap_or_default();
        out.sit_journal = prefix(rest).unwrap_or_else(RawSitJournal::new_zeroed);
        // The second end of the pack and the node summaries are not part of the stream.
        let tail = 1 + if pack.has_node_summaries() { 3 } else { 0 };
        let stream = blocks.get(..blocks.len().saturating_sub(tail)).unwrap_or_default();
        let mut next = 0;
        for log in LogType::ALL.into_iter().filter(|l| !l.is_node()) {
            let p = pack.cp().position(log);
            let count = p.used_blocks();
            let mut block = Box::new(RawSummaryBlock::empty(SummaryType::Data));
            for (slot, i) in block.entries.iter_mut().take(count as usize).zip(next..) {
                let Some(entry) = SummaryLayout::SMALL.compact_entry(stream.as_bytes(), i) else {
                    let e = Corrupt::block(
                        Structure::Summary,
                        pack.addr(start),
                        "blocks of the compacted summaries",
                        stream.len() as u64,
                        stream.len() as u64 + 1,
                    );
                    sink.add(Kind::Checkpoint, e);
                    return out;
                };
                *slot = entry;
            }
            next += count as usize;
            out.put(log, Some(block));
        }
        out
    }
}

fn prefix<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    T::read_from_prefix(bytes).ok().map(|(v, _)| v)
}

/// A whole summary block of the pack, its type checked. On read-only images nothing in it is defined but the journal.
fn full(
    pack: &Pack,
    i: u32,
    expected: SummaryType,
    geo: &Geometry,
    sink: &mut Sink,
) -> Option<Box<RawSummaryBlock>> {
    let block: &RawSummaryBlock = pack.blocks.get(i as usize)?.view();
    if geo.has_ssa && block.parse_type(pack.addr(i)) != Ok(expected) {
        let (found, expected) = (block.entry_type.into(), expected as u64);
        let e = Corrupt::block(Structure::Summary, pack.addr(i), "entry type", found, expected);
        sink.add(Kind::SummaryType, e);
    }
    Some(Box::new(*block))
}
