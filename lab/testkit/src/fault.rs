//! Fails calls according to a plan.
use crate::rng::Rng;
use crate::window::FlushRegion;
use parking_lot::Mutex;
use rustix::io::Errno;
use segno_device::BlockDevice;
use segno_format::Block;
use std::io;
use std::ops::Range;

/// Which calls a fault counts. A write with FUA is a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCall {
    Any,
    Read,
    Write,
    Flush,
    Discard,
}

/// The result of a failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// EIO.
    Io,
    /// ENOSPC, as from a sparse image on a full file system.
    NoSpace,
    /// EIO after the first half of the blocks was read or written.
    Short,
}

impl From<FaultError> for io::Error {
    fn from(error: FaultError) -> Self {
        match error {
            FaultError::Io | FaultError::Short => Errno::IO,
            FaultError::NoSpace => Errno::NOSPC,
        }
        .into()
    }
}

/// One planned failure. Except for [`FaultError::Short`] the call does not reach the wrapped device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub call: FaultCall,
    /// The first to fail, counted from 0 when the plan was made.
    pub nth: u64,
    pub error: FaultError,
    /// Whether all later calls of this kind fail too.
    pub lasting: bool,
}

impl Fault {
    /// `faults` failures drawn from `seed`, within the first `calls` calls.
    #[must_use]
    pub fn draw(seed: u64, faults: usize, calls: u64) -> Vec<Self> {
        let mut rng = Rng::new(seed);
        let mut one = || Self {
            call: FaultCall::Any,
            nth: rng.below(calls),
            error: if rng.below(4) == 0 { FaultError::NoSpace } else { FaultError::Io },
            lasting: rng.below(4) == 0,
        };
        (0..faults).map(|_| one()).collect()
    }
}

/// Fails the planned calls and forwards the rest.
#[derive(Debug)]
pub struct FaultDevice<D> {
    inner: D,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// Each fault with the number of matching calls so far.
    plan: Vec<(Fault, u64)>,
    calls: u64,
    failed: u64,
}

impl<D: BlockDevice> FaultDevice<D> {
    pub fn new(inner: D, plan: Vec<Fault>) -> Self {
        Self { inner, progress: Mutex::new(Progress::new(plan)) }
    }

    /// The wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Replaces the plan; all counts start again at 0.
    pub fn set_plan(&self, plan: Vec<Fault>) {
        *self.progress.lock() = Progress::new(plan);
    }

    /// Calls of all kinds since the plan was set. With an empty plan this is the number of points where a fault can occur.
    pub fn calls(&self) -> u64 {
        self.progress.lock().calls
    }

    /// Calls that failed since the plan was set.
    pub fn failed(&self) -> u64 {
        self.progress.lock().failed
    }

    fn fails(&self, call: FaultCall) -> Option<FaultError> {
        self.progress.lock().fails(call)
    }

    fn pass(&self, call: FaultCall) -> io::Result<()> {
        self.fails(call).map_or(Ok(()), |error| Err(error.into()))
    }

    /// Forwards a write, or the part that the fault leaves of it.
    fn pass_write(&self, blocks: &[&Block], write: impl Fn(&[&Block]) -> io::Result<()>) -> io::Result<()> {
        let Some(error) = self.fails(FaultCall::Write) else { return write(blocks) };
        match blocks.get(..blocks.len() / 2) {
            Some(half) if error == FaultError::Short && !half.is_empty() => write(half)?,
            _ => {}
        }
        Err(error.into())
    }
}

impl Progress {
    fn new(plan: Vec<Fault>) -> Self {
        Self { plan: plan.into_iter().map(|f| (f, 0)).collect(), calls: 0, failed: 0 }
    }

    fn fails(&mut self, call: FaultCall) -> Option<FaultError> {
        self.calls += 1;
        let mut error = None;
        for (fault, seen) in self.plan.iter_mut().filter(|(f, _)| f.call == call || f.call == FaultCall::Any)
        {
            if *seen == fault.nth || (fault.lasting && *seen > fault.nth) {
                error.get_or_insert(fault.error);
            }
            *seen += 1;
        }
        if error.is_some() {
            self.failed += 1;
        }
        error
    }
}

impl<D: BlockDevice> BlockDevice for FaultDevice<D> {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        let Some(error) = self.fails(FaultCall::Read) else { return self.inner.read(addr, into) };
        let half = into.len() / 2;
        match into.get_mut(..half) {
            Some(half) if error == FaultError::Short && !half.is_empty() => self.inner.read(addr, half)?,
            _ => {}
        }
        Err(error.into())
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.pass_write(blocks, |part| self.inner.write(addr, part))
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.pass_write(blocks, |part| self.inner.write_fua(addr, part))
    }

    fn flush(&self) -> io::Result<()> {
        self.pass(FaultCall::Flush)?;
        self.inner.flush()
    }

    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.pass(FaultCall::Discard)?;
        self.inner.discard(addr, count)
    }

    fn read_only(&self) -> bool {
        self.inner.read_only()
    }
}

impl<D: FlushRegion> FlushRegion for FaultDevice<D> {
    fn flush_region(&self, blocks: Range<u64>) -> io::Result<()> {
        self.pass(FaultCall::Flush)?;
        self.inner.flush_region(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{compare_with_array, gathered, read};
    use segno_device::MemDevice;

    /// Makes a write, a read, a FUA write, a flush and a discard, twice; returns which failed.
    fn run(device: &dyn BlockDevice) -> Vec<Option<i32>> {
        let calls: [&dyn Fn() -> io::Result<()>; 5] = [
            &|| gathered(&[1], |b| device.write(0, b)),
            &|| device.read(0, &mut [Block::zeroed()]),
            &|| gathered(&[2], |b| device.write_fua(1, b)),
            &|| device.flush(),
            &|| device.discard(2, 1),
        ];
        let errno = |r: io::Result<()>| r.err().map(|e| e.raw_os_error().unwrap());
        calls.iter().chain(&calls).map(|call| errno(call())).collect()
    }

    fn failures(plan: Vec<Fault>) -> Vec<usize> {
        let device = FaultDevice::new(MemDevice::new(4), plan);
        let failed: Vec<usize> = (0..).zip(run(&device)).filter_map(|(i, e)| e.map(|_| i)).collect();
        assert_eq!((device.calls(), device.failed()), (10, failed.len() as u64));
        failed
    }

    fn fault(call: FaultCall, nth: u64, lasting: bool) -> Fault {
        Fault { call, nth, error: FaultError::Io, lasting }
    }

    #[test]
    fn each_kind_of_call_is_counted_by_itself() {
        assert_eq!(failures(vec![]), [0; 0]);
        assert_eq!(failures(vec![fault(FaultCall::Write, 1, false)]), [2]);
        assert_eq!(failures(vec![fault(FaultCall::Write, 1, true)]), [2, 5, 7]);
        assert_eq!(failures(vec![fault(FaultCall::Read, 1, false)]), [6]);
        assert_eq!(failures(vec![fault(FaultCall::Flush, 0, true)]), [3, 8]);
        assert_eq!(failures(vec![fault(FaultCall::Discard, 1, false)]), [9]);
        assert_eq!(failures(vec![fault(FaultCall::Any, 7, true)]), [7, 8, 9]);
        assert_eq!(failures(vec![fault(FaultCall::Any, 7, false), fault(FaultCall::Read, 0, false)]), [1, 7]);
    }

    #[test]
    fn a_failed_call_does_nothing_and_says_what_was_planned() {
        let no_space = Fault { error: FaultError::NoSpace, ..fault(FaultCall::Write, 0, false) };
        let device = FaultDevice::new(MemDevice::new(4), vec![no_space, fault(FaultCall::Flush, 0, false)]);
        let errnos = run(&device);
        assert_eq!(errnos[0], Some(Errno::NOSPC.raw_os_error()));
        assert_eq!(errnos[3], Some(Errno::IO.raw_os_error()));
        device.set_plan(vec![fault(FaultCall::Write, 0, true)]);
        gathered(&[9, 9, 9], |b| device.write(0, b)).unwrap_err();
        gathered(&[9, 9, 9], |b| device.write_fua(0, b)).unwrap_err();
        assert_eq!(read(device.inner(), 0, 3), [1, 2, 0]);
    }

    #[test]
    fn a_short_write_leaves_its_first_half() {
        let short = |call| Fault { call, nth: 0, error: FaultError::Short, lasting: false };
        let device = FaultDevice::new(MemDevice::new(4), vec![short(FaultCall::Write)]);
        let e = gathered(&[1, 2, 3, 4], |b| device.write(0, b)).unwrap_err();
        assert_eq!(e.raw_os_error(), Some(Errno::IO.raw_os_error()));
        assert_eq!(read(device.inner(), 0, 4), [1, 2, 0, 0]);
        device.set_plan(vec![short(FaultCall::Read)]);
        let mut blocks = vec![Block::zeroed(); 4];
        device.read(0, &mut blocks).unwrap_err();
        assert_eq!(blocks.iter().map(|b| b.0[0]).collect::<Vec<_>>(), [1, 2, 0, 0]);
    }

    #[test]
    fn a_drawn_plan_follows_from_its_seed() {
        assert_eq!(Fault::draw(1, 50, 10), Fault::draw(1, 50, 10));
        assert_ne!(Fault::draw(1, 50, 10), Fault::draw(2, 50, 10));
        assert!(Fault::draw(3, 50, 10).iter().all(|f| f.nth < 10));
    }

    #[test]
    fn passes_everything_on() {
        compare_with_array(
            &FaultDevice::new(MemDevice::new(20), vec![]),
            &[(0, 1, 9, 1), (1, 5, 9, 2), (2, 3, 4, 0), (3, 0, 0, 0), (0, 19, 2, 1)],
        );
    }
}
