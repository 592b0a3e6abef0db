//! Writing dirty pages out: of one file, of all files, of directories.
use super::batch::{Batch, Reason};
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::inode::Inode;
use crate::volume::Volume;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Files in a batch.
const GROUP: usize = 256;
/// How often dirty blocks of directories are written before a boundary, unless this few are left.
const EARLY_ROUNDS: u32 = 4;
const FEW: u64 = 64;
/// How long a piece of what is only old lets fsyncs go first: so 50 MiB a second are written whatever happens.
const COURTESY: Duration = Duration::from_millis(5);

impl Volume {
    /// Writes the dirty pages of a range of a file's blocks. Returns how many there were. Nothing of the rank of the
    /// flush claim or above may be held.
    ///
    /// Only checkpoints write directories: to one that comes in between, blocks under way here would be missing.
    pub(crate) fn flush_inode(&self, inode: &Arc<Inode>, range: Range<u64>) -> Result<u64> {
        self.flush_one(inode, range, Reason::Wanted)
    }

    /// The same before a device flush.
    pub(crate) fn flush_for_sync(&self, inode: &Arc<Inode>) -> Result<u64> {
        self.flush_one(inode, 0..u64::MAX, Reason::Synced)
    }

    fn flush_one(&self, inode: &Arc<Inode>, range: Range<u64>, why: Reason) -> Result<u64> {
        if inode.is_dir() {
            return Ok(0);
        }
        let inodes = std::slice::from_ref(inode);
        let (mut at, mut total) = (range.start, 0);
        // One pass over the range: pages made dirty again behind it wait for the next flush.
        loop {
            let (next, written) = self.flush_batch_or_clean(inodes, at..range.end, why)?;
            total += written;
            match next {
                Some(next) => at = next,
                None => return Ok(total),
            }
        }
    }

    /// Writes so many batches of a file's dirty pages at most, going on where the last such turn ended.
    pub(crate) fn flush_quantum(&self, inode: &Arc<Inode>, batches: u32, why: Reason) -> Result<u64> {
        let inodes = std::slice::from_ref(inode);
        let (mut at, mut total) = (inode.cursor.load(Ordering::Relaxed), 0);
        for _ in 0..batches {
            let (next, written) = self.flush_batch_or_clean(inodes, at..u64::MAX, why)?;
            total += written;
            at = next.unwrap_or(0);
            if next.is_none() {
                break;
            }
        }
        inode.cursor.store(at, Ordering::Relaxed);
        Ok(total)
    }

    /// Without room for the pages, streams give back what they hold and sections are cleaned.
    fn flush_batch_or_clean(
        &self,
        inodes: &[Arc<Inode>],
        range: Range<u64>,
        why: Reason,
    ) -> Result<(Option<u64>, u64)> {
        self.let_fsyncs_pass(why);
        match self.flush_batch(inodes, range.clone(), why) {
            Err(Error::NoSpace) => {
                self.segs.close_streams();
                self.clean_foreground()?;
                self.flush_batch(inodes, range, why)
            }
            other => other,
        }
    }

    /// The same with the inode's lock held: makes no room.
    pub(super) fn flush_locked(&self, inode: &Arc<Inode>, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while let Some(next) = self.flush_batch(std::slice::from_ref(inode), at..range.end, Reason::Wanted)?.0
        {
            at = next;
        }
        Ok(())
    }

    /// Writes all pages of files that are dirty now, and waits for those that others are writing. Threads of writeback
    /// help. A file that fails does not keep others from being written; the first error is returned.
    pub fn flush_all_data(&self) -> Result<()> {
        let _hurry = self.wb.threads.hurry();
        self.kick_all();
        self.flush_contexts(Reason::Wanted)
    }

    /// The same because it is time, which nobody waits for: in small pieces, by the calling thread alone.
    pub(crate) fn flush_aged_data(&self) -> Result<()> {
        self.flush_contexts(Reason::Aged)
    }

    fn flush_contexts(&self, why: Reason) -> Result<()> {
        let mut failed = None;
        for (_, files) in self.wb.all() {
            failed = failed.or(self.flush_files(files, why).err());
        }
        failed.map_or(Ok(()), Err)
    }

    /// While memory is not short, those who wait for an fsync go before pages that are only old. Nothing may be held.
    fn let_fsyncs_pass(&self, why: Reason) {
        if why == Reason::Aged && self.mem.dirty_data.get() <= self.background_limit() {
            self.fsyncs.give_way(COURTESY);
        }
    }

    fn flush_files(&self, files: Vec<Arc<Inode>>, why: Reason) -> Result<()> {
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

    /// Small files go out together, so that they share writes.
    pub(crate) fn flush_group(&self, group: &[Arc<Inode>], why: Reason) -> Result<()> {
        let one_by_one = || {
            let one = |i| self.flush_one(i, 0..u64::MAX, why).err();
            group.iter().fold(None, |failed, i| failed.or(one(i))).map_or(Ok(()), Err)
        };
        match group {
            [] => Ok(()),
            [_] => one_by_one(),
            many => {
                self.let_fsyncs_pass(why);
                match self.flush_batch(many, 0..u64::MAX, why) {
                    Ok((None, _)) => Ok(()),
                    // Grown since they were counted, or one of them in trouble.
                    Ok((Some(_), _)) | Err(_) => one_by_one(),
                }
            }
        }
    }

    /// Writes dirty blocks of directories so that few are left for a checkpoint to place, as far as it is faster than those
    /// who change them. What fails is left to the checkpoint. Only the one who is about to draw a boundary may do this: no
    /// block of a directory may be on its way then.
    pub(crate) fn flush_directories_early(&self) {
        for _ in 0..EARLY_ROUNDS {
            for dir in self.inodes.dirty_dirs() {
                let mut next = Some(0);
                while let Some(at) = next {
                    let flushed = self.flush_batch(std::slice::from_ref(&dir), at..u64::MAX, Reason::Wanted);
                    next = flushed.map_or(None, |(next, _)| next);
                }
            }
            if self.mem.dirty_dents.get() <= FEW {
                return;
            }
        }
    }

    /// Gives all dirty blocks of directories places. The gate is closed.
    pub(crate) fn place_directories(&self, op: &Op<'_>, placed: &mut Vec<Batch>) -> Result<()> {
        for dir in self.inodes.dirty_dirs() {
            self.place_closed(op, &dir, placed)?;
            self.inodes.settle(&dir);
        }
        Ok(())
    }

    /// Gives all dirty blocks of an inode places, and lets the index name them. The gate is closed. They have to be written
    /// before anything that names them counts.
    pub(crate) fn place_closed(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        placed: &mut Vec<Batch>,
    ) -> Result<()> {
        let mut next = Some(0);
        while let Some(at) = next {
            let mut batch = Batch::new(self.next_serial(), Reason::Wanted);
            next = self.take_pages(inode, at..u64::MAX, &mut batch)?;
            if self.dev.is_zoned() {
                // What is placed is written before anybody else gets an address.
                self.write_batch(&mut batch)?;
                self.publish_batch(op, &batch)?;
                self.write_late(&batch)?;
                continue;
            }
            self.place(&mut batch)?;
            self.segs.expect(&batch.addrs());
            self.publish_batch(op, &batch)?;
            placed.push(batch);
        }
        Ok(())
    }

    /// Writes one batch, in ascending order. Returns where to go on, if there may be more, and the number of pages.
    fn flush_batch(
        &self,
        inodes: &[Arc<Inode>],
        range: Range<u64>,
        why: Reason,
    ) -> Result<(Option<u64>, u64)> {
        let mut batch = Batch::new(self.next_serial(), why);
        // Ascending inode numbers, as several locks of one rank must be taken.
        let _claims: Vec<_> = inodes.iter().map(|i| i.flush.lock()).collect();
        let taken = self.take_all(inodes, range, &mut batch);
        let next = taken
            .and_then(|next| self.write_batch(&mut batch).map(|()| next))
            .inspect_err(|e| self.give_back(&batch, e))?;
        self.checksum_batch(&mut batch);
        self.publish_batch(&self.gate.enter(), &batch)?;
        self.write_late(&batch)?;
        inodes.iter().for_each(|i| self.settle(i));
        self.wb.waiters.notify(batch.len() as u64);
        Ok((next, batch.len() as u64))
    }

    fn take_all(&self, inodes: &[Arc<Inode>], range: Range<u64>, batch: &mut Batch) -> Result<Option<u64>> {
        let _op = self.gate.enter();
        let mut next = None;
        for inode in inodes {
            next = next.or(self.take_pages(inode, range.clone(), batch)?);
        }
        self.write_pinned(batch)?;
        Ok(next)
    }
}
