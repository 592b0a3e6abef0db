//! How a queue thread makes way for the caller whose reply it hands over.
//!
//! The kernel wakes the caller while the thread still runs on the CPU that both use. With another CPU idle the scheduler
//! moves the caller there, which costs more than the whole request: that CPU has to be woken, in a virtual machine by way
//! of the hypervisor. A CPU that has only `SCHED_IDLE` threads to run counts as idle, however. So a thread takes this
//! policy while it hands over, and the caller goes on where it is.
//!
//! Coming back to the usual policy after each reply would cost as much again as a small request does, so a thread of which
//! one request after the other is asked keeps `SCHED_IDLE`. That is no policy to hold locks with where the CPU has other
//! work, so a watcher gives the usual one back to a thread that serves the same request from one look to the next, or
//! that nothing is asked of.
//!
//! Where the CPU has other work, a thread of this policy waits for it. When that was noticed, all threads of the session
//! do without for a while: hardly any for a short burst of some other thread, a minute where somebody computes.
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A hand-over takes some microseconds, unless somebody else wants the CPU.
const SLOW: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Between two looks of the watcher.
const WATCH: Duration = Duration::from_millis(10);

/// See the module. Shared by the threads of a session, which may overwrite each other's notes: they are about the same
/// thing at the same time.
#[derive(Debug)]
pub struct Way {
    begun: Instant,
    /// Microseconds from `begun`: when the pause ends.
    again: AtomicU64,
    /// `None` where threads may not come and go.
    watch: Option<Watch>,
}

/// The threads that may be of the idle policy, and who looks after them.
#[derive(Debug)]
struct Watch {
    threads: Arc<Threads>,
    watcher: Thread,
}

#[derive(Debug, Default)]
struct Threads {
    /// Locked while a thread's policy is changed from outside, so that the thread is there.
    list: Mutex<Vec<Arc<State>>>,
    over: AtomicBool,
}

/// What is known of a thread.
#[derive(Debug)]
struct State {
    thread: i32,
    /// Moves when a request begins and when it ends.
    turns: AtomicU32,
    idle: AtomicBool,
}

impl Way {
    pub fn new() -> Self {
        // A thread that cannot return is of no use any more, so one is spent on the question.
        let allowed = thread::spawn(may_come_and_go).join().unwrap_or(false);
        let watch = if allowed { Watch::begin() } else { None };
        Self { begun: Instant::now(), again: AtomicU64::new(0), watch }
    }

    fn rest(&self, now: Duration, took: Duration) {
        self.again.store(micros(now.saturating_add(pause(took))), Ordering::Relaxed);
    }
}

/// The calling thread as one that hands over replies.
#[derive(Debug)]
pub struct Place {
    way: Arc<Way>,
    state: Arc<State>,
}

impl Place {
    pub fn new(way: Arc<Way>) -> Self {
        // SAFETY: asks for the number of the calling thread.
        let thread = unsafe { libc::gettid() };
        let state = Arc::new(State { thread, turns: AtomicU32::new(0), idle: AtomicBool::new(false) });
        way.watch.iter().for_each(|w| w.threads.lock().push(state.clone()));
        Self { way, state }
    }

    /// Carries a request out.
    pub fn serve<R>(&self, request: impl FnOnce() -> R) -> R {
        self.state.turns.fetch_add(1, Ordering::Relaxed);
        let done = request();
        self.state.turns.fetch_add(1, Ordering::Relaxed);
        done
    }

    /// Hands a reply over. What follows is done with the policy that this leaves.
    pub fn make<R>(&self, hand_over: impl FnOnce() -> R) -> R {
        let (way, state) = (&self.way, &self.state);
        let Some(watch) = &way.watch else { return hand_over() };
        let start = way.begun.elapsed();
        if micros(start) < way.again.load(Ordering::Relaxed) {
            self.stand();
            return hand_over();
        }
        if !state.idle.load(Ordering::Relaxed) {
            if set_policy(0, libc::SCHED_IDLE).is_err() {
                return hand_over();
            }
            state.idle.store(true, Ordering::Release);
            watch.watcher.unpark();
        }
        let done = hand_over();
        let now = way.begun.elapsed();
        let took = now.saturating_sub(start);
        if took >= SLOW {
            self.stand();
            way.rest(now, took);
        }
        done
    }

    /// Returns to the usual policy.
    pub fn stand(&self) {
        self.state.stand(0);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let watch = self.way.watch.iter();
        watch.for_each(|w| w.threads.lock().retain(|s| !Arc::ptr_eq(s, &self.state)));
    }
}

impl State {
    /// `thread` is 0 for the calling one.
    fn stand(&self, thread: i32) {
        if self.idle.load(Ordering::Acquire) {
            // Every thread of this process may.
            let _returned = set_policy(thread, libc::SCHED_OTHER);
            self.idle.store(false, Ordering::Release);
        }
    }
}

impl Watch {
    fn begin() -> Option<Self> {
        let threads = Arc::new(Threads::default());
        let watched = threads.clone();
        let watcher = thread::Builder::new().name("fuse-way".to_owned()).spawn(move || watched.watch());
        Some(Self { threads, watcher: watcher.ok()?.thread().clone() })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.threads.over.store(true, Ordering::Release);
        self.watcher.unpark();
    }
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<State>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) {
        let mut before = Vec::new();
        while !self.over.load(Ordering::Acquire) {
            let now = self.look(&before);
            // Who becomes idle while nobody is says so.
            if now.is_empty() {
                thread::park();
            } else {
                thread::sleep(WATCH);
            }
            before = now;
        }
    }

    /// The idle threads, each with its turns; one that has not moved since it was seen before returns.
    fn look(&self, before: &[(i32, u32)]) -> Vec<(i32, u32)> {
        let list = self.lock();
        let mut now = Vec::new();
        for state in list.iter().filter(|s| s.idle.load(Ordering::Acquire)) {
            let seen = (state.thread, state.turns.load(Ordering::Relaxed));
            if before.contains(&seen) {
                state.stand(state.thread);
            } else {
                now.push(seen);
            }
        }
        now
    }
}

/// Four milliseconds for one that was lost, a minute for more than a tenth of a second.
fn pause(took: Duration) -> Duration {
    let lost = micros(took);
    Duration::from_micros(lost.saturating_mul(lost) / 250).min(PAUSE_MAX)
}

fn micros(d: Duration) -> u64 {
    d.as_micros() as u64
}

/// Whether threads of this process have the usual policy and may return to it, which takes root.
fn may_come_and_go() -> bool {
    let usual = policy_of(0) == libc::SCHED_OTHER;
    usual && set_policy(0, libc::SCHED_IDLE).is_ok() && set_policy(0, libc::SCHED_OTHER).is_ok()
}

/// Of a thread; 0 is the calling one.
fn policy_of(thread: i32) -> libc::c_int {
    // SAFETY: asks for the policy of a thread.
    unsafe { libc::sched_getscheduler(thread) }
}

/// Of a thread of this process; 0 is the calling one.
fn set_policy(thread: i32, policy: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: reads one structure through its pointer.
    match unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Duration = Duration::from_secs(20);

    /// Where threads may come and go; a hand-over may have been slow by chance, so it is repeated.
    fn idle_place() -> Option<Place> {
        let place = Place::new(Arc::new(Way::new()));
        place.way.watch.as_ref()?;
        let begun = Instant::now();
        while place.make(|| policy_of(0)) != libc::SCHED_IDLE {
            assert!(begun.elapsed() < LATE);
        }
        Some(place)
    }

    #[test]
    fn a_hand_over_is_idle_unless_one_was_slow() {
        let Some(place) = idle_place() else { return };
        place.make(|| thread::sleep(SLOW));
        assert_eq!(policy_of(0), libc::SCHED_OTHER);
        assert_eq!(place.make(|| policy_of(0)), libc::SCHED_OTHER);
    }

    #[test]
    fn who_serves_long_returns_to_the_usual_policy() {
        let Some(place) = idle_place() else { return };
        let begun = Instant::now();
        place.serve(|| {
            while policy_of(0) != libc::SCHED_OTHER {
                assert!(begun.elapsed() < LATE, "the watcher does not help");
            }
        });
    }

    #[test]
    fn who_waits_returns_to_the_usual_policy() {
        let Some(place) = idle_place() else { return };
        let (thread, begun) = (place.state.thread, Instant::now());
        let other = thread::spawn(move || {
            while policy_of(thread) != libc::SCHED_OTHER {
                assert!(begun.elapsed() < LATE, "the watcher does not help");
                thread::yield_now();
            }
        });
        other.join().unwrap();
        place.stand();
        assert!(!place.state.idle.load(Ordering::Relaxed));
    }

    #[test]
    fn a_thread_that_left_is_not_watched() {
        let way = Arc::new(Way::new());
        let place = Place::new(way.clone());
        drop(place);
        assert!(way.watch.iter().all(|w| w.threads.lock().is_empty()));
    }

    #[test]
    fn pauses_grow_with_what_was_lost() {
        let ms = Duration::from_millis;
        for (lost, rest) in [(1, 4), (5, 100), (30, 3600), (256, 60_000), (u64::MAX / 2000, 60_000)] {
            assert_eq!(pause(ms(lost)), ms(rest), "{lost} ms");
        }
        let way = Way::new();
        way.rest(ms(100), ms(5));
        assert_eq!(way.again.load(Ordering::Relaxed), 200_000);
    }
}
