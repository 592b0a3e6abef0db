//! Replaying the journal onto the state of the checkpoint: the engine's own operations, by inode number, with the block
//! addresses that the records give. Tables, counters, quota and orphans follow from that.
//!
//! Nothing is written to blocks that the checkpoint or a record names: the segments of both are held, and every log has
//! moved to another one. Replay ends with a checkpoint; a crash before it is durable only means starting over.
mod attr;
mod data;
mod names;

use super::log::InodeLog;
use super::recorder::creates;
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::stat;
use crate::volume::Volume;
use segno_format::{BlockAddr, Corrupt, Ino, SegNo, Structure};
use segno_journal::{Record, Replay, Section};
use std::collections::{BTreeMap, BTreeSet, HashSet};
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

    /// Reads all that counts, for each inode what it comes to: replay ends in one checkpoint, so that as within an epoch
    /// only the end matters, and an inode that came and went leaves nothing. Takes the segments of mapped blocks, so that
    /// replay does not use them for its own.
    fn read_logged(&self, replay: &Replay) -> Result<Vec<Section>> {
        let mut logs: BTreeMap<Ino, InodeLog> = BTreeMap::new();
        let mut named: HashSet<BlockAddr> = HashSet::new();
        let mut segs: BTreeSet<SegNo> = BTreeSet::new();
        for group in replay.groups() {
            for section in group?.sections {
                for record in &section.records {
                    let Record::Map(map) = record else { continue };
                    for addr in map.runs.iter().flat_map(|r| (0..r.count).map(|i| r.addr.offset(i))) {
                        let (seg, _) = self.geo.seg_of(addr).ok_or_else(|| {
                            misfit(section.ino, "block outside the main area", addr.0.into())
                        })?;
                        if self.segs.is_valid(addr) || !named.insert(addr) {
                            return Err(misfit(section.ino, "block is in use already", addr.0.into()));
                        }
                        segs.insert(seg);
                    }
                }
                if creates(&section) && logs.contains_key(&section.ino) {
                    return Err(misfit(section.ino, "a new inode was there before", section.epoch));
                }
                let log = logs.entry(section.ino).or_default();
                section.records.into_iter().for_each(|record| log.fold(record));
            }
        }
        self.segs.with_table(|t| segs.into_iter().for_each(|seg| t.hold_all(seg)));
        let epoch = replay.last_epoch();
        let section = |(ino, log): (Ino, InodeLog)| Section { ino, epoch, records: log.into_records() };
        Ok(logs.into_iter().map(section).filter(|s| !s.records.is_empty()).collect())
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
