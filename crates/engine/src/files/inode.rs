//! Inodes in memory. The inode's node block is the only copy of its fields; this adds locks, pages and state.
use super::FsyncRounds;
use super::PageMap;
use super::Sequence;
use crate::clock_cache::{ClockCache, Step};
use crate::error::Result;
use crate::lock::{Mutex, RwLock, rank};
use crate::memory::Memory;
use crate::nodes::{NodeCache, NodeFrame};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use segno_format::inode::{InodeLayout, RawInode};
use segno_format::{Corrupt, Features, Ino, Structure};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// An inode in use.
#[derive(Debug)]
pub struct Inode {
    pub ino: Ino,
    /// Node block of the inode; the reference keeps it in the cache.
    pub frame: Arc<NodeFrame>,
    /// Whether it was a directory when loaded; readable without the frame's lock.
    dir: bool,
    /// Orders operations on the inode: shared for reads, exclusive for changes.
    pub lock: RwLock<(), { rank::INODE }>,
    /// Flush lock: only its owner allocates addresses for the inode's pages.
    pub flush: Mutex<(), { rank::FLUSH }>,
    /// Taken by fsync.
    pub syncs: FsyncRounds,
    /// Cached blocks.
    pub pages: Mutex<PageMap, { rank::PAGES }>,
    /// Open handles. An inode without a name is freed after the last one is closed.
    pub opens: AtomicU32,
    /// Set once its nodes are freed: later users get `NotFound`.
    pub gone: AtomicBool,
    /// Writing its data failed since the last fsync.
    pub write_error: AtomicBool,
    /// For a casefolded directory: every name was found in the bucket of its hash.
    pub hashes_checked: AtomicBool,
    /// Whether it is on a list of inodes with dirty pages.
    pub listed: AtomicBool,
    /// The writeback context it was last bound to.
    pub last_context: AtomicU32,
    /// Page at which an interrupted turn of writeback continues.
    pub cursor: AtomicU64,
    /// The size for operations if it is larger than the block's, else 0; see `files::grow`.
    pub(crate) grown: AtomicU64,
    pub sequence: Sequence,
    /// Clusters are being compressed on request (`compress_mode=user`).
    pub packing: AtomicBool,
}

impl Inode {
    fn new(frame: Arc<NodeFrame>) -> Self {
        let is_dir = frame.inode(RawInode::is_dir);
        Self {
            ino: frame.ino,
            frame,
            dir: is_dir,
            lock: RwLock::new(()),
            flush: Mutex::new(()),
            syncs: FsyncRounds::default(),
            pages: Mutex::new(PageMap::new(is_dir)),
            opens: AtomicU32::new(0),
            gone: AtomicBool::new(false),
            write_error: AtomicBool::new(false),
            hashes_checked: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            last_context: AtomicU32::new(u32::MAX),
            cursor: AtomicU64::new(0),
            grown: AtomicU64::new(0),
            sequence: Sequence::default(),
            packing: AtomicBool::new(false),
        }
    }
    /// Reads fields of the inode.
    pub fn get<R>(&self, f: impl FnOnce(&RawInode) -> R) -> R {
        self.frame.inode(f)
    }
    /// The layout of the inode's block.
    pub fn layout(&self, features: Features) -> Result<InodeLayout> {
        self.frame.layout(features)
    }
    pub fn is_dir(&self) -> bool {
        self.get(RawInode::is_dir)
    }
    /// The size for operations; the block may have a smaller one.
    pub fn size(&self) -> u64 {
        self.get(|i| self.size_with(i))
    }
    /// Like [`Inode::size`], for a caller that already reads the block.
    pub fn size_with(&self, i: &RawInode) -> u64 {
        i.i_size.get().max(self.grown.load(Ordering::Acquire))
    }
    /// The size in the block, as in checkpoints and the chain.
    pub fn published_size(&self) -> u64 {
        self.get(|i| i.i_size.get())
    }
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

const SHARDS: usize = 16;
type Shard = ClockCache<Ino, Inode>;

/// Inodes by number, and the directories among them that have dirty pages.
#[derive(Debug)]
pub struct InodeCache {
    shards: [Mutex<Shard, { rank::INODE_CACHE }>; SHARDS],
    dirty_dirs: Mutex<BTreeMap<Ino, Arc<Inode>>, { rank::LEAF }>,
    /// The next shard to evict from.
    next_shard: AtomicUsize,
    mem: Arc<Memory>,
}

impl InodeCache {
    pub fn new(mem: Arc<Memory>) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            dirty_dirs: Mutex::default(),
            next_shard: AtomicUsize::new(0),
            mem,
        }
    }
    fn shard(&self, ino: Ino) -> &Mutex<Shard, { rank::INODE_CACHE }> {
        &self.shards[ino.0 as usize & (SHARDS - 1)]
    }
    pub fn cached(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.shard(ino).lock().get(ino).cloned()
    }
    /// The inode; loads and checks its block if it is not cached.
    pub fn get(&self, ino: Ino, nodes: &NodeCache, features: Features) -> Result<Arc<Inode>> {
        loop {
            if let Some(i) = self.cached(ino) {
                return Ok(i);
            }
            let frame = nodes.get_of(ino.nid(), ino)?;
            frame.inode(|i| sanity(i, features))?;
            let inode = Arc::new(Inode::new(frame));
            let mut shard = self.shard(ino).lock();
            // Freeing removes the node before the inode. An inode freed since it was loaded must not be inserted
            // again.
            if nodes.cached(ino.nid()).is_some_and(|f| Arc::ptr_eq(&f, &inode.frame)) {
                return Ok(self.add(&mut shard, inode));
            }
        }
    }
    /// Adds an inode whose block is in memory; returns the existing one if another thread was faster.
    pub fn insert(&self, frame: Arc<NodeFrame>) -> Arc<Inode> {
        let inode = Arc::new(Inode::new(frame));
        self.add(&mut self.shard(inode.ino).lock(), inode)
    }
    fn add(&self, shard: &mut Shard, inode: Arc<Inode>) -> Arc<Inode> {
        if let Some(other) = shard.get(inode.ino) {
            return other.clone();
        }
        self.mem.inodes.add(1);
        shard.insert(inode.ino, inode.clone());
        inode
    }
    /// Removes a freed inode.
    pub fn remove(&self, ino: Ino) {
        if self.shard(ino).lock().remove(ino).is_some() {
            self.mem.inodes.add(-1);
        }
    }
    /// Registers a directory whose pages became dirty. Call it after the page is dirty, so that no flush misses it.
    pub fn mark_dirty(&self, dir: &Arc<Inode>) {
        if !dir.listed.swap(true, Ordering::AcqRel) {
            self.dirty_dirs.lock().insert(dir.ino, dir.clone());
        }
    }
    /// The registered directories in inode order.
    pub fn dirty_dirs(&self) -> Vec<Arc<Inode>> {
        self.dirty_dirs.lock().values().cloned().collect()
    }
    /// Unregisters a directory whose pages were written, unless a page is dirty again. The caller holds its flush
    /// lock, has the gate closed, or frees the directory.
    pub fn settle(&self, dir: &Arc<Inode>) {
        if dir.pages.lock().dirty() > 0 {
            return;
        }
        {
            let mut registry = self.dirty_dirs.lock();
            if registry.get(&dir.ino).is_some_and(|i| Arc::ptr_eq(i, dir)) {
                registry.remove(&dir.ino);
            }
            // Pairs with the swap in `mark_dirty`: changes before the earlier swap are visible after the
            // later one.
            dir.listed.swap(false, Ordering::AcqRel);
        }
        // If a page was made dirty in between, the directory was still registered.
        if dir.pages.lock().dirty() > 0 {
            self.mark_dirty(dir);
        }
    }
    /// Evicts up to `max` inodes and directory pages that were not used recently. Examines a few times as many.
    /// Inodes that are referenced (those with dirty pages are, by their list), open, or have an error to report stay.
    /// A directory that is locked is skipped, or waited for if `urgent`; the caller holds no lock. Returns the
    /// evicted inodes.
    pub fn evict(&self, max: usize, urgent: bool) -> Vec<Ino> {
        let each = max.div_ceil(SHARDS).max(4);
        let (mut evicted, mut pages) = (Vec::new(), 0);
        for _ in 0..SHARDS {
            let left = max.saturating_sub(evicted.len() + pages);
            if left == 0 {
                break;
            }
            let next_shard = self.next_shard.fetch_add(1, Ordering::Relaxed);
            // SHARDS is a power of two, so the mask is always a valid index.
            let shard = &self.shards[next_shard & (SHARDS - 1)];
            let (mut gone, mut dirs) = (Vec::new(), Vec::new());
            let step = Step { looks: each * 4, removals: each };
            shard.lock().evict(
                step,
                |i| {
                    let is_idle = is_idle(i);
                    dirs.extend(i.dir.then(|| i.clone()));
                    is_idle
                },
                |i| gone.push(i),
            );
            self.mem.inodes.add(-(gone.len() as i64));
            gone.iter().for_each(|i| i.pages.lock().drop_range(0..u64::MAX, &self.mem));
            evicted.extend(gone.iter().map(|i| i.ino));
            pages += dirs.iter().map(|dir| self.evict_pages(dir, left, urgent)).sum::<usize>();
        }
        evicted
    }

    /// Evicts clean pages of a directory.
    fn evict_pages(&self, dir: &Inode, max: usize, urgent: bool) -> usize {
        if !dir.pages.lock().has_clean() {
            return 0;
        }
        let unused = if urgent { Some(dir.lock.write()) } else { dir.lock.try_write() };
        unused.map_or(0, |_unused| dir.pages.lock().evict(max, &self.mem))
    }
}

/// Whether only the cache refers to an inode. The caller holds the shard's lock, which keeps that true.
fn is_idle(inode: &Arc<Inode>) -> bool {
    Arc::strong_count(inode) == 1
        && inode.opens.load(Ordering::Acquire) == 0
        && !inode.write_error.load(Ordering::Acquire)
}

/// Sanity checks as in the kernel, so that later code can rely on the fields.
pub fn sanity(i: &RawInode, features: Features) -> Result<(), Corrupt> {
    let ino = i.footer.ino.get();
    let bad = |why, found: u64, expected: u64| Err(Corrupt::nid(Structure::Inode, ino, why, found, expected));
    let layout = i.layout(features)?;
    if i.i_blocks.get() == 0 {
        return bad("i_blocks is 0", 0, 1);
    }
    if i.i_xattr_nid.get() == ino {
        return bad("i_xattr_nid is the inode itself", ino.into(), 0);
    }
    if i.i_namelen.get() > 255 {
        return bad("i_namelen", i.i_namelen.get().into(), 255);
    }
    if segno_format::dentry::FileType::of_mode(i.i_mode.get()) == segno_format::dentry::FileType::Unknown {
        return bad("i_mode has no file type", i.i_mode.get().into(), 0);
    }
    let inline = i.inline();
    use segno_format::inode::Inline;
    if inline.contains(Inline::DENTRY) && !i.is_dir() {
        return bad("inline directory flag on a non-directory", inline.bits().into(), 0);
    }
    if inline.contains(Inline::DATA) {
        if !i.is_reg() && !i.is_symlink() {
            return bad("inline data flag on neither file nor symlink", inline.bits().into(), 0);
        }
        if i.i_size.get() > layout.inline_capacity() as u64 {
            return bad("inline data larger than its area", i.i_size.get(), layout.inline_capacity() as u64);
        }
    }
    if i.is_dir() && i.i_current_depth.get() > segno_format::dentry::MAX_DEPTH {
        return bad(
            "i_current_depth",
            i.i_current_depth.get().into(),
            segno_format::dentry::MAX_DEPTH.into(),
        );
    }
    Ok(())
}
