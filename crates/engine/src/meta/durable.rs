//! Which writes a device flush has covered, so that no flush is issued twice for the same writes.
use crate::error::Result;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};

/// A flush covers the writes that returned before it was issued. A caller who finds one running waits for the next one,
/// and one caller issues it for all that wait.
#[derive(Debug, Default)]
pub struct Durable {
    /// Writes that have returned.
    written: AtomicU64,
    /// A leaf lock, never held while the device works.
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many of the writes a flush has covered.
    flushed: u64,
    running: bool,
}

impl Durable {
    /// A write returned.
    pub fn note_write(&self) {
        self.written.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns when all writes noted before the call are durable.
    pub fn make(&self, flush: impl Fn() -> Result<()>) -> Result<()> {
        let wanted = self.written.load(Ordering::Acquire);
        let mut state = self.state.lock();
        loop {
            if state.flushed >= wanted {
                return Ok(());
            }
            if !state.running {
                break;
            }
            self.ended.wait(&mut state);
        }
        state.running = true;
        drop(state);
        let covered = self.written.load(Ordering::Acquire);
        let done = flush();
        let mut state = self.state.lock();
        state.running = false;
        if done.is_ok() {
            state.flushed = covered;
        }
        self.ended.notify_all();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn a_flush_is_issued_only_for_new_writes() {
        let (durable, issued) = (Durable::default(), AtomicU32::new(0));
        let flush = || {
            issued.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        durable.make(flush).unwrap();
        assert_eq!(issued.load(Ordering::Relaxed), 0, "nothing was written");
        durable.note_write();
        durable.make(flush).unwrap();
        durable.make(flush).unwrap();
        assert_eq!(issued.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_failed_flush_covers_nothing() {
        let durable = Durable::default();
        durable.note_write();
        assert!(durable.make(|| Err(Error::Stopped)).is_err());
        assert!(
            durable.make(|| Err(Error::Stopped)).is_err(),
            "the second caller must not be told that all is well"
        );
        durable.make(|| Ok(())).unwrap();
        durable.make(|| Err(Error::Stopped)).unwrap();
    }

    #[test]
    fn a_write_during_a_flush_waits_for_the_next_one() {
        let (durable, issued) = (Durable::default(), AtomicU32::new(0));
        durable.note_write();
        let (begun, wait_begun) = mpsc::channel();
        let (go, wait_go) = mpsc::channel();
        thread::scope(|s| {
            let (durable, issued) = (&durable, &issued);
            s.spawn(move || {
                let first = || {
                    begun.send(()).unwrap();
                    wait_go.recv().unwrap();
                    issued.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                };
                durable.make(first).unwrap();
            });
            wait_begun.recv().unwrap();
            durable.note_write();
            let late: Vec<_> = (0..3)
                .map(|_| {
                    s.spawn(move || {
                        durable.make(|| {
                            issued.fetch_add(1, Ordering::Relaxed);
                            Ok(())
                        })
                    })
                })
                .collect();
            go.send(()).unwrap();
            late.into_iter().for_each(|t| t.join().unwrap().unwrap());
        });
        assert_eq!(
            issued.load(Ordering::Relaxed),
            2,
            "one for the first caller, one for the three that waited"
        );
    }
}

/// Every schedule of callers of a flush: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::error::Error;
    use loom::sync::Arc;
    use loom::thread;

    /// A device that knows which writes a flush covered.
    #[derive(Default)]
    struct Cache {
        durable: Durable,
        arrived: AtomicU64,
        safe: AtomicU64,
        flushes: AtomicU64,
    }

    impl Cache {
        /// Writes and flushes; flush number `fails` fails. Returns whether the caller was told that all is well.
        fn write_and_flush(&self, fails: u64) -> bool {
            let mine = self.arrived.fetch_add(1, Ordering::AcqRel) + 1;
            self.durable.note_write();
            let flush = || {
                let covered = self.arrived.load(Ordering::Acquire);
                if self.flushes.fetch_add(1, Ordering::AcqRel) == fails {
                    return Err(Error::Stopped);
                }
                self.safe.fetch_max(covered, Ordering::AcqRel);
                Ok(())
            };
            let done = self.durable.make(flush).is_ok();
            assert!(
                !done || self.safe.load(Ordering::Acquire) >= mine,
                "released by a flush from before its write"
            );
            done
        }
    }

    fn callers(count: usize, fails: u64) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let cache = Arc::new(Cache::default());
            let others: Vec<_> = (1..count)
                .map(|_| {
                    let cache = cache.clone();
                    thread::spawn(move || cache.write_and_flush(fails))
                })
                .collect();
            let mut told = vec![cache.write_and_flush(fails)];
            // Nobody waits for ever: loom reports threads that are left.
            told.extend(others.into_iter().map(|t| t.join().unwrap()));
            let failed = told.iter().filter(|&&ok| !ok).count();
            assert_eq!(failed, usize::from(fails == 0), "who issued the flush that failed, and nobody else");
            assert!(cache.flushes.load(Ordering::Acquire) <= count as u64);
        });
    }

    #[test]
    fn a_caller_is_released_by_a_flush_issued_after_its_write() {
        callers(2, u64::MAX);
        callers(3, u64::MAX);
    }

    #[test]
    fn a_failed_flush_releases_only_who_issued_it() {
        callers(2, 0);
        callers(3, 0);
    }
}
