//! Where a queue thread runs. It waits for requests on the CPU of its queue, as then the caller need not wake another
//! one. While it waits for a device it may be anywhere: the CPU that learns of the end carries on and has not to
//! wake another either, which in a virtual machine takes as long as a fast disk. The caller follows it there. A thread
//! that comes back from a wait where it was stays at home for a while.
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use segno_device::before_waits;
use std::cell::Cell;

/// Requests that are served at home when leaving it was of no use.
const STAY: u32 = 64;

thread_local! {
    /// The CPUs of this process, while its thread is bound to one of them.
    static ABROAD: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

/// The CPU of the calling thread's queue.
#[derive(Debug)]
pub struct Home {
    cpu: u16,
    /// Known if the thread can be bound.
    abroad: Option<CpuSet>,
    /// Requests until it may leave again.
    stay: u32,
}

impl Home {
    /// Binds the calling thread. A CPU that is offline has no callers; its queue is served from anywhere.
    pub fn on(cpu: u16) -> Self {
        let mut it = Self { cpu, abroad: sched_getaffinity(None).ok(), stay: 0 };
        it.bind();
        before_waits(it.abroad.map(|_| leave as fn()));
        it
    }

    /// Whether the thread left for a wait since it was bound.
    pub fn is_left(&self) -> bool {
        self.abroad.is_some() && ABROAD.get().is_none()
    }

    /// Comes back.
    pub fn enter(&mut self) {
        if sched_getcpu() == usize::from(self.cpu) {
            self.stay = STAY;
            before_waits(None);
        }
        self.bind();
    }

    /// Another request at home.
    pub fn stayed(&mut self) {
        if self.stay > 0 {
            self.stay -= 1;
            if self.stay == 0 {
                before_waits(Some(leave));
            }
        }
    }

    fn bind(&mut self) {
        let mut home = CpuSet::new();
        home.set(self.cpu.into());
        if sched_setaffinity(None, &home).is_err() {
            self.abroad = None;
        }
        ABROAD.set(self.abroad);
    }
}

/// Lets the calling thread run anywhere.
fn leave() {
    if let Some(cpus) = ABROAD.take() {
        // Where it may not, it goes on as it is.
        let _left = sched_setaffinity(None, &cpus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus() -> u32 {
        sched_getaffinity(None).unwrap().count()
    }

    #[test]
    fn a_wait_may_end_anywhere_and_one_that_ends_at_home_is_not_left_for_again() {
        let all = cpus();
        let cpu = sched_getcpu() as u16;
        let mut home = Home::on(cpu);
        assert_eq!((cpus(), home.is_left()), (1, false));
        leave();
        assert_eq!((cpus(), home.is_left()), (all, true));
        home.enter();
        assert_eq!((cpus(), home.is_left()), (1, false));
        (0..STAY).for_each(|_| home.stayed());
        assert_eq!(home.stay, 0);
        leave();
        assert_eq!(cpus(), all);
    }
}
