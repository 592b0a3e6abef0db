//! Work on several threads whose results are used in the order of the jobs.
use crate::{Error, Result};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::mpsc;

/// Jobs that may be done before the results of earlier ones were used, for each thread.
const AHEAD: usize = 4;

/// Returns one job after the other, then `None`.
pub(crate) type Jobs<'a, J> = &'a mut dyn FnMut() -> Result<Option<J>>;

/// Does all jobs, each with the state of its thread, and uses their results in order, on the calling thread.
/// The first error in that order is returned.
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
    let (give, given) = mpsc::channel::<(J, mpsc::Sender<Result<R>>)>();
    let given = Mutex::new(given);
    let next = || given.lock().recv().ok();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = state();
                while let Some((job, answer)) = next() {
                    let _not_awaited_after_an_error = answer.send(work(&mut own, job));
                }
            });
        }
        // The threads end when the sender is dropped.
        let give = give;
        let (mut answers, mut more) = (VecDeque::new(), true);
        loop {
            while more && answers.len() < AHEAD * threads {
                let Some(job) = jobs().transpose() else {
                    more = false;
                    break;
                };
                let (answer, awaited) = mpsc::channel();
                more = job.is_ok();
                // Sending cannot fail: both receivers still exist.
                let _sent = match job {
                    Ok(job) => give.send((job, answer)).is_ok(),
                    Err(e) => answer.send(Err(e)).is_ok(),
                };
                answers.push_back(awaited);
            }
            let Some(awaited) = answers.pop_front() else { return Ok(()) };
            each(awaited.recv().map_err(|_| Error::Invariant("a thread panicked"))??)?;
        }
    })
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
