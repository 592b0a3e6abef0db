//! fsync: the writing side of the roll-forward chain.
//!
//! In strict mode the inode block, which carries the mark, is written after a flush has covered the data and the other
//! nodes. So a mark that recovery finds never stands for something that did not reach the device, in whole or in part,
//! and an fsync that was cut off either happened or did not.
mod decide;
mod lookup;
mod phases;

use crate::checkpoint::Reason;
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::node::{Marks, NodeWrite, State};
use crate::options::{FsyncLookup, FsyncMode};
use crate::planted::{Bug, planted};
use crate::stat::{self, CpReason};
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use decide::{Facts, Route, route};
use phases::{Phase, Phases};
use segno_codec::{casefolded_name_hash, name_hash};
use segno_format::inode::{Advise, RawInode};
use segno_format::sit::LogType;
use segno_format::{Features, Ino, Nid};
use std::sync::Arc;

/// What a step of an fsync came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The inode's newest state is written, or need not be.
    Done,
    Checkpoint(CpReason),
    /// The inode block is still to be logged, on the checkpoint of this version.
    Logged {
        epoch: u64,
    },
}

/// Which nodes a step logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All but the inode block.
    Unmarked,
    /// All, the inode block last and marked; a no-op if the checkpoint is no longer that of the first part.
    Marked { after: Option<u64> },
}

impl Volume {
    /// Makes an inode durable: data, size, attributes and, for a new file, its name. `datasync` asks for less; the times
    /// it may leave out are in the same block as everything else.
    ///
    /// Tells once of a failed write of the inode's data, also of one that happened in the background.
    pub fn fsync(&self, ino: Ino, _datasync: bool) -> Result<()> {
        if self.opts.read_only {
            return Ok(());
        }
        let _ahead = self.fsyncs.take();
        let mut phases = Phases::begin();
        let done = self.fsync_in_phases(ino, &mut phases);
        phases.record(&self.stats.fsync);
        done
    }

    fn fsync_in_phases(&self, ino: Ino, phases: &mut Phases) -> Result<()> {
        let inode = phases.time(Phase::Data, |_| self.sync_data(ino))?;
        if self.log().is_some() {
            return phases.time(Phase::Flush, |_| self.commit());
        }
        let Some(why) = self.log_inode(&inode, phases)? else { return Ok(()) };
        stat::add(&self.stats.fsync_checkpoints, 1);
        self.stats.fsync.checkpointed(why);
        // Directories and their names go there.
        self.segs.note_fsync(LogType::HotData);
        self.segs.note_fsync(LogType::HotNode);
        phases.time(Phase::Checkpoint, |_| self.checkpoint(Reason::Sync))
    }

    fn sync_data(&self, ino: Ino) -> Result<Arc<Inode>> {
        self.make_room()?;
        stat::add(&self.stats.fsyncs, 1);
        let inode = self.inode(ino)?;
        if self.log().is_none() {
            self.segs.note_fsync(LogType::WarmNode);
        }
        let flushed = self.flush_for_sync(&inode);
        let failed_before = inode.write_error.swap(false, Ordering::AcqRel);
        flushed?;
        if failed_before {
            let source = std::io::Error::other("an earlier write of the file's data failed and was repeated");
            return Err(Error::Io { op: "write", at: ino.0.into(), source });
        }
        Ok(inode)
    }

    /// Makes the inode durable through the chain, or tells why only a checkpoint can.
    fn log_inode(&self, inode: &Arc<Inode>, phases: &mut Phases) -> Result<Option<CpReason>> {
        // Nobody gives this inode's data new places until it is done, so nothing unflushed gets under its mark.
        let _claim = phases.time(Phase::Node, |_| inode.flush.lock());
        if self.opts.fsync_mode != FsyncMode::Strict {
            if let Step::Checkpoint(why) = self.log_part(inode, Part::Marked { after: None }, phases)? {
                return Ok(Some(why));
            }
            return self.flush_logged(phases, || self.dev.flush_shared()).map(|()| None);
        }
        let epoch = match self.log_part(inode, Part::Unmarked, phases)? {
            Step::Checkpoint(why) => return Ok(Some(why)),
            Step::Done => return self.flush_logged(phases, || self.dev.flush_shared()).map(|()| None),
            Step::Logged { epoch } => epoch,
        };
        if planted(Bug::SkippedDataFlush) {
            self.log_part(inode, Part::Marked { after: Some(epoch) }, phases)?;
            return self.flush_logged(phases, || self.dev.flush_shared()).map(|()| None);
        }
        let more = self.flush_logged(phases, || self.dev.flush_before_more())?;
        if let Step::Checkpoint(why) = self.log_part(inode, Part::Marked { after: Some(epoch) }, phases)? {
            return Ok(Some(why));
        }
        self.flush_logged(phases, || more.map_or(Ok(()), |m| self.dev.flush_more(m))).map(|()| None)
    }

    /// Does a device flush, unless the mode goes without.
    fn flush_logged<R: Default>(&self, phases: &mut Phases, flush: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.opts.fsync_mode == FsyncMode::Nobarrier {
            return Ok(R::default());
        }
        // What the device lost is not known, so nothing may be built on it.
        phases.time(Phase::Flush, |_| flush()).inspect_err(|e| self.stop(e))
    }

    fn log_part(&self, inode: &Arc<Inode>, part: Part, phases: &mut Phases) -> Result<Step> {
        phases.time(Phase::Node, |phases| self.log_part_in_gate(inode, part, phases))
    }

    fn log_part_in_gate(&self, inode: &Arc<Inode>, part: Part, phases: &mut Phases) -> Result<Step> {
        let op = self.enter_for_chain()?;
        // Whoever logs nodes of this inode has written them when the lock is ours.
        let _chain = self.chain.lock();
        let second = match part {
            Part::Marked { after: Some(epoch) } if epoch != op.epoch() => return Ok(Step::Done),
            Part::Marked { after } => after.is_some(),
            Part::Unmarked => false,
        };
        if inode.is_gone() || !(second || self.has_changed(inode)) {
            return Ok(Step::Done);
        }
        let dent = match route(&self.facts(inode)?) {
            Route::Nothing => return Ok(Step::Done),
            Route::Checkpoint(why) => return Ok(Step::Checkpoint(why)),
            Route::Chain { dent } => dent && !planted(Bug::ForgottenDent),
        };
        let direct = self.dirty_direct(inode.ino, second, phases);
        let mut nodes: Vec<NodeWrite> =
            direct.into_iter().map(|frame| NodeWrite { frame, marks: Marks::default() }).collect();
        if part != Part::Unmarked {
            // The list does not hold it, and need not: it is written in any case.
            stat::add(&self.stats.fsync.searched, u64::from(self.fsync_lookup() != FsyncLookup::Global));
            nodes.push(NodeWrite { frame: inode.frame.clone(), marks: Marks { fsync: true, dent } });
        }
        match self.write_nodes(&op, LogType::WarmNode, &nodes) {
            Err(Error::NoSpace) => {
                self.since.break_chain();
                return Ok(Step::Checkpoint(CpReason::ChainBroken));
            }
            other => other.inspect_err(|e| self.stop(e))?,
        }
        stat::add(&self.stats.fsync.written, nodes.len() as u64);
        self.since.add_logged(nodes.len());
        if part == Part::Unmarked {
            return Ok(Step::Logged { epoch: op.epoch() });
        }
        if dent {
            self.since.entry_logged(inode.ino);
        }
        Ok(Step::Done)
    }

    /// Enters the gate while no checkpoint is on its way: what the chain then gets follows a checkpoint that stays.
    fn enter_for_chain(&self) -> Result<Op<'_>> {
        loop {
            let op = self.gate.enter();
            if !self.under_way.is_on() {
                // It may have failed.
                return self.check_running().map(|()| op);
            }
            drop(op);
            self.under_way.wait();
        }
    }

    /// Whether anything of the inode is newer than what was written last. All that is clean was written by a checkpoint
    /// or under a mark: nothing else writes nodes.
    fn has_changed(&self, inode: &Inode) -> bool {
        if inode.get(RawInode::is_reg) {
            inode.frame.state() == State::Changed || self.nodes.dirty.has_direct(inode.ino)
        } else {
            inode.pages.lock().dirty() > 0 || self.nodes.dirty.has_changed(inode.ino)
        }
    }

    fn facts(&self, inode: &Inode) -> Result<Facts> {
        let (regular, compressed, links, advise, parent) =
            inode.get(|i| (i.is_reg(), i.is_compressed(), i.i_links.get(), i.advise(), Nid(i.i_pino.get())));
        let since = &self.since;
        let in_checkpoint = self.nat.get(inode.ino)?.in_checkpoint;
        let entry_logged = since.is_entry_logged(inode.ino);
        // Names are looked at only for inodes that replay would have to name.
        let is_new = !in_checkpoint && !entry_logged;
        Ok(Facts {
            regular,
            compressed,
            links,
            in_checkpoint,
            entry_logged,
            renamed: since.is_renamed(inode.ino),
            node_freed: since.is_node_freed(inode.ino),
            lost_pino: advise.contains(Advise::LOST_PINO),
            parent_in_checkpoint: self.geo.nid_ok(parent) && self.nat.get(parent)?.in_checkpoint,
            parent_changed: since.is_dir_changed(parent),
            name_vacated: is_new && self.is_name_vacated(inode, parent),
            dir_renamed: since.has_dir_renamed(),
            unlinked: since.is_unlinked(inode.ino),
            strict: self.opts.fsync_mode == FsyncMode::Strict,
            room: self.counts.room_to_roll_forward(),
            chain_whole: !since.is_chain_broken(),
        })
    }

    /// Whether the inode's name had another owner since the last checkpoint. Whether the directory folds case is not asked:
    /// a hash too many costs a checkpoint at most.
    fn is_name_vacated(&self, inode: &Inode, parent: Ino) -> bool {
        let vacated = |hash| self.since.is_name_vacated(parent, hash);
        inode.get(|i| {
            let folds = self.features.contains(Features::CASEFOLD);
            vacated(name_hash(i.name())) || (folds && vacated(casefolded_name_hash(i.name())))
        })
    }
}
