//! Tracks which writes are durable, and shares device flushes between callers.
use crate::error::Result;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// A flush covers the writes that returned before it was issued. A caller that finds a flush running waits for it if
/// that covers its writes, otherwise for the next one, which one caller issues for all waiters.
///
/// A strict fsync flushes twice, with a small write in between. A leader for such callers first waits for the
/// callers that the last flush released, so that one flush is the second of these and the first of the
/// others. Callers between their flushes wait only for the gate and the chain. The owner of either waits for
/// no flush, or, like a checkpoint, requests one that is issued immediately.
#[derive(Debug, Default)]
pub struct Durable {
    /// Writes that have returned.
    written: AtomicU64,
    /// A leaf lock, not held during device I/O.
    state: Mutex<FlushState>,
    ended: Condvar,
    /// No caller is between its flushes any more, or an urgent one waits.
    gathered: Condvar,
    requested: AtomicU64,
    issued: AtomicU64,
}

#[derive(Debug, Default)]
struct FlushState {
    /// Number of writes covered by a flush.
    flushed: u64,
    /// A caller issues a flush, or waits for others to share it.
    running: bool,
    /// Flushes issued.
    round: u64,
    /// Number of the last flush that succeeded.
    succeeded: u64,
    /// Number of writes that the flush being issued covers.
    issuing: Option<u64>,
    /// Callers whose first flush is being issued.
    served: u32,
    /// Callers waiting for their first flush to be issued.
    first: u32,
    /// Callers between their two flushes, counted from the end of the first one.
    in_flight: u32,
    /// Waiting callers that do not wait for callers between their flushes.
    urgent: u32,
}

/// The number of writes that have returned, and that a flush must cover. It is taken before the caller waits
/// for locks or for a checkpoint; often these writes are durable by the time the caller needs them to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written(u64);

/// Kind of caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// Holds locks that others may need, so it does not wait for them.
    Urgent,
    Shared,
    /// Will flush again shortly.
    First,
    /// Flushes again. It leaves `in_flight` before it waits, so that a leader does not wait for it.
    Second,
}

impl FlushState {
    /// Registers a caller that waits for a flush; returns the first flush certain to cover it.
    fn enter(&mut self, caller: Caller, wanted: u64) -> u64 {
        let covers = self.issuing.is_some_and(|writes| writes >= wanted);
        match caller {
            Caller::Urgent => self.urgent += 1,
            Caller::First if covers => self.served += 1,
            Caller::First => self.first += 1,
            Caller::Shared | Caller::Second => {}
        }
        self.round + u64::from(!covers)
    }

    /// Begins a flush that covers `writes`.
    fn begun(&mut self, writes: u64) {
        self.round += 1;
        self.issuing = Some(writes);
        self.served = std::mem::take(&mut self.first);
    }

    fn ended(&mut self, succeeded: bool) {
        self.running = false;
        let served = std::mem::take(&mut self.served);
        match self.issuing.take() {
            Some(writes) if succeeded => {
                (self.flushed, self.succeeded) = (writes, self.round);
                self.in_flight += served;
            }
            // They wait for the next one.
            _ => self.first += served,
        }
    }
}

/// Permits a second flush; other callers wait briefly for it.
#[derive(Debug)]
pub struct More<'a>(Option<&'a Durable>);

impl Durable {
    /// Counts a write that returned.
    pub fn note_write(&self) {
        self.written.fetch_add(1, Ordering::AcqRel);
    }

    /// The writes that have returned.
    pub fn written(&self) -> Written {
        Written(self.written.load(Ordering::Acquire))
    }

    /// Whether a flush has covered these writes.
    pub fn covers(&self, wanted: Written) -> bool {
        self.state.lock().flushed >= wanted.0
    }

    /// Returns once all writes that returned before the call are durable.
    pub fn make(&self, flush: impl Fn() -> Result<()>) -> Result<()> {
        self.lead_or_follow(Caller::Urgent, self.written(), flush)
    }

    /// Returns once `wanted` is durable, for a caller that may wait for callers between their flushes.
    pub fn make_shared(&self, wanted: Written, flush: impl Fn() -> Result<()>) -> Result<()> {
        self.lead_or_follow(Caller::Shared, wanted, flush)
    }

    /// The first of two flushes.
    pub fn make_before_more(&self, wanted: Written, flush: impl Fn() -> Result<()>) -> Result<More<'_>> {
        self.lead_or_follow(Caller::First, wanted, flush)?;
        Ok(More(Some(self)))
    }

    /// Flushes requested, and flushes issued.
    pub fn counts(&self) -> (u64, u64) {
        (self.requested.load(Ordering::Relaxed), self.issued.load(Ordering::Relaxed))
    }

    fn lead_or_follow(
        &self,
        caller: Caller,
        Written(wanted): Written,
        flush: impl Fn() -> Result<()>,
    ) -> Result<()> {
        self.requested.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        if caller == Caller::Second {
            self.leave_in_flight(&mut state);
        }
        if state.flushed >= wanted {
            if caller == Caller::First {
                state.in_flight += 1;
            }
            return Ok(());
        }
        let covered_by = state.enter(caller, wanted);
        if caller == Caller::Urgent {
            self.gathered.notify_all();
        }
        while state.succeeded < covered_by && state.running {
            self.ended.wait(&mut state);
        }
        let mut done = Ok(());
        if state.succeeded < covered_by {
            (state, done) = self.lead(state, flush);
        }
        match caller {
            Caller::Urgent => state.urgent -= 1,
            Caller::First if done.is_err() => state.first -= 1,
            Caller::First | Caller::Shared | Caller::Second => {}
        }
        done
    }

    /// Issues a flush for all waiting callers.
    fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, FlushState>,
        flush: impl Fn() -> Result<()>,
    ) -> (MutexGuard<'a, FlushState>, Result<()>) {
        state.running = true;
        while state.in_flight > 0 && state.urgent == 0 {
            self.gathered.wait(&mut state);
        }
        state.begun(self.written.load(Ordering::Acquire));
        drop(state);
        self.issued.fetch_add(1, Ordering::Relaxed);
        let done = flush();
        let mut state = self.state.lock();
        state.ended(done.is_ok());
        self.ended.notify_all();
        (state, done)
    }

    fn leave_in_flight(&self, state: &mut FlushState) {
        state.in_flight -= 1;
        if state.in_flight == 0 {
            self.gathered.notify_all();
        }
    }
}

impl More<'_> {
    /// The second flush.
    pub fn make(mut self, wanted: Written, flush: impl Fn() -> Result<()>) -> Result<()> {
        let Some(durable) = self.0.take() else { return Ok(()) };
        durable.lead_or_follow(Caller::Second, wanted, flush)
    }
}

impl Drop for More<'_> {
    /// The caller needs no second flush.
    fn drop(&mut self) {
        if let Some(durable) = self.0 {
            durable.leave_in_flight(&mut durable.state.lock());
        }
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
        assert!(durable.make(|| Err(Error::Stopped)).is_err(), "the second caller must get the error too");
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

    #[test]
    fn a_running_flush_serves_whom_it_covers() {
        let durable = Durable::default();
        durable.note_write();
        let (begun, wait_begun) = mpsc::channel();
        let (go, wait_go) = mpsc::channel();
        let late = || panic!("a flush that covers the write is running");
        thread::scope(|s| {
            let durable = &durable;
            s.spawn(move || {
                let running = || {
                    begun.send(()).unwrap();
                    wait_go.recv().unwrap();
                    Ok(())
                };
                durable.make(running).unwrap();
            });
            wait_begun.recv().unwrap();
            s.spawn(move || durable.make(late).unwrap());
            s.spawn(move || drop(durable.make_before_more(durable.written(), late).unwrap()));
            let entered = |state: &FlushState| state.urgent == 2 && state.first + state.served == 1;
            while !entered(&durable.state.lock()) {
                thread::yield_now();
            }
            go.send(()).unwrap();
        });
        let state = durable.state.lock();
        assert_eq!((state.first, state.in_flight, state.urgent), (0, 0, 0));
    }

    #[test]
    fn a_steady_stream_of_two_step_callers_shares_flushes() {
        const CALLERS: u64 = 50;
        let durable = Durable::default();
        let first = || {
            durable.note_write();
            durable.make_before_more(durable.written(), || Ok(())).unwrap()
        };
        let mut more = first();
        for _ in 1..CALLERS {
            thread::scope(|s| {
                let next = s.spawn(first);
                while !durable.state.lock().running && !next.is_finished() {
                    thread::yield_now();
                }
                // The leader waits for this second flush, and issues one flush for both.
                durable.note_write();
                std::mem::replace(&mut more, More(None)).make(durable.written(), || Ok(())).unwrap();
                more = next.join().unwrap();
            });
        }
        durable.note_write();
        more.make(durable.written(), || Ok(())).unwrap();
        assert_eq!(durable.counts(), (2 * CALLERS, CALLERS + 1));
    }

    #[test]
    fn a_single_two_step_caller_issues_both_flushes() {
        let durable = Durable::default();
        for _ in 0..20 {
            durable.note_write();
            let more = durable.make_before_more(durable.written(), || Ok(())).unwrap();
            durable.note_write();
            more.make(durable.written(), || Ok(())).unwrap();
        }
        assert_eq!(durable.counts().1, 40);
    }

    #[test]
    fn a_failed_first_flush_leaves_no_caller_to_wait_for() {
        let durable = Durable::default();
        durable.note_write();
        thread::scope(|s| {
            let calls: Vec<_> = (0..4)
                .map(|_| {
                    s.spawn(|| durable.make_before_more(durable.written(), || Err(Error::Stopped)).is_err())
                })
                .collect();
            calls.into_iter().for_each(|c| assert!(c.join().unwrap()));
        });
        let state = durable.state.lock();
        assert_eq!((state.first, state.in_flight, state.urgent), (0, 0, 0));
    }

    #[test]
    fn an_urgent_caller_does_not_wait_for_second_flushes() {
        let durable = Durable::default();
        durable.note_write();
        let more = durable.make_before_more(durable.written(), || Ok(())).unwrap();
        durable.note_write();
        // No other thread could end the wait: this returns only because it does not wait for `more`.
        durable.make(|| Ok(())).unwrap();
        drop(more);
        durable.note_write();
        durable.make_shared(durable.written(), || Ok(())).unwrap();
        assert_eq!(durable.counts(), (3, 3));
    }

    #[test]
    fn an_urgent_caller_ends_gathering() {
        let durable = Durable::default();
        durable.note_write();
        let more = durable.make_before_more(durable.written(), || Ok(())).unwrap();
        durable.note_write();
        thread::scope(|s| {
            let gathering = s.spawn(|| durable.make_shared(durable.written(), || Ok(())));
            while !durable.state.lock().running {
                thread::yield_now();
            }
            durable.make(|| Ok(())).unwrap();
            gathering.join().unwrap().unwrap();
        });
        drop(more);
    }
}

/// Every schedule of callers of a flush: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::error::Error;
    use loom::sync::Arc;
    use loom::thread;

    /// A device that tracks which writes a flush covered.
    #[derive(Default)]
    struct Cache {
        durable: Durable,
        arrived: AtomicU64,
        safe: AtomicU64,
        flushes: AtomicU64,
    }

    impl Cache {
        /// Writes and flushes; flush number `fails` fails. Returns whether the caller got success.
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
            // No caller waits forever: loom reports threads that are left.
            told.extend(others.into_iter().map(|t| t.join().unwrap()));
            let failed = told.iter().filter(|&&ok| !ok).count();
            assert_eq!(
                failed,
                usize::from(fails == 0),
                "only the caller that issued the failed flush gets an error"
            );
            assert!(cache.flushes.load(Ordering::Acquire) <= count as u64);
        });
    }

    #[test]
    fn a_caller_is_released_by_a_flush_issued_after_its_write() {
        callers(2, u64::MAX);
        callers(3, u64::MAX);
    }

    /// A strict fsync: a write, a flush, a smaller write, a flush.
    fn in_two_steps(cache: &Cache) {
        let write = || {
            let mine = cache.arrived.fetch_add(1, Ordering::AcqRel) + 1;
            cache.durable.note_write();
            mine
        };
        let flush = || {
            cache.safe.fetch_max(cache.arrived.load(Ordering::Acquire), Ordering::AcqRel);
            Ok(())
        };
        let first = write();
        let more = cache.durable.make_before_more(cache.durable.written(), flush).unwrap();
        assert!(cache.safe.load(Ordering::Acquire) >= first);
        let second = write();
        more.make(cache.durable.written(), flush).unwrap();
        assert!(cache.safe.load(Ordering::Acquire) >= second);
    }

    #[test]
    fn two_step_callers_share_flushes_without_deadlock() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let cache = Arc::new(Cache::default());
            let other = {
                let cache = cache.clone();
                thread::spawn(move || in_two_steps(&cache))
            };
            let urgent = {
                let cache = cache.clone();
                thread::spawn(move || assert!(cache.write_and_flush(u64::MAX)))
            };
            in_two_steps(&cache);
            other.join().unwrap();
            urgent.join().unwrap();
            let state = cache.durable.state.lock();
            assert_eq!((state.first, state.in_flight, state.urgent), (0, 0, 0));
        });
    }

    #[test]
    fn a_failed_flush_fails_only_its_issuer() {
        callers(2, 0);
        callers(3, 0);
    }
}
