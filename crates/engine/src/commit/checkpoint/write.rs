//! Writing a checkpoint: directory blocks, nodes, NAT, SIT, summaries, then the pack with its last block last.
use super::freeze::Frozen;
use crate::commit::Commit;
use crate::commit::journal::Commits;
use crate::error::{Error, Result};
use crate::health::invariant;
use crate::lock::{MutexGuard, rank};
use crate::nodes::FrozenNodes;
use crate::nodes::NatFlush;
use crate::options::CheckpointMode;
use crate::space::{Log, SegmentPin, SitFlush};
use crate::stat;
use crate::transaction::Closed;
use segno_format::checkpoint::{CpFlags, LogPosition, RawCheckpoint};
use segno_format::sit::LogType;
use segno_format::{BLOCKS_PER_SEG, Block};
use segno_layout::{Encoded, Stamp, Unencodable, check_follows};
use std::time::{Duration, Instant};
use zerocopy::little_endian::{U32, U64};

/// Nodes written per batch, which bounds the copies in memory.
const NODE_BATCH: usize = 1024;

/// Attempts to find the gate without operations before a boundary blocks new ones, and the sleep between attempts.
const IDLE_TRIES: u32 = 50;
const IDLE_PAUSE: Duration = Duration::from_micros(50);

type CommitsGuard<'a> = MutexGuard<'a, Commits, { rank::COMMIT }>;

/// Reason for writing a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointReason {
    /// Requested or due.
    Sync,
    /// The volume is being unmounted.
    Umount,
    /// The volume was unmounted, and all free blocks were discarded since.
    UmountTrimmed,
    /// Recovery ends.
    Recovery,
}

impl CheckpointReason {
    /// Whether nothing follows that changes the volume.
    fn ends_mount(self) -> bool {
        matches!(self, Self::Umount | Self::UmountTrimmed)
    }
}

/// The current checkpoint.
pub struct CpState {
    /// Pack it is in, 0 or 1.
    pub index: usize,
    /// Its header, from which the next one is built.
    pub header: Block,
    pub kbytes_written: u64,
    /// Checksum of the header.
    pub crc: u32,
    /// Whether it was written by the format, and no other checkpoint was written since.
    pub is_first: bool,
    /// Whether the checkpoint last written hides work from other implementations.
    pub guarded: bool,
}

/// The contents of a pack.
struct Contents<'a> {
    frozen: &'a Frozen,
    reason: CheckpointReason,
    logs: &'a [Log; 6],
    nat: &'a NatFlush,
    sit: &'a SitFlush,
}

impl CpState {
    pub fn version(&self) -> u64 {
        self.header.view::<RawCheckpoint>().checkpoint_ver.get()
    }
    /// Whether blocks that are free in this checkpoint were discarded, or never written.
    pub fn is_trimmed(&self) -> bool {
        self.header.view::<RawCheckpoint>().flags().contains(CpFlags::TRIMMED)
    }
    /// Stamp in the footers of nodes that are written after this checkpoint.
    pub fn stamp(&self) -> Stamp {
        Stamp::after(self.header.view(), self.crc)
    }
}

impl Commit {
    /// Makes all changes durable, except data of regular files that was not flushed.
    pub fn checkpoint(&self, reason: CheckpointReason) -> Result<()> {
        let drawn = self.in_progress.drawn();
        self.checkpoint_unless(reason, |state| {
            reason == CheckpointReason::Sync && (state.version() > drawn || !self.has_changes())
        })
    }

    /// Writes a checkpoint to free a resource, if `wanted` still holds once no other checkpoint is in progress.
    pub fn checkpoint_while(&self, wanted: impl Fn() -> bool) -> Result<()> {
        self.checkpoint_unless(CheckpointReason::Sync, |_| !(wanted() && self.has_changes()))
    }

    fn checkpoint_unless(&self, reason: CheckpointReason, done: impl FnOnce(&CpState) -> bool) -> Result<()> {
        if self.base.opts.read_only {
            return Ok(());
        }
        let mut state = self.cp.lock();
        self.base.health.check_running()?;
        if done(&state) {
            return Ok(());
        }
        let begun = Instant::now();
        let written = if reason == CheckpointReason::Sync && self.is_concurrent() && !self.files.room.assess()
        {
            // With the gate open, operations might take the space that it needs.
            self.checkpoint_concurrently(&mut state)
        } else {
            self.checkpoint_closed(&mut state, reason)
        };
        let freed = self.base.health.record_damage(written).inspect_err(|e| self.base.health.stop(e));
        self.nodes.since.chain_ended();
        self.in_progress.end();
        stat::add(&self.base.stats.checkpoint_ns, begun.elapsed().as_nanos() as u64);
        let freed = freed?;
        stat::add(&self.base.stats.checkpoints, 1);
        drop(state);
        self.discard_segments(freed);
        Ok(())
    }

    /// Whether operations continue while a checkpoint is written.
    pub fn is_concurrent(&self) -> bool {
        match self.base.opts.checkpoint {
            // Without background threads no other operation is likely to gain.
            CheckpointMode::Auto => self.journal().is_some() || self.base.opts.background,
            CheckpointMode::Blocking => false,
            CheckpointMode::Concurrent => true,
        }
    }

    /// A blocking checkpoint: the gate is closed until it is durable.
    fn checkpoint_closed(&self, state: &mut CpState, reason: CheckpointReason) -> Result<SegmentPin> {
        // Waits for a commit in progress.
        let mut commits = self.journal.get().map(|journal| journal.commits.lock());
        let closing = Instant::now();
        let mut closed = self.base.tx.close_gate();
        let freed =
            self.freeze(&mut closed, next_version(state), commits.as_deref_mut()).and_then(|frozen| {
                let boundary = frozen.boundary;
                let freed = self.write_checkpoint(state, frozen, reason)?;
                let clean = self.base.mem.dirty_nodes.get() == 0;
                invariant!(self.base.health, clean, "a checkpoint with the gate closed leaves a node dirty");
                let _covered = self.checkpoint_durable(commits.as_deref_mut(), boundary, state.guarded)?;
                Ok(freed)
            });
        drop(closed);
        self.note_blocked(closing);
        freed
    }

    /// A concurrent checkpoint: the gate is closed only to draw the boundary.
    fn checkpoint_concurrently(&self, state: &mut CpState) -> Result<SegmentPin> {
        self.writeback.flush_directories_early();
        self.write_nodes_ahead()?;
        let frozen = {
            let (mut commits, closing, mut closed) = self.close_when_idle();
            let frozen = self.freeze(&mut closed, next_version(state), commits.as_deref_mut());
            drop(closed);
            self.note_blocked(closing);
            frozen?
        };
        let boundary = frozen.boundary;
        let frozen = Frozen { concurrent: true, ..frozen };
        let freed = self.write_checkpoint(state, frozen, CheckpointReason::Sync)?;
        let mut commits = self.journal.get().map(|journal| journal.commits.lock());
        let covered = self.checkpoint_durable(commits.as_deref_mut(), boundary, state.guarded)?;
        drop(commits);
        // May take long.
        drop(covered);
        Ok(freed)
    }

    /// Closes the gate with no commit in progress. An operation inside may have been preempted, and a closing gate
    /// keeps all others out until it leaves. So this first waits a bounded time for an empty gate with the gate open.
    fn close_when_idle(&self) -> (Option<CommitsGuard<'_>>, Instant, Closed<'_>) {
        let lock = || self.journal.get().map(|journal| journal.commits.lock());
        // Without a journal, sync waits for the checkpoint.
        let tries = if self.journal().is_some() { IDLE_TRIES } else { 0 };
        for _ in 0..tries {
            let (commits, closing) = (lock(), Instant::now());
            if let Some(closed) = self.base.tx.try_close_gate() {
                return (commits, closing, closed);
            }
            drop(commits);
            std::thread::sleep(IDLE_PAUSE);
        }
        let (commits, closing) = (lock(), Instant::now());
        (commits, closing, self.base.tx.close_gate())
    }

    fn note_blocked(&self, since: Instant) {
        self.base.stats.checkpoint_blocked.record(since.elapsed().as_nanos() as u64);
    }

    /// Whether a checkpoint would write anything.
    pub fn has_changes(&self) -> bool {
        self.base.health.unstored()
            || self.base.mem.dirty_nodes.get() > 0
            || self.base.mem.dirty_dents.get() > 0
            || self.nodes.nat.changed() > 0
            || self.nodes.space.with_table(|t| !t.changed().is_empty())
    }

    /// Writes the frozen state and makes it durable. Returns the segments that this frees.
    fn write_checkpoint(
        &self,
        state: &mut CpState,
        mut frozen: Frozen,
        reason: CheckpointReason,
    ) -> Result<SegmentPin> {
        self.base.health.store_damage()?;
        for (batch, expected) in std::mem::take(&mut frozen.blocks) {
            self.files.write_placed(&batch)?;
            drop(expected);
        }
        self.write_all_nodes(&mut frozen.nodes)?;
        // Before the SIT, so that the SIT correctly describes a segment that a log leaves in the meantime.
        let logs = self.positions_of_logs(reason)?;
        self.check_totals(&frozen)?;
        let nat = self.nodes.nat.flush(reason.ends_mount())?;
        let sit = self.nodes.space.flush_sit()?;
        let summaries = self.nodes.space.write_summaries()?;
        stat::add(&self.base.stats.meta_blocks, nat.blocks + sit.blocks + summaries);
        let contents = Contents { frozen: &frozen, reason, logs: &logs, nat: &nat, sit: &sit };
        let header = self.build_header(state, &contents)?;
        self.write_pack(state, &header, &contents)?;
        // Durable from here on. Nodes get the new stamp before blocks that the checkpoint freed are handed out, so no chain leads into them.
        self.base.tx.restart_chain(state.stamp().value());
        self.nodes.nat.committed();
        Ok(self.nodes.space.committed())
    }

    /// With a journal each log leaves out the block at its position. The last checkpoint of a mount leaves
    /// zones as other implementations expect them, written up to the positions.
    fn positions_of_logs(&self, reason: CheckpointReason) -> Result<[Log; 6]> {
        // Blocks in front of a position are written before the checkpoint is durable.
        let _order = self.files.in_order();
        let expected = self.base.dev.is_zoned() && reason.ends_mount();
        self.nodes.space.log_snapshot(self.journal().is_some() && !expected)
    }

    /// With the gate closed the totals are stable: the SIT must have every node, and no more blocks than counted.
    fn check_totals(&self, frozen: &Frozen) -> Result<()> {
        if frozen.concurrent {
            return Ok(());
        }
        let (valid, nodes) = self.nodes.space.with_table(|t| t.totals());
        let (health, counts) = (&self.base.health, &frozen.counts);
        invariant!(
            health,
            nodes == u64::from(counts.valid_nodes),
            "node counts of the SIT and the checkpoint differ"
        );
        invariant!(health, valid <= counts.valid_blocks, "the SIT has more valid blocks than are counted");
        Ok(())
    }

    /// Writes every dirty node: indirect nodes, then nodes of directories, then of files.
    fn write_all_nodes(&self, nodes: &mut FrozenNodes) -> Result<()> {
        let dirty = nodes.take();
        let mut written = 0;
        for log in [LogType::ColdNode, LogType::HotNode, LogType::WarmNode] {
            let mine: Vec<_> = dirty.iter().filter(|f| f.log() == log).cloned().collect();
            written += mine.len();
            for batch in mine.chunks(NODE_BATCH) {
                self.nodes.write_frozen_nodes(log, batch)?;
            }
        }
        invariant!(self.base.health, written == dirty.len(), "a dirty node belongs to no log");
        Ok(())
    }

    /// The checkpoint block of the next checkpoint, except what follows from the other blocks of the pack.
    fn build_header(&self, state: &CpState, contents: &Contents<'_>) -> Result<Block> {
        let &Contents { frozen: Frozen { counts, .. }, reason, logs, nat, .. } = contents;
        let mut block = state.header.clone();
        let mut flags = state.header.view::<RawCheckpoint>().flags();
        flags.remove(
            CpFlags::UMOUNT
                | CpFlags::FASTBOOT
                | CpFlags::NOCRC_RECOVERY
                | CpFlags::NAT_BITS
                | CpFlags::DISABLED
                | CpFlags::DISABLED_QUICK,
        );
        flags.insert(CpFlags::CRC_RECOVERY);
        flags.set(CpFlags::UMOUNT, reason.ends_mount());
        flags.set(CpFlags::TRIMMED, reason == CheckpointReason::UmountTrimmed);
        if self.base.health.any_damage() {
            flags.insert(CpFlags::FSCK);
        }
        if let Some(needs_check) = self.nodes.quota.needs_check() {
            flags.set(CpFlags::QUOTA_NEED_FSCK, needs_check);
        }
        let open: Vec<_> = logs.iter().map(|log| log.segno).collect();
        let cp: &mut RawCheckpoint = block.view_mut();
        cp.checkpoint_ver = U64::new(next_version(state));
        cp.valid_block_count = U64::new(counts.valid_blocks);
        cp.valid_node_count = U32::new(counts.valid_nodes);
        cp.valid_inode_count = U32::new(counts.valid_inodes);
        cp.next_free_nid = U32::new(nat.next_free_nid.0);
        cp.free_segment_count = U32::new(self.nodes.space.with_table(|t| t.empty_at_boundary(&open)) as u32);
        cp.elapsed_time = U64::new(self.nodes.space.now());
        cp.ckpt_flags = U32::new(flags.bits());
        for log in logs {
            cp.set_position(&position(log)?);
        }
        Ok(block)
    }

    fn encode(
        &self,
        state: &CpState,
        header: &Block,
        contents: &Contents<'_>,
        mut seal: impl FnMut(&mut [u8]) -> u32,
    ) -> Result<Encoded> {
        let &Contents { frozen, reason, logs, nat, sit } = contents;
        let [d0, d1, d2, n0, n1, n2] = logs.each_ref().map(|log| &*log.summary);
        let contents = segno_layout::Contents {
            header,
            sit_bitmap: &sit.bitmap,
            nat_bitmap: &nat.bitmap,
            orphans: &frozen.orphans,
            data: [d0, d1, d2],
            compact: true,
            nodes: reason.ends_mount().then_some([n0, n1, n2]),
            nat: &nat.journal,
            sit: &sit.journal,
            kbytes_written: state.kbytes_written,
        };
        match contents.encode(&self.base.geo, &mut seal) {
            Err(Unencodable::TooLong) => Err(Error::NoSpace),
            encoded => self.base.health.present(
                encoded.ok(),
                "a checkpoint contradicts the geometry, or does not fit into its pack",
            ),
        }
    }

    /// Writes the pack into the unused pack segment and makes it current.
    fn write_pack(&self, state: &mut CpState, header: &Block, contents: &Contents<'_>) -> Result<()> {
        let &Contents { frozen, reason, logs, .. } = contents;
        // The pack in force is not touched: until the last block of the other one is durable, a crash finds the old checkpoint.
        let index = 1 - state.index;
        let start = self.base.geo.pack_addr(index);
        let seal = |block: &mut [u8], marks: Marks| {
            if marks.guarded {
                let has_quota = self.nodes.quota.needs_check().is_some();
                RawCheckpoint::hide_work(block, has_quota, self.base.dev.is_zoned());
            }
            RawCheckpoint::set_external_journal(block, marks.external);
            RawCheckpoint::seal(block)
        };
        let mut marks = self.marks(reason);
        let mut shown = Block::zeroed();
        let Encoded { blocks, mut header, mut crc } = self.encode(state, header, contents, |block| {
            shown.0.iter_mut().zip(&*block).for_each(|(to, byte)| *to = *byte);
            seal(block, marks)
        })?;
        let follows = check_follows(header.view(), state.header.view(), start).is_ok();
        invariant!(self.base.health, follows, "a checkpoint does not follow the one before");
        let last = start.offset(blocks.len() as u32);
        self.base.dev.write(start, &blocks.iter().collect::<Vec<_>>())?;
        // The checkpoint is announced in the journal before its pack is valid, so the records fit either
        // checkpoint that may be in force after a cut.
        self.announce_checkpoint(&header, crc, frozen, logs)?;
        if marks != self.marks(reason) {
            // The journal has failed: it has neither this checkpoint nor later changes.
            marks = self.marks(reason);
            header = shown;
            crc = seal(&mut header.0, marks);
            self.base.dev.write(start, &[&header])?;
        }
        // Everything that the pack refers to, and the pack except its last block, must be durable before that block
        // is.
        if self.base.dev.raw.keeps_order() {
            self.base.dev.write(last, &[&header])?;
            self.base.dev.flush()?;
        } else {
            self.base.dev.flush()?;
            self.base.dev.write_fua(last, &[&header])?;
        }
        stat::add(&self.base.stats.meta_blocks, blocks.len() as u64 + 1);
        (state.index, state.header, state.crc, state.guarded) = (index, header, crc, marks.guarded);
        state.is_first = false;
        Ok(())
    }

    /// Marks that report the journal to later mounts. The last checkpoint of a mount has none: it is complete
    /// without a journal.
    fn marks(&self, reason: CheckpointReason) -> Marks {
        let is_last = reason.ends_mount();
        Marks {
            external: !is_last && self.journal().is_some_and(|journal| !journal.shared),
            guarded: !is_last && self.guards(),
        }
    }
}

/// Marks of a checkpoint whose journal is in use.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Marks {
    external: bool,
    guarded: bool,
}

fn next_version(state: &CpState) -> u64 {
    state.version().wrapping_add(1)
}

/// Where a log continues after the checkpoint.
fn position(log: &Log) -> Result<LogPosition> {
    if log.next >= BLOCKS_PER_SEG {
        return Err(Error::NoSpace);
    }
    let (seg, blkoff) = (log.segno, log.next as u16);
    Ok(LogPosition { log: log.kind, seg, blkoff, alloc_type: u8::from(log.ssr) })
}
