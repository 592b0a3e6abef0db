//! Work on several threads whose results are used in the order of the jobs.
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;

/// Jobs that may be done before the results of earlier ones were used, for each thread.
const AHEAD: u64 = 4;

/// Gives jobs one after the other until there are none.
pub(crate) type Jobs<'a, J> = &'a mut (dyn FnMut() -> Result<Option<J>> + Send);

struct State<'a, J, R> {
    jobs: Jobs<'a, J>,
    /// Number of the next job, and of the result that is used next.
    next: u64,
    used: u64,
    done: BTreeMap<u64, Result<R>>,
    /// No further job is taken.
    ended: bool,
}

struct Shared<'a, J, R> {
    state: Mutex<State<'a, J, R>>,
    /// A result is there, or no thread will bring one.
    ready: Condvar,
    /// Results were used.
    room: Condvar,
    ahead: u64,
}

/// Does all jobs, each with the state of its thread, and uses their results in order, on the calling thread. The first error in
/// that order is returned.
pub(crate) fn ordered<J: Send, R: Send, W>(
    threads: usize,
    jobs: Jobs<'_, J>,
    state: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, J) -> Result<R> + Sync,
    mut each: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    if threads <= 1 {
        let mut state = state();
        while let Some(job) = jobs()? {
            each(work(&mut state, job)?)?;
        }
        return Ok(());
    }
    let shared = Shared {
        state: Mutex::new(State { jobs, next: 0, used: 0, done: BTreeMap::new(), ended: false }),
        ready: Condvar::new(),
        room: Condvar::new(),
        ahead: AHEAD * threads as u64,
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = state();
                while let Some((number, job)) = shared.take() {
                    let answer = Answer { shared: &shared, number };
                    let result = work(&mut own, job);
                    answer.give(result);
                }
            });
        }
        let used = shared.use_all(&mut each);
        shared.stop();
        used
    })
}

/// The result of a job is awaited, so a thread that panics gives one too.
struct Answer<'s, 'a, J, R> {
    shared: &'s Shared<'a, J, R>,
    number: u64,
}

impl<J, R> Answer<'_, '_, J, R> {
    fn give(self, result: Result<R>) {
        self.shared.put(self.number, result);
    }
}

impl<J, R> Drop for Answer<'_, '_, J, R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.put(self.number, Err(Error::Invariant("a thread panicked")));
        }
    }
}

impl<J, R> Shared<'_, J, R> {
    fn take(&self) -> Option<(u64, J)> {
        let mut state = self.state.lock();
        while !state.ended && state.next >= state.used + self.ahead {
            self.room.wait(&mut state);
        }
        if state.ended {
            return None;
        }
        let number = state.next;
        match (state.jobs)() {
            Ok(Some(job)) => {
                state.next += 1;
                return Some((number, job));
            }
            Ok(None) => {}
            Err(e) => {
                state.next += 1;
                state.done.insert(number, Err(e));
            }
        }
        state.ended = true;
        self.ready.notify_all();
        self.room.notify_all();
        None
    }

    fn put(&self, number: u64, result: Result<R>) {
        self.state.lock().done.insert(number, result);
        self.ready.notify_all();
    }

    fn use_all(&self, each: &mut impl FnMut(R) -> Result<()>) -> Result<()> {
        loop {
            let mut state = self.state.lock();
            let number = state.used;
            let result = loop {
                if let Some(result) = state.done.remove(&number) {
                    break result;
                }
                if state.ended && number == state.next {
                    return Ok(());
                }
                self.ready.wait(&mut state);
            };
            drop(state);
            each(result?)?;
            self.state.lock().used += 1;
            self.room.notify_all();
        }
    }

    fn stop(&self) {
        self.state.lock().ended = true;
        self.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(threads: usize, fail_at: Option<u32>) -> Result<Vec<u32>> {
        let (mut next, mut seen) = (0, Vec::new());
        let mut jobs = || {
            next += 1;
            Ok((next <= 500).then_some(next))
        };
        let work = |_: &mut (), job: u32| {
            std::thread::sleep(std::time::Duration::from_micros(u64::from(job * 7919 % 40)));
            if Some(job) == fail_at { Err(Error::TooLarge) } else { Ok(job * 2) }
        };
        ordered(
            threads,
            &mut jobs,
            || (),
            work,
            |r| {
                seen.push(r);
                Ok(())
            },
        )?;
        Ok(seen)
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let wanted: Vec<u32> = (1..=500).map(|n| n * 2).collect();
        for threads in [1, 2, 8] {
            assert_eq!(run(threads, None).unwrap(), wanted);
            assert!(matches!(run(threads, Some(77)), Err(Error::TooLarge)));
        }
    }

    #[test]
    fn an_error_of_the_jobs_or_of_their_use_ends_the_work() {
        for threads in [1, 4] {
            let mut jobs = || Err::<Option<u32>, _>(Error::TooLarge);
            assert!(ordered(threads, &mut jobs, || (), |(), j| Ok(j), |_| Ok(())).is_err());
            let mut jobs = || Ok(Some(1));
            let refuse = |_| Err(Error::TooLarge);
            assert!(ordered(threads, &mut jobs, || (), |(), j| Ok(j), refuse).is_err());
        }
    }
}
