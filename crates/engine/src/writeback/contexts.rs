//! The table of writeback contexts: binding of files to contexts, and changes of their number.
use super::Context;
use crate::files::{DirtyFiles, Inode};
use crate::lock::{Mutex, RwLock, rank};
use crate::options::ContextSetting;
use crate::space::{SharedStream, Space, Stream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Upper bound on exclusive streams.
const MAX_EXCLUSIVE: u64 = 256;

/// The contexts, their files and streams.
#[derive(Debug)]
pub struct Contexts {
    pub(super) table: RwLock<Table, { rank::META }>,
    /// Exclusive streams and their files.
    pub(super) exclusive: Mutex<Vec<(Weak<Inode>, Arc<Stream>)>, { rank::LEAF }>,
    pub(super) exclusive_most: u64,
    /// Streams for small writes that precede a device flush.
    pub(super) synced: SharedStream,
    /// Start of the search for the least loaded context.
    pub(super) rotation: AtomicU32,
    pub(super) promotions: AtomicU64,
    pub(super) demotions: AtomicU64,
    pub(super) migrations: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Table {
    /// The first context, which is never retired.
    pub core: Arc<Context>,
    pub contexts: Vec<Arc<Context>>,
    /// Retired contexts, whose files move to others.
    pub leaving: Vec<Arc<Context>>,
    pub setting: ContextSetting,
    /// The limit that determines the number of contexts.
    pub reason: &'static str,
    pub next_id: u32,
}

impl Contexts {
    pub fn new(setting: ContextSetting, exclusive_most: Option<u32>) -> Self {
        let core = Arc::new(Context::new(0, true));
        Self {
            table: RwLock::new(Table {
                contexts: vec![core.clone()],
                core,
                leaving: Vec::new(),
                setting,
                reason: "",
                next_id: 1,
            }),
            exclusive: Mutex::default(),
            synced: SharedStream::default(),
            exclusive_most: exclusive_most.map_or(MAX_EXCLUSIVE, u64::from).min(MAX_EXCLUSIVE),
            rotation: AtomicU32::new(0),
            promotions: AtomicU64::new(0),
            demotions: AtomicU64::new(0),
            migrations: AtomicU64::new(0),
        }
    }

    /// The file's last context unless it has more than twice its share, else the least loaded one.
    pub(super) fn choose<'t>(&self, contexts: &'t [Arc<Context>], last: u32) -> Option<&'t Arc<Context>> {
        let Some(last) = contexts.iter().find(|c| c.id() == last).filter(|_| contexts.len() > 1) else {
            return if contexts.len() > 1 { self.least(contexts) } else { contexts.first() };
        };
        let mean = contexts.iter().map(|c| c.load()).sum::<u64>() / contexts.len() as u64;
        if last.load() <= 2 * mean { Some(last) } else { self.least(contexts) }
    }

    pub(super) fn least<'t>(&self, contexts: &'t [Arc<Context>]) -> Option<&'t Arc<Context>> {
        let first = self.rotation.fetch_add(1, Ordering::Relaxed) as usize % contexts.len().max(1);
        let (before, behind) = contexts.split_at(first);
        behind.iter().chain(before).min_by_key(|c| c.load())
    }

    /// Removes a clean file from its list; a file with dirty pages stays. The caller holds the flush lock, so
    /// that a file with pages in flight stays listed and a sync waits for it, or frees the file. Returns false if the file was on no list.
    #[must_use]
    pub fn settle(&self, inode: &Arc<Inode>) -> bool {
        let mut pages = inode.pages.lock();
        if pages.dirty() > 0 {
            return true;
        }
        let table = self.table.read();
        let context = pages.account().map(|account| {
            table.contexts.iter().chain(&table.leaving).find(|c| Arc::ptr_eq(&c.account, account))
        });
        let was_listed = context.is_none_or(|c| c.and_then(|c| c.remove(inode)).is_some());
        pages.set_account(None);
        inode.listed.store(false, Ordering::Release);
        was_listed
    }

    /// A consistent snapshot of all contexts and their files.
    pub fn all(&self) -> Vec<(Arc<Context>, Vec<Arc<Inode>>)> {
        let table = self.table.read();
        table.contexts.iter().chain(&table.leaving).map(|c| (c.clone(), c.files())).collect()
    }

    /// All contexts, including retired ones.
    pub fn contexts(&self) -> Vec<Arc<Context>> {
        let table = self.table.read();
        table.contexts.iter().chain(&table.leaving).cloned().collect()
    }

    pub(super) fn context(&self, id: u32) -> Option<Arc<Context>> {
        let table = self.table.read();
        table.contexts.iter().chain(&table.leaving).find(|c| c.id() == id).cloned()
    }

    pub(super) fn len(&self) -> u64 {
        self.table.read().contexts.len() as u64
    }

    /// The setting, the current number, and the limit that determines it.
    pub fn describe(&self) -> (ContextSetting, u32, &'static str) {
        let table = self.table.read();
        (table.setting, table.contexts.len() as u32, table.reason)
    }

    /// Changes the number to `n`. Files of retired contexts move with their dirty pages; writers do not wait.
    pub(super) fn resize(&self, n: usize, reason: &'static str, space: &Space) {
        {
            let mut table = self.table.write();
            table.reason = reason;
            while table.contexts.len() < n {
                let id = table.next_id;
                table.next_id += 1;
                table.contexts.push(Arc::new(Context::new(id, false)));
            }
            let leaving = table.contexts.split_off(n.max(1));
            table.leaving.extend(leaving);
        }
        let leaving = self.table.read().leaving.clone();
        for context in leaving {
            while let Some(inode) = context.any() {
                self.migrate(&inode, &context);
            }
            self.table.write().leaving.retain(|c| !Arc::ptr_eq(c, &context));
            context.end_streams(space);
        }
    }

    /// Moves a file to another context and keeps the time since which it is dirty.
    pub(super) fn migrate(&self, inode: &Arc<Inode>, from: &Arc<Context>) {
        let mut pages = inode.pages.lock();
        let table = self.table.write();
        let Some(since) = from.remove(inode) else { return };
        let to = self.least(&table.contexts).unwrap_or(&table.core);
        to.add(inode, since);
        inode.last_context.store(to.id(), Ordering::Relaxed);
        pages.set_account(Some(to.account.clone()));
        self.migrations.fetch_add(1, Ordering::Relaxed);
    }

    /// Names and values for reports.
    pub fn report(&self) -> Vec<(&'static str, u64)> {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let oldest = self.contexts().iter().filter_map(|c| c.oldest()).max().unwrap_or_default();
        vec![
            ("writeback_contexts", self.len()),
            ("oldest_dirty_ms", oldest.as_millis() as u64),
            ("migrations", get(&self.migrations)),
            ("promotions", get(&self.promotions)),
            ("demotions", get(&self.demotions)),
        ]
    }
}

impl DirtyFiles for Contexts {
    /// Binds a file with dirty pages to a context.
    fn mark_dirty(&self, inode: &Arc<Inode>) {
        if inode.listed.load(Ordering::Acquire) {
            return;
        }
        let mut pages = inode.pages.lock();
        if pages.dirty() == 0 || inode.listed.swap(true, Ordering::AcqRel) {
            return;
        }
        let table = self.table.read();
        let chosen = self.choose(&table.contexts, inode.last_context.load(Ordering::Relaxed));
        let context = chosen.unwrap_or(&table.core);
        inode.last_context.store(context.id(), Ordering::Relaxed);
        context.add(inode, Instant::now());
        pages.set_account(Some(context.account.clone()));
    }
}
