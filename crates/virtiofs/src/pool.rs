//! Requests taken from the rings, and the threads that wait for them.
use crate::chain::{Chain, Malformed, Vring};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;

/// A request that has been taken from a ring.
pub(crate) struct Job {
    pub(crate) queue: usize,
    pub(crate) chain: Chain,
    pub(crate) vring: Vring,
}

/// Jobs in the order of their arrival.
#[derive(Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
    arrived: Condvar,
    completed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Jobs of each queue that have no reply yet.
    in_flight: Vec<usize>,
    is_closed: bool,
}

impl Pool {
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            state: Mutex::new(State { in_flight: vec![0; queues], ..State::default() }),
            ..Self::default()
        }
    }

    /// Adds a job. A queue has up to `limit`.
    pub(crate) fn push(&self, job: Job, limit: usize) -> Result<(), Malformed> {
        let mut state = self.state.lock();
        match state.in_flight.get_mut(job.queue) {
            Some(n) if *n < limit => *n += 1,
            _ => return Err(Malformed::TooMany),
        }
        state.jobs.push_back(job);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for a job; `None` once the pool is closed.
    pub(crate) fn take(&self) -> Option<Job> {
        let mut state = self.state.lock();
        while !state.is_closed {
            match state.jobs.pop_front() {
                Some(job) => return Some(job),
                None => self.arrived.wait(&mut state),
            }
        }
        None
    }

    /// Notes that a job has its reply.
    pub(crate) fn complete(&self, queue: usize) {
        if let Some(n) = self.state.lock().in_flight.get_mut(queue) {
            *n -= 1;
        }
        self.completed.notify_all();
    }

    /// Waits until no job of these queues is in flight.
    pub(crate) fn wait_until_idle(&self, queues: impl Fn(usize) -> bool) {
        let mut state = self.state.lock();
        while !state.is_closed && state.in_flight.iter().enumerate().any(|(i, n)| *n > 0 && queues(i)) {
            self.completed.wait(&mut state);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Ends all waits. Jobs that no thread has taken are dropped.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.jobs.clear();
        drop(state);
        self.arrived.notify_all();
        self.completed.notify_all();
    }
}
