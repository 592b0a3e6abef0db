//! Which writes a device flush has covered, so that no flush is issued twice for the same writes.
use crate::error::Result;
use crate::planted::{Bug, planted};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// A flush covers the writes that returned before it was issued. A caller who finds one running waits for the next one,
/// and one caller issues it for all that wait.
///
/// An fsync in strict order flushes twice with one small write in between. Who issues a flush for such callers first lets
/// those come that the last flush has let go: their second flush and the first of the others then are one. They have
/// nothing to wait for but the gate and the chain, and whoever holds those either waits for no flush or, as a checkpoint,
/// asks for one that is issued at once.
#[derive(Debug, Default)]
pub struct Durable {
    /// Writes that have returned.
    written: AtomicU64,
    /// A leaf lock, never held while the device works.
    state: Mutex<State>,
    ended: Condvar,
    /// Nobody is coming any more, or somebody cannot wait.
    gathered: Condvar,
    asked: AtomicU64,
    issued: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// How many of the writes a flush has covered.
    flushed: u64,
    /// Somebody issues a flush, or gathers those to share it.
    running: bool,
    /// Flushes issued.
    round: u64,
    /// The last one that succeeded.
    succeeded: u64,
    /// Callers with a first flush who wait for the next one to be issued.
    first: u32,
    /// Callers between their two flushes, from the moment the first has ended.
    coming: u32,
    /// Waiting callers who do not wait for those who are coming.
    urgent: u32,
}

/// Who asks for a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// Holds what others may need, so it does not wait for them.
    Urgent,
    Shared,
    /// Flushes again in a moment.
    First,
    /// Does so: whoever gathers for it must not flush before it waits.
    Second,
}

impl State {
    /// The caller waits for a flush; gives the first one that covers it for certain.
    fn enter(&mut self, who: Caller) -> u64 {
        match who {
            Caller::Urgent => self.urgent += 1,
            Caller::First => self.first += 1,
            Caller::Shared | Caller::Second => {}
        }
        self.round + 1
    }

    /// A flush ended; `covered` tells which writes are durable, if it succeeded.
    fn ended(&mut self, covered: Option<u64>, served: u32) {
        self.running = false;
        match covered {
            Some(writes) => {
                (self.flushed, self.succeeded) = (writes, self.round);
                self.coming += served;
            }
            // They wait for the next.
            None => self.first += served,
        }
    }
}

/// The right to a second flush; others wait a moment for it.
#[derive(Debug)]
pub struct More<'a>(Option<&'a Durable>);

impl Durable {
    /// A write returned.
    pub fn note_write(&self) {
        self.written.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns when all writes noted before the call are durable.
    pub fn make(&self, flush: impl Fn() -> Result<()>) -> Result<()> {
        self.lead_or_follow(Caller::Urgent, flush)
    }

    /// The same for a caller who waits for those who are coming.
    pub fn make_shared(&self, flush: impl Fn() -> Result<()>) -> Result<()> {
        self.lead_or_follow(Caller::Shared, flush)
    }

    /// The first of two flushes.
    pub fn make_before_more(&self, flush: impl Fn() -> Result<()>) -> Result<More<'_>> {
        self.lead_or_follow(Caller::First, flush)?;
        Ok(More(Some(self)))
    }

    /// Flushes asked for and issued so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.asked.load(Ordering::Relaxed), self.issued.load(Ordering::Relaxed))
    }

    fn lead_or_follow(&self, who: Caller, flush: impl Fn() -> Result<()>) -> Result<()> {
        let wanted = self.written.load(Ordering::Acquire);
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        if who == Caller::Second {
            self.came(&mut state);
        }
        if state.flushed >= wanted {
            if who == Caller::First {
                state.coming += 1;
            }
            return Ok(());
        }
        let covered_by = state.enter(who);
        if who == Caller::Urgent {
            self.gathered.notify_all();
        }
        while state.succeeded < covered_by && state.running {
            self.ended.wait(&mut state);
        }
        let mut done = Ok(());
        if state.succeeded < covered_by {
            (state, done) = self.lead(state, flush);
        }
        match who {
            Caller::Urgent => state.urgent -= 1,
            Caller::First if done.is_err() => state.first -= 1,
            Caller::First | Caller::Shared | Caller::Second => {}
        }
        done
    }

    /// Issues a flush for all who wait.
    fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        flush: impl Fn() -> Result<()>,
    ) -> (MutexGuard<'a, State>, Result<()>) {
        state.running = true;
        while state.coming > 0 && state.urgent == 0 {
            self.gathered.wait(&mut state);
        }
        state.round += 1;
        let served = std::mem::take(&mut state.first);
        let covered = self.written.load(Ordering::Acquire);
        drop(state);
        self.issued.fetch_add(1, Ordering::Relaxed);
        let done = flush();
        let late = planted(Bug::LateWritesFlushed);
        let covered = if late { self.written.load(Ordering::Acquire) } else { covered };
        let mut state = self.state.lock();
        state.ended(done.is_ok().then_some(covered), served);
        self.ended.notify_all();
        (state, done)
    }

    fn came(&self, state: &mut State) {
        state.coming -= 1;
        if state.coming == 0 {
            self.gathered.notify_all();
        }
    }
}

impl More<'_> {
    /// The second flush.
    pub fn make(mut self, flush: impl Fn() -> Result<()>) -> Result<()> {
        let Some(durable) = self.0.take() else { return Ok(()) };
        durable.lead_or_follow(Caller::Second, flush)
    }
}

impl Drop for More<'_> {
    /// The caller does without.
    fn drop(&mut self) {
        if let Some(durable) = self.0 {
            durable.came(&mut durable.state.lock());
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

    #[test]
    fn a_steady_stream_of_two_step_callers_shares_flushes() {
        const CALLERS: u64 = 50;
        let durable = Durable::default();
        let first = || {
            durable.note_write();
            durable.make_before_more(|| Ok(())).unwrap()
        };
        let mut more = first();
        for _ in 1..CALLERS {
            thread::scope(|s| {
                let next = s.spawn(first);
                while !durable.state.lock().running && !next.is_finished() {
                    thread::yield_now();
                }
                // It waits for this second flush, and issues one for both.
                durable.note_write();
                std::mem::replace(&mut more, More(None)).make(|| Ok(())).unwrap();
                more = next.join().unwrap();
            });
        }
        durable.note_write();
        more.make(|| Ok(())).unwrap();
        assert_eq!(durable.counts(), (2 * CALLERS, CALLERS + 1));
    }

    #[test]
    fn a_two_step_caller_alone_pays_for_itself() {
        let durable = Durable::default();
        for _ in 0..20 {
            durable.note_write();
            let more = durable.make_before_more(|| Ok(())).unwrap();
            durable.note_write();
            more.make(|| Ok(())).unwrap();
        }
        assert_eq!(durable.counts().1, 40);
    }

    #[test]
    fn a_failed_first_flush_leaves_nobody_to_wait_for() {
        let durable = Durable::default();
        durable.note_write();
        thread::scope(|s| {
            let calls: Vec<_> = (0..4)
                .map(|_| s.spawn(|| durable.make_before_more(|| Err(Error::Stopped)).is_err()))
                .collect();
            calls.into_iter().for_each(|c| assert!(c.join().unwrap()));
        });
        let state = durable.state.lock();
        assert_eq!((state.first, state.coming, state.urgent), (0, 0, 0));
    }

    #[test]
    fn who_cannot_wait_does_not() {
        let durable = Durable::default();
        durable.note_write();
        let more = durable.make_before_more(|| Ok(())).unwrap();
        durable.note_write();
        // Nobody else is there to end the wait: this returns only because it does not wait for `more`.
        durable.make(|| Ok(())).unwrap();
        drop(more);
        durable.note_write();
        durable.make_shared(|| Ok(())).unwrap();
        assert_eq!(durable.counts(), (3, 3));
    }

    #[test]
    fn a_checkpoint_frees_whoever_gathers() {
        let durable = Durable::default();
        durable.note_write();
        let more = durable.make_before_more(|| Ok(())).unwrap();
        durable.note_write();
        thread::scope(|s| {
            let gathering = s.spawn(|| durable.make_shared(|| Ok(())));
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
        let more = cache.durable.make_before_more(flush).unwrap();
        assert!(cache.safe.load(Ordering::Acquire) >= first);
        let second = write();
        more.make(flush).unwrap();
        assert!(cache.safe.load(Ordering::Acquire) >= second);
    }

    #[test]
    fn callers_with_two_steps_wait_for_each_other_and_never_for_ever() {
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
            assert_eq!((state.first, state.coming, state.urgent), (0, 0, 0));
        });
    }

    #[test]
    fn a_failed_flush_releases_only_who_issued_it() {
        callers(2, 0);
        callers(3, 0);
    }
}
