//! Which processor a thread runs on.
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The processor of the calling thread.
#[must_use]
pub fn processor() -> usize {
    sched_getcpu()
}

/// Keeps a thread off the processor of whom it works for. The scheduler would have it run there: a processor whose own
/// thread makes way for everybody seems to be free.
#[derive(Debug)]
pub struct Aside {
    /// Where the thread may run; `None` if that cannot be told or changed.
    all: Option<CpuSet>,
    /// The processor it is kept off.
    off: Option<usize>,
}

impl Aside {
    /// For the calling thread.
    #[must_use]
    pub fn new() -> Self {
        Self { all: sched_getaffinity(None).ok(), off: None }
    }

    /// The calling thread, which made this, keeps off `cpu` from now on, unless it may run nowhere else.
    pub fn keep_off(&mut self, cpu: usize) {
        if self.off == Some(cpu) {
            return;
        }
        self.off = Some(cpu);
        if let Some(mut others) = self.all
            && cpu < CpuSet::MAX_CPU
        {
            others.unset(cpu);
            if others.count() > 0 && sched_setaffinity(None, &others).is_err() {
                self.all = None;
            }
        }
    }
}

impl Default for Aside {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_kept_off_the_last_processor_that_was_named() {
        let all = sched_getaffinity(None).unwrap();
        let mut aside = Aside::new();
        for cpu in (0..CpuSet::MAX_CPU).filter(|&c| all.is_set(c)) {
            aside.keep_off(cpu);
            let now = sched_getaffinity(None).unwrap();
            if all.count() == 1 {
                assert_eq!(now, all);
            } else {
                assert_eq!((now.is_set(cpu), now.count()), (false, all.count() - 1));
                assert_ne!(processor(), cpu);
            }
        }
    }
}
