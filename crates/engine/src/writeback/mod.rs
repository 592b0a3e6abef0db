//! Writing data back: which context a file belongs to, who writes it, who waits.
//!
//! A context owns files while they have dirty pages, never a part of the device. Files are bound by load, so neither
//! inode numbers nor addresses decide. Lists change while the table is held shared, and files move from context to
//! context while it is held exclusively: whoever goes through all lists under one hold of it misses no file.
mod context;
mod large;
#[cfg(all(test, feature = "loom"))]
mod models;
mod number;
mod pool;
mod sequence;
mod threads;
mod throttle;

pub use context::Context;
pub use number::Setting;
use sequence::Choice;
pub use sequence::{IDLE, Sequence};
pub(crate) use threads::{Threads, processors};

use crate::inode::Inode;
use crate::lock::{Mutex, RwLock, rank};
use crate::segment::{Segments, SharedStream, Stream};
use crate::volume::Volume;
use number::{Facts, MOST, number};
use segno_format::sit::LogType;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use throttle::Waiters;

/// Exclusive streams at most.
const EXCLUSIVE_MOST: u64 = 256;
/// An exclusive stream is given, and a section opened for one, while so many free sections beyond what is needed are
/// there for each log of all contexts; a shared stream opens sections down to so many in all.
const SPARE_TO_PROMOTE: u64 = 8;
const SPARE_TO_GO_ON: u64 = 4;
const SPARE_TO_SHARE: u64 = 12;
/// Pages of a file that are written together to be synced, and lie beside those of others (256 KiB).
const SYNCED_MOST: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Writeback {
    table: RwLock<Table, { rank::META }>,
    /// Exclusive streams and their files.
    exclusive: Mutex<Vec<(Weak<Inode>, Arc<Stream>)>, { rank::LEAF }>,
    exclusive_most: u64,
    /// Where small writes before a device flush go.
    synced: SharedStream,
    /// Where the search for the least loaded context begins.
    rotation: AtomicU32,
    pub threads: Threads,
    pub waiters: Waiters,
    promotions: AtomicU64,
    demotions: AtomicU64,
    migrations: AtomicU64,
}

#[derive(Debug)]
struct Table {
    contexts: Vec<Arc<Context>>,
    /// Contexts that give their files away.
    leaving: Vec<Arc<Context>>,
    setting: Setting,
    /// What keeps the number from being larger.
    reason: &'static str,
    next_id: u32,
}

impl Writeback {
    pub fn new(setting: Setting, exclusive_most: Option<u32>) -> Self {
        Self {
            table: RwLock::new(Table {
                contexts: vec![Arc::new(Context::new(0, true))],
                leaving: Vec::new(),
                setting,
                reason: "",
                next_id: 1,
            }),
            exclusive: Mutex::default(),
            synced: SharedStream::default(),
            exclusive_most: exclusive_most.map_or(EXCLUSIVE_MOST, u64::from).min(EXCLUSIVE_MOST),
            rotation: AtomicU32::new(0),
            threads: Threads::new(),
            waiters: Waiters::default(),
            promotions: AtomicU64::new(0),
            demotions: AtomicU64::new(0),
            migrations: AtomicU64::new(0),
        }
    }

    /// A file has dirty pages. Call it after they are dirty, so that no flush misses them.
    pub fn mark_dirty(&self, inode: &Arc<Inode>) {
        if inode.listed.load(Ordering::Acquire) {
            return;
        }
        let mut pages = inode.pages.lock();
        if pages.dirty() == 0 || inode.listed.swap(true, Ordering::AcqRel) {
            return;
        }
        let table = self.table.read();
        let Some(context) = self.choose(&table.contexts, inode.last_context.load(Ordering::Relaxed)) else {
            return;
        };
        inode.last_context.store(context.id, Ordering::Relaxed);
        context.add(inode, Instant::now());
        pages.set_home(Some(context.clone()));
    }

    /// The file's last context unless it has more than twice its share, else the one with the least to do.
    fn choose<'t>(&self, contexts: &'t [Arc<Context>], last: u32) -> Option<&'t Arc<Context>> {
        let Some(last) = contexts.iter().find(|c| c.id == last).filter(|_| contexts.len() > 1) else {
            return if contexts.len() > 1 { self.least(contexts) } else { contexts.first() };
        };
        let mean = contexts.iter().map(|c| c.load()).sum::<u64>() / contexts.len() as u64;
        if last.load() <= 2 * mean { Some(last) } else { self.least(contexts) }
    }

    fn least<'t>(&self, contexts: &'t [Arc<Context>]) -> Option<&'t Arc<Context>> {
        let first = self.rotation.fetch_add(1, Ordering::Relaxed) as usize % contexts.len().max(1);
        let (before, behind) = contexts.split_at(first);
        behind.iter().chain(before).min_by_key(|c| c.load())
    }

    /// Takes a file whose pages were written out off its list, unless a page is dirty again. The caller holds its flush
    /// claim: a file with pages on their way out stays listed, so that a sync waits for them.
    pub fn settle(&self, inode: &Arc<Inode>) {
        let mut pages = inode.pages.lock();
        if pages.dirty() > 0 {
            return;
        }
        let _table = self.table.read();
        if let Some(home) = pages.home() {
            home.remove(inode);
        }
        pages.set_home(None);
        inode.listed.store(false, Ordering::Release);
    }

    /// All contexts with their files, as of one moment.
    pub fn all(&self) -> Vec<(Arc<Context>, Vec<Arc<Inode>>)> {
        let table = self.table.read();
        table.contexts.iter().chain(&table.leaving).map(|c| (c.clone(), c.files())).collect()
    }

    /// The contexts, those that leave too.
    pub fn contexts(&self) -> Vec<Arc<Context>> {
        let table = self.table.read();
        table.contexts.iter().chain(&table.leaving).cloned().collect()
    }

    fn context(&self, id: u32) -> Option<Arc<Context>> {
        let table = self.table.read();
        table.contexts.iter().chain(&table.leaving).find(|c| c.id == id).cloned()
    }

    fn len(&self) -> u64 {
        self.table.read().contexts.len() as u64
    }

    /// The setting, the number in force, and why it is not larger.
    pub fn describe(&self) -> (Setting, u32, &'static str) {
        let table = self.table.read();
        (table.setting, table.contexts.len() as u32, table.reason)
    }

    /// Goes to `n` contexts. Files of those that leave move with what is dirty; nobody else waits.
    fn resize(&self, n: usize, reason: &'static str, segs: &Segments) {
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
            context.end_streams(segs);
        }
    }

    /// Moves a file to another context, with the time since when it is dirty.
    fn migrate(&self, inode: &Arc<Inode>, from: &Arc<Context>) {
        let mut pages = inode.pages.lock();
        let table = self.table.write();
        let Some(since) = from.remove(inode) else { return };
        let Some(to) = self.least(&table.contexts) else { return };
        to.add(inode, since);
        inode.last_context.store(to.id, Ordering::Relaxed);
        pages.set_home(Some(to.clone()));
        self.migrations.fetch_add(1, Ordering::Relaxed);
    }

    /// Names and values for reports.
    pub fn report(&self) -> Vec<(&'static str, u64)> {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let oldest = self.contexts().iter().filter_map(|c| c.oldest()).max().unwrap_or_default();
        vec![
            ("writeback_contexts", self.len()),
            ("writeback_threads", self.threads.count() as u64),
            ("oldest_dirty_ms", oldest.as_millis() as u64),
            ("migrations", get(&self.migrations)),
            ("promotions", get(&self.promotions)),
            ("demotions", get(&self.demotions)),
            ("throttle_pauses", self.waiters.pauses()),
            ("throttle_ns", self.waiters.ns()),
        ]
    }
}

impl Volume {
    pub(crate) fn mark_dirty(&self, inode: &Arc<Inode>) {
        if inode.is_dir() { self.inodes.mark_dirty(inode) } else { self.wb.mark_dirty(inode) }
    }
    pub(crate) fn settle(&self, inode: &Arc<Inode>) {
        if inode.is_dir() { self.inodes.settle(inode) } else { self.wb.settle(inode) }
    }

    /// Sets the number of writeback contexts, and says what it is now. Writers go on meanwhile.
    pub fn set_contexts(&self, setting: Setting) {
        self.wb.table.write().setting = setting;
        self.adjust_contexts();
    }

    /// The setting, the number of contexts in force, and why it is not larger.
    #[must_use]
    pub fn contexts(&self) -> (Setting, u32, &'static str) {
        self.wb.describe()
    }

    /// Bytes of the free intervals, longest first: the fewest extents that files could have.
    #[must_use]
    pub fn free_intervals(&self) -> Vec<u64> {
        let section = u64::from(self.geo.blocks_per_sec()) * segno_format::BLOCK_SIZE as u64;
        self.segs.with_table(|t| t.free_intervals()).into_iter().map(|n| u64::from(n) * section).collect()
    }

    /// Dirty pages of the files of each context.
    #[must_use]
    pub fn context_loads(&self) -> Vec<u64> {
        self.wb.contexts().iter().map(|c| c.dirty.get()).collect()
    }

    /// Fits the number of contexts to the setting, the machine and the space.
    pub(crate) fn adjust_contexts(&self) {
        let _change = self.wb.threads.change.lock();
        let (setting, now, _) = self.wb.describe();
        let facts = Facts {
            // Without threads of its own the volume is a function of its calls.
            cpus: if self.opts.background { self.wb.threads.cpus } else { 1 },
            spare_sections: self.spare_sections(),
            sections: self.geo.section_count.into(),
            dirty_limit: self.dirty_limit(),
            zoned: self.dev.is_zoned(),
        };
        let (wanted, reason) = number(setting, &facts);
        // Space comes and goes: a little more of it is no reason to grow.
        let grows = wanted > now && reason == "free space" && wanted * 4 < now * 5;
        self.wb.resize(if grows { now } else { wanted } as usize, reason, &self.segs);
    }

    /// Free sections beyond what is dirty and the reserve.
    fn spare_sections(&self) -> u64 {
        self.segs.free_sections().saturating_sub(self.sections_wanted())
    }

    /// Whether a stream may open another section.
    pub(crate) fn may_open(&self, stream: &Stream) -> bool {
        let spare = self.spare_sections();
        if stream.exclusive { spare >= SPARE_TO_GO_ON * 3 * self.wb.len() } else { spare >= SPARE_TO_SHARE }
    }

    /// The stream that pages of a file go to; `None` stands for the log of their type. The caller holds the flush claim.
    pub(crate) fn stream_for(
        &self,
        inode: &Arc<Inode>,
        kind: LogType,
        pages: impl ExactSizeIterator<Item = u64>,
        synced: bool,
    ) -> Option<Arc<Stream>> {
        // Zones are written in order, and few may be open.
        if inode.is_dir() || self.quota.owns(inode.ino) || self.dev.is_zoned() {
            return None;
        }
        let few = pages.len() <= SYNCED_MOST;
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
        let home = self.wb.context(inode.last_context.load(Ordering::Relaxed))?;
        home.stream(kind, &self.segs)
    }

    /// The stream that small writes of fsyncs share. Its segments are prepared, which pays only where nobody else writes.
    fn synced_stream(&self, kind: LogType) -> Option<Arc<Stream>> {
        if kind != LogType::WarmData {
            self.segs.note_fsync(kind);
            return None;
        }
        let stream = self.wb.synced.get(kind, &self.segs);
        if !self.may_open(&stream) {
            self.segs.note_fsync(kind);
            return None;
        }
        self.segs.note_fsync_in(&stream);
        Some(stream)
    }

    fn may_promote(&self) -> bool {
        let n = self.wb.len();
        let own = self.wb.exclusive.lock().len() as u64;
        // What streams hold open stays a small part of the volume.
        let part = u64::from(self.geo.section_count) / 20;
        own < self.wb.exclusive_most.min((4 * n).max(u64::from(MOST))).min(part.saturating_sub(3 * n))
            && self.spare_sections() >= SPARE_TO_PROMOTE * (3 * n + own)
    }

    fn promote(&self, inode: &Arc<Inode>, kind: LogType) -> Arc<Stream> {
        let stream = self.segs.new_stream(kind, true);
        inode.sequence.promote(stream.clone());
        self.wb.exclusive.lock().push((Arc::downgrade(inode), stream.clone()));
        self.wb.promotions.fetch_add(1, Ordering::Relaxed);
        stream
    }

    /// Ends the streams of files that are clean and were not written for so long.
    pub(crate) fn end_idle_streams(&self, at_least: Duration) {
        let all = self.wb.exclusive.lock().clone();
        for (file, stream) in all {
            match file.upgrade() {
                None => self.demote(&stream),
                Some(file) if file.pages.lock().dirty() > 0 => {}
                Some(file) => file.sequence.idle(at_least).iter().for_each(|s| self.demote(s)),
            }
        }
    }

    /// The file is gone.
    pub(crate) fn end_stream(&self, inode: &Inode) {
        inode.sequence.idle(Duration::ZERO).iter().for_each(|s| self.demote(s));
    }

    fn demote(&self, stream: &Arc<Stream>) {
        self.segs.end_stream(stream);
        self.wb.exclusive.lock().retain(|(_, s)| !Arc::ptr_eq(s, stream));
        self.wb.demotions.fetch_add(1, Ordering::Relaxed);
    }
}
