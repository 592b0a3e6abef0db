//! Merging records of one inode and epoch, so that the log has only their result.
use super::{Attr, Mapping, Run, Time};

impl Attr {
    /// The change that a [`DirTouch`](super::Record::DirTouch) makes.
    #[must_use]
    pub fn touch(time: Time) -> Self {
        Self { mtime: Some(time), ctime: Some(time), ..Self::default() }
    }
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes the fields that `newer` sets.
    pub fn merge(&mut self, newer: &Self) {
        self.mode = newer.mode.or(self.mode);
        self.uid = newer.uid.or(self.uid);
        self.gid = newer.gid.or(self.gid);
        self.projid = newer.projid.or(self.projid);
        self.size = newer.size.or(self.size);
        self.atime = newer.atime.or(self.atime);
        self.mtime = newer.mtime.or(self.mtime);
        self.ctime = newer.ctime.or(self.ctime);
        self.flags = newer.flags.or(self.flags);
        self.advise = newer.advise.or(self.advise);
        self.inline = newer.inline.or(self.inline);
        self.pino = newer.pino.or(self.pino);
        self.gc_failures = newer.gc_failures.or(self.gc_failures);
    }
}

impl Mapping {
    /// Adds a run after all others; joins it to the last one if both page and address follow.
    pub fn push(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(last)
                if last.page.checked_add(last.count.into()) == Some(run.page)
                    && last.addr.0.checked_add(last.count) == Some(run.addr.0)
                    && last.count.checked_add(run.count).is_some() =>
            {
                last.count += run.count;
            }
            _ => self.runs.push(run),
        }
    }

    /// Pages mapped.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.runs.iter().map(|r| u64::from(r.count)).sum()
    }
}
