//! Writeback: binds files to contexts, flushes them on threads, throttles writers.
//!
//! A context owns files while they have dirty pages, never a part of the device. Files are bound by load, not by
//! inode number or address. Lists change while the table is held shared; files move between contexts while it is held
//! exclusively. So a scan of all lists under one hold misses no file.
mod context;
mod contexts;
mod flush;
mod fsync_priority;
mod large_files;
mod locked;
#[cfg(all(test, feature = "loom"))]
mod models;
mod number;
mod pool;
mod streams;
mod threads;
mod throttle;

pub use context::Context;
pub use contexts::Contexts;
pub use fsync_priority::FsyncPriority;
#[cfg(test)]
pub use large_files::LARGE_DIVISOR;
pub use threads::{Threads, processors};

use crate::base::Base;
use crate::error::{Error, Result};
use crate::files::{Files, Inode};
use crate::health::invariant;
use crate::options::ContextSetting;
use crate::room::Rule;
use crate::space::Space;
use number::{Limits, number};
use segno_clean::need::Request;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use throttle::Waiters;

/// Restores free sections; implemented by cleaning, a higher layer.
pub trait Reclaim: Send + Sync {
    /// Cleans until free sections cover the dirty data, the reserve and a request, or further cleaning is not
    /// worth its cost. If grants under way hold the missing room, waits until one ends. Returns false if the
    /// request does not fit and cleaning gains nothing any more. The caller holds no lock and no grant.
    fn reclaim(&self, request: Request) -> Result<bool>;

    /// Moves the blocks that the data written since the last call pays for. The caller holds no lock.
    fn pace(&self) -> Result<()>;
}

/// Schedules and performs writeback.
pub struct Writeback {
    base: Arc<Base>,
    space: Arc<Space>,
    pub files: Arc<Files>,
    pub contexts: Arc<Contexts>,
    pub threads: Threads,
    waiters: Waiters,
    /// Makes aged writeback yield to fsyncs.
    pub fsyncs: FsyncPriority,
    reclaim: OnceLock<Weak<dyn Reclaim>>,
}

impl Writeback {
    pub fn new(files: Arc<Files>, contexts: Arc<Contexts>) -> Self {
        Self {
            base: files.base.clone(),
            space: files.space.clone(),
            files,
            contexts,
            threads: Threads::new(),
            waiters: Waiters::default(),
            fsyncs: FsyncPriority::default(),
            reclaim: OnceLock::new(),
        }
    }

    /// Sets the cleaner, once.
    pub fn set_reclaim(&self, reclaim: Weak<dyn Reclaim>) {
        let is_first = self.reclaim.set(reclaim).is_ok();
        invariant!(self.base.health, is_first, "a second cleaner was set", else {});
    }

    /// Without room, streams release their segments and sections are cleaned. Returns false if that gains nothing any more. The
    /// caller holds no lock and no grant.
    fn make_space(&self, request: Request) -> Result<bool> {
        self.space.close_streams();
        match self.reclaim.get().and_then(Weak::upgrade) {
            Some(reclaim) => reclaim.reclaim(request),
            None => Ok(false),
        }
    }

    /// Lets paced cleaning keep up with writeback, and cleans where room is short. The caller holds no lock.
    pub(crate) fn keep_room(&self) -> Result<()> {
        if self.files.room.rule == Rule::Paced
            && let Some(reclaim) = self.reclaim.get().and_then(Weak::upgrade)
        {
            match reclaim.pace() {
                // Blocks could not be moved now; the check below decides whether room is short.
                Err(Error::NoSpace) => {}
                other => other?,
            }
        }
        if self.files.room.assess() { self.make_space(Request::default()).map(drop) } else { Ok(()) }
    }

    /// Removes a clean inode from the list that it is on.
    fn settle(&self, inode: &Arc<Inode>) {
        if inode.is_dir() {
            return self.files.inodes.settle(inode);
        }
        let was_listed = self.contexts.settle(inode);
        invariant!(self.base.health, was_listed, "a file with dirty pages is on no list", else {});
    }

    /// Sets the number of writeback contexts. Writers continue meanwhile.
    pub fn set(&self, setting: ContextSetting) {
        self.contexts.table.write().setting = setting;
        self.adjust_contexts();
    }

    /// Names and values for reports.
    pub fn report(&self) -> Vec<(&'static str, u64)> {
        let mut out = self.contexts.report();
        out.extend([
            ("writeback_threads", self.threads.count() as u64),
            ("throttle_pauses", self.waiters.pauses.load(Ordering::Relaxed)),
            ("throttle_ns", self.waiters.ns.load(Ordering::Relaxed)),
        ]);
        out
    }

    /// Adjusts the number of contexts to the setting, the machine and the free space.
    pub(crate) fn adjust_contexts(&self) {
        let _change = self.threads.change.lock();
        let (setting, now, _) = self.contexts.describe();
        let limits = Limits {
            // Without background threads the volume is a function of its calls.
            cpus: if self.base.opts.background { self.threads.cpus } else { 1 },
            spare_sections: self.files.room.spare_sections(),
            sections: self.base.geo.section_count.into(),
            dirty_limit: self.dirty_limit(),
            zoned: self.base.dev.is_zoned(),
        };
        let (wanted, reason) = number(setting, &limits);
        // Free space fluctuates: a small increase is no reason to grow.
        let grows = wanted > now && reason == "free space" && wanted * 4 < now * 5;
        self.contexts.resize(if grows { now } else { wanted } as usize, reason, &self.space);
    }
}
