//! Explores all schedules of writers, flushes and migrations of one file, and of pool threads: `cargo test -p
//! segno-engine --features loom models`.
use super::pool::Pool;
use super::*;
use crate::block::shared;
use crate::files::{DirtyFiles, Inode};
use crate::memory::Memory;
use crate::nodes::NodeFrame;
use crate::options::ContextSetting;
use loom::sync::Arc as LoomArc;
use loom::sync::atomic::{AtomicBool as LoomBool, Ordering as LoomOrdering};
use loom::thread;
use segno_format::{Block, Ino};
use std::sync::Arc;
use std::time::Duration;

struct Rig {
    wb: Contexts,
    inode: Arc<Inode>,
    mem: Memory,
}

impl Rig {
    fn new(contexts: u32) -> LoomArc<Self> {
        let wb = Contexts::new(ContextSetting::Auto, None);
        {
            let mut table = wb.table.write();
            (1..contexts).for_each(|id| table.contexts.push(Arc::new(Context::new(id, false))));
        }
        let frame = Arc::new(NodeFrame::new(Ino::ROOT.nid(), Ino::ROOT, shared(Block::zeroed())));
        let inode = crate::files::InodeCache::new(Arc::default()).insert(frame);
        LoomArc::new(Self { wb, inode, mem: Memory::default() })
    }
    /// Models a write to a page; tags ascend.
    fn write(&self, tag: u8) {
        self.inode.pages.lock().modify(0, &self.mem, || shared(Block::zeroed()), |b| b.0[0] = tag);
        self.wb.mark_dirty(&self.inode);
    }
    /// Models a flush; returns the tag written to the device.
    fn flush(&self, id: u64) -> Option<u8> {
        let _flush = self.inode.flush.lock();
        let out = self.inode.pages.lock().begin_flush(0, id, &self.mem);
        let written = out.as_ref().map(|b| b.0[0]);
        if let Some(block) = out {
            self.inode.pages.lock().end_flush(0, id, false, &self.mem);
            assert_eq!(Some(block.0[0]), written, "a block changed during its write");
        }
        assert!(self.wb.settle(&self.inode));
        written
    }
    /// Models a sync: flushes every file listed when it starts.
    fn sync(&self, id: u64) -> Option<u8> {
        let files: Vec<Arc<Inode>> = self.wb.all().into_iter().flat_map(|(_, files)| files).collect();
        assert!(files.len() <= 1, "on two lists");
        files.first().and_then(|_| self.flush(id))
    }
    fn leave(&self) {
        let from = self.wb.contexts();
        from.iter().for_each(|c| self.wb.migrate(&self.inode, c));
    }
    fn check(&self, last: u8, written: u8) {
        let dirty = self.inode.pages.lock().dirty() as u64;
        assert!(dirty > 0 || written == last, "a change is lost: neither written nor dirty");
        let lists: Vec<usize> = self.wb.all().iter().map(|(_, files)| files.len()).collect();
        assert_eq!(
            lists.iter().sum::<usize>(),
            usize::from(dirty > 0),
            "{lists:?}: no sync finds the dirty page"
        );
        let counted: u64 = self.wb.contexts().iter().map(|c| c.dirty()).sum();
        assert_eq!(
            (counted, self.mem.dirty_data.get()),
            (dirty, dirty),
            "dirty pages by context, in total, of the file"
        );
    }
}

fn explore(f: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(f);
}

#[test]
fn no_dirty_page_is_lost_while_a_flush_runs() {
    loom::model(|| {
        let rig = Rig::new(1);
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
    explore(|| {
        let rig = Rig::new(1);
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

#[test]
fn a_file_that_moves_is_found_by_every_sync() {
    explore(|| {
        let rig = Rig::new(2);
        rig.write(1);
        let mover = {
            let rig = rig.clone();
            thread::spawn(move || rig.leave())
        };
        let written = rig.sync(1).unwrap_or(0);
        assert_eq!(written, 1, "the page was dirty before the sync began");
        mover.join().unwrap();
        rig.check(1, written);
    });
}

#[test]
fn a_file_that_moves_while_it_is_written_and_flushed_stays_on_one_list() {
    explore(|| {
        let rig = Rig::new(2);
        rig.write(1);
        let others = [
            thread::spawn({
                let rig = rig.clone();
                move || {
                    rig.leave();
                    None
                }
            }),
            thread::spawn({
                let rig = rig.clone();
                move || rig.flush(1)
            }),
        ];
        rig.write(2);
        let written = others.into_iter().filter_map(|t| t.join().unwrap()).max().unwrap_or(0);
        rig.check(2, written);
    });
}

/// A wake races with a thread that is about to exit: the thread takes the work, or another is started.
#[test]
fn a_wake_is_served_or_starts_a_thread() {
    loom::model(|| {
        let pool = LoomArc::new(Pool::new(2));
        let served = LoomArc::new(LoomBool::new(false));
        assert!(pool.wake(1));
        let serve = |pool: LoomArc<Pool>, served: LoomArc<LoomBool>| {
            move || {
                while let Some(id) = pool.next(Duration::ZERO) {
                    if id == 2 {
                        assert!(!served.swap(true, LoomOrdering::AcqRel), "served twice");
                    }
                    assert!(pool.done(id, false));
                }
            }
        };
        let first = thread::spawn(serve(pool.clone(), served.clone()));
        let second = pool.wake(2).then(|| thread::spawn(serve(pool.clone(), served.clone())));
        first.join().unwrap();
        second.into_iter().for_each(|t| t.join().unwrap());
        assert!(served.load(LoomOrdering::Acquire), "work was not served");
        assert_eq!(pool.threads(), 0);
    });
}
