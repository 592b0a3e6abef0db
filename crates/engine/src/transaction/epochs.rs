//! Membership in journal epochs. Joining takes no lock and does not block.
use crate::stat::Sampled;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::cell::Cell;

/// Counters per epoch, so that threads do not contend for one.
const STRIPES: usize = if cfg!(feature = "loom") { 1 } else { 8 };

/// Open epoch and member counts. Up to two epochs have members.
#[derive(Debug, Default)]
pub struct Epochs {
    current: AtomicU64,
    active: [[Stripe; STRIPES]; 2],
    /// Times taken to join.
    pub joins: Sampled,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe(AtomicU32);

impl Epochs {
    /// The open epoch; 0 without a journal.
    pub fn open(&self) -> u64 {
        self.current.load(Ordering::SeqCst)
    }
    /// Opens an epoch while the gate is closed or the volume is not in use yet. 0 stops journaling and is allowed at any
    /// time.
    pub fn set(&self, epoch: u64) {
        self.current.store(epoch, Ordering::SeqCst);
    }

    /// Joins the open epoch; returns its number and the counter to decrement.
    pub fn join(&self) -> (u64, Option<&AtomicU32>) {
        self.joins.time(|| self.join_untimed())
    }

    fn join_untimed(&self) -> (u64, Option<&AtomicU32>) {
        loop {
            let epoch = self.current.load(Ordering::SeqCst);
            if epoch == 0 {
                return (0, None);
            }
            // Counted before the second load: either the thread that ends the epoch reads the count, or this
            // one reads that the epoch has ended.
            let Some(active) = self.stripes(epoch).get(stripe()) else { return (0, None) };
            active.0.fetch_add(1, Ordering::SeqCst);
            // Both threads write and then read the other's variable: at least one of them reads the other's
            // write.
            fence(Ordering::SeqCst);
            if self.current.load(Ordering::SeqCst) == epoch {
                return (epoch, Some(&active.0));
            }
            active.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn stripes(&self, epoch: u64) -> &[Stripe; STRIPES] {
        let [even, odd] = &self.active;
        if epoch.is_multiple_of(2) { even } else { odd }
    }

    /// Opens the next epoch; returns the previous one once all its members have left. Call it from one thread at a time,
    /// once the epoch before is written: both share the counters.
    pub fn end(&self) -> u64 {
        let epoch = self.current.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        for active in self.stripes(epoch) {
            let mut tries = 0u32;
            // No member can be added, so a counter that was once 0 stays empty.
            while active.0.load(Ordering::SeqCst) != 0 {
                tries += 1;
                wait(tries);
            }
        }
        epoch
    }
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
fn wait(tries: u32) {
    if tries < 100 {
        std::thread::yield_now()
    } else {
        std::thread::sleep(std::time::Duration::from_micros(50))
    }
}
#[cfg(feature = "loom")]
fn wait(_tries: u32) {
    loom::thread::yield_now();
}
#[cfg(all(feature = "shuttle", not(feature = "loom")))]
fn wait(_tries: u32) {
    shuttle::thread::yield_now();
}

/// The counter of this thread.
fn stripe() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % STRIPES);
        }
        mine.get()
    })
}

/// Schedules of two operations and the end of an epoch, with up to two preemptions:
/// `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn an_ended_epoch_has_all_records_of_its_operations() {
        let mut schedules = loom::model::Builder::new();
        // Without a bound the fences make this take hours.
        schedules.preemption_bound = Some(2);
        schedules.check(|| {
            let epochs = Arc::new(Epochs::default());
            epochs.set(4);
            let recorded = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let ops: Vec<_> = (0..2)
                .map(|_| {
                    let (epochs, recorded) = (epochs.clone(), recorded.clone());
                    thread::spawn(move || {
                        let (epoch, active) = epochs.join();
                        recorded[(epoch - 4) as usize].fetch_add(1, Ordering::Relaxed);
                        active.unwrap().fetch_sub(1, Ordering::SeqCst);
                        epoch
                    })
                })
                .collect();
            assert_eq!(epochs.end(), 4);
            let taken = recorded[0].load(Ordering::Relaxed);
            let in_first = ops.into_iter().map(|t| t.join().unwrap()).filter(|&e| e == 4).count() as u32;
            assert_eq!(taken, in_first, "an operation recorded into an epoch that was taken");
        });
    }
}
