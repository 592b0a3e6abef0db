//! Grants under way. During a grant its blocks may count both as promised and as used, so figures that were
//! read meanwhile do not prove that space is spent. A caller that is short of room waits until a grant has
//! ended.
use crate::sync::{Condvar, Mutex};

/// Numbers of grants that began and that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    begun: u64,
    ended: u64,
}

/// The grants under way. Its lock is a leaf.
#[derive(Debug, Default)]
pub struct UnderWay {
    counts: Mutex<Seen>,
    ended: Condvar,
}

/// Marks a grant as ended when dropped.
#[derive(Debug)]
pub struct Ends<'a>(&'a UnderWay);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.counts.lock().ended += 1;
        self.0.ended.notify_all();
    }
}

impl UnderWay {
    /// A grant begins. Its blocks are counted after this call, and no longer when the result is dropped.
    pub fn begin(&self) -> Ends<'_> {
        self.counts.lock().begun += 1;
        Ends(self)
    }

    pub fn seen(&self) -> Seen {
        *self.counts.lock()
    }

    /// Whether no grant was under way from then until now.
    pub fn none_since(&self, then: Seen) -> bool {
        then.begun == then.ended && self.seen() == then
    }

    /// Waits until a grant has ended since then, or none is under way. The caller holds no lock and no grant.
    pub fn wait_for_end(&self, then: Seen) {
        let mut counts = self.counts.lock();
        while counts.ended == then.ended && counts.begun > counts.ended {
            self.ended.wait(&mut counts);
        }
    }
}
