//! Writing a checkpoint: directory blocks, nodes, NAT, SIT, summaries, then the pack, its last block last.
use super::Pack;
use super::freeze::Frozen;
use crate::error::{Error, Result};
use crate::gate::Closed;
use crate::journal::Commits;
use crate::lock::{MutexGuard, rank};
use crate::nat::NatFlush;
use crate::node::FrozenNodes;
use crate::options::CheckpointMode;
use crate::planted::{Bug, planted};
use crate::segment::{LogSnapshot, LogState, SitFlush};
use crate::stat;
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use segno_format::checkpoint::{CpFlags, RawCheckpoint, bitmap_place};
use segno_format::orphan::{ORPHANS_PER_BLOCK, RawOrphanBlock};
use segno_format::sit::LogType;
use segno_format::summary::{
    COMPACT_FIRST, COMPACT_NEXT, JOURNAL_BYTES, RawExtraInfo, RawSummaryBlock, compact_position,
};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, BlockAddr, Ino, SegNo};
use std::time::{Duration, Instant};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, IntoBytes};

/// Nodes written per batch, which bounds the copies in memory.
const NODE_BATCH: usize = 1024;

/// How often a boundary looks for a moment without operations before it makes them wait, and how long it sleeps in between.
const GAP_TRIES: u32 = 50;
const GAP_PAUSE: Duration = Duration::from_micros(50);

type CommitsGuard<'a> = MutexGuard<'a, Commits, { rank::COMMIT }>;

/// Why a checkpoint is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Asked for, or due.
    Sync,
    /// The volume is being unmounted.
    Umount,
    /// Recovery ends.
    Recovery,
}

/// The checkpoint in force.
pub struct CpState {
    /// Pack it is in, 0 or 1.
    pub index: usize,
    /// Its header; the next one starts from it.
    pub header: Block,
    pub kbytes_written: u64,
    /// Checksum of the header.
    pub crc: u32,
}

/// What goes into a pack.
struct Contents<'a> {
    frozen: &'a Frozen,
    reason: Reason,
    logs: &'a LogSnapshot,
    nat: &'a NatFlush,
    sit: &'a SitFlush,
}

impl CpState {
    pub fn of(pack: &Pack) -> Self {
        Self {
            index: pack.index,
            header: pack.header.clone(),
            kbytes_written: pack.kbytes_written,
            crc: pack.crc,
        }
    }
    pub fn version(&self) -> u64 {
        self.header.view::<RawCheckpoint>().checkpoint_ver.get()
    }
}

/// What node footers carry after this checkpoint.
pub fn stamp(cp: &RawCheckpoint, crc: u32) -> u64 {
    let crc = if cp.flags().contains(CpFlags::CRC_RECOVERY) { u64::from(crc) << 32 } else { 0 };
    cp.checkpoint_ver.get() | crc
}

impl Volume {
    /// Makes everything done so far durable, except data of regular files that was not flushed.
    pub(crate) fn checkpoint(&self, reason: Reason) -> Result<()> {
        let drawn = self.under_way.drawn();
        self.checkpoint_unless(reason, |state| {
            reason == Reason::Sync && (state.version() > drawn || !self.has_changes())
        })
    }

    /// A checkpoint to make room of some kind, if there is none when nobody else writes one any more.
    pub(crate) fn checkpoint_while(&self, wanted: impl Fn() -> bool) -> Result<()> {
        self.checkpoint_unless(Reason::Sync, |_| !(wanted() && self.has_changes()))
    }

    fn checkpoint_unless(&self, reason: Reason, done: impl FnOnce(&CpState) -> bool) -> Result<()> {
        if self.opts.read_only {
            return Ok(());
        }
        let mut state = self.cp.lock();
        self.check_running()?;
        if done(&state) {
            return Ok(());
        }
        let begun = Instant::now();
        let written = if reason == Reason::Sync && self.goes_on() && !self.short_of_sections() {
            // Else they might take the space that it needs.
            self.checkpoint_concurrently(&mut state)
        } else {
            self.checkpoint_closed(&mut state, reason)
        };
        let freed = self.noted(written).inspect_err(|e| self.stop(e));
        self.since.chain_ended();
        self.under_way.end();
        stat::add(&self.stats.checkpoint_ns, begun.elapsed().as_nanos() as u64);
        let freed = freed?;
        stat::add(&self.stats.checkpoints, 1);
        drop(state);
        self.discard_segments(&freed);
        Ok(())
    }

    /// Whether operations are to go on while a checkpoint is written.
    pub(crate) fn goes_on(&self) -> bool {
        match self.opts.checkpoint {
            CheckpointMode::Auto => self.log().is_some(),
            CheckpointMode::Blocking => false,
            CheckpointMode::Concurrent => true,
        }
    }

    /// Operations wait until the checkpoint is durable.
    fn checkpoint_closed(&self, state: &mut CpState, reason: Reason) -> Result<Vec<SegNo>> {
        // A commit that has begun is not cut off.
        let mut commits = self.log.get().map(|log| log.commits.lock());
        let closing = Instant::now();
        let mut closed = self.gate.close();
        let freed =
            self.freeze(&mut closed, next_version(state), commits.as_deref_mut()).and_then(|frozen| {
                let boundary = frozen.boundary;
                let freed = self.write_checkpoint(state, frozen, reason)?;
                debug_assert_eq!(self.mem.dirty_nodes.get(), 0, "a checkpoint leaves no node dirty");
                let _covered = self.checkpoint_durable(commits.as_deref_mut(), boundary)?;
                Ok(freed)
            });
        drop(closed);
        self.note_blocked(closing);
        freed
    }

    /// Operations wait while the boundary is drawn.
    fn checkpoint_concurrently(&self, state: &mut CpState) -> Result<Vec<SegNo>> {
        self.flush_directories_early();
        let frozen = {
            let (mut commits, closing, mut closed) = self.close_in_a_gap();
            let frozen = self.freeze(&mut closed, next_version(state), commits.as_deref_mut());
            drop(closed);
            self.note_blocked(closing);
            frozen?
        };
        let boundary = frozen.boundary;
        let frozen = Frozen { concurrent: true, ..frozen };
        let freed = self.write_checkpoint(state, frozen, Reason::Sync)?;
        let mut commits = self.log.get().map(|log| log.commits.lock());
        let covered = self.checkpoint_durable(commits.as_deref_mut(), boundary)?;
        drop(commits);
        // May take long.
        drop(covered);
        Ok(freed)
    }

    /// Lets no commit be under way and no operation inside. An operation inside may have lost its processor: until it leaves a
    /// closing gate keeps all others out, so for a while one is awaited with the gate open.
    fn close_in_a_gap(&self) -> (Option<CommitsGuard<'_>>, Instant, Closed<'_>) {
        let lock = || self.log.get().map(|log| log.commits.lock());
        // Without a journal whoever syncs waits for the checkpoint.
        let tries = if self.log().is_some() { GAP_TRIES } else { 0 };
        for _ in 0..tries {
            let (commits, closing) = (lock(), Instant::now());
            if let Some(closed) = self.gate.try_close() {
                return (commits, closing, closed);
            }
            drop(commits);
            std::thread::sleep(GAP_PAUSE);
        }
        let (commits, closing) = (lock(), Instant::now());
        (commits, closing, self.gate.close())
    }

    fn note_blocked(&self, since: Instant) {
        self.stats.checkpoint_blocked.record(since.elapsed().as_nanos() as u64);
    }

    /// Whether a checkpoint would have anything to write.
    pub(crate) fn has_changes(&self) -> bool {
        self.records.unstored()
            || self.mem.dirty_nodes.get() > 0
            || self.mem.dirty_dents.get() > 0
            || self.nat.changed() > 0
            || self.segs.with_table(|t| !t.changed().is_empty())
    }

    /// Writes what was frozen and makes it the state of the volume. Returns the segments that this frees.
    fn write_checkpoint(
        &self,
        state: &mut CpState,
        mut frozen: Frozen,
        reason: Reason,
    ) -> Result<Vec<SegNo>> {
        self.store_damage()?;
        for batch in &frozen.blocks {
            self.write_frozen(batch)?;
        }
        self.write_all_nodes(&mut frozen.nodes)?;
        // Before the SIT: a log that moves on meanwhile then leaves a segment that the SIT describes rightly.
        let logs = self.segs.log_snapshot(self.log().is_some());
        let nat = self.nat.flush(reason == Reason::Umount)?;
        let sit = self.segs.flush_sit()?;
        self.segs.write_summaries()?;
        let contents = Contents { frozen: &frozen, reason, logs: &logs, nat: &nat, sit: &sit };
        let next = self.build_header(state, &contents)?;
        let crc = self.write_pack(state, next, &contents)?;
        self.nat.committed();
        let freed = self.segs.committed();
        self.stamp.store(stamp(state.header.view(), crc), Ordering::Release);
        Ok(freed)
    }

    /// Writes every dirty node; inner nodes, then directories, then files.
    fn write_all_nodes(&self, nodes: &mut FrozenNodes) -> Result<()> {
        let dirty = nodes.take();
        for log in [LogType::ColdNode, LogType::HotNode, LogType::WarmNode] {
            let mine: Vec<_> = dirty.iter().filter(|f| f.log() == log).cloned().collect();
            for batch in mine.chunks(NODE_BATCH) {
                self.write_frozen_nodes(log, batch)?;
            }
        }
        Ok(())
    }

    /// The header of the next checkpoint, all but the block counts of the pack.
    fn build_header(&self, state: &CpState, contents: &Contents<'_>) -> Result<Vec<Block>> {
        let &Contents { frozen: Frozen { counts, .. }, reason, logs, nat, sit } = contents;
        let mut blocks = vec![state.header.clone()];
        blocks.resize(1 + self.geo.cp_payload as usize, Block::zeroed());
        let mut flags = state.header.view::<RawCheckpoint>().flags();
        flags.remove(
            CpFlags::UMOUNT
                | CpFlags::FASTBOOT
                | CpFlags::ORPHAN_PRESENT
                | CpFlags::COMPACT_SUM
                | CpFlags::TRIMMED
                | CpFlags::NOCRC_RECOVERY
                | CpFlags::NAT_BITS
                | CpFlags::DISABLED
                | CpFlags::DISABLED_QUICK,
        );
        flags.insert(CpFlags::CRC_RECOVERY);
        flags.set(CpFlags::UMOUNT, reason == Reason::Umount);
        if self.records.any_damage() {
            flags.insert(CpFlags::FSCK);
        }
        if let Some(needs_check) = self.quota.needs_check() {
            flags.set(CpFlags::QUOTA_NEED_FSCK, needs_check);
        }
        let open: Vec<_> = logs.iter().map(|(log, _)| log.segno).collect();
        if let Some(block) = blocks.first_mut() {
            let cp: &mut RawCheckpoint = block.view_mut();
            cp.checkpoint_ver = U64::new(next_version(state));
            cp.valid_block_count = U64::new(counts.valid_blocks);
            cp.valid_node_count = U32::new(counts.valid_nodes);
            cp.valid_inode_count = U32::new(counts.valid_inodes);
            cp.next_free_nid = U32::new(nat.next_free_nid.0);
            cp.free_segment_count = U32::new(self.segs.with_table(|t| t.empty_at_boundary(&open)) as u32);
            cp.elapsed_time = U64::new(self.segs.now());
            cp.ckpt_flags = U32::new(flags.bits());
            cp.tail.fill(0);
            for (log, _) in logs {
                store_log(cp, log)?;
            }
        }
        let place = bitmap_place(&self.geo, flags);
        store_bytes(&mut blocks, place.sit, &sit.bitmap);
        store_bytes(&mut blocks, place.nat, &nat.bitmap);
        Ok(blocks)
    }

    /// Writes the pack into the segment that is not in use, and makes it the one in force. Returns its crc.
    fn write_pack(&self, state: &mut CpState, mut head: Vec<Block>, contents: &Contents<'_>) -> Result<u32> {
        let &Contents { frozen, reason, logs, nat, sit } = contents;
        let index = 1 - state.index;
        let start = self.geo.pack_addr(index);
        let orphans = if planted(Bug::ForgottenOrphan) { Vec::new() } else { orphan_blocks(&frozen.orphans) };
        let [hot, warm, cold, nodes @ ..] = logs;
        let (sums, compact) = data_summaries([hot, warm, cold], nat, sit);
        let node_sums =
            if reason == Reason::Umount { node_summaries(nodes, state.kbytes_written) } else { Vec::new() };
        let total = head.len() + orphans.len() + sums.len() + node_sums.len() + 1;
        if total > BLOCKS_PER_SEG as usize {
            return Err(Error::NoSpace);
        }
        let start_sum = head.len() + orphans.len();
        let Some(first) = head.first_mut() else { return Err(Error::Stopped) };
        let cp: &mut RawCheckpoint = first.view_mut();
        let mut flags = cp.flags();
        flags.set(CpFlags::ORPHAN_PRESENT, !orphans.is_empty());
        flags.set(CpFlags::COMPACT_SUM, compact);
        cp.ckpt_flags = U32::new(flags.bits());
        cp.cp_pack_total_block_count = U32::new(total as u32);
        cp.cp_pack_start_sum = U32::new(start_sum as u32);
        let crc = RawCheckpoint::seal(first);
        let header = first.clone();
        let body: Vec<&Block> = head.iter().chain(&orphans).chain(&sums).chain(&node_sums).collect();
        let last = BlockAddr(start.0 + total as u32 - 1);
        if planted(Bug::HeaderFirst) {
            self.dev.write_fua(last, &[&header])?;
        }
        self.dev.write(start, &body)?;
        self.announce_checkpoint(&header, crc, frozen, logs)?;
        // Everything the pack refers to, and the pack itself but for its end, is durable before the end is written.
        if !planted(Bug::SkippedFlush) {
            self.dev.flush()?;
        }
        self.dev.write_fua(last, &[&header])?;
        stat::add(&self.stats.meta_blocks, total as u64);
        (state.index, state.header, state.crc) = (index, header, crc);
        Ok(crc)
    }
}

fn next_version(state: &CpState) -> u64 {
    state.version().wrapping_add(1)
}

type LoggedSummary = (LogState, Box<RawSummaryBlock>);

/// The data logs' summaries with the NAT and SIT journals: compact if they fit in two blocks.
fn data_summaries(logs: [&LoggedSummary; 3], nat: &NatFlush, sit: &SitFlush) -> (Vec<Block>, bool) {
    let used = |s: &LogState| if s.ssr { BLOCKS_PER_SEG } else { s.next.min(BLOCKS_PER_SEG) } as usize;
    let total: usize = logs.iter().map(|(s, _)| used(s)).sum();
    if total > COMPACT_FIRST + COMPACT_NEXT {
        let journals = [nat.journal.as_bytes(), &[0; JOURNAL_BYTES], sit.journal.as_bytes()];
        let blocks =
            logs.iter().zip(journals).map(|((_, sum), journal)| summary_block(sum, journal)).collect();
        return (blocks, false);
    }
    let mut blocks = vec![Block::zeroed(); if total > COMPACT_FIRST { 2 } else { 1 }];
    store_bytes(&mut blocks, 0, nat.journal.as_bytes());
    store_bytes(&mut blocks, JOURNAL_BYTES, sit.journal.as_bytes());
    let entries = logs.iter().flat_map(|(s, sum)| sum.entries.iter().take(used(s)));
    for (i, e) in entries.enumerate() {
        let (block, byte) = compact_position(i);
        store_bytes(&mut blocks, block * BLOCK_SIZE + byte, e.as_bytes());
    }
    (blocks, true)
}

fn node_summaries(logs: &[LoggedSummary; 3], kbytes_written: u64) -> Vec<Block> {
    let mut info = RawExtraInfo::new_zeroed();
    info.kbytes_written = U64::new(kbytes_written);
    let journals = [info.as_bytes(), &[0; JOURNAL_BYTES], &[0; JOURNAL_BYTES]];
    logs.iter().zip(journals).map(|((_, sum), journal)| summary_block(sum, journal)).collect()
}

fn summary_block(sum: &RawSummaryBlock, journal: &[u8]) -> Block {
    let mut block = Block::zeroed();
    let raw: &mut RawSummaryBlock = block.view_mut();
    *raw = *sum;
    raw.journal.copy_from_slice(journal);
    block
}

fn store_log(cp: &mut RawCheckpoint, log: &LogState) -> Result<()> {
    if log.next >= BLOCKS_PER_SEG {
        return Err(Error::NoSpace);
    }
    let i = log.kind.idx() % 3;
    let (segs, offs) = if log.kind.is_node() {
        (&mut cp.cur_node_segno, &mut cp.cur_node_blkoff)
    } else {
        (&mut cp.cur_data_segno, &mut cp.cur_data_blkoff)
    };
    if let (Some(s), Some(o), Some(a)) =
        (segs.get_mut(i), offs.get_mut(i), cp.alloc_type.get_mut(log.kind.idx()))
    {
        *s = U32::new(log.segno.0);
        *o = U16::new(log.next as u16);
        *a = u8::from(log.ssr);
    }
    Ok(())
}

/// Stores bytes at an offset of blocks seen as one string.
fn store_bytes(blocks: &mut [Block], at: usize, bytes: &[u8]) {
    for (i, &byte) in (at..).zip(bytes) {
        if let Some(b) = blocks.get_mut(i / BLOCK_SIZE).and_then(|b| b.0.get_mut(i % BLOCK_SIZE)) {
            *b = byte;
        }
    }
}

fn orphan_blocks(inos: &[Ino]) -> Vec<Block> {
    let count = inos.len().div_ceil(ORPHANS_PER_BLOCK);
    let block = |(i, part): (usize, &[Ino])| {
        let mut b = Block::zeroed();
        let raw: &mut RawOrphanBlock = b.view_mut();
        for (slot, ino) in raw.ino.iter_mut().zip(part) {
            *slot = U32::new(ino.0);
        }
        raw.blk_addr = U16::new(i as u16 + 1);
        raw.blk_count = U16::new(count as u16);
        raw.entry_count = U32::new(part.len() as u32);
        b
    };
    inos.chunks(ORPHANS_PER_BLOCK).enumerate().map(block).collect()
}
