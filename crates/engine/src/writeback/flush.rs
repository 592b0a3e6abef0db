//! Flushing dirty pages: of one file, of all files, of directories.
use super::Writeback;
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::files::{Batch, FlushReason};
use crate::health::invariant;
use crate::room::{Grant, Rule};
use segno_clean::need::Request;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Files per batch.
const GROUP: usize = 256;
/// Maximum rounds of flushing directory blocks before a boundary.
const EARLY_ROUNDS: u32 = 4;
const FEW: u64 = 64;
/// How long aged data yields to fsyncs per batch, which guarantees about 50 MiB/s of writeback.
const FSYNC_YIELD: Duration = Duration::from_millis(5);

impl Writeback {
    /// Flushes the dirty pages in a block range of a file. Returns their number. The caller holds no lock of the rank
    /// of the flush lock or above.
    ///
    /// Only checkpoints write directories: a checkpoint in between would miss blocks in flight here.
    pub(crate) fn flush_inode(&self, inode: &Arc<Inode>, range: Range<u64>) -> Result<u64> {
        self.flush_one(inode, range, FlushReason::Wanted)
    }

    /// Flushes a file ahead of a device flush, which makes the data durable.
    pub(crate) fn flush_for_sync(&self, inode: &Arc<Inode>) -> Result<u64> {
        self.flush_one(inode, 0..u64::MAX, FlushReason::Synced)
    }

    fn flush_one(&self, inode: &Arc<Inode>, range: Range<u64>, why: FlushReason) -> Result<u64> {
        if inode.is_dir() {
            return Ok(0);
        }
        self.flush_batches(inode, range, u32::MAX, why).map(|(_, total)| total)
    }

    /// Writes batches of a file in one pass: a page that becomes dirty again after the pass wrote it waits
    /// for the next flush. Returns where the next batch begins, and how many pages were written.
    fn flush_batches(
        &self,
        inode: &Arc<Inode>,
        range: Range<u64>,
        batches: u32,
        why: FlushReason,
    ) -> Result<(Option<u64>, u64)> {
        let (mut next, mut total) = (Some(range.start), 0);
        for _ in 0..batches {
            let Some(at) = next else { break };
            let inodes = std::slice::from_ref(inode);
            let (behind, written) = self.flush_batch_or_clean(inodes, at..range.end, why)?;
            (next, total) = (behind, total + written);
        }
        Ok((next, total))
    }

    /// Flushes up to `batches` batches of a file, starting where the last call stopped.
    pub(crate) fn flush_quantum(&self, inode: &Arc<Inode>, batches: u32, why: FlushReason) -> Result<u64> {
        let at = inode.cursor.load(Ordering::Relaxed);
        let (next, total) = self.flush_batches(inode, at..u64::MAX, batches, why)?;
        inode.cursor.store(next.unwrap_or(0), Ordering::Relaxed);
        Ok(total)
    }

    /// Without room for the pages, streams release their segments and sections are cleaned.
    fn flush_batch_or_clean(
        &self,
        inodes: &[Arc<Inode>],
        range: Range<u64>,
        why: FlushReason,
    ) -> Result<(Option<u64>, u64)> {
        self.yield_to_fsyncs(why);
        let request = Request::batch(self.files.batch_most(inodes, why));
        let granted = self.grant(request)?;
        match self.flush_batch(inodes, range.clone(), why, granted) {
            Err(Error::NoSpace) => {
                self.make_space(Request::default())?;
                self.flush_batch(inodes, range, why, self.files.room.grant_anyway(request))
            }
            other => other,
        }
    }

    /// Grants a batch, after cleaning where there is too little room. The caller holds no lock.
    pub(super) fn grant(&self, request: Request) -> Result<Grant<'_>> {
        let granted = self.grant_or_clean(request, || self.files.room.grant(request))?;
        // Cleaning gains nothing any more: the batch uses sections kept for cleaning and recovery.
        Ok(granted.unwrap_or_else(|| self.files.room.grant_anyway(request)))
    }

    /// Repeats `ask` with cleaning in between until it grants the request, or refuses it when cleaning gains
    /// nothing any more. The caller holds no lock and no grant.
    pub(super) fn grant_or_clean<'a>(
        &self,
        request: Request,
        ask: impl Fn() -> Option<Grant<'a>>,
    ) -> Result<Option<Grant<'a>>> {
        if self.files.room.rule == Rule::Paced {
            self.keep_room()?;
        }
        loop {
            if let Some(granted) = ask() {
                return Ok(Some(granted));
            }
            if !self.make_space(request)? {
                return Ok(ask());
            }
        }
    }

    /// Flushes all pages that are dirty now, and waits for pages in flight. Writeback threads help. An error of one
    /// file does not stop the others; the first error is returned.
    pub fn flush_all_data(&self) -> Result<()> {
        let _expedited = self.threads.expedite();
        self.wake_all();
        self.flush_contexts(FlushReason::Wanted)
    }

    /// Flushes aged data in small batches on the calling thread. No operation waits for it.
    pub(crate) fn flush_aged_data(&self) -> Result<()> {
        self.flush_contexts(FlushReason::Aged)
    }

    fn flush_contexts(&self, why: FlushReason) -> Result<()> {
        let mut failed = None;
        for (_, files) in self.contexts.all() {
            failed = failed.or(self.flush_files(files, why).err());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Unless memory is short, waiting fsyncs take priority over aged data. The caller holds no lock.
    fn yield_to_fsyncs(&self, why: FlushReason) {
        if why == FlushReason::Aged && self.base.mem.dirty_data.get() <= self.background_limit() {
            self.fsyncs.wait_for_fsyncs(FSYNC_YIELD);
        }
    }

    fn flush_files(&self, files: Vec<Arc<Inode>>, why: FlushReason) -> Result<()> {
        let mut failed = None;
        let mut group: Vec<Arc<Inode>> = Vec::new();
        let mut pages = 0;
        for inode in files {
            let own = inode.pages.lock().dirty();
            if pages + own > why.most() || group.len() == GROUP {
                failed = failed.or(self.flush_group(&group, why).err());
                group.clear();
                pages = 0;
            }
            group.push(inode);
            pages += own;
        }
        failed.or(self.flush_group(&group, why).err()).map_or(Ok(()), Err)
    }

    /// Flushes small files in one batch, so that they share writes.
    pub(crate) fn flush_group(&self, group: &[Arc<Inode>], why: FlushReason) -> Result<()> {
        let one_by_one = || {
            let one = |i| self.flush_one(i, 0..u64::MAX, why).err();
            group.iter().fold(None, |failed, i| failed.or(one(i))).map_or(Ok(()), Err)
        };
        match group {
            [] => Ok(()),
            [_] => one_by_one(),
            many => {
                self.yield_to_fsyncs(why);
                let granted = self.grant(Request::batch(self.files.batch_most(many, why)))?;
                match self.flush_batch(many, 0..u64::MAX, why, granted) {
                    Ok((None, _)) => Ok(()),
                    Err(e @ Error::Invariant(_)) => Err(e),
                    // The files grew since they were counted, or one of them fails.
                    Ok((Some(_), _)) | Err(_) => one_by_one(),
                }
            }
        }
    }

    /// Flushes dirty directory blocks so that few are left for the checkpoint to place. Stops after a few
    /// rounds, as writers may be as fast, and leaves failures to the checkpoint. Only the thread about to
    /// draw a boundary may call this: no directory block may be in flight then.
    pub(crate) fn flush_directories_early(&self) {
        for _ in 0..EARLY_ROUNDS {
            for dir in self.files.inodes.dirty_dirs() {
                let mut next = Some(0);
                while let Some(at) = next {
                    let (why, inodes) = (FlushReason::Wanted, std::slice::from_ref(&dir));
                    let most = self.files.batch_most(inodes, why);
                    let granted = self.files.room.grant_anyway(Request::batch(most));
                    let flushed = self.flush_batch(inodes, at..u64::MAX, why, granted);
                    next = flushed.map_or(None, |(next, _)| next);
                }
            }
            if self.base.mem.dirty_dents.get() <= FEW {
                return;
            }
        }
    }

    /// Writes one batch in ascending order. Returns the number of pages, and where to continue if there may be more.
    pub(super) fn flush_batch(
        &self,
        inodes: &[Arc<Inode>],
        range: Range<u64>,
        why: FlushReason,
        granted: Grant<'_>,
    ) -> Result<(Option<u64>, u64)> {
        let mut batch = Batch::new(self.base.next_serial(), why);
        // Several locks of one rank are taken in ascending inode order.
        let ascends = inodes.is_sorted_by(|a, b| a.ino < b.ino);
        invariant!(self.base.health, ascends, "flush locks taken out of order");
        let _locks: Vec<_> = inodes.iter().map(|i| i.flush.lock()).collect();
        let taken = self.files.take_all(inodes, range, &mut batch);
        let (next, placed) = taken
            .and_then(|next| {
                self.route(&mut batch);
                self.files.pack_batch(&mut batch);
                self.files.write_batch(&mut batch).map(|placed| (next, placed))
            })
            .inspect_err(|e| self.files.give_back(&batch, e))?;
        let _nodes = granted.placed();
        // Only written blocks get into slots: a checkpoint may take the slots as soon as they are set.
        self.files.publish_written(&mut batch, placed)?;
        inodes.iter().for_each(|i| self.settle(i));
        self.waiters.notify(batch.len() as u64);
        Ok((next, batch.len() as u64))
    }
}
