//! Operations that write blocks with the lock of a file held, where no cleaning is possible. Their room is promised before.
use super::Writeback;
use crate::error::{Error, Result};
use crate::files::{FlushReason, Inode, Locked, request_for_dirty};
use crate::nodes::Grant;
use segno_clean::need::{self, Request};
use std::ops::Range;
use std::sync::Arc;

impl Writeback {
    /// Locks a file exclusively, with room for its dirty pages, after flushing most of them. `check` is called with the lock held. The
    /// caller holds no lock.
    pub(crate) fn lock_flushed<'a>(
        &'a self,
        inode: &'a Arc<Inode>,
        check: impl Fn(&Inode) -> Result<()>,
    ) -> Result<Locked<'a>> {
        let request = |inode: &Arc<Inode>| check(inode).map(|()| request_for_dirty(inode));
        self.lock_granted(inode, 0, request, |request| self.grant(request))
    }

    /// Locks a file exclusively, with room for the copies that `request` computes from it. Flushes most pages from block `first` on
    /// before. Fails with `NoSpace` if cleaning cannot make the room. The caller holds no lock.
    pub(crate) fn lock_for_copies<'a>(
        &'a self,
        inode: &'a Arc<Inode>,
        first: u64,
        request: impl Fn(&Arc<Inode>) -> Result<Request>,
    ) -> Result<Locked<'a>> {
        self.lock_granted(inode, first, request, |request| self.grant_copies(request))
    }

    fn lock_granted<'a>(
        &'a self,
        inode: &'a Arc<Inode>,
        first: u64,
        request: impl Fn(&Arc<Inode>) -> Result<Request>,
        grant: impl Fn(Request) -> Result<Grant<'a>>,
    ) -> Result<Locked<'a>> {
        let quantum = need::quantum(self.base.geo.blocks_per_sec().into());
        let mut spare = 0;
        loop {
            self.flush_inode(inode, first..u64::MAX)?;
            let Request { blocks, nodes } = {
                let _shared = inode.lock.read();
                request(inode)?
            };
            let granted = grant(Request { blocks: blocks + spare, nodes: nodes + spare })?;
            let locked = Locked::new(inode, granted);
            if locked.granted.covers(request(inode)?) {
                return Ok(locked);
            }
            // The file was written meanwhile.
            spare += quantum;
        }
    }

    fn grant_copies(&self, request: Request) -> Result<Grant<'_>> {
        if request.blocks == 0 {
            return self.grant(request);
        }
        if !self.nodes.may_hold(request.blocks) {
            return Err(Error::NoSpace);
        }
        self.grant_or_clean(request, || self.nodes.grant_copies(request))?.ok_or(Error::NoSpace)
    }

    /// Flushes a range with the inode's lock held; does not clean.
    pub(crate) fn flush_locked(
        &self,
        inode: &Arc<Inode>,
        range: Range<u64>,
        granted: &mut Grant<'_>,
    ) -> Result<()> {
        let (mut next, why) = (Some(range.start), FlushReason::Wanted);
        let inodes = std::slice::from_ref(inode);
        let most = self.files.batch_most(inodes, why);
        while let Some(at) = next {
            let dirty = inode.pages.lock().dirty_in(at..range.end, most).len();
            next = self.flush_batch(inodes, at..range.end, why, granted.split(dirty as u64))?.0;
        }
        Ok(())
    }
}
