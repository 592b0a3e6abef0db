//! fsync: the writing side of the roll-forward chain.
//!
//! In strict mode nodes are written after a flush has covered the data; a device that keeps writes in order needs none. The
//! inode block, which carries the mark, is the last of them: replay reaches it only if all others arrived. So everything that
//! a mark refers to is on the device, and an interrupted fsync takes effect as a whole or not at all.
mod ahead;
mod decide;
mod lookup;
mod phases;

use crate::commit::CheckpointReason;
use crate::commit::Commit;
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::meta::Written;
use crate::nodes::Change;
use crate::nodes::{Marks, NodeState, NodeWrite};
use crate::options::{FsyncLookup, FsyncMode};
use crate::stat::{self, CpReason};
use crate::sync::atomic::Ordering;
use crate::transaction::Op;
use decide::{InodeHistory, Route, route};
use phases::{Phase, Phases};
use segno_codec::casefolded_name_hash;
use segno_device::Operation;
use segno_format::inode::{Advise, RawInode};
use segno_format::sit::LogType;
use segno_format::{BlockAddr, Features, Ino, name_hash};
use std::sync::Arc;

/// Result of an attempt to log an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The inode's current state was written before, or needs no write.
    Unchanged,
    Checkpoint(CpReason),
    /// The data has to be durable first.
    DataFirst,
    Logged,
}

impl Commit {
    /// Makes an inode durable: data, size, attributes and, for a new file, its name. fdatasync does the same: the
    /// times it may omit are in the same block as everything else.
    ///
    /// Reports a failed write of the inode's data once, including failures of background writeback.
    pub fn fsync(&self, ino: Ino) -> Result<()> {
        let mut phases = Phases::begin();
        let done = self.fsync_in_turn(ino, &mut phases);
        phases.record(&self.base.stats.fsync);
        done
    }

    /// One fsync serves all callers that waited for another one of the same file to end.
    fn fsync_in_turn(&self, ino: Ino, phases: &mut Phases) -> Result<()> {
        stat::add(&self.base.stats.fsyncs, 1);
        let inode = self.files.inode(ino)?;
        let Some(round) = phases.time(Phase::Node, |_| inode.syncs.wait()) else {
            stat::add(&self.base.stats.fsyncs_shared, 1);
            return Ok(());
        };
        self.fsync_in_phases(&inode, phases)?;
        round.succeed();
        Ok(())
    }

    fn fsync_in_phases(&self, inode: &Arc<Inode>, phases: &mut Phases) -> Result<()> {
        phases.time(Phase::Data, |_| self.sync_data(inode))?;
        if self.journal().is_some() {
            return phases.time(Phase::Flush, |_| self.sync_metadata());
        }
        let Some(why) = self.log_inode(inode, phases)? else { return Ok(()) };
        stat::add(&self.base.stats.fsync_checkpoints, 1);
        self.base.stats.fsync.checkpointed(why);
        // Directories and their entries go to this log.
        self.nodes.space.note_fsync(LogType::HotData);
        self.nodes.space.note_fsync(LogType::HotNode);
        phases.time(Phase::Checkpoint, |_| self.checkpoint(CheckpointReason::Sync))
    }

    fn sync_data(&self, inode: &Arc<Inode>) -> Result<()> {
        if self.journal().is_none() {
            self.nodes.space.note_fsync(LogType::WarmNode);
        }
        let flushed = self.writeback.flush_for_sync(inode);
        let failed_before = inode.write_error.swap(false, Ordering::AcqRel);
        flushed?;
        if failed_before {
            let source = std::io::Error::other("an earlier write of the file's data failed and was repeated");
            return Err(Error::Io { op: Operation::Write, at: inode.ino.0.into(), source });
        }
        Ok(())
    }

    /// Makes the inode durable through the chain, or returns why only a checkpoint can.
    fn log_inode(&self, inode: &Arc<Inode>, phases: &mut Phases) -> Result<Option<CpReason>> {
        // While the flush lock is held, no new data of the inode is published, so the mark covers no unflushed data.
        let _flush = phases.time(Phase::Node, |_| inode.flush.lock());
        let dev = &self.base.dev;
        // All data of the inode. A checkpoint that the log has to wait for makes it durable.
        let data = dev.durable.written();
        let mut more = None;
        let wanted = loop {
            match phases.time(Phase::Node, |phases| self.log_in_gate(inode, data, phases))? {
                Step::Checkpoint(why) => return Ok(Some(why)),
                Step::DataFirst => more = self.flush_logged(phases, || dev.flush_before_more(data))?,
                Step::Unchanged => break data,
                Step::Logged => break dev.durable.written(),
            }
        };
        self.flush_logged(phases, || match more {
            Some(more) => dev.flush_more(more, wanted),
            None => dev.flush_shared(wanted),
        })?;
        Ok(None)
    }

    /// Flushes the device unless the mode omits the flush.
    fn flush_logged<R: Default>(&self, phases: &mut Phases, flush: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.base.opts.fsync_mode == FsyncMode::Nobarrier {
            return Ok(R::default());
        }
        // The extent of the loss is unknown, so the volume stops.
        phases.time(Phase::Flush, |_| flush()).inspect_err(|e| self.base.health.stop(e))
    }

    /// Logs the inode with all its nodes, unless its data is not durable yet and the mode requires that.
    fn log_in_gate(&self, inode: &Arc<Inode>, data: Written, phases: &mut Phases) -> Result<Step> {
        let op = self.enter_for_chain()?;
        // Once the lock is ours, any other thread that logged nodes of this inode has written them.
        let mut chain = self.base.tx.chain.lock();
        if inode.is_gone() || !self.has_changed(inode) {
            return Ok(Step::Unchanged);
        }
        let promised = self.files.room.promise_chain(self.nodes.cache.dirty.direct_count(inode.ino) + 1);
        let dent = match route(&self.history(inode, promised.is_some())?) {
            Route::Nothing => return Ok(Step::Unchanged),
            Route::Checkpoint(why) => return Ok(Step::Checkpoint(why)),
            Route::Chain { dent } => dent,
        };
        let data_first = self.base.opts.fsync_mode == FsyncMode::Strict && !self.base.dev.raw.keeps_order();
        if data_first && !self.base.dev.durable.covers(data) {
            return Ok(Step::DataFirst);
        }
        let direct = self.dirty_direct(inode.ino, phases);
        let mut nodes: Vec<NodeWrite> =
            direct.into_iter().map(|frame| NodeWrite { frame, marks: Marks::default() }).collect();
        // The inode block is on no list: it is written in any case.
        stat::add(&self.base.stats.fsync.searched, u64::from(self.fsync_lookup() != FsyncLookup::Global));
        nodes.push(NodeWrite { frame: inode.frame.clone(), marks: Marks { fsync: true, dent } });
        if !self.append(&op, &mut chain, &nodes)? {
            return Ok(Step::Checkpoint(CpReason::ChainBroken));
        }
        stat::add(&self.base.stats.fsync.written, nodes.len() as u64);
        self.nodes.since.marked(inode.ino);
        drop(promised);
        if dent {
            self.nodes.since.add(inode.ino, Change::EntryLogged);
        }
        Ok(Step::Logged)
    }

    /// Appends nodes to the chain. False if they do not follow its last block: then it is broken.
    fn append(&self, op: &Op<'_>, chain: &mut Option<BlockAddr>, nodes: &[NodeWrite]) -> Result<bool> {
        let follows = match self.nodes.write_nodes(op, LogType::WarmNode, nodes) {
            Err(Error::NoSpace) => false,
            other => match other.inspect_err(|e| self.base.health.stop(e))? {
                // A full log without a free segment names an address that it did not get.
                Some((first, next)) => chain.replace(next).is_none_or(|expected| expected == first),
                None => true,
            },
        };
        if follows {
            self.nodes.since.add_logged(nodes.len());
        } else {
            self.nodes.since.break_chain();
        }
        Ok(follows)
    }

    /// Enters the gate with no checkpoint in progress, so appended blocks follow a checkpoint that stays current.
    fn enter_for_chain(&self) -> Result<Op<'_>> {
        loop {
            let op = self.base.tx.begin();
            if !self.in_progress.is_on() {
                // The checkpoint may have failed.
                return self.base.health.check_running().map(|()| op);
            }
            drop(op);
            self.in_progress.wait();
        }
    }

    /// Whether the inode changed since it was last durable. Clean nodes were written by a checkpoint, under a mark, or ahead of the next
    /// boundary.
    fn has_changed(&self, inode: &Inode) -> bool {
        if self.nodes.since.has(inode.ino, Change::WrittenAhead) {
            true
        } else if inode.get(RawInode::is_reg) {
            inode.frame.state() == NodeState::Changed || self.nodes.cache.dirty.has_direct(inode.ino)
        } else {
            inode.pages.lock().dirty() > 0 || self.nodes.cache.dirty.has_changed(inode.ino)
        }
    }

    /// Input to the choice of a [`Route`]. `promised`: room for the nodes is promised.
    fn history(&self, inode: &Inode, promised: bool) -> Result<InodeHistory> {
        let (regular, compressed, links, advise, parent) =
            inode.get(|i| (i.is_reg(), i.is_compressed(), i.i_links.get(), i.advise(), Ino(i.i_pino.get())));
        let since = &self.nodes.since;
        let in_checkpoint = self.nodes.nat.get(inode.ino.nid())?.in_checkpoint;
        let entry_logged = since.has(inode.ino, Change::EntryLogged);
        // Names matter only for inodes that replay would have to name.
        let is_new = !in_checkpoint && !entry_logged;
        Ok(InodeHistory {
            regular,
            compressed: compressed || since.has(inode.ino, Change::Compression),
            links,
            in_checkpoint,
            entry_logged,
            renamed: since.has(inode.ino, Change::Renamed),
            node_freed: since.has(inode.ino, Change::NodeFreed),
            lost_pino: advise.contains(Advise::LOST_PINO),
            parent_in_checkpoint: self.base.geo.nid_ok(parent)
                && self.nodes.nat.get(parent.nid())?.in_checkpoint,
            parent_changed: since.has(parent, Change::Directory),
            name_vacated: is_new && self.is_name_vacated(inode, parent),
            dir_renamed: since.has_dir_renamed(),
            unlinked: since.has(inode.ino, Change::Unlinked),
            strict: self.base.opts.fsync_mode == FsyncMode::Strict,
            room: self.nodes.space.counts.room_to_roll_forward() && promised,
            chain_whole: !since.is_chain_broken(),
            fastboot: self.base.opts.fastboot,
        })
    }

    /// Whether the inode's name had another owner since the last checkpoint. Ignores casefolding: a false match only
    /// costs a checkpoint.
    fn is_name_vacated(&self, inode: &Inode, parent: Ino) -> bool {
        let vacated = |hash| self.nodes.since.is_name_vacated(parent, hash);
        inode.get(|i| {
            let folds = self.base.features.contains(Features::CASEFOLD);
            vacated(name_hash(i.name())) || (folds && vacated(casefolded_name_hash(i.name())))
        })
    }
}
