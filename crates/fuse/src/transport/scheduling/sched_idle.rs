//! `SCHED_IDLE` for queue threads while they deliver a reply, so that the caller continues on the CPU it is on.
//!
//! The kernel wakes the caller while the queue thread still runs on the CPU that both share. If another CPU is idle, the
//! scheduler migrates the caller there, which costs more than a small request: the idle CPU has to be woken, in a virtual
//! machine through the hypervisor. The scheduler treats a CPU that runs only `SCHED_IDLE` threads as idle. A thread
//! therefore switches to this policy before it delivers a reply, and the caller is not migrated.
//!
//! Restoring the normal policy after each reply would cost as much as a small request, so a busy thread stays at
//! `SCHED_IDLE`. A thread of this policy should not hold locks while its CPU has other work. A watcher therefore restores
//! the normal policy of any thread that made no progress between two scans: it serves one long request or waits for the
//! next.
//!
//! On a CPU with other work a `SCHED_IDLE` thread waits for its turn. After a slow delivery all threads of the session
//! keep the normal policy for a while: a few milliseconds after a short delay, up to a minute on a loaded CPU.
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getpriority_process, getrlimit, setrlimit};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A delivery takes some microseconds unless the CPU is contended.
const SLOW_DELIVERY: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Interval between two scans of the watcher.
const SCAN_INTERVAL: Duration = Duration::from_millis(10);

/// State shared by the threads of a session. Concurrent updates of `paused_until` may overwrite each other: they
/// describe the same contention.
#[derive(Debug)]
pub(super) struct IdlePolicy {
    started: Instant,
    /// End of the pause, in microseconds from `started`.
    paused_until: AtomicU64,
    /// `None` if threads cannot switch policies.
    watcher: Option<Watcher>,
}

/// The threads that may run at `SCHED_IDLE`, and the thread that watches them.
#[derive(Debug)]
struct Watcher {
    threads: Arc<Threads>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Threads {
    /// Locked while the watcher changes a thread's policy, so that the thread exists.
    list: Mutex<Vec<Arc<ThreadState>>>,
    stopped: AtomicBool,
}

/// Scheduling state of one thread.
#[derive(Debug)]
struct ThreadState {
    thread: i32,
    /// Incremented when a request begins and when it ends.
    progress: AtomicU32,
    idle: AtomicBool,
}

impl IdlePolicy {
    /// `permitted`: threads may switch policies if they can.
    pub(super) fn new(permitted: bool) -> Self {
        // Tested on a new thread, as it may be unable to leave `SCHED_IDLE` again.
        let allowed = permitted && thread::spawn(can_switch_policy).join().unwrap_or(false);
        let watcher = if allowed { Watcher::start() } else { None };
        Self { started: Instant::now(), paused_until: AtomicU64::new(0), watcher }
    }

    /// Whether replies are delivered at `SCHED_IDLE` now.
    pub(super) fn is_in_force(&self) -> bool {
        self.watcher.is_some() && micros(self.started.elapsed()) >= self.paused_until.load(Ordering::Relaxed)
    }

    fn back_off(&self, now: Duration, elapsed: Duration) {
        self.paused_until.store(micros(now.saturating_add(pause(elapsed))), Ordering::Relaxed);
    }
}

/// Handle of the calling thread.
#[derive(Debug)]
pub(super) struct ReplyThread {
    shared: Arc<IdlePolicy>,
    state: Arc<ThreadState>,
}

impl ReplyThread {
    pub(super) fn new(shared: Arc<IdlePolicy>) -> Self {
        // SAFETY: takes no argument and returns the id of the calling thread.
        let thread = unsafe { libc::gettid() };
        let state =
            Arc::new(ThreadState { thread, progress: AtomicU32::new(0), idle: AtomicBool::new(false) });
        shared.watcher.iter().for_each(|w| w.threads.list.lock().push(state.clone()));
        Self { shared, state }
    }

    /// Serves one request, with its progress visible to the watcher.
    pub(super) fn serve<R>(&self, request: impl FnOnce() -> R) -> R {
        self.state.progress.fetch_add(1, Ordering::Relaxed);
        let done = request();
        self.state.progress.fetch_add(1, Ordering::Relaxed);
        done
    }

    /// Delivers a reply at `SCHED_IDLE` if that is possible. The policy stays in force after this returns.
    pub(super) fn deliver<R>(&self, submit: impl FnOnce() -> R) -> R {
        let (shared, state) = (&self.shared, &self.state);
        let Some(watcher) = &shared.watcher else { return submit() };
        let start = shared.started.elapsed();
        if micros(start) < shared.paused_until.load(Ordering::Relaxed) {
            self.restore();
            return submit();
        }
        if !state.idle.load(Ordering::Relaxed) {
            if set_policy(0, libc::SCHED_IDLE).is_err() {
                return submit();
            }
            state.idle.store(true, Ordering::Release);
            watcher.thread.unpark();
        }
        let done = submit();
        let now = shared.started.elapsed();
        let elapsed = now.saturating_sub(start);
        if elapsed >= SLOW_DELIVERY {
            self.restore();
            shared.back_off(now, elapsed);
        }
        done
    }

    /// Restores the normal policy.
    pub(super) fn restore(&self) {
        self.state.restore(0);
    }
}

impl Drop for ReplyThread {
    fn drop(&mut self) {
        let watcher = self.shared.watcher.iter();
        watcher.for_each(|w| w.threads.list.lock().retain(|s| !Arc::ptr_eq(s, &self.state)));
    }
}

impl ThreadState {
    /// `thread` is 0 for the calling thread.
    fn restore(&self, thread: i32) {
        if self.idle.load(Ordering::Acquire) {
            // `can_switch_policy` was true, so this does not fail.
            let _restored = set_policy(thread, libc::SCHED_OTHER);
            self.idle.store(false, Ordering::Release);
        }
    }
}

impl Watcher {
    fn start() -> Option<Self> {
        let threads = Arc::new(Threads::default());
        let watched = threads.clone();
        let watcher = thread::Builder::new().name("fuse-policy".to_owned()).spawn(move || watched.run());
        Some(Self { threads, thread: watcher.ok()?.thread().clone() })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.threads.stopped.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Threads {
    fn run(&self) {
        let mut previous = Vec::new();
        while !self.stopped.load(Ordering::Acquire) {
            let now = self.scan(&previous);
            // `deliver` unparks this thread when a thread switches to `SCHED_IDLE`.
            if now.is_empty() {
                thread::park();
            } else {
                thread::sleep(SCAN_INTERVAL);
            }
            previous = now;
        }
    }

    /// Returns the threads at `SCHED_IDLE` with their progress. Restores the policy of those without progress since the
    /// previous scan.
    fn scan(&self, previous: &[(i32, u32)]) -> Vec<(i32, u32)> {
        let list = self.list.lock();
        let mut now = Vec::new();
        for state in list.iter().filter(|s| s.idle.load(Ordering::Acquire)) {
            let seen = (state.thread, state.progress.load(Ordering::Relaxed));
            if previous.contains(&seen) {
                state.restore(state.thread);
            } else {
                now.push(seen);
            }
        }
        now
    }
}

/// Lets threads return from `SCHED_IDLE` to the normal policy without CAP_SYS_NICE, at the nice value of this process and no better one.
/// Returns whether they may: to raise the limit needs CAP_SYS_RESOURCE.
#[must_use]
pub fn permit_sched_idle() -> bool {
    let Ok(nice) = getpriority_process(None) else { return false };
    let needed = u64::try_from(20 - nice).unwrap_or_default();
    let now = getrlimit(Resource::Nice);
    let raised = |limit: Option<u64>| limit.map(|limit| limit.max(needed));
    let limits = Rlimit { current: raised(now.current), maximum: raised(now.maximum) };
    limits == now || setrlimit(Resource::Nice, limits).is_ok()
}

/// Grows with the square of the delay: 4 ms after 1 ms, the maximum after more than 0.1 s.
fn pause(elapsed: Duration) -> Duration {
    let delay = micros(elapsed);
    Duration::from_micros(delay.saturating_mul(delay) / 250).min(PAUSE_MAX)
}

fn micros(d: Duration) -> u64 {
    d.as_micros() as u64
}

/// Whether threads of this process have the normal policy and may return to it, which needs privileges.
fn can_switch_policy() -> bool {
    let normal = policy_of(0) == libc::SCHED_OTHER;
    normal && set_policy(0, libc::SCHED_IDLE).is_ok() && set_policy(0, libc::SCHED_OTHER).is_ok()
}

/// Policy of a thread; 0 is the calling thread. The functions of the C library are of processes, and in musl not implemented.
fn policy_of(thread: i32) -> libc::c_int {
    // SAFETY: reads the policy of a thread by its id.
    unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) as libc::c_int }
}

/// Sets the policy of a thread of this process; 0 is the calling thread.
fn set_policy(thread: i32, policy: libc::c_int) -> io::Result<()> {
    // The kernel's `struct sched_param`.
    let priority: libc::c_int = 0;
    // SAFETY: reads one integer through its pointer.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    /// A thread at `SCHED_IDLE`, or `None` if policies cannot be switched. Retries, as a delivery may be slow by chance.
    fn idle_thread() -> Option<ReplyThread> {
        let replies = ReplyThread::new(Arc::new(IdlePolicy::new(true)));
        replies.shared.watcher.as_ref()?;
        let started = Instant::now();
        while replies.deliver(|| policy_of(0)) != libc::SCHED_IDLE {
            assert!(started.elapsed() < DEADLINE);
        }
        Some(replies)
    }

    #[test]
    fn a_delivery_is_idle_unless_one_was_slow() {
        let Some(replies) = idle_thread() else { return };
        replies.deliver(|| thread::sleep(SLOW_DELIVERY));
        assert_eq!(policy_of(0), libc::SCHED_OTHER);
        assert_eq!(replies.deliver(|| policy_of(0)), libc::SCHED_OTHER);
    }

    #[test]
    fn a_long_request_restores_the_normal_policy() {
        let Some(replies) = idle_thread() else { return };
        let started = Instant::now();
        replies.serve(|| {
            while policy_of(0) != libc::SCHED_OTHER {
                assert!(started.elapsed() < DEADLINE, "the watcher does not restore the policy");
            }
        });
    }

    #[test]
    fn an_idle_wait_restores_the_normal_policy() {
        let Some(replies) = idle_thread() else { return };
        let (thread, started) = (replies.state.thread, Instant::now());
        let other = thread::spawn(move || {
            while policy_of(thread) != libc::SCHED_OTHER {
                assert!(started.elapsed() < DEADLINE, "the watcher does not restore the policy");
                thread::yield_now();
            }
        });
        other.join().unwrap();
        replies.restore();
        assert!(!replies.state.idle.load(Ordering::Relaxed));
    }

    #[test]
    fn an_ended_thread_is_not_watched() {
        let shared = Arc::new(IdlePolicy::new(true));
        let replies = ReplyThread::new(shared.clone());
        drop(replies);
        assert!(shared.watcher.iter().all(|w| w.threads.list.lock().is_empty()));
    }

    #[test]
    fn pauses_grow_with_the_delay() {
        let ms = Duration::from_millis;
        for (delay, expected) in [(1, 4), (5, 100), (30, 3600), (256, 60_000), (u64::MAX / 2000, 60_000)] {
            assert_eq!(pause(ms(delay)), ms(expected), "{delay} ms");
        }
        let shared = IdlePolicy::new(true);
        shared.back_off(ms(100), ms(5));
        assert_eq!(shared.paused_until.load(Ordering::Relaxed), 200_000);
    }
}
