//! Replay of the journal onto the state of the checkpoint, by the engine's own operations on inode numbers, with the
//! block addresses of the records. Tables, counters, quota and orphans follow from these operations.
//!
//! Blocks that the checkpoint or a record names are never overwritten: the segments with blocks of records are held, and no log
//! stays in one. Replay ends with a checkpoint; a crash before it is durable repeats the replay.
mod attr;
mod compress;
mod data;
mod names;
mod read;

use crate::error::{Error, Result};
use crate::files::Inode;
use crate::recovery::Recovery;
use crate::space::CrashedLogs;
use crate::stat;
use crate::transaction::{Op, creates};
use segno_format::{BlockAddr, Corrupt, Ino, Structure};
use segno_journal::record::Attr;
use segno_journal::{Record, Replay, Section};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A record that does not match the state it is applied to.
fn misfit(ino: Ino, why: &'static str, found: u64) -> Error {
    Corrupt::nid(Structure::Journal, ino.0, why, found, 0).into()
}

impl Recovery<'_> {
    /// Replays the journal's epochs after the checkpoint. Returns whether there were any.
    pub fn replay_journal(&self, replay: &Replay) -> Result<bool> {
        if replay.accepted().is_empty() {
            return Ok(false);
        }
        let (sections, data) = self.read_logged(replay)?;
        // The numbers of all new inodes are marked as used before the first node is made, which could otherwise get
        // one of them.
        sections.iter().filter(|s| creates(s)).try_for_each(|s| self.mark_ino_used(s.ino))?;
        if self.base.dev.is_zoned() {
            self.position_logs(&CrashedLogs { replay: true, nodes: BTreeSet::new(), data })?;
        } else {
            self.files.space.leave_held_segments()?;
        }
        // Space may exceed the limit temporarily: replay is not in the original order, and frees come late.
        self.files.space.counts.lift_limit(true);
        let done = self.replay_sections(&sections);
        self.files.space.counts.lift_limit(false);
        done.map(|()| true)
    }

    fn mark_ino_used(&self, ino: Ino) -> Result<()> {
        if !self.base.geo.nid_ok(ino) || self.files.nodes.nat.get(ino.nid())?.addr != BlockAddr::NULL {
            return Err(misfit(ino, "number of a new inode is in use or out of range", ino.0.into()));
        }
        self.files.nodes.nat.mark_used(ino);
        Ok(())
    }

    /// Creates first and deletes last; in between, inodes are independent of each other.
    fn replay_sections(&self, sections: &[Section]) -> Result<()> {
        for section in sections {
            for record in &section.records {
                if let Record::InodeNew(new) = record {
                    let inode = self.names.make_logged(&self.base.tx.begin(), section.ino, new)?;
                    self.note_links(&inode);
                }
            }
        }
        sections.iter().try_for_each(|s| self.replay_section(s))?;
        for section in sections {
            if section.records.contains(&Record::InodeFree) {
                self.names.free_orphan(section.ino)?;
            }
        }
        stat::add(&self.base.stats.journal_replayed, sections.len() as u64);
        Ok(())
    }

    fn replay_section(&self, section: &Section) -> Result<()> {
        if section.records.contains(&Record::InodeFree) {
            return Ok(());
        }
        let inode = match self.files.inode(section.ino) {
            Err(Error::NotFound) => {
                return Err(misfit(section.ino, "records of an inode that does not exist", 0));
            }
            other => other?,
        };
        let _lock = inode.lock.write();
        let op = self.base.tx.begin();
        section.records.iter().try_for_each(|record| self.replay_record(&op, &inode, record))?;
        self.replay_xattrs(&op, &inode, &section.records)
    }

    fn replay_record(&self, op: &Op<'_>, inode: &Arc<Inode>, record: &Record) -> Result<()> {
        match record {
            Record::InodeNew(_) | Record::InodeFree | Record::XattrSet { .. } | Record::XattrDel { .. } => {
                Ok(())
            }
            Record::Attr(attr) => self.replay_attr(op, inode, attr),
            Record::DirTouch(time) => self.replay_attr(op, inode, &Attr::touch(*time)),
            Record::Nlink(delta) => self.replay_links(op, inode, *delta),
            Record::DentryAdd { ino, file_type, hash, name, .. } => {
                self.replay_name_added(op, inode, (name, *hash), (*ino, *file_type))
            }
            Record::DentryDel { ino, hash, name } => {
                self.names.dirs.remove(op, inode, &self.logged_entry(inode, (name, *hash), *ino)?)
            }
            Record::DentrySet { old, new, file_type, hash, name, .. } => {
                self.replay_name_set(op, inode, (name, *hash), *old, (*new, *file_type))
            }
            Record::DotDot { parent } => self.names.dirs.set_parent(op, inode, *parent),
            Record::Map(mapping) => self.replay_map(op, inode, mapping),
            Record::Packed(mapping) => self.replay_clusters(op, inode, mapping),
            Record::Compression(how) => self.replay_compression(op, inode, *how),
            Record::Released(released) => self.replay_released(op, inode, *released),
            Record::Reserve { page, count } => {
                self.replay_reserve(op, inode, *page..page.saturating_add(*count))
            }
            Record::Unmap { page, count } => self.replay_unmap(op, inode, *page..page.saturating_add(*count)),
            Record::Truncate { size } => self.replay_truncate(op, inode, *size),
            Record::InlineData { offset, bytes } => self.replay_inline(op, inode, *offset, bytes),
            Record::InlineOff => self.replay_inline_off(op, inode),
            Record::Collapse { .. } | Record::Insert { .. } => {
                Err(misfit(inode.ino, "a kind of record unknown to this version", 0))
            }
        }
    }
}
