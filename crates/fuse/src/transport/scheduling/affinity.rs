//! CPU affinity of a queue thread. It waits for requests bound to the CPU of its queue, so that the caller wakes no other
//! CPU. While it waits for a device it may run anywhere: the CPU that takes the interrupt continues the thread and wakes
//! no other CPU either, which in a virtual machine takes as long as a fast disk. The caller follows the thread there.
//! A thread whose wait ended on its own CPU stays bound for a while.
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use segno_device::before_waits;
use std::cell::Cell;

/// Requests that are served bound after a wait that ended on the queue's CPU.
const BOUND_REQUESTS: u32 = 64;

thread_local! {
    /// Allowed CPUs of the process while this thread is bound to one of them.
    static BOUND_FROM: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

/// Affinity of the calling thread to the CPU of its queue.
#[derive(Debug)]
pub(super) struct Affinity {
    cpu: u16,
    /// Allowed CPUs of the process; `None` if the thread cannot be bound.
    allowed: Option<CpuSet>,
    /// Requests until waits may unbind the thread again.
    bound_requests: u32,
}

impl Affinity {
    /// Binds the calling thread. An offline CPU has no callers, so its queue may be served from any CPU.
    pub(super) fn new(cpu: u16) -> Self {
        let mut it = Self { cpu, allowed: sched_getaffinity(None).ok(), bound_requests: 0 };
        it.bind();
        before_waits(it.allowed.map(|_| unbind as fn()));
        it
    }

    /// Whether a wait has unbound the thread.
    pub(super) fn is_unbound(&self) -> bool {
        self.allowed.is_some() && BOUND_FROM.get().is_none()
    }

    /// Binds the thread again after a wait.
    pub(super) fn rebind(&mut self) {
        if sched_getcpu() == usize::from(self.cpu) {
            self.bound_requests = BOUND_REQUESTS;
            before_waits(None);
        }
        self.bind();
    }

    /// Counts a request that was served bound.
    pub(super) fn count_request(&mut self) {
        if self.bound_requests > 0 {
            self.bound_requests -= 1;
            if self.bound_requests == 0 {
                before_waits(Some(unbind));
            }
        }
    }

    fn bind(&mut self) {
        let mut own = CpuSet::new();
        own.set(self.cpu.into());
        if sched_setaffinity(None, &own).is_err() {
            self.allowed = None;
        }
        BOUND_FROM.set(self.allowed);
    }
}

/// Lets the calling thread run on any allowed CPU.
fn unbind() {
    if let Some(cpus) = BOUND_FROM.take() {
        // On failure the thread stays bound.
        let _unbound = sched_setaffinity(None, &cpus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus() -> u32 {
        sched_getaffinity(None).unwrap().count()
    }

    #[test]
    fn a_wait_unbinds_until_one_ends_on_the_own_cpu() {
        let all = cpus();
        let cpu = sched_getcpu() as u16;
        let mut affinity = Affinity::new(cpu);
        assert_eq!((cpus(), affinity.is_unbound()), (1, false));
        unbind();
        assert_eq!((cpus(), affinity.is_unbound()), (all, true));
        affinity.rebind();
        assert_eq!((cpus(), affinity.is_unbound()), (1, false));
        (0..BOUND_REQUESTS).for_each(|_| affinity.count_request());
        assert_eq!(affinity.bound_requests, 0);
        unbind();
        assert_eq!(cpus(), all);
    }
}
