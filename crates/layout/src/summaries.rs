//! Summaries and journals that are kept in a checkpoint pack.
use crate::Pack;
use alloc::boxed::Box;
use core::ops::Range;
use segno_format::checkpoint::CpFlags;
use segno_format::nat::RawNatJournalEntry;
use segno_format::sit::{LogType, RawSitJournalEntry};
use segno_format::summary::{Journal, RawExtraInfo, RawSummaryBlock, SummaryLayout, SummaryType};
use segno_format::{Corrupt, Structure};
use zerocopy::FromBytes;

/// Summaries and journals of a pack.
pub struct Summaries {
    logs: [Option<Box<RawSummaryBlock>>; 6],
    /// NAT entries newer than the NAT, as stored.
    pub nat: Journal<RawNatJournalEntry>,
    /// SIT entries newer than the SIT, as stored.
    pub sit: Journal<RawSitJournalEntry>,
    /// Number of the first block that the pack lacks for its summaries, counted from 0.
    missing: Option<usize>,
}
impl Summaries {
    /// Decodes the summaries of a pack; missing ones are empty.
    #[must_use]
    pub fn load(pack: &Pack) -> Self {
        let mut out = if pack.flags().contains(CpFlags::COMPACT_SUM) {
            Self::compact(pack)
        } else {
            Self::normal(pack)
        };
        if pack.has_node_summaries() {
            let first = pack.cp().cp_pack_total_block_count.get().saturating_sub(4);
            for (log, i) in LogType::ALL.into_iter().filter(|l| l.is_node()).zip(first..) {
                out.put(log, pack, i);
            }
        }
        out
    }

    /// Whether the pack has all blocks that it should have for them.
    pub fn check(&self, pack: &Pack) -> Result<(), Corrupt> {
        let Some(missing) = self.missing else { return Ok(()) };
        let (why, len) = ("summaries beyond the end of the pack", pack.len());
        let at = pack.start.0.into();
        Err(Corrupt::block(Structure::Summary, at, why, missing as u64, len as u64))
    }

    /// Summary of a log's segment.
    #[must_use]
    pub fn of(&self, log: LogType) -> Option<&RawSummaryBlock> {
        self.logs.get(log.idx())?.as_deref()
    }

    /// NAT entries newer than the NAT blocks.
    #[must_use]
    pub fn nat_journal(&self) -> &[RawNatJournalEntry] {
        self.nat.used().unwrap_or_default()
    }

    /// SIT entries newer than the SIT blocks.
    #[must_use]
    pub fn sit_journal(&self) -> &[RawSitJournalEntry] {
        self.sit.used().unwrap_or_default()
    }

    /// KiB written in the life of the volume, as far as the pack has it.
    #[must_use]
    pub fn kbytes_written(&self) -> u64 {
        let hot = self.of(LogType::HotNode).map(|s| s.journal);
        let info = hot.and_then(|journal| RawExtraInfo::read_from_bytes(&journal).ok());
        info.map_or(0, |info| info.kbytes_written.get())
    }

    /// Takes block `i` of the pack, unless it is the last one.
    fn put(&mut self, log: LogType, pack: &Pack, i: u32) {
        let block = Self::block(pack, i);
        self.missing = self.missing.or(block.is_none().then_some(i as usize));
        self.set(log, block.map(|block| Box::new(pack.summary_layout().decode(block))));
    }

    fn block(pack: &Pack, i: u32) -> Option<&[u8]> {
        pack.block(i as usize).filter(|_| (i as usize) < pack.len().saturating_sub(1))
    }

    fn set(&mut self, log: LogType, block: Option<Box<RawSummaryBlock>>) {
        if let Some(slot) = self.logs.get_mut(log.idx()) {
            *slot = block;
        }
    }

    fn empty() -> Self {
        let (nat, sit) = (Journal::decode(&[]), Journal::decode(&[]));
        Self { logs: [const { None }; 6], nat, sit, missing: None }
    }

    fn normal(pack: &Pack) -> Self {
        let mut out = Self::empty();
        // The number is not validated.
        let start = pack.cp().cp_pack_start_sum.get();
        for (log, i) in LogType::ALL.into_iter().filter(|l| !l.is_node()).zip(0..) {
            out.put(log, pack, start.saturating_add(i));
        }
        let journal = |i| {
            Self::block(pack, start.saturating_add(i)).and_then(|b| b.get(journal_of(pack.summary_layout())))
        };
        out.nat = Journal::decode(journal(0).unwrap_or_default());
        out.sit = Journal::decode(journal(2).unwrap_or_default());
        out
    }

    fn compact(pack: &Pack) -> Self {
        let mut out = Self::empty();
        let start = pack.cp().cp_pack_start_sum.get() as usize;
        // The second end of the pack and the node summaries are not part of the stream.
        let tail = 1 + if pack.has_node_summaries() { 3 } else { 0 };
        let (layout, stream) = (pack.summary_layout(), pack.bytes(start..pack.len().saturating_sub(tail)));
        let (journals, bytes) = (2 * layout.journal_bytes(), layout.journal_bytes());
        let Some((nat, sit)) = stream.get(..journals).and_then(|journals| journals.split_at_checked(bytes))
        else {
            return Self { missing: Some(start), ..out };
        };
        (out.nat, out.sit) = (Journal::decode(nat), Journal::decode(sit));
        let mut next = 0;
        for log in LogType::ALL.into_iter().filter(|l| !l.is_node()) {
            let p = pack.cp().position(log);
            let count = p.used_blocks();
            let mut block = Box::new(RawSummaryBlock::empty(SummaryType::Data));
            for (slot, i) in block.entries.iter_mut().take(count as usize).zip(next..) {
                let entry = layout.compact_entry(stream, i);
                let at = start.saturating_add(layout.compact_at(i) / layout.block);
                out.missing = out.missing.or(entry.is_none().then_some(at));
                *slot = entry.unwrap_or_default();
            }
            next += count as usize;
            out.set(log, Some(block));
        }
        out
    }
}

/// The bytes of a summary's journal.
fn journal_of(layout: SummaryLayout) -> Range<usize> {
    layout.journal_at()..layout.type_at()
}
