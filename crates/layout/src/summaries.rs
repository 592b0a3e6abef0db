//! Summaries and journals that are kept in a checkpoint pack.
use crate::Pack;
use alloc::boxed::Box;
use segno_format::checkpoint::CpFlags;
use segno_format::nat::{RawNatJournal, RawNatJournalEntry};
use segno_format::sit::{LogType, RawSitJournal, RawSitJournalEntry};
use segno_format::summary::{
    JOURNAL_BYTES, RawExtraInfo, RawSummaryBlock, SummaryType, compact_entry, compact_position,
};
use segno_format::{Corrupt, Structure};
use zerocopy::{FromBytes, FromZeros};

/// What a pack keeps for its logs.
pub struct Summaries {
    logs: [Option<Box<RawSummaryBlock>>; 6],
    /// NAT entries newer than the NAT, as stored.
    pub nat: Box<RawNatJournal>,
    /// SIT entries newer than the SIT, as stored.
    pub sit: Box<RawSitJournal>,
    /// The first block of the pack that it should have for them and has not, from 0.
    missing: Option<usize>,
}
impl Summaries {
    /// Decodes them; what is missing is empty.
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
        let (why, len) = ("summaries beyond the end of the pack", pack.blocks.len());
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
        self.nat.entries.get(..usize::from(self.nat.count.get())).unwrap_or_default()
    }

    /// SIT entries newer than the SIT blocks.
    #[must_use]
    pub fn sit_journal(&self) -> &[RawSitJournalEntry] {
        self.sit.entries.get(..usize::from(self.sit.count.get())).unwrap_or_default()
    }

    /// KiB written in the life of the volume, as far as the pack has it.
    #[must_use]
    pub fn kbytes_written(&self) -> u64 {
        let hot = self.of(LogType::HotNode).map(|s| s.journal);
        hot.and_then(|journal| prefix::<RawExtraInfo>(&journal)).map_or(0, |info| info.kbytes_written.get())
    }

    /// Takes block `i` of the pack, unless it is the last one.
    fn put(&mut self, log: LogType, pack: &Pack, i: u32) {
        let (i, end) = (i as usize, pack.blocks.len().saturating_sub(1));
        let block = pack.blocks.get(i).filter(|_| i < end);
        self.missing = self.missing.or(block.is_none().then_some(i));
        self.set(log, block.map(|block| Box::new(*block.view())));
    }

    fn set(&mut self, log: LogType, block: Option<Box<RawSummaryBlock>>) {
        if let Some(slot) = self.logs.get_mut(log.idx()) {
            *slot = block;
        }
    }

    fn empty() -> Self {
        let (nat, sit) = (Box::new(RawNatJournal::new_zeroed()), Box::new(RawSitJournal::new_zeroed()));
        Self { logs: [const { None }; 6], nat, sit, missing: None }
    }

    fn normal(pack: &Pack) -> Self {
        let mut out = Self::empty();
        // The number may be anything.
        let start = pack.cp().cp_pack_start_sum.get();
        for (log, i) in LogType::ALL.into_iter().filter(|l| !l.is_node()).zip(0..) {
            out.put(log, pack, start.saturating_add(i));
        }
        let journal = |log| out.of(log).map_or([0; JOURNAL_BYTES], |s| s.journal);
        let (nat, sit) = (journal(LogType::HotData), journal(LogType::ColdData));
        (*out.nat, *out.sit) = (zerocopy::transmute!(nat), zerocopy::transmute!(sit));
        out
    }

    fn compact(pack: &Pack) -> Self {
        let mut out = Self::empty();
        let start = pack.cp().cp_pack_start_sum.get() as usize;
        // The second end of the pack and the node summaries are not part of the stream.
        let tail = 1 + if pack.has_node_summaries() { 3 } else { 0 };
        let stream = pack.blocks.get(start..pack.blocks.len().saturating_sub(tail)).unwrap_or_default();
        let Some(first) = stream.first() else { return Self { missing: Some(start), ..out } };
        if let Some(nat) = prefix(&first.0) {
            *out.nat = nat;
        }
        if let Some(sit) = first.0.get(JOURNAL_BYTES..).and_then(prefix) {
            *out.sit = sit;
        }
        let mut next = 0;
        for log in LogType::ALL.into_iter().filter(|l| !l.is_node()) {
            let p = pack.cp().position(log);
            let count = p.used_blocks();
            let mut block = Box::new(RawSummaryBlock::empty(SummaryType::Data));
            for (slot, i) in block.entries.iter_mut().take(count as usize).zip(next..) {
                let entry = compact_entry(stream, i);
                let at = start.saturating_add(compact_position(i).0);
                out.missing = out.missing.or(entry.is_none().then_some(at));
                *slot = entry.unwrap_or_default();
            }
            next += count as usize;
            out.set(log, Some(block));
        }
        out
    }
}

fn prefix<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    T::read_from_prefix(bytes).ok().map(|(v, _)| v)
}
