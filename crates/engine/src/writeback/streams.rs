//! Choice of the stream for a file's pages.
use super::Writeback;
use crate::files::{Batch, Choice, FlushReason, Inode, Route};
use crate::health::invariant;
use crate::options::MOST_CONTEXTS;
use crate::space::Stream;
use segno_format::sit::LogType;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Spare free sections that are required: per log of all contexts, to give a file an exclusive stream and to
/// open a section for one; in total, to open a section for a shared stream.
const SPARE_TO_PROMOTE: u64 = 8;
const SPARE_TO_GO_ON: u64 = 4;
const SPARE_TO_SHARE: u64 = 12;
/// Upper bound on pages of a file that go to the synced stream in one flush (256 KiB).
const MAX_SYNCED: usize = 64;

impl Writeback {
    /// Whether a stream may open another section.
    pub(crate) fn may_open(&self, stream: &Stream) -> bool {
        let spare = self.files.room.spare_sections();
        if stream.exclusive {
            spare >= SPARE_TO_GO_ON * 3 * self.contexts.len()
        } else {
            spare >= SPARE_TO_SHARE
        }
    }

    /// Chooses the streams for a batch.
    pub(crate) fn route(&self, batch: &mut Batch) {
        let synced = batch.why == FlushReason::Synced;
        batch.route(|inode, log, pages| {
            let stream = self.stream_for(inode, log, pages, synced)?;
            Some(Route { may_open: self.may_open(&stream), stream })
        });
    }

    /// The stream for pages of a file; `None` means the log of their type. The caller holds the flush lock.
    fn stream_for(
        &self,
        inode: &Arc<Inode>,
        kind: LogType,
        pages: impl ExactSizeIterator<Item = u64>,
        synced: bool,
    ) -> Option<Arc<Stream>> {
        // Zones must be written in order, and few may be open at once.
        if inode.is_dir() || self.files.nodes.quota.owns(inode.ino) || self.base.dev.is_zoned() {
            return None;
        }
        let few = pages.len() <= MAX_SYNCED;
        match inode.sequence.next(pages) {
            Choice::Own(stream) => return Some(stream),
            Choice::Over(stream) => self.demote(&stream),
            Choice::Worth if self.may_promote() => return Some(self.promote(inode, kind)),
            Choice::Worth | Choice::Shared => {}
        }
        if synced
            && few
            && let Some(stream) = self.synced_stream(kind)
        {
            return Some(stream);
        }
        let context = self.contexts.context(inode.last_context.load(Ordering::Relaxed))?;
        context.stream(kind, &self.space)
    }

    /// The shared stream for small writes of fsyncs. Its segments are prepared, which pays off only without other
    /// writers.
    fn synced_stream(&self, kind: LogType) -> Option<Arc<Stream>> {
        if kind != LogType::WarmData {
            self.space.note_fsync(kind);
            return None;
        }
        let stream = self.contexts.synced.get(kind, &self.space);
        if !self.may_open(&stream) {
            self.space.note_fsync(kind);
            return None;
        }
        self.space.note_fsync_in(&stream);
        Some(stream)
    }

    fn may_promote(&self) -> bool {
        let n = self.contexts.len();
        let own = self.contexts.exclusive.lock().len() as u64;
        // Sections held open by streams stay a small part of the volume.
        let part = u64::from(self.base.geo.section_count) / 20;
        own < self
            .contexts
            .exclusive_most
            .min((4 * n).max(u64::from(MOST_CONTEXTS)))
            .min(part.saturating_sub(3 * n))
            && self.files.room.spare_sections() >= SPARE_TO_PROMOTE * (3 * n + own)
    }

    fn promote(&self, inode: &Arc<Inode>, kind: LogType) -> Arc<Stream> {
        let stream = self.space.new_stream(kind, true);
        let is_first = inode.sequence.promote(stream.clone());
        invariant!(self.base.health, is_first, "a file gets a second exclusive stream", else {});
        self.contexts.exclusive.lock().push((Arc::downgrade(inode), stream.clone()));
        self.contexts.promotions.fetch_add(1, Ordering::Relaxed);
        stream
    }

    /// Ends the streams of clean files that were idle for at least this long.
    pub(crate) fn end_idle_streams(&self, at_least: Duration) {
        let all = self.contexts.exclusive.lock().clone();
        for (file, stream) in all {
            match file.upgrade() {
                None => self.demote(&stream),
                Some(file) if file.pages.lock().dirty() > 0 => {}
                Some(file) => file.sequence.idle(at_least).iter().for_each(|s| self.demote(s)),
            }
        }
    }

    /// Forgets an inode about to be freed, which has no pages left: its number may soon name another file,
    /// which must not find the old inode on a list.
    pub(crate) fn forget(&self, inode: &Arc<Inode>) {
        let is_clean = inode.pages.lock().dirty() == 0;
        invariant!(self.base.health, is_clean, "a freed inode has dirty pages", else {});
        self.settle(inode);
        inode.sequence.idle(Duration::ZERO).iter().for_each(|s| self.demote(s));
    }

    pub(super) fn demote(&self, stream: &Arc<Stream>) {
        self.space.end_stream(stream);
        self.contexts.exclusive.lock().retain(|(_, s)| !Arc::ptr_eq(s, stream));
        self.contexts.demotions.fetch_add(1, Ordering::Relaxed);
    }
}
