//! Inodes in memory. The inode's node block is the only copy of its fields; this adds locks and dirty pages.
use crate::error::Result;
use crate::lock::{Mutex, RwLock, rank};
use crate::memory::Memory;
use crate::node::{NodeCache, NodeFrame};
use crate::page::PageMap;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use segno_format::inode::{InodeLayout, RawInode};
use segno_format::{Corrupt, Features, Ino, Structure};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// An inode in use.
#[derive(Debug)]
pub struct Inode {
    pub ino: Ino,
    /// Its node block, pinned.
    pub frame: Arc<NodeFrame>,
    /// Orders operations on the inode: shared for reads, exclusive for changes.
    pub lock: RwLock<(), { rank::INODE }>,
    /// Held by whoever writes its data out; only the holder gives its pages addresses.
    pub flush: Mutex<(), { rank::FLUSH }>,
    /// Its cached blocks.
    pub pages: Mutex<PageMap, { rank::PAGES }>,
    /// Open handles; an inode without a name lives until the last is closed.
    pub opens: AtomicU32,
    /// Set once its nodes are freed: a late user gets `NotFound`.
    pub gone: AtomicBool,
    /// The device refused some of its data since the last fsync.
    pub write_error: AtomicBool,
    /// A casefolded directory in which every name is where its hash says.
    pub hashes_checked: AtomicBool,
    /// Whether it is in the registry of inodes with dirty pages.
    listed: AtomicBool,
}

impl Inode {
    fn new(frame: Arc<NodeFrame>) -> Self {
        let is_dir = frame.inode(RawInode::is_dir);
        Self {
            ino: frame.ino,
            frame,
            lock: RwLock::new(()),
            flush: Mutex::new(()),
            pages: Mutex::new(PageMap::new(is_dir)),
            opens: AtomicU32::new(0),
            gone: AtomicBool::new(false),
            write_error: AtomicBool::new(false),
            hashes_checked: AtomicBool::new(false),
            listed: AtomicBool::new(false),
        }
    }
    /// Reads its fields.
    pub fn get<R>(&self, f: impl FnOnce(&RawInode) -> R) -> R {
        self.frame.inode(f)
    }
    /// How its block is divided.
    pub fn layout(&self, features: Features) -> Result<InodeLayout> {
        Ok(self.frame.inode(|i| i.layout(features))?)
    }
    pub fn is_dir(&self) -> bool {
        self.get(RawInode::is_dir)
    }
    pub fn size(&self) -> u64 {
        self.get(|i| i.i_size.get())
    }
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

const SHARDS: usize = 16;
type Shard = HashMap<Ino, Arc<Inode>>;

/// Inodes by number, and those among them that have dirty pages.
#[derive(Debug)]
pub struct InodeCache {
    shards: [Mutex<Shard, { rank::INODE_CACHE }>; SHARDS],
    dirty_files: Mutex<BTreeMap<Ino, Arc<Inode>>, { rank::LEAF }>,
    dirty_dirs: Mutex<BTreeMap<Ino, Arc<Inode>>, { rank::LEAF }>,
}

impl InodeCache {
    pub fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(HashMap::new())),
            dirty_files: Mutex::default(),
            dirty_dirs: Mutex::default(),
        }
    }
    fn shard(&self, ino: Ino) -> &Mutex<Shard, { rank::INODE_CACHE }> {
        &self.shards[ino.0 as usize & (SHARDS - 1)]
    }
    pub fn cached(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.shard(ino).lock().get(&ino).cloned()
    }
    /// The inode, loading and checking its block if need be.
    pub fn get(&self, ino: Ino, nodes: &NodeCache, features: Features) -> Result<Arc<Inode>> {
        loop {
            if let Some(i) = self.cached(ino) {
                return Ok(i);
            }
            let frame = nodes.get_of(ino, ino)?;
            frame.inode(|i| sanity(i, features))?;
            let inode = Arc::new(Inode::new(frame));
            let mut shard = self.shard(ino).lock();
            // Freeing forgets the node first and the inode then: one freed since it was loaded must not come back.
            if nodes.cached(ino).is_some_and(|f| Arc::ptr_eq(&f, &inode.frame)) {
                return Ok(shard.entry(ino).or_insert(inode).clone());
            }
        }
    }
    /// Adds an inode whose block is in memory; returns the one that is there if another thread was faster.
    pub fn insert(&self, frame: Arc<NodeFrame>) -> Arc<Inode> {
        let inode = Arc::new(Inode::new(frame));
        self.shard(inode.ino).lock().entry(inode.ino).or_insert(inode).clone()
    }
    /// Forgets a freed inode.
    pub fn remove(&self, ino: Ino) {
        self.shard(ino).lock().remove(&ino);
    }
    fn registry(&self, dirs: bool) -> &Mutex<BTreeMap<Ino, Arc<Inode>>, { rank::LEAF }> {
        if dirs { &self.dirty_dirs } else { &self.dirty_files }
    }
    /// Registers an inode whose pages became dirty. Call it after the page is dirty, so that no flush misses it.
    pub fn mark_dirty(&self, inode: &Arc<Inode>) {
        if !inode.listed.swap(true, Ordering::AcqRel) {
            self.registry(inode.is_dir()).lock().insert(inode.ino, inode.clone());
        }
    }
    /// The registered inodes, in the order of their numbers.
    pub fn dirty(&self, dirs: bool) -> Vec<Arc<Inode>> {
        self.registry(dirs).lock().values().cloned().collect()
    }
    /// Takes an inode whose pages were written out off the registry, unless a page is dirty again. The caller holds its
    /// flush claim: an inode with pages on their way out stays registered, so that a sync waits for them.
    pub fn settle(&self, inode: &Arc<Inode>) {
        if inode.pages.lock().dirty() > 0 {
            return;
        }
        {
            let mut registry = self.registry(inode.is_dir()).lock();
            if registry.get(&inode.ino).is_some_and(|i| Arc::ptr_eq(i, inode)) {
                registry.remove(&inode.ino);
            }
            // A swap like that of `mark_dirty`: one of the two comes after the other and sees what was done before.
            inode.listed.swap(false, Ordering::AcqRel);
        }
        // Whoever made a page dirty in between found the inode registered still.
        if inode.pages.lock().dirty() > 0 {
            self.mark_dirty(inode);
        }
    }
    /// Evicts inodes that nobody holds; their clean pages go with them. Dirty ones are held by the registry.
    pub fn shrink(&self, mem: &Memory) {
        for shard in &self.shards {
            let mut gone = Vec::new();
            shard.lock().retain(|_, i| {
                let idle = Arc::strong_count(i) == 1 && i.opens.load(Ordering::Acquire) == 0;
                if idle {
                    gone.push(i.clone());
                }
                !idle
            });
            for inode in gone {
                inode.pages.lock().drop_range(0..u64::MAX, mem);
            }
        }
    }
}

/// What the kernel refuses in an inode, so that nothing later trips over it.
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
        return bad("i_mode names no file type", i.i_mode.get().into(), 0);
    }
    let inline = i.inline();
    use segno_format::inode::Inline;
    if inline.contains(Inline::DENTRY) && !i.is_dir() {
        return bad("inline directory flag on something else", inline.bits().into(), 0);
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

/// Every schedule of writers and a flush of one inode: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc as LoomArc;
    use loom::thread;
    use segno_format::Block;

    struct Rig {
        inodes: InodeCache,
        inode: Arc<Inode>,
        mem: Memory,
    }

    impl Rig {
        fn new() -> LoomArc<Self> {
            let inodes = InodeCache::new();
            let inode =
                inodes.insert(Arc::new(NodeFrame::new(Ino::ROOT, Ino::ROOT, Arc::new(Block::zeroed()))));
            LoomArc::new(Self { inodes, inode, mem: Memory::default() })
        }
        /// What a write does to a page; tags ascend.
        fn write(&self, tag: u8) {
            self.inode.pages.lock().modify(0, &self.mem, || Arc::new(Block::zeroed()), |b| b.0[0] = tag);
            self.inodes.mark_dirty(&self.inode);
        }
        /// What a flush does; returns what went to the device.
        fn flush(&self, id: u64) -> Option<u8> {
            let _claim = self.inode.flush.lock();
            let out = self.inode.pages.lock().begin_flush(0, id, &self.mem);
            let written = out.as_ref().map(|b| b.0[0]);
            if let Some(block) = out {
                self.inode.pages.lock().end_flush(0, id, false, &self.mem);
                assert_eq!(Some(block.0[0]), written, "a block changed while it was written");
            }
            self.inodes.settle(&self.inode);
            written
        }
        fn check(&self, last: u8, written: u8) {
            let pages = self.inode.pages.lock();
            let dirty = pages.dirty() > 0;
            drop(pages);
            assert!(dirty || written == last, "a change is neither written nor dirty");
            let listed = self.inodes.dirty(false).len();
            assert!(!dirty || listed == 1, "a dirty page that no sync finds");
            assert!(listed <= 1);
        }
    }

    #[test]
    fn no_dirty_page_is_lost_while_a_flush_runs() {
        loom::model(|| {
            let rig = Rig::new();
            rig.write(1);
            let flusher = {
                let rig = rig.clone();
                thread::spawn(move || rig.flush(1))
            };
            rig.write(2);
            let written = flusher.join().unwrap().unwrap_or(0);
            rig.check(2, written);
        });
    }

    #[test]
    fn two_flushes_take_turns() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let rig = Rig::new();
            rig.write(1);
            let flushers: Vec<_> = (1..3)
                .map(|id| {
                    let rig = rig.clone();
                    thread::spawn(move || rig.flush(id))
                })
                .collect();
            rig.write(2);
            let written = flushers.into_iter().filter_map(|t| t.join().unwrap()).max().unwrap_or(0);
            rig.check(2, written);
        });
    }
}
