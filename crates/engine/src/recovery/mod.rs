//! What a mount does after a crash: replaying the roll-forward chain, freeing orphans, mending a superblock copy.
//!
//! Nothing of the crashed state is overwritten before the closing checkpoint: the segments of the chain and of the data
//! it names are held, and every log has moved to another segment, or, where sections are written in order, goes on behind
//! what was written. So a cut during recovery only makes it start over.
//!
//! Every writable mount begins a checkpoint version of its own, also where nothing is to be replayed. A crash may have
//! left blocks of the version in force behind a gap in its chain; a mount that went on with that version could fill the
//! gap, and they would be taken for its own.
mod chain;
mod create;
mod entry;
mod inode;
mod plan;
mod slots;
mod superblock;

use crate::checkpoint::Reason;
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::journal::Found;
use crate::segment::LeftBehind;
use crate::volume::Volume;
use chain::{Link, broken};
use plan::{Target, plan};
use segno_format::inode::RawInode;
use segno_format::node::{NodeKind, kind_of_offset};
use segno_format::{Block, BlockAddr, Features, Ino};
use std::collections::BTreeSet;
use std::sync::Arc;

const NO_RECOVERY: &str = "norecovery without ro, and a crash has left fsynced data to recover";

impl Volume {
    /// Brings the volume from the state that the mount found to the one that was promised.
    pub(crate) fn recover(&self) -> Result<()> {
        if self.opts.read_only && (self.opts.norecovery || self.features.contains(Features::RO)) {
            return Ok(());
        }
        let chain = self.read_chain()?;
        let found = self.find_journal(chain.iter().any(|link| link.fsync))?;
        if let Found::Usable(replay) = &found
            && !replay.accepted().is_empty()
        {
            return self.recover_journal(found);
        }
        let targets = plan(&chain, |ino| Ok(self.exists(ino)? && !self.since.is_orphan(ino)))?;
        if self.opts.read_only {
            return if targets.is_empty() { Ok(()) } else { Err(Error::NeedsRecovery) };
        }
        if self.opts.norecovery && !targets.is_empty() {
            return Err(Error::Invalid(NO_RECOVERY));
        }
        self.mend_superblock()?;
        let left =
            if targets.is_empty() { LeftBehind::default() } else { self.segments_in_use(&chain, &targets)? };
        self.settle_logs(&left)?;
        self.replay(&chain, &targets)?;
        self.start_journal(found)?;
        self.checkpoint(Reason::Recovery)?;
        self.guard_journal()?;
        self.free_orphans()
    }

    /// The same by the journal, which holds all that the chain would and more.
    fn recover_journal(&self, found: Found) -> Result<()> {
        if self.opts.read_only {
            return Err(Error::NeedsRecovery);
        }
        if self.opts.norecovery {
            return Err(Error::Invalid(NO_RECOVERY));
        }
        self.mend_superblock()?;
        if let Found::Usable(replay) = &found {
            self.replay_journal(replay)?;
        }
        self.start_journal(found)?;
        self.checkpoint(Reason::Recovery)?;
        self.leave_unwanted_journal()?;
        self.guard_journal()?;
        self.free_orphans()
    }

    /// Keeps what was found as it is, and puts the logs where they write nothing over it.
    fn settle_logs(&self, left: &LeftBehind) -> Result<()> {
        self.segs.with_table(|t| left.nodes.union(&left.data).for_each(|&seg| t.hold_all(seg)));
        if self.dev.is_zoned() {
            self.segs.go_on(left)?;
            self.segs.tidy_zones()
        } else if left.replay {
            self.segs.renew_logs()
        } else {
            Ok(())
        }
    }

    fn replay(&self, chain: &[Link], targets: &[Target]) -> Result<()> {
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
    fn segments_in_use(&self, chain: &[Link], targets: &[Target]) -> Result<LeftBehind> {
        let seg_of = |addr| self.geo.seg_of(addr).map(|(seg, _)| seg);
        let nodes = chain.iter().filter_map(|l| seg_of(l.addr)).collect();
        let mut data = BTreeSet::new();
        for link in targets.iter().flat_map(|t| &t.nodes) {
            let block = self.dev.read(link.addr)?;
            data.extend(self.logged_slots(link, &block)?.into_iter().filter_map(seg_of));
        }
        Ok(LeftBehind { replay: true, nodes, data })
    }

    fn replay_inode(&self, target: &Target) -> Result<()> {
        let inode = self.inode(target.ino)?;
        let _lock = inode.lock.write();
        let op = self.gate.enter();
        if !inode.get(RawInode::is_reg) || inode.get(RawInode::is_compressed) {
            let at = target.nodes.first().map_or(BlockAddr::NULL, |n| n.addr);
            return Err(broken(at, "only plain regular files are logged", target.ino.0.into(), 0).into());
        }
        let Some(own) = target.nodes.iter().position(Link::is_inode) else {
            self.replay_nodes(&op, &inode, &target.nodes)?;
            return self.grow_to_blocks(&op, &inode, &target.nodes);
        };
        // First, as it tells whether there are slots, and an xattr node, at all.
        let (before, after) = target.nodes.split_at(own);
        let Some((own, after)) = after.split_first() else { return Ok(()) };
        let block = self.dev.read(own.addr)?;
        self.replay_node(&op, &inode, own, &block)?;
        let logged: &RawInode = block.view();
        let alive: Vec<Link> = before.iter().copied().filter(|link| link.belongs_to(logged)).collect();
        self.replay_nodes(&op, &inode, &alive)?;
        self.replay_nodes(&op, &inode, after)?;
        self.drop_tail(&op, &inode)
    }

    fn replay_nodes(&self, op: &Op<'_>, inode: &Arc<Inode>, links: &[Link]) -> Result<()> {
        for link in links {
            let block = self.dev.read(link.addr)?;
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
