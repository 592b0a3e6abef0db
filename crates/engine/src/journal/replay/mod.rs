//! Replaying the journal onto the state of the checkpoint: the engine's own operations, by inode number, with the block
//! addresses that the records give. Tables, counters, quota and orphans follow from that.
//!
//! Nothing is written to blocks that the checkpoint or a record names: the segments of both are held, and every log has
//! moved to another one. Replay ends with a checkpoint; a crash before it is durable only means starting over.
mod attr;
mod data;
mod names;
mod read;

use super::recorder::creates;
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::stat;
use crate::volume::Volume;
use segno_format::{BlockAddr, Corrupt, Ino, Structure};
use segno_journal::{Record, Replay, Section};
use std::sync::Arc;

/// A record that does not fit the state it is replayed on.
fn misfit(ino: Ino, why: &'static str, found: u64) -> Error {
    Corrupt::nid(Structure::Journal, ino.0, why, found, 0).into()
}

impl Volume {
    /// Replays what the journal holds behind the checkpoint. Returns whether it held anything.
    pub(crate) fn replay_journal(&self, replay: &Replay) -> Result<bool> {
        if replay.accepted().is_empty() {
            return Ok(false);
        }
        let sections = self.read_logged(replay)?;
        sections.iter().filter(|s| creates(s)).try_for_each(|s| self.claim_ino(s.ino))?;
        self.segs.renew_logs()?;
        // What is freed later in an epoch may have made room for what comes first here.
        self.counts.lift_limit(true);
        let done = self.replay_sections(&sections);
        self.counts.lift_limit(false);
        done.map(|()| true)
    }

    fn claim_ino(&self, ino: Ino) -> Result<()> {
        if !self.geo.nid_ok(ino) || self.nat.get(ino)?.addr != BlockAddr::NULL {
            return Err(misfit(ino, "number of a new inode is in use or out of range", ino.0.into()));
        }
        self.nat.claim(ino, ino);
        Ok(())
    }

    /// What comes into being first, what goes last; between them inodes do not depend on each other.
    fn replay_sections(&self, sections: &[Section]) -> Result<()> {
        for section in sections {
            for record in &section.records {
                if let Record::InodeNew(new) = record {
                    let inode = self.make_logged(&self.gate.enter(), section.ino, new)?;
                    self.note_links(&inode);
                }
            }
        }
        sections.iter().try_for_each(|s| self.replay_section(s))?;
        for section in sections {
            if section.records.contains(&Record::InodeFree) {
                self.free_orphan(section.ino)?;
            }
        }
        stat::add(&self.stats.journal_replayed, sections.len() as u64);
        Ok(())
    }

    fn replay_section(&self, section: &Section) -> Result<()> {
        if section.records.contains(&Record::InodeFree) {
            return Ok(());
        }
        let inode = match self.inode(section.ino) {
            Err(Error::NotFound) => {
                return Err(misfit(section.ino, "records of an inode that is not there", 0));
            }
            other => other?,
        };
        let _lock = inode.lock.write();
        let op = self.gate.enter();
        section.records.iter().try_for_each(|record| self.replay_record(&op, &inode, record))?;
        self.replay_xattrs(&op, &inode, &section.records)
    }

    fn replay_record(&self, op: &Op<'_>, inode: &Arc<Inode>, record: &Record) -> Result<()> {
        match record {
            Record::InodeNew(_) | Record::InodeFree | Record::XattrSet { .. } | Record::XattrDel { .. } => {
                Ok(())
            }
            Record::Attr(attr) => self.replay_attr(op, inode, attr),
            Record::DirTouch(time) => self.replay_touch(op, inode, *time),
            Record::Nlink(delta) => self.replay_links(op, inode, *delta),
            Record::DentryAdd { ino, file_type, hash, name, .. } => {
                self.replay_name_added(op, inode, (name, *hash), (*ino, *file_type))
            }
            Record::DentryDel { ino, hash, name } => self.replay_name_gone(op, inode, (name, *hash), *ino),
            Record::DentrySet { old, new, file_type, hash, name, .. } => {
                self.replay_name_set(op, inode, (name, *hash), *old, (*new, *file_type))
            }
            Record::DotDot { parent } => self.dir_set_parent(op, inode, *parent),
            Record::Map(map) => self.replay_map(op, inode, map),
            Record::Reserve { page, count } => {
                self.replay_reserve(op, inode, *page..page.saturating_add(*count))
            }
            Record::Unmap { page, count } => self.replay_unmap(op, inode, *page..page.saturating_add(*count)),
            Record::Truncate { size } => self.replay_truncate(op, inode, *size),
            Record::InlineData { offset, bytes } => self.replay_inline(op, inode, *offset, bytes),
            Record::InlineOff => self.replay_inline_off(op, inode),
            Record::Collapse { .. } | Record::Insert { .. } => {
                Err(misfit(inode.ino, "a kind of record that this version does not write", 0))
            }
        }
    }
}
