//! How a queue thread makes way for the caller whose reply it hands over.
//!
//! The kernel wakes the caller while the thread still runs on the CPU that both use. With another CPU idle the scheduler
//! moves the caller there, which costs more than the whole request: that CPU has to be woken, in a virtual machine by way
//! of the hypervisor. A CPU that has only `SCHED_IDLE` threads to run counts as idle, however. So a thread takes this
//! policy while it hands over, and the caller goes on where it is.
//!
//! Where the CPU has other work, a thread of this policy waits for it. When that was noticed, all threads of the session
//! do without for a while: hardly any for a short burst of some other thread, a minute where somebody computes.
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A hand-over takes some microseconds, unless somebody else wants the CPU.
const SLOW: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// See the module. Shared by the threads of a session, which may overwrite each other's notes: they are about the same
/// thing at the same time.
#[derive(Debug)]
pub struct Way {
    allowed: bool,
    begun: Instant,
    /// Microseconds from `begun`: when the pause ends.
    again: AtomicU64,
}

impl Way {
    pub fn new() -> Self {
        // A thread that cannot return is of no use any more, so one is spent on the question.
        let allowed = std::thread::spawn(may_come_and_go).join().unwrap_or(false);
        Self { allowed, begun: Instant::now(), again: AtomicU64::new(0) }
    }

    /// Hands over.
    pub fn make<R>(&self, hand_over: impl FnOnce() -> R) -> R {
        if !self.allowed {
            return hand_over();
        }
        let start = self.begun.elapsed();
        if micros(start) < self.again.load(Ordering::Relaxed) || set_policy(libc::SCHED_IDLE).is_err() {
            return hand_over();
        }
        let done = hand_over();
        // Every thread of this process may.
        let _returned = set_policy(libc::SCHED_OTHER);
        let now = self.begun.elapsed();
        let took = now.saturating_sub(start);
        if took >= SLOW {
            self.rest(now, took);
        }
        done
    }

    fn rest(&self, now: Duration, took: Duration) {
        self.again.store(micros(now.saturating_add(pause(took))), Ordering::Relaxed);
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
    // SAFETY: asks for the policy of the calling thread.
    let usual = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
    usual && set_policy(libc::SCHED_IDLE).is_ok() && set_policy(libc::SCHED_OTHER).is_ok()
}

/// Of the calling thread.
fn set_policy(policy: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: reads one structure through its pointer; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: asks for the policy of the calling thread.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_hand_over_is_idle_and_what_follows_is_not() {
        let way = Way::new();
        let during = way.make(policy);
        assert_eq!(during == libc::SCHED_IDLE, way.allowed);
        assert_eq!(policy(), libc::SCHED_OTHER);
        // Somebody else had the CPU.
        way.make(|| std::thread::sleep(SLOW));
        assert_eq!(way.make(policy), libc::SCHED_OTHER);
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
