//! Threads on /dev/fuse run on the CPU of their caller while there is only one.
//!
//! The kernel wakes a waiting thread for each request, on an idle CPU if there is one, and the reply wakes
//! the caller. Waking an idle CPU takes longer than a small request. So after many requests in a row of one
//! caller, none of which waited, all threads are bound to the caller's CPU, and deliver replies at
//! `SCHED_IDLE`, so that the caller stays there. Another caller, an fsync or a wait for a device ends this:
//! the scheduler places the threads again, and requests of several callers are served in parallel.
use super::sched_idle::IdlePolicy;
use crate::wire::InHeader;
use parking_lot::Mutex;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};
use segno_device::before_waits;
use std::cell::RefCell;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Requests in a row of one caller after which threads are bound, and after which the caller's CPU is looked up again.
const RUN: u32 = 32;
/// Least time between two bindings, each of which takes some 20 µs.
const INTERVAL: Duration = Duration::from_millis(2);

thread_local! {
    /// Of the calling thread, for the hook of device waits.
    static OWN: RefCell<Option<Arc<Colocation>>> = const { RefCell::new(None) };
}

/// State shared by the threads of a session. Concurrent updates of the counters may overwrite each other: then there are
/// several callers.
#[derive(Debug)]
pub(super) struct Colocation {
    policy: Arc<IdlePolicy>,
    /// CPUs on which the process may run; `None` if they cannot be changed.
    allowed: Option<CpuSet>,
    /// Thread of the last request.
    caller: AtomicU32,
    /// Number of its requests in a row.
    run: AtomicU32,
    /// Whether `binding` has a CPU.
    bound: AtomicBool,
    /// Requests only try to take it: its owner may be a thread at `SCHED_IDLE`, for which a thread that
    /// holds locks of the engine should not wait. A change that is skipped is made at the next request of
    /// another caller, or the next wait for a device.
    binding: Mutex<Binding>,
}

#[derive(Debug)]
struct Binding {
    threads: Vec<Pid>,
    cpu: Option<usize>,
    /// When the last run was bound.
    since: Option<Instant>,
}

impl Colocation {
    pub(super) fn new(policy: Arc<IdlePolicy>) -> Self {
        Self {
            policy,
            allowed: sched_getaffinity(None).ok(),
            caller: AtomicU32::new(0),
            run: AtomicU32::new(0),
            bound: AtomicBool::new(false),
            binding: Mutex::new(Binding { threads: Vec::new(), cpu: None, since: None }),
        }
    }

    /// Adds the calling thread. It must not end before the others do.
    pub(super) fn join(self: &Arc<Self>) {
        self.binding.lock().threads.push(gettid());
        OWN.set(Some(self.clone()));
        before_waits(Some(a_wait_begins));
    }

    /// Counts a request. Requests of the kernel itself have no caller.
    pub(super) fn count(&self, head: &InHeader) {
        if head.pid == 0 {
            return;
        }
        let other = self.caller.swap(head.pid, Ordering::Relaxed) != head.pid;
        if other || super::is_sync(head) {
            return self.end_run();
        }
        let run = self.run.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if run.is_multiple_of(RUN) {
            self.follow(head.pid);
        }
    }

    /// Whether threads are bound to the CPU of the only caller.
    pub(super) fn is_bound(&self) -> bool {
        self.bound.load(Ordering::Relaxed)
    }

    /// Binds the threads to the CPU of the caller after a run of requests, unless a CPU with other work slows them down.
    fn follow(&self, caller: u32) {
        if !self.policy.is_in_force() {
            return self.end_run();
        }
        let Some(mut binding) = self.binding.try_lock() else { return };
        if binding.cpu.is_none() && binding.since.is_some_and(|since| since.elapsed() < INTERVAL) {
            return;
        }
        let cpu = cpu_of(caller).filter(|&cpu| self.allowed.is_some_and(|all| all.is_set(cpu)));
        if let Some(cpu) = cpu
            && binding.cpu != Some(cpu)
        {
            let mut only = CpuSet::new();
            only.set(cpu);
            binding.place(&only);
            binding.since = binding.cpu.is_none().then(Instant::now).or(binding.since);
            binding.cpu = Some(cpu);
            self.bound.store(true, Ordering::Relaxed);
        }
    }

    /// Lets the threads run on all CPUs again.
    fn end_run(&self) {
        self.run.store(0, Ordering::Relaxed);
        if !self.is_bound() {
            return;
        }
        let Some(mut binding) = self.binding.try_lock() else { return };
        if let (Some(_), Some(allowed)) = (binding.cpu.take(), &self.allowed) {
            binding.place(allowed);
            self.bound.store(false, Ordering::Relaxed);
        }
    }
}

impl Binding {
    fn place(&self, cpus: &CpuSet) {
        for &thread in &self.threads {
            // On failure the thread stays where it is, which is slower and not wrong.
            let _placed = sched_setaffinity(Some(thread), cpus);
        }
    }
}

fn a_wait_begins() {
    OWN.with_borrow(|own| own.iter().for_each(|own| own.end_run()));
}

/// The CPU on which a thread ran last.
fn cpu_of(thread: u32) -> Option<usize> {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    // Field 39; the second one is a name that may contain anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Opcode;
    use rustix::thread::sched_getcpu;
    use std::thread;

    /// A thread that has joined, and the CPUs that it is allowed.
    struct Joined {
        colocation: Arc<Colocation>,
        thread: Pid,
    }

    impl Joined {
        fn new() -> Self {
            let colocation = Arc::new(Colocation::new(Arc::new(IdlePolicy::new(true))));
            colocation.join();
            Self { colocation, thread: gettid() }
        }

        fn requests(&self, caller: Pid, opcode: Opcode, number: u32) {
            let pid = caller.as_raw_nonzero().get().cast_unsigned();
            let head = InHeader { pid, opcode: opcode as u32, ..Default::default() };
            (0..number).for_each(|_| self.colocation.count(&head));
        }

        fn cpus(&self) -> u32 {
            sched_getaffinity(Some(self.thread)).unwrap().count()
        }
    }

    #[test]
    fn threads_follow_a_caller_until_there_is_another_one_or_a_wait() {
        thread::spawn(|| {
            let joined = Joined::new();
            if !joined.colocation.policy.is_in_force() || joined.cpus() < 2 {
                return;
            }
            let all = joined.cpus();
            let own = gettid();
            let other = Pid::from_raw(1).unwrap();
            let bound_again = || {
                thread::sleep(INTERVAL);
                joined.requests(own, Opcode::Lookup, RUN + 1);
                assert_eq!((joined.cpus(), joined.colocation.is_bound()), (1, true));
            };
            joined.requests(own, Opcode::Lookup, RUN + 1);
            assert_eq!((joined.cpus(), joined.colocation.is_bound()), (1, true));
            assert!(sched_getaffinity(None).unwrap().is_set(sched_getcpu()), "bound to the caller's CPU");
            joined.requests(other, Opcode::Lookup, 1);
            assert_eq!((joined.cpus(), joined.colocation.is_bound()), (all, false));
            bound_again();
            joined.requests(own, Opcode::Fsync, 1);
            assert_eq!(joined.cpus(), all);
            bound_again();
            a_wait_begins();
            assert_eq!(joined.cpus(), all);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn requests_without_a_caller_do_not_count() {
        thread::spawn(|| {
            let joined = Joined::new();
            let head = InHeader { opcode: Opcode::Forget as u32, ..Default::default() };
            (0..2 * RUN).for_each(|_| joined.colocation.count(&head));
            assert!(!joined.colocation.is_bound());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_cpu_of_a_thread_is_found_and_that_of_none_is_not() {
        let own = gettid().as_raw_nonzero().get().cast_unsigned();
        assert!(cpu_of(own).is_some());
        assert_eq!(cpu_of(u32::MAX), None);
    }
}
