//! Short time slices for threads that serve requests. If other processes compute, the scheduler of Linux 6.12
//! and later runs a thread that wakes up first if its slice is the shorter one, and a request is served in a
//! fraction of it. With the usual slice each wakeup of an fsync waits until the slice of another process
//! ends, some milliseconds.
use std::io;

/// The shortest that the kernel has.
const SLICE_NS: u64 = 100_000;

/// The kernel's `struct sched_attr` in its first version.
#[repr(C)]
#[derive(Debug, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<SchedAttr>() as u32;

/// Gives the calling thread short slices. Earlier kernels ignore that.
pub(super) fn shorten() -> io::Result<()> {
    let mut attr = attributes()?;
    // The server changes no other policy: it may have a priority or a deadline.
    if attr.policy != libc::SCHED_OTHER.cast_unsigned() {
        return Ok(());
    }
    attr.runtime = SLICE_NS;
    // SAFETY: reads one structure of the given size through its pointer; 0 is the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn attributes() -> io::Result<SchedAttr> {
    let mut attr = SchedAttr { size: SIZE, ..SchedAttr::default() };
    // SAFETY: writes up to `SIZE` bytes through the pointer to a structure of that size; 0 is the calling thread.
    match unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, SIZE, 0) } {
        0 => Ok(attr),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_keeps_its_policy_and_nice_value_and_has_short_slices() {
        let (before, after) = thread::spawn(|| {
            let before = attributes().unwrap();
            shorten().unwrap();
            (before, attributes().unwrap())
        })
        .join()
        .unwrap();
        assert_eq!((after.policy, after.nice), (before.policy, before.nice));
        // Kernels without slices per thread report none.
        assert!(after.runtime == SLICE_NS || before.runtime == 0, "{after:?}");
    }
}
