//! Who is in which epoch of the journal. Joining takes no lock and waits for nobody.
use crate::stat::Sampled;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::cell::Cell;

/// Counters per epoch, so that threads do not share one.
const STRIPES: usize = if cfg!(feature = "loom") { 1 } else { 8 };

/// Two epochs at most have anybody inside.
#[derive(Debug, Default)]
pub struct Epochs {
    current: AtomicU64,
    active: [[Stripe; STRIPES]; 2],
    /// How long joining takes.
    pub joins: Sampled,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe(AtomicU32);

impl Epochs {
    /// The open epoch; 0 if there is none.
    pub fn open(&self) -> u64 {
        self.current.load(Ordering::SeqCst)
    }
    /// Opens an epoch while nobody joins.
    pub fn set(&self, epoch: u64) {
        self.current.store(epoch, Ordering::SeqCst);
    }

    /// Joins the open epoch: its number and the counter to give back.
    pub fn join(&self) -> (u64, Option<&AtomicU32>) {
        self.joins.time(|| self.join_untimed())
    }

    fn join_untimed(&self) -> (u64, Option<&AtomicU32>) {
        loop {
            let epoch = self.current.load(Ordering::SeqCst);
            if epoch == 0 {
                return (0, None);
            }
            // Counted before the second look: whoever ends the epoch sees the count, or this sees that it ended.
            let Some(active) = self.stripes(epoch).get(stripe()) else { return (0, None) };
            active.0.fetch_add(1, Ordering::SeqCst);
            // Both sides write and then read what the other writes: one of them has to see the other.
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

    /// Opens the next epoch; returns the one that was open when everybody has left it.
    pub fn end(&self) -> u64 {
        let epoch = self.current.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        for active in self.stripes(epoch) {
            let mut tries = 0u32;
            // Nobody new gets in, so a counter that was seen at 0 once stands for an empty stripe.
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

/// Schedules of two operations and the end of an epoch, with two preemptions at most: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn whoever_is_in_an_epoch_has_noted_everything_when_it_has_ended() {
        let mut schedules = loom::model::Builder::new();
        // Without a bound the fences make it hours.
        schedules.preemption_bound = Some(2);
        schedules.check(|| {
            let epochs = Arc::new(Epochs::default());
            epochs.set(4);
            let noted = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let ops: Vec<_> = (0..2)
                .map(|_| {
                    let (epochs, noted) = (epochs.clone(), noted.clone());
                    thread::spawn(move || {
                        let (epoch, active) = epochs.join();
                        noted[(epoch - 4) as usize].fetch_add(1, Ordering::Relaxed);
                        active.unwrap().fetch_sub(1, Ordering::SeqCst);
                        epoch
                    })
                })
                .collect();
            assert_eq!(epochs.end(), 4);
            let taken = noted[0].load(Ordering::Relaxed);
            let in_first = ops.into_iter().map(|t| t.join().unwrap()).filter(|&e| e == 4).count() as u32;
            assert_eq!(taken, in_first, "somebody noted in an epoch that was taken");
        });
    }
}
