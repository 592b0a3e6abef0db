//! Recovery at mount after a crash: roll-forward, journal replay, freeing orphans, repair of a superblock copy.
//!
//! The crashed state is not overwritten before the closing checkpoint: the segments of the chain and of the data that
//! it names are pinned, and every log has moved to another segment or, where sections are written in order, continues
//! past the last written block. So recovery can be repeated after a power cut.
//!
//! Every writable mount begins a new checkpoint version, even with nothing to replay. A crash may have left blocks of
//! the current version past a gap in its chain. If a mount continued with that version, it could fill the gap and a
//! later recovery would replay those blocks.
mod chain;
mod create;
mod entry;
mod inode;
mod journal;
mod plan;
mod slots;
mod superblock;

use crate::base::Base;
use crate::commit::{CheckpointReason, Commit, Found};
use crate::error::{Error, Result};
use crate::files::{Files, Inode};
use crate::names::Names;
use crate::notice::Notice;
use crate::space::CrashedLogs;
use crate::transaction::Op;
use chain::{Link, broken};
use plan::{Target, plan};
use segno_format::inode::RawInode;
use segno_format::node::{NodeKind, kind_of_offset};
use segno_format::{Block, BlockAddr, Features, Ino};
use std::collections::BTreeSet;
use std::sync::Arc;

const NO_RECOVERY: &str = "a crash has left fsynced data to recover: mount without disable_roll_forward to recover it, or with ro as well \
                           to see the volume without it";

/// State beyond the checkpoint, as a read-only mount finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    Nothing,
    Chain,
    /// A journal with that many bytes in use.
    Journal {
        bytes: u64,
    },
}

/// Recovery of one mount.
pub struct Recovery<'a> {
    base: &'a Base,
    files: &'a Files,
    names: &'a Names,
    commit: &'a Commit,
}

impl<'a> Recovery<'a> {
    pub fn new(names: &'a Names, commit: &'a Commit) -> Self {
        let files = &*names.files;
        Self { base: &files.base, files, names, commit }
    }
}

impl Recovery<'_> {
    /// Whether there is something to replay. Writes nothing.
    pub fn pending(&self) -> Result<Pending> {
        if self.base.opts.norecovery || self.base.features.contains(Features::RO) {
            return Ok(Pending::Nothing);
        }
        let chain = self.read_chain()?;
        match self.commit.find_journal(chain.iter().any(|link| link.fsync)) {
            Err(Error::JournalAhead(why)) => {
                self.base.opts.observer.notify(&Notice::JournalAhead(why));
                Ok(Pending::Nothing)
            }
            Ok(Found::Usable(replay)) if !replay.accepted().is_empty() => {
                Ok(Pending::Journal { bytes: replay.size().1 })
            }
            Ok(_) if self.targets(&chain)?.is_empty() => Ok(Pending::Nothing),
            Ok(_) => Ok(Pending::Chain),
            Err(e) => Err(e),
        }
    }

    fn targets(&self, chain: &[Link]) -> Result<Vec<Target>> {
        plan(chain, |ino| Ok(self.files.nodes.exists(ino)? && !self.files.nodes.since.is_orphan(ino)))
    }

    /// Brings the volume of a writable mount from the state found to the last durable state. Returns whether
    /// these differ.
    pub fn run(&self) -> Result<bool> {
        let chain = self.read_chain()?;
        let found = self.commit.find_journal(chain.iter().any(|link| link.fsync))?;
        if let Found::Usable(replay) = &found
            && !replay.accepted().is_empty()
        {
            self.recover_journal(found)?;
            return Ok(true);
        }
        let targets = self.targets(&chain)?;
        if self.base.opts.norecovery && !targets.is_empty() {
            return Err(Error::Invalid(NO_RECOVERY));
        }
        self.begin_writing(&found)?;
        let crashed =
            if targets.is_empty() { CrashedLogs::default() } else { self.segments_in_use(&chain, &targets)? };
        // Restartable: before the first write the logs leave the segments that the crashed state needs, and
        // the chain stays valid until the closing checkpoint is durable, since all nodes written from here on
        // go elsewhere.
        self.position_logs(&crashed)?;
        self.replay(&chain, &targets)?;
        self.commit.start_journal(found)?;
        self.commit.guard_journal()?;
        self.commit.checkpoint(CheckpointReason::Recovery)?;
        self.commit.end_old_guard()?;
        self.names.free_orphans()?;
        Ok(!targets.is_empty())
    }

    /// Recovers from the journal, whose records include everything that the chain would have.
    fn recover_journal(&self, found: Found) -> Result<()> {
        if self.base.opts.norecovery {
            return Err(Error::Invalid(NO_RECOVERY));
        }
        self.begin_writing(&found)?;
        if let Found::Usable(replay) = &found {
            self.replay_journal(replay)?;
        }
        self.commit.start_journal(found)?;
        self.commit.guard_journal()?;
        self.commit.checkpoint(CheckpointReason::Recovery)?;
        self.commit.leave_unwanted_journal()?;
        self.commit.end_old_guard()?;
        self.names.free_orphans()
    }

    /// Runs before the first write. The canaries and stamps that show a foreign write must stay until the
    /// closing checkpoint is durable.
    fn begin_writing(&self, found: &Found) -> Result<()> {
        if let Found::Usable(replay) = found {
            self.base.dev.stamp_zones(replay.stamp());
            self.files.space.keep_canaries();
        }
        self.repair_superblock()
    }

    /// Pins the segments in use, and moves the logs away from them.
    pub(super) fn position_logs(&self, crashed: &CrashedLogs) -> Result<()> {
        self.files.space.with_table(|t| crashed.nodes.union(&crashed.data).for_each(|&seg| t.hold_all(seg)));
        if self.base.dev.is_zoned() {
            self.files.space.resume_logs(crashed)?;
            self.files.space.close_idle_zones()
        } else if crashed.replay {
            self.files.space.renew_logs()
        } else {
            Ok(())
        }
    }

    fn replay(&self, chain: &[Link], targets: &[Target]) -> Result<()> {
        // Inodes before their content, and names last: a name never leads to a missing inode.
        for target in targets {
            if let Some(at) = target.create_from {
                self.create_logged(target.ino, at)?;
            }
        }
        for target in targets {
            self.replay_inode(target)?;
        }
        let mut entries: Vec<(BlockAddr, Ino)> = Vec::new();
        for link in chain {
            entries
                .extend(targets.iter().filter(|t| t.entry_at == Some(link.addr)).map(|t| (link.addr, t.ino)));
        }
        entries.into_iter().try_for_each(|(at, ino)| self.replay_entry(ino, at))
    }

    /// Segments of the chain and of all blocks that its nodes name.
    fn segments_in_use(&self, chain: &[Link], targets: &[Target]) -> Result<CrashedLogs> {
        let seg_of = |addr| self.base.geo.seg_of(addr).map(|(seg, _)| seg);
        let nodes = chain.iter().filter_map(|l| seg_of(l.addr)).collect();
        let mut data = BTreeSet::new();
        for link in targets.iter().flat_map(|t| &t.nodes) {
            let block = self.base.dev.read(link.addr)?;
            data.extend(self.logged_slots(link, &block)?.into_iter().filter_map(seg_of));
        }
        Ok(CrashedLogs { replay: true, nodes, data })
    }

    fn replay_inode(&self, target: &Target) -> Result<()> {
        let inode = self.files.inode(target.ino)?;
        let _lock = inode.lock.write();
        let op = self.base.tx.begin();
        if !inode.get(RawInode::is_reg) || inode.get(RawInode::is_compressed) {
            let at = target.nodes.first().map_or(BlockAddr::NULL, |n| n.addr);
            return Err(broken(at, "only plain regular files are logged", target.ino.0.into(), 0).into());
        }
        let Some((at, own)) = target.nodes.iter().enumerate().find(|(_, link)| link.is_inode()) else {
            self.replay_nodes(&op, &inode, &target.nodes)?;
            return self.grow_to_blocks(&op, &inode, &target.nodes);
        };
        // The inode block first: it determines whether there are slots and an xattr node.
        let block = self.base.dev.read(own.addr)?;
        self.replay_node(&op, &inode, own, &block)?;
        let logged: &RawInode = block.view();
        let alive: Vec<Link> =
            target.nodes.iter().take(at).copied().filter(|link| link.belongs_to(logged)).collect();
        self.replay_nodes(&op, &inode, &alive)?;
        self.replay_nodes(&op, &inode, target.nodes.get(at + 1..).unwrap_or_default())?;
        self.drop_tail(&op, &inode)
    }

    fn replay_nodes(&self, op: &Op<'_>, inode: &Arc<Inode>, links: &[Link]) -> Result<()> {
        for link in links {
            let block = self.base.dev.read(link.addr)?;
            self.replay_node(op, inode, link, &block)?;
        }
        Ok(())
    }

    fn replay_node(&self, op: &Op<'_>, inode: &Arc<Inode>, link: &Link, block: &Block) -> Result<()> {
        match kind_of_offset(link.node_offset) {
            Some(NodeKind::Inode) => self.replay_inode_block(op, inode, link, block),
            Some(NodeKind::Xattr) => self.replay_xattr_node(op, inode, block),
            Some(NodeKind::Direct { .. }) => self.replay_direct(op, inode, link, block),
            Some(NodeKind::Indirect) | None => {
                Err(broken(link.addr, "node offset of no direct node", link.node_offset.into(), 0).into())
            }
        }
    }
}
