//! Grants under way. While one is, its blocks may count as promised and as used, so figures that were read meanwhile do not show that space
//! is spent, and the caller that is short of room waits for its end.
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

/// Explores all schedules of grants and a waiter: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::thread;

    /// A caller that found no room waits for grants that hold it, and finds it afterwards; a lost wakeup is a thread that never ends.
    #[test]
    fn room_that_grants_give_back_is_found() {
        loom::model(|| {
            let rig = Arc::new((UnderWay::default(), AtomicU64::new(0)));
            let grants: Vec<_> = (0..2)
                .map(|_| {
                    let rig = rig.clone();
                    thread::spawn(move || {
                        let (under_way, held) = &*rig;
                        let _ends = under_way.begin();
                        held.fetch_add(1, Ordering::SeqCst);
                        held.fetch_sub(1, Ordering::SeqCst);
                    })
                })
                .collect();
            let (under_way, held) = &*rig;
            loop {
                let then = under_way.seen();
                if held.load(Ordering::SeqCst) == 0 {
                    break;
                }
                // Blocks that are held now were counted by a grant that shows.
                assert!(!under_way.none_since(then));
                under_way.wait_for_end(then);
            }
            grants.into_iter().for_each(|grant| grant.join().unwrap());
            let then = under_way.seen();
            assert!(under_way.none_since(then));
        });
    }
}
